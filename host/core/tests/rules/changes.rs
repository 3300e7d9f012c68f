//! How changes of the members end, and what is shown of them.
use super::super::support::agreement::{Lie, Listed as Truth};
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::membership::agreeing;
use super::resize::{growing, intent};
use tanist_core::contract::{Position, Role};
use tanist_core::decide::decide;
use tanist_core::plan::Plan;
use tanist_core::record::{Started, Verb};
use tanist_core::snapshot::{Evidence, Snapshot};
use tanist_core::status::{Kind, PolicyHealth, report};

/// A world in which db-3 is being added by db-0, and the plan of the next round.
fn adding(evidence: Evidence, lists: &dyn Fn(&mut World)) -> (Snapshot, Plan) {
    let mut world = agreeing(3);
    (world.group.replicas, world.group.primaries) = (4, 4);
    world.set.as_mut().unwrap().replicas = 4;
    world.new_volume(3);
    world.new_pod(3);
    let s = world.observe();
    let open = intent(&s, Verb::MemberAdd, 0, 3);
    lists(&mut world);
    let mut s = world.observe();
    s.evidence.insert(open.token.clone(), evidence);
    s.record.intents.push(open);
    let plan = decide(&s, &Natural);
    (s, plan)
}

/// The open changes, and what was noted last.
fn settled((s, plan): &(Snapshot, Plan)) -> (usize, String) {
    let noted = plan.noted(&s.record).last().map(|t| t.what.clone()).unwrap_or_default();
    (plan.record.intents.iter().filter(|i| i.token == "t").count(), noted)
}

/// The application has added db-3, and everyone said so.
fn shows(world: &mut World) {
    world.agreement.members.insert("m9".into(), Truth { ordinal: 3, started: false, voter: true });
    (0..3).for_each(|ordinal| world.ask_for_list(ordinal));
}

// D15: a change that the record lost is awaited: the status was removed while it ran (simulator, seed 56009017). One that the record has is not taken for that, nor any other command.
#[test]
fn a_change_that_the_record_lost_is_awaited() {
    let begins = |token: Option<&str>, ordinal: usize| {
        let mut world = agreeing(3);
        (world.group.replicas, world.group.primaries) = (4, 4);
        world.set.as_mut().unwrap().replicas = 4;
        world.new_volume(3);
        world.new_pod(3);
        let mut s = world.observe();
        s.members[3].position = Position::Empty;
        s.members[ordinal].reading.running = token.map(str::to_owned);
        let plan = decide(&s, &Natural);
        let adds = plan.record.intents.iter().any(|intent| intent.verb == Verb::MemberAdd);
        (adds, plan.waits.iter().any(|wait| wait.message.contains("status.record does not have it")))
    };
    assert_eq!(begins(None, 1), (true, false));
    for token in ["member-add-3-n", "member-remove-3-n", "member-promote-3-n"] {
        assert_eq!(begins(Some(token), 1), (false, true), "{token}");
        assert_eq!(begins(Some(token), 0), (false, true), "{token}");
    }
    for token in ["before-update-3-n", "member-3-n", "member-added-3-n", "member-add", ""] {
        assert_eq!(begins(Some(token), 1), (true, false), "{token}");
    }
}

// S1, S4, S5: how a change ended the list shows; what is not known is awaited, and counted for the member that it is about.
#[test]
fn the_list_shows_how_a_change_ended() {
    let nothing: &dyn Fn(&mut World) = &|_| ();
    assert_eq!(settled(&adding(Evidence::Exited(0), &shows)), (0, "member-added".into()));
    assert_eq!(settled(&adding(Evidence::Exited(0), nothing)).0, 1, "the list does not show it yet");
    let failed = adding(Evidence::Exited(1), nothing);
    assert_eq!(settled(&failed), (0, "command-failed".into()));
    assert_eq!((failed.1.record.member(&db(3)).failures, failed.1.record.member(&db(0)).failures), (1, 0));
    assert!(failed.1.record.member(&db(0)).broken.is_none(), "who executed it is well");
    assert_eq!(settled(&adding(Evidence::Unknown("the stream broke".into()), nothing)).0, 1);
    assert_eq!(settled(&adding(Evidence::Unknown("the stream broke".into()), &shows)), (0, "member-added".into()));
    assert_eq!(settled(&adding(Evidence::Running, nothing)).0, 1);
    let ended = Evidence::Unknown(tanist_protocol::why::Word::Deadline.into());
    assert_eq!(settled(&adding(ended, nothing)), (0, "command-failed".into()));
    assert_eq!(settled(&adding(Evidence::Interrupted, nothing)), (0, "command-failed".into()));
    // Nobody can say a list any more: the exit code counts.
    let silent: &dyn Fn(&mut World) = &|world| {
        for ordinal in 0..3 {
            world.agreement.lies.insert(ordinal, Lie::Fails);
            world.ask_for_list(ordinal);
        }
    };
    let added = adding(Evidence::Exited(0), silent);
    assert_eq!(settled(&added), (0, "member-added".into()));
    let known = added.1.record.membership.as_ref().unwrap().of(&db(3)).cloned().unwrap();
    assert!(!known.started && known.voter);
}

// D20: the list shows that db-2 was removed. Its identity is over: neither the volume on which it was started nor a start of it is remembered.
#[test]
fn a_removed_identity_leaves_nothing_behind() {
    let mut s = agreeing(3).observe();
    (s.group.replicas, s.group.primaries) = (2, 2);
    let open = intent(&s, Verb::MemberRemove, 0, 2);
    s.members[2].reading.role = Role::Stopped;
    s.lists.remove(&db(2));
    s.lists.values_mut().for_each(|heard| heard.list.as_mut().unwrap().entries.retain(|e| e.name != Some(db(2))));
    let started = Started { term: 1, target: false, before: Position::Empty, followed: false, peer_stopped: false };
    s.record.member_mut(&db(2)).started = Some(started);
    assert!(s.record.member(&db(2)).claim_uid.is_some());
    s.evidence.insert(open.token.clone(), Evidence::Exited(0));
    s.record.intents.push(open);
    let plan = decide(&s, &Natural);
    let known = plan.record.member(&db(2));
    assert_eq!((known.started.is_some(), known.claim_uid.is_some()), (false, false), "{:?}", plan.record.history);
}

// D4, D5: the condition says whether members are changed, and how far it is.
#[test]
fn the_condition_says_how_far_it_is() {
    let said = |s: &Snapshot| {
        let plan = decide(s, &Natural);
        let all = report(s, &plan, &PolicyHealth::Active(String::new()), None).conditions;
        let found = all.into_iter().find(|c| c.kind == Kind::Rescaling);
        found.map(|c| format!("{} {}: {}", c.status.as_str(), c.reason.as_str(), c.message))
    };
    let s = growing(3);
    assert_eq!(said(&s).as_deref(), Some("True ScalingUp: 3 of 4 members, adding db-3"));
    let mut down = s.clone();
    (down.group.replicas, down.group.primaries) = (2, 2);
    assert_eq!(said(&down).as_deref(), Some("True ScalingDown: 3 of 2 members, removing db-2"));
    let mut lost = agreeing(3).observe();
    assert_eq!(said(&lost).as_deref(), Some("False ReplicasMatchSpec: 3 of 3 members"));
    (lost.members[2].reading.role, lost.members[2].position) = (Role::Stopped, Position::Empty);
    assert_eq!(said(&lost).as_deref(), Some("True Repairing: 3 of 3 members, removing db-2, whose volume is empty"));
    let mut split = agreeing(3).observe();
    split.lists.get_mut(&db(1)).unwrap().list.as_mut().unwrap().cluster = "another".into();
    assert!(said(&split).unwrap().starts_with("Unknown MembersUnknown"));
    let mut silent = agreeing(3).observe();
    silent.lists.values_mut().for_each(|heard| heard.list = Err("exit code 1".into()));
    let unread =
        "Unknown MembersUnknown: 3 of 3 members by the last list; the list of db-0 cannot be read: exit code 1";
    assert_eq!(said(&silent).as_deref(), Some(unread));
    let mut plain = agreeing(3).observe();
    plain.group.commands.membership = None;
    assert_eq!(said(&plain), None);
}

// D9: one alone adds a second member, and the command fails. It may have worked before it failed: then nobody can say a list before the second one runs, so it is remembered.
#[test]
fn an_add_by_one_alone_that_failed_may_have_worked() {
    let remembered = |evidence: Evidence| {
        let mut s = growing(3);
        let open = intent(&s, Verb::MemberAdd, 0, 1);
        s.record.membership.as_mut().unwrap().members.retain(|listed| listed.member == Some(db(0)));
        s.lists.clear();
        s.evidence.insert(open.token.clone(), evidence);
        s.record.intents.push(open);
        decide(&s, &Natural).record.membership.unwrap().of(&db(1)).is_some()
    };
    assert!(remembered(Evidence::Exited(1)));
    assert!(remembered(Evidence::Interrupted));
    assert!(!remembered(Evidence::NotStarted(tanist_protocol::why::Word::Void.into())), "it never ran");
}
