//! Why a command could not do its work, as opposed to a case or a check that failed.

use std::{fmt, io, path::PathBuf};

use tanist_engine::LoadError;

/// A place in a file that a user wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named.
    pub file: String,
    /// The line from 1; 0: not known.
    pub line: u64,
    /// The column from 1, in characters; 0: not known.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => f.write_str(&self.file),
            (line, 0) => write!(f, "{}:{line}", self.file),
            (line, column) => write!(f, "{}:{line}:{column}", self.file),
        }
    }
}

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("failed to read {}: {source}", path.display())]
    Read {
        /// The file that cannot be read.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("failed to write {}: {source}", path.display())]
    Write {
        /// The file that cannot be written.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something in a file is wrong.
    #[error("{place}: {message}")]
    Wrong {
        /// The file, line and column of the mistake.
        place: Place,
        /// What, and what to do.
        message: String,
    },
    /// A policy was refused when it was loaded. This is the policy's fault, so it counts as failed and not as unreadable.
    #[error("{file}: {}", chain(error))]
    Load {
        /// The policy's file.
        file: String,
        /// Why the policy was refused.
        error: LoadError,
    },
    /// The parameters do not fit the policy's schema.
    #[error("{place}: the parameters do not fit the policy {policy}: {message}")]
    Parameters {
        /// Where they are given.
        place: Place,
        /// The name of the policy.
        policy: String,
        /// What does not fit.
        message: String,
    },
    /// The command cannot be carried out as it was given.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Whether the policy is at fault, and not the command line or a file that cannot be read: exit code 1 and not 2.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Load { .. })
    }

    pub(crate) fn wrong(file: &str, line: u64, column: u64, message: impl Into<String>) -> Self {
        Self::Wrong { place: Place { file: file.to_owned(), line, column }, message: message.into() }
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
