//! The command line.
use crate::client;
use crate::kinds::{Kind, UPDATES, USUAL};
use crate::play::Wanted;
use crate::rehearse::MachineArgs;
use crate::setting::Setting;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use tanist_e2e::cache;

/// Loses PostgreSQL's primary again and again, and judges what was promised. It needs a cluster of four nodes of its own, which it takes apart:
/// CLUSTER=chaos NODES=4 dev/cluster up
#[derive(Debug, Parser)]
#[command(name = "chaos", args_conflicts_with_subcommands = true)]
pub struct Args {
    /// What runs on nodes and machines; started by the program itself.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How many rounds.
    #[arg(default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// What happens in them, in turn: LOSS[+BESIDE...],... (docs/chaos.md).
    #[arg(long, value_delimiter = ',', default_value = USUAL)]
    kinds: Vec<Kind>,
    /// The template changes instead, with and without what else happens: six kinds of rounds, in turn.
    #[arg(long, conflicts_with = "kinds")]
    updates: bool,
    /// What the group promises: required, remote-apply, preferred, async, async-freshest.
    #[arg(long, default_value = "required", value_parser = Setting::named)]
    setting: Setting,
    /// The folder with the images of operator and application.
    #[arg(long)]
    images: Option<PathBuf>,
    /// Where the figures go.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Another image of the operator.
    #[arg(long)]
    operator: Option<String>,
    /// An archive to be loaded beside.
    #[arg(long)]
    load: Vec<PathBuf>,
    /// Every setting under the faults in which they differ, as a table.
    #[arg(long, group = "mode")]
    pub settings: bool,
    /// Builds operators with a rule disabled; ends well only if the judge notices each.
    #[arg(long, group = "mode")]
    pub broken: bool,
    /// Clients and judge against real servers, without Kubernetes: a minute, as root.
    #[arg(long, group = "mode")]
    pub rehearse: bool,
    /// Only tries whether each check finds what it is there for.
    #[arg(long, group = "mode")]
    pub judge: bool,
    /// The cluster, by its name.
    #[arg(long, env = "CLUSTER", default_value = "chaos", hide = true)]
    pub cluster: String,
    /// A group of two instead of three.
    #[arg(long, env = "MEMBERS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=3), hide = true)]
    members: u32,
    /// As many operators as deploy/default has. A single one that is killed again and again is started anew by its kubelet after 10, 20, 40, 80 s.
    #[arg(long, env = "OPERATORS", default_value_t = 2, hide = true)]
    operators: u32,
}

/// What runs elsewhere.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Clients on a node.
    #[command(hide = true)]
    Client(client::Args),
    /// Who sees a server's end.
    #[command(hide = true)]
    Witness(client::WitnessArgs),
    /// A machine of the rehearsal.
    #[command(hide = true)]
    Machine(MachineArgs),
}

impl Args {
    /// Where the images are.
    pub fn images(&self) -> PathBuf {
        self.images.clone().unwrap_or_else(|| cache().join("images"))
    }

    /// Where the figures go.
    pub fn json(&self) -> PathBuf {
        self.json.clone().unwrap_or_else(|| cache().join("chaos/latest.json"))
    }

    /// The run that is wanted.
    ///
    /// # Errors
    /// When a broken setting was named.
    pub fn wanted(&self) -> anyhow::Result<Wanted> {
        Ok(Wanted {
            rounds: self.rounds.into(),
            kinds: if self.updates {
                UPDATES.split(',').map(str::parse).collect::<Result<_, _>>()?
            } else {
                self.kinds.clone()
            },
            setting: self.setting,
            members: self.members,
            operators: self.operators,
            images: self.images(),
            operator: self.operator.clone(),
            load: self.load.clone(),
            json: self.json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn a_run_is_described_as_documents_do() {
        Args::command().debug_assert();
        let args = Args::parse_from(["chaos", "--kinds", "process+lag,partition", "--json", "out.json", "4"]);
        let wanted = args.wanted().unwrap();
        assert_eq!((wanted.rounds, wanted.kinds.len(), wanted.setting.name), (4, 2, "required"));
        assert_eq!(Args::parse_from(["chaos"]).kinds.len(), 20);
        assert_eq!(Args::parse_from(["chaos", "--updates"]).wanted().unwrap().kinds.len(), 6);
        let client = Args::parse_from(["chaos", "client", "/tools", "look:look-1"]);
        assert!(matches!(client.command, Some(Command::Client(_))));
        for wrong in [
            &["chaos", "0"][..],
            &["chaos", "--kinds", "proces"],
            &["chaos", "--broken", "--judge"],
            &["chaos", "--updates", "--kinds", "pod"],
        ] {
            assert!(Args::try_parse_from(wrong).is_err(), "{wrong:?}");
        }
    }
}
