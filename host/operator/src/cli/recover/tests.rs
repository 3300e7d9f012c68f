#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
use super::*;
use crate::cli::example;
use crate::mock;
use serde_json::Value;
use tanist_core::contract::Position;
use tanist_core::data::read_sequence;

/// A group of three whose members agree and of which only db-0 has its volume: it waits for a majority. The others are stopped on new volumes.
fn lost(more: &Value) -> Value {
    let command = |name: &str| json!({"exec": [name]});
    let member = |ordinal: u32, role: &str| json!({"name": format!("db-{ordinal}"), "ordinal": ordinal, "phase": "Running", "role": role, "podUID": format!("u{ordinal}")});
    let known = |claim: &str| json!({"term": 1, "claimUid": claim, "sequence": {"history": "a", "number": "12"}});
    let listed = |ordinal: u32| json!({"id": format!("m{ordinal}"), "member": format!("db-{ordinal}"), "started": true, "voter": true});
    let mut group = serde_json::to_value(example(&json!({
        "spec": {"replicas": 3, "primaries": "All", "commands": {
            "seed": command("e"), "memberList": command("l"), "memberAdd": command("a"), "memberRemove": command("r"), "recover": command("c")
        }},
        "status": {
            "primaries": null, "columns": {"members": "0/3"},
            "members": [member(0, "Starting"), member(1, "Stopped"), member(2, "Stopped")],
            "record": {
                "term": 1, "everSeeded": {"member": "db-0", "confirmed": true},
                "members": {"db-0": known("c0"), "db-1": known("c1"), "db-2": known("c2")},
                "membership": {"cluster": "a", "revision": 7, "members": [listed(0), listed(1), listed(2)]}
            }
        }
    })))
    .unwrap();
    for (pointer, change) in more.as_object().into_iter().flatten() {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        group.pointer_mut(parent).unwrap()[key] = change.clone();
    }
    group
}

/// The claims of these members, each with its UID.
fn pvcs(all: &[(&str, &str)]) -> Value {
    let claim = |(member, uid): &(&str, &str)| json!({"metadata": {"name": format!("data-{member}"), "uid": uid}});
    let items: Vec<_> = all.iter().map(claim).collect();
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaimList", "metadata": {}, "items": items})
}

const OWN: [(&str, &str); 3] = [("db-0", "c0"), ("db-1", "n1"), ("db-2", "n2")];

fn asked(from: &str, yes: bool) -> Recover {
    Recover { group: "db".into(), from: from.into(), claim: None, yes, timeout: 0 }
}

/// Runs the command as a user without a terminal.
async fn by_hand(client: kube::Client, asked: &Recover) -> anyhow::Result<()> {
    let session = Session::over(client, "shop");
    recover_with(&session, asked, || confirm(asked, None)).await
}

fn known(positions: &[(&str, &str)], claims: &[(&str, &str)]) -> Known {
    let position = |(name, text): &(&str, &str)| {
        let position = match text.strip_prefix("unknown ") {
            Some(why) => Position::Unknown(why.to_owned()),
            None => read_sequence(text.as_bytes()).unwrap(),
        };
        ((*name).to_owned(), position)
    };
    let claims = claims.iter().map(|(member, uid)| {
        let claim = json!({"metadata": {"name": format!("data-{member}"), "uid": uid}});
        let (_, claim) = convert::claim("db", &serde_json::from_value(claim).unwrap()).unwrap();
        ((*member).to_owned(), vec![claim])
    });
    Known {
        positions: positions.iter().map(position).collect(),
        claims: claims.collect(),
        now: "2026-01-03T00:00:00Z".parse().unwrap(),
    }
}

const HELD: [(&str, &str); 3] =
    [("db-0", "unknown its role is starting, so its data moves"), ("db-1", "EMPTY"), ("db-2", "EMPTY")];

fn told(change: &Value, asked: &Recover, known: &Known) -> Told {
    tell(&serde_json::from_value(lost(change)).unwrap(), asked, known).unwrap()
}

// D8: what is known of each member, and what will be lost, is said before anything is written.
#[test]
fn it_says_what_is_known_and_what_will_be_lost() {
    let said = told(&json!({}), &asked("db-0", true), &known(&HELD, &OWN));
    assert!(said.refusals.is_empty(), "{:?}", said.refusals);
    let wanted = "\
shop/db: db-0 is to go on alone of 3 voters (list 7 of the cluster a), with the data that it has.

db-0: it runs, its role is starting; what it holds is not known (its role is starting, so its data moves); when it was last read it held a:12; its volume is the one on which it was started (data-db-0).
db-1: it is stopped; it holds no data; its volume is another one (data-db-1); the one on which it was started is lost.
db-2: it is stopped; it holds no data; its volume is another one (data-db-2); the one on which it was started is lost.

Lost is all that db-0 does not have. Nobody can say more precisely what that is: the others may have agreed on writes that db-0 never received.
db-1, db-2 lose their identities and never come back as who they were. Their claims stay: data-db-1, data-db-2. One with data keeps its member out until you delete it (docs/runbook.md, KeptData): save first what you may need.
Note: db-0 is stopped first.
";
    assert_eq!(said.text(), wanted);
    let request =
        r#"{"asked":"2026-01-03T00:00:00Z","claim":"c0","cluster":"a","group":"group","list":7,"member":"db-0"}"#;
    assert_eq!(said.annotation, request);
    let held = [("db-0", "a:9"), ("db-1", "a:12"), ("db-2", "b:3")];
    let silent = json!({"/status/members/0/role": "Stopped", "/status/members/1/phase": "Unreachable"});
    let said = told(&silent, &asked("db-0", true), &known(&held, &[("db-0", "c0"), ("db-1", "c1")])).text();
    for line in [
        "db-0: it is stopped; it holds a:9; its volume is the one on which it was started (data-db-0).",
        "db-1: its node does not report, so it may run; it holds a:12; its volume is the one on which it was started (data-db-1).",
        "db-2: it is stopped; it holds b:3; its claim is gone, and its volume is lost.",
        "db-1 holds a:12, which is 3 ahead of db-0: that is lost.",
        "db-2 holds b:3, which cannot be compared with a:9: that is lost.",
        "Note: db-1 is on a node that does not report; nothing is started until it is proven that it runs there no more",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
}

// D8: what the operator would refuse is not written.
#[test]
fn what_the_operator_would_refuse_is_said_before() {
    let refused = |change: Value, from: &str, claims: &[(&str, &str)], held: &[(&str, &str)]| {
        told(&change, &asked(from, true), &known(held, claims)).refusals.join("; ")
    };
    let plain = |change: Value| refused(change, "db-0", &OWN, &HELD);
    assert_eq!(plain(json!({})), "");
    let serves = json!({"/status/members/1/role": "Primary", "/status/members/2/role": "Secondary"});
    assert_eq!(plain(serves.clone()), "members serve (db-1, db-2), so there is nothing to recover");
    let mut apart = serves;
    apart["/status/awaiting"] = json!([{"reason": "SplitBrain", "message": "two clusters"}]);
    assert_eq!(plain(apart), "", "an administrator decides between two clusters");
    assert!(plain(json!({"/spec/replicas": 0})).contains("spec.replicas is 0"));
    assert!(plain(json!({"/spec/commands/recover": null})).contains("spec.commands.recover is not there"));
    assert!(refused(json!({}), "db-1", &OWN, &HELD).contains("db-1 does not have the claim on which it was started"));
    assert!(refused(json!({}), "db-1", &OWN, &HELD).contains("db-1 holds no data"));
    assert!(refused(json!({}), "db-0", &[], &HELD).contains("db-0 has no claim"));
    let unformed = json!({"/status/record/membership": null, "/status/record/everSeeded": null});
    assert!(plain(unformed).contains("was never formed"));
    let group: ReplicaGroup = serde_json::from_value(lost(&json!({}))).unwrap();
    let missing = tell(&group, &asked("bd-0", true), &known(&HELD, &OWN)).unwrap_err();
    assert!(missing.contains("did you mean db-0?"), "{missing}");
}

// D8: after a restore the claim is another one; then people name it, and not by mistake.
#[test]
fn a_restored_claim_is_named() {
    let named = |claim: &str| {
        let asked = Recover { claim: Some(claim.into()), ..asked("db-1", true) };
        told(&json!({}), &asked, &known(&[("db-1", "a:5")], &OWN))
    };
    assert_eq!(named("n7").refusals, ["the claim of db-1 has the UID n1, and not n7"]);
    let said = named("n1");
    assert!(said.refusals.is_empty() && said.annotation.contains(r#""restored":true"#), "{said:?}");
    assert!(said.text().contains("because you name it"));
}

/// Changes the group as the operator does when the member serves alone.
fn done(group: &mut Value) {
    let raw = group["metadata"]["annotations"][ANNOTATION_RECOVER].clone();
    group["status"]["record"]["recovery"] = json!({"request": raw, "member": "db-0", "stage": "done"});
    group["status"]["record"]["term"] = json!(2);
    group["status"]["primaries"] = json!(["db-0"]);
}

// The write carries the UID and the version of what was shown, and the annotation as the operator reads it.
#[tokio::test]
async fn the_request_is_written_onto_what_was_shown() {
    let mut group = lost(&json!({}));
    let (client, requests) = mock::server(move |method, path, body| {
        if path.contains("/exec?") {
            return mock::refusal(403, "Forbidden", "no");
        }
        if path.contains("persistentvolumeclaims") {
            return Some((200, pvcs(&OWN)));
        }
        if method == "PATCH" {
            group["metadata"]["annotations"] = body["metadata"]["annotations"].clone();
            done(&mut group);
        }
        Some((200, group.clone()))
    });
    by_hand(client, &asked("db-0", true)).await.unwrap();
    let requests = requests.lock().unwrap();
    let writes: Vec<_> =
        requests.iter().filter(|(method, path, _)| method == "PATCH" && !path.contains("/exec?")).collect();
    assert_eq!(writes.len(), 1);
    let metadata = &writes[0].2["metadata"];
    assert_eq!((&metadata["uid"], &metadata["resourceVersion"]), (&json!("group"), &json!("9")));
    let read = read_recovery(metadata["annotations"][ANNOTATION_RECOVER].as_str().unwrap()).unwrap();
    assert_eq!((read.member.as_str(), read.claim.as_str(), read.list, read.restored), ("db-0", "c0", 7, false));
    assert!(requests.iter().any(|(_, path, _)| path.contains("labelSelector=tanist.dev%2Fgroup%3Ddb")), "{requests:?}");
}

// A list or a claim that changed while the administrator thought is another situation.
#[tokio::test]
async fn what_changed_meanwhile_is_not_written() {
    for (change, later) in [
        (json!({"/status/record/membership/revision": 8}), OWN),
        (json!({"/metadata/uid": "another"}), OWN),
        (json!({"/status/members/0/role": "Primary"}), OWN),
        (json!({}), [("db-0", "n0"), ("db-1", "n1"), ("db-2", "n2")]),
    ] {
        let (first, then) = (lost(&json!({})), lost(&change));
        let (mut groups, mut claims) = (0, 0);
        let (client, requests) = mock::server(move |_, path, _| {
            if path.contains("/exec?") {
                return mock::refusal(403, "Forbidden", "no");
            }
            if path.contains("persistentvolumeclaims") {
                claims += 1;
                return Some((200, pvcs(if claims == 1 { &OWN } else { &later })));
            }
            groups += 1;
            Some((200, if groups == 1 { first.clone() } else { then.clone() }))
        });
        let ended = by_hand(client, &asked("db-0", true)).await.unwrap_err().to_string();
        assert!(ended.contains("has changed since it was shown"), "{change}: {ended}");
        assert!(requests.lock().unwrap().iter().all(|h| h.0 != "PATCH"), "{change}");
    }
}

// Without the member's name nothing is written.
#[tokio::test]
async fn nothing_is_written_without_the_name() {
    let (client, requests) = mock::server(move |_, path, _| match path {
        path if path.contains("/exec?") => mock::refusal(403, "Forbidden", "no"),
        path if path.contains("persistentvolumeclaims") => Some((200, pvcs(&OWN))),
        _ => Some((200, lost(&json!({})))),
    });
    let ended = by_hand(client, &asked("db-0", false)).await.unwrap_err().to_string();
    assert!(ended.contains("to go on without being asked: --yes"), "{ended}");
    assert!(requests.lock().unwrap().iter().all(|h| h.0 != "PATCH"));
    let typed = |mut answer: &[u8]| confirm(&asked("db-0", false), Some(&mut answer)).is_ok();
    assert!(typed(b"db-0\n") && typed(b" db-0 \n"));
    assert!(!typed(b"y\n") && !typed(b"yes\n") && !typed(b"db-1\n") && !typed(b""));
    assert!(confirm(&asked("db-0", true), None).is_ok());
}

#[test]
fn the_end_is_distinguished_from_a_wait() {
    const RAW: &str = "asked";
    let of = |change: &dyn Fn(&mut Value), before: bool| {
        let mut group = lost(&json!({}));
        group["metadata"]["annotations"] = json!({ANNOTATION_RECOVER: RAW});
        change(&mut group);
        let group: ReplicaGroup = serde_json::from_value(group).unwrap();
        progress(&group, "db-0", RAW, before.then_some(group.status.as_ref()).flatten())
    };
    let waits = |reason: &'static str| {
        move |group: &mut Value| {
            group["status"]["awaiting"] =
                json!([{"reason": "MemberFailed", "message": "other"}, {"reason": reason, "message": "m"}]);
        }
    };
    assert_eq!(of(&done, false), Progress::Leads(2));
    let alone = |group: &mut Value| {
        done(group);
        group["status"]["primaries"] = json!([]);
    };
    assert_eq!(of(&alone, false), Progress::Waits(String::new()));
    assert_eq!(of(&waits("RecoverPending"), false), Progress::Waits("m".into()));
    let refused = Progress::Refused("the operator refuses it: m".into());
    assert_eq!(of(&waits("RecoverInvalid"), false), refused);
    assert_eq!(of(&waits("RecoverInvalid"), true), Progress::Waits(String::new()), "that message is about another one");
    let stage = |group: &mut Value| {
        group["status"]["record"]["recovery"] = json!({"request": RAW, "member": "db-0", "stage": "refused"});
    };
    assert_eq!(of(&stage, true), Progress::Refused("the operator refuses it: members serve".into()));
    let removed = |group: &mut Value| group["metadata"]["annotations"] = json!({});
    assert!(matches!(of(&removed, false), Progress::Refused(why) if why.contains("removed")));
}
