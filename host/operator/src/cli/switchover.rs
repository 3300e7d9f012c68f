//! `tanist switchover`: requests another primary and shows the progress. The operator does the rest, and stops the old primary only when the new
//! one has all its data.
use super::find::{change, find, no_member, observed};
use super::output::{note, print};
use super::wait::{self, Progress, until_done, until_final};
use super::{Session, kubectl, me};
use anyhow::bail;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use tanist_api::view::{View, is, role};
use tanist_api::{ANNOTATION_RETRY, ReplicaGroup};

/// The reason under which the operator says that it gave up.
const FAILED: &str = "SwitchoverFailed";

/// Why the request is refused before anything is written. `None`: it is not.
fn refusal(group: &ReplicaGroup, to: &str) -> Option<String> {
    let view = View::new(group);
    if let Err(why) = observed(&view) {
        return Some(why);
    }
    let Some(member) = view.member(to) else { return Some(no_member(&view, to)) };
    if group.spec.commands.member_list.is_some() {
        return Some("the members elect themselves who leads (commands.memberList): move the lead by the means of the application".into());
    }
    if view.primaries().len() > 1 {
        return Some("several members are primary, so there is no lead to switch".into());
    }
    if group.spec.paused {
        return Some(format!("the group is paused; first: {} resume {}", me(), view.short_name()));
    }
    let follows = is(&member.role, "secondary") || is(&member.role, "primary");
    (!follows).then(|| format!("the role of {to} is {}; only a secondary can become primary", role(member)))
}

/// Requests the switchover and waits for the end.
///
/// # Errors
/// Why it is refused, or what is still awaited after so many seconds.
pub async fn switchover(session: &Session, name: &str, to: &str, seconds: u64) -> anyhow::Result<()> {
    let groups = session.groups();
    let refused = until_final(&groups, name, wait::end(seconds), |group| {
        let is_unknown = View::new(group).member(to).is_some_and(|member| is(&member.role, "unknown"));
        let why = refusal(group, to);
        let may_change = why.is_some() && is_unknown && !group.spec.paused;
        Ok((why, may_change))
    });
    if let Some(why) = refused.await? {
        bail!("{why}");
    }
    let changed = change(&groups, name, &request(&find(&groups, name).await?, to, Timestamp::now())).await?;
    let overdue =
        format!("{to} is not primary after {seconds} s; spec.preferredPrimary stays {to}, so it may still become it");
    let took = until_done(&groups, name, seconds, &overdue, |group| progress(group, to, &changed)).await?;
    print(&format!("{to} leads, after {:.1} s\n", took.as_secs_f64()))?;
    note(&format!(
        "spec.preferredPrimary stays {to}: the lead comes back to it after a failover. To let any member keep the lead: {} patch rg {name} -n {} --type=merge -p '{{\"spec\":{{\"preferredPrimary\":null}}}}'",
        kubectl(),
        session.namespace
    ));
    Ok(())
}

/// The change that requests it. One to the same member that failed is tried again only if that is asked for, too.
fn request(group: &ReplicaGroup, to: &str, now: Timestamp) -> Value {
    let mut request = json!({"spec": {"preferredPrimary": to}});
    if View::new(group).wait(FAILED).is_some()
        && let Some(request) = request.as_object_mut()
    {
        request.insert("metadata".into(), json!({"annotations": {ANNOTATION_RETRY: now.to_string()}}));
    }
    request
}

/// How far it is.
///
/// # Errors
/// When the operator gave up.
fn progress(group: &ReplicaGroup, to: &str, asked: &ReplicaGroup) -> anyhow::Result<Progress> {
    let view = View::new(group);
    // A status from before says nothing about this request. One that failed before may be as it was, word for word, until the operator has heard of the retry.
    let is_heard = |group: &ReplicaGroup| {
        let retry = group.annotations().get(ANNOTATION_RETRY).cloned();
        retry.is_none() || View::new(group).record().is_ok_and(|record| record.cleared_retry == retry)
    };
    if view.observed_generation() < asked.metadata.generation || !is_heard(group) {
        return Ok(Progress::Waits(String::new()));
    }
    if view.primaries() == [to] {
        return Ok(Progress::Done);
    }
    if let Some(failed) = view.wait(FAILED) {
        bail!("{}", failed.message);
    }
    Ok(Progress::Waits(view.waits().first().map(|w| w.message.clone()).unwrap_or_default()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use crate::cli::example;
    use crate::mock;

    fn group(role: &str, primary: &str, waiting: Value) -> ReplicaGroup {
        example(&json!({"status": {
            "primaries": primary.split(',').collect::<Vec<_>>(), "awaiting": waiting,
            "members": [{"name": "db-1", "ordinal": 1, "phase": "running", "role": role}]
        }}))
    }

    // A role that is unknown for a moment is awaited: the group becomes ready for the request.
    #[tokio::test(start_paused = true)]
    async fn a_role_that_is_unknown_for_a_moment_is_awaited() {
        for (unknown, written) in [(3, 1), (usize::MAX, 0)] {
            let mut looks = 0;
            let (client, requests) = mock::server(move |method, _, _| {
                // The request itself is refused, so that nothing has to be awaited.
                if method == "PATCH" {
                    return mock::refusal(422, "Invalid", "no");
                }
                looks += usize::from(method == "GET");
                let role = if looks <= unknown { "unknown" } else { "secondary" };
                Some((200, serde_json::to_value(group(role, "db-0", json!([]))).unwrap()))
            });
            let ended = switchover(&Session::over(client, "shop"), "db", "db-1", 60).await.unwrap_err().to_string();
            let patches = requests.lock().unwrap().iter().filter(|h| h.0 == "PATCH").count();
            assert_eq!(patches, written, "{ended}");
            assert_eq!(ended.contains("the role of db-1 is unknown"), written == 0, "{ended}");
        }
    }

    // The operator judges a lagging member; a failed, stopped or unknown one is refused.
    #[test]
    fn only_a_secondary_can_be_asked_for() {
        assert_eq!(refusal(&group("secondary", "db-0", json!([])), "db-1"), None);
        for role in ["stopped", "failed", "unknown", "starting"] {
            assert!(refusal(&group(role, "db-0", json!([])), "db-1").unwrap().contains(role));
        }
        let wrong = refusal(&group("secondary", "db-0", json!([])), "db-7").unwrap();
        assert_eq!(wrong, "no member db-7 in group shop/db; did you mean db-1?");
        assert!(refusal(&group("primary", "db-0,db-1", json!([])), "db-1").unwrap().contains("several"));
        assert!(refusal(&example(&json!({"status": null})), "db-1").unwrap().contains("no operator"));
        let paused = example(&json!({"spec": {"paused": true}}));
        assert!(refusal(&paused, "db-0").unwrap().contains("resume db"));
        let elected = example(&json!({"spec": {"commands": {"memberList": {"exec": ["list"]}}}}));
        assert!(refusal(&elected, "db-0").unwrap().contains("elect themselves who leads"));
    }

    #[test]
    fn it_ends_when_the_member_leads_or_the_operator_gave_up() {
        let seen = |primary, waiting, generation| {
            let asked = example(&json!({"metadata": {"generation": generation}}));
            progress(&group("secondary", primary, waiting), "db-1", &asked).map_err(|e| e.to_string())
        };
        assert_eq!(seen("db-1", json!([]), 2), Ok(Progress::Done));
        assert_eq!(
            seen("db-1", json!([]), 3),
            Ok(Progress::Waits(String::new())),
            "this status is about an older spec"
        );
        let waits = json!([{"reason": "SwitchoverPending", "message": "db-1 lags"}]);
        assert_eq!(seen("db-0", waits, 2), Ok(Progress::Waits("db-1 lags".into())));
        let failed = json!([{"reason": "SwitchoverFailed", "message": "db-0 leads again"}]);
        assert_eq!(seen("db-0", failed, 2), Err("db-0 leads again".into()));
    }

    // Whoever repeats a switchover that failed wants it tried again, and the old failure is not its end.
    #[test]
    fn one_that_failed_is_tried_again() {
        let mut failed = group("secondary", "db-0", json!([{"reason": FAILED, "message": "db-0 leads again"}]));
        let at = Timestamp::UNIX_EPOCH;
        let asked = request(&failed, "db-1", at);
        assert_eq!(asked["metadata"]["annotations"][ANNOTATION_RETRY], at.to_string());
        assert_eq!(request(&group("secondary", "db-0", json!([])), "db-1", at)["metadata"], Value::Null);
        failed.annotations_mut().insert(ANNOTATION_RETRY.into(), at.to_string());
        let before = failed.clone();
        assert_eq!(progress(&failed, "db-1", &before).unwrap(), Progress::Waits(String::new()));
        failed.status.as_mut().unwrap().record = Some(json!({"clearedRetry": at.to_string()}));
        assert!(progress(&failed, "db-1", &before).is_err());
    }
}
