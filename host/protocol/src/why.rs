//! Why a command was not started, or why its end is not known: machine words, each with one textual form.
use std::borrow::Cow;
use std::fmt;

/// Declares the words once, so that no list of them can miss one.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A reason that this version knows. Its text never changes: runners of other versions write and read it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Word {
            $($(#[$doc])* $name,)*
        }

        impl Word {
            /// All words that this version knows.
            pub const ALL: &'static [Word] = &[$(Word::$name),*];

            /// Its text: small letters and dashes.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Word::$name => $text,)*
                }
            }
        }
    };
}

words! {
    /// The list of arguments is longer than the kernel accepts.
    ArgumentListTooLong = "argument-list-too-long",
    /// The kernel takes no such argument.
    BadArgument = "bad-argument",
    /// The token has a form that no token has.
    BadToken = "bad-token",
    /// Another command runs; the token stays unused.
    Busy = "busy",
    /// The deadline came: before the start if it was not started, else the runner ended the command.
    Deadline = "deadline",
    /// The request has no program.
    EmptyArgv = "empty-argv",
    /// The token was used so long ago that its result was dropped.
    Forgotten = "forgotten",
    /// Process 1 did not answer its client to the end.
    NoAnswer = "no-answer",
    /// The kernel has no memory, process or thread for it.
    NoResources = "no-resources",
    /// No runner answers in the container.
    NoRunner = "no-runner",
    /// This container's runner has no `status` command.
    NoStatusCommand = "no-status-command",
    /// The program does not exist.
    NoSuchFile = "no-such-file",
    /// The program may not be executed.
    PermissionDenied = "permission-denied",
    /// No poll may begin now, because a quiet command runs.
    Quiet = "quiet",
    /// `status` did not say what the start depends on; the token stays unused.
    Role = "role",
    /// `sequence` did not print what the start depends on; the token stays unused.
    Sequence = "sequence",
    /// The pod is ending.
    ShuttingDown = "shutting-down",
    /// The start failed for a reason without a word of its own.
    SpawnFailed = "spawn-failed",
    /// The runner's disk cannot be read or written.
    Storage = "storage",
    /// The poll before does not end.
    Stuck = "stuck",
    /// The pod has used up its tokens and has to be replaced.
    TokensFull = "tokens-full",
    /// The token was settled before it was started, and never starts.
    Void = "void",
    /// The request is meant for another pod.
    WrongUid = "wrong-uid",
}

impl Word {
    /// The word with this text. `None`: a word of another version.
    #[must_use]
    pub fn read(text: &str) -> Option<Word> {
        Word::ALL.iter().copied().find(|word| word.as_str() == text)
    }
}

/// The most characters of a reason that are kept. Each word has fewer, and a member may say anything.
const LONGEST: usize = 64;

/// A reason as it is said: the text of a [`Word`], or one that another version knows. It is short and printable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why(Cow<'static, str>);

impl Why {
    /// A reason that was said, whatever it is: its first 64 characters, with `?` for those that a terminal does not print.
    #[must_use]
    pub fn said(text: &str) -> Why {
        let printable = text.chars().take(LONGEST).map(|c| if c.is_control() { '?' } else { c });
        Why(Cow::Owned(printable.collect()))
    }

    /// The text of the reason: at most 64 characters, without control characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it has the form of all words: small letters, digits and dashes, at least one.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    }
}

impl From<Word> for Why {
    fn from(word: Word) -> Self {
        Why(Cow::Borrowed(word.as_str()))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_a_text_of_its_own_and_is_read() {
        for word in Word::ALL {
            assert_eq!(Word::read(word.as_str()), Some(*word), "its text is another word's too");
            let why = Why::from(*word);
            assert!(why.is_plain(), "{why}");
            assert_eq!(why, Why::said(word.as_str()));
        }
    }

    #[test]
    fn a_reason_of_another_version_stays_a_text() {
        assert_eq!(Word::read("too-hot"), None);
        assert_eq!(Why::said("too-hot").as_str(), "too-hot");
        for odd in ["", "A", "a b", "a\n", "ä", "a:b"] {
            assert!(!Why::said(odd).is_plain(), "{odd:?}");
        }
    }

    // A member may say anything, and what it says is shown to users and stored in the status of its group.
    #[test]
    fn a_reason_is_short_and_printable() {
        assert_eq!(Why::said(&"é".repeat(90_000)).as_str(), "é".repeat(64));
        assert_eq!(Why::said("a\u{1b}[2J\r").as_str(), "a?[2J?");
        assert!(Word::ALL.iter().all(|word| word.as_str().len() <= LONGEST));
    }

    // Runners that were released before write and read these texts.
    #[test]
    fn the_texts_are_those_of_the_released_runner() {
        let all: Vec<_> = Word::ALL.iter().map(|word| word.as_str()).collect();
        assert_eq!(
            all.join(" "),
            "argument-list-too-long bad-argument bad-token busy deadline empty-argv forgotten no-answer no-resources no-runner \
             no-status-command no-such-file permission-denied quiet role sequence shutting-down spawn-failed storage stuck tokens-full \
             void wrong-uid"
        );
    }
}
