//! `tanist policy`: what authors of policies do, on their own machine and with a group in a cluster.
//!
//! The work is done by tanist-author, with this program's engine, interpreter and built-in policies; here are the arguments and the printing. Only `snapshot`,
//! `try`, `put` and `dev` with a group ask a cluster, by a [`Session`](super::Session); only `put` writes there, and only a ConfigMap.
//!
//! Exit codes, for scripts: 0 it is well; 1 the policy is refused, fails, or answers otherwise than expected, or a group does not follow it; 2 the command
//! line, a file or the cluster cannot be used.
mod bench;
mod check;
mod dev;
mod fmt;
mod follow;
mod inspect;
mod live;
mod new;
mod put;
mod run;
mod show;
mod snapshot;
mod test;
mod tools;
mod try_;

pub use bench::parameters;
pub use tools::tools;

use super::output::{Form, form, note, print};
use super::{Reach, is_closed_pipe, words};
use anyhow::Context;
use serde::Serialize;
use std::process::ExitCode;

/// The exit code when the command line or a file cannot be used.
pub const UNUSABLE: u8 = 2;

/// The commands for authors of policies.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Verb {
    /// Begin a new policy in a folder: the policy, its cases, a README, an example for CI.
    New(new::New),
    /// Load a policy through every gate of the operator, and show what each found.
    Check(check::Check),
    /// Ask a policy, or the whole stack of a group, about a case.
    ///
    /// Shows what each policy said, what the host makes of it, the reason for every member, notes, and what it cost.
    Run(run::Run),
    /// Ask the cases of a folder, and compare the answers with what they expect.
    Test(test::Test),
    /// Measure what a question costs a policy, with 5, 100 and 1000 members.
    Bench(bench::Bench),
    /// Show what a policy is: name, digest, questions, parameters, what it consists of.
    Inspect(inspect::Inspect),
    /// Write scripts in their usual form.
    ///
    /// Only white space changes: line ends, indentation by tabs, blanks between tokens and at the end of lines, blank lines. Texts, comments and the breaks of
    /// lines stay. A script that would mean something else afterwards is left alone.
    Fmt(fmt::Fmt),
    /// Record a live group as cases, for `test` and `run`.
    ///
    /// The cases go to standard output; what they cannot say, and what is not known, to standard error. Needs the role view.
    Snapshot(snapshot::Snapshot),
    /// Ask a policy about a live group, beside the policies that it has. Nothing is changed.
    Try(try_::Try),
    /// Put a policy into a ConfigMap, and wait until the groups that use it follow.
    ///
    /// It is checked first. Other keys of the ConfigMap are left alone.
    Put(put::Put),
    /// Check, test and try again after each save, until Ctrl-C.
    Dev(dev::Dev),
}

/// How a command ended that did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It is well.
    Well,
    /// The policy failed, or a case.
    Failed,
}

impl End {
    fn of(well: bool) -> Self {
        if well { Self::Well } else { Self::Failed }
    }
}

/// Runs one command.
pub async fn run(verb: &Verb, reach: &Reach) -> ExitCode {
    let ended = match verb {
        Verb::New(asked) => new::new(asked),
        Verb::Check(asked) => check::check(asked),
        Verb::Run(asked) => run::run(asked),
        Verb::Test(asked) => test::test(asked),
        Verb::Bench(asked) => bench::bench(asked),
        Verb::Inspect(asked) => inspect::inspect(asked),
        Verb::Fmt(asked) => fmt::fmt(asked),
        Verb::Snapshot(_) | Verb::Try(_) | Verb::Put(_) | Verb::Dev(_) => in_cluster(verb, reach).await,
    };
    match ended {
        Ok(End::Well) => ExitCode::SUCCESS,
        Ok(End::Failed) => ExitCode::FAILURE,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("error: {}", words(error.as_ref())));
            let refused = error.downcast_ref::<tanist_author::Error>().is_some_and(tanist_author::Error::is_failure);
            if refused { ExitCode::FAILURE } else { ExitCode::from(UNUSABLE) }
        }
    }
}

/// Runs a command that asks a cluster.
async fn in_cluster(verb: &Verb, reach: &Reach) -> anyhow::Result<End> {
    if let Verb::Dev(asked) = verb
        && !asked.needs_cluster()
    {
        return dev::dev(None, asked).await;
    }
    let session = reach.session().await?;
    match verb {
        Verb::Snapshot(asked) => snapshot::snapshot(&session, asked).await,
        Verb::Try(asked) => try_::try_out(&session, asked).await,
        Verb::Put(asked) => put::put(&session, asked).await,
        Verb::Dev(asked) => dev::dev(Some(&session), asked).await,
        _ => Ok(End::Well),
    }
}

/// Prints a value for programs, or its text for people.
fn say<T: Serialize>(value: &T, output: Option<Form>, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    print(&match output {
        Some(how) => form(&serde_json::to_value(value).context("failed to write the result as JSON")?, how)?,
        None => text(),
    })
}
