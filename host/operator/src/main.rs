//! `tanist`: the operator and its command line.
mod args;
mod cli;
mod context;
mod controller;
mod crds;
mod decisions;
mod handover;
mod lease;
mod metrics;
#[cfg(test)]
mod mock;
mod news;
mod nodes;
mod policies;
mod readable;
mod run;
mod telemetry;

use args::{Args, Command};
use clap::{CommandFactory, FromArgMatches};
use std::process::ExitCode;

/// musl's allocator returns the memory of each question to the kernel and requests it again for the next one. That costs 34 page faults for each
/// decision, which then takes six times as long (docs/benchmarks.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit codes are those of kubectl: 0, or 1 for any error. `tanist policy` and `tanist simulate` have their own, for scripts (`cli/policy.rs`,
/// `cli/simulate.rs`).
fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    match words.split_first() {
        // Before there is a runtime with its threads: the process limits itself.
        Some((first, rest)) if first == policies::compile::VERB => policies::compile::child(rest),
        _ => command(&words),
    }
}

#[tokio::main]
async fn command(words: &[String]) -> ExitCode {
    if let Some((first, rest)) = words.split_first()
        && first == cli::complete::VERB
    {
        // A shell that does not listen any more has nothing to complete.
        let _ = cli::print(&cli::complete::answer(rest).await);
        return ExitCode::SUCCESS;
    }
    let command = Args::command().bin_name(cli::called());
    let args = match command.try_get_matches().and_then(|matches| Args::from_arg_matches(&matches)) {
        Ok(args) => args,
        Err(shown) => {
            // Help and version come here, too. If they cannot be printed, only the exit code tells.
            let _ = shown.print();
            let of_authors = verb(words).is_some_and(|word| ["policy", "simulate"].contains(&word));
            let wrong = if of_authors { cli::policy::UNUSABLE } else { 1 };
            return ExitCode::from(if shown.use_stderr() { wrong } else { 0 });
        }
    };
    if let Command::Policy(verb) = &args.command {
        return cli::policy::run(verb, &args.reach).await;
    }
    if let Command::Simulate(asked) = &args.command {
        return cli::simulate::run(asked);
    }
    match carry_out(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if cli::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            cli::note(&format!("error: {}", cli::words(error.as_ref())));
            ExitCode::FAILURE
        }
    }
}

/// The command among the words: the first that is no flag, and no value of a flag that all commands have.
fn verb(words: &[String]) -> Option<&str> {
    let takes_value = |word: &str| ["-n", "--namespace", "--kubeconfig", "--context"].contains(&word);
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            flag if takes_value(flag) => drop(words.next()),
            flag if flag.starts_with('-') => {}
            verb => return Some(verb),
        }
    }
    None
}

async fn carry_out(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Ask(ask) => cli::run_command(&ask, &args.reach).await,
        // They have exit codes of their own, so `command` has run them already.
        Command::Policy(_) | Command::Simulate(_) => Ok(()),
        Command::Completion { shell } => cli::script(shell),
        Command::Run(settings) => {
            // The allocator asks for huge pages: 32 of 51 MiB, with one group (docs/benchmarks.md). Where the kernel refuses, only memory is lost.
            let _ = rustix::thread::disable_transparent_huge_pages(true);
            run::run(settings.watching(&args.reach)?, &args.reach).await
        }
        Command::Crds => cli::print(&crds::yaml()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The exit code of a wrong command line is that of its command, wherever the flags are.
    #[test]
    fn the_command_is_found_behind_flags() {
        let found = |line: &str| {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            verb(&words).map(str::to_owned)
        };
        for line in ["policy check --x", "-n shop policy check", "--context=prod policy", "--context prod -n a policy"]
        {
            assert_eq!(found(line).as_deref(), Some("policy"), "{line}");
        }
        assert_eq!(found("status policy --x").as_deref(), Some("status"));
        assert_eq!(found("-n shop"), None);
    }
}
