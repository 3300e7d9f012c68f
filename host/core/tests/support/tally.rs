//! How often what happened in random runs: a rule whose situation hardly ever arises is hardly tested, so each test has floors.
use std::cell::RefCell;
use std::collections::BTreeMap;
use tanist_core::plan::{Action, DeletionCause, Plan};
use tanist_core::record::{Event, Switchover, Verb};
use tanist_core::snapshot::Snapshot;

/// Events of one run, by name: verbs of commands, faults, and reasons for which the group waited.
#[derive(Debug, Clone, Default)]
pub struct Events(BTreeMap<&'static str, usize>);

impl Events {
    pub fn add(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// What a plan waits for, and the rare decisions that are not a verb of their own.
    pub fn of_plan(&mut self, s: &Snapshot, plan: &Plan) {
        plan.waits.iter().for_each(|wait| self.add(wait.reason.as_str()));
        for action in &plan.actions {
            match action {
                Action::Run { intent, .. } => {
                    let same_term = s.record.member(&intent.member).term == Some(s.record.term);
                    if intent.verb == Verb::Follow && same_term {
                        self.add("told again");
                    }
                    let by_policy = |last: &Switchover| {
                        last.chosen.is_some() || last.to.is_some() && last.to != s.group.preferred_primary
                    };
                    if intent.verb == Verb::Switchover && plan.record.switchover.as_ref().is_some_and(by_policy) {
                        self.add("switchover by a policy");
                    }
                    if intent.verb == Verb::Failover && s.group.failover.prefer_running {
                        self.add("failover with preferRunning");
                    }
                }
                Action::DeletePod { cause: DeletionCause::Failure, .. } => self.add("pod deleted"),
                Action::DeletePod { cause: DeletionCause::Rebalance, .. } => self.add("member moved"),
                Action::DeletePod { cause: DeletionCause::Update, .. } => self.add("member updated"),
                Action::Scale { .. } => self.add("scaled down"),
                Action::DeleteClaim { .. } => self.add("claim deleted"),
                _ => {}
            }
        }
        if plan.record.used_override != s.record.used_override {
            self.add("override used");
        }
        let noted = plan.noted(&s.record).filter(|t| Event::DataGivenUp.is(&t.what));
        noted.for_each(|_| self.add("takeover within maxBehind"));
        plan.violations.iter().for_each(|_| self.add("answer dropped"));
    }
}

/// Events of all runs of a test.
#[derive(Default)]
pub struct Tally(RefCell<BTreeMap<&'static str, usize>>);

impl Tally {
    pub fn add(&self, events: &Events) {
        let mut all = self.0.borrow_mut();
        events.0.iter().for_each(|(what, count)| *all.entry(what).or_default() += count);
    }

    /// Fails the test when something happened less often than its floor says. `TANIST_TALLY=1` prints all counts: the floors are about a third of
    /// them, so that a change of the world or of the core which makes something rare is noticed, and chance is not.
    pub fn at_least(&self, test: &str, floors: &[(&str, usize)]) {
        let all = self.0.borrow();
        if std::env::var_os("TANIST_TALLY").is_some() {
            all.iter().for_each(|(what, count)| println!("{test}: {count} {what}"));
        }
        let count = |what: &str| all.get(what).copied().unwrap_or_default();
        let rare: Vec<_> = floors.iter().filter(|(what, least)| count(what) < *least).collect();
        let rare: Vec<_> =
            rare.iter().map(|(what, least)| format!("{what}: {}, at least {least}", count(what))).collect();
        assert!(rare.is_empty(), "{test}: these happened too rarely: {}", rare.join("; "));
    }
}
