//! The clients that run on one node: in its network, by its routes, and gone when it loses its power. Each writes what it learned to the standard output,
//! as lines of [`crate::journal`].
//!
//! A psql that lives on costs next to nothing, a new one some 30 ms of processor. So sessions are used again: through a Service for some operations,
//! since each new connection is a question of routing, too; to a member until it breaks.
mod operations;
mod session;
mod tasks;
mod witness;

pub use operations::now as micros;
pub use witness::{Args as WitnessArgs, witness};

use anyhow::{Result, bail};
use std::path::PathBuf;
use std::str::FromStr;

/// Clients on one node.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A root file system with psql.
    pub tools: PathBuf,
    /// The clients to run, each as `KIND:NAME[:HOST]`; at least one.
    #[arg(required = true)]
    pub clients: Vec<Client>,
}

/// A client, read from one argument of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its name in the journal.
    pub name: String,
    /// What it does.
    pub kind: Kind,
}

/// What a client does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Writes and reads through the Service of the primary.
    Rw(String),
    /// Asks whom the one of the secondaries leads to.
    Ro(String),
    /// Writes and reads on a member by its own name.
    Direct(String),
    /// The same on the member on this node, from inside its pod's network: no link is needed.
    Beside,
    /// Only looks at that member, all the time.
    Look,
    /// Makes it wait for standbys only while there are some, as an administrator's script may do.
    Prefer,
}

impl FromStr for Client {
    type Err = anyhow::Error;

    /// `rw:NAME:HOST`, `ro:NAME:HOST`, `direct:NAME:HOST`, `beside:NAME`, `look:NAME`, `prefer:NAME`.
    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.splitn(3, ':').collect();
        let (name, kind) = match words[..] {
            ["rw", name, host] => (name, Kind::Rw(host.into())),
            ["ro", name, host] => (name, Kind::Ro(host.into())),
            ["direct", name, host] => (name, Kind::Direct(host.into())),
            ["beside", name] => (name, Kind::Beside),
            ["look", name] => (name, Kind::Look),
            ["prefer", name] => (name, Kind::Prefer),
            _ => bail!("no such client: {text}"),
        };
        Ok(Client { name: name.into(), kind })
    }
}

/// Runs them until the process is ended.
///
/// # Errors
/// When none can run.
pub fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let all: Vec<_> =
            args.clients.iter().map(|client| tokio::spawn(tasks::live(client.clone(), args.tools.clone()))).collect();
        for one in all {
            one.await?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_the_host_that_its_kind_needs() {
        let rw: Client = "rw:rw-node1:10.0.0.1".parse().unwrap();
        assert_eq!(rw, Client { name: "rw-node1".into(), kind: Kind::Rw("10.0.0.1".into()) });
        assert_eq!("look:look-1".parse::<Client>().unwrap().kind, Kind::Look);
        for wrong in ["rw:rw", "look:a:b", "other:x"] {
            assert!(wrong.parse::<Client>().is_err(), "{wrong}");
        }
    }
}
