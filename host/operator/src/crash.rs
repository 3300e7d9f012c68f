//! A test aid: ends or delays this process at a named point, so that a test knows where it was. Inert unless the environment names a point,
//! which no installation does.
//!
//! `TANIST_CRASH=POINT[:COMMAND[:MEMBER]],...` (or `write[:KIND[:OBJECT]]`) aborts there, as SIGKILL would: nothing is cleaned up. `TANIST_PAUSE` has `=SECONDS` behind
//! each, and waits. With `TANIST_CRASH_ONCE=DIRECTORY` each happens once: a file there outlives the process.
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use tanist_core::record::Intent;

/// Between the decision and the second, live look.
pub const DECIDED: &str = "decided";
/// The second look was taken; nothing is written.
pub const LOOKED: &str = "looked";
/// The intent is durable, the command not started.
pub const RECORDED: &str = "recorded";
/// The command ended, and nobody but this process knows how.
pub const ENDED: &str = "ended";

struct Wish {
    text: String,
    wanted: Vec<String>,
    pause: Option<Duration>,
}

struct Wishes {
    list: Vec<Wish>,
    once: Option<PathBuf>,
}

/// Passes a point on the way of a command.
pub async fn point(name: &str, intent: &Intent) {
    at([name, &intent.command, intent.member.as_str()]).await;
}

/// Passes the point just before a write: `write:KIND:OBJECT`, the kinds being `apply`, `route`, `mark`, `delete` and `scale`.
pub async fn write(kind: &str, object: &str) {
    at(["write", kind, object]).await;
}

async fn at(here: [&str; 3]) {
    static WISHES: OnceLock<Wishes> = OnceLock::new();
    let wishes = WISHES.get_or_init(read);
    let Some(wish) = wishes.list.iter().find(|w| here.iter().zip(&w.wanted).all(|(here, wanted)| here == wanted))
    else {
        return;
    };
    if let Some(directory) = &wishes.once
        && std::fs::File::create_new(directory.join(&wish.text)).is_err()
    {
        return;
    }
    tracing::warn!(point = wish.text, "a test wants it to end or to pause here");
    match wish.pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::process::abort(),
    }
}

fn read() -> Wishes {
    let list = |variable| std::env::var(variable).unwrap_or_default();
    let words = |text: &str| text.split(':').map(str::to_owned).collect();
    let crash = list("TANIST_CRASH");
    let crashes = crash.split(',').map(|text| Wish { text: text.to_owned(), wanted: words(text), pause: None });
    let pause = list("TANIST_PAUSE");
    let pauses = pause.split(',').filter_map(|text| {
        let (place, seconds) = text.split_once('=')?;
        Some(Wish {
            text: text.to_owned(),
            wanted: words(place),
            pause: Some(Duration::from_secs(seconds.parse().ok()?)),
        })
    });
    let list = crashes.chain(pauses).filter(|w| !w.text.is_empty()).collect();
    Wishes { list, once: std::env::var_os("TANIST_CRASH_ONCE").map(PathBuf::from) }
}
