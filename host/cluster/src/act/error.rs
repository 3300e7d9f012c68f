//! Why an action of a plan was not done, how that is reported, and when it is tried again.
use super::WRITE_SECONDS;
use crate::cluster;
use crate::hints::Unwritten;
use crate::observe;
use std::time::Duration;
use tanist_core::check;
use tanist_core::status::Failed;

/// Why a plan was not carried out to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or did not answer.
    #[error("{}", unwritten(.0, .1))]
    Write(String, #[source] cluster::Error),
    /// What no decision of this round waited for could not be read.
    #[error("failed to read {}: {}", .0, .1.words())]
    Read(&'static str, #[source] cluster::Error),
    /// Objects of the group stay as they are until somebody changes something.
    #[error("{1}")]
    Unfit(Failed, String),
    /// The API server did not answer.
    #[error("failed to {0}: no answer within {WRITE_SECONDS} s")]
    Silent(String),
    /// An object could not be written, and is tried again later.
    #[error("{}", .0.why)]
    Later(Unwritten),
    /// Every slot for commands is taken.
    #[error("failed to start {0}: {1}; it is tried again")]
    NoSlot(String, String),
    /// The API server refuses the template.
    #[error("failed to apply {0}: {1}; change {field}", field = origin(.0))]
    RejectTemplate(String, String),
    /// The object was changed since it was read: decide anew.
    #[error("failed to {0}: it was changed since it was read")]
    Overtaken(String),
    /// A check of the plan failed at the second look.
    #[error("failed to {0}: {1}")]
    Recheck(String, #[source] check::Violation),
    /// The group changed since it was read: decide anew.
    #[error("the group changed since it was read")]
    Outdated,
    /// The group could not be observed a second time.
    #[error("failed to observe the group again: {0}")]
    LookAgain(#[source] observe::Error),
    /// The process received SIGTERM.
    #[error("the operator is shutting down; nothing new is started")]
    Closing,
}

/// The field from which that object is made.
fn origin(object: &str) -> &'static str {
    if object.starts_with("Service ") { "spec.services" } else { "spec.template" }
}

impl Error {
    /// What kind of trouble it is, for conditions and events.
    #[must_use]
    pub fn reason(&self) -> Failed {
        match self {
            Error::Write(_, error) | Error::Read(_, error) if error.code() == Some(403) => Failed::Forbidden,
            Error::Read(..) => Failed::ApiUnreadable,
            Error::Unfit(reason, _) => *reason,
            Error::Write(..) | Error::Silent(_) => Failed::ApiUnwritable,
            Error::Later(before) => before.reason,
            Error::NoSlot(..) => Failed::NoSlot,
            Error::RejectTemplate(..) => Failed::TemplateRejected,
            Error::Recheck(..) => Failed::SituationChanged,
            Error::Outdated | Error::Overtaken(_) => Failed::Outdated,
            Error::LookAgain(error) => error.reason(),
            Error::Closing => Failed::Closing,
        }
    }

    /// What was not done, for events: `write the status`. Kubernetes merges events of one reason and one action, and keeps the first one's text.
    #[must_use]
    pub fn action(&self) -> &str {
        match self {
            Error::Write(what, _) | Error::Silent(what) | Error::Overtaken(what) | Error::Recheck(what, _) => what,
            Error::NoSlot(what, _) | Error::RejectTemplate(what, _) => what,
            Error::LookAgain(_) => "look again",
            Error::Read(what, _) => what,
            Error::Unfit(..) => "write the objects",
            Error::Later(before) => &before.action,
            Error::Outdated | Error::Closing => "act",
        }
    }

    /// Whether the error is reported to users. Errors that the next round resolves by itself are not.
    #[must_use]
    pub fn lasts(&self) -> bool {
        match self {
            Error::Write(..) | Error::Silent(_) | Error::Later(..) | Error::RejectTemplate(..) => true,
            Error::LookAgain(_) | Error::Read(..) | Error::Unfit(..) => true,
            Error::NoSlot(..) | Error::Recheck(..) | Error::Overtaken(_) | Error::Outdated | Error::Closing => false,
        }
    }

    /// After how long the round is tried again. Absent: not before something changes.
    #[must_use]
    pub fn again(&self) -> Option<Duration> {
        match self {
            Error::Outdated | Error::Overtaken(_) => Some(Duration::from_millis(100)),
            Error::Recheck(..) => Some(Duration::from_millis(500)),
            Error::NoSlot(..) => Some(Duration::from_secs(1)),
            Error::Closing => None,
            // A change of the group begins a round; one of an object that is not its own is not watched.
            Error::Unfit(Failed::NameTaken, _) => Some(Duration::from_secs(5)),
            Error::Unfit(..) => None,
            Error::Write(..) | Error::Silent(_) | Error::Later(..) | Error::Read(..) => Some(Duration::from_secs(5)),
            Error::RejectTemplate(..) | Error::LookAgain(_) => Some(Duration::from_secs(5)),
        }
    }
}

/// The sentence for users: what could not be done, and why.
fn unwritten(what: &str, error: &cluster::Error) -> String {
    match error.is_refusal() {
        true => format!("the API server refused to {what}: {}", error.words()),
        false => format!("failed to {what}: {}", error.words()),
    }
}
