//! What the host asks about a story, and what it makes of an answer.

use tanist_core::{
    check,
    examples::asked,
    policy::{self, Question, Reply},
};

use crate::{
    Answer, Care, Snapshot,
    testing::convert::{answer, care, question, story},
};

/// A question: a function of [`Policy`](crate::Policy).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the functions are described at the trait")]
pub enum Point {
    Seed,
    Failover,
    Join,
    Demote,
    Place,
    Treat,
    Switchover,
    Rebalance,
    Update,
    Judge,
    Admit,
    Order,
}

impl Point {
    const fn of_host(self) -> policy::Point {
        match self {
            Self::Seed => policy::Point::Seed,
            Self::Failover => policy::Point::Failover,
            Self::Join => policy::Point::Join,
            Self::Demote => policy::Point::Demote,
            Self::Place => policy::Point::Place,
            Self::Treat => policy::Point::Treat,
            Self::Switchover => policy::Point::Switchover,
            Self::Rebalance => policy::Point::Rebalance,
            Self::Update => policy::Point::Update,
            Self::Judge => policy::Point::Judge,
            Self::Admit => policy::Point::Admit,
            Self::Order => policy::Point::Order,
        }
    }
}

/// What the host does.
impl Snapshot {
    /// What the host asks at that point about a group that is as this story says: with its bars, which replace those of the story. Members without a term
    /// are of the group's; a group without one is in term 1, unless its members stand still and none has data.
    ///
    /// # Panics
    /// The host would not ask; the message says what it does instead.
    #[must_use]
    #[track_caller]
    #[allow(clippy::panic, reason = "a test that asks what the host does not ask is wrong")]
    pub fn asked(&self, point: Point) -> Self {
        self.ask(point)
            .unwrap_or_else(|why| panic!("the host does not ask {} about this group: {why}", point.of_host()))
    }

    /// As [`Snapshot::asked`], for a test of what the host does not ask.
    ///
    /// # Errors
    /// The host would not ask; the text says what it does instead.
    pub fn ask(&self, point: Point) -> Result<Self, String> {
        asked(point.of_host(), &story(self)).map(|found| question(self, found.snapshot))
    }

    /// Why the host does not accept a member as an answer. `None`: it may be chosen, or there is no such member.
    pub fn bar_of(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|member| member.name == name)?.barred.as_deref()
    }
}

impl Answer {
    /// Whether the host accepts it as an answer to that question.
    ///
    /// # Errors
    /// Why it drops the whole answer.
    pub fn check(&self, asked: &Snapshot) -> Result<(), String> {
        // The rules are the same at all points with such an answer.
        held(Point::Seed, asked, &Reply::Answer(answer(self)))
    }
}

impl Care {
    /// Whether the host accepts it as an answer to that question.
    ///
    /// # Errors
    /// Why it drops the whole answer.
    pub fn check(&self, asked: &Snapshot) -> Result<(), String> {
        held(Point::Treat, asked, &Reply::Care(care(self)))
    }
}

fn held(point: Point, asked: &Snapshot, reply: &Reply) -> Result<(), String> {
    let question = Question { point: point.of_host(), snapshot: story(asked) };
    check::reply(&question, reply).map_err(|violation| violation.message)
}
