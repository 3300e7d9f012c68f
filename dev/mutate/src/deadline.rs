//! When a run ends by itself.

use std::time::SystemTime;

/// Nothing is begun afterwards. What was begun ends.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Deadline {
    /// The second of the epoch after which nothing is begun.
    #[arg(long)]
    until: Option<u64>,
}

impl Deadline {
    /// Whether it has passed.
    pub fn is_over(self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.until.is_some_and(|until| now.as_secs() >= until)
    }
}
