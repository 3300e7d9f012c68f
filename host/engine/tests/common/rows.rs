//! What the tests of the rows H1 to H28 share: each row alone, with the memory that it leaves behind.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tanist_core::{
    check::{Rule, reply},
    policy::{Point, Question},
};
use tanist_engine::{Engine, LoadError, Policy, Stack, Stage};

use super::{Guest, ask, engine, layer, load, member, snapshot, usage};

/// Bytes by which a hostile policy may make this process grow.
pub const GROWTH: u64 = 8 << 20;

/// Which gate stopped a policy, or what its question ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// While it was loaded.
    Load(Stage),
    /// While it ran, with the kind of the error.
    Run(&'static str),
    /// By the host's rules.
    Check(Rule),
    /// Not at all: its answer is as good as any.
    No,
}

/// One engine, with the policy that misbehaves on request: compiled once, as the operator has it compiled elsewhere.
pub fn hostile() -> &'static (Engine, Arc<Policy>) {
    static HOSTILE: OnceLock<(Engine, Arc<Policy>)> = OnceLock::new();
    HOSTILE.get_or_init(|| {
        let engine = engine();
        Guest::default().load().unwrap();
        let policy = load(&engine, "hostile");
        (engine, policy)
    })
}

/// Tries one row, while no other one of this file is tried: it leaves at most 8 MiB behind.
pub fn row<T>(attempt: impl FnOnce() -> T) -> T {
    measured(attempt, usage::resident)
}

/// As [`row`], and it never takes more than 8 MiB on the way: for what is refused before it is compiled.
pub fn flat<T>(attempt: impl FnOnce() -> T) -> T {
    measured(attempt, usage::peak)
}

fn measured<T>(attempt: impl FnOnce() -> T, memory: fn() -> u64) -> T {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    hostile();
    let before = usage::peak_from_now();
    let result = attempt();
    let grown = memory().saturating_sub(before);
    assert!(grown <= GROWTH, "it grew by {} KiB", grown >> 10);
    result
}

/// Which gate stops these bytes.
pub fn loading(bytes: &[u8]) -> Stopped {
    match Policy::load(&hostile().0, "test/bytes", bytes) {
        Ok(_) => Stopped::No,
        Err(error) => Stopped::Load(error.stage()),
    }
}

/// Which gate stops a policy written by hand.
pub fn building(guest: &Guest) -> Stopped {
    loading(&guest.build())
}

/// The error of these bytes: its kind and its words.
pub fn refusal(bytes: &[u8]) -> (&'static str, String) {
    let error: LoadError = Policy::load(&hostile().0, "test/bytes", bytes).unwrap_err();
    let cause = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
    (error.kind(), format!("{error}{cause}"))
}

/// What a question ends with whose policy is told to do something.
pub fn told(to: &str, times: u32, point: Point) -> Stopped {
    let policy = &hostile().1;
    ended(&Stack::new(vec![layer(policy, &format!(r#"{{"do":"{to}","times":{times}}}"#))]), point)
}

/// What a question ends with, the host's rules included. The next question is answered all the same.
pub fn ended(stack: &Stack, point: Point) -> Stopped {
    let mut story = snapshot(vec![member(0, 1), member(1, 1), member(2, 1)]);
    story.members[2].barred = Some("its data is behind".to_owned());
    let stopped = match ask(stack, point, &story) {
        Err(failed) => Stopped::Run(failed.kind),
        Ok(answered) => match reply(&Question { point, snapshot: story.clone() }, &answered.reply) {
            Err(broken) => Stopped::Check(broken.rule),
            Ok(()) => Stopped::No,
        },
    };
    let healthy = Stack::new(vec![layer(&hostile().1, r#"{"do":"count"}"#)]);
    assert!(ask(&healthy, point, &story).is_ok(), "the next question");
    stopped
}
