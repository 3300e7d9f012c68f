//! Wishes another primary and tells what comes of it. The operator does the rest, and stops nobody before the heir has everything.
use super::{change, find};
use crate::api::ReplicaGroup;
use anyhow::{Context, bail, ensure};
use futures::{StreamExt, pin_mut};
use kube::Api;
use kube::runtime::watcher::watch_object;
use serde_json::json;
use std::time::{Duration, Instant};

/// What is refused before anything is wished.
fn refusal(group: &ReplicaGroup, to: &str) -> Option<String> {
    let status = group.status.as_ref()?;
    let Some(member) = status.members.iter().find(|m| m.name == to) else {
        let names: Vec<_> = status.members.iter().map(|m| m.name.as_str()).collect();
        return Some(format!("{to} is no member of this group; members are: {}", names.join(", ")));
    };
    if status.primary.as_deref().is_some_and(|p| p.contains(',')) {
        return Some("several members are primary; there is nothing to hand over".into());
    }
    if group.spec.paused {
        return Some("the group is paused; resume it first".into());
    }
    let why = member.role_detail.as_ref().map(|w| format!(" ({w})")).unwrap_or_default();
    (!matches!(member.role.as_str(), "secondary" | "primary"))
        .then(|| format!("{to} is {}{why}; only a member that follows can take over", member.role))
}

/// Wishes it and waits for the end.
///
/// # Errors
/// Why it is refused, or what it waits for still.
pub async fn switchover(groups: &Api<ReplicaGroup>, name: &str, to: &str, seconds: u64) -> anyhow::Result<()> {
    let group = find(groups, name).await?;
    if let Some(why) = refusal(&group, to) {
        bail!("{why}");
    }
    let began = Instant::now();
    let changed = change(groups, name, &json!({"spec": {"preferredPrimary": to}})).await?;
    let generation = changed.metadata.generation;
    let mut last = String::new();
    let watch = watch_object(groups.clone(), name);
    pin_mut!(watch);
    let wait = async {
        while let Some(seen) = watch.next().await {
            // A watch that stumbles begins anew by itself.
            let Ok(Some(group)) = seen else { continue };
            match progress(&group, to, generation) {
                Progress::Done => return Ok(true),
                Progress::Failed(why) => bail!("{why}"),
                Progress::Waits(why) if why != last && !why.is_empty() => {
                    eprintln!("{why}");
                    last = why;
                }
                Progress::Waits(_) => {}
            }
        }
        Ok(false)
    };
    let done = tokio::time::timeout(Duration::from_secs(seconds), wait).await;
    let ended = done.with_context(|| {
        format!("{to} does not lead after {seconds} s; the wish stays (see: tanist explain {name})")
    })??;
    ensure!(ended, "the watch of the group ended");
    println!("{to} leads, after {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

enum Progress {
    Done,
    Failed(String),
    Waits(String),
}

fn progress(group: &ReplicaGroup, to: &str, generation: Option<i64>) -> Progress {
    let Some(status) = &group.status else { return Progress::Waits(String::new()) };
    if status.observed_generation < generation {
        return Progress::Waits(String::new());
    }
    if status.primary.as_deref() == Some(to) {
        return Progress::Done;
    }
    if let Some(failed) = status.waiting.iter().find(|w| w.reason == "SwitchoverFailed") {
        return Progress::Failed(failed.message.clone());
    }
    Progress::Waits(status.waiting.first().map(|w| w.message.clone()).unwrap_or_default())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use serde_json::Value;

    fn group(role: &str, primary: &str, waiting: Value) -> ReplicaGroup {
        serde_json::from_value(json!({
            "apiVersion": "tanist.dev/v1alpha1",
            "kind": "ReplicaGroup",
            "metadata": {"name": "db", "namespace": "shop", "generation": 2},
            "spec": {
                "replicas": 2, "primaries": 1,
                "template": {"spec": {"containers": [{"name": "db", "image": "example.org/db:1"}]}},
                "commands": {"status": {"exec": ["s"]}, "sequence": {"exec": ["q"]}, "stop": {"exec": ["t"]}, "primary": {"exec": ["p"]}}
            },
            "status": {
                "observedGeneration": 2, "primary": primary, "waiting": waiting,
                "members": [{"name": "db-1", "ordinal": 1, "phase": "running", "role": role}]
            }
        }))
        .unwrap()
    }

    // A lagging member is the operator's to judge; a failed, stopped or unknown one is refused at once.
    #[test]
    fn only_a_member_that_follows_is_wished_for() {
        assert_eq!(refusal(&group("secondary", "db-0", json!([])), "db-1"), None);
        for role in ["stopped", "failed", "unknown", "starting"] {
            assert!(refusal(&group(role, "db-0", json!([])), "db-1").unwrap().contains(role));
        }
        assert!(refusal(&group("secondary", "db-0", json!([])), "db-7").unwrap().contains("members are: db-1"));
        assert!(refusal(&group("primary", "db-0,db-1", json!([])), "db-1").unwrap().contains("several"));
    }

    #[test]
    fn it_ends_when_the_member_leads_or_the_operator_gave_up() {
        assert!(matches!(progress(&group("primary", "db-1", json!([])), "db-1", Some(2)), Progress::Done));
        assert!(matches!(progress(&group("primary", "db-1", json!([])), "db-1", Some(3)), Progress::Waits(_)));
        let waits = json!([{"reason": "SwitchoverPending", "message": "db-1 lags"}]);
        assert!(
            matches!(progress(&group("secondary", "db-0", waits), "db-1", Some(2)), Progress::Waits(why) if why == "db-1 lags")
        );
        let failed = json!([{"reason": "SwitchoverFailed", "message": "db-0 leads again"}]);
        assert!(
            matches!(progress(&group("secondary", "db-0", failed), "db-1", Some(2)), Progress::Failed(why) if why.contains("again"))
        );
    }
}
