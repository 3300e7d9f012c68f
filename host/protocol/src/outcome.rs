//! What is known of a command.
use crate::number;
use crate::why::Why;
use std::fmt;

/// What is known of a command. Its text, for instance `exited:0` or `not-started:busy`, is the third word of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ended by itself with this code; 128+n if signal n ended it that the runner did not send.
    Exited(u8),
    /// This request did not start it.
    NotStarted(Why),
    /// It may have run, or may still run.
    Unknown(Why),
    /// It is running.
    Running,
    /// An earlier incarnation of the runner started it, and the container restarted before it ended.
    Interrupted,
    /// It was never started and never will be.
    Void,
}

/// The text in frames.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Exited(code) => write!(f, "exited:{code}"),
            Outcome::NotStarted(why) => write!(f, "not-started:{why}"),
            Outcome::Unknown(why) => write!(f, "unknown:{why}"),
            Outcome::Running => f.write_str("running"),
            Outcome::Interrupted => f.write_str("interrupted"),
            Outcome::Void => f.write_str("void"),
        }
    }
}

impl Outcome {
    /// Reads an outcome of any version: every reason is taken, and what follows the other words is passed over. `None`: it is no outcome that
    /// this version knows.
    #[must_use]
    pub fn read(text: &str) -> Option<Outcome> {
        let (kind, detail) = text.split_once(':').unwrap_or((text, ""));
        Some(match kind {
            "exited" => Outcome::Exited(number(detail)?),
            "not-started" => Outcome::NotStarted(Why::said(detail)),
            "unknown" => Outcome::Unknown(Why::said(detail)),
            "running" => Outcome::Running,
            "interrupted" => Outcome::Interrupted,
            "void" => Outcome::Void,
            _ => return None,
        })
    }

    /// Its reason. `None`: this outcome has none.
    #[must_use]
    pub fn why(&self) -> Option<&Why> {
        match self {
            Outcome::NotStarted(why) | Outcome::Unknown(why) => Some(why),
            Outcome::Exited(_) | Outcome::Running | Outcome::Interrupted | Outcome::Void => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::Word;

    #[test]
    fn every_outcome_has_the_text_of_the_released_version() {
        for (outcome, text) in [
            (Outcome::Exited(0), "exited:0"),
            (Outcome::Exited(255), "exited:255"),
            (Outcome::NotStarted(Word::Busy.into()), "not-started:busy"),
            (Outcome::Unknown(Word::NoAnswer.into()), "unknown:no-answer"),
            (Outcome::Running, "running"),
            (Outcome::Interrupted, "interrupted"),
            (Outcome::Void, "void"),
        ] {
            assert_eq!(outcome.to_string(), text);
            assert_eq!(Outcome::read(text), Some(outcome));
        }
    }

    #[test]
    fn only_a_code_of_digits_is_an_exit() {
        for text in ["exited", "exited:", "exited:256", "exited:+1", "exited:-1", "exited:0 ", "left:0", ""] {
            assert_eq!(Outcome::read(text), None, "{text:?}");
        }
    }

    // Decision 0013: a later runner may know more reasons, and say more of an outcome.
    #[test]
    fn what_a_later_runner_says_is_no_error() {
        assert_eq!(Outcome::read("not-started:too-hot"), Some(Outcome::NotStarted(Why::said("too-hot"))));
        assert_eq!(Outcome::read("unknown:a:b"), Some(Outcome::Unknown(Why::said("a:b"))));
        assert_eq!(Outcome::read("running:41"), Some(Outcome::Running));
    }
}
