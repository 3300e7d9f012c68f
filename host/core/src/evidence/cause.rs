//! Why a command was not started, or why its end is not known.
use crate::snapshot::Evidence;
use std::fmt;
use tanist_protocol::why::{Why, Word};

/// The reason of an [`Evidence`](crate::snapshot::Evidence). Rules go by the runner's words alone: no text of anybody else can be taken for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The runner said this word.
    Runner(Word),
    /// A sentence for users; no rule reads it.
    Text(String),
}

impl Cause {
    /// Whether the runner said one of these words.
    #[must_use]
    pub fn is_one_of(&self, words: &[Word]) -> bool {
        matches!(self, Cause::Runner(word) if words.contains(word))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Runner(word) => f.write_str(word.as_str()),
            Cause::Text(text) => f.write_str(text),
        }
    }
}

/// How a command ended, for logs: `exited 3`.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Running => f.write_str("running"),
            Evidence::Exited(code) => write!(f, "exited {code}"),
            Evidence::NotStarted(why) => write!(f, "not started: {why}"),
            Evidence::Interrupted => f.write_str("ended by a restart of its container"),
            Evidence::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

impl From<Word> for Cause {
    fn from(word: Word) -> Self {
        Cause::Runner(word)
    }
}

/// What a runner said. A word of another version is a text.
impl From<&Why> for Cause {
    fn from(why: &Why) -> Self {
        Word::read(why.as_str()).map_or_else(|| Cause::Text(why.to_string()), Cause::Runner)
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Self {
        Cause::Text(text)
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Self {
        Cause::Text(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_runner_can_say_a_word() {
        assert!(Cause::from(&Why::said("busy")).is_one_of(&[Word::Busy]));
        assert!(!Cause::from(&Why::said("busy")).is_one_of(&[Word::Void]));
        assert!(!Cause::from("busy").is_one_of(Word::ALL), "an API server that answers with that text");
        assert!(!Cause::from(&Why::said("too-hot")).is_one_of(Word::ALL), "a word of another version");
        assert_eq!(Cause::from(&Why::said("too-hot")).to_string(), "too-hot");
    }
}
