//! Measures how long decisions and recoveries take, beside their peers. `dev/bench/run` builds what this needs and starts it.

mod against;
mod cases;
mod changes;
mod decisions;
mod figures;
mod goals;
mod idle;
mod machine;
mod record;
mod recovery;
mod render;
mod scripts;
mod seen;
mod story;
mod takeovers;
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
    /// One decision by a script, loads of policies, and what many policies keep in memory.
    Scripts(scripts::Args),
    /// The memory that so many policies of a kind keep; started by `scripts`.
    #[command(hide = true)]
    Kept(scripts::KeptArgs),
    /// A group of five loses every pod: from the last new pod running to every member in its role.
    Recovery(recovery::Args),
    /// The process of a primary dies: until a secondary is promoted, and what a client sees.
    Takeovers(takeovers::Args),
    /// A label or a script is changed: until the status has the answer, alone and beside groups that burn all their fuel.
    Changes(changes::Args),
    /// Many groups that have nothing to do: memory, writes, executions.
    Idle(idle::Args),
    /// One takeover with the image that is measured: whether it works at all.
    Story,
    /// Compares the turns of two operators that were measured in one run.
    Against(against::Args),
    /// Writes the figures of JSON files into docs/benchmarks.md.
    Render(render::Args),
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
        Command::Scripts(args) => scripts::run(&args),
        Command::Kept(args) => scripts::kept(&args),
        Command::Recovery(args) => recovery::run(&args),
        Command::Takeovers(args) => takeovers::run(&args),
        Command::Changes(args) => changes::run(&args),
        Command::Idle(args) => idle::run(&args),
        Command::Story => story::run(),
        Command::Against(args) => against::run(&args),
        Command::Render(args) => render::run(&args),
        Command::Request { payload, members } => {
            let recorded = cases::Recorded::read(&payload)?;
            println!("{}", recorded.request(&cases::lean(members))?);
            Ok(())
        }
    }
}
