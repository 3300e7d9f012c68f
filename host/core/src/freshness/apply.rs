//! Joins what members said to the snapshot.
use super::{Moment, Readings, RoleHint, Sight, StatusAnswer, Worth};
use crate::contract::{MemberName, Phase, Role, Timestamp};
use crate::snapshot::{Group, Member, Pod, Reading, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// The present answers of `status`, by member.
pub type Statuses = BTreeMap<MemberName, StatusAnswer>;

/// A role that changed since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The member whose role changed.
    pub member: MemberName,
    /// Its role before.
    pub from: Role,
    /// Its role now.
    pub to: Role,
}

impl Readings {
    /// Writes the answers into the members, and adds the remembered roles and positions. `now` and `at` are the same moment, by the clock of decisions and by
    /// the one that never steps. Returns the roles that changed.
    pub fn apply(
        &mut self,
        group: &Group,
        members: &mut [Member],
        mut said: Statuses,
        now: Timestamp,
        at: Moment,
    ) -> Vec<Change> {
        self.forget_all_but(members);
        let mut changes = Vec::new();
        for member in members {
            let Some(pod) = member.pod.clone() else {
                member.reading.contact = self.contacts.get(&member.name).copied();
                continue;
            };
            let answer = said.remove(&member.name);
            // Only members that were asked have a streak: a container that does not run yet was not asked.
            let was_asked = answer.is_some();
            let answer = answer.unwrap_or_else(|| silent(group, &pod));
            let (since, before) = self.turn(&pod.uid, answer.role, now);
            if let Some(from) = before {
                changes.push(Change { member: member.name.clone(), from, to: answer.role });
            }
            let contact = self.contact(&member.name, &pod.uid, answer.role, now, at);
            let unknown_streak = self.answers.get(&pod.uid).filter(|_| was_asked).map_or(0, |hint| hint.streak);
            member.asked = self.reading.contains(&pod.uid);
            self.add_position(group, member, &pod, answer.role, at);
            let StatusAnswer { role, detail, processes, running, .. } = answer;
            member.reading = Reading { role, detail, since, unknown_streak, processes, running, contact };
        }
        changes
    }

    /// Notes whether data may have changed up to now. While a member may be primary or the group is paused, data changes, and positions from before count
    /// little afterwards. A new generation may hide a pause between two looks, and a new override needs new positions. `moves`: whether data may change now ([`Snapshot::data_may_move`]).
    pub fn note_moves(&mut self, s: &mut Snapshot, moves: bool, at: Moment) {
        let question = (s.group.generation, s.group.requested_override.as_ref().map(|o| o.raw.clone()));
        if self.moves(question, moves, at) {
            s.members.iter_mut().for_each(|m| m.position_stale = true);
        }
    }

    /// Forgets what is about other pods and members.
    fn forget_all_but(&mut self, members: &[Member]) {
        let alive: BTreeSet<&str> = members.iter().filter_map(|m| Some(m.pod.as_ref()?.uid.as_str())).collect();
        let is_alive = |uid: &String| alive.contains(uid.as_str());
        self.roles.retain(|uid, _| is_alive(uid));
        self.positions.retain(|uid, _| is_alive(uid));
        self.answers.retain(|uid, _| is_alive(uid));
        self.touched.retain(|uid, _| is_alive(uid));
        self.contacts.retain(|name, _| members.iter().any(|m| m.name == *name));
    }

    /// Since when the pod has that role, and the role before if it is another one.
    fn turn(&mut self, pod_uid: &str, role: Role, now: Timestamp) -> (Timestamp, Option<Role>) {
        let hint = self.roles.entry(pod_uid.to_owned()).or_insert(RoleHint { role, since: now });
        let before = (hint.role != role).then_some(hint.role);
        if before.is_some() {
            *hint = RoleHint { role, since: now };
        }
        (hint.since, before)
    }

    /// When `status` last gave a role, for a member that gives none now.
    fn contact(
        &mut self,
        name: &MemberName,
        pod_uid: &str,
        role: Role,
        now: Timestamp,
        at: Moment,
    ) -> Option<Timestamp> {
        if role == Role::Unknown {
            return self.contacts.get(name).copied();
        }
        if let Some(answer) = self.answers.get(pod_uid) {
            let ago = i64::try_from(at.since(answer.ended).as_secs()).unwrap_or(i64::MAX);
            self.contacts.insert(name.clone(), now.saturating_sub(ago));
        }
        None
    }

    fn add_position(&mut self, group: &Group, member: &mut Member, pod: &Pod, role: Role, at: Moment) {
        let container = pod.containers.get(&group.commands.sequence.container);
        let sight = Sight {
            container_id: container.and_then(|c| c.id.as_deref()),
            role,
            ready: container.is_some_and(|c| c.ready),
            at,
            moved: self.moved,
        };
        let Some(hint) = self.positions.get(&pod.uid) else { return };
        match hint.worth(sight) {
            Worth::Gone => drop(self.positions.remove(&pod.uid)),
            Worth::Old => {}
            worth @ (Worth::Moved | Worth::Stands) => {
                (member.position, member.position_at) = (hint.position.clone(), hint.at);
                member.position_stale = worth == Worth::Moved;
            }
        }
    }
}

/// The answer of a member that was not asked, because it could not answer or must not be asked.
fn silent(group: &Group, pod: &Pod) -> StatusAnswer {
    let has_container = pod.containers.contains_key(&group.commands.status.container);
    let detail = match pod.phase {
        _ if group.paused => "it is not asked while the group is paused",
        Phase::Unreachable => "its node does not report",
        Phase::Ended => "its pod ended",
        Phase::Running if !has_container => "its pod was made before the container of status had its name",
        _ => "its container does not run",
    };
    StatusAnswer { detail: Some(detail.into()), ..StatusAnswer::of(Role::Unknown) }
}
