//! Which actions of a round depend on others: one that fails stops what needs it, and nothing else.
use tanist_core::examples::usual;
use tanist_core::order::{Missing, Need, spoils, suspends};
use tanist_core::plan::{Action, DeletionCause};
use tanist_core::policy::Point;
use tanist_core::record::{Intent, Verb};
use tanist_core::snapshot::Object;

fn route(member: &str) -> Action {
    Action::Route { member: member.into(), pod_uid: "u".into(), role: None, ready: false, version: None }
}

fn run(member: &str) -> Action {
    let intent = Intent {
        token: "t".into(),
        verb: Verb::Place,
        command: "secondary".into(),
        member: member.into(),
        target: None,
        pod_uid: "u".into(),
        container: "db".into(),
        container_id: "c".into(),
        generation: 1,
        started: usual(Point::Place).0.observed().now,
        timeout: 60,
        term: 1,
        again: false,
        exited: None,
        version: None,
        had_role: false,
    };
    Action::Run { intent, argv: vec!["secondary".into()], env: Vec::new(), needs_state: false }
}

fn delete() -> Action {
    let cause = DeletionCause::Failure;
    Action::DeletePod { member: "db-1".into(), pod_uid: "u".into(), cause, reason: "it failed".into() }
}

fn apply(kind: &str) -> Action {
    let manifest = serde_json::Value::Null.into();
    Action::Apply(Object { kind: kind.into(), name: "db".into(), manifest, current: false, version: None, trial: None })
}

/// Which of these actions are left out while that is missing: those that a failure concerns, by their place.
fn stopped(missing: Option<Need>) -> Vec<&'static str> {
    let mut now = Missing::default();
    now.add(missing);
    let all = [
        ("route db-1", route("db-1")),
        ("run on db-1", run("db-1")),
        ("route db-2", route("db-2")),
        ("run on db-2", run("db-2")),
        ("delete", delete()),
        ("shrink", Action::Scale { replicas: 2 }),
        ("discard", Action::DeleteClaim { member: "db-1".into(), claim: "data-db-1".into(), uid: "u".into() }),
        ("apply", apply("Service")),
        ("read", Action::Read { member: "db-1".into(), pod_uid: "u".into() }),
        ("nudge", Action::Nudge { set_uid: "set".into() }),
        ("drop", Action::DropSet { uid: "set".into(), version: "1".into() }),
    ];
    all.iter().filter(|(_, action)| now.stops(action)).map(|(name, _)| *name).collect()
}

#[test]
fn what_fails_stops_what_needs_it() {
    assert_eq!(stopped(None), [""; 0]);
    assert_eq!(stopped(Some(Need::Record)), ["run on db-1", "run on db-2", "delete", "shrink", "discard"]);
    assert_eq!(stopped(spoils(&route("db-1"))), ["route db-1", "run on db-1"], "the others go on");
    assert_eq!(stopped(suspends(&apply("StatefulSet"))), ["shrink"], "an apply that lands late would undo it");
    assert_eq!(stopped(Some(Need::Decision)).len(), 11, "what was decided is outdated");
}

#[test]
fn an_object_that_is_refused_stops_nothing() {
    for harmless in
        [apply("StatefulSet"), apply("Service"), Action::Nudge { set_uid: "set".into() }, run("db-1"), delete()]
    {
        assert_eq!(spoils(&harmless), None, "{harmless:?}");
    }
    assert_eq!(suspends(&apply("Service")), None);
    assert_eq!(suspends(&Action::Scale { replicas: 1 }), None);
}
