//! With `spec.scaling.volumes: Wipe` the data of a member that leaves is removed from its volume before its pod goes (D20): no policy can break these rules.
use super::super::support::policies::Natural;
use super::super::support::setting::command;
use super::super::support::{db, sequence};
use super::membership::agreeing_of;
use super::resize::{age, intent};
use tanist_core::check::{self, Rule};
use tanist_core::checked::recheck;
use tanist_core::contract::{Failure, Outcome, Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::limits;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::record::{Event, Intent, Verb};
use tanist_core::snapshot::{ClaimMark, Evidence, Snapshot};

/// Three serve; db-3 leaves, was removed from the application and stopped, and has data.
fn leaving() -> Snapshot {
    let mut world = agreeing_of(4, 4);
    let mut s = world.observe();
    s.group.replicas = 3;
    (s.group.primaries, s.group.requested.replicas, s.group.requested.primaries) = (3, 3, 3);
    s.group.wipes_volumes = true;
    s.group.commands.membership.as_mut().unwrap().wipe = Some(command("wipe"));
    s.lists.remove(&db(3));
    for heard in s.lists.values_mut() {
        heard.list.as_mut().unwrap().entries.retain(|entry| entry.name != Some(db(3)));
    }
    if let Some(known) = &mut s.record.membership {
        known.members.retain(|listed| listed.member != Some(db(3)));
    }
    let member = &mut s.members[3];
    member.reading.role = Role::Stopped;
    (member.position, member.position_stale) = (Position::Known(sequence("9")), false);
    s.record.last_primaries.retain(|last| last.member != db(3));
    s.record.member_mut(&db(3)).primary_term = None;
    s.record.member_mut(&db(3)).ran = None;
    let (group, term, primaries, ran) = (s.group.name.clone(), s.record.term, Vec::new(), Vec::new());
    let mark = ClaimMark { group, term, sequence: None, primaries, ran, membership: None, version: None };
    s.members[3].claims.iter_mut().for_each(|claim| claim.mark = Some(mark.clone()));
    s
}

fn held(change: impl FnOnce(&mut Snapshot)) -> Result<(), Rule> {
    let mut s = leaving();
    change(&mut s);
    check::wipe_member(&s, &s.members[3]).map_err(|violation| violation.rule)
}

fn wipes(plan: &Plan) -> Option<&Intent> {
    plan.actions.iter().find_map(|action| match action {
        Action::Run { intent, .. } if intent.verb == Verb::Wipe => Some(intent),
        _ => None,
    })
}

fn shrinks(plan: &Plan) -> bool {
    plan.actions.iter().any(|action| matches!(action, Action::Scale { .. }))
}

#[test]
fn the_data_of_a_member_goes_before_its_pod() {
    let s = leaving();
    let plan = decide(&s, &Natural);
    let intent = wipes(&plan).unwrap();
    assert_eq!((intent.member.as_str(), intent.command.as_str(), shrinks(&plan)), ("db-3", "wipe", false));
    assert!(recheck(&s, &s, intent).is_ok());
    assert_eq!(check::shrink_group(&s, 3).map_err(|violation| violation.rule), Err(Rule::NotWiped));
    // Its volume is empty, and was read since: it may go.
    let mut empty = s.clone();
    empty.members[3].position = Position::Empty;
    let plan = decide(&empty, &Natural);
    assert_eq!((wipes(&plan), shrinks(&plan)), (None, true));
    empty.members[3].position = Position::NotAsked;
    assert!(!shrinks(&decide(&empty, &Natural)), "it is read after the command");
    // What is kept goes as ever.
    let mut kept = s.clone();
    kept.group.wipes_volumes = false;
    let plan = decide(&kept, &Natural);
    assert_eq!((wipes(&plan), shrinks(&plan)), (None, true));
    // Nothing can run in its pod: it goes with its data.
    let mut gone = s;
    gone.members[3].pod = None;
    let plan = decide(&gone, &Natural);
    assert_eq!((wipes(&plan), shrinks(&plan)), (None, true));
}

#[test]
fn data_is_removed_only_of_a_member_that_a_majority_has_removed() {
    assert_eq!(held(|_| ()), Ok(()));
    assert_eq!(held(|s| s.group.wipes_volumes = false), Err(Rule::NotSurplus));
    assert_eq!(held(|s| s.group.replicas = 0), Err(Rule::NotSurplus), "on the way to 0 all data stays");
    assert_eq!(held(|s| s.group.replicas = 4), Err(Rule::NotSurplus), "it stays");
    assert_eq!(held(|s| s.members[3].position = Position::Empty), Err(Rule::NotSurplus));
    assert_eq!(held(|s| s.group.commands.membership.as_mut().unwrap().wipe = None), Err(Rule::NoCommand));
    assert_eq!(held(|s| s.members[3].reading.role = Role::Primary), Err(Rule::WrongRole));
    assert_eq!(held(|s| s.members[3].pod.as_mut().unwrap().phase = Phase::Unreachable), Err(Rule::NotSurplus));
    assert_eq!(held(|s| s.lists.clear()), Err(Rule::ListUnknown));
    assert_eq!(held(|s| s.lists.retain(|member, _| *member == db(0))), Err(Rule::ListUnknown));
    let open = |s: &mut Snapshot| s.record.intents.push(intent(s, Verb::MemberAdd, 0, 3));
    assert!(held(open).is_err());
    let listed = |s: &mut Snapshot| {
        let all = agreeing_of(4, 4).observe().lists;
        s.lists = all.into_iter().filter(|(member, _)| *member != db(3)).collect();
    };
    assert_eq!(held(listed), Err(Rule::StillListed));
    let led = |s: &mut Snapshot| {
        let last = agreeing_of(4, 4).observe().record.last_primaries;
        s.record.last_primaries = last;
        s.members[3].pod.as_mut().unwrap().uid = "another".into();
    };
    assert!(held(led).is_err(), "it may run elsewhere");
    let mut failed = leaving();
    failed.record.member_mut(&db(3)).retry_at = Some(failed.now + 30);
    let plan = decide(&failed, &Natural);
    assert_eq!((wipes(&plan), shrinks(&plan)), (None, false), "it is tried again later");
    let said = plan.waits.iter().find(|wait| wait.reason == Reason::ShrinkPending).unwrap();
    assert!(said.message.contains("with spec.scaling.volumes: Keep it leaves with it"), "{}", said.message);
    let mut old = leaving();
    age(&mut old, limits::LIST_CHANGE_SECONDS + 1);
    let plan = decide(&old, &Natural);
    assert_eq!((wipes(&plan), shrinks(&plan)), (None, false));
    assert!(plan.actions.iter().any(|action| matches!(action, Action::List { .. })), "the lists are read first");
}

// What is not known to be that of a member of this group, or may be all that is left of something, stays: as with `Delete`.
#[test]
fn what_may_be_needed_leaves_with_the_member() {
    let leaves = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = leaving();
        change(&mut s);
        let plan = decide(&s, &Natural);
        assert_eq!(check::wipe_member(&s, &s.members[3]).map_err(|violation| violation.rule), Err(Rule::NotSurplus));
        assert_eq!(wipes(&plan), None);
        shrinks(&plan)
    };
    let mark = |s: &mut Snapshot, change: fn(&mut ClaimMark)| {
        s.members[3].claims.iter_mut().for_each(|claim| change(claim.mark.as_mut().unwrap()));
    };
    assert!(leaves(&|s| s.record.recovered_term = Some(9)), "others were given up");
    assert!(leaves(&|s| s.members[3].claims.iter_mut().for_each(|claim| claim.mark = None)), "it never served");
    assert!(leaves(&|s| mark(s, |mark| mark.group = "another".into())));
    assert!(leaves(&|s| mark(s, |mark| mark.term = 9)), "it is ahead of the record");
    assert!(leaves(&|s| s.record.member_mut(&db(3)).term = None));
    let failed = |s: &mut Snapshot| {
        for _ in 0..limits::WIPE_TRIES {
            let failure = Failure { command: "wipe".into(), outcome: Outcome::Exited(1), at: s.now - 1000 };
            s.record.member_mut(&db(3)).record_failure(failure);
        }
    };
    assert!(leaves(&failed), "it cannot be done, and holds up nobody");
    // One that failed may have left a part of it, whatever the sequence says.
    let mut part = leaving();
    part.members[3].position = Position::Empty;
    let failure = Failure { command: "wipe".into(), outcome: Outcome::Unknown, at: part.now - 1000 };
    part.record.member_mut(&db(3)).record_failure(failure);
    assert!(wipes(&decide(&part, &Natural)).is_some());
}

// It exits 0, and `status` still says stopped: the sequence says whether all is gone. If not, that is a failure, with a pause after it.
#[test]
fn what_became_of_it_is_seen_on_the_volume() {
    let mut s = leaving();
    let plan = decide(&s, &Natural);
    let open = wipes(&plan).unwrap().clone();
    assert!(plan.record.member(&db(3)).ran.is_some(), "nothing is started on that volume before this is over");
    s.record = plan.record;
    s.evidence.insert(open.token.clone(), Evidence::Exited(0));
    s.members[3].position = Position::NotAsked;
    let plan = decide(&s, &Natural);
    assert!(plan.record.intents.is_empty() && !shrinks(&plan), "it is read first");
    s.record = plan.record;
    let is_told = |plan: &Plan| plan.record.history.iter().any(|past| Event::Wiped.is(&past.what));
    for position in [Position::Known(sequence("9")), Position::Unknown("it is damaged".into())] {
        s.members[3].position = position;
        let plan = decide(&s, &Natural);
        assert_eq!((wipes(&plan), shrinks(&plan), is_told(&plan)), (None, false, false));
        assert!(plan.record.member(&db(3)).retry_at > Some(s.now), "it is tried again later");
        let failed = plan.record.history.iter().filter_map(|past| past.detail.as_deref());
        assert!(failed.into_iter().any(|detail| detail == "wipe exited 0, and sequence is not EMPTY"));
    }
    s.members[3].position = Position::Empty;
    let plan = decide(&s, &Natural);
    assert_eq!((wipes(&plan), shrinks(&plan), is_told(&plan)), (None, true, true));
    s.record.retired.insert(db(3));
    let plan = decide(&s, &Natural);
    assert_eq!((shrinks(&plan), is_told(&plan)), (true, false), "it is said once");
}

// One that fails, or whose end nobody knows, is no success.
#[test]
fn what_did_not_end_well_is_tried_again() {
    let mut s = leaving();
    let open = wipes(&decide(&s, &Natural)).unwrap().clone();
    s.record.intents.push(open.clone());
    for evidence in [Evidence::Exited(1), Evidence::Unknown("the deadline ended it".into())] {
        s.evidence.insert(open.token.clone(), evidence.clone());
        let plan = decide(&s, &Natural);
        assert!(!shrinks(&plan) && wipes(&plan).is_none(), "{evidence:?}");
    }
    // Its pod is gone: nobody knows how far it came.
    s.evidence.clear();
    s.members[3].pod = None;
    let plan = decide(&s, &Natural);
    assert!(plan.record.member(&db(3)).last_failure.as_ref().is_some_and(|failure| failure.command == "wipe"));
}
