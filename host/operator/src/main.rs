//! `tanist`: the operator and its command line.
mod act;
mod api;
mod args;
mod context;
mod controller;
mod crash;
mod exec;
mod frame;
mod hints;
mod lease;
mod member;
mod news;
mod objects;
mod observe;
mod policies;
mod report;
mod run;
mod telemetry;
mod validate;

use args::{Args, Command};
use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Run(settings) => run::run(*settings).await,
        Command::Crds => {
            print!("{}", api::crd_yaml()?);
            Ok(())
        }
    }
}
