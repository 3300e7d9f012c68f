//! Commands as the world carries them out: how they behave, and what they do to a member and its volume.
use super::app::{Behaviour, Data, Exec, Volume};
use super::policies::Natural;
use super::sequence;
use super::world::{START, World, command, ordinal};
use std::collections::BTreeSet;
use tanist_core::contract::{MemberName, Phase, Role};
use tanist_core::record::{Intent, Verb};

impl World {
    /// A primary and two secondaries that have been in their roles for that many seconds.
    pub fn settled(seconds: i64) -> World {
        let mut world = World::new(3, 1);
        world.group.commands.secondary = Some(command("secondary"));
        (0..3).for_each(|ordinal| world.remember(ordinal, 1, "9"));
        for (ordinal, role) in (0..).zip([Role::Primary, Role::Secondary, Role::Secondary]) {
            world.serve(ordinal, role);
        }
        let (now, led) = (world.now, world.record.member_mut(&super::db(0)));
        (led.primary_term, led.last_primary) = (Some(1), Some(now));
        world.play(&Natural, 0);
        world.now = START + seconds;
        world
    }

    /// The command of an intent starts.
    pub fn begin(&mut self, intent: &Intent, argv: &[String]) {
        self.events.add(intent.verb.as_str());
        if intent.verb.ends_lists() {
            self.forget_lists();
        }
        let found = self.behaviours.iter().position(|(m, c, _, _)| m == &intent.member && c == &intent.command);
        let behaviour = match found {
            Some(at) if self.behaviours[at].3 => self.behaviours[at].2.clone(),
            Some(at) => self.behaviours.remove(at).2,
            None => Behaviour::Works(0),
        };
        // The runner runs one command at a time.
        let busy = self.execs.values().any(|e| e.intent.container_id == intent.container_id && e.works_at.is_some());
        let behaviour = if busy { Behaviour::Refused("busy".into()) } else { behaviour };
        let works_at = match behaviour {
            Behaviour::Works(seconds) | Behaviour::Late(seconds) => Some(self.now + seconds),
            Behaviour::Starts(_) | Behaviour::Spoils(..) => Some(self.now),
            _ => None,
        };
        self.body(ordinal(&intent.member)).read = None;
        let peers = argv.iter().filter_map(|a| Some(ordinal(&MemberName::from(a.strip_suffix(PEER)?)))).collect();
        let gives_up = self.lacks(ordinal(&intent.member));
        let exec = Exec { intent: intent.clone(), behaviour, works_at, peers, gives_up };
        self.execs.insert(intent.token.clone(), exec);
    }

    pub(super) fn effect(&mut self, exec: &Exec) {
        let intent = &exec.intent;
        if intent.verb.changes_members() {
            return self.change_members(exec);
        }
        let batch = self.record.batch.iter().flat_map(|batch| batch.members.clone());
        match intent.verb {
            Verb::BeforeUpdate => return self.announced.extend(batch),
            Verb::AfterUpdate => return self.announced.clear(),
            // All members that follow copy what it converts.
            Verb::Upgrade => {
                return self.volumes.values_mut().for_each(|volume| volume.version.clone_from(&intent.version));
            }
            _ => {}
        }
        let role = intent.verb.intended();
        let copies = matches!(intent.verb, Verb::Join | Verb::Place | Verb::Follow);
        // One that the API forgot reaches nobody to copy from: an honest command fails.
        let is_ghost = self.ghosts.iter().any(|g| g.pod_uid == intent.pod_uid);
        if is_ghost && copies && self.clients.is_some() {
            return;
        }
        if is_ghost {
            return self.affect_ghost(exec);
        }
        let ordinal = ordinal(&intent.member);
        let source = self.source(exec);
        let others = self.volumes.values().max_by_key(|v| v.truth()).cloned();
        let Some(body) = self.pods.get_mut(&ordinal) else { return };
        if body.pod.uid != intent.pod_uid || body.container_id() != intent.container_id {
            return;
        }
        if !self.has_identity(exec) {
            self.execs.get_mut(&intent.token).unwrap().behaviour = Behaviour::Fails(1);
            return;
        }
        let Some(body) = self.pods.get_mut(&ordinal) else { return };
        // Nobody to copy from: an honest command fails.
        if copies && self.clients.is_some() && source.is_none() {
            self.execs.get_mut(&intent.token).unwrap().behaviour = Behaviour::Fails(1);
            return;
        }
        if let Behaviour::Spoils(number, _) = exec.behaviour {
            return self.spoil(exec, number, source.map(|(_, volume)| volume));
        }
        let faithful = self.clients.as_ref().is_some_and(|c| c.faithful) && intent.verb != Verb::Join;
        let follows = match &source {
            _ if !copies => Vec::new(),
            Some((from, _)) if faithful => vec![*from],
            _ => exec.peers.clone(),
        };
        match exec.behaviour {
            Behaviour::Starts(seconds) => {
                body.app.turn(Role::Starting, Some((role, self.now + seconds)), follows);
            }
            _ => body.app.turn(role, None, follows),
        }
        self.write_volume(exec, source.map(|(_, volume)| volume), others);
    }

    /// A command reaches a pod that the API forgot.
    fn affect_ghost(&mut self, exec: &Exec) {
        let intent = &exec.intent;
        let Some(ghost) = self.ghosts.iter_mut().find(|g| g.pod_uid == intent.pod_uid) else { return };
        ghost.app.turn(intent.verb.intended(), None, Vec::new());
        let its_own = self.volumes.get(&ghost.ordinal).is_some_and(|v| v.uid == ghost.volume);
        if intent.verb.opens_term() {
            self.opens(exec);
            // What was read in the new pod stays as it was read: nobody tells the operator.
            if intent.verb == Verb::Failover && its_own {
                self.begin_history(ordinal(&intent.member));
            }
        }
    }

    /// What a command leaves on the volume of its member. `source`: what it copies from; `others`: what the others agree on.
    fn write_volume(&mut self, exec: &Exec, source: Option<Volume>, others: Option<Volume>) {
        let intent = &exec.intent;
        let ordinal = ordinal(&intent.member);
        let Some(volume) = self.volumes.get_mut(&ordinal) else { return };
        match intent.verb {
            Verb::Seed | Verb::Failover => {
                // What was there before is what it was: only writing makes it data of the new term.
                let first = volume.data == Data::Empty;
                if first {
                    (volume.data, volume.written) = (Data::Known(sequence("1")), intent.term);
                }
                self.opens(exec);
                if first || intent.verb == Verb::Failover {
                    self.begin_history(ordinal);
                }
            }
            Verb::Join | Verb::Place | Verb::Follow => {
                if let Some(source) = source {
                    volume.copy(&source);
                }
            }
            // Once they agree it has what the others have.
            Verb::Rejoin => {
                if let (Data::Empty, Some(others)) = (&volume.data, others) {
                    volume.copy(&others);
                }
            }
            Verb::Recover => self.opens(exec),
            Verb::Demote | Verb::Switchover | Verb::Remove | Verb::Treat | Verb::Halt => {}
            Verb::MemberAdd | Verb::MemberRemove | Verb::MemberPromote => {}
            Verb::BeforeUpdate | Verb::AfterUpdate => {}
            Verb::Convert => {
                volume.version.clone_from(&intent.version);
                self.opens(exec);
            }
            Verb::Upgrade => {}
            Verb::Wipe => (volume.data, volume.holds, volume.version) = (Data::Empty, BTreeSet::new(), None),
        }
    }

    /// The target of a seed writes before it fails; a joiner has copied what others have.
    fn spoil(&mut self, exec: &Exec, number: u64, source: Option<Volume>) {
        let intent = &exec.intent;
        let Some(volume) = self.volumes.get_mut(&ordinal(&intent.member)) else { return };
        let number = number.max(volume.truth().map_or(0, |(_, n)| n + 1));
        match (intent.verb, source) {
            (Verb::Seed | Verb::Failover, _) => {
                match volume.known() {
                    Some(known) => known.number = number,
                    None => volume.data = Data::Known(sequence(&number.to_string())),
                }
                volume.written = intent.term;
                self.opens(exec);
                self.begin_history(ordinal(&intent.member));
            }
            (Verb::Join | Verb::Place | Verb::Follow, Some(copy)) => volume.copy(&copy),
            _ => {}
        }
    }

    /// The member that a joiner copies, and its volume: the first of its peers that leads and is reached; where scripts say what
    /// is written, the most recent primary.
    fn source(&self, exec: &Exec) -> Option<(u32, Volume)> {
        let reached = |o: &u32| self.pods.get(o).is_some_and(|b| b.pod.phase != Phase::Unreachable);
        let leads = |o: &u32| self.pods.get(o).is_some_and(|b| b.app.role == Role::Primary);
        let found = match &self.clients {
            Some(_) if !reached(&ordinal(&exec.intent.member)) => None,
            Some(_) => exec.peers.iter().find(|o| leads(o) && reached(o)).copied(),
            None => self.volumes.keys().filter(|o| leads(o)).max_by_key(|o| self.volumes[*o].truth()).copied(),
        }?;
        Some((found, self.volumes.get(&found)?.clone()))
    }

    /// As a script says it: the primaries write, and everyone who runs has it.
    pub fn write(&mut self, count: u64) {
        let term = self.record.term;
        let leads = |o: &&u32| self.pods.get(*o).is_some_and(|b| b.app.role == Role::Primary);
        let Some(freshest) = self.volumes.keys().filter(leads).map(|o| &self.volumes[o]).max_by_key(|v| v.truth())
        else {
            return;
        };
        let Data::Known(mut data) = freshest.data.clone() else { return };
        data.number += count;
        for (ordinal, volume) in &mut self.volumes {
            if self.pods.get(ordinal).is_some_and(|b| matches!(b.app.role, Role::Primary | Role::Secondary)) {
                (volume.data, volume.written) = (Data::Known(data.clone()), term);
            }
        }
    }
}

/// What follows a member's name in the address that a command is given.
const PEER: &str = ".db.ns.svc.cluster.local";
