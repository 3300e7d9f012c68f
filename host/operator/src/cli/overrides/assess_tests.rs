#![allow(clippy::unwrap_used, reason = "tests may")]
use super::*;
use crate::cli::example;
use serde_json::Value;
use tanist_api::validate::read_override;

/// A group of three that runs nowhere: db-0 led term 5 on a node that is gone, db-1 and db-2 followed in term 5 and 4.
fn lost_node(more: &Value) -> ReplicaGroup {
    let mut group = example(&json!({
        "spec": {"replicas": 3},
        "status": {
            "primaries": null, "columns": {"members": "0/3"},
            "members": [
                {"name": "db-0", "ordinal": 0, "phase": "missing", "role": "unknown"},
                {"name": "db-1", "ordinal": 1, "phase": "running", "role": "stopped", "podUID": "u1"},
                {"name": "db-2", "ordinal": 2, "phase": "running", "role": "stopped", "podUID": "u2"}
            ],
            "record": {
                "term": 5, "highWater": {"term": 5, "sequence": {"history": "a", "number": "12"}},
                "members": {
                    "db-0": {"term": 5, "primaryTerm": 5, "sequence": {"history": "a", "number": "12"}},
                    "db-1": {"term": 5}, "db-2": {"term": 4}
                }
            }
        }
    }));
    let mut value = serde_json::to_value(&group).unwrap();
    for (pointer, change) in more.as_object().into_iter().flatten() {
        *value.pointer_mut(pointer).unwrap() = change.clone();
    }
    group = serde_json::from_value(value).unwrap();
    group
}

fn known(text: &str) -> Position {
    tanist_core::data::read_sequence(text.as_bytes()).unwrap()
}

fn positions(db_1: &str, db_2: &str) -> Positions {
    let missing = Position::Unknown("its pod is missing".into());
    [("db-0".to_owned(), missing), ("db-1".into(), known(db_1)), ("db-2".into(), known(db_2))].into()
}

fn now() -> Timestamp {
    "2026-01-01T00:00:59Z".parse().unwrap()
}

fn assess_at(group: &ReplicaGroup, name: &str, positions: &Positions) -> Assessment {
    assess(group, name, positions, now()).unwrap()
}

#[test]
fn what_would_be_lost_is_shown_and_what_is_unknown_is_named() {
    let assessed = assess_at(&lost_node(&json!({})), "db-1", &positions("a:7", "a:10"));
    let expected = "\
shop/db: db-1 is to lead, after term 5.

MEMBER   ROLE      TERM   SEQUENCE   WOULD BE LOST
db-0     unknown   5      unknown    unknown: its pod is missing; when it was last read it held a:12, of which is lost what came after a:7 (5 ahead of db-1)
db-1     stopped   5      a:7        -
db-2     stopped   4      a:10       nothing

The group once held a:12 of term 5. Lost is what came after a:7 (5 ahead of db-1).
The data of the other members may be overwritten with that of db-1. Save first what you may need.
";
    assert_eq!(assessed.text(false), expected, "{}", assessed.text(false));
    assert_eq!(assessed.refusals, Vec::<String>::new());
    // The value has exactly the form that the operator reads.
    let read = read_override(&assessed.annotation).unwrap();
    assert_eq!((read.member.as_str(), read.position, read.term), ("db-1", known("a:7"), 5));
    assert_eq!(assessed.annotation, r#"{"member":"db-1","sequence":"a:7","term":5}"#);
}

// Term first, then the number inside one history (docs/rules.md, "Order of data").
#[test]
fn data_is_compared_as_the_operator_compares_it() {
    let own = known("a:7");
    let of = |term, other: &Position| lost("db-1", (Some(5), &own), (term, other), None);
    let said = |lost: Lost| match lost {
        Lost::Nothing => "nothing".to_owned(),
        Lost::Some(text) => format!("some: {text}"),
        Lost::Unknown(text) => text,
    };
    for (term, other, expected) in [
        (Some(5), "a:7", "nothing"),
        (Some(5), "a:6", "nothing"),
        (Some(5), "EMPTY", "nothing"),
        (Some(5), "a:10", "some: what came after a:7 (3 ahead of db-1)"),
        (Some(6), "a:1", "some: what was written in term 6 (db-1 counts as of term 5)"),
        (Some(4), "a:99", "nothing"),
        (Some(5), "b:1", "unknown: its history and that of db-1 cannot be compared"),
        (None, "a:9", "unknown: the group remembers only one of it and db-1"),
    ] {
        assert_eq!(said(of(term, &known(other))), expected, "{term:?} {other}");
    }
    let empty = lost("db-1", (Some(5), &Position::Empty), (Some(5), &known("3")), None);
    assert_eq!(said(empty), "some: all its data (db-1 holds none)");
    let adopted = lost("db-1", (None, &known("3")), (None, &known("5")), None);
    assert_eq!(said(adopted), "some: what came after 3 (2 ahead of db-1)");
}

#[test]
fn nothing_is_lost_when_all_is_known_and_no_member_has_more() {
    let group = lost_node(&json!({"/status/record/highWater": null}));
    let mut all = positions("a:12", "a:12");
    all.insert("db-0".into(), known("a:12"));
    let assessed = assess_at(&group, "db-1", &all);
    assert!(!assessed.loses() && assessed.text(false).ends_with("Nothing that is known would be lost.\n"));
    all.insert("db-0".into(), Position::NotAsked);
    assert!(assess_at(&group, "db-1", &all).loses(), "a member whose position is unknown may have more");
}

fn refused(more: &Value, name: &str, words: &str) {
    let assessed = assess_at(&lost_node(more), name, &positions("a:7", "a:10"));
    assert!(assessed.refusals.iter().any(|r| r.contains(words)), "{words}: {:?}", assessed.refusals);
}

#[test]
fn an_override_that_the_operator_would_refuse_is_refused_with_the_reason() {
    refused(&json!({}), "db-0", "the pod of db-0 is missing");
    refused(&json!({}), "db-0", "what db-0 holds is not known: its pod is missing; if you know it: --sequence");
    refused(&json!({"/status/members/1/role": "failed"}), "db-1", "the role of db-1 is failed");
    refused(
        &json!({"/status": {"primaries": ["db-2"], "members": [{"name": "db-1", "ordinal": 1, "phase": "running", "role": "secondary"}]}}),
        "db-1",
        "switchover db --to db-1",
    );
    refused(&json!({"/spec/replicas": 0}), "db-1", "spec.replicas is 0");
    let used = json!({"term": 5, "usedOverride": "{\"member\":\"db-1\",\"sequence\":\"a:7\",\"term\":5}"});
    refused(&json!({"/status/record": used}), "db-1", "used before");
    let waits = json!({"members": [{"name": "db-1", "ordinal": 1, "phase": "running", "role": "stopped"}],
        "awaiting": [{"reason": "MayBePrimary", "message": "db-0 may be primary: its node does not report", "member": "db-0"}]});
    refused(
        &json!({"/status": waits}),
        "db-1",
        "db-0 may be primary: its node does not report; no override lifts this",
    );
    let seed = json!({"term": 5, "intents": [{
        "token": "t", "command": "seed", "member": "db-2", "verb": "seed", "started": 1_767_225_600, "timeout": 60, "podUid": "u2",
        "container": "db", "containerId": "c", "generation": 2, "term": 5
    }]});
    refused(
        &json!({"/status/record": seed}),
        "db-1",
        "seed has been running on db-2 for 59s (seed, timeout 60s); wait for its end",
    );
}

#[test]
fn a_group_that_cannot_be_assessed_is_an_error() {
    let group = lost_node(&json!({}));
    let none = Positions::new();
    assert_eq!(
        assess(&group, "db-4", &none, now()).unwrap_err(),
        "no member db-4 in group shop/db; did you mean db-0?"
    );
    let newer = lost_node(&json!({"/status/record": {"term": 5, "unheardOf": 1}}));
    assert!(assess(&newer, "db-1", &none, now()).unwrap_err().contains("unheardOf"));
    assert!(assess(&example(&json!({"status": null})), "db-1", &none, now()).unwrap_err().contains("no operator"));
}

// The roles of a paused group are not read, and the override takes effect after the pause.
#[test]
fn what_delays_it_is_noted() {
    let noted = |more: &Value, words: &str| {
        let assessed = assess_at(&lost_node(more), "db-1", &positions("a:7", "a:10"));
        assert!(assessed.notes.iter().any(|n| n.contains(words)), "{words}: {:?}", assessed.notes);
        assessed
    };
    let paused = json!({"/spec/paused": true, "/status/members/1/role": "unknown"});
    assert_eq!(noted(&paused, "nothing happens until tanist resume db").refusals, Vec::<String>::new());
    let led = json!({"member": "db-0", "podUid": "u0", "container": "db", "containerId": "c", "grace": 30});
    noted(&json!({"/status/record": {"term": 5, "lastPrimaries": [led]}}), "db-0 was primary; the override waits");
    let over = json!({"member": "db-2", "podUid": "u2", "container": "db", "containerId": "c", "grace": 30});
    let group = lost_node(&json!({"/status/record": {"term": 5, "lastPrimaries": [over]}}));
    assert_eq!(assess_at(&group, "db-1", &positions("a:7", "a:7")).notes, Vec::<String>::new(), "it was seen stopped");
    noted(&json!({"/metadata/generation": 3}), "generation 2 of the spec, and not yet 3");
    let mut annotated = lost_node(&json!({}));
    annotated.annotations_mut().insert(ANNOTATION_OVERRIDE.into(), "old".into());
    assert!(
        assess_at(&annotated, "db-1", &positions("a:7", "a:7")).notes.iter().any(|n| n.contains("is replaced: old"))
    );
}

#[test]
fn what_matters_is_compared_before_the_write() {
    let (group, read) = (lost_node(&json!({})), positions("a:7", "a:10"));
    let shown = assess_at(&group, "db-1", &read);
    assert!(assess_at(&group, "db-1", &read).is_same_as(&shown));
    for change in [
        json!({"/status/record/term": 6}),
        json!({"/status/members/2/role": "secondary"}),
        json!({"/status/record/members": {}}),
        json!({"/spec/replicas": 0}),
    ] {
        assert!(!assess_at(&lost_node(&change), "db-1", &read).is_same_as(&shown), "{change}");
    }
}
