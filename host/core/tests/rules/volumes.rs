//! The rules by which claims of removed members are deleted: no policy can break them.
use super::super::support::db;
use super::super::support::policies::Natural;
use super::membership::agreeing;
use super::resize::{age, ill, intent};
use tanist_core::check::{self, Rule};
use tanist_core::checked::recheck_discard;
use tanist_core::contract::Role;
use tanist_core::decide::decide;
use tanist_core::limits;
use tanist_core::memory;
use tanist_core::plan::{Action, Reason};
use tanist_core::record::Verb;
use tanist_core::snapshot::{Amount, Claim, ClaimMark, LeftClaim, Room, Snapshot};

fn claim(term: u64) -> Claim {
    let (primaries, ran) = (Vec::new(), Vec::new());
    let mark = ClaimMark { group: "db".into(), term, sequence: None, primaries, ran, membership: None, version: None };
    Claim {
        name: "data-db-3".into(),
        uid: "claim-3".into(),
        version: "7".into(),
        mark: Some(mark),
        start: None,
        room: None,
    }
}

/// Three serve; db-3 was removed and left a claim that the user wants deleted.
fn left() -> Snapshot {
    let mut s = agreeing(3).observe();
    s.group.deletes_volumes = true;
    s.record.retired.insert(db(3));
    s.left_claims = vec![LeftClaim { member: db(3), claim: claim(1), is_being_deleted: false }];
    s
}

fn broken(change: impl FnOnce(&mut Snapshot)) -> Option<Rule> {
    let mut s = left();
    change(&mut s);
    check::discard_claim(&s, &s.left_claims[0]).err().map(|violation| violation.rule)
}

// D20: a claim is deleted only if the user wants it, its member is gone for good, and a healthy majority said a moment ago that it is none.
#[test]
fn a_claim_is_deleted_of_a_member_that_a_majority_has_removed() {
    assert_eq!(broken(|_| {}), None);
    assert_eq!(broken(|s| s.group.deletes_volumes = false), Some(Rule::NotSurplus));
    assert_eq!(broken(|s| s.group.replicas = 0), Some(Rule::NotSurplus));
    assert_eq!(broken(|s| s.record.retired.clear()), Some(Rule::NotSurplus));
    assert_eq!(broken(|s| s.left_claims[0].is_being_deleted = true), Some(Rule::NotAtRest));
    let expected = |s: &mut Snapshot| {
        s.left_claims[0].member = db(2);
        s.record.retired.insert(db(2));
    };
    assert_eq!(broken(expected), Some(Rule::NotSurplus), "it was removed before, and is expected again");
    let adding = |s: &mut Snapshot| s.record.intents.push(intent(s, Verb::MemberAdd, 0, 3));
    assert_eq!(broken(adding), Some(Rule::MemberBusy));
    assert_eq!(broken(|s| s.lists.retain(|member, _| *member == db(0))), Some(Rule::ListUnknown));
    assert_eq!(broken(|s| s.lists.clear()), Some(Rule::ListUnknown));
    assert_eq!(broken(|s| age(s, limits::LIST_FRESH_SECONDS)), None);
    assert_eq!(broken(|s| age(s, limits::LIST_FRESH_SECONDS + 1)), Some(Rule::ListUnknown));
    let listed = |s: &mut Snapshot| {
        for heard in s.lists.values_mut() {
            heard.list.as_mut().unwrap().entries[2].name = Some(db(3));
        }
    };
    assert_eq!(broken(listed), Some(Rule::StillListed));
    let sick = |s: &mut Snapshot| {
        ill(s, 1);
        ill(s, 2);
    };
    assert_eq!(broken(sick), Some(Rule::QuorumAtRisk));
}

// D20: the step deletes what the rule allows, and asks for lists that are older than a moment before.
#[test]
fn lists_are_read_before_claims_are_deleted() {
    let deletes = |s: &Snapshot| {
        let plan = decide(s, &Natural);
        let found = plan.actions.iter().any(|a| matches!(a, Action::DeleteClaim { uid, .. } if uid == "claim-3"));
        (found, plan.waits.iter().any(|wait| wait.reason == Reason::ResizePending))
    };
    assert_eq!(deletes(&left()), (true, false));
    let mut old = left();
    age(&mut old, limits::LIST_CHANGE_SECONDS + 1);
    assert_eq!(deletes(&old), (false, true));
    let asked = decide(&old, &Natural).actions.iter().filter(|a| matches!(a, Action::List { .. })).count();
    assert_eq!(asked, 3);
    let mut kept = left();
    kept.group.deletes_volumes = false;
    assert_eq!(deletes(&kept), (false, false));
}

// D20, S6: the second look finds the same claim, and the rule holds still.
#[test]
fn the_second_look_finds_the_same_claim() {
    let decided = left();
    let again = |change: fn(&mut Snapshot)| {
        let mut live = left();
        change(&mut live);
        recheck_discard(&decided, &live, "claim-3").map_err(|violation| violation.rule)
    };
    let discard = again(|_| {}).unwrap();
    assert_eq!((discard.claim(), discard.uid(), discard.version()), ("data-db-3", "claim-3", "7"));
    assert_eq!(again(|s| s.left_claims[0].claim.uid = "another".into()), Err(Rule::TargetReplaced));
    assert_eq!(again(|s| s.left_claims.clear()), Err(Rule::TargetReplaced));
    assert_eq!(again(|s| s.group.deletes_volumes = false), Err(Rule::NotSurplus));
}

// D20, S7: only claims of members that this group removed in a term that it knows were left behind.
#[test]
fn claims_of_others_were_not_left_behind() {
    let s = left();
    let found = |term: u64, present: &[_], member, group: &str| {
        let mut claim = claim(term);
        claim.mark.as_mut().unwrap().group = group.into();
        memory::left(&s.record, "db", present, [(&member, &claim)]).len()
    };
    assert_eq!(found(1, &[], db(3), "db"), 1);
    assert_eq!(found(9, &[], db(3), "db"), 0, "of a later term than the record");
    assert_eq!(found(1, &[db(3)], db(3), "db"), 0, "it has a pod, or is expected");
    assert_eq!(found(1, &[], db(4), "db"), 0, "nobody removed it");
    assert_eq!(found(1, &[], db(3), "other"), 0, "of another group");
    let unused = Claim { mark: None, ..claim(1) };
    assert!(memory::left(&s.record, "db", &[], [(&db(3), &unused)]).is_empty(), "its member never served here");
}

fn amount(gib: u128) -> Amount {
    Amount { bytes: gib << 30, text: format!("{gib}Gi") }
}

/// Three serve; the claim of db-1 asks for so much, has so much, and is to have 4Gi.
fn growing(requested: u128, capacity: u128) -> Snapshot {
    let mut s = agreeing(3).observe();
    let (desired, requested, capacity) = (amount(4), amount(requested), amount(capacity));
    let room = Room { volume: "data".into(), desired, requested, capacity, note: None, is_refused: false };
    s.members[1].claims[0].room = Some(room);
    s
}

/// Whether the claim of db-1 is to ask for more, and what is said of it.
fn grown(s: &Snapshot) -> (bool, Option<(Reason, String)>) {
    let plan = decide(s, &Natural);
    let (claim, wait) = (&s.members[1].claims[0], plan.waits.into_iter().next_back());
    let same = |a: &Action| {
        matches!(a, Action::GrowClaim { member, claim: name, uid, version, size }
            if (member, name, uid, version, &**size) == (&db(1), &claim.name, &claim.uid, &claim.version, "4Gi"))
    };
    (plan.actions.iter().any(same), wait.map(|wait| (wait.reason, wait.message)))
}

// docs/rules.md, "Volumes": a claim asks for what the template says, never for less than it asked for, and how far it is is said until its volume has that.
#[test]
fn a_claim_grows_to_what_the_template_asks_for() {
    let said = |text: &str| Some((Reason::VolumesGrowing, format!("the volume data-db-1 of db-1 has {text}")));
    assert_eq!(grown(&growing(2, 2)), (true, said("2Gi of 4Gi")));
    assert_eq!(grown(&growing(4, 2)), (false, said("2Gi of 4Gi")));
    assert_eq!(grown(&growing(4, 4)), (false, None));
    assert_eq!(grown(&growing(8, 8)), (false, None), "an administrator made it larger");
    let mut noted = growing(4, 2);
    let room = noted.members[1].claims[0].room.as_mut().unwrap();
    room.note = Some("the node is slow".into());
    assert_eq!(grown(&noted), (false, said("2Gi of 4Gi: the node is slow")));
    noted.members[1].claims[0].room.as_mut().unwrap().is_refused = true;
    assert_eq!(grown(&noted).1.map(|(reason, _)| reason), Some(Reason::VolumeNotGrown));
    noted.group.paused = true;
    assert!(!grown(&noted).0);
}

// docs/rules.md, "Volumes": nobody waits for the storage: a member that failed is treated meanwhile.
#[test]
fn growing_volumes_hold_up_nothing() {
    let mut s = growing(2, 2);
    s.members[2].reading.role = Role::Failed;
    let others = |s: &Snapshot| {
        let actions = decide(s, &Natural).actions.into_iter();
        actions.filter(|a| !matches!(a, Action::GrowClaim { .. })).collect::<Vec<_>>()
    };
    let with = others(&s);
    s.members[1].claims[0].room = None;
    assert_eq!(with, others(&s));
    assert!(!with.is_empty());
}

// D20: a claim that Kubernetes is deleting stays while something uses it. It is not deleted again in every round, and the group says why it is there.
#[test]
fn a_claim_that_is_being_deleted_is_waited_for() {
    let mut s = left();
    let deletes = |plan: &tanist_core::plan::Plan| plan.actions.iter().any(|a| matches!(a, Action::DeleteClaim { .. }));
    assert!(deletes(&decide(&s, &Natural)));
    s.left_claims[0].is_being_deleted = true;
    let plan = decide(&s, &Natural);
    assert!(!deletes(&plan));
    let wait = plan.waits.iter().find(|wait| wait.reason == Reason::ResizePending).unwrap();
    assert!(wait.message.contains("is deleting the claim data-db-3 of db-3"), "{}", wait.message);
    // Nobody is asked for a list because of it.
    s.now += 10;
    assert!(!decide(&s, &Natural).actions.iter().any(|a| matches!(a, Action::List { .. })));
}
