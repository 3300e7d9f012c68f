//! An application whose members agree: it counts its members itself, answers only while a majority of the voters runs, and starts nobody that it does not list.
use super::app::{App, Behaviour, Exec};
use super::db;
use super::world::{World, ordinal};
use std::collections::{BTreeMap, BTreeSet};
use tanist_core::contract::{MemberName, Phase, Role};
use tanist_core::membership::{self, Entry, Heard, List, Vote};
use tanist_core::record::{Intent, Verb};
use tanist_core::snapshot::{RecoveryRequest, Snapshot};

/// The members in truth, and what they said.
#[derive(Debug, Clone, Default)]
pub struct Agreement {
    /// The identity of the cluster. Empty: it was never formed.
    pub cluster: String,
    /// The members by identity.
    pub members: BTreeMap<String, Listed>,
    /// What members said, and in which container.
    heard: BTreeMap<u32, (String, Heard)>,
    /// The identity that each volume has, by its UID.
    pub identities: BTreeMap<String, String>,
    /// What members say instead of the truth.
    pub lies: BTreeMap<u32, Lie>,
    /// Identities that were given up by a recovery.
    pub given_up: BTreeSet<String>,
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
            let uid = self.volumes[&ordinal].uid.clone();
            self.agreement.identities.insert(uid, id.clone());
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

    /// No list from before counts any more.
    pub fn forget_lists(&mut self) {
        self.agreement.heard.clear();
    }

    /// What a command that changes the members does, if a majority agrees.
    pub(super) fn change_members(&mut self, exec: &Exec) {
        self.forget_lists();
        let Some(target) = exec.intent.target.as_ref().map(ordinal) else { return };
        let runs = self.takes_part(ordinal(&exec.intent.member));
        let promote = self.group.commands.membership.as_ref().is_some_and(|m| m.promote.is_some());
        let known = self.agreement.members.iter().find(|(_, m)| m.ordinal == target).map(|(id, _)| id.clone());
        let works = runs && self.has_quorum();
        match (exec.intent.verb, known, works) {
            (Verb::MemberAdd, None, true) => {
                let id = self.birth("m");
                let added = Listed { ordinal: target, started: false, voter: !promote };
                self.agreement.members.insert(id, added);
            }
            (Verb::MemberRemove, Some(id), true) => {
                self.agreement.members.remove(&id);
                let body = self.pods.get_mut(&target);
                body.into_iter().for_each(|body| body.app = App::stopped());
            }
            (Verb::MemberPromote, Some(id), true) => {
                self.agreement.members.get_mut(&id).unwrap().voter = true;
            }
            _ => self.execs.get_mut(&exec.intent.token).unwrap().behaviour = Behaviour::Fails(1),
        }
        self.elect();
    }

    /// Whether the application lets the member start: a seed forms a cluster, and any other start needs an identity, which is that of the volume, or one that was added and is not
    /// used yet. Without agreement nobody asks.
    pub(super) fn has_identity(&mut self, exec: &Exec) -> bool {
        if self.group.commands.membership.is_none() {
            return true;
        }
        let own = ordinal(&exec.intent.member);
        let Some(uid) = self.volumes.get(&own).map(|v| v.uid.clone()) else { return false };
        match exec.intent.verb {
            // What is there already goes on.
            Verb::Seed if self.holds(&uid) => true,
            Verb::Seed => {
                self.agreement.cluster = self.birth("cluster");
                self.agreement.members.clear();
                let id = self.birth("m");
                self.agreement.members.insert(id.clone(), Listed { ordinal: own, started: true, voter: true });
                self.agreement.identities.insert(uid, id);
                true
            }
            // It goes on under its identity, and the others are members no more.
            Verb::Recover => {
                let Some(id) = self.agreement.identities.get(&uid).cloned() else { return false };
                let listed = Listed { ordinal: own, started: true, voter: true };
                let before = std::mem::take(&mut self.agreement.members);
                self.agreement.given_up.extend(before.into_keys().filter(|other| *other != id));
                self.agreement.given_up.remove(&id);
                self.agreement.members.insert(id, listed);
                self.agreement.lies.clear();
                self.forget_lists();
                true
            }
            Verb::Join | Verb::Place | Verb::Rejoin => {
                let kept = self.agreement.identities.get(&uid).cloned();
                let added = || self.agreement.members.iter().find(|(_, m)| m.ordinal == own && !m.started);
                let id = kept.or_else(|| added().map(|(id, _)| id.clone()));
                let Some((id, member)) = id.and_then(|id| Some((id.clone(), self.agreement.members.get_mut(&id)?)))
                else {
                    return false;
                };
                member.started = true;
                self.agreement.identities.insert(uid, id);
                true
            }
            _ => true,
        }
    }

    /// Whether that volume has the identity of a member.
    fn holds(&self, volume: &str) -> bool {
        self.agreement.identities.get(volume).is_some_and(|id| self.agreement.members.contains_key(id))
    }

    /// Members that lack a majority serve nobody; with one each of them does, and where one is to lead, one of the voters does.
    pub fn elect(&mut self) {
        if self.group.commands.membership.is_none() {
            return;
        }
        let quorum = self.has_quorum();
        let one_leads = self.group.commands.secondary.is_some();
        let listed = |o: u32| self.agreement.members.values().any(|m| m.ordinal == o && m.started);
        let voter = |o: u32| self.agreement.members.values().any(|m| m.ordinal == o && m.voter);
        let running: Vec<u32> = self.pods.keys().copied().filter(|o| self.takes_part(*o) && listed(*o)).collect();
        let leads = running.iter().copied().find(|o| self.pods[o].app.role == Role::Primary && voter(*o));
        let leads = leads.or_else(|| running.iter().copied().find(|o| voter(*o)));
        let voters: Vec<u32> = running.iter().copied().filter(|o| voter(*o)).collect();
        for ordinal in running {
            let app = &mut self.body(ordinal).app;
            if app.next.is_some() {
                continue;
            }
            app.role = match (quorum, one_leads) {
                (false, _) => Role::Starting,
                // Without a vote it serves nobody.
                (true, _) if !voters.contains(&ordinal) => Role::Starting,
                (true, false) => Role::Primary,
                (true, true) if leads == Some(ordinal) => Role::Primary,
                (true, true) => Role::Secondary,
            };
        }
    }

    /// What the host must never do to members that agree, by the truth alone.
    pub(super) fn allows(&self, s: &Snapshot, intent: &Intent) -> Result<(), String> {
        if self.group.commands.membership.is_none() {
            return Ok(());
        }
        let own = ordinal(&intent.member);
        let listed = |o: u32| self.agreement.members.values().find(|m| m.ordinal == o);
        let voters: Vec<_> = self.agreement.members.values().filter(|m| m.voter).collect();
        let healthy =
            |but: Option<u32>| voters.iter().filter(|m| Some(m.ordinal) != but && self.takes_part(m.ordinal)).count();
        match intent.verb {
            Verb::Seed if self.holds(&self.volumes[&own].uid) => Ok(()),
            Verb::Seed if self.volumes.values().any(|volume| self.holds(&volume.uid)) => {
                Err("the cluster is formed a second time".into())
            }
            Verb::Join | Verb::Place | Verb::Rejoin if self.has_given_up(own) => {
                Err(format!("{} comes back after it was given up", intent.member))
            }
            Verb::Rejoin if listed(own).is_none() && self.seems_listed(s, intent) => Ok(()),
            Verb::Join | Verb::Place | Verb::Rejoin if listed(own).is_none() => {
                Err(format!("{} is no member", intent.member))
            }
            Verb::Join | Verb::Place | Verb::Rejoin => {
                let volume = &self.volumes[&own];
                let kept = self.agreement.identities.get(&volume.uid);
                let its_own = kept.is_none_or(|id| self.agreement.members.get(id).is_some_and(|m| m.ordinal == own));
                if its_own { Ok(()) } else { Err(format!("{} comes back under an earlier identity", intent.member)) }
            }
            Verb::MemberAdd | Verb::MemberRemove | Verb::MemberPromote => {
                let target = intent.target.as_ref().map(ordinal).ok_or("no target")?;
                let runs = |e: &Exec| e.works_at.is_some() && e.intent.verb.changes_members();
                if self.execs.values().any(runs) {
                    return Err("two changes of the members".into());
                }
                if !self.has_quorum() {
                    return Err("the members are changed without a majority".into());
                }
                let removed = voters.iter().filter(|m| m.ordinal != target).count();
                let left = healthy(Some(target));
                if intent.verb == Verb::MemberRemove && left < membership::quorum(removed.max(1)) {
                    return Err(format!("{left} healthy voters of {removed} are left"));
                }
                if intent.verb == Verb::MemberAdd && listed(target).is_some() {
                    return Err("a member is added twice".into());
                }
                Ok(())
            }
            Verb::Switchover | Verb::Demote if s.group.replicas > 0 && listed(own).is_some_and(|m| m.voter) => {
                let left = healthy(Some(own));
                if left >= membership::quorum(voters.len()) { Ok(()) } else { Err("a stop loses the majority".into()) }
            }
            Verb::Halt | Verb::Recover if s.group.requested_recovery.is_none() => Err("nobody asked for that".into()),
            Verb::Halt => {
                let apart = !self.agreement.lies.is_empty() || s.record.recovery.as_ref().is_some_and(|r| r.apart);
                let leads = |b: &super::app::Body| {
                    b.pod.phase != Phase::Unreachable && matches!(b.app.role, Role::Primary | Role::Secondary)
                };
                let begun = s.record.recovery.as_ref().is_some_and(|r| r.tries > 0);
                match self.pods.values().any(leads) && !apart && !begun {
                    true => Err("members that serve are stopped".into()),
                    false => Ok(()),
                }
            }
            Verb::Recover => {
                let runs = |role| !matches!(role, Role::Stopped);
                let others = self.pods.iter().any(|(o, b)| *o != own && runs(b.app.role));
                match others || self.ghosts.iter().any(|g| runs(g.app.role)) {
                    true => Err("a member goes on alone while another one runs".into()),
                    false => Ok(()),
                }
            }
            Verb::Remove if s.group.replicas > 0 && listed(own).is_some() => {
                Err("a member is stopped before it is removed".into())
            }
            _ => Ok(()),
        }
    }

    /// Whether the volume of that member has an identity that was given up.
    fn has_given_up(&self, ordinal: u32) -> bool {
        let id = self.volumes.get(&ordinal).and_then(|volume| self.agreement.identities.get(&volume.uid));
        id.is_some_and(|id| self.agreement.given_up.contains(id))
    }

    /// An administrator asks that the member goes on alone, and names what there is. `restored`: also its claim, whichever it is.
    pub fn ask_recovery(&mut self, ordinal: u32, restored: bool) -> &mut RecoveryRequest {
        let known = self.record.membership.clone().unwrap_or_default();
        let claim = self.volumes.get(&ordinal).map_or_else(String::new, |volume| volume.uid.clone());
        let raw = self.birth("asked");
        let request = RecoveryRequest {
            member: db(ordinal),
            group: self.group.uid.clone(),
            claim,
            restored,
            cluster: known.cluster,
            list: known.revision,
            raw,
        };
        self.group.requested_recovery.insert(request)
    }

    /// Whether the host cannot know that the member was removed: how that ended it gave up to find out, and no majority has said a list since.
    fn seems_listed(&self, s: &Snapshot, intent: &Intent) -> bool {
        let open = s.record.intents.iter().any(|i| i.target.as_ref() == Some(&intent.member));
        let known = s.record.membership.as_ref().and_then(|known| known.of(&intent.member));
        !open && known.is_some()
    }

    /// A member is asked for its list.
    pub fn ask_for_list(&mut self, ordinal: u32) {
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
