//! Objects that belong to somebody else, a template of which nothing can be made, and containers with other names, against an API server in memory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
use crate::observe::{Error, Observed, observe};
use crate::stub::{GROUP, SET, Stub, pod};
use serde_json::{Value, json};
use tanist_api::ReplicaGroup;
use tanist_core::check;
use tanist_core::contract::Phase;
use tanist_core::freshness::Ask;
use tanist_core::over;
use tanist_core::status::Failed;

async fn try_look(stub: &Stub) -> Result<Observed, Error> {
    let seen: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
    observe(&stub.context(), &seen, Ask::Recent, None).await
}

async fn look(stub: &Stub) -> Observed {
    try_look(stub).await.unwrap()
}

/// The names of the objects that are to be as desired, and what stays as it is.
fn objects(seen: &Observed) -> (Vec<&str>, Vec<String>) {
    let names = seen.snapshot.objects.iter().map(|object| object.name.as_str());
    (names.collect(), seen.unfit.iter().map(ToString::to_string).collect())
}

const SERVICE: &str = "/api/v1/namespaces/ns/services/db-rw";
const BUDGET: &str = "/apis/policy/v1/namespaces/ns/poddisruptionbudgets/db";

// Promise 4: a Service that somebody else made keeps its fields, and the group goes on without it. One that a group of before left behind, or that is the group's own, is as desired.
#[tokio::test]
async fn what_belongs_to_nobody_known_is_not_taken_over() {
    let stub = Stub::new();
    let made = |labels: Value, owners: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"labels": labels, "ownerReferences": owners}});
    assert_eq!(objects(&look(&stub).await), (vec!["db", "db-rw", "db-ro", "db", "db"], vec![]));
    stub.set_object(SERVICE, made(json!({"app": "shop"}), json!([])));
    let said = "Service db-rw exists and does not belong to this group; rename the group, or remove that object";
    let seen = look(&stub).await;
    assert_eq!(objects(&seen), (vec!["db", "db-ro", "db", "db"], vec![said.to_owned()]));
    assert_eq!(seen.unfit[0].reason(), Failed::NameTaken);
    let own = json!([{"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": "group", "controller": true}]);
    for (labels, owners) in [(json!({}), own), (json!({"tanist.dev/group": "db"}), json!([]))] {
        stub.set_object(SERVICE, made(labels, owners));
        assert_eq!(objects(&look(&stub).await).1, [""; 0]);
    }
    // Without the Service of its own name the operator makes no pods.
    assert!(!look(&stub).await.snapshot.set.as_ref().unwrap().unseen);
    stub.set_object("/api/v1/namespaces/ns/services/db", made(json!({}), json!([])));
    assert!(look(&stub).await.snapshot.set.as_ref().unwrap().unseen);
    stub.remove("/api/v1/namespaces/ns/services/db");
    stub.set_object(BUDGET, json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {}}));
    assert_eq!(objects(&look(&stub).await).0, ["db", "db-rw", "db-ro", "db"]);
}

// A group that was deleted with `--cascade=orphan` and created again goes on with its StatefulSet, which gets its owner. One that is not of this installation, or that somebody controls, is nobody's business, and the message says how its
// pods go on.
#[tokio::test]
async fn a_stateful_set_that_was_left_behind_is_taken_over() {
    let left = |labels: Value, installation: &str, owners: Value| {
        let stub = Stub::new();
        let notes = json!({"tanist.dev/installation": installation});
        stub.change(SET, |set| {
            let metadata = &mut set["metadata"];
            (metadata["labels"], metadata["annotations"], metadata["ownerReferences"]) = (labels, notes, owners);
        });
        stub
    };
    let own = || json!({"tanist.dev/group": "db"});
    let installation = Stub::new().context().settings.installation.clone();
    let stub = left(own(), &installation, json!([]));
    // As if it had been applied for this group before, and somebody took its owner away.
    let before = look(&stub).await.snapshot;
    let applied = before.objects.iter().find(|object| object.kind == "StatefulSet").unwrap();
    let hash = applied.manifest["metadata"]["annotations"]["tanist.dev/applied"].clone();
    assert!(hash.is_string(), "{}", applied.manifest["metadata"]);
    stub.change(SET, |set| set["metadata"]["annotations"]["tanist.dev/applied"] = hash);
    let seen = look(&stub).await;
    let set = seen.snapshot.objects.iter().find(|object| object.kind == "StatefulSet").unwrap();
    assert!(!set.current && set.version.is_some(), "it is applied over the version that was read");
    assert!(seen.snapshot.members.iter().all(|m| m.pod.as_ref().is_some_and(|pod| pod.stray.is_none())));

    let others = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "x", "controller": true}]);
    for stub in [
        left(json!({}), &installation, json!([])),
        left(own(), &installation, others),
        left(own(), "another", json!([])),
    ] {
        let said = try_look(&stub).await.unwrap_err();
        assert!(matches!(said, Error::NotOurs("StatefulSet", _)), "{said}");
        assert!(said.to_string().contains("kubectl delete statefulset db --cascade=orphan"), "{said}");
    }
}

// Promise 4, L-A: a template of which no object can be made stops no takeover: members are seen and asked, and their objects stay as they are.
#[tokio::test]
async fn a_template_of_which_nothing_can_be_made_holds_up_nothing_else() {
    let stub = Stub::new();
    stub.change(GROUP, |group| group["spec"]["template"]["spec"]["containers"][0]["env"] = json!({"A": "b"}));
    let seen = look(&stub).await;
    assert_eq!(seen.unfit.iter().map(Error::reason).collect::<Vec<_>>(), [Failed::TemplateInvalid]);
    let s = &seen.snapshot;
    assert!(s.objects.is_empty() && s.set.as_ref().unwrap().unseen);
    assert!(s.members.len() == 2 && s.members.iter().all(|m| s.reachable(m)), "{:?}", s.members);
}

// S13, S20: the container of the commands got another name, and the pods of before do not have it: whatever runs in them may be the application, in a role that nobody knows. So they are no pods in which nothing runs, and
// none is replaced for that.
#[tokio::test]
async fn a_pod_whose_container_has_another_name_runs() {
    let stub = Stub::new();
    for ordinal in 0..2 {
        stub.change(&pod(ordinal), |pod| {
            pod["spec"]["containers"][0]["name"] = "before".into();
            pod["status"]["containerStatuses"][0]["name"] = "before".into();
        });
    }
    let s = look(&stub).await.snapshot;
    for member in &s.members {
        assert_eq!(member.pod.as_ref().unwrap().phase, Phase::Running);
        assert!(over::may_run(&s, member) && check::update_idle(&s, member).is_err(), "{}", member.name);
        assert!(s.may_be_primary().contains_key(&member.name), "{}", member.name);
        let why = member.reading.detail.as_deref();
        assert_eq!(why, Some("its pod was made before the container of status had its name"));
    }
    // What has ended does not run, whatever its name.
    stub.change(&pod(0), |pod| pod["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 0}}));
    let s = look(&stub).await.snapshot;
    assert!(!over::may_run(&s, &s.members[0]) && s.members[0].pod.as_ref().unwrap().phase == Phase::Pending);
}
