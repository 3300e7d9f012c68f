//! Whether the groups that use a policy follow it: by what their status says of its source.
use super::super::Session;
use super::super::output::printable;
use crate::policies::source_text;
use kube::ResourceExt;
use serde::Serialize;
use std::time::{Duration, Instant};
use tanist_api::ReplicaGroup;
use tanist_api::status::PolicyStatus;

/// The pause between two looks at a group.
const LOOK: Duration = Duration::from_millis(300);

/// How it ended with one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Followed {
    /// The name of the group that uses the policy.
    pub group: String,
    /// `follows`, `keeps`, `gone` or `missing`: it does neither until the time was over.
    pub result: &'static str,
    /// What it says. Absent: it follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Followed {
    /// Whether the group follows, or does not need to any more.
    pub fn is_well(&self) -> bool {
        matches!(self.result, "follows" | "gone")
    }
}

/// A group that uses the policy, with what its status said before the policy was put.
#[derive(Debug, Clone)]
pub struct User {
    name: String,
    source: String,
    before: Option<PolicyStatus>,
}

/// The groups that use a key of a `ConfigMap`.
pub fn users(groups: &[ReplicaGroup], name: &str, key: &str) -> Vec<User> {
    let source = format!("configmap/{name}/{key}");
    let uses = |group: &&ReplicaGroup| group.spec.policies.iter().any(|policy| source_text(policy) == source);
    let user = |group: &ReplicaGroup| User {
        name: group.name_any(),
        source: source.clone(),
        before: entry(group, &source).cloned(),
    };
    groups.iter().filter(uses).map(user).collect()
}

fn entry<'g>(group: &'g ReplicaGroup, source: &str) -> Option<&'g PolicyStatus> {
    group.status.as_ref()?.policies.iter().find(|policy| policy.source == source)
}

/// What a group does about the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stand {
    /// It decides by it.
    Follows,
    /// It refused it, and keeps what it had.
    Keeps(String),
    /// It has not said yet.
    Waits(String),
}

/// What the status says about the policy of that digest. What it already said before the policy was put is about another version.
fn stand(seen: Option<&PolicyStatus>, before: Option<&PolicyStatus>, digest: &str) -> Stand {
    let Some(seen) = seen else { return Stand::Waits("its status does not name the policy".to_owned()) };
    let why = seen.message.clone().unwrap_or_else(|| format!("its status says {}", seen.state));
    let is_it = seen.digest.as_deref() == Some(digest);
    let is_new = before.is_none_or(|before| (&before.state, &before.message) != (&seen.state, &seen.message));
    match seen.state.as_str() {
        // A policy that is never asked was loaded like the others.
        "Active" | "NeverAsked" if is_it => Stand::Follows,
        "LastGoodDecides" | "NotLoaded" | "PreviousDecides" if is_new => Stand::Keeps(why),
        "Active" => Stand::Waits("it still decides by the version before".to_owned()),
        _ => Stand::Waits(why),
    }
}

/// Waits until every group follows, keeps what it had, or the time is over. `told` is given a line for each as soon as it is known.
///
/// # Errors
/// When a line cannot be printed.
pub async fn follow(
    session: &Session,
    users: Vec<User>,
    digest: &str,
    timeout: Duration,
    told: impl Fn(&str) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Followed>> {
    let began = Instant::now();
    let mut open: Vec<(User, String)> = users.into_iter().map(|user| (user, String::new())).collect();
    let mut ended = Vec::new();
    loop {
        let mut left = Vec::new();
        for (user, _) in open {
            let (result, message) = match look(session, &user, digest).await {
                Ok(Some(Stand::Follows)) => ("follows", None),
                Ok(Some(Stand::Keeps(why))) => ("keeps", Some(why)),
                Ok(None) => ("gone", Some("it was deleted meanwhile".to_owned())),
                Ok(Some(Stand::Waits(why))) | Err(why) => {
                    left.push((user, why));
                    continue;
                }
            };
            let followed = Followed { group: format!("{}/{}", session.namespace, user.name), result, message };
            told(&line(&followed))?;
            ended.push(followed);
        }
        open = left;
        if open.is_empty() {
            return Ok(ended);
        }
        if began.elapsed() >= timeout {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    for (user, why) in open {
        let message = Some(format!("not within {} s: {why}", timeout.as_secs()));
        let followed = Followed { group: format!("{}/{}", session.namespace, user.name), result: "missing", message };
        told(&line(&followed))?;
        ended.push(followed);
    }
    Ok(ended)
}

/// Looks at a group once. An error is no end: the API server may be away for a moment. `None`: the group is gone.
async fn look(session: &Session, user: &User, digest: &str) -> Result<Option<Stand>, String> {
    let found = session.groups().get_opt(&user.name).await.map_err(|error| tanist_cluster::api_error::words(&error))?;
    Ok(found.map(|group| stand(entry(&group, &user.source), user.before.as_ref(), digest)))
}

fn line(followed: &Followed) -> String {
    let why = printable(followed.message.as_deref().unwrap_or_default());
    match followed.result {
        "follows" => format!("{} follows\n", followed.group),
        "keeps" => format!("{} keeps what it had: {why}\n", followed.group),
        "gone" => format!("{}: {why}\n", followed.group),
        _ => format!("{} does not follow: {why}\n", followed.group),
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
