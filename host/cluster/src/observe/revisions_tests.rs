//! Which pods run the present template, and the template to which pods go back.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
use crate::context::Context;
use crate::objects::{hash_of, revision_name, template_hash};
use crate::observe::{Observed, observe};
use crate::stub::{Answer, GROUP, SET, Stub, pod};
use http::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use tanist_api::{ANNOTATION_CAUSE, ANNOTATION_CONFIG, ANNOTATION_TEMPLATE, ANNOTATION_VERSION, ReplicaGroup};
use tanist_core::freshness::Ask;
use tanist_core::snapshot::{Former, Snapshot};

/// A group that runs, whose pods are of the revision `a`.
fn stub() -> Stub {
    let stub = Stub::new();
    for ordinal in 0..2 {
        stub.change(&pod(ordinal), |pod| pod["metadata"]["labels"]["controller-revision-hash"] = "a".into());
    }
    controller(&stub, 1, "a");
    stub
}

/// Does what the StatefulSet's controller does: sets the observed generation and the newest revision.
fn controller(stub: &Stub, generation: i64, revision: &str) {
    let status = json!({"observedGeneration": generation, "replicas": 2, "updateRevision": revision});
    stub.change(SET, |set| set["status"] = status);
}

async fn look(stub: &Stub) -> Snapshot {
    let seen: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
    observe(&stub.context(), &seen, Ask::Recent, None).await.unwrap().snapshot
}

/// Applies the StatefulSet as the operator and the API server do.
fn apply(stub: &Stub, s: &Snapshot, generation: i64) {
    let set = s.objects.iter().find(|o| o.kind == "StatefulSet").unwrap();
    let annotations = set.manifest["metadata"]["annotations"].clone();
    stub.change(SET, |live| {
        live["metadata"]["annotations"] = annotations;
        live["metadata"]["generation"] = generation.into();
    });
}

fn older(s: &Snapshot) -> Vec<bool> {
    s.members.iter().map(|m| m.pod.as_ref().unwrap().older_template).collect()
}

fn image(stub: &Stub, image: &str) {
    stub.change(GROUP, |group| group["spec"]["template"]["spec"]["containers"][0]["image"] = image.into());
}

// Between the change and the first new pod, no pod ever counts as running the new template.
#[tokio::test]
async fn a_change_of_the_template_makes_all_pods_older_until_one_is_replaced() {
    let stub = stub();
    let first = look(&stub).await;
    assert_eq!(older(&first), [false, false]);
    apply(&stub, &first, 1);
    assert_eq!(older(&look(&stub).await), [false, false]);
    image(&stub, "db:2");
    let changed = look(&stub).await;
    assert_eq!(older(&changed), [true, true], "before anything is applied");
    apply(&stub, &changed, 2);
    assert_eq!(older(&look(&stub).await), [true, true], "before the StatefulSet's controller saw it");
    controller(&stub, 2, "b");
    assert_eq!(older(&look(&stub).await), [true, true]);
    stub.change(&pod(1), |pod| pod["metadata"]["labels"]["controller-revision-hash"] = "b".into());
    assert_eq!(older(&look(&stub).await), [true, false]);
}

// S40: the runner of a pod goes on with the `status` and `stop` that it was started with. When the user changes one of them the pod is older, once another pod would have the present ones. What another version of the operator
// makes otherwise restarts nobody.
#[tokio::test]
async fn a_pod_whose_runner_has_former_commands_is_older() {
    let stub = stub();
    let first = look(&stub).await;
    apply(&stub, &first, 1);
    let set = first.objects.iter().find(|o| o.kind == "StatefulSet").unwrap();
    let command = set.manifest["spec"]["template"]["spec"]["containers"][0]["command"].clone();
    for ordinal in 0..2 {
        stub.change(&pod(ordinal), |pod| pod["spec"]["containers"][0]["command"] = command.clone());
    }
    controller(&stub, 1, "b");
    assert_eq!(older(&look(&stub).await), [false, false], "of another version of the operator");
    controller(&stub, 1, "a");
    let changes: [fn(&mut Value); 5] = [
        |spec| spec["commands"]["status"]["exec"] = json!(["status", "$HOME"]),
        |spec| spec["commands"]["status"]["timeoutSeconds"] = json!(7),
        |spec| spec["commands"]["stop"]["exec"] = json!(["stop", "--fast"]),
        |spec| spec["commands"]["stop"]["timeoutSeconds"] = json!(77),
        |spec| spec["statusIntervalSeconds"] = json!(9),
    ];
    // An argument that looks like an option of the runner is none.
    stub.change(GROUP, |group| group["spec"]["commands"]["stop"]["exec"] = json!(["stop", "--stop-timeout", "30"]));
    let argued = look(&stub).await;
    let set = argued.objects.iter().find(|o| o.kind == "StatefulSet").unwrap();
    let command = set.manifest["spec"]["template"]["spec"]["containers"][0]["command"].clone();
    for ordinal in 0..2 {
        stub.change(&pod(ordinal), |pod| pod["spec"]["containers"][0]["command"] = command.clone());
    }
    controller(&stub, 1, "b");
    assert_eq!(older(&look(&stub).await), [false, false], "they have it");
    controller(&stub, 1, "a");
    let before = stub.get(GROUP).unwrap();
    for (at, change) in changes.into_iter().enumerate() {
        stub.change(GROUP, |group| change(&mut group["spec"]));
        assert_eq!(older(&look(&stub).await), [false, false], "{at}: before the StatefulSet's controller saw it");
        controller(&stub, 1, "b");
        assert_eq!(older(&look(&stub).await), [true, true], "{at}");
        stub.change(&pod(1), |pod| pod["metadata"]["labels"]["controller-revision-hash"] = "b".into());
        assert_eq!(older(&look(&stub).await), [true, false], "{at}: a pod of the newest revision has them");
        stub.change(&pod(1), |pod| pod["metadata"]["labels"]["controller-revision-hash"] = "a".into());
        controller(&stub, 1, "a");
        stub.change(GROUP, |group| group["spec"] = before["spec"].clone());
    }
    // What a runner of another version does not say is not compared.
    let silent: Vec<_> = command.as_array().unwrap().iter().take(4).cloned().collect();
    for ordinal in 0..2 {
        stub.change(&pod(ordinal), |pod| pod["spec"]["containers"][0]["command"] = json!(silent));
    }
    controller(&stub, 1, "b");
    assert_eq!(older(&look(&stub).await), [false, false]);
    for ordinal in 0..2 {
        stub.change(&pod(ordinal), |pod| pod["spec"]["containers"][0]["command"] = command.clone());
    }
    // With a canary they wait for the next pods.
    stub.change(GROUP, |group| {
        group["spec"]["statusIntervalSeconds"] = json!(9);
        group["spec"]["update"] = json!({"canarySeconds": 60});
    });
    assert_eq!(older(&look(&stub).await), [false, false]);
    stub.change(GROUP, |group| group["spec"]["update"] = json!({}));
    assert_eq!(older(&look(&stub).await), [true, true]);
    stub.change(GROUP, |group| group["spec"] = before["spec"].clone());
    // Other commands are handed over with each execution.
    stub.change(GROUP, |group| group["spec"]["commands"]["sequence"]["exec"] = json!(["sequence", "2"]));
    controller(&stub, 1, "b");
    assert_eq!(older(&look(&stub).await), [false, false]);
}

// The label of a pod is changed while the template changes twice: nobody sees it, and its revision is in no note then. It is older all the same (simulator, seed 80008072).
#[tokio::test]
async fn a_pod_that_was_not_seen_when_the_template_changed_is_older() {
    let stub = stub();
    let first = look(&stub).await;
    apply(&stub, &first, 1);
    image(&stub, "db:2");
    apply(&stub, &look(&stub).await, 2);
    controller(&stub, 2, "b");
    stub.change(&pod(0), |pod| pod["metadata"]["labels"]["controller-revision-hash"] = "in no note".into());
    assert_eq!(older(&look(&stub).await), [true, true]);
}

// The StatefulSet of the previous release has no note, and what another version of the operator adds to the template is no change by the user.
#[tokio::test]
async fn an_upgrade_of_the_operator_makes_no_pod_older() {
    let stub = stub();
    let first = look(&stub).await;
    apply(&stub, &first, 2);
    controller(&stub, 2, "b");
    let upgraded = look(&stub).await;
    assert_eq!(older(&upgraded), [false, false]);
    assert!(upgraded.members.iter().all(|m| m.pod.as_ref().unwrap().outdated));
    image(&stub, "db:2");
    assert_eq!(older(&look(&stub).await), [true, true]);
}

#[tokio::test]
async fn the_note_is_on_the_set_and_not_in_its_template() {
    let set = look(&stub()).await.objects.into_iter().find(|o| o.kind == "StatefulSet").unwrap();
    let note = &set.manifest["metadata"]["annotations"][ANNOTATION_TEMPLATE];
    assert!(note.as_str().is_some_and(|text| serde_json::from_str::<Value>(text).unwrap()["older"] == json!([])));
    assert!(!set.manifest["spec"]["template"].to_string().contains("older"));
}

// The template changed twice before anybody looked: a pod that the StatefulSet's controller made in between has a revision that no note names (simulator, seed 300003236).
#[tokio::test]
async fn a_pod_says_of_which_template_it_is() {
    let stub = stub();
    let said = |s: &Snapshot| {
        let set = s.objects.iter().find(|o| o.kind == "StatefulSet").unwrap();
        set.manifest["spec"]["template"]["metadata"]["annotations"][ANNOTATION_TEMPLATE].clone()
    };
    let first = look(&stub).await;
    assert_eq!(said(&first), Value::Null, "a release from before made these pods, and an upgrade changes no template");
    apply(&stub, &first, 2);
    image(&stub, "db:2");
    let changed = look(&stub).await;
    assert_eq!(said(&changed), hash(&stub));
    apply(&stub, &changed, 3);
    controller(&stub, 3, "b");
    for (ordinal, own) in [(0, hash(&stub)), (1, "of another template".to_owned())] {
        stub.change(&pod(ordinal), |pod| {
            pod["metadata"]["labels"]["controller-revision-hash"] = "unseen".into();
            pod["metadata"]["annotations"] = json!({ANNOTATION_TEMPLATE: own});
        });
    }
    assert_eq!(older(&look(&stub).await), [false, true]);
    stub.change(&pod(1), |pod| pod["metadata"]["labels"]["controller-revision-hash"] = "b".into());
    assert_eq!(older(&look(&stub).await), [false, false], "the next pod would be the same");
}

/// The image that the StatefulSet should have. `None`: it stays as it is.
fn desired_image(s: &Snapshot) -> Option<String> {
    let set = s.objects.iter().find(|o| o.kind == "StatefulSet")?;
    Some(set.manifest["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned())
}

fn hash(stub: &Stub) -> String {
    template_hash(&serde_json::from_value(stub.get(GROUP).unwrap()).unwrap())
}

/// A group whose template `db:2` was given up for `db:1`, the path under which that is kept, and the template itself.
fn given_up() -> (Stub, String, Value) {
    let stub = stub();
    let (good, template) = (hash(&stub), stub.get(GROUP).unwrap()["spec"]["template"].clone());
    let kept = format!("/apis/apps/v1/namespaces/ns/controllerrevisions/{}", revision_name("db", &good));
    image(&stub, "db:2");
    let failed = json!({"template": hash(&stub), "at": 1, "why": "db-1 is not Ready"});
    stub.change(GROUP, |group| {
        group["spec"]["update"] = json!({"onFailure": "RollBack"});
        group["status"]["record"]["fallback"] = json!({"good": good, "failed": failed});
    });
    (stub, kept, template)
}

fn keep(stub: &Stub, kept: &str, template: &Value, owner: &str) {
    let owner = json!([{"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": owner, "controller": true}]);
    let metadata = json!({"ownerReferences": owner, "annotations": {ANNOTATION_CAUSE: "the first"}});
    stub.set_object(kept, json!({"metadata": metadata, "data": {"spec": {"template": template}}}));
}

async fn observed(stub: &Stub, ctx: &Arc<Context>) -> Observed {
    let seen: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
    observe(ctx, &seen, Ask::Recent, None).await.unwrap()
}

// E35: after a template was given up the StatefulSet gets the one before, as it was kept, with its own reason. It is read once.
#[tokio::test]
async fn the_set_has_the_template_before_one_that_was_given_up() {
    let (stub, kept, template) = given_up();
    keep(&stub, &kept, &template, "group");
    let ctx = stub.context();
    let back = observed(&stub, &ctx).await;
    let s = &back.snapshot;
    assert_eq!(
        (desired_image(s).as_deref(), s.group.update.former, back.unreadable),
        (Some("db:1"), Former::Kept, None)
    );
    assert_eq!(s.group.update.template, hash(&stub), "the spec is the user's");
    stub.remove(&kept);
    assert_eq!(desired_image(&observed(&stub, &ctx).await.snapshot).as_deref(), Some("db:1"));
    // Another template is a new try.
    image(&stub, "db:3");
    assert_eq!(desired_image(&look(&stub).await).as_deref(), Some("db:3"));
}

// E38: the same after it failed on its canary, with `onFailure: Wait`; before that it is on its way.
#[tokio::test]
async fn the_set_has_the_template_before_one_that_failed_on_its_canary() {
    let desired_at = async |update: Value, verdict: Value, version: Value| {
        let (stub, kept, template) = given_up();
        keep(&stub, &kept, &template, "group");
        stub.change(GROUP, |group| group["spec"]["version"] = version.clone());
        let canary =
            json!({"template": hash(&stub), "member": "db-1", "podUid": "pod-1", "begun": 1, "verdict": verdict});
        stub.change(GROUP, |group| {
            group["spec"]["update"] = update.clone();
            group["status"]["record"]["fallback"]["failed"] = Value::Null;
            group["status"]["record"]["canary"] = canary.clone();
        });
        desired_image(&look(&stub).await)
    };
    let desired = async |update: Value, verdict: Value| desired_at(update, verdict, Value::Null).await;
    let failed = || json!({"failed": "its container was restarted"});
    let later = desired_at(json!({"canarySeconds": 60}), failed(), "2".into()).await;
    assert_eq!(later.as_deref(), Some("db:2"), "the data may be of that version by now");
    assert_eq!(desired(json!({"canarySeconds": 60}), failed()).await.as_deref(), Some("db:1"));
    assert_eq!(desired(json!({"canarySeconds": 60}), Value::Null).await.as_deref(), Some("db:2"));
    assert_eq!(desired(json!({}), failed()).await.as_deref(), Some("db:2"), "nobody is watched any more");
}

// E38, E10: what failed stays so when its ConfigMap cannot be read or counts no more: pods have the template before, and the StatefulSet the configuration of that one.
#[tokio::test]
async fn what_failed_is_known_without_its_configuration() {
    const SETTINGS: &str = "/api/v1/namespaces/ns/configmaps/settings";
    let desired = async |follows: bool, change: &dyn Fn(&Stub)| {
        let (stub, kept, template) = given_up();
        keep(&stub, &kept, &template, "group");
        stub.set_object(SETTINGS, json!({"metadata": {"name": "settings"}, "data": {"k": "1"}}));
        stub.change(GROUP, |group| {
            group["spec"]["update"]["onConfigChange"] = true.into();
            let container = &mut group["spec"]["template"]["spec"]["containers"][0];
            container["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
        });
        let tried = look(&stub).await;
        let set = tried.objects.iter().find(|o| o.kind == "StatefulSet").unwrap();
        let config = set.manifest["spec"]["template"]["metadata"]["annotations"][ANNOTATION_CONFIG].clone();
        assert!(config.is_string(), "it is a part of the template");
        let failed = tried.group.update.template;
        let own = format!("/apis/apps/v1/namespaces/ns/controllerrevisions/{}", revision_name("db", &failed));
        keep(&stub, &own, &stub.get(GROUP).unwrap()["spec"]["template"], "group");
        stub.change(&own, |own| own["metadata"]["annotations"][ANNOTATION_CONFIG] = config.clone());
        let record = |group: &mut Value| {
            group["status"]["record"]["fallback"]["failed"]["template"] = failed.clone().into();
        };
        stub.change(GROUP, record);
        change(&stub);
        let ctx = stub.context();
        if !follows {
            assert_eq!(desired_image(&observed(&stub, &ctx).await.snapshot).as_deref(), Some("db:1"));
            stub.change(GROUP, |group| group["spec"]["update"]["onConfigChange"] = false.into());
        }
        [desired_image(&observed(&stub, &ctx).await.snapshot), desired_image(&look(&stub).await)].map(Option::unwrap)
    };
    let gone = |stub: &Stub| stub.remove(SETTINGS);
    let unread = |stub: &Stub| stub.answer(Method::GET, SETTINGS, Answer::Fail(403, "Forbidden"));
    assert_eq!(desired(true, &|_| ()).await, ["db:1", "db:1"]);
    assert_eq!(desired(true, &gone).await, ["db:1", "db:1"], "also for an operator that has just started");
    assert_eq!(desired(true, &unread).await, ["db:1", "db:1"]);
    assert_eq!(
        desired(false, &|_| ()).await,
        ["db:1", "db:1"],
        "nobody tries it again because changes do not count any more"
    );
    let next = |stub: &Stub| {
        gone(stub);
        image(stub, "db:3");
    };
    assert_eq!(desired(true, &next).await, ["db:3", "db:3"], "another template is a new try");
    // And its configuration is not that of the one that failed.
    let (stub, _, template) = given_up();
    let failed = hash_of(&serde_json::from_value(template.clone()).unwrap(), Some("tried"), None);
    let own = format!("/apis/apps/v1/namespaces/ns/controllerrevisions/{}", revision_name("db", &failed));
    keep(&stub, &own, &template, "group");
    stub.change(GROUP, |group| group["status"]["record"]["fallback"]["failed"]["template"] = failed.clone().into());
    stub.change(&own, |own| own["metadata"]["annotations"][ANNOTATION_CONFIG] = "tried".into());
    let seen = look(&stub).await;
    let set = seen.objects.iter().find(|o| o.kind == "StatefulSet").unwrap();
    assert_eq!(set.manifest["spec"]["template"]["metadata"]["annotations"][ANNOTATION_CONFIG], Value::Null);
}

// E35: what is not kept any more, is another template, or makes no pods with the present commands, is nothing to go back to.
#[tokio::test]
async fn a_template_that_is_lost_is_nothing_to_go_back_to() {
    let lost = async |stub: &Stub| {
        let seen = observed(stub, &stub.context()).await;
        assert_eq!((seen.snapshot.group.update.former, seen.unreadable), (Former::Lost, None));
        assert_eq!(desired_image(&seen.snapshot).as_deref(), Some("db:2"), "a group goes on with its template");
    };
    let (stub, kept, template) = given_up();
    lost(&stub).await;
    // Pods could be made from it, and it is not the one that worked.
    let mut other = template.clone();
    other["spec"]["containers"][0]["image"] = "db:9".into();
    let wrong = [(other, "group"), (json!({"spec": {}}), "group"), (template.clone(), "another group")];
    for (template, owner) in wrong {
        keep(&stub, &kept, &template, owner);
        lost(&stub).await;
    }
    keep(&stub, &kept, &template, "group");
    stub.change(GROUP, |group| {
        let containers = group["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
        containers.push(json!({"name": "tools", "image": "tools:1"}));
        group["spec"]["commands"]["sequence"]["container"] = "tools".into();
        let failed = template_hash(&serde_json::from_value(group.clone()).unwrap());
        group["status"]["record"]["fallback"]["failed"]["template"] = failed.into();
    });
    lost(&stub).await;
}

// E10, E35: the configuration that a template had is stored nowhere, so a template that differs in nothing else is nothing to go back to.
#[tokio::test]
async fn nobody_goes_back_for_a_configuration() {
    let look = async |back_to: &str| {
        let (stub, _, template) = given_up();
        let with_old = hash_of(&serde_json::from_value(template.clone()).unwrap(), Some("old"), None);
        let kept = format!("/apis/apps/v1/namespaces/ns/controllerrevisions/{}", revision_name("db", &with_old));
        keep(&stub, &kept, &template, "group");
        stub.change(&kept, |kept| kept["metadata"]["annotations"][ANNOTATION_CONFIG] = "old".into());
        image(&stub, back_to);
        let failed = hash(&stub);
        stub.change(GROUP, |group| {
            group["status"]["record"]["fallback"]["good"] = with_old.into();
            group["status"]["record"]["fallback"]["failed"]["template"] = failed.into();
        });
        let seen = observed(&stub, &stub.context()).await.snapshot;
        let set = seen.objects.iter().find(|o| o.kind == "StatefulSet").unwrap();
        let config = set.manifest["spec"]["template"]["metadata"]["annotations"][ANNOTATION_CONFIG].as_str();
        (seen.group.update.former, config.map(str::to_owned))
    };
    assert_eq!(look("db:1").await, (Former::Lost, None));
    assert_eq!(look("db:2").await, (Former::Kept, Some("old".into())), "another template comes back with its own mark");
}

// A former template comes back with the version of the application that it had, and a template is another one with another version.
#[tokio::test]
async fn a_former_template_has_its_version() {
    let (stub, _, template) = given_up();
    let read = serde_json::from_value(template.clone()).unwrap();
    let of = |version: Option<&str>| hash_of(&read, None, version);
    assert_eq!(
        (of(Some("15")) == of(None), of(Some("15")) == of(Some("15.0")), of(Some("15")) == of(Some("17"))),
        (false, true, false)
    );
    let kept = format!("/apis/apps/v1/namespaces/ns/controllerrevisions/{}", revision_name("db", &of(Some("15"))));
    keep(&stub, &kept, &template, "group");
    stub.change(&kept, |kept| kept["metadata"]["annotations"][ANNOTATION_VERSION] = "15".into());
    image(&stub, "db:2");
    stub.change(GROUP, |group| group["spec"]["version"] = "17".into());
    let failed = hash(&stub);
    stub.change(GROUP, |group| {
        group["status"]["record"]["fallback"]["good"] = of(Some("15")).into();
        group["status"]["record"]["fallback"]["failed"]["template"] = failed.into();
    });
    let seen = observed(&stub, &stub.context()).await.snapshot;
    let set = seen.objects.iter().find(|o| o.kind == "StatefulSet").unwrap();
    let version = &set.manifest["spec"]["template"]["metadata"]["annotations"][ANNOTATION_VERSION];
    assert_eq!((seen.group.update.former, version), (Former::Kept, &json!("15")));
}

// E35: as long as it cannot be read nothing of the group is changed, and no pod counts as one that another template waits for. All else goes on.
#[tokio::test]
async fn while_it_cannot_be_read_objects_stay_as_they_are() {
    let (stub, kept, template) = given_up();
    keep(&stub, &kept, &template, "group");
    stub.answer(Method::GET, &kept, Answer::Fail(403, "Forbidden"));
    let seen = observed(&stub, &stub.context()).await;
    assert_eq!((seen.snapshot.group.update.former, seen.snapshot.objects), (Former::Unknown, Vec::new()));
    assert!(seen.unreadable.is_some());
}

// A StatefulSet that has not the wanted template yet says nothing of its pods: no pod of it is deleted for an update.
#[tokio::test]
async fn a_set_with_another_template_is_unseen() {
    let stub = stub();
    let first = look(&stub).await;
    apply(&stub, &first, 1);
    assert!(!look(&stub).await.set.unwrap().unseen);
    image(&stub, "db:2");
    assert!(look(&stub).await.set.unwrap().unseen);
}

// Without the right to list them templates have no numbers; that is said, and not tried again at once.
#[tokio::test]
async fn numbers_that_cannot_be_read_are_not_asked_for_again_at_once() {
    let stub = stub();
    stub.answer(Method::GET, "/controllerrevisions", Answer::Fail(403, "Forbidden"));
    let ctx = stub.context();
    assert!(observed(&stub, &ctx).await.unreadable.is_some());
    stub.seen();
    let second = observed(&stub, &ctx).await;
    assert!(second.unreadable.is_some() && second.template.is_none());
    assert!(stub.seen().iter().all(|request| !request.path.ends_with("/controllerrevisions")));
}

// P20: `spec.policyLabelKeys` is about the group and its members; a group that was stored with the former name goes on with it.
#[tokio::test]
async fn policies_see_the_named_labels_of_the_group_and_of_its_members() {
    for field in ["policyLabelKeys", "labels"] {
        let stub = stub();
        stub.change(GROUP, |group| {
            group["spec"][field] = json!(["rack", "tier"]);
            group["metadata"]["annotations"] = json!({"tier": "gold", "other": "x"});
        });
        stub.change(&pod(0), |pod| {
            pod["metadata"]["labels"]["rack"] = "r1".into();
            pod["metadata"]["annotations"] = json!({"policy.tanist.dev/rank": "7", "other": "x"});
        });
        let s = look(&stub).await;
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(s.group.labels, [pair("tier", "gold")], "{field}");
        assert_eq!(s.members[0].pod.as_ref().unwrap().labels, [pair("rack", "r1"), pair("rank", "7")], "{field}");
    }
}
