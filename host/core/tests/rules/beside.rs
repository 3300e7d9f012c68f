//! Two versions side by side (E4 to E7; docs/rules.md, "Update: side by side"): new members come in the place of all at once, get clients together, and then the former ones leave.
use super::super::support::policies::Natural;
use super::super::support::{db, sequence};
use super::division::{seats, zones};
use super::replace::{at, begun, deleted, leaving, old, open, replaced, rule, set};
use std::collections::BTreeMap;
use tanist_core::check::{self, FailoverOrder, Rule};
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::record::{Canary, Seats, Verdict};
use tanist_core::snapshot::{CutOver, Member, Mode, Snapshot, Strategy};
use tanist_core::status::{Kind, PolicyHealth, Truth, report};

/// A primary, db-0, and two secondaries with an older template.
fn former() -> Snapshot {
    let mut s = old();
    s.group.update.strategy = Strategy::SideBySide;
    s
}

/// The same beside that many new members, which follow and have no clients yet.
fn both(new: u32) -> Snapshot {
    let mut s = former();
    let (one, known) = (begun().members.remove(3), s.record.member(&db(2)).clone());
    for ordinal in 3..3 + new {
        let mut member = one.clone();
        (member.name, member.ordinal) = (db(ordinal), ordinal);
        let pod = member.pod.as_mut().unwrap();
        (pod.uid, pod.routed) = (format!("uid-db-{ordinal}"), None);
        *s.record.member_mut(&db(ordinal)) = known.clone();
        s.members.push(member);
    }
    let numbers: Vec<u32> = (0..6).collect();
    let replaced: BTreeMap<u32, u32> = (0..3).map(|ordinal| (ordinal, 3)).collect();
    s.record.seats = Some(Seats { numbers: set(&numbers), replaced, next: 6, ..Seats::default() });
    for member in &mut s.members[..3] {
        let role = if member.ordinal == 0 { "primary" } else { "secondary" };
        member.pod.as_mut().unwrap().routed = Some(role.into());
    }
    s
}

/// The same after the cut-over.
fn turned() -> Snapshot {
    let mut s = both(3);
    let seats = s.record.seats.as_mut().unwrap();
    seats.leaving = std::mem::take(&mut seats.replaced).into_keys().collect();
    s
}

/// To which members clients are led as to secondaries after this round, and who is Ready without that.
fn followers(s: &Snapshot, plan: &Plan) -> (Vec<u32>, Vec<u32>) {
    let (mut led, mut ready) = (Vec::new(), Vec::new());
    for member in &s.members {
        let pod = member.pod.as_ref().unwrap();
        let route = plan.actions.iter().rev().find_map(|action| match action {
            Action::Route { member: of, role, ready, .. } if *of == member.name => {
                Some((role.map(ToOwned::to_owned), *ready))
            }
            _ => None,
        });
        let (role, is_ready) = route.unwrap_or((pod.routed.clone(), pod.gate.unwrap_or_default()));
        match role.as_deref() {
            Some("secondary") => led.push(member.ordinal),
            None if is_ready => ready.push(member.ordinal),
            _ => {}
        }
    }
    (led, ready)
}

fn watched(s: &mut Snapshot, verdict: Option<Verdict>) {
    let template = "another".to_owned();
    (s.group.update.canary, s.group.update.template) = (60, template.clone());
    let (member, pod_uid, since) = (db(3), "uid-db-3".into(), Some(s.now));
    let canary = Canary { template, member, pod_uid, container: None, begun: s.now, since, unjudged: None, verdict };
    s.record.canary = Some(canary);
}

// E4: the primary's place is one like the others. No pod is deleted, and nobody leaves.
#[test]
fn new_members_come_in_the_place_of_all_at_once() {
    let s = former();
    let plan = decide(&s, &Natural);
    assert_eq!((open(&plan), deleted(&plan), leaving(&plan)), (vec![0, 1, 2], 0, vec![]));
    let seats = plan.record.seats.as_ref().unwrap();
    assert!(seats.replaced.values().all(|first| *first == 3), "{seats:?}");
    let mut next = Snapshot { record: plan.record, ..s.clone() };
    assert_eq!(next.roster().desired(), 6);
    next.group.update.strategy = Strategy::Replace;
    assert_eq!(open(&decide(&Snapshot { group: next.group, ..s }, &Natural)), [2], "one after the other");
}

// B9: the limit is about members that are replaced one by one. With 0 none is.
#[test]
fn no_limit_but_zero_holds_them_up() {
    let of = |limit: u32| {
        let mut s = former();
        s.group.update.replacements = limit;
        open(&decide(&s, &Natural)).len()
    };
    assert_eq!((of(1), of(64), of(0)), (3, 3, 0));
    let mut s = former();
    s.members[0].reading.role = Role::Stopped;
    assert_eq!(replaced(&s, 1), Err(Rule::NobodyServes), "there is nobody whom they could join");
    let mut s = former();
    s.group.primaries = 2;
    assert_eq!(replaced(&s, 1), Err(Rule::NobodyServes), "another one is about to lead");
    let mut s = former();
    s.group.unwanted = set(&[1]);
    assert_eq!(replaced(&s, 2), Err(Rule::NotAtRest), "db-1 leaves");
}

// E5: a version that does not work is no reason to wait with the next one.
#[test]
fn they_come_also_when_a_former_one_does_not_work() {
    let mut s = former();
    s.members[1].reading.role = Role::Stopped;
    s.members[2].pod.as_mut().unwrap().ready = false;
    assert_eq!(open(&decide(&s, &Natural)), [0, 1, 2]);
}

// E32: the first one that gets the template is watched, so it comes alone. The others come together when it has passed.
#[test]
fn the_first_one_is_watched_alone() {
    let mut s = former();
    s.group.update.canary = 60;
    assert_eq!(open(&decide(&s, &Natural)), [2]);
    let one_came = |s: &mut Snapshot| {
        let known = s.record.seats.as_mut().unwrap();
        (known.replaced, known.next) = ([(2, 3)].into(), 4);
        known.numbers = set(&[0, 1, 2, 3]);
    };
    let mut one = both(1);
    one_came(&mut one);
    watched(&mut one, None);
    assert_eq!(open(&decide(&one, &Natural)), [2]);
    watched(&mut one, Some(Verdict::Passed));
    let plan = decide(&one, &Natural);
    assert_eq!((open(&plan), leaving(&plan)), (vec![0, 1, 2], vec![]));
    one.group.update.cut_over = CutOver::One;
    let plan = decide(&one, &Natural);
    assert_eq!((open(&plan), leaving(&plan)), (vec![], vec![0, 1, 2]), "one works, and the others have been called");
    assert_eq!(rule(check::leaves_its_place(&one, at(&one, 2))), Err(Rule::StayersFirst), "nobody else was called");
}

// E4: before the cut-over clients are led to the former ones alone; the new ones are Ready all the same, for that is what is waited for.
#[test]
fn new_members_get_no_clients_before_the_cut_over() {
    let s = both(2);
    let plan = decide(&s, &Natural);
    assert_eq!(followers(&s, &plan), (vec![1, 2], vec![3, 4]));
    assert_eq!((open(&plan), leaving(&plan)), (vec![0, 1, 2], vec![]));
    let said = plan.waits.iter().find(|wait| wait.reason == Reason::Updating).unwrap();
    let expected = "new members come in place of db-0, db-1, db-2: 2 of 3 members that the cut-over waits for";
    assert!(said.message.contains(expected), "{}", said.message);
    let mut replace = s.clone();
    replace.group.update.strategy = Strategy::Replace;
    assert_eq!(followers(&replace, &decide(&replace, &Natural)).0, [1, 2, 3, 4]);
    // A former one whose pod was lost has the present template in its next pod: it is one of the new version.
    let mut lost = both(1);
    lost.members[1].pod.as_mut().unwrap().older_template = false;
    lost.members[1].pod.as_mut().unwrap().routed = None;
    lost.record.seats.as_mut().unwrap().replaced.remove(&1);
    assert_eq!(followers(&lost, &decide(&lost, &Natural)).0, [2]);
}

// S20, E4: when no former one follows any more the new ones are read from. A group without readers gets none before the cut-over.
#[test]
fn there_is_always_somebody_to_read_from() {
    let mut s = both(1);
    s.members[1].reading.role = Role::Stopped;
    assert_eq!(followers(&s, &decide(&s, &Natural)).0, [2]);
    s.members[2].pod.as_mut().unwrap().phase = Phase::Unreachable;
    assert_eq!(followers(&s, &decide(&s, &Natural)).0, [2, 3], "nobody can take the label from db-2");
    let mut silent = both(1);
    silent.members[1..3].iter_mut().for_each(|member| member.reading.role = Role::Unknown);
    assert_eq!(followers(&silent, &decide(&silent, &Natural)).0, [1, 2], "they keep their readers for a moment");
    let mut single = both(1);
    single.members.drain(1..3);
    single.group.replicas = 1;
    single.record.seats.as_mut().unwrap().numbers = set(&[0, 3]);
    single.record.seats.as_mut().unwrap().replaced.retain(|former, _| *former == 0);
    single.group.update.mode = Mode::Paused;
    assert_eq!(followers(&single, &decide(&single, &Natural)), (vec![], vec![3]));
}

// E6, E7: the threshold is the user's: all new ones, or one. The former ones leave together, and only then, whether they work or not.
#[test]
fn all_leave_together_at_the_cut_over() {
    let of = |new: u32, when: CutOver| {
        let mut s = both(new);
        s.group.update.cut_over = when;
        leaving(&decide(&s, &Natural))
    };
    assert_eq!((of(2, CutOver::All), of(3, CutOver::All)), (vec![], vec![0, 1, 2]));
    assert_eq!((of(0, CutOver::One), of(1, CutOver::One)), (vec![], vec![0, 1, 2]));
    let mut unready = both(3);
    unready.members[4].pod.as_mut().unwrap().ready = false;
    assert_eq!(leaving(&decide(&unready, &Natural)), [0; 0]);
    for role in [Role::Stopped, Role::Unknown] {
        let mut down = both(3);
        down.members[1].reading.role = role;
        assert_eq!(leaving(&decide(&down, &Natural)), [0, 1, 2], "{role:?}");
        down.members[4].pod.as_mut().unwrap().ready = false;
        assert_eq!(
            leaving(&decide(&down, &Natural)),
            [0; 0],
            "one that does not answer for a moment may still be wanted"
        );
    }
}

// E4: readers are led to the new ones, and then to no former one any more. Of those the primary keeps its clients until it gives up the lead.
#[test]
fn clients_are_led_to_the_new_ones_in_one_step() {
    let s = turned();
    let plan = decide(&s, &Natural);
    assert_eq!(followers(&s, &plan).0, [1, 2, 3, 4, 5], "first the new ones get their label");
    let touches_primary = |a: &Action| matches!(a, Action::Route { member, .. } if *member == db(0));
    assert!(!plan.actions.iter().any(touches_primary), "{:?}", plan.actions);
    let mut next = turned();
    next.members[4].pod.as_mut().unwrap().routed = Some("secondary".into());
    assert_eq!(followers(&next, &decide(&next, &Natural)).0, [3, 4, 5]);
    // The template changed once more.
    let mut again = next.clone();
    again.members.iter_mut().skip(3).for_each(|m| m.pod.as_mut().unwrap().older_template = true);
    assert_eq!(followers(&again, &decide(&again, &Natural)).0, [3, 4, 5]);
    // With nobody else to read from, they keep their clients.
    for change in
        [|m: &mut Member| m.pod.as_mut().unwrap().ready = false, |m: &mut Member| m.reading.role = Role::Stopped]
    {
        let mut alone = next.clone();
        alone.members.iter_mut().skip(3).for_each(change);
        assert!(followers(&alone, &decide(&alone, &Natural)).0.starts_with(&[1, 2]));
    }
    // Who leaves for another reason does not lose them.
    let mut other = next.clone();
    other.members[2].pod.as_mut().unwrap().older_template = false;
    assert!(followers(&other, &decide(&other, &Natural)).0.contains(&2));
}

// S25, E4: before the cut-over the lead stays with the former version, if one of it could lead as well.
#[test]
fn the_lead_stays_with_the_former_version() {
    let of = |s: &Snapshot, ordinal: usize| rule(check::lead_candidate(s, at(s, ordinal)));
    let mut s = both(1);
    assert_eq!((of(&s, 1), of(&s, 3)), (Ok(()), Err(Rule::NoSuccessor)));
    for former in [1, 2] {
        s.members[former].reading.role = Role::Stopped;
    }
    assert_eq!(of(&s, 3), Ok(()));

    let mut lost = both(1);
    lost.members[0].pod.as_mut().unwrap().phase = Phase::Ended;
    lost.record.last_primaries.clear();
    for member in &mut lost.members[1..] {
        (member.position, member.position_stale) = (Position::Known(sequence("9")), false);
    }
    let order = |s: &Snapshot, ordinal: usize| rule(FailoverOrder::of(s).member(at(s, ordinal)));
    assert_eq!((order(&lost, 1), order(&lost, 3)), (Ok(()), Err(Rule::GivesUpLead)));
    let mut leaves = lost.clone();
    leaves.group.unwanted = set(&[1, 2]);
    assert_eq!(order(&leaves, 3), Ok(()), "who leaves goes after those that stay");
    let mut stopped = lost.clone();
    stopped.members[1..3].iter_mut().for_each(|m| m.reading.role = Role::Stopped);
    assert_eq!(order(&stopped, 3), Ok(()), "nobody waits for one that does not follow");
    lost.members[3].position = Position::Known(sequence("10"));
    assert_eq!((order(&lost, 1), order(&lost, 3)), (Err(Rule::BelowHighest), Ok(())), "data comes before versions");
}

// A50, E4: the group is Ready while former and new members together are as many as desired.
#[test]
fn a_group_is_ready_while_both_versions_are_enough() {
    let ready = |s: &Snapshot| {
        let told = report(s, &Plan::new(s.record.clone()), &PolicyHealth::Active(String::new()), None);
        let ready = told.conditions.into_iter().find(|c| c.kind == Kind::Ready).unwrap();
        (ready.status, ready.message, told.settled)
    };
    let enough = (Truth::True, "1 of 1 primaries serve, 3 of 3 members are in their role".to_owned(), 3);
    assert_eq!(ready(&both(1)), enough);
    let mut s = turned();
    for ordinal in [4, 5] {
        s.members[ordinal].reading.role = Role::Stopped;
        s.record.members.remove(&db(u32::try_from(ordinal).unwrap()));
    }
    assert_eq!(ready(&s), enough);
    s.members.iter_mut().skip(1).take(2).for_each(|m| m.reading.role = Role::Stopped);
    assert_eq!((ready(&s).0, ready(&s).2), (Truth::False, 2));
}

// E4: a former member that is evicted stays one of the former version: it has no pod for a moment, and then one of the present template, which works or not.
#[test]
fn who_loses_its_pod_waits_for_the_cut_over() {
    for role in [None, Some(Role::Stopped)] {
        let mut s = both(2);
        let pod = s.members[1].pod.as_mut().unwrap();
        (pod.older_template, pod.outdated, pod.ready) = (false, false, false);
        match role {
            None => s.members[1].pod = None,
            Some(role) => s.members[1].reading.role = role,
        }
        assert_eq!(
            (leaving(&decide(&s, &Natural)), open(&decide(&s, &Natural)).contains(&1)),
            (vec![], true),
            "{role:?}"
        );
        s.group.update.mode = Mode::Paused;
        assert_eq!(leaving(&decide(&s, &Natural)), [0; 0]);
    }
}

// E5, E36: one of the former version does not work. The next template reaches the new ones all the same.
#[test]
fn a_former_member_that_is_down_holds_up_no_template() {
    let mut s = both(3);
    let pod = s.members[4].pod.as_mut().unwrap();
    (pod.older_template, pod.outdated) = (true, true);
    s.members[2].reading.role = Role::Stopped;
    assert_eq!(rule(check::update_member(&s, at(&s, 4))), Ok(()));
    s.members[3].reading.role = Role::Stopped;
    assert_eq!(rule(check::update_member(&s, at(&s, 4))), Err(Rule::NotAtRest), "of the new ones one at a time");
}

// S20, E4: readers go back to the former version when it is Ready; until then they keep whom they have.
#[test]
fn readers_go_back_to_the_former_version_when_it_is_ready() {
    let mut s = both(1);
    s.members[3].pod.as_mut().unwrap().routed = Some("secondary".into());
    for former in [1, 2] {
        let pod = s.members[former].pod.as_mut().unwrap();
        (pod.routed, pod.ready) = (None, false);
    }
    assert_eq!(followers(&s, &decide(&s, &Natural)).0, [1, 2, 3]);
    let pod = s.members[1].pod.as_mut().unwrap();
    (pod.routed, pod.ready) = (Some("secondary".into()), true);
    assert_eq!(followers(&s, &decide(&s, &Natural)).0, [1, 2]);
}

// E4: nor is anybody of the new version read from that leaves before the cut-over, or that came for one which cannot come back yet after the update was cancelled.
#[test]
fn who_is_not_wanted_any_more_is_not_read_from() {
    let mut s = both(2);
    s.group.unwanted = set(&[4]);
    assert_eq!(followers(&s, &decide(&s, &Natural)).0, [1, 2]);
    // That holds for as long as it may not be stopped yet, too.
    assert_eq!(check::held_back(&s), set(&[3, 4]));
    // Nor does it keep readers that it got while nobody of the former version followed.
    s.members[4].pod.as_mut().unwrap().routed = Some("secondary".into());
    assert_eq!(followers(&s, &decide(&s, &Natural)).0, [1, 2]);
    let mut back = both(1);
    for member in &mut back.members {
        member.pod.as_mut().unwrap().older_template = member.ordinal == 3;
    }
    back.record.seats.as_mut().unwrap().replaced.retain(|former, _| *former == 1);
    back.members[1].reading.role = Role::Stopped;
    assert!(!followers(&back, &decide(&back, &Natural)).0.contains(&3));
}

// E4: cancelled at any point before the cut-over: the template is what it was, so the former ones stay and the new ones leave.
#[test]
fn a_template_that_is_taken_back_cancels_it() {
    for new in [0, 1, 3] {
        let mut s = both(new);
        let pods = s.members.iter_mut().map(|m| (m.ordinal, m.pod.as_mut().unwrap()));
        pods.for_each(|(ordinal, pod)| (pod.older_template, pod.outdated) = (ordinal > 2, ordinal > 2));
        let plan = decide(&s, &Natural);
        assert_eq!((open(&plan), leaving(&plan)), (vec![], vec![]), "{new}");
        // Nobody reads from the version that was given up, neither in this round nor until it has left.
        assert_eq!(followers(&s, &plan).0, [1, 2]);
        let next = Snapshot { record: plan.record, ..s };
        assert_eq!(followers(&next, &decide(&next, &Natural)).0, [1, 2]);
        assert!((0..3).all(|ordinal| !next.leaves(at(&next, ordinal))));
        assert!(next.members.iter().skip(3).all(|member| next.leaves(member)));
    }
}

// E5, E36: the template changed once more. Who came for a former member gets a new pod, also the one that leads by now (simulator, seed 32001491).
#[test]
fn a_new_member_that_leads_gets_the_next_template_beside_those_of_before() {
    let mut s = both(3);
    s.group.primaries = 2;
    let pod = s.members[3].pod.as_mut().unwrap();
    (pod.older_template, pod.outdated) = (true, true);
    pod.routed = Some("primary".into());
    s.members[3].reading.role = Role::Primary;
    let known = s.record.member_mut(&db(3));
    (known.primary_term, known.last_primary) = (known.term, Some(1));
    assert_eq!(rule(check::update_member(&s, at(&s, 3))), Ok(()));
    s.group.update.strategy = Strategy::Replace;
    assert_eq!(rule(check::update_member(&s, at(&s, 3))), Err(Rule::PrimaryLast));
}

// E14: who is in a wrong zone moves as ever: one after the other (simulator, seed 33001233).
#[test]
fn members_of_a_wrong_zone_leave_one_by_one() {
    let mut s = both(3);
    s.group.zones = zones("b");
    let known = seats("a: 0 1 2, b: 3 4 5");
    s.record.seats = Some(Seats { replaced: s.record.seats.take().unwrap().replaced, ..known });
    assert_eq!(leaving(&decide(&s, &Natural)).len(), 1);
}

// E14: in the round of the cut-over nobody else leaves: the new members may be as many as desired only together with that one (simulator, seed 53000880).
#[test]
fn nobody_leaves_a_wrong_zone_in_the_round_of_the_cut_over() {
    let mut s = both(3);
    s.group.zones = zones("a b");
    let known = seats("a: 0 2 3 4, b: 5, c: 1");
    s.record.seats = Some(Seats { replaced: s.record.seats.take().unwrap().replaced, ..known });
    assert!(check::is_misplaced(&s, at(&s, 1)) && rule(check::leaves_its_place(&s, at(&s, 1))).is_ok());
    assert_eq!(leaving(&decide(&s, &Natural)), [0, 2]);
}

// E4: while updates are paused nothing turns.
#[test]
fn a_pause_holds_up_the_cut_over() {
    let mut s = both(3);
    s.group.update.mode = Mode::Paused;
    assert_eq!(leaving(&decide(&s, &Natural)), [0; 0]);
    assert_eq!(rule(check::leaves_its_place(&s, at(&s, 1))), Err(Rule::AdministratorDecides));
    assert_eq!(followers(&s, &decide(&s, &Natural)).0, [1, 2]);
}

// B8: with another strategy in the middle the members leave one after the other again, a primary last.
#[test]
fn with_another_strategy_the_primary_leaves_last() {
    let mut s = both(3);
    s.group.update.strategy = Strategy::Replace;
    assert_eq!(leaving(&decide(&s, &Natural)), [1]);
}
