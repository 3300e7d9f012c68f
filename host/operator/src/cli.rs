//! The command line for users: `tanist status`, `explain`, `switchover`, `restart`, `history`, `diff`, `rollback`, `override`, `recover`, `pause`, `resume`, `retry`; as `kubectl tanist` when the
//! binary is called `kubectl-tanist`. Commands read the group's object and change only that object. `override` and `recover` also run the
//! group's `sequence` command in members, `recover` reads their claims, and `history`, `diff` and `rollback` the templates that are kept. What `tanist policy` does, `cli/policy.rs` says, and what `tanist simulate` does, `cli/simulate.rs`.
#![expect(
    clippy::disallowed_methods,
    reason = "a user can interrupt a command; `switchover` and completion have deadlines"
)]
mod color;
pub mod complete;
mod explain;
mod find;
mod output;
mod overrides;
mod pause;
pub mod policy;
mod reach;
mod recover;
mod restart;
mod scripts;
pub mod simulate;
mod status;
mod switchover;
mod table;
mod templates;
mod trouble;
mod wait;

pub use output::{note, print, yaml};
pub use reach::Reach;
pub use scripts::{Shell, script};
pub use trouble::{is_closed_pipe, words};

use find::find;
use jiff::Timestamp;
use kube::{Api, Client};
use output::{Form, form};
use std::path::Path;
use tanist_api::ReplicaGroup;

/// The commands for users.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Ask {
    /// Show groups: ready, primary, members in their role, policy, term.
    Status(status::Status),
    /// Explain a group: members, commands under way, what is awaited, the last decisions with the reason for each member.
    Explain {
        /// The name of the group, in the namespace of the command.
        group: String,
        /// The output format. Default: text.
        #[arg(long, short, value_enum)]
        output: Option<Form>,
    },
    /// Make another member primary. The primary is stopped only when that member has all its data.
    Switchover {
        /// The name of the group, in the namespace of the command.
        group: String,
        /// The member that is to become primary, for instance db-1.
        #[arg(long, value_name = "MEMBER")]
        to: String,
        /// How many seconds to wait for the end. The request stays in place afterwards.
        #[arg(long, default_value_t = 120, value_name = "SECONDS")]
        timeout: u64,
    },
    /// Give every member a new pod, one after the other, the primary last. A changed template needs no such request.
    Restart {
        /// The name of the group, in the namespace of the command.
        group: String,
        /// How many seconds to wait for the end. It goes on afterwards.
        #[arg(long, default_value_t = 600, value_name = "SECONDS")]
        timeout: u64,
    },
    /// Show the templates that a group had, by revision, and which members run each.
    History(templates::History),
    /// Show what differs between two templates of a group.
    Diff(templates::Diff),
    /// Make a former template of a group its template again. Shows what changes.
    Rollback(templates::Rollback),
    /// Choose who leads against the order of data, where the group cannot decide itself. Shows what would be lost, and asks.
    Override(overrides::Override),
    /// Give up a lost majority of an application whose members agree: one member goes on alone with what it has. Says what will be lost, and asks.
    Recover(recover::Recover),
    /// Leave a group alone: nothing more is begun, stopped or changed until `resume`. What was begun goes on.
    Pause {
        /// The name of the group, in the namespace of the command.
        group: String,
    },
    /// End a pause: the group is managed again.
    Resume {
        /// The name of the group, in the namespace of the command.
        group: String,
    },
    /// Try again at once what failed: clears every back-off, and a switchover that failed.
    Retry {
        /// The name of the group, in the namespace of the command.
        group: String,
    },
}

/// Clients and the namespace of the command.
pub struct Session {
    /// The API server.
    pub client: Client,
    /// The same for executions: it never repeats a request.
    pub exec_client: Client,
    /// The namespace of the group: that of `--namespace`, or of the kubeconfig's context.
    pub namespace: String,
}

impl Session {
    /// A session in which one client does everything.
    #[cfg(test)]
    pub fn over(client: Client, namespace: &str) -> Self {
        Session { exec_client: client.clone(), client, namespace: namespace.to_owned() }
    }

    /// The groups of the namespace.
    pub fn groups(&self) -> Api<ReplicaGroup> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// Runs one command.
///
/// # Errors
/// The error of the API server, or why the command cannot be carried out.
pub async fn run_command(command: &Ask, reach: &Reach) -> anyhow::Result<()> {
    let session = reach.session().await?;
    match command {
        Ask::Status(asked) => status::status(&session, asked).await,
        Ask::Explain { group, output } => {
            let found = find(&session.groups(), group).await?;
            print(&match output {
                Some(how) => form(&tanist_api::explain::value(&found), *how)?,
                None => explain::text(&found, Timestamp::now(), color::is_on()),
            })
        }
        Ask::Switchover { group, to, timeout } => switchover::switchover(&session, group, to, *timeout).await,
        Ask::Restart { group, timeout } => restart::restart(&session, group, *timeout).await,
        Ask::History(asked) => templates::history(&session, asked).await,
        Ask::Diff(asked) => templates::diff(&session, asked).await,
        Ask::Rollback(asked) => templates::rollback(&session, asked).await,
        Ask::Override(asked) => overrides::choose(&session, asked).await,
        Ask::Recover(asked) => recover::recover(&session, asked).await,
        Ask::Pause { group } => pause::pause(&session, group).await,
        Ask::Resume { group } => pause::resume(&session, group).await,
        Ask::Retry { group } => pause::retry(&session, group).await,
    }
}

/// What a user types to reach the same cluster and namespace: the name of this program, with the flags that were given.
pub fn me() -> String {
    format!("{}{}", called(), reach::typed().ours)
}

/// The same for kubectl, without the namespace.
pub fn kubectl() -> String {
    format!("kubectl{}", reach::typed().kubectl)
}

/// The name under which this program was called: `tanist`, or `kubectl tanist`.
pub fn called() -> &'static str {
    let called = std::env::args_os().next().unwrap_or_default();
    match Path::new(&called).file_stem().is_some_and(|name| name == "kubectl-tanist") {
        true => "kubectl tanist",
        false => "tanist",
    }
}

/// A group for the tests of the command line: that of the examples, with changes.
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
pub fn example(changes: &serde_json::Value) -> ReplicaGroup {
    tanist_api::examples::group(changes).unwrap()
}
