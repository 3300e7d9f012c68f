//! Which policy is compiled next. Pure: time is an input.
//!
//! Compiling a component is the only dear step of loading, and hostile bytes make it as dear as its limits allow. So each namespace has at most one
//! compilation at a time, a namespace that was not served for longer goes first, and all together are bounded by the memory of the operator's pod. A
//! namespace full of hostile policies takes one place of [`AT_ONCE`]; the others are left to the rest (docs/safety.md, H19).
//!
//! Scripts are not compiled, only parsed, for at most the time of a question. They have as many places of their own, so that no script waits for a
//! compilation.
use crate::policies::source::Kind;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How many contents of a kind are made into policies at the same time. The memory of compilations counts together against the limit of the operator's pod.
pub const AT_ONCE: usize = 2;

/// How long a digest that failed is not tried again. The same bytes fail again, and cost as much again.
pub const RETRY: Duration = Duration::from_secs(300);

/// The same where only the machine's load ended it, for the first time. Each further time in a row doubles it, up to [`RETRY`]: bytes that a busy
/// machine cuts off again and again are not to keep it busy.
pub const RETRY_AFTER_LOAD: Duration = Duration::from_secs(5);

/// How many digests are remembered as failed: more than fit into all sources of a busy installation. The oldest are forgotten first.
const FAILURES: usize = 1024;

/// How much longer than a look for what is to be done nobody looks again. It goes through all groups, and rounds wait for its lock: with ten thousand groups each of which wants its copies after a start, looks alone would
/// keep a processor busy for minutes.
const REST: u32 = 9;

/// How long nobody looks for what is to be done after a look that took so long. A short one costs nobody anything.
pub fn rest_after(look: Duration) -> Option<Duration> {
    (look >= Duration::from_millis(1)).then(|| look.saturating_mul(REST))
}

/// Why a policy could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A sentence that users see.
    pub why: String,
    /// Whether the machine's load ended it, and nothing is known to be wrong with the policy.
    pub is_load: bool,
}

#[derive(Debug)]
struct Failed {
    why: String,
    at: Instant,
    again: Instant,
    /// How often in a row the machine's load ended it.
    cuts: u32,
}

/// What is being compiled, and what failed.
#[derive(Debug, Default)]
pub struct Queue {
    /// The digests that are being compiled, with their kind and the namespace whose turn it is.
    running: BTreeMap<String, (Kind, String)>,
    failed: BTreeMap<String, Failed>,
    /// When each namespace had its last turn, by a counter.
    turns: BTreeMap<String, u64>,
    turn: u64,
}

impl Queue {
    /// Begins the next compilation. `wanted`: namespaces, kinds and digests, most urgent first. `None`: nothing can begin now.
    pub fn begin<'a>(
        &mut self,
        wanted: impl Iterator<Item = (&'a str, Kind, &'a str)>,
        now: Instant,
    ) -> Option<(String, String)> {
        let free = wanted.filter(|(namespace, kind, digest)| {
            let mut others = self.running.values().filter(|(other, _)| other == kind);
            let is_full = others.clone().count() >= AT_ONCE;
            let is_busy = self.running.contains_key(*digest) || others.any(|(_, other)| other == namespace);
            !is_full && !is_busy && self.failed.get(*digest).is_none_or(|failed| failed.again <= now)
        });
        let last = |namespace: &str| self.turns.get(namespace).copied().unwrap_or(0);
        let (namespace, kind, digest) = free.min_by_key(|(namespace, ..)| last(namespace))?;
        self.turn = self.turn.saturating_add(1);
        self.turns.insert(namespace.to_owned(), self.turn);
        self.running.insert(digest.to_owned(), (kind, namespace.to_owned()));
        Some((namespace.to_owned(), digest.to_owned()))
    }

    /// A compilation ended. `failure`: why it failed.
    pub fn end(&mut self, digest: &str, failure: Option<Failure>, now: Instant) {
        self.running.remove(digest);
        let Some(Failure { why, is_load }) = failure else {
            self.failed.remove(digest);
            return;
        };
        let before = self.failed.get(digest).map_or(0, |failed| failed.cuts);
        let cuts = if is_load { before.saturating_add(1) } else { 0 };
        let pause = match cuts.checked_sub(1) {
            Some(doublings) => RETRY_AFTER_LOAD.saturating_mul(2u32.saturating_pow(doublings)).min(RETRY),
            None => RETRY,
        };
        self.failed.insert(digest.to_owned(), Failed { why, at: now, again: now + pause, cuts });
        if self.failed.len() > FAILURES
            && let Some(oldest) =
                self.failed.iter().min_by_key(|(_, failed)| failed.at).map(|(digest, _)| digest.clone())
        {
            self.failed.remove(&oldest);
        }
    }

    /// Why a digest failed when it was last tried. `None`: it was not tried, or did not fail.
    pub fn why(&self, digest: &str) -> Option<&str> {
        self.failed.get(digest).map(|failed| failed.why.as_str())
    }

    /// When a digest that failed may be tried again.
    pub fn again(&self, digest: &str) -> Option<Instant> {
        self.failed.get(digest).map(|failed| failed.again)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use super::*;

    fn begin(queue: &mut Queue, wanted: &[(&'static str, &'static str)], now: Instant) -> Option<String> {
        let wanted = wanted.iter().map(|(namespace, digest)| {
            let kind = if digest.ends_with(".star") { Kind::Script } else { Kind::Component };
            (*namespace, kind, *digest)
        });
        queue.begin(wanted, now).map(|(_, digest)| digest)
    }

    // H19, P6: a namespace that wants much gets one place, and another one's policy begins at once.
    #[test]
    fn a_namespace_compiles_one_at_a_time_and_holds_up_no_other() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let wanted = [("greedy", "bomb-1"), ("greedy", "bomb-2"), ("greedy", "bomb-3"), ("shop", "mine")];
        assert_eq!(begin(&mut queue, &wanted, now).unwrap(), "bomb-1");
        assert_eq!(begin(&mut queue, &wanted, now).unwrap(), "mine");
        assert_eq!(begin(&mut queue, &wanted, now), None, "all places are taken");
        queue.end("mine", None, now);
        assert_eq!(begin(&mut queue, &wanted[..3], now), None, "one at a time in a namespace");
    }

    // H19, P6: the memory of all compilations counts together against the limit of the pod.
    #[test]
    fn compilations_are_bounded_over_all_namespaces() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let wanted = [("a", "a1"), ("b", "b1"), ("c", "c1")];
        assert_eq!(begin(&mut queue, &wanted, now).unwrap(), "a1");
        assert_eq!(begin(&mut queue, &wanted, now).unwrap(), "b1");
        assert_eq!(begin(&mut queue, &wanted, now), None);
        queue.end("a1", None, now);
        assert_eq!(begin(&mut queue, &wanted, now).unwrap(), "c1");
    }

    // P8: a script decides within half a second of its change, whatever is being compiled.
    #[test]
    fn scripts_wait_for_no_compilation_and_are_bounded_themselves() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let wanted =
            [("a", "a1"), ("b", "b1"), ("a", "mine.star"), ("a", "more.star"), ("b", "b.star"), ("c", "c.star")];
        let begun: Vec<_> = std::iter::from_fn(|| begin(&mut queue, &wanted, now)).collect();
        assert_eq!(begun, ["a1", "b1", "c.star", "mine.star"]);
    }

    #[test]
    fn the_namespace_that_waited_longest_goes_first() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let mut wanted = vec![("a", "a1"), ("a", "a2"), ("b", "b1"), ("c", "c1")];
        let mut order = Vec::new();
        while let Some(digest) = begin(&mut queue, &wanted, now) {
            queue.end(&digest, None, now);
            wanted.retain(|(_, d)| *d != digest);
            order.push(digest);
        }
        assert_eq!(order, ["a1", "b1", "c1", "a2"]);
    }

    // H21, S49: the same bytes fail again, so a digest that failed is tried again after five minutes, or at once by a new process. The load of a machine is another matter.
    #[test]
    fn a_digest_that_failed_is_not_tried_again_for_five_minutes() {
        for (is_load, pause) in [(false, RETRY), (true, RETRY_AFTER_LOAD)] {
            let (mut queue, now) = (Queue::default(), Instant::now());
            assert_eq!(begin(&mut queue, &[("a", "bad")], now).unwrap(), "bad");
            queue.end("bad", Some(Failure { why: "no".into(), is_load }), now);
            let soon = now + pause - Duration::from_secs(1);
            assert_eq!((begin(&mut queue, &[("a", "bad")], soon), queue.why("bad")), (None, Some("no")));
            assert_eq!(queue.again("bad"), Some(now + pause));
            assert_eq!(begin(&mut queue, &[("a", "bad")], now + pause).unwrap(), "bad");
            queue.end("bad", None, now);
            assert_eq!(queue.why("bad"), None);
        }
    }

    // H19: what a busy machine cuts off each time is tried ever more rarely, and as soon as before once it was loaded or failed by itself.
    #[test]
    fn what_the_load_ends_again_and_again_is_tried_more_rarely() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        let mut pause_after = |is_load| {
            queue.end("slow", Some(Failure { why: "cut off".into(), is_load }), now);
            let pause = queue.again("slow").unwrap() - now;
            now += pause;
            pause.as_secs()
        };
        let pauses: Vec<_> = (0..8).map(|_| pause_after(true)).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!((pause_after(false), pause_after(true)), (300, 5));
    }

    // Promise 4: with many groups at most a tenth of the time goes into looks; with few, an edit of a policy is found at once.
    #[test]
    fn long_looks_are_rare() {
        let rests = [0, 900, 1_000, 20_000].map(|micros| rest_after(Duration::from_micros(micros)));
        assert_eq!(rests, [None, None, Some(Duration::from_millis(9)), Some(Duration::from_millis(180))]);
    }

    #[test]
    fn the_list_of_failures_is_bounded() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for step in 0..=1024 {
            let failure = Failure { why: String::new(), is_load: false };
            queue.end(&format!("{step}"), Some(failure), now + Duration::from_secs(step));
        }
        assert_eq!((queue.failed.len(), queue.why("0")), (1024, None));
    }
}
