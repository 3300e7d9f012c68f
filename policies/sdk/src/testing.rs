//! Snapshots in a few lines, for native tests of policies.
//!
//! A story says what a test is about. [`Snapshot::asked`] makes of it what the host asks: its own decision bars members as in a cluster, and for the same
//! reasons. Without it a story is a snapshot as it stands, with the bars that the test gives.
//!
//! ```
//! use tanist_policy::testing::{Point, member, snapshot};
//!
//! // Three stopped members; db-1 and db-2 have the most recent data.
//! let question = snapshot([member(0).at(4), member(1).at(9), member(2).at(9)]).asked(Point::Seed);
//! assert_eq!(question.eligible().count(), 2);
//! assert_eq!(question.bar_of("db-0"), Some("its data (4) is behind the highest known (9)"));
//!
//! // By hand.
//! let story = snapshot([member(0).at(4), member(1).at(9).barred("of no interest")]);
//! assert_eq!(story.eligible().count(), 1);
//! ```

mod convert;
mod host;

pub use host::Point;

use crate::{Answer, Care, Failure, Group, Member, Outcome, Phase, Position, Remedy, Role, Sequence, Snapshot};

/// The time of every snapshot made here.
pub const NOW: i64 = 1_700_000_000;

/// `db-ORDINAL`: its pod runs, its role is stopped, its position was not asked, it was never confirmed in a term.
pub fn member(ordinal: u32) -> Member {
    Member {
        name: format!("db-{ordinal}"),
        ordinal,
        phase: Phase::Running,
        phase_since: NOW - 7_200,
        ready: false,
        role: Role::Stopped,
        role_since: NOW - 30,
        role_detail: None,
        last_primary: None,
        term: None,
        position: Position::NotAsked,
        node: None,
        zone: None,
        failures: 0,
        last_failure: None,
        marked: None,
        conditions: Vec::new(),
        labels: Vec::new(),
        facts: Vec::new(),
        barred: None,
    }
}

/// A snapshot of the group `db`: as many replicas as members, one primary, secondaries possible, no parameters.
pub fn snapshot(members: impl IntoIterator<Item = Member>) -> Snapshot {
    let members: Vec<_> = members.into_iter().collect();
    Snapshot {
        now: NOW,
        group: Group {
            name: "db".to_owned(),
            namespace: "default".to_owned(),
            replicas: u32::try_from(members.len()).unwrap_or(u32::MAX),
            primaries: 1,
            has_secondaries: true,
            term: members.iter().filter_map(|member| member.term).max().unwrap_or(0),
            preferred_primary: None,
            high_water: None,
            labels: Vec::new(),
            facts: Vec::new(),
        },
        members,
        history: Vec::new(),
        parameters: "{}".to_owned(),
    }
}

/// Adds a pair, or changes its value; the contract has them sorted, and each key once.
fn set_pair(pairs: &mut Vec<(String, String)>, key: &str, value: &str) {
    pairs.retain(|(found, _)| found != key);
    pairs.push((key.to_owned(), value.to_owned()));
    pairs.sort_unstable();
}

/// Builders: each returns the member with one thing changed.
impl Member {
    /// Its sequence is known.
    #[must_use]
    pub fn at(self, number: u64) -> Self {
        Self { position: Position::Known(Sequence { history: None, number }), ..self }
    }

    /// Its sequence is known, inside a history.
    #[must_use]
    pub fn at_history(self, history: &str, number: u64) -> Self {
        Self { position: Position::Known(Sequence { history: Some(history.to_owned()), number }), ..self }
    }

    /// It holds no data yet.
    #[must_use]
    pub fn empty(self) -> Self {
        Self { position: Position::Empty, ..self }
    }

    /// Its sequence could not be read.
    #[must_use]
    pub fn unreadable(self, why: &str) -> Self {
        Self { position: Position::Unknown(why.to_owned()), ..self }
    }

    /// It has this role, and is Ready if it is primary or secondary.
    #[must_use]
    pub fn role(self, role: Role) -> Self {
        Self { role, ready: matches!(role, Role::Primary | Role::Secondary), ..self }
    }

    /// The last term in which it was confirmed.
    #[must_use]
    pub fn in_term(self, term: u64) -> Self {
        Self { term: Some(term), ..self }
    }

    /// The state of its pod.
    #[must_use]
    pub fn phase(self, phase: Phase) -> Self {
        Self { phase, ready: self.ready && phase == Phase::Running, ..self }
    }

    /// It led until that many seconds ago.
    #[must_use]
    pub fn led_until(self, seconds_ago: u32) -> Self {
        Self { last_primary: Some(NOW - i64::from(seconds_ago)), ..self }
    }

    /// A label that the user gave it for policies, without the prefix `policy.tanist.dev/`.
    #[must_use]
    pub fn labelled(mut self, key: &str, value: &str) -> Self {
        set_pair(&mut self.labels, key, value);
        self
    }

    /// A fact, by a word of `docs/facts.md`.
    #[must_use]
    pub fn with_fact(mut self, word: &str, value: &str) -> Self {
        set_pair(&mut self.facts, word, value);
        self
    }

    /// The zone it runs in.
    #[must_use]
    pub fn in_zone(self, zone: &str) -> Self {
        Self { zone: Some(zone.to_owned()), ..self }
    }

    /// It failed: this command, this many failures in a row.
    #[must_use]
    pub fn failed(self, command: &str, outcome: Outcome, failures: u32) -> Self {
        let failure = Failure { command: command.to_owned(), outcome, at: NOW - 5 };
        Self {
            role: Role::Failed,
            role_detail: Some(format!("{command} failed")),
            failures,
            last_failure: Some(failure),
            ..self
        }
    }

    /// The host does not accept it.
    #[must_use]
    pub fn barred(self, why: &str) -> Self {
        Self { barred: Some(why.to_owned()), ..self }
    }
}

/// Builders: each returns the snapshot with one thing changed.
impl Snapshot {
    /// The desired number of primaries.
    #[must_use]
    pub fn primaries(mut self, primaries: u32) -> Self {
        self.group.primaries = primaries;
        self
    }

    /// The group is in that term. Without it, the highest term of its members.
    #[must_use]
    pub fn in_term(mut self, term: u64) -> Self {
        self.group.term = term;
        self
    }

    /// A label that the user gave the group for policies, without the prefix `policy.tanist.dev/`.
    #[must_use]
    pub fn labelled(mut self, key: &str, value: &str) -> Self {
        set_pair(&mut self.group.labels, key, value);
        self
    }

    /// A fact of the group, by a word of `docs/facts.md`.
    #[must_use]
    pub fn with_fact(mut self, word: &str, value: &str) -> Self {
        set_pair(&mut self.group.facts, word, value);
        self
    }

    /// The member that the user wants as primary.
    #[must_use]
    pub fn preferring(mut self, member: &str) -> Self {
        self.group.preferred_primary = Some(member.to_owned());
        self
    }

    /// The policy's parameters, as JSON.
    #[must_use]
    pub fn with_parameters(mut self, json: &str) -> Self {
        self.parameters = json.to_owned();
        self
    }
}

impl Answer {
    /// The names of the chosen, best first. Empty when nothing was chosen.
    pub fn chosen(&self) -> Vec<&str> {
        match self {
            Self::Choose(ranking) => ranking.candidates.iter().map(|candidate| candidate.member.as_str()).collect(),
            Self::Wait(_) | Self::Refuse(_) | Self::Abstain => Vec::new(),
        }
    }

    /// The reason that is given for a member, whether it is chosen or passed over.
    pub fn says_of(&self, name: &str) -> Option<&str> {
        let Self::Choose(ranking) = self else { return None };
        let chosen = ranking.candidates.iter().map(|candidate| (&candidate.member, &candidate.reason));
        let passed = ranking.passed_over.iter().map(|remark| (&remark.member, &remark.reason));
        chosen.chain(passed).find(|(member, _)| *member == name).map(|(_, reason)| reason.as_str())
    }
}

impl Care {
    /// The members with their remedies, in order.
    pub fn remedies(&self) -> Vec<(&str, Remedy)> {
        match self {
            Self::Treat(treatments) => {
                treatments.iter().map(|treatment| (treatment.member.as_str(), treatment.remedy)).collect()
            }
            Self::Wait(_) | Self::Refuse(_) | Self::Abstain => Vec::new(),
        }
    }
}
