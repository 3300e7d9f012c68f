//! The application of the test world: a replicated register whose commands succeed, fail, hang, lie, vanish or never start.
use std::collections::BTreeSet;
use tanist_core::contract::{Position, Role, Sequence, Timestamp};
use tanist_core::snapshot::{Claim, ClaimMark, Evidence, Pod};
use tanist_protocol::why::{Why, Word};

/// The true content of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    Empty,
    Known(Sequence),
    /// There is data, and `sequence` cannot say which.
    Unreadable(Sequence),
}

/// A member's volume.
#[derive(Debug, Clone)]
pub struct Volume {
    pub uid: String,
    pub data: Data,
    /// In which term it was last written, in truth.
    pub written: u64,
    /// The latest term whose leader had this data, in truth: itself, or the one that it was copied from.
    pub led: u64,
    /// Every write that it has, in truth.
    pub holds: BTreeSet<u64>,
    pub mark: Option<ClaimMark>,
    /// To which version of the application it was converted. Absent: never.
    pub version: Option<String>,
}

impl Volume {
    pub fn position(&self) -> Position {
        match &self.data {
            Data::Empty => Position::Empty,
            Data::Known(sequence) => Position::Known(sequence.clone()),
            Data::Unreadable(_) => Position::Unknown("exited 3".into()),
        }
    }

    /// What is there, readable or not.
    pub fn truth(&self) -> Option<(u64, u64)> {
        match &self.data {
            Data::Empty => None,
            Data::Known(s) | Data::Unreadable(s) => Some((self.written, s.number)),
        }
    }

    /// Becomes what the other one is.
    pub fn copy(&mut self, other: &Volume) {
        (self.data, self.written, self.led) = (other.data.clone(), other.written, other.led);
        self.holds.clone_from(&other.holds);
        self.version.clone_from(&other.version);
    }

    /// The data, whether or not `sequence` can say which.
    pub fn known(&mut self) -> Option<&mut Sequence> {
        match &mut self.data {
            Data::Empty => None,
            Data::Known(s) | Data::Unreadable(s) => Some(s),
        }
    }

    pub fn claim(&self, ordinal: u32) -> Claim {
        let name = format!("data-db-{ordinal}");
        Claim { name, uid: self.uid.clone(), version: "1".into(), mark: self.mark.clone(), start: None, room: None }
    }
}

/// A process of the application, in truth.
#[derive(Debug, Clone)]
pub struct App {
    pub role: Role,
    /// The role that it will get by itself, and when.
    pub next: Option<(Role, Timestamp)>,
    /// What `status` says instead of the truth.
    pub probe: Option<Role>,
    /// Processes that the runner sees.
    pub processes: Option<u32>,
    /// Whose data it follows: the first of these that leads and is reached.
    pub follows: Vec<u32>,
    /// What it has received and not applied yet, and when it has.
    pub incoming: Option<(Timestamp, Volume)>,
    /// It became primary by itself beside others, or without all acknowledged writes.
    pub rogue: bool,
}

impl App {
    pub fn stopped() -> Self {
        let (follows, incoming) = (Vec::new(), None);
        App { role: Role::Stopped, next: None, probe: None, processes: None, follows, incoming, rogue: false }
    }

    /// A command made it so.
    pub fn turn(&mut self, role: Role, next: Option<(Role, Timestamp)>, follows: Vec<u32>) {
        (self.role, self.next, self.follows) = (role, next, follows);
        (self.incoming, self.rogue) = (None, false);
    }

    /// The role by an honest `status`; a wrong `status` counts as the truth, because the host cannot know better.
    pub fn shown(&self) -> Role {
        match self.probe {
            Some(Role::Unknown) | None => self.role,
            Some(said) => said,
        }
    }

    pub fn lives(&self) -> bool {
        self.shown() != Role::Stopped
    }

    pub fn leads(&self) -> bool {
        self.shown() == Role::Primary || matches!(self.next, Some((Role::Primary, _)))
    }
}

/// A pod with what runs in it.
#[derive(Debug, Clone)]
pub struct Body {
    pub pod: Pod,
    pub app: App,
    /// The last answer of `status`, since when, and how often in a row it was unknown.
    pub said: (Role, Timestamp, u32),
    /// What `sequence` said.
    pub read: Option<Read>,
}

impl Body {
    pub fn container_id(&self) -> String {
        self.pod.containers["db"].id.clone().unwrap_or_default()
    }

    pub fn runs(&self) -> bool {
        self.pod.containers["db"].running
    }
}

/// What `sequence` said, and under which circumstances.
#[derive(Debug, Clone)]
pub struct Read {
    pub container: String,
    pub position: Position,
    pub at: Timestamp,
    pub role: Role,
    /// Whether a member may have been primary since.
    pub led: bool,
}

/// A process whose pod is gone from the API.
#[derive(Debug, Clone)]
pub struct Ghost {
    pub pod_uid: String,
    pub ordinal: u32,
    /// The claim that it writes to.
    pub volume: String,
    pub node: String,
    pub grace: i64,
    pub since: Timestamp,
    pub app: App,
}

/// How a command behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behaviour {
    /// Exits 0 after so many seconds, with its effect.
    Works(i64),
    /// Exits with that code and changes nothing.
    Fails(i32),
    /// Writes that number, then exits with that code.
    Spoils(u64, i32),
    /// Exits 0 and changes nothing.
    Lies,
    /// Its outcome stays unknown; it never did anything.
    Vanishes,
    /// Its outcome stays unknown; it takes effect so many seconds after it started.
    Late(i64),
    /// Runs forever and does nothing.
    Hangs,
    /// Does nothing, and the runner ends it at its deadline.
    Expires,
    /// Was never started, and the runner says so.
    NeverStarts,
    /// The runner did not try, and says why.
    Refused(String),
    /// Exits 0; the member is `starting` for so many seconds.
    Starts(i64),
}

/// A command under way.
#[derive(Debug, Clone)]
pub struct Exec {
    pub intent: tanist_core::record::Intent,
    pub behaviour: Behaviour,
    /// When it works. Absent: it has, or never will.
    pub works_at: Option<Timestamp>,
    /// The members that it was told to copy from.
    pub peers: Vec<u32>,
    /// Acknowledged writes that its target lacks, by leave of the rules.
    pub gives_up: BTreeSet<u64>,
}

impl Exec {
    /// What the host can learn about its end.
    pub fn evidence(&self, now: Timestamp) -> Evidence {
        let started = self.intent.started;
        match self.behaviour {
            Behaviour::Works(seconds) if now < started + seconds => Evidence::Running,
            Behaviour::Works(_) | Behaviour::Lies | Behaviour::Starts(_) => Evidence::Exited(0),
            Behaviour::Fails(code) | Behaviour::Spoils(_, code) => Evidence::Exited(code),
            Behaviour::Vanishes | Behaviour::Late(_) => Evidence::Unknown("the stream broke".into()),
            Behaviour::Hangs | Behaviour::Expires if now < self.intent.started + i64::from(self.intent.timeout) => {
                Evidence::Running
            }
            Behaviour::Expires => Evidence::Unknown(Word::Deadline.into()),
            Behaviour::Hangs => Evidence::Unknown("no end at its deadline".into()),
            Behaviour::NeverStarts => Evidence::NotStarted(Word::NoSuchFile.into()),
            Behaviour::Refused(ref why) => Evidence::NotStarted((&Why::said(why)).into()),
        }
    }
}
