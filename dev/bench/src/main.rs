//! Measures how long decisions and recoveries take, beside their peers. `dev/bench/run` builds what this needs and starts it.

mod cases;
mod decisions;
mod figures;
mod machine;
mod recovery;
mod timeline;
mod webhook;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures decisions and recoveries.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// One decision: by a policy in its sandbox, by a native call, by a webhook.
    Decisions(decisions::Args),
    /// A group of five loses every pod: from the last new pod running to every member in its role.
    Recovery(recovery::Args),
    /// Prints the request that the webhook gets for so many members.
    Request {
        /// The recorded request.
        #[arg(long)]
        payload: PathBuf,
        /// How many members.
        #[arg(long, default_value_t = 5)]
        members: u32,
    },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Decisions(args) => decisions::run(&args),
        Command::Recovery(args) => recovery::run(&args),
        Command::Request { payload, members } => {
            let recorded = cases::Recorded::read(&payload)?;
            println!("{}", recorded.request(&cases::lean(members))?);
            Ok(())
        }
    }
}
