//! `tanist policy`: what authors of policies do on their own machine. No cluster is needed, and none is asked.
//!
//! The work is done by tanist-author, with this program's engine, interpreter and built-in policies; here are the arguments and the printing. What works on a
//! group in a cluster (a snapshot of it, a try, putting a policy there) belongs beside these commands, with a [`Session`](super::Session).
//!
//! Exit codes, for scripts: 0 it is well; 1 the policy is refused, fails, or answers otherwise than expected; 2 the command line or a file cannot be used.
mod bench;
mod check;
mod fmt;
mod inspect;
mod new;
mod run;
mod show;
mod test;
mod tools;

use super::output::{Form, form, print};
use super::{is_closed_pipe, words};
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
    /// Format a script.
    Fmt(fmt::Fmt),
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
pub fn run(verb: &Verb) -> ExitCode {
    let ended = match verb {
        Verb::New(asked) => new::new(asked),
        Verb::Check(asked) => check::check(asked),
        Verb::Run(asked) => run::run(asked),
        Verb::Test(asked) => test::test(asked),
        Verb::Bench(asked) => bench::bench(asked),
        Verb::Inspect(asked) => inspect::inspect(asked),
        Verb::Fmt(asked) => fmt::fmt(asked),
    };
    match ended {
        Ok(End::Well) => ExitCode::SUCCESS,
        Ok(End::Failed) => ExitCode::FAILURE,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", words(error.as_ref()));
            let refused = error.downcast_ref::<tanist_author::Error>().is_some_and(tanist_author::Error::is_failure);
            if refused { ExitCode::FAILURE } else { ExitCode::from(UNUSABLE) }
        }
    }
}

/// Prints a value for programs, or its text for people.
fn say<T: Serialize>(value: &T, output: Option<Form>, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    print(&match output {
        Some(how) => form(&serde_json::to_value(value).context("failed to write the result as JSON")?, how)?,
        None => text(),
    })
}
