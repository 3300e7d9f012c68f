//! Looks at the old server's own process, on its node: the one witness who needs nobody's word.
use super::tasks::is_server;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Sees when the server of a container ends.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The node's socket of containerd.
    pub socket: PathBuf,
    /// The container's ID.
    pub container: String,
}

/// Prints the server's process, and ends with it.
///
/// # Errors
/// When the container has no server.
pub fn witness(args: &Args) -> Result<()> {
    let mut list = Command::new("ctr");
    list.arg("--address").arg(&args.socket).args(["--namespace", "k8s.io", "tasks", "ps", &args.container]);
    let listed = tanist_e2e::run(&mut list)?;
    let mut processes = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()?.parse().ok());
    let server: u32 = processes.find(|process| is_server(*process)).context("the container has no server")?;
    println!("{server}");
    // A process that is dead and not buried yet has no command line.
    while std::fs::read(format!("/proc/{server}/cmdline")).is_ok_and(|line| !line.is_empty()) {
        std::thread::sleep(Duration::from_millis(30));
    }
    Ok(())
}
