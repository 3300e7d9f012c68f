//! What each client does all the time.
use super::operations::{begun, look, meet, next, note, now, prefer};
use super::session::Session;
use super::{Client, Kind};
use crate::journal::Operation;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::sleep;

async fn rest(millis: u64) {
    sleep(Duration::from_millis(millis)).await;
}

/// Lives a client's life, which has no end.
pub async fn live(client: Client, tools: PathBuf) {
    let (name, tools) = (client.name.as_str(), tools.as_path());
    let mut turn = 0;
    loop {
        match &client.kind {
            Kind::Rw(host) => through_rw(name, tools, host, &mut turn).await,
            Kind::Ro(host) => {
                let mut session = Session::connect(tools, host, None);
                meet(&mut session, name).await;
                session.end().await;
                rest(1000).await;
            }
            Kind::Direct(host) => {
                let mut session = Session::connect(tools, host, None);
                while next(&mut session, name, &mut turn).await {
                    rest(250).await;
                }
                rest(300).await;
            }
            Kind::Beside => beside(name, tools, &mut turn).await,
            Kind::Look => look_always(name, tools).await,
            Kind::Prefer => prefer_always(name, tools).await,
        }
    }
}

/// A connection serves some operations.
async fn through_rw(name: &str, tools: &Path, host: &str, turn: &mut u32) {
    let mut session = Session::connect(tools, host, None);
    let primary = meet(&mut session, name).await;
    if primary {
        for _ in 0..12 {
            if !next(&mut session, name, turn).await {
                break;
            }
            rest(80).await;
        }
    }
    session.end().await;
    rest(if primary { 50 } else { 250 }).await;
}

async fn beside(name: &str, tools: &Path, turn: &mut u32) {
    if let Some(server) = find_server() {
        let mut session = Session::connect(tools, "127.0.0.1", Some(server));
        while next(&mut session, name, turn).await {
            rest(150).await;
        }
    }
    rest(400).await;
}

async fn look_always(name: &str, tools: &Path) {
    if let Some(server) = find_server() {
        let mut session = Session::connect(tools, "127.0.0.1", Some(server));
        while look(&mut session, name).await {
            rest(200).await;
        }
        rest(200).await;
    } else {
        let mut entry = begun(name, Operation::Look, "-");
        entry.end = now();
        entry.value = "none".into();
        note(&entry);
    }
    rest(300).await;
}

async fn prefer_always(name: &str, tools: &Path) {
    if let Some(server) = find_server() {
        let mut session = Session::connect(tools, "127.0.0.1", Some(server));
        while prefer(&mut session, name).await {
            rest(1000).await;
        }
    }
    rest(1000).await;
}

/// The member's server on this node, as it is seen without anybody's help.
fn find_server() -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(|process| is_server(*process))
}

/// Whether that process is a whole server: `postgres -D ...`.
pub fn is_server(process: u32) -> bool {
    let Ok(line) = std::fs::read(format!("/proc/{process}/cmdline")) else { return false };
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    program.ends_with(b"/postgres") && words.next() == Some(b"-D")
}
