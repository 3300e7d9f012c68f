//! PostgreSQL under clients that write and read all the time and remember what they were told, while its primary is lost again and again, each time in
//! another way, and operator and API server with it. Prints a table. Fails when an acknowledged row is missing, when a history fits no order, when two
//! members are writable at a time, when -rw leads to a member in recovery or -ro to another one, when somebody takes over whom nothing allows to, when a
//! round does not end with a primary that takes writes, or when something could not be seen. docs/chaos.md has it all; `dev/chaos/run` builds and starts it.
mod args;
mod awake;
mod background;
mod broken;
mod client;
mod cluster;
mod faults;
mod history;
mod journal;
mod judge;
mod kinds;
mod play;
mod rehearse;
mod report;
mod rounds;
mod setting;
mod settings;
mod settle;
mod setup;
mod steps;

use args::{Args, Command};
use clap::Parser;
use cluster::Cluster;
use history::History;
use play::Play;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether nothing was violated.
fn run(args: &Args) -> anyhow::Result<bool> {
    match &args.command {
        Some(Command::Client(clients)) => return client::run(clients).map(|()| true),
        Some(Command::Witness(witness)) => return client::witness(witness).map(|()| true),
        Some(Command::Machine(machine)) => return rehearse::machine(machine).map(|()| true),
        None => {}
    }
    if args.broken {
        return broken::run_broken(&args.images()).map(|()| true);
    }
    if args.settings {
        return settings::run_settings(&args.images(), &args.json()).map(|()| true);
    }
    awake::judge_is_awake()?;
    let mut history = History::build()?;
    history.is_awake()?;
    if args.judge {
        return Ok(true);
    }
    if args.rehearse {
        return rehearse::rehearse(history).map(|()| true);
    }
    let cluster = Cluster { name: args.cluster.clone() };
    let mut play = Play::new(args.wanted()?, cluster, history)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        tokio::select! {
            done = rounds_in_turn(&mut play) => done,
            _ = interrupted() => Err(anyhow::anyhow!("interrupted")),
        }
    });
    if let Err(error) = done {
        play.write(false)?;
        explain(&play.cluster);
        return Err(error.context("the cluster is left to be looked at"));
    }
    play.violations.iter().for_each(|violation| eprintln!("VIOLATED  {violation}"));
    Ok(play.violations.is_empty())
}

async fn rounds_in_turn(play: &mut Play) -> anyhow::Result<()> {
    let _ = std::fs::remove_file(&play.wanted.json);
    play.install().await?;
    play.form().await?;
    play.clients().await?;
    report::header();
    let kinds = play.wanted.kinds.clone();
    for (number, kind) in (1..=play.wanted.rounds).zip(kinds.iter().cycle()) {
        play.play(number, *kind).await?;
    }
    play.at_the_end().await?;
    play.write(true)?;
    play.report()
}

/// What runs beside has process groups of its own, which a signal to ours does not reach.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminated) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}

fn explain(cluster: &Cluster) {
    let told = |said: anyhow::Result<String>| said.unwrap_or_else(|error| format!("{error:#}"));
    eprintln!("{}", told(cluster.kube(&["get", "rg,pods", "-o", "wide"])));
    eprintln!("{}", told(cluster.explain()));
}
