//! What this process knows about how the commands of a group ended.
//!
//! A command goes one way: it is *promised* before its intent is written, *runs*, and has *ended*. A promise that was not begun when its round is over never
//! started, and no other process can start it. So each step is a method, and no other code can change one.
use crate::contract::Timestamp;
use crate::record::Intent;
use crate::snapshot::Evidence;
use std::collections::{BTreeMap, BTreeSet};
use tanist_protocol::why::Word;

/// The commands of one group, by token. Bounded by the open intents and by the commands that run: see [`Commands::forget_closed`].
#[derive(Debug, Default)]
pub struct Commands {
    /// Their intents are about to be written, and this process is about to start them: they must not be taken for lost.
    promised: BTreeSet<String>,
    /// This process waits for their ends.
    running: BTreeSet<String>,
    /// How they ended.
    ended: BTreeMap<String, Evidence>,
    /// When this process first saw each open intent, in seconds since 1970.
    seen: BTreeMap<String, Timestamp>,
}

impl Commands {
    /// Commands whose intents are about to be written. The write may succeed although an error comes back, and then only this process knows that nothing was
    /// started.
    pub fn promise(&mut self, tokens: impl IntoIterator<Item = String>) {
        self.promised.extend(tokens);
    }

    /// The command starts now. False: it was not promised, so it must not start.
    #[must_use]
    pub fn begin(&mut self, token: &str) -> bool {
        let promised = self.promised.remove(token);
        if promised {
            self.running.insert(token.to_owned());
        }
        promised
    }

    /// The command that ran has ended, as far as this process knows.
    pub fn end(&mut self, token: &str, evidence: Evidence) {
        self.running.remove(token);
        self.ended.insert(token.to_owned(), evidence);
    }

    /// The round is over: what was promised and not begun never started, as if its runner had voided the token: nothing failed, and the next round decides anew.
    pub fn withdraw(&mut self) {
        while let Some(token) = self.promised.pop_first() {
            self.ended.insert(token, Evidence::NotStarted(Word::Void.into()));
        }
    }

    /// What a runner said about a command of which this process knows nothing final. Only what is final is kept.
    pub fn learn(&mut self, token: &str, evidence: &Evidence) {
        if !matches!(evidence, Evidence::Running | Evidence::Unknown(_)) {
            self.ended.insert(token.to_owned(), evidence.clone());
        }
    }

    /// What is known of a command. `None`: nothing.
    #[must_use]
    pub fn known(&self, token: &str) -> Option<Evidence> {
        match self.promised.contains(token) || self.is_running(token) {
            true => Some(Evidence::Running),
            false => self.ended.get(token).cloned(),
        }
    }

    /// Whether this process waits for the end of that command.
    #[must_use]
    pub fn is_running(&self, token: &str) -> bool {
        self.running.contains(token)
    }

    /// For how many ends this process waits.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.running.len()
    }

    /// Whether nothing is about to start and nothing runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.promised.is_empty() && self.running.is_empty()
    }

    /// Reads the times of open intents. Another process may have written them by a clock that was behind: whatever they say, the last resort does not come before the
    /// command had its own time under the eyes of this process, and a role is awaited from its first look on (docs/safety.md, S28). `grace`: seconds from the
    /// deadline of a command to its last resort.
    pub fn watch(&mut self, intents: &mut [Intent], grace: u32, now: Timestamp) {
        self.seen.retain(|token, _| intents.iter().any(|intent| intent.token == *token));
        for intent in intents {
            let seen = *self.seen.entry(intent.token.clone()).or_insert(now);
            intent.started = intent.started.max(seen.saturating_sub(i64::from(grace)));
            intent.exited = intent.exited.map(|exited| exited.max(seen));
        }
    }

    /// Forgets how commands without an open intent ended.
    pub fn forget_closed(&mut self, open: &BTreeSet<&str>) {
        self.ended.retain(|token, _| open.contains(&**token));
    }
}
