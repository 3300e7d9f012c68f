//! What a group promises, by name.
use anyhow::{Result, bail};
use serde_json::{Value, json};

/// What an acknowledgement is worth: PostgreSQL's own settings, and `spec.failover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The name by which the command line chooses the setting.
    pub name: &'static str,
    /// The value of PostgreSQL's `synchronous_standby_names`.
    pub names: &'static str,
    /// The value of PostgreSQL's `synchronous_commit`.
    pub commit: &'static str,
    /// Acknowledged rows may be lost, by design.
    pub may_lose: bool,
    /// A script makes a primary wait for standbys only while there are some.
    pub prefer: bool,
    /// `spec.failover.preferRunning`, with `reads` of all but one: of those who can be read, the one with most leads.
    pub prefer_running: bool,
}

/// The example's `synchronous_standby_names`.
pub const ANY: &str = "ANY 1 (*)";

const REQUIRED: Setting =
    Setting { name: "required", names: ANY, commit: "on", may_lose: false, prefer: false, prefer_running: true };

/// - `required`: the example's own: a write is acknowledged when a standby has it on disk
/// - `remote-apply`: the same, and that standby shows it to readers already
/// - `preferred`: a write waits for a standby only while one streams, by a script: CloudNativePG's `dataDurability: preferred`
/// - `async`: a write waits for nobody; of those who can be read, the one with most leads
/// - `async-freshest`: the same, and a stopped old primary leads again if it can be read, for it has most
pub const SETTINGS: [Setting; 5] = [
    REQUIRED,
    Setting { name: "remote-apply", commit: "remote_apply", ..REQUIRED },
    Setting { name: "preferred", may_lose: true, prefer: true, ..REQUIRED },
    Setting { name: "async", names: "", may_lose: true, ..REQUIRED },
    Setting { name: "async-freshest", names: "", may_lose: true, prefer_running: false, ..REQUIRED },
];

impl Setting {
    /// The setting of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<Self> {
        match SETTINGS.iter().find(|setting| setting.name == name) {
            Some(setting) => Ok(*setting),
            None => bail!("no such setting: {name}"),
        }
    }

    /// `spec.failover` of a group of so many.
    pub fn failover(&self, members: u32) -> Value {
        if self.prefer_running {
            json!({"preferRunning": true, "reads": members.saturating_sub(1)})
        } else {
            json!({"preferRunning": false})
        }
    }

    /// The file of settings. What a script changes by ALTER SYSTEM has to win, so names stand in it only where the example's own are not meant.
    pub fn file(&self) -> String {
        let mut text = format!("synchronous_commit = {}\n", self.commit);
        if self.names != ANY {
            text += &format!("synchronous_standby_names = '{}'\n", self.names);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_by_its_name() {
        assert_eq!(
            Setting::named("async").unwrap().file(),
            "synchronous_commit = on\nsynchronous_standby_names = ''\n"
        );
        assert_eq!(Setting::named("preferred").unwrap().file(), "synchronous_commit = on\n");
        assert_eq!(Setting::named("required").unwrap().failover(3), json!({"preferRunning": true, "reads": 2}));
        assert!(Setting::named("requird").is_err());
    }
}
