//! Updates with new members that are changed, shrunk or given up in the middle: nobody is let go for a template that failed, and nothing waits for what cannot come.
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::setting::command;
use super::checks::intent;
use super::replace::{arriving, begun, called, deleted, leaving, old, open};
use tanist_core::check;
use tanist_core::contract::{Phase, Role};
use tanist_core::decide::decide;
use tanist_core::record::{Canary, Fallback, Verb};
use tanist_core::snapshot::{Evidence, Former, Query, QueryAnswer, Snapshot};

/// db-3, which came in the place of db-2, is watched with the template t2.
fn watched() -> Snapshot {
    let mut s = begun();
    (s.group.update.canary, s.group.update.template) = (30, "t2".into());
    s.record.canary = Some(Canary {
        template: "t2".into(),
        member: db(3),
        pod_uid: "uid-db-3".into(),
        container: None,
        begun: s.now - 9,
        since: Some(s.now - 9),
        unjudged: None,
        verdict: None,
    });
    s
}

/// The pod of db-2 is there, and nothing runs in it.
fn is_down(s: &mut Snapshot) {
    s.members[2].reading.role = Role::Unknown;
    let pod = s.members[2].pod.as_mut().unwrap();
    (pod.phase, pod.ready) = (Phase::Pending, false);
    pod.containers.values_mut().for_each(|container| container.running = false);
}

// E38, B8: in the round in which a template is given up its pods still count as new ones; the member that works with the one before is not let go for the one that failed.
#[test]
fn nobody_is_let_go_in_the_round_in_which_a_template_is_given_up() {
    let mut s = watched();
    (s.group.update.rolls_back, s.group.update.former) = (true, Former::Kept);
    s.group.commands.check = Some(command("check"));
    s.record.fallback = Some(Fallback { good: "t1".into(), trial: None, failed: None });
    s.answers.insert((Query::Check, db(3)), QueryAnswer { said: Ok(3), at: s.now - 1, ended: s.now - 1 });
    let plan = decide(&s, &Natural);
    assert!(plan.record.fallback.as_ref().is_some_and(|fallback| fallback.failed.is_some()), "it is given up");
    assert_eq!((open(&plan), leaving(&plan)), (vec![2], vec![]));
}

// E5, E36: a member that is down does not wait for the watch of a template that nobody can get before it has left.
#[test]
fn the_next_template_cures_a_group_whose_former_member_is_down() {
    let mut s = begun();
    (s.group.update.canary, s.group.update.template) = (60, "t3".into());
    let pod = s.members[3].pod.as_mut().unwrap();
    (pod.older_template, pod.outdated) = (true, true);
    let stays = decide(&s, &Natural);
    assert!(leaving(&stays).is_empty(), "one that works stays until the new template is known to work");
    is_down(&mut s);
    assert_eq!(leaving(&decide(&s, &Natural)), [2]);

    // The new one leads and gets the template last, after those for whom no other one is called before the former one has left.
    let mut s = begun();
    (s.group.update.canary, s.group.update.template) = (60, "t3".into());
    let pod = s.members[3].pod.as_mut().unwrap();
    (pod.older_template, pod.outdated) = (true, true);
    (s.members[0].reading.role, s.members[3].reading.role) = (Role::Secondary, Role::Primary);
    s.record.last_primaries.clear();
    assert_eq!(check::leaves_its_place(&s, &s.members[2]), Ok(()));

    // While somebody has the template, that one is watched first.
    let mut s = watched();
    is_down(&mut s);
    assert!(leaving(&decide(&s, &Natural)).is_empty());
}

// D8, E38: when the group shrinks nobody comes in the place of a member any more, so nobody is watched there.
#[test]
fn a_smaller_group_does_not_wait_for_who_does_not_come() {
    let mut s = old();
    (s.group.replicas, s.group.requested.replicas) = (2, 2);
    (s.group.update.canary, s.group.update.template) = (60, "t2".into());
    let seats = s.record.seats.as_mut().unwrap();
    (seats.replaced, seats.next) = (called(&[2]), 4);
    let plan = decide(&s, &Natural);
    assert_eq!((open(&plan), leaving(&plan), deleted(&plan)), (vec![], vec![2], 0));
}

/// The records of two rounds, the second one a while later.
fn two_rounds(s: Snapshot) -> [tanist_core::record::Record; 2] {
    let first = decide(&s, &Natural).record;
    let later = Snapshot { now: s.now + 7, record: first.clone(), ..s };
    [first, decide(&later, &Natural).record]
}

// Promise 4: what only takes its time is not written again in every round.
#[test]
fn the_record_stays_while_a_new_member_copies_the_data() {
    let mut s = arriving();
    let start = intent(&s, Verb::Place, 3);
    s.evidence.insert(start.token.clone(), Evidence::Running);
    s.record.intents.push(start);
    let [first, second] = two_rounds(s.clone());
    assert_eq!((&first, first.updating.is_none()), (&second, true));

    (s.group.update.canary, s.group.update.template) = (30, "t2".into());
    s.record.canary = watched().record.canary;
    let [first, second] = two_rounds(s);
    assert_eq!(first, second);
    assert!(first.canary.is_some_and(|canary| canary.since.is_none()));
}

// Promise 4, E34: the same while the node of the watched member does not report; then the watch begins anew.
#[test]
fn the_record_stays_while_the_watched_member_is_away() {
    let mut s = watched();
    s.members[3].pod.as_mut().unwrap().phase = Phase::Unreachable;
    let [first, second] = two_rounds(s.clone());
    assert_eq!(first, second);
    let back = Snapshot { now: s.now + 9_000, record: second, ..watched() };
    let canary = decide(&back, &Natural).record.canary.unwrap();
    assert_eq!((canary.begun, canary.since, canary.unjudged, canary.verdict), (back.now, Some(back.now), None, None));
}
