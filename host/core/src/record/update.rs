//! What is remembered of an update of the pods.
use crate::contract::{MemberName, Timestamp};
use crate::snapshot::{Former, Update};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An update of the pods that is under way: how many have the older template, and since when it is that many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Updating {
    /// Members whose pods have an older template.
    pub left: u32,
    /// When there first were that many, in seconds since 1970.
    pub since: Timestamp,
}

/// The template of which pods are made when a changed one does not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fallback {
    /// The last template with which every member was in its role, as [`Update::template`] identifies it.
    pub good: String,
    /// How another template does. Absent: there is no other one, or it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// The template that was given up. Absent: none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<GivenUp>,
}

/// How a changed template does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Trial {
    /// The changed template, as [`Update::template`] identifies it.
    pub template: String,
    /// Members that were in their role with it: what becomes of them later is not due to it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub worked: BTreeSet<MemberName>,
    /// A member that did not get into its role with it yet. Absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
}

/// A member that does not get into its role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failing {
    /// The name of the member.
    pub member: MemberName,
    /// Since when, in seconds since 1970.
    pub since: Timestamp,
}

/// A template that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GivenUp {
    /// The template that was given up, as [`Update::template`] identifies it.
    pub template: String,
    /// When, in seconds since 1970.
    pub at: Timestamp,
    /// Why, in one sentence.
    pub why: String,
}

/// The first member with a changed template, which is watched before others get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Canary {
    /// The template, as [`Update::template`] identifies it.
    pub template: String,
    /// The member that got the template first.
    pub member: MemberName,
    /// Its pod: another one is watched from its own beginning.
    pub pod_uid: String,
    /// The container in which its application was first in its role in this pod: another one was restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// When it got the template, or was last taken away by Kubernetes, in seconds since 1970.
    pub begun: Timestamp,
    /// Since when it has been in its role and Ready without a break. Absent: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Since when time does not count: a policy that may judge it gives no answer, or its pod is taken away, on a node that does not report, or copies the data. Absent: it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<Timestamp>,
    /// How the watch ended. Absent: it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// Members whose pods are replaced between `beforeUpdate` and `afterUpdate` (B11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Batched {
    /// The members that both commands are told of.
    pub members: BTreeSet<MemberName>,
    /// Whether `beforeUpdate` worked, so that their pods may go.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    /// How many times in a row the command that is due failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// Before that time it is not tried again, in seconds since 1970. Absent: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Batched {
    /// The members, as commands get them and users see them: by name.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.members.iter().map(ToString::to_string)
    }
}

/// How the watch of a canary ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The others get the template.
    Passed,
    /// Nobody else gets the template until it changes (E38); the reason in one sentence.
    Failed(String),
}

impl Canary {
    /// Why the template failed on it. `None`: it did not.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        if let Some(Verdict::Failed(why)) = &self.verdict { Some(why) } else { None }
    }
}

impl Fallback {
    /// Why `spec.template` was given up, if it was, the user still wants that, and there is something to go back to.
    #[must_use]
    pub fn given_up(&self, update: &Update) -> Option<&GivenUp> {
        let can_go_back = update.rolls_back && update.former != Former::Lost;
        self.failed.as_ref().filter(|failed| can_go_back && failed.template == update.template)
    }
}
