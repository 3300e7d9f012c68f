#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
use super::*;
use crate::cli::example;
use crate::mock;
use serde_json::Value;

/// Two members, both stopped, term 4.
fn stopped(more: &Value) -> Value {
    let mut group = serde_json::to_value(example(&json!({"status": {
        "primaries": null, "columns": {"members": "0/2"},
        "members": [
            {"name": "db-0", "ordinal": 0, "phase": "missing", "role": "unknown"},
            {"name": "db-1", "ordinal": 1, "phase": "running", "role": "stopped", "podUID": "u1"}
        ]
    }})))
    .unwrap();
    for (pointer, change) in more.as_object().into_iter().flatten() {
        *group.pointer_mut(pointer).unwrap() = change.clone();
    }
    group
}

const RAW: &str = r#"{"member":"db-1","sequence":"a:7","term":4}"#;

fn asked(yes: bool) -> Override {
    Override { group: "db".into(), member: "db-1".into(), sequence: Some("a:7".into()), yes, timeout: 0 }
}

/// Runs the command as a user without a terminal.
async fn by_hand(client: kube::Client, asked: &Override) -> anyhow::Result<()> {
    let session = Session::over(client, "shop");
    override_with(&session, asked, || confirm(asked.yes, None)).await
}

/// Changes the group as the operator does when it uses the override.
fn used(group: &mut Value) {
    group["metadata"]["annotations"] = json!({ANNOTATION_OVERRIDE: RAW});
    group["status"]["record"] = json!({"term": 5, "usedOverride": RAW});
    group["status"]["primaries"] = json!(["db-1"]);
}

// The write carries the UID and the version of what was shown, and the annotation as the operator reads it.
#[tokio::test]
async fn the_annotation_is_written_onto_what_was_shown() {
    let mut group = stopped(&json!({}));
    let (client, requests) = mock::server(move |method, path, _| {
        if path.contains("/exec?") {
            return mock::refusal(403, "Forbidden", "no");
        }
        if method == "PATCH" {
            used(&mut group);
        }
        Some((200, group.clone()))
    });
    by_hand(client, &asked(true)).await.unwrap();
    let requests = requests.lock().unwrap();
    let writes: Vec<_> =
        requests.iter().filter(|(method, path, _)| method != "GET" && !path.contains("/exec?")).collect();
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].2,
        json!({"metadata": {"uid": "group", "resourceVersion": "9", "annotations": {"tanist.dev/override": RAW}}})
    );
}

// A change of an unimportant field causes another attempt; a change of what was shown ends the command.
#[tokio::test]
async fn a_group_that_changed_meanwhile_is_not_overridden() {
    for (change, written, said) in [
        (json!({"/metadata/resourceVersion": "10"}), true, ""),
        (json!({"/status/record": {"term": 5}}), false, "has changed since it was shown"),
    ] {
        let (first, mut later) = (stopped(&json!({})), stopped(&change));
        let mut conflicts = 0;
        let (client, requests) = mock::server(move |method, path, _| {
            if path.contains("/exec?") {
                return mock::refusal(403, "Forbidden", "no");
            }
            if method != "PATCH" {
                return Some((200, if conflicts == 0 { first.clone() } else { later.clone() }));
            }
            conflicts += 1;
            if conflicts == 1 {
                return mock::refusal(409, "Conflict", "the object has been modified");
            }
            used(&mut later);
            Some((200, later.clone()))
        });
        let ended = by_hand(client, &asked(true)).await.map_err(|e| e.to_string());
        let requests = requests.lock().unwrap();
        let versions: Vec<_> =
            requests.iter().filter(|h| h.0 == "PATCH").map(|h| h.2["metadata"]["resourceVersion"].clone()).collect();
        assert_eq!(versions, if written { vec!["9", "10"] } else { vec!["9"] });
        assert!(ended.clone().err().unwrap_or_default().contains(said) && ended.is_ok() == written, "{ended:?}");
    }
}

// A role that is unknown for a moment, because the sequence is being read, is no refusal and no change; one that stays unknown is refused.
#[tokio::test(start_paused = true)]
async fn a_role_that_is_unknown_for_a_moment_is_awaited() {
    for (unknown, written) in [(1..=3, true), (2..=3, true), (1..=usize::MAX, false)] {
        let (mut group, mut looks) = (stopped(&json!({})), 0);
        let (client, requests) = mock::server(move |method, path, _| {
            if path.contains("/exec?") {
                return mock::refusal(403, "Forbidden", "no");
            }
            if method == "PATCH" {
                used(&mut group);
                return Some((200, group.clone()));
            }
            looks += 1;
            let mut seen = group.clone();
            if unknown.contains(&looks) {
                seen["status"]["members"][1]["role"] = json!("unknown");
            }
            Some((200, seen))
        });
        let ended = by_hand(client, &Override { timeout: 60, ..asked(true) }).await.map_err(|e| e.to_string());
        assert_eq!(requests.lock().unwrap().iter().filter(|h| h.0 == "PATCH").count(), usize::from(written));
        let said = ended.err().unwrap_or_default();
        assert!(said.is_empty() == written && (written || said.contains("the role of db-1 is unknown")), "{said}");
    }
}

// Without a known position or without confirmation nothing is written.
#[tokio::test]
async fn nothing_is_written_unless_it_is_known_and_confirmed() {
    for (asked, said) in [
        (
            Override { sequence: None, ..asked(true) },
            "what db-1 holds is not known: the API server answered forbidden (403): no",
        ),
        (Override { sequence: Some("-1".into()), ..asked(true) }, "write EMPTY or [HISTORY:]NUMBER"),
        (Override { member: "bd-1".into(), ..asked(true) }, "did you mean db-1?"),
        (asked(false), "to go on without being asked: --yes"),
    ] {
        let (client, requests) = mock::server(move |_, path, _| match path.contains("/exec?") {
            true => mock::refusal(403, "Forbidden", "no"),
            false => Some((200, stopped(&json!({})))),
        });
        let ended = by_hand(client, &asked).await.unwrap_err().to_string();
        assert!(ended.contains(said), "{ended}");
        assert!(requests.lock().unwrap().iter().all(|h| h.0 == "GET"), "{said}");
    }
}

#[test]
fn only_a_yes_is_a_yes() {
    let said = |mut answer: &[u8]| confirm(false, Some(&mut answer)).is_ok();
    assert!(said(b"y\n") && said(b"Yes\n"));
    assert!(!said(b"\n") && !said(b"n\n") && !said(b""));
    assert!(confirm(true, None).is_ok() && confirm(false, None).is_err());
}

#[test]
fn the_end_is_distinguished_from_a_wait() {
    let of = |change: &dyn Fn(&mut Value), before: bool| {
        let mut group = stopped(&json!({}));
        group["metadata"]["annotations"] = json!({ANNOTATION_OVERRIDE: RAW});
        change(&mut group);
        let group: ReplicaGroup = serde_json::from_value(group).unwrap();
        progress(&group, "db-1", RAW, before.then_some(group.status.as_ref()).flatten())
    };
    let waits = |reason: &'static str| {
        move |group: &mut Value| group["status"]["awaiting"] = json!([{"reason": reason, "message": "m"}])
    };
    assert_eq!(of(&used, false), Progress::Leads(5));
    let chosen = |group: &mut Value| {
        used(group);
        group["status"]["primaries"] = json!([]);
    };
    assert_eq!(of(&chosen, false), Progress::Used(String::new()));
    assert_eq!(of(&waits("PodsNotRunning"), false), Progress::Waits("m".into()));
    let refused = Progress::Refused("the operator refuses the override: m".into());
    assert_eq!(of(&waits("OverrideInvalid"), false), refused);
    assert_eq!(
        of(&waits("OverrideInvalid"), true),
        Progress::Waits(String::new()),
        "that message is about another override"
    );
    let removed = |group: &mut Value| group["metadata"]["annotations"] = json!({});
    assert!(matches!(of(&removed, false), Progress::Refused(why) if why.contains("removed")));
}

#[test]
fn an_override_that_stays_says_how_to_take_it_back() {
    let said = unfinished(false, &asked(true), "db-0 may be primary", "shop");
    assert!(said.starts_with("the override is not used after 0 s: db-0 may be primary; it stays"), "{said}");
    assert!(said.ends_with("kubectl annotate rg db -n shop tanist.dev/override-"), "{said}");
    assert!(
        unfinished(true, &asked(true), "", "shop").starts_with("db-1 was chosen and is not primary after 0 s; see")
    );
}
