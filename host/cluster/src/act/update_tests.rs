//! Pods that are deleted together for an update (`spec.update.batch`, B27): one second look, one record, and all of them or none.
use super::*;
use crate::clock::Clock;
use crate::stub::member;
use std::sync::atomic::{AtomicU64, Ordering};
use tanist_api::ANNOTATION_TEMPLATE;

/// The roles of the three members.
const WELL: [Role; 3] = [Primary, Secondary, Secondary];

/// Three members at rest, whose pods have an older template than the `StatefulSet`. Its controller has seen the new one.
async fn outdated() -> (Stub, Arc<Context>, Observed, Plan) {
    let stub = at_rest();
    stub.change(GROUP, |group| {
        group["spec"]["replicas"] = 3.into();
        group["spec"]["update"] = json!({"batch": "All"});
        group["status"]["record"]["lastReplicas"] = 3.into();
        let primary = json!({"term": 1, "primaryTerm": 1, "claimUid": "claim-0"});
        let secondary = |uid: &str| json!({"term": 1, "claimUid": uid});
        group["status"]["record"]["members"] =
            json!({"db-0": primary, "db-1": secondary("claim-1"), "db-2": secondary("claim-2")});
    });
    stub.set_object("/api/v1/nodes/n2", stub.get("/api/v1/nodes/n1").unwrap());
    stub.set_object(&pod(2), member(2));
    let conditions = stub.get(&pod(1)).unwrap()["status"]["conditions"].clone();
    stub.change(&pod(2), |pod| {
        pod["status"]["conditions"] = conditions;
        pod["metadata"]["labels"]["tanist.dev/role"] = "secondary".into();
    });
    for ordinal in 0..3 {
        stub.change(&pod(ordinal), |pod| {
            pod["metadata"]["labels"]["controller-revision-hash"] = "a".into();
        });
        stub.set_object(
            &format!("/api/v1/namespaces/ns/persistentvolumeclaims/data-db-{ordinal}"),
            json!({"metadata": {"namespace": "ns", "uid": format!("claim-{ordinal}"), "labels": {"tanist.dev/group": "db"}}, "status": {"phase": "Bound"}}),
        );
    }
    stub.change(SET, |set| set["spec"]["replicas"] = 3.into());
    template(&stub, "a", 1).await;
    stub.change(GROUP, |group| group["spec"]["template"]["spec"]["containers"][0]["image"] = "db:2".into());
    template(&stub, "b", 2).await;
    let ctx = stub.context();
    let mut observed = stub.observe(&ctx, &WELL).await;
    observed.snapshot.objects.clear();
    let mut plan = decide(&observed.snapshot, &Silent);
    // Beside them are only notes on claims.
    plan.actions.retain(|action| !matches!(action, Action::MarkClaim { .. }));
    stub.seen();
    (stub, ctx, observed, plan)
}

/// The `StatefulSet` gets the group's template as the revision, and its controller sees that.
async fn template(stub: &Stub, revision: &str, generation: i64) {
    let s = stub.observe(&stub.context(), &WELL).await.snapshot;
    let set = s.objects.iter().find(|o| o.kind == "StatefulSet").unwrap();
    let note = set.manifest["metadata"]["annotations"][ANNOTATION_TEMPLATE].clone();
    stub.change(SET, |live| {
        live["metadata"]["annotations"] = json!({ANNOTATION_TEMPLATE: note});
        live["metadata"]["generation"] = generation.into();
        live["status"] = json!({"observedGeneration": generation, "replicas": 3, "updateRevision": revision});
    });
}

/// What was written, but for the stored template.
fn written(stub: &Stub) -> Vec<String> {
    let paths = stub.written().into_iter().map(|(_, path, _)| path);
    paths.filter(|path| !path.starts_with("controllerrevisions/")).collect()
}

// The record took 1.5 s. Nothing goes on answers of before: each member is asked once more, and here none answers.
#[tokio::test]
async fn a_slow_record_is_followed_by_another_look_at_all() {
    let (stub, mut ctx, observed, plan) = outdated().await;
    super::ending::slow_write(&stub, &mut ctx, GROUP, |_| ());
    let outcome = carry_out(&ctx, &observed, &plan, &WELL).await;
    assert!(outcome.recorded, "{:?}", outcome.errors);
    let seen = stub.seen();
    let looks = seen.iter().filter(|s| s.method == Method::GET && s.path == GROUP).count();
    assert_eq!(looks, 2, "{seen:?}");
    assert!(!seen.iter().any(|s| s.method == Method::DELETE), "{seen:?}");
}

#[tokio::test]
async fn pods_that_go_together_get_one_second_look() {
    let (stub, ctx, observed, plan) = outdated().await;
    let names: Vec<_> = plan
        .actions
        .iter()
        .filter_map(|a| if let Action::DeletePod { member, .. } = a { Some(member.as_str()) } else { None })
        .collect();
    assert_eq!(names, ["db-2", "db-1"], "{:?} {:?}", plan.actions, plan.waits);
    let outcome = carry_out(&ctx, &observed, &plan, &WELL).await;
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    assert_eq!(outcome.done.len(), plan.actions.len());
    let seen = stub.seen();
    let looks = seen.iter().filter(|s| s.method == Method::GET && s.path == GROUP).count();
    assert_eq!(looks, 1, "one second look for both");
    let gone: Vec<_> = seen.iter().filter(|s| s.method == Method::DELETE).map(|s| s.path.clone()).collect();
    assert_eq!(gone.len(), 2, "{gone:?}");
    assert!(gone.contains(&pod(1)) && gone.contains(&pod(2)));
}

// Who goes is in the history before anybody goes, so a batch that no longer holds deletes nothing and writes nothing.
#[tokio::test]
async fn pods_that_go_together_go_all_or_none() {
    let (stub, ctx, observed, plan) = outdated().await;
    for roles in [[Primary, Role::Failed, Secondary], [Stopped, Secondary, Secondary]] {
        let outcome = carry_out(&ctx, &observed, &plan, &roles).await;
        assert!(outcome.errors.is_empty() && outcome.done.is_empty() && !outcome.recorded, "{:?}", outcome.errors);
        assert!(written(&stub).is_empty(), "{roles:?}");
    }
    stub.change(&pod(1), |pod| pod["metadata"]["uid"] = "another".into());
    let outcome = carry_out(&ctx, &observed, &plan, &WELL).await;
    assert!(outcome.errors.is_empty() && outcome.done.is_empty() && !outcome.recorded, "{:?}", outcome.errors);
    assert!(written(&stub).is_empty());
}

// Each member is asked for its role again: what it said a second ago is not enough.
#[tokio::test]
async fn every_member_is_asked_before_pods_go_together() {
    let (_, _, observed, plan) = outdated().await;
    let report = report::derive(&observed.snapshot, &plan, LOADED, &[]);
    let outcome = async |seconds: u64| {
        let (stub, ..) = outdated().await;
        let passed = Arc::new(AtomicU64::new(0));
        let clock = passed.clone();
        let mut ctx = Arc::into_inner(stub.context()).unwrap();
        ctx.clock = Arc::new(Clock::new(ctx.clock.now(), move || Duration::from_secs(clock.load(Ordering::Relaxed))));
        let ctx = Arc::new(ctx);
        remember_roles(&ctx, &observed, &WELL);
        passed.store(seconds, Ordering::Relaxed);
        let outcome = act(&ctx, &observed, &plan, &report).await;
        told(&outcome).len()
    };
    assert_eq!((outcome(0).await, outcome(1).await), (2, 0));
}

/// Whose deletion is told.
fn told(outcome: &Outcome) -> Vec<&str> {
    let done = outcome.done.iter();
    done.filter_map(|action| if let Action::DeletePod { member, .. } = action { Some(member.as_str()) } else { None })
        .collect()
}

// A pod whose status changed between the second look and its deletion is looked at once more, and goes if the rules still hold.
#[tokio::test]
async fn one_pod_that_changed_is_looked_at_once_more() {
    let (stub, ctx, observed, plan) = outdated().await;
    stub.answer(Method::DELETE, "db-2", Answer::Fail(409, "Conflict"));
    let outcome = carry_out(&ctx, &observed, &plan, &WELL).await;
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    assert_eq!(told(&outcome), ["db-2", "db-1"]);
    let seen = stub.seen();
    let looks = seen.iter().filter(|s| s.method == Method::GET && s.path == GROUP).count();
    assert_eq!(looks, 2, "one for both, and one more for db-2");
    assert!(stub.get(&pod(1)).is_none() && stub.get(&pod(2)).is_none());
}

// What becomes of the first of them hides nothing of the others.
#[tokio::test]
async fn a_deletion_that_fails_is_told_beside_those_that_were_done() {
    let (stub, ctx, observed, plan) = outdated().await;
    stub.answer(Method::DELETE, "db-2", Answer::Fail(403, "Forbidden"));
    let outcome = carry_out(&ctx, &observed, &plan, &WELL).await;
    assert_eq!((outcome.errors.len(), told(&outcome)), (1, vec!["db-1"]), "{:?}", outcome.errors);
    assert!(stub.get(&pod(1)).is_none() && stub.get(&pod(2)).is_some());
}
