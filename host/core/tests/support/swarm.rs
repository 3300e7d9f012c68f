//! What one life is like: the group, and which faults happen to it how often.
//!
//! Each seed draws a mixture of its own, in which some faults never happen and some happen all the time. If all faults were equally likely in every
//! life, most lives would look alike: a group that hardly ever forms, and in which what needs several of the same fault in a row never happens.
use super::clients::Clients;
use super::policies::Dice;
use super::world::{World, command};
use tanist_core::contract::Timestamp;

/// Something that happens to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The application of a member ends in its container.
    Crash,
    /// The container of a member is replaced.
    Restart,
    /// A pod is deleted with its grace.
    Delete,
    /// A pod is deleted by force: its processes live on.
    Forget,
    /// A node does not report any more, or is gone for good.
    NodeDown,
    /// A node reports again.
    NodeUp,
    /// `status` gives no role.
    Silent,
    /// `status` gives the role again.
    Honest,
    /// `status` says failed.
    Fail,
    /// The next command of some name on some member does not simply work.
    Behave,
    /// Time passes.
    Time,
    /// A node is cordoned, or not any more.
    Cordon,
    /// Clients write.
    Write,
    /// A volume is lost, with its pod.
    LoseVolume,
    /// `sequence` cannot say what a volume holds.
    Unreadable,
    /// All volumes can be read again.
    Readable,
    /// Another number of primaries is desired.
    Primaries,
    /// One primary is desired, or several, in turns.
    OneOrMore,
    /// The record is lost.
    Wipe,
    /// A secondary becomes primary by itself.
    Rise,
    /// An application ended, and `status` gives no role.
    SilentEnd,
    /// The group is paused, or not any more.
    Pause,
    /// An administrator asks for a retry.
    Retry,
    /// An administrator names a member that has to lead.
    Override,
    /// Deleted pods come back by themselves, or do not any more.
    Respawn,
    /// Another primary is preferred, or none.
    Prefer,
    /// Another number of members is desired.
    Resize,
    /// An administrator starts a member by hand.
    ByHand,
}

use Fault as F;

impl Fault {
    /// Its name in counts.
    pub fn word(self) -> &'static str {
        match self {
            F::Crash => "crash",
            F::Restart => "restart",
            F::Delete => "delete",
            F::Forget => "forget",
            F::NodeDown => "node down",
            F::NodeUp => "node up",
            F::Silent => "silent",
            F::Honest => "honest",
            F::Fail => "fail",
            F::Behave => "behave",
            F::Time => "time",
            F::Cordon => "cordon",
            F::Write => "write",
            F::LoseVolume => "volume lost",
            F::Unreadable => "unreadable",
            F::Readable => "readable",
            F::Primaries => "primaries",
            F::OneOrMore => "one primary or more",
            F::Wipe => "wipe",
            F::Rise => "rise",
            F::SilentEnd => "silent end",
            F::Pause => "pause",
            F::Retry => "retry",
            F::Override => "override",
            F::Respawn => "respawn",
            F::Prefer => "prefer",
            F::Resize => "resize",
            F::ByHand => "by hand",
        }
    }
}

/// Faults that a group survives without an administrator.
const MILD: [Fault; 13] = [
    F::Crash,
    F::Restart,
    F::Delete,
    F::Forget,
    F::NodeDown,
    F::NodeUp,
    F::Silent,
    F::Honest,
    F::Fail,
    F::Behave,
    F::Time,
    F::Cordon,
    F::Write,
];

/// Faults after which the group may have to wait for an administrator.
const HARD: [Fault; 15] = [
    F::LoseVolume,
    F::Unreadable,
    F::Readable,
    F::Primaries,
    F::OneOrMore,
    F::Wipe,
    F::Rise,
    F::SilentEnd,
    F::Pause,
    F::Retry,
    F::Override,
    F::Respawn,
    F::Prefer,
    F::Resize,
    F::ByHand,
];

/// Changes of the spec that lose nothing.
const SPEC: [Fault; 3] = [F::Primaries, F::OneOrMore, F::Prefer];

/// These end what others begin: without them a life would stand still.
const ALWAYS: [Fault; 6] = [F::NodeUp, F::Honest, F::Time, F::Write, F::Readable, F::Pause];

/// Faults that mean something together: in some lives they happen most of the time.
const THEMES: [&[Fault]; 10] = [
    &[],
    &[],
    // Takeovers among followers that lag.
    &[F::Crash, F::Restart, F::Delete, F::Write],
    // Primaries come and go within a term.
    &[F::OneOrMore, F::Primaries, F::Crash, F::Write],
    // Down to no member and up again.
    &[F::Resize, F::Resize, F::Write],
    // A switchover has read the primary's data, and then that primary is lost.
    &[F::Prefer, F::Cordon, F::Unreadable, F::Crash, F::Write],
    // Processes that the API server does not know.
    &[F::NodeDown, F::NodeUp, F::Forget, F::Write],
    &[F::Behave, F::Retry, F::Crash],
    &[F::Silent, F::Honest, F::SilentEnd],
    &[F::LoseVolume, F::Unreadable, F::Readable, F::Override],
];

/// How much more often the faults of a theme happen.
const THEME: usize = 8;

/// What one life is like.
pub struct Swarm {
    mild: Vec<Fault>,
    hard: Vec<Fault>,
    spec: Vec<Fault>,
    /// A hard fault happens once in so many rounds.
    pub hardship: usize,
    /// A mild one otherwise once in so many.
    pub unrest: usize,
    /// Clients write once in so many.
    pub load: usize,
    /// Once in so many rounds the operator is slow or crashes.
    pub races: usize,
    /// At most so many seconds pass after a round in which nothing happened.
    pub pause: usize,
}

impl Swarm {
    pub fn new(dice: &Dice) -> Self {
        let theme = *dice.pick(&THEMES);
        let mixture = |faults: &[Fault]| {
            let mut all = Vec::new();
            for fault in faults {
                let happens = !dice.once_in(3) || ALWAYS.contains(fault);
                let often = theme.iter().filter(|f| *f == fault).count() * THEME;
                all.extend(std::iter::repeat_n(*fault, often + usize::from(happens)));
            }
            all
        };
        Swarm {
            mild: mixture(&MILD),
            hard: mixture(&HARD),
            spec: mixture(&SPEC),
            // Faults that lose data or memory end in a wait for an administrator, so some lives have few of them and reach other states.
            hardship: *dice.pick(&[3, 10, 40]),
            unrest: *dice.pick(&[2, 4, 4, 8]),
            load: *dice.pick(&[1, 2, 3]),
            races: *dice.pick(&[4, 8, 20]),
            pause: *dice.pick(&[3, 20, 20, 60]),
        }
    }

    pub fn mild(&self, dice: &Dice) -> Fault {
        *dice.pick(&self.mild)
    }

    /// Now and then a mild one, which hits a random member then.
    pub fn hard(&self, dice: &Dice) -> Fault {
        *dice.pick(if dice.once_in(6) { &self.mild } else { &self.hard })
    }

    /// A change of the spec that loses nothing. Absent: this group's spec does not change.
    pub fn spec(&self, dice: &Dice) -> Option<Fault> {
        (!self.spec.is_empty()).then(|| *dice.pick(&self.spec))
    }
}

/// A group of random size and commands, at rest. Most have one primary and some secondaries, because these can lose the most.
pub fn group(dice: &Dice) -> World {
    let replicas = u32::try_from(*dice.pick(&[1, 2, 2, 3, 3, 3, 4, 5, 5, 7])).unwrap();
    let all = if dice.once_in(3) { replicas as usize } else { 1 };
    let primaries = 1 + u32::try_from(dice.below(all)).unwrap();
    let mut world = World::new(replicas, primaries);
    let optional = |name| dice.once_in(2).then(|| command(name));
    world.group.commands.seed = optional("seed");
    world.group.commands.secondary = (!dice.once_in(6)).then(|| command("secondary"));
    world.group.commands.promote = optional("promote");
    world.group.commands.follow = optional("follow");
    world.group.failover.prefer_running = dice.once_in(3);
    world.group.unknown_grace = 100;
    world.group.start_deadline = 200;
    world.clients = Some(clients(dice));
    world
}

/// The same with secondaries that lag, one primary, and a limit for what a takeover may lose.
pub fn lagging(dice: &Dice) -> World {
    let mut world = group(dice);
    world.group.primaries = 1;
    world.group.commands.secondary = Some(command("secondary"));
    world.group.failover.max_behind = Some(*dice.pick(&[1, 3, 10, 1000]));
    world.clients.iter_mut().for_each(|clients| clients.lag = *dice.pick(&[8, 30]));
    world
}

/// Applications differ in what they promise their clients, and in how their data moves.
fn clients(dice: &Dice) -> Clients {
    let lag: Timestamp = *dice.pick(&[0, 2, 8, 8, 30]);
    let histories = dice.once_in(2);
    let timelines = histories && dice.once_in(2);
    Clients { lag, histories, timelines, any: dice.once_in(2), faithful: dice.once_in(2), ..Clients::default() }
}
