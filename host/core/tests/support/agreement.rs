//! An application whose members agree: it counts its members itself, answers only while a majority of the voters runs, and starts nobody that it does not list.
use super::db;
use super::world::World;
use std::collections::BTreeMap;
use tanist_core::contract::{MemberName, Phase, Role};
use tanist_core::membership::{self, Entry, Heard, List, Vote};

/// The members in truth, and what they said.
#[derive(Debug, Clone, Default)]
pub struct Agreement {
    /// The identity of the cluster. Empty: it was never formed.
    pub cluster: String,
    /// The members by identity.
    pub members: BTreeMap<String, Listed>,
    /// What members said, and in which container.
    heard: BTreeMap<u32, (String, Heard)>,
    /// What members say instead of the truth.
    pub lies: BTreeMap<u32, Lie>,
}

/// A member in truth.
#[derive(Debug, Clone)]
pub struct Listed {
    pub ordinal: u32,
    pub started: bool,
    pub voter: bool,
}

/// What a member says instead of the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// `memberList` fails.
    Fails,
    /// It is in another cluster.
    Split,
    /// It knows nothing of the last member.
    Differs,
    /// It reaches no other member.
    Alone,
}

impl World {
    /// The cluster has these members, all started and with a vote.
    pub fn form(&mut self, ordinals: impl IntoIterator<Item = u32>) {
        self.agreement.cluster = "c1".into();
        for ordinal in ordinals {
            let id = self.birth("m");
            self.agreement.members.insert(id, Listed { ordinal, started: true, voter: true });
        }
    }

    /// Whether the member runs and the others reach it.
    fn takes_part(&self, ordinal: u32) -> bool {
        let runs = |role| matches!(role, Role::Primary | Role::Secondary | Role::Starting);
        self.pods.get(&ordinal).is_some_and(|b| b.pod.phase != Phase::Unreachable && runs(b.app.role))
    }

    /// Whether a majority of the voters runs.
    pub fn has_quorum(&self) -> bool {
        let voters: Vec<_> = self.agreement.members.values().filter(|m| m.voter).collect();
        let running = voters.iter().filter(|m| m.started && self.takes_part(m.ordinal)).count();
        running >= membership::quorum(voters.len())
    }

    /// What that member says now.
    fn list_of(&self, ordinal: u32) -> Result<List, String> {
        let lie = self.agreement.lies.get(&ordinal);
        if lie == Some(&Lie::Fails) || !self.has_quorum() {
            return Err("memberList exited 1".into());
        }
        let entry = |(id, m): (&String, &Listed)| Entry {
            name: m.started.then(|| db(m.ordinal)),
            id: id.clone(),
            vote: if m.voter { Vote::Voter } else { Vote::Learner },
            healthy: self.takes_part(m.ordinal) && (lie != Some(&Lie::Alone) || m.ordinal == ordinal),
            address: format!("http://db-{}.db.ns.svc.cluster.local:2380", m.ordinal),
        };
        let mut entries: Vec<_> = self.agreement.members.iter().map(entry).collect();
        if lie == Some(&Lie::Differs) {
            entries.pop();
        }
        let cluster = if lie == Some(&Lie::Split) { "c2".into() } else { self.agreement.cluster.clone() };
        Ok(List { cluster, entries })
    }

    /// A member is asked for its list.
    pub fn hear(&mut self, ordinal: u32) {
        let heard = Heard { list: self.list_of(ordinal), at: self.now };
        let container = self.body(ordinal).container_id();
        self.agreement.heard.insert(ordinal, (container, heard));
    }

    /// What members said who are still in the container in which they said it.
    pub(super) fn lists(&self) -> BTreeMap<MemberName, Heard> {
        let heard = self.agreement.heard.iter();
        let same = heard.filter(|(o, (id, _))| self.pods.get(o).is_some_and(|b| b.container_id() == *id));
        same.map(|(o, (_, heard))| (db(*o), heard.clone())).collect()
    }
}
