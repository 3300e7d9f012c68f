//! Tests of the status in its written form.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
use super::*;
use crate::stub::{GROUP, LOADED, Silent, Stub};
use serde_json::{Value, json};
use tanist_core::contract::MemberName;
use tanist_core::decide::decide;
use tanist_core::plan::Considered;
use tanist_core::policy::Point;
use tanist_core::record::LostPrimary;

/// The status after a round of the test group, whose members have these roles. `change` alters the plan first.
async fn written_status(stub: &Stub, roles: &[Role], change: impl FnOnce(&mut Plan)) -> Value {
    let ctx = stub.context();
    let observed = stub.observe(&ctx, roles).await;
    let mut plan = decide(&observed.snapshot, &Silent);
    change(&mut plan);
    let one = api::PolicyStatus {
        source: "builtin/sequence".into(),
        name: Some("sequence".into()),
        state: "Active".into(),
        ..Default::default()
    };
    let derived = derive(&observed.snapshot, &plan, Policies { status: &[one], ..LOADED }, &[]);
    let old = observed.object.status.clone().unwrap_or_default();
    serde_json::to_value(build(&observed.object, &plan, &derived, &old)).unwrap()
}

// Monitoring that counts degraded groups must not see one for each write that somebody else overtook.
#[test]
fn a_write_that_was_overtaken_is_no_trouble() {
    let overtaken = || Error::Overtaken("label db-1".into());
    assert!(trouble(&[overtaken(), Error::Outdated]).is_none());
    let both = trouble(&[overtaken(), Error::Silent("label db-1".into())]).unwrap();
    assert_eq!(
        (both.reason, both.message.as_str()),
        (Failed::ApiUnwritable, "failed to label db-1: no answer within 20 s")
    );
}

const SERVE: [Role; 2] = [Role::Primary, Role::Secondary];

fn decision_of(result: Standing) -> Decision {
    Decision {
        at: 60,
        point: Point::Failover,
        by: DecidedBy::NoCandidate,
        term: 1,
        chosen: Some("db-1".into()),
        reason: "data 7".into(),
        candidates: vec![Considered {
            member: MemberName::from("db-1"),
            result,
            reason: "data 7".into(),
            sequence: None,
        }],
        notes: vec![],
    }
}

// A40: a group may have 1000 members. A decision about all of them must not make the status larger than the API server stores: the chosen one is shown all the same, and how many are not.
#[test]
fn a_decision_about_many_members_shows_some_of_them() {
    let about = |members: usize, chosen: usize| {
        let member = |at: usize| MemberName::from(format!("db-{at}").as_str());
        let standing = |at: usize| if at == chosen { Standing::Chosen } else { Standing::PassedOver };
        let considered =
            |at| Considered { member: member(at), result: standing(at), reason: "data 7".into(), sequence: None };
        let candidates = (0..members).map(considered).collect();
        let asked = Decision { chosen: Some(member(chosen)), candidates, ..decision_of(Standing::Chosen) };
        let shown = decision(&asked, &ReplicaGroupStatus::default());
        let names: Vec<_> = shown.members.iter().map(|m| m.member.clone()).collect();
        (names.len(), names.last().cloned().unwrap(), shown.notes)
    };
    assert_eq!(about(64, 0), (64, "db-63".into(), vec![]));
    assert_eq!(about(1000, 700), (64, "db-700".into(), vec!["936 more members were considered".into()]));
    assert_eq!(about(1000, 3).1, "db-63");
}

// P17: what a policy notes for its author is in the status, and a note that differs each time causes no write.
#[test]
fn notes_are_shown_and_cause_no_write_by_themselves() {
    let noted = |at: i64, note: &str| {
        let notes = std::iter::repeat_n(format!("mine: {note}"), 9).collect();
        Decision { at, notes, ..decision_of(Standing::Chosen) }
    };
    let first = decision(&noted(60, "it is 60"), &ReplicaGroupStatus::default());
    assert_eq!(first.notes, vec!["mine: it is 60"; 8]);
    let old = ReplicaGroupStatus { decisions: vec![first.clone()], ..ReplicaGroupStatus::default() };
    assert_eq!(decision(&noted(70, "it is 70"), &old), first);
    let other = Decision { chosen: Some("db-2".into()), ..noted(70, "it is 70") };
    assert_eq!(decision(&other, &old).notes[0], "mine: it is 70");
}

#[tokio::test]
async fn programs_read_lists_and_numbers_and_users_read_columns() {
    let status = written_status(&Stub::new(), &SERVE, |_| {}).await;
    assert_eq!(status["primaries"], json!(["db-0"]));
    assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(2), &json!(2)));
    assert_eq!(status["columns"], json!({"primaries": "db-0", "members": "2/2", "policies": "sequence"}));
    let failed = written_status(&Stub::new(), &[Role::Failed, Role::Failed], |_| {}).await;
    assert_eq!((&failed["primaries"], &failed["readyReplicas"]), (&Value::Null, &json!(0)));
    assert_eq!(failed["columns"], json!({"members": "0/2", "policies": "sequence"}));
}

// The version of the data is what is remembered, and not what the spec asks for.
#[tokio::test]
async fn the_status_says_the_version_of_the_data() {
    let status = written_status(&Stub::new(), &SERVE, |plan| plan.record.version = Some("15".into())).await;
    assert_eq!(status["version"], "15");
    assert_eq!(written_status(&Stub::new(), &SERVE, |_| {}).await["version"], Value::Null);
}

// `kubectl describe` sorts fields by name: only short fields come after the record.
#[tokio::test]
async fn the_record_comes_late() {
    let wait = |plan: &mut Plan| {
        plan.wait(tanist_core::plan::Reason::PodsNotRunning, None, "the pod of db-1 is missing");
        plan.decisions.push(decision_of(Standing::Chosen));
    };
    let status = written_status(&Stub::new(), &SERVE, wait).await;
    let mut names: Vec<_> = status.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected = [
        "awaiting",
        "columns",
        "conditions",
        "decisions",
        "members",
        "observedGeneration",
        "policies",
        "primaries",
        "readyReplicas",
        "record",
        "replicas",
        "selector",
        "update",
        "updatedReplicas",
    ];
    assert_eq!(names, expected);
    assert!(status["awaiting"].as_array().unwrap().iter().any(|wait| wait["reason"] == "PodsNotRunning"));
}

#[tokio::test]
async fn words_of_the_api_are_camel_case() {
    let status = written_status(&Stub::new(), &SERVE, |_| {}).await;
    let of = |field: &str| -> Vec<_> {
        status["members"].as_array().unwrap().iter().map(|m| m[field].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((of("phase"), of("role")), (vec!["Running".into(); 2], vec!["Primary".to_owned(), "Secondary".into()]));
    assert_eq!(status["policies"][0]["state"], "Active");
    let camel = |word: &str| {
        let first = word.chars().next().is_some_and(char::is_uppercase);
        first && word.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let roles = [Role::Unknown, Role::Stopped, Role::Starting, Role::Secondary, Role::Primary, Role::Failed];
    let phases = [Phase::Missing, Phase::Pending, Phase::Running, Phase::Terminating, Phase::Ended, Phase::Unreachable];
    let words: BTreeSet<_> = roles.map(role_word).into_iter().chain(phases.map(phase_word)).collect();
    assert!(words.len() == 12 && words.iter().all(|word| camel(word)), "{words:?}");
    let words = [Standing::Chosen, Standing::Fallback, Standing::PassedOver, Standing::Barred]
        .map(|result| serde_json::to_value(decision(&decision_of(result), &ReplicaGroupStatus::default())).unwrap())
        .map(|said| said["members"][0]["result"].clone());
    assert_eq!(words, ["Chosen", "Fallback", "PassedOver", "Barred"]);
}

// Roll-back: the previous release reads every field whose name it knows, so such a field must keep its form. It cannot read a group whose
// `candidates` have a result that it does not know.
#[tokio::test]
async fn the_previous_release_reads_the_status() {
    let status =
        written_status(&Stub::new(), &SERVE, |plan| plan.decisions.push(decision_of(Standing::PassedOver))).await;
    let decision = &status["decisions"][0];
    assert_eq!((&decision["point"], &decision["chosen"]), (&json!("failover"), &json!("db-1")));
    assert!(decision.get("candidates").is_none() && status.get("lastDecision").is_none());
    for name in ["primary", "serving", "policy", "waiting"] {
        assert!(status.get(name).is_none(), "{name}");
    }
    assert!(status["members"][0]["role"].is_string() && status["policies"][0]["state"].is_string());
}

// Roll-back in the middle of an outage: what only policies want to know is beside the record, in which an older operator accepts no unknown field.
#[tokio::test]
async fn where_the_lost_primary_was_is_no_part_of_the_record() {
    let lost = LostPrimary { member: "db-0".into(), node: Some("n1".into()), zone: None };
    let status = written_status(&Stub::new(), &SERVE, |plan| plan.record.lost_primary = Some(lost)).await;
    assert_eq!(status["lostPrimary"], json!({"member": "db-0", "node": "n1"}));
    assert!(status["record"].is_object() && !status["record"].to_string().contains("lost"), "{}", status["record"]);
}

// Upgrade: the status of the previous release is read, and fields with a new form are computed anew.
#[tokio::test]
async fn the_status_of_the_previous_release_is_read() {
    let candidates = json!([{"member": "db-1", "result": "passed-over", "reason": "it lags"}]);
    let old = json!({
        "at": "2026-01-01T00:00:00Z", "point": "seed", "term": 1, "chosen": "db-0", "reason": "data 7", "candidates": candidates
    });
    let stub = Stub::new();
    stub.change(GROUP, |group| {
        let status = &mut group["status"];
        (status["primary"], status["serving"], status["policy"]) = (json!("db-0"), json!("2/2"), json!("sequence"));
        (status["lastDecision"], status["decisions"]) = (old.clone(), json!([old]));
        status["waiting"] = json!([{"reason": "MemberFailed", "message": "db-1 failed", "member": "db-1"}]);
        status["members"] = json!([{"name": "db-0", "ordinal": 0, "phase": "running", "role": "primary"}]);
        status["policies"] = json!([{"source": "file/mine.wasm", "state": "failed to read the policy file"}]);
    });
    let status = written_status(&stub, &SERVE, |_| {}).await;
    assert_eq!(status["decisions"][0]["chosen"], "db-0");
    assert_eq!((&status["primaries"], &status["members"][0]["role"]), (&json!(["db-0"]), &json!("Primary")));
}
