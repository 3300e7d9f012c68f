//! Tries mutations: rules of a crate, disabled one by one, which its tests have to notice. `dev/mutants` makes the plan and the tables, and starts this.
//!
//! One build of the tests holds all mutations of a crate (`switch.rs`, `batch.rs`); the variable `TANIST_MUTANT` says which one is in force.

mod batch;
mod compile;
mod deadline;
mod order;
mod outcome;
mod plan;
mod pool;
mod process;
mod seeds;
mod suite;
mod switch;
mod tries;

use std::process::{ExitCode, exit};
use std::thread;

use clap::{Parser, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Tries mutations in one build.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Tests(tries::Args),
    Seeds(seeds::Args),
}

fn main() -> ExitCode {
    let done = end_with_all().and_then(|()| match Args::parse().command {
        Command::Tests(args) => tries::run(&args),
        Command::Seeds(args) => seeds::run(&args),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mutants: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Who interrupts this does not know the groups of what it started.
fn end_with_all() -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            process::end_all();
            exit(130);
        }
    });
    Ok(())
}
