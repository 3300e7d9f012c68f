//! What an action of a plan does to the world.
use super::super::app::{Read, Volume};
use super::{World, ordinal};
use tanist_core::contract::Position;
use tanist_core::plan::Action;
use tanist_core::roster::Roster;
use tanist_core::snapshot::QueryAnswer;
use tanist_core::state::{self, Stored};

impl World {
    pub(super) fn carry_out(&mut self, action: &Action) {
        match action {
            Action::Apply(object) => {
                self.say(format!("apply {} {}", object.kind, object.name));
                self.grow(&object.kind);
                self.objects.iter_mut().for_each(|o| o.current |= o.name == object.name && o.kind == object.kind);
            }
            Action::Route { member, pod_uid, role, ready, .. } => {
                self.say(format!("route {member}: {}, ready {ready}", role.unwrap_or("nowhere")));
                if let Some(body) = self.pods.values_mut().find(|b| &b.pod.uid == pod_uid) {
                    body.pod.routed = role.map(str::to_owned);
                    body.pod.gate = Some(*ready);
                    body.pod.ready = *ready;
                }
            }
            Action::Run { intent, argv, .. } => {
                self.say(format!("{}: {} on {}", intent.verb.as_str(), argv.join(" "), intent.member));
                self.started.push(format!("{} {}", intent.command, intent.member));
                self.begin(intent, argv);
            }
            Action::Read { member, .. } => {
                self.started.push(format!("sequence {member}"));
                let ordinal = ordinal(member);
                let position = self.volumes.get(&ordinal).map_or(Position::Empty, Volume::position);
                let now = self.now;
                let led = self.observe().data_may_move();
                let body = self.body(ordinal);
                let (container, role) = (body.container_id(), body.said.0);
                body.read = Some(Read { container, position, at: now, role, led });
            }
            Action::List { member, .. } => {
                self.started.push(format!("memberList {member}"));
                self.ask_for_list(ordinal(member));
            }
            Action::Ask { query, member, .. } => {
                self.say(format!("{} on {member}", query.word()));
                let answer = QueryAnswer { said: Ok(0), at: self.now, ended: self.now };
                self.answers.insert((*query, member.clone()), answer);
            }
            Action::DeletePod { member, reason, .. } => {
                self.say(format!("delete the pod of {member}: {reason}"));
                self.delete(ordinal(member));
            }
            Action::Scale { replicas } => {
                self.say(format!("shrink to {replicas}"));
                self.set.as_mut().unwrap().replicas = *replicas;
                let leaving: Vec<_> = self.pods.range(*replicas..).map(|(o, _)| *o).collect();
                for ordinal in leaving {
                    self.cancel(ordinal);
                    self.ended.extend(self.pods.remove(&ordinal).map(|b| b.pod.uid));
                }
            }
            Action::DeleteClaim { member, claim, uid } => {
                self.say(format!("delete the claim {claim}"));
                assert!(self.volumes.remove(&ordinal(member)).is_some_and(|volume| volume.uid == *uid));
            }
            Action::Create { member, .. } => panic!("{member}: no group of this world makes its pods itself"),
            Action::Adopt { .. } | Action::DropSet { .. } => panic!("no group of this world is on its way"),
            Action::Nudge { .. } => {
                self.say("nudge the set".into());
                let now = self.now;
                self.set.as_mut().unwrap().nudged = Some(now);
            }
            Action::WriteState { name, data, version, .. } => {
                self.say(format!("write ConfigMap {name}"));
                let seen =
                    if let Stored::Own { version, .. } = &self.cluster_state { Some(version.clone()) } else { None };
                assert_eq!(seen, *version);
                let version = format!("{}+", seen.unwrap_or_default());
                self.cluster_state = Stored::Own { version, keys: state::keys(data), data: data.clone() };
            }
            Action::GrowClaim { claim, size, .. } => self.say(format!("grow {claim} to {size}")),
            Action::MarkClaim { uid, mark, .. } => {
                if let Some(volume) = self.volumes.values_mut().find(|v| &v.uid == uid) {
                    volume.mark = Some(mark.clone());
                }
            }
        }
    }

    /// The StatefulSet gets the desired number of members, with the volumes that are there.
    fn grow(&mut self, kind: &str) {
        let group = self.seen_group();
        let Some(set) = self.set.as_mut().filter(|_| kind == "StatefulSet") else { return };
        set.replicas = Roster::new(&group, Some(set), &self.record).size();
        for ordinal in 0..set.replicas {
            if !self.volumes.contains_key(&ordinal) {
                self.new_volume(ordinal);
            }
            if !self.pods.contains_key(&ordinal) {
                self.new_pod(ordinal);
            }
        }
    }
}
