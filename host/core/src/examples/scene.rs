//! A group in a few lines, as the operator observes it: the input of a decision.
use crate::contract::{Outcome, Position, Role};
use crate::data;
use crate::decide::decide;
use crate::examples::parts::{container_id, copied, failure, group, member, name, node, pair, pattern_of, pod_uid};
use crate::examples::{NOW, routed};
use crate::membership::{Entry, Heard, List, Vote};
use crate::policy::{Answered, NO_POLICY, Point, Policies, PolicyName, Question, Unanswered};
use crate::record::{Broken, Canary, GroupSize, Mark, MemberRecord, Record, Seeded};
use crate::snapshot::{Batch, Member, MemberCommands, Reading, Set, Snapshot};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// A group as the operator observes it. It is described by what differs from a group that runs nowhere and was never seeded; a round that decides about
/// it has nothing left to remember first.
#[derive(Debug, Clone)]
pub struct Scene(Snapshot);

/// The zones of the three nodes, by the number in the node's name.
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

impl Scene {
    /// Stopped members without data, all on one node of unknown zone. One primary is desired, and secondaries are possible.
    #[must_use]
    pub fn new(members: u32) -> Self {
        let record = Record { cleared_generation: 1, last_replicas: members, ..Record::default() };
        Scene(Snapshot {
            now: NOW,
            began: 0,
            nonce: "example".into(),
            group: group(members),
            record,
            objects: Vec::new(),
            set: Some(Set { uid: "set".into(), replicas: members, ..Set::default() }),
            moving: None,
            members: (0..members).map(member).collect(),
            evidence: BTreeMap::new(),
            nodes: Some(BTreeMap::from([("node-0".to_owned(), node(None))])),
            ended: BTreeSet::new(),
            nodes_at: NOW,
            deleted_nodes: BTreeMap::new(),
            gone_pods: BTreeMap::new(),
            lists: BTreeMap::new(),
            answers: BTreeMap::new(),
            surplus_claims: Vec::new(),
            left_claims: Vec::new(),
            cluster_state: Default::default(),
            strangers: BTreeSet::new(),
        })
    }

    /// The group is in that term, in which every member was confirmed, and the members are spread over three nodes in three zones.
    #[must_use]
    pub fn in_term(mut self, term: u64) -> Self {
        let s = &mut self.0;
        s.record.term = term;
        s.record.ever_seeded = Some(Seeded { member: "db-0".into(), confirmed: true });
        s.nodes = Some((1..).zip(ZONES).map(|(number, zone)| (format!("node-{number}"), node(Some(zone)))).collect());
        for member in &mut s.members {
            if let Some(pod) = &mut member.pod {
                pod.node = Some(format!("node-{}", member.ordinal % 3 + 1));
            }
            let known = s.record.member_mut(&member.name);
            known.term = Some(term);
            known.claim_uid = crate::memory::claim_uids(&member.claims);
            s.record.history.push(crate::contract::Transition {
                at: NOW.saturating_sub(700),
                what: "became-secondary".into(),
                member: Some(member.name.clone()),
                detail: None,
            });
        }
        self
    }

    /// What `sequence` printed, member by member: `HISTORY:NUMBER`, `NUMBER` or `EMPTY`. Anything else could not be read.
    #[must_use]
    pub fn with_data(mut self, printed: &[&str]) -> Self {
        for (member, text) in self.0.members.iter_mut().zip(printed) {
            member.position = data::read_sequence(text.as_bytes()).unwrap_or_else(Position::Unknown);
        }
        self.remember_highest();
        self
    }

    /// Roles, member by member. A primary is confirmed as one of the group's term, and is one of its last primaries.
    #[must_use]
    pub fn with_roles(mut self, roles: &[Role]) -> Self {
        for (ordinal, role) in (0..).zip(roles) {
            self.change(ordinal, |member, _| {
                member.reading.role = *role;
                let serves = matches!(role, Role::Primary | Role::Secondary);
                if let Some(pod) = &mut member.pod {
                    (pod.ready, pod.gate) = (serves, Some(serves));
                    pod.routed = routed(*role);
                }
            });
            if *role == Role::Primary {
                self = self.led(ordinal);
            }
        }
        self
    }

    /// The member was primary in the group's term.
    #[must_use]
    pub fn led(mut self, ordinal: u32) -> Self {
        let term = self.0.record.term;
        self.change(ordinal, |_, known| {
            known.primary_term = Some(term);
            known.last_primary = Some(NOW.saturating_sub(600));
        });
        self
    }

    /// The member's data is of that term.
    #[must_use]
    pub fn of_term(mut self, ordinal: u32, term: u64) -> Self {
        self.change(ordinal, |_, known| known.term = Some(term));
        self.remember_highest();
        self
    }

    /// The desired number of primaries.
    #[must_use]
    pub fn primaries(mut self, primaries: u32) -> Self {
        (self.0.group.primaries, self.0.group.requested.primaries) = (primaries, primaries);
        self
    }

    /// The desired number of members. Those beyond it leave.
    #[must_use]
    pub fn desired(mut self, replicas: u32) -> Self {
        (self.0.group.replicas, self.0.group.requested.replicas) = (replicas, replicas);
        self
    }

    /// The number of members that is asked for, while policies have let in those that there are.
    #[must_use]
    pub fn asks_for(mut self, replicas: u32) -> Self {
        self.0.group.requested.replicas = replicas;
        self.0.record.admitted = Some(GroupSize { replicas: self.0.group.replicas, primaries: 1 });
        self
    }

    /// The members of the application agree on who they are, and said a moment ago: those with these ordinals, who have a vote.
    #[must_use]
    pub fn agreeing(mut self, voters: &[u32]) -> Self {
        let s = &mut self.0;
        let command = s.group.commands.status.clone();
        let (list, add, remove, promote) = (command.clone(), command.clone(), command.clone(), Some(command));
        s.group.commands.membership = Some(MemberCommands { list, add, remove, promote, recover: None, wipe: None });
        let entry = |ordinal: &u32| Entry {
            name: Some(name(*ordinal)),
            id: format!("id-{ordinal}"),
            vote: Vote::Voter,
            healthy: true,
            address: name(*ordinal).to_string(),
        };
        let list = List { cluster: "c1".to_owned(), entries: voters.iter().map(entry).collect() };
        s.record.membership = Some(list.to_record(&s.group.name, None));
        let heard = Heard { list: Ok(list), at: NOW };
        s.lists = voters.iter().map(|ordinal| (name(*ordinal), heard.clone())).collect();
        for ordinal in 0..s.group.replicas.max(s.record.last_replicas) {
            self.change(ordinal, |_, known| {
                if !voters.contains(&ordinal) {
                    *known = MemberRecord::default();
                }
            });
        }
        self
    }

    /// `spec.failover.reads`: so many known positions are enough for a failover.
    #[must_use]
    pub fn reads(mut self, reads: u32) -> Self {
        self.0.group.failover.reads = Some(reads);
        self
    }

    /// `spec.failover.maxBehind`: a running secondary may take over that is behind by no more.
    #[must_use]
    pub fn max_behind(mut self, limit: u64) -> Self {
        self.0.group.failover.max_behind = Some(limit);
        self
    }

    /// The pod of the member is gone, and its application is over.
    #[must_use]
    pub fn gone(mut self, ordinal: u32) -> Self {
        self.change(ordinal, |member, _| {
            (member.pod, member.position) = (None, Position::NotAsked);
            member.reading = Reading::default();
        });
        self
    }

    /// The node of the member is to be drained.
    #[must_use]
    pub fn drained(mut self, ordinal: u32) -> Self {
        let pod = self.0.members.iter().find(|m| m.ordinal == ordinal).and_then(|m| m.pod.as_ref());
        let name = pod.and_then(|pod| pod.node.clone());
        if let Some(node) = name.and_then(|name| self.0.nodes.as_mut()?.get_mut(&name)) {
            node.cordoned = true;
        }
        self
    }

    /// The member runs on the node of another one.
    #[must_use]
    pub fn on_node_of(mut self, ordinal: u32, other: u32) -> Self {
        let pod = self.0.members.iter().find(|m| m.ordinal == other).and_then(|m| m.pod.as_ref());
        let node = pod.and_then(|pod| pod.node.clone());
        self.change(ordinal, |member, _| member.pod.iter_mut().for_each(|pod| pod.node.clone_from(&node)));
        self
    }

    /// The group's template changed: the pods of these members are of an older one.
    #[must_use]
    pub fn outdated(mut self, ordinals: &[u32]) -> Self {
        self.0.group.update.template = "changed".to_owned();
        for ordinal in ordinals {
            self.change(*ordinal, |member, _| {
                member.pod.iter_mut().for_each(|pod| (pod.outdated, pod.older_template) = (true, true));
            });
        }
        self
    }

    /// How many pods get another template at a time (`spec.update.batch`).
    #[must_use]
    pub fn in_batches(mut self, batch: Batch) -> Self {
        self.0.group.update.batch = batch;
        self
    }

    /// The member is the first one with a changed template, and has been watched for 60 of 300 seconds.
    #[must_use]
    pub fn watched(mut self, ordinal: u32) -> Self {
        let since = NOW.saturating_sub(60);
        self.0.group.update.canary = 300;
        self.0.record.canary = Some(Canary {
            template: self.0.group.update.template.clone(),
            member: name(ordinal),
            pod_uid: pod_uid(ordinal),
            container: Some(container_id(ordinal)),
            begun: since,
            since: Some(since),
            unjudged: None,
            verdict: None,
        });
        self
    }

    /// A command on the member failed a while ago, and it is not tried again for some seconds.
    #[must_use]
    pub fn rests(mut self, ordinal: u32) -> Self {
        self.change(ordinal, |_, known| {
            failure(known, "primary", Outcome::Exited(1), 2);
            known.retry_at = Some(NOW.saturating_add(15));
        });
        self
    }

    /// The member's `status` says that it is broken.
    #[must_use]
    pub fn broken(mut self, ordinal: u32) -> Self {
        self.change(ordinal, |member, _| {
            member.reading.role = Role::Failed;
            member.reading.detail = Some("its status says failed: the data directory has no version file".into());
        });
        self
    }

    /// A command failed on the member, so that it counts as failed. `rests`: it was treated, and is not treated again for some seconds.
    #[must_use]
    pub fn failed(mut self, ordinal: u32, command: &str, outcome: Outcome, rests: bool) -> Self {
        self.change(ordinal, |member, known| {
            failure(known, command, outcome, 1);
            known.treat_at = rests.then(|| NOW.saturating_add(30));
            known.broken = member.pod.as_ref().map(|pod| Broken {
                pod_uid: pod.uid.clone(),
                container_id: container_id(member.ordinal),
                reason: format!("{command} failed"),
            });
        });
        self
    }

    /// Labels that policies see: of the group, and of each member.
    #[must_use]
    pub fn labelled(mut self) -> Self {
        self.0.group.labels = vec![pair("tier", "critical".to_owned())];
        for member in &mut self.0.members {
            if let Some(pod) = &mut member.pod {
                pod.labels =
                    vec![pair("nofailover", "false".to_owned()), pair("priority", (member.ordinal % 4).to_string())];
            }
        }
        self
    }

    /// The observed group.
    #[must_use]
    pub fn observed(&self) -> &Snapshot {
        &self.0
    }

    /// The question of a point that a round asks about this group. `None`: it does not arise.
    #[must_use]
    pub fn question(&self, point: Point) -> Option<Question> {
        let asked = Recorder::of(point);
        let _ = decide(&self.0, &asked);
        asked.asked.into_inner().into_iter().find(|question| question.point == point)
    }

    /// The same group with so many members: those beyond the present ones are copies of `patterns`, in turn.
    #[must_use]
    pub fn grown(&self, members: u32, patterns: &[u32]) -> Self {
        let mut grown = self.clone();
        let s = &mut grown.0;
        let present = u32::try_from(s.members.len()).unwrap_or(u32::MAX);
        // As large a part of them is desired, or asked for.
        let total = present.max(s.group.requested.replicas).max(1);
        let part = |of: u32| members.saturating_mul(of).checked_div(total).unwrap_or(members);
        (s.group.replicas, s.group.requested.replicas) = (part(s.group.replicas), part(s.group.requested.replicas));
        s.record.admitted = s.record.admitted.map(|size| GroupSize { replicas: s.group.replicas, ..size });
        let members = part(present);
        s.record.last_replicas = members;
        if let Some(set) = &mut s.set {
            set.replicas = members;
        }
        for ordinal in present..members {
            let pattern = pattern_of(ordinal, present, patterns);
            let Some(original) = self.0.members.iter().find(|m| m.ordinal == pattern) else { continue };
            let copy = copied(original, ordinal);
            let known = MemberRecord {
                claim_uid: crate::memory::claim_uids(&copy.claims),
                broken: self.0.record.member(&original.name).broken.clone().map(|broken| Broken {
                    pod_uid: pod_uid(ordinal),
                    container_id: container_id(ordinal),
                    ..broken
                }),
                ..self.0.record.member(&original.name).clone()
            };
            s.record.members.insert(copy.name.clone(), known);
            s.members.push(copy);
        }
        grown
    }

    /// Changes a member and what is remembered of it.
    fn change(&mut self, ordinal: u32, change: impl FnOnce(&mut Member, &mut MemberRecord)) {
        let s = &mut self.0;
        if let Some(member) = s.members.iter_mut().find(|m| m.ordinal == ordinal) {
            let name = member.name.clone();
            change(member, s.record.member_mut(&name));
        }
    }

    /// The record has the highest data that can be seen, as it would after the round in which that was read.
    fn remember_highest(&mut self) {
        let record = &mut self.0.record;
        record.high_water = None;
        for member in &self.0.members {
            let known = record.member_mut(&member.name);
            if let (Position::Known(sequence), Some(term)) = (&member.position, known.term) {
                known.sequence = Some(sequence.clone());
                crate::memory::raise_high_water(record, Mark { term, sequence: sequence.clone() });
            }
        }
    }
}

/// Answers nothing, and keeps what was asked.
pub(super) struct Recorder {
    point: Point,
    pub(super) asked: RefCell<Vec<Question>>,
}

impl Recorder {
    /// For that point. Optional questions about other points are not asked.
    pub(super) fn of(point: Point) -> Self {
        Recorder { point, asked: RefCell::default() }
    }
}

impl Policies for Recorder {
    fn has(&self, point: Point) -> bool {
        !point.is_optional() || point == self.point
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        self.asked.borrow_mut().push(question.clone());
        let none = String::new;
        let policy = PolicyName { name: none(), version: none(), source: none(), digest: none() };
        Err(Unanswered { policy, kind: NO_POLICY, message: none(), notes: Vec::new() })
    }
}
