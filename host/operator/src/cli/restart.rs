//! `tanist restart`: every member gets a new pod, one after the other, the primary last (docs/rules.md, "Update"). It is a change of the template, by the annotation that `kubectl rollout restart` sets.
use super::find::{change, find, observed};
use super::output::print;
use super::wait::{Progress, until_done};
use super::{Session, me};
use anyhow::bail;
use jiff::Timestamp;
use serde_json::json;
use tanist_api::ReplicaGroup;
use tanist_api::spec::Batch;
use tanist_api::view::View;

/// The annotation of the pod template that kubectl sets, too.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// Why nobody would be restarted. `None`: somebody would.
pub fn refusal(group: &ReplicaGroup) -> Option<String> {
    let (view, update) = (View::new(group), &group.spec.update);
    if let Err(why) = observed(&view) {
        return Some(why);
    }
    if view.replicas() == 0 {
        return Some("spec.replicas is 0, so there is nobody to restart".into());
    }
    if group.spec.paused {
        return Some(format!("the group is paused; first: {} resume {}", me(), view.short_name()));
    }
    if update.batch == Batch::None {
        return Some(
            "spec.update.batch is None: whoever wants a new pod deletes the old one, one after the other".into(),
        );
    }
    update.paused.then(|| "spec.update.paused is set, so no pod would be replaced before it is removed".into())
}

/// Asks for the restart and shows the progress until every member has its new pod and is in its role.
///
/// # Errors
/// Why it is refused, or what is still awaited after so many seconds.
pub async fn restart(session: &Session, name: &str, seconds: u64) -> anyhow::Result<()> {
    let groups = session.groups();
    if let Some(why) = refusal(&find(&groups, name).await?) {
        bail!("nothing was changed: {why}");
    }
    let annotations = json!({RESTARTED_AT: Timestamp::now().to_string()});
    let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    let generation = change(&groups, name, &patch).await?.metadata.generation;
    let overdue = format!("not every member was restarted after {seconds} s; it goes on all the same");
    let took = until_done(&groups, name, seconds, &overdue, |group| progress(group, generation)).await?;
    print(&format!("every member was restarted, after {:.1} s\n", took.as_secs_f64()))
}

/// It is done when every member has its new pod and is in its role, by a status about the new template.
///
/// # Errors
/// When the template failed, and nobody gets it any more.
pub fn progress(group: &ReplicaGroup, generation: Option<i64>) -> anyhow::Result<Progress> {
    let view = View::new(group);
    if view.observed_generation() < generation {
        return Ok(Progress::Waits(String::new()));
    }
    if let Some(wait) = view.wait("RolledBack").or_else(|| view.wait("CanaryFailed")) {
        bail!("{}", wait.message);
    }
    let updated = group.status.as_ref().map_or(0, |status| status.updated_replicas);
    // Policies may not have let in as many members as are asked for.
    let desired = view.replicas();
    let ready = view.condition("Ready");
    if updated >= desired && ready.is_some_and(|ready| ready.status == "True" || ready.reason == "NotAdmitted") {
        return Ok(Progress::Done);
    }
    let stuck = view.wait("UpdateStuck").or_else(|| view.waits().first());
    let why = stuck.map(|wait| format!(": {}", wait.message)).unwrap_or_default();
    Ok(Progress::Waits(format!("{updated} of {} members have their new pod{why}", desired)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use crate::cli::example;
    use crate::mock;
    use serde_json::Value;

    fn group(spec: &Value, updated: u32, ready: &str) -> ReplicaGroup {
        example(&json!({"spec": spec, "status": {
            "updatedReplicas": updated,
            "conditions": [{"type": "Ready", "status": ready, "reason": "x", "message": "", "lastTransitionTime": "2026-11-23T00:00:00Z"}]
        }}))
    }

    // A restart that would restart nobody is refused with what to do.
    #[test]
    fn a_restart_of_nobody_is_refused() {
        let refused = |spec: Value| refusal(&group(&spec, 0, "True")).unwrap_or_default();
        assert_eq!(refused(json!({})), "");
        assert!(refused(json!({"replicas": 0})).contains("nobody to restart"));
        assert!(refused(json!({"paused": true})).contains("resume db"));
        assert!(refused(json!({"update": {"batch": "None"}})).contains("batch is None"));
        assert!(refused(json!({"update": {"paused": true}})).contains("update.paused"));
        assert!(refusal(&example(&json!({"status": null}))).unwrap().contains("no operator"));
    }

    // It has ended when every member has its new pod and the group is Ready, by a status about the new template.
    #[test]
    fn it_ends_when_all_are_restarted_and_in_their_role() {
        let at = |updated, ready, generation| {
            progress(&group(&json!({"replicas": 2}), updated, ready), Some(generation)).unwrap()
        };
        let one = |of: u32| Progress::Waits(format!("{of} of 2 members have their new pod"));
        assert_eq!(at(2, "True", 2), Progress::Done);
        assert_eq!(at(2, "True", 3), Progress::Waits(String::new()), "this status is about an older template");
        assert_eq!((at(1, "True", 2), at(2, "False", 2)), (one(1), one(2)), "the last one is not in its role yet");
        for reason in ["RolledBack", "CanaryFailed"] {
            let waits = json!({"status": {"awaiting": [{"reason": reason, "message": "db-1 is not Ready"}]}});
            let said = progress(&example(&waits), Some(1)).unwrap_err().to_string();
            assert_eq!(said, "db-1 is not Ready", "nobody waits for a template that was given up");
        }
    }

    // P53: while policies do not let in as many members as are asked for, those that there are count.
    #[test]
    fn it_ends_with_the_members_that_policies_let_in() {
        let status = |updated: u32, reason: &str| {
            json!({"spec": {"replicas": 5}, "status": {
                "updatedReplicas": updated, "record": {"admitted": {"replicas": 2, "primaries": 1}},
                "conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": "", "lastTransitionTime": "2026-11-23T00:00:00Z"}]
            }})
        };
        let at = |updated, reason| progress(&example(&status(updated, reason)), Some(2)).unwrap();
        assert_eq!(at(2, "NotAdmitted"), Progress::Done);
        let one = Progress::Waits("1 of 2 members have their new pod".to_owned());
        assert_eq!(at(1, "NotAdmitted"), one);
        assert!(matches!(at(2, "MembersNotInRole"), Progress::Waits(_)));
        let none =
            json!({"spec": {"replicas": 5}, "status": {"record": {"admitted": {"replicas": 0, "primaries": 0}}}});
        assert!(refusal(&example(&none)).unwrap().contains("nobody to restart"));
    }

    // The template gets the annotation of kubectl, and nothing else changes.
    #[tokio::test]
    async fn the_annotation_of_kubectl_is_set() {
        let (client, requests) = mock::server(|method, _, _| match method == "PATCH" {
            true => mock::refusal(422, "Invalid", "no"),
            false => Some((200, serde_json::to_value(group(&json!({"replicas": 2}), 2, "True")).unwrap())),
        });
        assert!(restart(&Session::over(client, "shop"), "db", 1).await.is_err(), "the change is refused");
        let requests = requests.lock().unwrap();
        let patches: Vec<_> = requests.iter().filter(|h| h.0 == "PATCH").map(|h| h.2.clone()).collect();
        let keys: Vec<_> = patches.iter().filter_map(|p| p.pointer("/spec/template/metadata/annotations")).collect();
        assert_eq!(keys.len(), 1, "{patches:?}");
        assert!(keys.iter().all(|k| k.get(RESTARTED_AT).is_some_and(Value::is_string)), "{keys:?}");
        assert_eq!(patches[0].as_object().unwrap().len(), 1);
    }
}
