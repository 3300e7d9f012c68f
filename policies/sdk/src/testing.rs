//! Snapshots of one line, for native tests of policies.
//!
//! ```
//! use tanist_policy::testing::{member, snapshot};
//!
//! // Three stopped members; db-1 and db-2 have the most recent data, db-2 must not be chosen.
//! let story = snapshot([member(0).at(4), member(1).at(9), member(2).at(9).barred("marked for removal")]);
//! assert_eq!(story.eligible().count(), 2);
//! ```

use crate::{Answer, Care, Failure, Group, Member, Outcome, Phase, Position, Remedy, Role, Sequence, Snapshot};

/// The time of every snapshot made here.
pub const NOW: i64 = 1_700_000_000;

/// `db-ORDINAL`: its pod runs, its role is stopped, its position was not asked, it was never confirmed in a term.
pub fn member(ordinal: u32) -> Member {
    Member {
        name: format!("db-{ordinal}"),
        ordinal,
        phase: Phase::Running,
        phase_since: NOW - 60,
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

    /// Its role.
    #[must_use]
    pub fn role(self, role: Role) -> Self {
        Self { role, ready: matches!(role, Role::Primary | Role::Secondary), ..self }
    }

    /// The last term in which it was confirmed.
    #[must_use]
    pub fn in_term(self, term: u64) -> Self {
        Self { term: Some(term), ..self }
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
