//! What people type: `tanist status`, `explain`, `switchover`, `pause`, `resume`, `retry`; as `kubectl tanist` when the binary is called
//! `kubectl-tanist`. Everything that is shown comes from the group's object; everything that is done is a change of it.
mod explain;
mod switchover;
mod table;

use crate::api::{ANNOTATION_RETRY, ReplicaGroup};
use anyhow::{Context, bail};
use clap::{CommandFactory, ValueEnum};
use kube::api::{ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Which group, and how to reach it.
#[derive(Debug, Clone, clap::Args)]
pub struct Reach {
    /// The namespace; default: that of the kubeconfig's context.
    #[arg(long, short, global = true)]
    pub namespace: Option<String>,
    /// The kubeconfig; default: $KUBECONFIG, else ~/.kube/config, else the pod's own account.
    #[arg(long, global = true)]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, global = true)]
    pub context: Option<String>,
}

/// How something is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// What people ask for.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Ask {
    /// Show groups: ready, primary, members, policy, term.
    Status {
        /// The group; all of the namespace without it.
        group: Option<String>,
        /// How it is shown.
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Explain a group: members, commands under way, what is awaited, the last decisions with everyone's reason.
    Explain {
        /// The group.
        group: String,
        /// How it is shown.
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Let another member lead: only one that has everything the primary has. Nothing is stopped before.
    Switchover {
        /// The group.
        group: String,
        /// The member that shall lead, for instance db-1.
        #[arg(long)]
        to: String,
        /// Seconds until it gives up waiting; the wish stays.
        #[arg(long, default_value_t = 120)]
        timeout: u64,
    },
    /// Leave a group alone: nothing is started, stopped or changed until `resume`.
    Pause {
        /// The group.
        group: String,
    },
    /// Keep a group again.
    Resume {
        /// The group.
        group: String,
    },
    /// Try again now what failed: clears every back-off, and a hand-over that failed.
    Retry {
        /// The group.
        group: String,
    },
}

/// Does what is asked.
///
/// # Errors
/// What the API server says, or why it cannot be done.
pub async fn ask(ask: &Ask, reach: &Reach) -> anyhow::Result<()> {
    let (client, namespace) = connect(reach).await?;
    let groups: Api<ReplicaGroup> = Api::namespaced(client, &namespace);
    match ask {
        Ask::Status { group: Some(name), output } => show(&[find(&groups, name).await?], *output),
        Ask::Status { group: None, output } => {
            let all = groups.list(&ListParams::default()).await.context("failed to list groups")?.items;
            if all.is_empty() && *output == Output::Table {
                eprintln!("no groups in namespace {namespace}");
            }
            show(&all, *output)
        }
        Ask::Explain { group, output } => {
            let found = find(&groups, group).await?;
            match output {
                Output::Table => print!("{}", explain::text(&found)),
                Output::Json => println!("{:#}", explain::value(&found)),
            }
            Ok(())
        }
        Ask::Switchover { group, to, timeout } => switchover::switchover(&groups, group, to, *timeout).await,
        Ask::Pause { group } => pause(&groups, group, true).await,
        Ask::Resume { group } => pause(&groups, group, false).await,
        Ask::Retry { group } => {
            let now = jiff::Timestamp::now().to_string();
            change(&groups, group, &json!({"metadata": {"annotations": {ANNOTATION_RETRY: now}}})).await?;
            println!("{group}: what failed is tried again now");
            Ok(())
        }
    }
}

/// Prints what a shell needs to complete our words.
pub fn complete(shell: clap_complete::Shell) {
    clap_complete::generate(shell, &mut crate::args::Args::command(), "tanist", &mut std::io::stdout());
}

async fn connect(reach: &Reach) -> anyhow::Result<(Client, String)> {
    let options = KubeConfigOptions { context: reach.context.clone(), ..KubeConfigOptions::default() };
    let config = match (&reach.kubeconfig, &reach.context) {
        (Some(path), _) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("failed to read {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &options).await.context("failed to use the kubeconfig")?
        }
        (None, Some(_)) => Config::from_kubeconfig(&options).await.context("failed to use that context")?,
        (None, None) => Config::infer().await.context("failed to find a cluster; set KUBECONFIG or --kubeconfig")?,
    };
    let namespace = reach.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    Ok((Client::try_from(config).context("failed to connect")?, namespace))
}

async fn find(groups: &Api<ReplicaGroup>, name: &str) -> anyhow::Result<ReplicaGroup> {
    match groups.get_opt(name).await.context("failed to read the group")? {
        Some(group) => Ok(group),
        None => {
            bail!("there is no group {name} in namespace {}; see: tanist status", groups.namespace().unwrap_or("-"))
        }
    }
}

async fn change(groups: &Api<ReplicaGroup>, name: &str, patch: &Value) -> anyhow::Result<ReplicaGroup> {
    find(groups, name).await?;
    groups.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.context("failed to change the group")
}

async fn pause(groups: &Api<ReplicaGroup>, name: &str, paused: bool) -> anyhow::Result<()> {
    change(groups, name, &json!({"spec": {"paused": paused}})).await?;
    let said = if paused { "nothing is done to it until: tanist resume" } else { "it is kept again" };
    println!("{name}: {said}");
    Ok(())
}

fn show(groups: &[ReplicaGroup], output: Output) -> anyhow::Result<()> {
    match output {
        Output::Table => println!("{}", table::groups(groups)),
        Output::Json => {
            let all: Vec<_> = groups.iter().map(explain::value).collect();
            println!("{:#}", Value::from(all));
        }
    }
    Ok(())
}

/// A condition of a group as its status and reason, for instance `True AllMembersInRole`; empty when it is not there.
fn condition(group: &ReplicaGroup, kind: &str) -> (String, String, String) {
    let conditions = group.status.iter().flat_map(|s| &s.conditions);
    let found = conditions.into_iter().find(|c| c.type_ == kind);
    found.map_or_else(Default::default, |c| (c.status.clone(), c.reason.clone(), c.message.clone()))
}

/// The group's name with its namespace.
fn named(group: &ReplicaGroup) -> String {
    format!("{}/{}", group.namespace().unwrap_or_default(), group.name_any())
}
