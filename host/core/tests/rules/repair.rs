//! Members that agree: what keeps a group from its members, and what is done first then.
use super::super::support::policies::Natural;
use super::super::support::{db, sequence};
use super::membership::agreeing;
use super::resize::{all_stopped, claims_know, forget_starts, growing, one_stopped};
use tanist_core::check::{self, Rule};
use tanist_core::contract::{Position, Role};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Reason};
use tanist_core::record::{Started, Verb};
use tanist_core::snapshot::{Evidence, Group, Snapshot};

// D20: a volume with data on which the member was not started is an administrator's matter, and that is said; an empty one is not.
#[test]
fn a_copy_of_a_volume_is_shown() {
    let waits = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = one_stopped(3);
        change(&mut s);
        let plan = decide(&s, &Natural);
        let kept = plan.waits.into_iter().find(|wait| wait.reason == Reason::KeptData);
        kept.map(|wait| (wait.member, wait.message))
    };
    let copied = |s: &mut Snapshot| s.members[2].claims[0].uid = "another".into();
    let (member, message) = waits(&copied).unwrap();
    assert_eq!(member, Some(db(2)));
    assert!(message.starts_with("db-2 is not started: it was started on another volume"), "{message}");
    assert_eq!(waits(&|_| ()), None, "it starts");
    let empty = |s: &mut Snapshot| {
        copied(s);
        s.members[2].position = Position::Empty;
    };
    assert_eq!(waits(&empty), None, "it is removed and added anew");
    let leaves = |s: &mut Snapshot| {
        copied(s);
        (s.group.replicas, s.group.primaries) = (2, 2);
    };
    assert_eq!(waits(&leaves), None, "it is removed");
    let runs = |s: &mut Snapshot| {
        copied(s);
        s.members[2].reading.role = Role::Starting;
    };
    assert_eq!(waits(&runs), None, "it runs");
}

// D20: what keeps a member out may be what the majority lacks, so nobody is told to delete it while no majority is healthy.
#[test]
fn a_claim_is_given_up_only_while_a_healthy_majority_has_all_data() {
    let said = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = one_stopped(3);
        s.members[2].claims[0].uid = "another".into();
        change(&mut s);
        let waits = decide(&s, &Natural).waits.into_iter().filter(|wait| wait.member == Some(db(2)));
        let waits: Vec<_> = waits.map(|wait| (wait.reason, wait.message)).collect();
        let deleted = waits.iter().any(|(_, said)| said.contains("delete its claim"));
        let kept = waits.iter().any(|(_, said)| said.contains("keep its claim"));
        (waits.iter().any(|(reason, _)| *reason == Reason::KeptData), deleted, kept)
    };
    assert_eq!(said(&|_| ()), (true, true, false));
    assert_eq!(said(&|s| s.members[1].reading.role = Role::Starting), (false, false, true), "one of three is healthy");
}

// D20: nobody serves, and the last list that is known may be older than what the members did since.
#[test]
fn while_nobody_serves_every_claim_with_data_is_kept() {
    let said = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = all_stopped();
        change(&mut s);
        let waits = decide(&s, &Natural).waits;
        let own: Vec<_> = waits.into_iter().filter(|wait| wait.member == Some(db(2))).map(|w| w.message).collect();
        own.join("; ")
    };
    let asked_to_keep = |s: &str| s.contains("keep its claim") && !s.contains("delete");
    let stale = said(&|s| {
        let known = s.record.membership.as_mut().unwrap();
        known.members.iter_mut().filter(|m| m.member == Some(db(2))).for_each(|m| m.started = false);
    });
    assert!(asked_to_keep(&stale), "the list does not know its start yet: {stale}");
    let copied = said(&|s| s.members[2].claims[0].uid = "another".into());
    assert!(asked_to_keep(&copied), "a copy: {copied}");
    let empty = said(&|s| s.members[2].position = Position::Empty);
    assert!(!empty.contains("claim"), "nothing to keep: {empty}");
}

// D1, D21: db-2 leaves and is needed for a majority as long as db-0 is down, which lost its volume: so db-0 is repaired first.
#[test]
fn a_repair_does_not_wait_for_a_shrink_that_waits_for_it() {
    let mut world = agreeing(3);
    world.serve(0, Role::Stopped);
    let mut s = world.observe();
    s.members[0].position = Position::Empty;
    (s.group.replicas, s.group.primaries) = (2, 2);
    let removed = |s: &Snapshot| {
        let run = |action: &Action| match action {
            Action::Run { intent, .. } if intent.verb == Verb::MemberRemove => intent.target.clone(),
            _ => None,
        };
        decide(s, &Natural).actions.iter().find_map(run)
    };
    assert_eq!(removed(&s), Some(db(0)));
    s.members[0].reading.role = Role::Primary;
    s.members[0].position = Position::Known(sequence("9"));
    s.lists = agreeing(3).observe().lists;
    assert_eq!(removed(&s), Some(db(2)));
}

/// db-2 alone is a member, and leaves; db-0 is desired, and stopped on an empty volume.
fn only_one_that_leaves() -> Snapshot {
    let mut s = growing(3);
    for heard in s.lists.values_mut() {
        heard.list.as_mut().unwrap().entries.retain(|e| e.name == Some(db(2)));
    }
    s.lists.retain(|name, _| *name == db(2));
    for member in s.members.iter_mut().filter(|m| m.ordinal != 2) {
        member.reading.role = Role::Stopped;
        member.position = Position::Empty;
    }
    (s.group.replicas, s.group.primaries) = (1, 1);
    s
}

// D9, D14: the only member leaves, and one that stays is none yet: it is added first, for without it nobody would be left.
#[test]
fn who_stays_is_added_before_the_last_one_that_leaves_is_removed() {
    let s = only_one_that_leaves();
    let changes = |action: &Action| match action {
        Action::Run { intent, .. } if intent.verb.changes_members() => Some((intent.verb, intent.target.clone())),
        _ => None,
    };
    let first = decide(&s, &Natural).actions.iter().find_map(changes);
    assert_eq!(first, Some((Verb::MemberAdd, Some(db(0)))));
}

// A start without a primary is remembered until its member is over, and so is where it runs.
#[test]
fn where_a_member_was_started_again_is_remembered() {
    let plan = decide(&all_stopped(), &Natural);
    let ran: Vec<_> =
        plan.record.last_primaries.iter().map(|last| (last.member.clone(), last.node.is_some())).collect();
    assert_eq!(ran, [0, 1, 2].map(|ordinal| (db(ordinal), true)));
}

// D20: where nobody can leave and one that stays has kept its data, an administrator is asked.
#[test]
fn a_shrink_that_waits_for_kept_data_says_so() {
    let mut s = only_one_that_leaves();
    s.members[0].position = Position::Known(sequence("9"));
    let plan = decide(&s, &Natural);
    assert!(plan.waits.iter().any(|w| w.reason == Reason::KeptData && w.member == Some(db(0))), "{:?}", plan.waits);
}

/// db-2 was added and is listed without a name; its volume is another one than before. `begun`: a start was begun on the one before.
fn added_on_another_volume(position: Position, begun: bool) -> Snapshot {
    let mut s = one_stopped(3);
    for heard in s.lists.values_mut() {
        let entries = &mut heard.list.as_mut().unwrap().entries;
        let own = entries.iter_mut().filter(|e| e.name == Some(db(2)));
        own.for_each(|e| {
            e.address = "http://db-2.db".into();
            e.name = None;
        });
    }
    forget_starts(&mut s);
    s.members[2].position = position;
    s.members[2].claims[0].uid = "the next one".into();
    let known = s.record.member_mut(&db(2));
    known.claim_uid = Some("the first one".into());
    let start = Started { term: 1, target: false, before: Position::Empty, followed: false, peer_stopped: false };
    known.started = Some(start).filter(|_| begun);
    claims_know(&mut s);
    s
}

// D20: an identity begins on an empty volume. One whose start was begun elsewhere may have a vote there: it is removed and added anew. A volume with data is an administrator's matter.
#[test]
fn an_identity_begins_once_on_an_empty_volume() {
    let done = |position: Position, begun: bool| {
        let plan = decide(&added_on_another_volume(position, begun), &Natural);
        let verbs: Vec<_> = plan.record.intents.iter().map(|intent| intent.verb).collect();
        (verbs, plan.record.member(&db(2)).claim_uid.clone().unwrap())
    };
    assert_eq!(done(Position::Empty, false), (vec![Verb::Join], "the next one".into()), "no start was begun");
    assert_eq!(done(Position::Empty, true), (vec![Verb::MemberRemove], "the first one".into()));
    for begun in [false, true] {
        assert_eq!(done(Position::Known(sequence("9")), begun), (Vec::new(), "the first one".into()), "{begun}");
    }
}

// D20: what is remembered of an earlier identity of a member holds for no new one, also if nobody knows how its removal ended.
#[test]
fn a_new_identity_has_no_volume_and_no_start() {
    let mut s = added_on_another_volume(Position::Empty, true);
    s.lists.values_mut().for_each(|heard| heard.list.as_mut().unwrap().entries.retain(|e| e.name.is_some()));
    let record = decide(&s, &Natural).record;
    assert_eq!(record.intents.iter().map(|intent| intent.verb).collect::<Vec<_>>(), [Verb::MemberAdd]);
    let known = record.member(&db(2));
    assert_eq!((known.started.is_some(), known.claim_uid.is_some()), (false, false));
}

// D21, S32: the status was removed in the middle of a start, and its runner says that it goes on: its volume is not lost because it is still empty.
#[test]
fn a_volume_on_which_a_command_runs_is_not_lost() {
    let mut s = added_on_another_volume(Position::Empty, true);
    assert_eq!(decide(&s, &Natural).record.intents.len(), 1);
    s.members[2].reading.running = Some("join-7-1".into());
    assert_eq!(decide(&s, &Natural).record.intents.len(), 0);
}

// D20: a majority lists the member under another identity than before, which was not started: where the earlier one was started is forgotten.
#[test]
fn where_an_earlier_identity_was_started_is_forgotten() {
    let known = |before: Option<&str>| {
        let mut s = added_on_another_volume(Position::NotAsked, true);
        let listed = s.record.membership.as_mut().unwrap().members.iter_mut().find(|l| l.member == Some(db(2)));
        before.into_iter().zip(listed).for_each(|(id, listed)| listed.id = id.into());
        let known = decide(&s, &Natural).record.member(&db(2)).clone();
        (known.started.is_some(), known.claim_uid.is_some())
    };
    assert_eq!(known(None), (true, true), "the same");
    assert_eq!(known(Some("")), (true, true), "it was just added, and that is its first list");
    assert_eq!(known(Some("earlier")), (false, false));
}

// D1, D15: who was seen under an identity was started, also when a list that was read a moment before says otherwise.
#[test]
fn a_start_that_was_seen_is_not_forgotten_by_an_earlier_list() {
    let mut s = agreeing(3).observe();
    let id = s.record.membership.as_ref().unwrap().of(&db(2)).unwrap().id.clone();
    for heard in s.lists.values_mut() {
        let entries = &mut heard.list.as_mut().unwrap().entries;
        entries.iter_mut().filter(|e| e.id == id).for_each(|e| (e.name, e.address) = (None, "http://db-2.db".into()));
    }
    let started = |s: &Snapshot| decide(s, &Natural).record.membership.unwrap().of(&db(2)).unwrap().started;
    assert!(started(&s));
    let known = |s: &mut Snapshot, id: &str| {
        let listed = s.record.membership.as_mut().unwrap().members.iter_mut().find(|l| l.member == Some(db(2)));
        listed.unwrap().id = id.into();
    };
    known(&mut s, "");
    assert!(started(&s), "its identity was not known when it was started");
    known(&mut s, "another");
    assert!(!started(&s), "nobody has seen that identity");
}

// S32, D1: the status was removed, and one claim had lost its annotations. Who runs and is listed as started is a member.
#[test]
fn who_is_listed_and_runs_is_adopted() {
    let serves = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = agreeing(3).observe();
        s.record.members.remove(&db(2));
        change(&mut s);
        let term = s.record.term;
        decide(&s, &Natural).record.members.get(&db(2)).is_some_and(|known| known.term == Some(term))
    };
    assert!(serves(&|_| ()));
    let unlisted = |s: &mut Snapshot| {
        for heard in s.lists.values_mut() {
            heard.list.as_mut().unwrap().entries.retain(|e| e.name != Some(db(2)));
        }
    };
    assert!(!serves(&unlisted), "the application does not list it");
    assert!(
        !serves(&|s| drop(s.lists.remove(&db(2)))),
        "it may be in another cluster: it has not said who its members are"
    );
    assert!(!serves(&|s| s.lists.retain(|name, _| *name == db(2))), "it alone says so");
}

// D19, S32: the record was lost and the claims do not know of one that was just added. Without a majority that says who the members are none is let go.
#[test]
fn nobody_is_let_go_without_a_majority_that_says_so() {
    let rule = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = agreeing(3).observe();
        (s.group.replicas, s.group.primaries) = (2, 2);
        change(&mut s);
        check::is_let_go(&s, &s.members[2]).err().map(|violation| violation.rule)
    };
    let forget = |s: &mut Snapshot| {
        s.record.membership.as_mut().unwrap().members.retain(|listed| listed.member != Some(db(2)));
    };
    let unlisted = |s: &mut Snapshot| {
        forget(s);
        for heard in s.lists.values_mut() {
            heard.list.as_mut().unwrap().entries.retain(|e| e.name != Some(db(2)));
        }
        s.lists.remove(&db(2));
        s.members[2].reading.role = Role::Stopped;
    };
    assert_eq!(rule(&forget), Some(Rule::StillListed));
    assert_eq!(rule(&unlisted), None);
    let unsaid = |s: &mut Snapshot| {
        unlisted(s);
        s.lists.clear();
    };
    assert_eq!(rule(&unsaid), Some(Rule::ListUnknown));
    let unformed = |s: &mut Snapshot| {
        unsaid(s);
        (s.record.membership, s.record.ever_seeded) = (None, None);
    };
    assert_eq!(rule(&unformed), None);
    assert_eq!(rule(&|s| s.group.replicas = 0), None, "all stop, and stay members");
}

// D20: a volume that took the place of the one on which a member was started has not its identity, also if it is there before the start is confirmed.
#[test]
fn an_identity_stays_with_the_volume_on_which_its_member_was_started() {
    for verb in [Verb::Join, Verb::Place] {
        let mut s = one_stopped(if verb == Verb::Join { 3 } else { 1 });
        s.record.member_mut(&db(2)).claim_uid = None;
        let plan = decide(&s, &Natural);
        let begun = plan.record.intents.first().cloned().unwrap();
        let first = plan.record.member(&db(2)).claim_uid.clone();
        assert!((begun.verb, first.is_some()) == (verb, true), "{begun:?}");
        s.record = plan.record;
        s.evidence.insert(begun.token, Evidence::Exited(0));
        s.members[2].reading.role = begun.verb.intended();
        s.members[2].claims[0].uid = "the next one".into();
        let confirmed = decide(&s, &Natural).record;
        assert!(confirmed.intents.is_empty());
        assert_eq!(confirmed.member(&db(2)).claim_uid, first);
    }
}

// D25: the members are other than desired, and nothing changes among them for longer than the deadline. That is said, with what is waited for, until something changes or nothing is desired any more.
#[test]
fn a_change_of_the_members_that_takes_too_long_is_said() {
    let mut s = agreeing(3).observe();
    s.group.resize_deadline = 100;
    assert_eq!(decide(&s, &Natural).record.resizing, None, "they are those that are desired");
    s.members[2].reading.role = Role::Stopped;
    (s.group.replicas, s.group.primaries) = (2, 2);
    (s.group.requested.replicas, s.group.requested.primaries) = (2, 2);
    s.members[1].reading.role = Role::Starting;
    let begun = decide(&s, &Natural);
    assert_eq!(begun.record.resizing.as_ref().map(|resizing| (resizing.target, resizing.since)), Some((2, s.now)));
    let soon = Group { resize_deadline: 1, ..s.group.clone() };
    assert_eq!(decide(&Snapshot { group: soon, ..s.clone() }, &Natural).wake_at(), Some(s.now + 1));
    s.record.resizing = begun.record.resizing;
    let said = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = s.clone();
        change(&mut s);
        let waits = decide(&s, &Natural).waits.into_iter().find(|wait| wait.reason == Reason::ResizeOverdue);
        waits.map(|wait| wait.message)
    };
    assert_eq!(said(&|s| s.now += 99), None);
    let message = said(&|s| s.now += 100).unwrap();
    assert_eq!(message, "3 of 2 members, and nothing has changed for 100 s; next: removing db-2");
    // B29: a rest that the user wants between two removals is no delay.
    let rests = |seconds: i64| {
        said(&move |s: &mut Snapshot| {
            s.now += seconds;
            s.group.removal_rest = 50;
        })
    };
    assert_eq!((rests(149).is_some(), rests(150).is_some()), (false, true));
    let other_target = |s: &mut Snapshot| {
        s.now += 100;
        (s.group.replicas, s.group.primaries) = (1, 1);
    };
    assert_eq!(said(&other_target), None, "it begins anew");
    let other_list = |s: &mut Snapshot| {
        s.now += 100;
        s.record.membership.as_mut().unwrap().revision += 1;
    };
    assert_eq!(said(&other_list), None, "something changed");
    let called_off = |s: &mut Snapshot| {
        s.now += 100;
        (s.group.replicas, s.group.primaries) = (3, 3);
    };
    assert_eq!(said(&called_off), None);
    let stopped = |s: &mut Snapshot| {
        s.now += 100;
        s.group.replicas = 0;
        s.record.resizing.as_mut().unwrap().target = 0;
    };
    assert_eq!(said(&stopped), None);
}

// D15, D21: the list does not say yet that a member was started, and it was seen before. Its volume is empty now: it does not start on it, but is removed and added anew.
#[test]
fn a_start_that_was_seen_decides_on_which_volume_a_member_starts() {
    let begun = |seen: bool| {
        let mut s = added_on_another_volume(Position::Empty, false);
        s.record.member_mut(&db(2)).claim_uid = None;
        if seen {
            s.record.membership.as_mut().unwrap().note_started(&db(2));
        }
        claims_know(&mut s);
        decide(&s, &Natural).record.intents.iter().map(|intent| intent.verb).collect::<Vec<_>>()
    };
    assert_eq!((begun(true), begun(false)), (vec![Verb::MemberRemove], vec![Verb::Join]));
}

// D20: a start that never ran gave its volume no identity.
#[test]
fn a_start_that_never_ran_leaves_no_volume() {
    let mut s = added_on_another_volume(Position::Empty, false);
    let plan = decide(&s, &Natural);
    let begun = plan.record.intents.first().cloned().unwrap();
    assert!(plan.record.member(&db(2)).claim_uid.is_some());
    s.record = plan.record;
    s.evidence.insert(begun.token, Evidence::NotStarted("the API server answered forbidden (403)".into()));
    let closed = decide(&s, &Natural).record;
    assert!(closed.intents.is_empty(), "{:?}", closed.intents);
    assert_eq!(closed.member(&db(2)).claim_uid, None);
}
