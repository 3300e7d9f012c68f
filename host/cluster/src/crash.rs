//! Test aids: end or delay this process at a named point, or let its clock be ahead. They do nothing unless the environment says so, which no installation does.
//!
//! `TANIST_CRASH=POINT[:COMMAND[:MEMBER]],...` (or `write[:KIND[:OBJECT]]`) aborts the process there, as SIGKILL would: nothing is cleaned up.
//! `TANIST_PAUSE` has the same form with `=SECONDS` after each point, and waits for that long. With `TANIST_CRASH_ONCE=DIRECTORY` each happens
//! once: a file in that directory survives the process. With `TANIST_CLOCK_AHEAD=SECONDS` the operator's clock is ahead of the API server's by that, as if all that was
//! seen so far had been longer ago: what takes an hour can be seen sooner.
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tanist_core::record::Intent;

/// Between the decision and the second, live look.
pub const DECIDED: &str = "decided";
/// After the second look, before anything is written.
pub const LOOKED: &str = "looked";
/// The intent is durable, and the command is not started.
pub const RECORDED: &str = "recorded";
/// The command has ended, and only this process knows how.
pub const ENDED: &str = "ended";

/// The process listens for SIGTERM, and has done nothing else.
pub const START: &str = "start";
/// The process has found that it does not lead any more. What it began goes on until it ends.
pub const LOST: &str = "lost";

struct Trigger {
    text: String,
    words: Vec<String>,
    pause: Option<Duration>,
}

struct Triggers {
    list: Vec<Trigger>,
    once: Option<PathBuf>,
}

/// By how many seconds the clock is ahead of the API server's.
pub fn clock_ahead() -> i64 {
    std::env::var("TANIST_CLOCK_AHEAD").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Marks a point in the life of a command.
pub async fn point(name: &str, intent: &Intent) {
    end_or_pause_at([name, &intent.command, intent.member.as_str()]).await;
}

/// Marks the start of the process.
pub async fn start() {
    end_or_pause_at([START, "", ""]).await;
}

/// Marks the end of the leadership.
pub async fn lost() {
    end_or_pause_at([LOST, "", ""]).await;
}

/// Marks the point just before a write: `write:KIND:OBJECT`. The kinds are those of `act/writes.rs`, for instance `apply`, `route`, `unroute` and `delete`.
pub async fn write(kind: &str, object: &str) {
    end_or_pause_at(["write", kind, object]).await;
}

async fn end_or_pause_at(here: [&str; 3]) {
    static TRIGGERS: OnceLock<Triggers> = OnceLock::new();
    let triggers = TRIGGERS.get_or_init(read_environment);
    let Some(trigger) = triggers.list.iter().find(|t| here.iter().zip(&t.words).all(|(here, word)| here == word))
    else {
        return;
    };
    if let Some(pause) = happens(triggers, trigger) {
        tokio::time::sleep(pause).await;
    }
}

/// Ends the process, or says how long to wait.
fn happens(triggers: &Triggers, trigger: &Trigger) -> Option<Duration> {
    // Two tasks may be at two points at the same time: the process ends for one of them, and the other point is still to come.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    if let Some(directory) = &triggers.once
        && std::fs::File::create_new(directory.join(&trigger.text)).is_err()
    {
        return None;
    }
    tracing::warn!(point = trigger.text, "a test ends or pauses the operator at this point");
    match trigger.pause {
        Some(pause) => Some(pause),
        None => std::process::abort(),
    }
}

fn read_environment() -> Triggers {
    let list = |variable| std::env::var(variable).unwrap_or_default();
    let words = |text: &str| text.split(':').map(str::to_owned).collect();
    let crash = list("TANIST_CRASH");
    let crashes = crash.split(',').map(|text| Trigger { text: text.to_owned(), words: words(text), pause: None });
    let pause = list("TANIST_PAUSE");
    let pauses = pause.split(',').filter_map(|text| {
        let (place, seconds) = text.split_once('=')?;
        Some(Trigger {
            text: text.to_owned(),
            words: words(place),
            pause: Some(Duration::from_secs(seconds.parse().ok()?)),
        })
    });
    let list = crashes.chain(pauses).filter(|t| !t.text.is_empty()).collect();
    Triggers { list, once: std::env::var_os("TANIST_CRASH_ONCE").map(PathBuf::from) }
}
