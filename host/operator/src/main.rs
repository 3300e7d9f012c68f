//! `tanist`: the operator and its command line.
mod act;
mod api;
mod api_error;
mod args;
mod cli;
mod clock;
mod context;
mod controller;
mod crash;
mod exec;
mod frame;
mod hints;
mod lease;
mod member;
mod metrics;
#[cfg(test)]
mod mock;
mod news;
mod nodes;
mod objects;
mod observe;
mod policies;
mod report;
mod run;
mod slots;
#[cfg(test)]
mod stub;
mod telemetry;
mod validate;

use args::{Args, Command};
use clap::Parser;

/// musl's allocator gives each question's memory back to the kernel and takes it again for the next one: 34 page faults a decision, which
/// then takes six times as long (docs/benchmarks.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match args.command {
        Command::Ask(ask) => cli::ask(&ask, &args.reach).await,
        Command::Completion { shell } => {
            cli::complete(shell);
            Ok(())
        }
        Command::Run(settings) => {
            // The allocator asks for huge pages: 32 of 51 MiB, with one group (docs/benchmarks.md). Where the kernel refuses, only memory is lost.
            let _ = rustix::thread::disable_transparent_huge_pages(true);
            run::run(*settings).await
        }
        Command::Crds => {
            print!("{}", api::crd_yaml()?);
            Ok(())
        }
    }
}
