//! Clients and replication: which members accept writes, when others have them, and which writes must not be lost.
//!
//! A write is promised once a primary acknowledged it. Followers have it some seconds later, and only while they are reached and a successful
//! command told them to follow that primary. With `preferRunning` a primary waits for its followers before it acknowledges; one that nobody follows
//! acknowledges alone. Primaries that the operator cannot see go on accepting writes: on a node that does not report, after their pod was deleted
//! by force, or started by hand.
use super::app::{App, Data, Exec, Volume};
use super::world::World;
use super::{db, oracle};
use std::collections::BTreeSet;
use tanist_core::check;
use tanist_core::contract::{Phase, Role, Timestamp};

/// What the clients of a group know.
#[derive(Debug, Clone, Default)]
pub struct Clients {
    /// Every write that was acknowledged and has to be there tomorrow.
    pub promised: BTreeSet<u64>,
    /// How many writes there have been.
    pub writes: u64,
    /// Writes that a primary has and did not acknowledge yet (`preferRunning` only).
    pub unacknowledged: BTreeSet<u64>,
    /// The longest time that a follower stays behind, in seconds.
    pub lag: Timestamp,
    /// Whether a primary that rises by itself begins a history of its own, so that copies that parted can be told from each other.
    pub histories: bool,
    /// Whether a promotion begins a history, too.
    pub timelines: bool,
    /// Whether one follower that has a write is enough to acknowledge it; otherwise all have to (`preferRunning` only).
    pub any: bool,
    /// Whether a follower stays with the peer that it copied from, even if that one does not lead any more; otherwise it follows any of its peers.
    pub faithful: bool,
}

/// A process that is primary, whether the operator knows it or not.
struct Leader {
    ordinal: u32,
    /// No other member and no operator reaches it; its own clients do.
    alone: bool,
    rogue: bool,
}

impl World {
    fn promised(&self) -> BTreeSet<u64> {
        self.clients.as_ref().map(|c| c.promised.clone()).unwrap_or_default()
    }

    /// The promised writes that a member's volume lacks.
    pub fn lacks(&self, ordinal: u32) -> BTreeSet<u64> {
        self.promised().difference(&self.volumes[&ordinal].holds).copied().collect()
    }

    /// A volume was lost, and the writes that only it had are lost with it.
    pub(super) fn lose(&mut self) {
        let held: BTreeSet<u64> = self.volumes.values().flat_map(|v| v.holds.iter().copied()).collect();
        if let Some(clients) = &mut self.clients {
            clients.promised.retain(|write| held.contains(write));
        }
    }

    /// A member opens a new term: writes that it lacks are lost from now on, so they have to be those that the rules give up.
    pub(super) fn opens(&mut self, exec: &Exec) {
        let ordinal = super::world::ordinal(&exec.intent.member);
        let lacks = self.lacks(ordinal);
        let story = self.log.join("\n");
        assert!(lacks.is_subset(&exec.gives_up), "{} loses {lacks:?}\n{story}", exec.intent.token);
        let truth = self.volumes[&ordinal].truth();
        let fresher = self.volumes.iter().filter(|(_, v)| v.truth() > truth).map(|(o, v)| (*o, v.truth()));
        self.abandoned.extend(fresher.collect::<Vec<_>>());
        let holds = self.volumes[&ordinal].holds.clone();
        self.volumes.entry(ordinal).and_modify(|v| v.led = exec.intent.term);
        let Some(clients) = &mut self.clients else { return };
        clients.promised.retain(|write| !lacks.contains(write));
        // Nobody acknowledges later what only an old primary had.
        clients.unacknowledged.retain(|write| holds.contains(write));
    }

    /// The first data and each promotion begin a history, in applications that do so.
    pub(super) fn begin_history(&mut self, ordinal: u32) {
        if !self.clients.as_ref().is_some_and(|c| c.timelines) {
            return;
        }
        let born = self.birth("h");
        if let Some(known) = self.volumes.get_mut(&ordinal).and_then(Volume::known) {
            known.history = Some(born);
        }
    }

    fn leaders(&self) -> Vec<Leader> {
        let seen = self.pods.iter().filter(|(_, b)| b.app.role == Role::Primary && b.runs()).map(|(ordinal, b)| {
            Leader { ordinal: *ordinal, alone: b.pod.phase == Phase::Unreachable, rogue: b.app.rogue }
        });
        // A process whose volume is gone does not count.
        let its_own = |o: &u32, uid: &str| self.volumes.get(o).is_some_and(|v| v.uid == uid);
        let ghosts = self.ghosts.iter().filter(|g| g.app.role == Role::Primary && its_own(&g.ordinal, &g.volume));
        let unseen = ghosts.map(|g| Leader { ordinal: g.ordinal, alone: true, rogue: g.app.rogue });
        seen.chain(unseen).collect()
    }

    /// The members that accept writes: all primaries that reach each other, otherwise the only primary.
    fn writers(&self) -> Vec<Leader> {
        let honest: Vec<_> = self.leaders().into_iter().filter(|l| !l.rogue).collect();
        if honest.iter().any(|l| !l.alone) {
            return honest.into_iter().filter(|l| !l.alone).collect();
        }
        if honest.len() == 1 { honest } else { Vec::new() }
    }

    /// Clients write.
    pub fn serve_clients(&mut self, count: u64) {
        let writers = self.writers();
        let freshest = writers.iter().map(|l| &self.volumes[&l.ordinal]).max_by_key(|v| v.truth()).cloned();
        let rogue: Vec<_> = self.leaders().into_iter().filter(|l| l.rogue).collect();
        let (term, waits) = (self.record.term, self.group.failover.prefer_running);
        let Some(clients) = &mut self.clients else { return };
        let histories = clients.histories;
        let mut written = |volume: &mut Volume, promise: bool| {
            let Some(known) = volume.known() else { return };
            known.number += count;
            clients.writes += 1;
            (volume.written, _) = (term, volume.holds.insert(clients.writes));
            if promise {
                let list = if waits { &mut clients.unacknowledged } else { &mut clients.promised };
                list.insert(clients.writes);
            }
        };
        // Diverged copies can only be told from each other by their histories: without histories only one of the two goes on.
        for leader in rogue.iter().filter(|_| histories) {
            written(self.volumes.get_mut(&leader.ordinal).unwrap(), false);
        }
        if let Some(mut fresh) = freshest {
            // While two members are primary against the rules, one of them will go, with the writes that only it has.
            written(&mut fresh, rogue.is_empty());
            for leader in &writers {
                self.volumes.get_mut(&leader.ordinal).unwrap().copy(&fresh);
            }
        }
        self.expel(&writers);
        self.replicate();
    }

    /// With `preferRunning` a write is acknowledged once the followers of its primary have it: one or all of them, as the application does it. A follower
    /// that is not reached counts, because the primary cannot know whether it will be asked to lead.
    fn acknowledge(&mut self) {
        let writers: Vec<_> = self.writers().into_iter().map(|l| l.ordinal).collect();
        let rogue = self.leaders().iter().any(|l| l.rogue);
        let follows = |app: &App| app.role == Role::Secondary && app.follows.iter().any(|o| writers.contains(o));
        let followers: Vec<_> = self.pods.iter().filter(|(_, b)| follows(&b.app)).map(|(o, _)| *o).collect();
        let volumes = &self.volumes;
        let has = |ordinal: &u32, write: &u64| volumes.get(ordinal).is_some_and(|v| v.holds.contains(write));
        let Some(clients) = self.clients.as_mut().filter(|_| !rogue) else { return };
        let any = clients.any;
        let done = |write: &u64| {
            let copied = match any && !followers.is_empty() {
                true => followers.iter().any(|o| has(o, write)),
                false => followers.iter().all(|o| has(o, write)),
            };
            copied && writers.iter().any(|o| has(o, write))
        };
        let done: Vec<_> = clients.unacknowledged.iter().copied().filter(done).collect();
        clients.unacknowledged.retain(|write| !done.contains(write));
        clients.promised.extend(done);
    }

    /// A primary that missed writes that others acknowledged fails, as in every multi-primary replication with a quorum.
    fn expel(&mut self, writers: &[Leader]) {
        let missed: Vec<_> = self.leaders().into_iter().filter(|l| l.alone && !l.rogue).map(|l| l.ordinal).collect();
        if writers.iter().all(|w| w.alone) {
            return;
        }
        let seen = self.pods.iter_mut().filter(|(o, b)| missed.contains(o) && b.pod.phase == Phase::Unreachable);
        let unseen = self.ghosts.iter_mut().filter(|g| missed.contains(&g.ordinal)).map(|g| &mut g.app);
        let apps = seen.map(|(_, b)| &mut b.app).chain(unseen);
        apps.filter(|app| app.role == Role::Primary).for_each(|app| app.turn(Role::Failed, None, Vec::new()));
    }

    /// A member that was starting is in its role. A further primary has what the others wrote meanwhile, or it fails; so does a secondary where others
    /// rely on what it has (`preferRunning`).
    pub(super) fn arrive(&mut self, ordinal: u32, role: Role) {
        let told = self.pods[&ordinal].app.follows.clone();
        let reached = |l: &&Leader| !l.alone && told.contains(&l.ordinal);
        let found = self.leaders().iter().find(reached).map(|l| self.volumes[&l.ordinal].clone());
        let relied_on = role == Role::Secondary && self.group.failover.prefer_running;
        let body = self.body(ordinal);
        body.app.role = role;
        let joins = (role == Role::Primary || relied_on) && !told.is_empty();
        let alone = joins && (found.is_none() || body.pod.phase == Phase::Unreachable);
        if self.clients.is_none() || !joins {
            return;
        }
        if alone {
            return self.body(ordinal).app.role = Role::Failed;
        }
        if let (Some(own), Some(found)) = (self.volumes.get_mut(&ordinal), found) {
            own.copy(&found);
        }
    }

    /// Primaries that reach each other have the same; followers have what their primary had a while ago.
    pub(super) fn replicate(&mut self) {
        self.copy_to_followers();
        self.acknowledge();
    }

    fn copy_to_followers(&mut self) {
        let Some(clients) = &self.clients else { return };
        let lag = clients.lag;
        let reached: Vec<_> = self.leaders().into_iter().filter(|l| !l.alone).collect();
        let honest = || reached.iter().filter(|l| !l.rogue);
        if let Some(fresh) = honest().map(|l| self.volumes[&l.ordinal].clone()).max_by_key(Volume::truth) {
            honest().for_each(|l| self.volumes.get_mut(&l.ordinal).unwrap().copy(&fresh));
        }
        let now = self.now;
        for (ordinal, body) in &mut self.pods {
            let follows = body.pod.phase == Phase::Running && body.app.role == Role::Secondary;
            let leader = reached.iter().find(|l| follows && body.app.follows.contains(&l.ordinal));
            let Some(fresh) = leader.map(|l| self.volumes[&l.ordinal].clone()) else {
                body.app.incoming = None;
                continue;
            };
            let own = self.volumes.get_mut(ordinal).unwrap();
            let behind =
                |own: &Volume, fresh: &Volume| own.truth() < fresh.truth() && own.holds.is_subset(&fresh.holds);
            if let Some((_, then)) = body.app.incoming.take_if(|(at, _)| *at <= now)
                && behind(own, &then)
            {
                own.copy(&then);
            }
            if body.app.incoming.is_none() && behind(own, &fresh) {
                if lag == 0 {
                    own.copy(&fresh);
                } else {
                    let late = 1 + (i64::from(self.births) + i64::from(*ordinal) + now) % lag;
                    body.app.incoming = Some((now + late, fresh));
                }
            }
        }
    }

    /// A secondary with all acknowledged writes becomes primary by itself beside the others.
    pub fn rises(&mut self, ordinal: u32) {
        let complete = self.lacks(ordinal).is_empty();
        let born = self.birth("h");
        let histories = self.clients.as_ref().is_some_and(|c| c.histories);
        let Some(body) = self.pods.get_mut(&ordinal).filter(|b| b.pod.phase == Phase::Running) else { return };
        if body.app.role == Role::Secondary && complete {
            body.app.turn(Role::Primary, None, Vec::new());
            body.app.rogue = true;
            if let (true, Some(known)) = (histories, self.volumes.get_mut(&ordinal).and_then(Volume::known)) {
                known.history = Some(born);
            }
        }
    }

    /// An administrator starts a stopped member by hand: the right one, while nothing else is under way.
    pub fn by_hand(&mut self, ordinal: u32) {
        let s = self.observe();
        let highest = check::highest_term(&s);
        let known = s.record.member(&db(ordinal));
        let right = highest.is_some() && known.counts_as() == highest && known.started.is_none();
        let volume = &self.volumes[&ordinal];
        let whole = matches!(volume.data, Data::Known(_)) && self.lacks(ordinal).is_empty();
        // With preferRunning an administrator has to look at the running secondaries first.
        let relied_on = self.group.failover.prefer_running && self.pods.values().any(|b| b.app.role == Role::Secondary);
        let quiet = self.record.intents.is_empty() && oracle::leaders(self) == 0 && !relied_on;
        let freshest = self.volumes.values().all(|v| v.truth() <= volume.truth());
        if !(right && whole && quiet && freshest) {
            return;
        }
        let Some(body) = self.pods.get_mut(&ordinal).filter(|b| b.pod.phase == Phase::Running) else { return };
        if body.app.role == Role::Stopped && body.app.probe.is_none() && body.app.next.is_none() {
            body.app.turn(Role::Primary, None, Vec::new());
            self.serve_clients(1);
        }
    }
}
