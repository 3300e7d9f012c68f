//! When the data is converted to a later version of the application (docs/rules.md, "Major versions").
use super::super::support::policies::Natural;
use super::super::support::setting::{command, members};
use super::super::support::world::World;
use super::super::support::{db, sequence};
use super::checks::{against, intent};
use tanist_core::check::{Rule, due_upgrade, is_converting};
use tanist_core::checked::recheck_deletion;
use tanist_core::contract::{MemberName, Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::memory::claim_mark;
use tanist_core::plan::{Action, DeletionCause, Plan, Reason};
use tanist_core::record::{Intent, Record, Seats, Verb};
use tanist_core::snapshot::{Evidence, Mode, Override, Snapshot, UpgradeOn};
use tanist_core::version;

/// A primary and two secondaries with data of version 15, and a template for version 17 that no pod has.
pub fn due() -> World {
    let mut world = World::settled(10_000);
    world.group.commands.upgrade = Some(command("upgrade"));
    world.group.version = Some("17".into());
    world.record.version = Some("15".into());
    for ordinal in 0..3 {
        world.older(ordinal);
        world.body(ordinal).pod.programs = Some("15".into());
    }
    world
}

/// The member has a pod of the present template.
pub fn renew(world: &mut World, ordinal: u32) {
    let pod = &mut world.body(ordinal).pod;
    (pod.outdated, pod.older_template, pod.programs) = (false, false, Some("17".into()));
}

/// The same with a pod of the former template.
pub fn age(s: &mut Snapshot, ordinal: usize) {
    let pod = s.members[ordinal].pod.as_mut().unwrap();
    (pod.outdated, pod.older_template, pod.programs) = (true, true, Some("15".into()));
}

/// All are stopped, with the new template; their data was read.
pub fn stopped() -> Snapshot {
    let mut world = due();
    (0..3).for_each(|ordinal| {
        world.serve(ordinal, Role::Stopped);
        renew(&mut world, ordinal);
    });
    let mut s = world.observe();
    s.record.last_primaries.clear();
    for member in &mut s.members {
        (member.position, member.position_at, member.position_stale) = (Position::Known(sequence("9")), s.now, false);
    }
    s
}

pub fn runs(plan: &Plan) -> Vec<(Verb, MemberName)> {
    let of = |action: &Action| match action {
        Action::Run { intent, .. } => Some((intent.verb, intent.member.clone())),
        _ => None,
    };
    plan.actions.iter().filter_map(of).collect()
}

pub fn begun(plan: &Plan) -> Intent {
    plan.record.intents.last().cloned().unwrap()
}

pub fn ended(s: &Snapshot, open: &Intent, record: &Record, evidence: Evidence) -> Snapshot {
    let mut s = Snapshot { record: record.clone(), now: s.now + 1, ..s.clone() };
    s.evidence.insert(open.token.clone(), evidence);
    s
}

#[test]
fn versions_are_compared_number_by_number() {
    use std::cmp::Ordering::{Equal, Greater, Less};
    for (one, other, order) in [
        ("9", "10", Some(Less)),
        ("10.11", "10.6", Some(Greater)),
        ("17", "17.0.0", Some(Equal)),
        ("1.2.3", "1.2.4", Some(Less)),
        ("", "1", None),
        ("1.2.3.4", "1", None),
        ("1..2", "1", None),
        ("1.x", "1", None),
        ("17", "v15", None),
        ("+5", "5", None),
        ("1234567", "1", None),
    ] {
        assert_eq!(version::compare(one, other), order, "{one} {other}");
    }
    assert_eq!(
        (version::whole("17"), version::whole("10.6"), version::whole("x")),
        ("17.0.0".into(), "10.6.0".into(), "x".into())
    );
}

#[test]
fn a_later_version_is_converted_where_the_user_wants_that() {
    let is_due = |change: &dyn Fn(&mut World)| {
        let mut world = due();
        change(&mut world);
        let s = world.observe();
        (due_upgrade(&s).is_some(), is_converting(&s))
    };
    assert_eq!(is_due(&|_| ()), (true, true));
    assert_eq!(is_due(&|w| w.group.version = Some("15".into())), (false, false));
    assert_eq!(is_due(&|w| w.group.version = Some("9".into())), (false, false), "it is earlier");
    assert_eq!(is_due(&|w| w.group.version = None), (false, false));
    assert_eq!(is_due(&|w| w.record.version = None), (false, false));
    assert_eq!(is_due(&|w| w.group.commands.upgrade = None), (false, false), "the application does that itself");
    assert_eq!(is_due(&|w| w.group.active_passive = true), (false, false));
    assert_eq!(
        is_due(&|w| w.group.commands.membership = Some(members(false))),
        (false, false),
        "they are not all stopped"
    );
    let on_primary = |w: &mut World| w.group.update.upgrade_on = UpgradeOn::Primary;
    assert_eq!(is_due(&on_primary), (true, false));
    let agreeing = |w: &mut World| {
        on_primary(w);
        w.group.commands.membership = Some(members(false));
    };
    assert_eq!(is_due(&agreeing), (true, false));
    assert_eq!(is_due(&|w| w.group.update.mode = Mode::Paused), (true, false));
    assert_eq!(is_due(&|w| w.group.update.mode = Mode::ByHand), (true, false));
    assert_eq!(is_due(&|w| w.group.replicas = 0), (true, false));
}

// A primary is stopped last, and only when the pods of all others have the new template and run: so a template that cannot run costs one secondary.
#[test]
fn members_stop_one_after_the_other_and_the_primary_last() {
    let mut world = due();
    let s = world.observe();
    assert_eq!(runs(&decide(&s, &Natural)), [(Verb::Halt, db(2))]);
    assert_eq!(against(&s, Verb::Halt, 0), Some(Rule::WrongRole), "the secondaries first");
    world.serve(2, Role::Stopped);
    let s = world.observe();
    assert_eq!(against(&s, Verb::Halt, 1), Some(Rule::NotAtRest), "db-2 has the old template still");
    let plan = decide(&s, &Natural);
    assert_eq!(runs(&plan), []);
    assert!(plan.waits.iter().any(|w| w.reason == Reason::Upgrading && w.message.contains("db-1 is secondary")));
    renew(&mut world, 2);
    let mut away = world.observe();
    away.members[2].pod.as_mut().unwrap().phase = Phase::Pending;
    assert_eq!(against(&away, Verb::Halt, 1), Some(Rule::TargetUnreachable), "it is not known whether it can run");
    let s = world.observe();
    assert_eq!(against(&s, Verb::Halt, 1), None);
    let mut busy = s.clone();
    busy.record.intents.push(intent(&s, Verb::Place, 2));
    assert_eq!(against(&busy, Verb::Halt, 1), Some(Rule::MemberBusy));
    let mut other = due().observe();
    other.record.intents.push(intent(&other, Verb::Follow, 1));
    assert_eq!(against(&other, Verb::Halt, 2), Some(Rule::MemberBusy), "one after the other");
    world.serve(1, Role::Stopped);
    assert_eq!(against(&world.observe(), Verb::Halt, 0), Some(Rule::NotAtRest));
    renew(&mut world, 1);
    let s = world.observe();
    assert_eq!(against(&s, Verb::Halt, 0), None);
    assert_eq!(runs(&decide(&s, &Natural)), [(Verb::Halt, db(0))]);
    let mut calm = s.clone();
    calm.record.version = Some("17".into());
    assert_eq!(against(&calm, Verb::Halt, 0), Some(Rule::NotAsked));
    let mut bare = s;
    bare.members[0].claims.clear();
    assert_eq!(against(&bare, Verb::Halt, 0), Some(Rule::OnlyCopy), "its data would be gone with its pod");
}

// One whose role is not known stops before the secondaries, and one that leaves and has no pod any more is not waited for.
#[test]
fn who_cannot_be_asked_stops_first() {
    let mut world = due();
    world.body(1).app.probe = Some(Role::Unknown);
    let s = world.observe();
    let plan = decide(&s, &Natural);
    assert_eq!(runs(&plan), [(Verb::Halt, db(1))]);
    assert_eq!(against(&s, Verb::Halt, 2), Some(Rule::WrongRole));
    let mut world = due();
    world.group.replicas = 2;
    let mut s = world.observe();
    assert_eq!(runs(&decide(&s, &Natural)), [(Verb::Remove, db(2))]);
    s.members[2].pod = None;
    assert_eq!(runs(&decide(&s, &Natural)), [(Verb::Halt, db(1))], "it comes back when nobody serves");
    s.group.replicas = 3;
    assert_eq!(runs(&decide(&s, &Natural)), [], "one that stays has to show that it can run");
}

// The primary dies while members stop: one with the former template takes over. If a pod of the new one runs already, everybody stops instead.
#[test]
fn a_lost_primary_holds_up_no_conversion() {
    let mut world = due();
    world.serve(0, Role::Stopped);
    let mut s = world.observe();
    s.record.last_primaries.clear();
    for member in &mut s.members {
        (member.position, member.position_at, member.position_stale) = (Position::Known(sequence("9")), s.now, false);
    }
    assert_eq!(runs(&decide(&s, &Natural)).first().map(|(verb, _)| *verb), Some(Verb::Failover));
    let pod = s.members[0].pod.as_mut().unwrap();
    (pod.outdated, pod.older_template, pod.programs) = (false, false, Some("17".into()));
    assert_eq!(runs(&decide(&s, &Natural)), [(Verb::Halt, db(2))]);
    assert_eq!(against(&s, Verb::Failover, 0), Some(Rule::NotConverted), "its programs do not fit");
    // Another one that is stopped has its old pod still, which goes when nobody runs: it is not waited for.
    s.members[1].reading.role = Role::Stopped;
    assert_eq!(runs(&decide(&s, &Natural)), [(Verb::Halt, db(2))]);
    // One that cannot come may have to be given up first: whoever runs is not stopped for that.
    s.members[1].pod.as_mut().unwrap().phase = Phase::Pending;
    assert!(runs(&decide(&s, &Natural)).iter().all(|(verb, _)| *verb != Verb::Halt));
}

// The template is corrected while everybody is stopped, because it cannot convert the data: that one is what counts, though its version is the same.
#[test]
fn a_corrected_template_reaches_members_that_are_stopped() {
    let mut s = stopped();
    for member in &mut s.members {
        let pod = member.pod.as_mut().unwrap();
        (pod.outdated, pod.older_template) = (true, true);
    }
    let plan = decide(&s, &Natural);
    let deleted = plan.actions.iter().filter(|action| matches!(action, Action::DeletePod { .. })).count();
    assert_eq!((deleted, runs(&plan)), (3, vec![]));
    assert_eq!(against(&s, Verb::Convert, 0), Some(Rule::NotAtRest));
    // In one of them the container of `status` never runs, though another one did.
    s.members[1].pod.as_mut().unwrap().phase = Phase::Pending;
    let plan = decide(&s, &Natural);
    let deletes = |action: &Action| matches!(action, Action::DeletePod { member, .. } if *member == db(1));
    assert!(plan.actions.iter().any(deletes));
}

// What was converted is lost, and an administrator chooses a member with data of before: that is converted anew.
#[test]
fn an_override_may_give_up_what_was_converted() {
    let mut s = stopped();
    s.record.version = Some("17".into());
    s.record.term = 3;
    (s.record.member_mut(&db(0)).term, s.record.member_mut(&db(0)).version) = (Some(3), Some("17".into()));
    for ordinal in 1..3 {
        s.record.member_mut(&db(ordinal)).version = Some("15".into());
    }
    (s.members[0].position, s.members[0].claims) = (Position::Empty, vec![]);
    let raw = "db-1 9 3".to_owned();
    s.group.requested_override =
        Some(Override { member: db(1), position: Position::Known(sequence("9")), term: 3, raw });
    let plan = decide(&s, &Natural);
    assert_eq!(plan.record.version.as_deref(), Some("15"));
    let next = Snapshot { record: plan.record.clone(), ..s.clone() };
    assert_eq!(runs(&decide(&next, &Natural)), [(Verb::Convert, db(1))]);
    s.members[0].reading.role = Role::Primary;
    assert_eq!(decide(&s, &Natural).record.version.as_deref(), Some("17"), "not while somebody may lead");
}

// Before the converted data is started its claim says of which version it is.
#[test]
fn a_claim_is_annotated_before_converted_data_is_started() {
    let mut s = stopped();
    let mark = claim_mark(&s.record, "db", &db(0)).unwrap();
    s.members[0].claims.iter_mut().for_each(|claim| claim.mark = Some(mark.clone()));
    let plan = decide(&s, &Natural);
    let open = begun(&plan);
    let s = ended(&s, &open, &plan.record, Evidence::Exited(0));
    let plan = decide(&s, &Natural);
    let marks =
        plan.actions.iter().filter_map(|a| if let Action::MarkClaim { mark, .. } = a { Some(mark) } else { None });
    let marks: Vec<_> = marks.map(|mark| (mark.term, mark.version.clone())).collect();
    assert_eq!((marks, runs(&plan)), (vec![(open.term, Some("17".to_owned()))], vec![]));
    let mut marked = Snapshot { record: plan.record.clone(), ..s };
    assert_eq!(runs(&decide(&marked, &Natural)), [], "it could not be written yet");
    let report = tanist_core::status::report(
        &marked,
        &decide(&marked, &Natural),
        &tanist_core::status::PolicyHealth::Active("one policy".into()),
        None,
    );
    let found = report.conditions.iter().find(|c| c.kind == tanist_core::status::Kind::Degraded);
    assert_eq!(found.map(|c| format!("{:?}", c.status)).as_deref(), Some("False"), "nobody is told meanwhile");
    let mark = claim_mark(&marked.record, "db", &db(0)).unwrap();
    marked.members[0].claims.iter_mut().for_each(|claim| claim.mark = Some(mark.clone()));
    assert_eq!(runs(&decide(&marked, &Natural)), [(Verb::Seed, db(0))]);
}

// A policy is asked only about members that may be started.
#[test]
fn who_has_other_programs_is_barred() {
    let mut paused = stopped();
    paused.group.update.mode = Mode::Paused;
    age(&mut paused, 1);
    let plan = decide(&paused, &Natural);
    assert_eq!((runs(&plan), plan.violations.len()), (vec![(Verb::Seed, db(1))], 0));
    let mut world = due();
    world.group.update.mode = Mode::Paused;
    world.serve(1, Role::Stopped);
    world.serve(2, Role::Stopped);
    renew(&mut world, 1);
    let mut s = world.observe();
    for member in &mut s.members[1..] {
        (member.position, member.position_at) = (Position::Known(sequence("9")), s.now);
    }
    let plan = decide(&s, &Natural);
    assert_eq!((runs(&plan), plan.violations.len()), (vec![(Verb::Place, db(2))], 0));
}

// Nobody is told of a trouble while the data is converted as it should be.
#[test]
fn a_conversion_is_no_trouble() {
    let s = stopped();
    let degraded = |s: &Snapshot, plan: &Plan| {
        let report =
            tanist_core::status::report(s, plan, &tanist_core::status::PolicyHealth::Active("one policy".into()), None);
        let found = report.conditions.iter().find(|c| c.kind == tanist_core::status::Kind::Degraded);
        found.map(|c| format!("{:?}", c.status))
    };
    assert_eq!(degraded(&s, &decide(&s, &Natural)).as_deref(), Some("False"));
    let mut down = s;
    down.record.version = Some("17".into());
    down.group.paused = false;
    down.members[1].pod = None;
    assert_eq!(degraded(&down, &decide(&down, &Natural)).as_deref(), Some("True"), "nobody serves");
}

// S19: one `status` that gave no answer stops no primary that works.
#[test]
fn a_primary_that_cannot_be_asked_for_a_moment_goes_on() {
    let mut world = due();
    let mut s = world.observe();
    s.members[0].reading.role = Role::Unknown;
    assert_eq!(runs(&decide(&s, &Natural)), [(Verb::Halt, db(2))]);
    assert_eq!(against(&s, Verb::Halt, 0), Some(Rule::WrongRole));
}

// The primary is lost while the end of a stop is not known: whoever can takes over, and the others follow it. A stale primary is stopped.
#[test]
fn a_group_that_converts_goes_on_with_another_primary() {
    let mut world = due();
    let mut s = world.observe();
    s.record.intents.push(intent(&s, Verb::Halt, 2));
    let takes_over = |s: &mut Snapshot| {
        s.members[0].reading.role = Role::Stopped;
        s.record.last_primaries.clear();
        for member in &mut s.members {
            (member.position, member.position_at, member.position_stale) =
                (Position::Known(sequence("9")), s.now, false);
        }
        s.group.failover.reads = Some(2);
        runs(&decide(s, &Natural)).iter().any(|(verb, _)| *verb == Verb::Failover)
    };
    let mut under_way = s.clone();
    under_way.evidence.insert("t".into(), Evidence::Running);
    assert!(!takes_over(&mut under_way), "it is stopped next");
    s.members[2].pod.as_mut().unwrap().phase = Phase::Unreachable;
    assert!(takes_over(&mut s));
    // db-1 leads in the next term, and a pod of the new template cannot run.
    let mut world = due();
    world.serve(0, Role::Stopped);
    world.serve(1, Role::Primary);
    let mut s = world.observe();
    s.record.term += 1;
    s.record.last_primaries.clear();
    (s.record.member_mut(&db(1)).term, s.record.member_mut(&db(1)).primary_term) =
        (Some(s.record.term), Some(s.record.term));
    let pod = s.members[0].pod.as_mut().unwrap();
    (pod.phase, pod.programs, pod.older_template) = (Phase::Pending, Some("17".into()), false);
    assert_eq!(runs(&decide(&s, &Natural)), [(Verb::Follow, db(2))]);
    s.members[2].reading.role = Role::Primary;
    assert_eq!(runs(&decide(&s, &Natural)), [(Verb::Demote, db(2))]);
}

// A member that can never run is what the others wait for: fewer members are desired then, and it leaves although a conversion is due.
#[test]
fn members_that_are_not_desired_leave_before_others_stop() {
    let mut world = due();
    world.serve(2, Role::Stopped);
    world.group.replicas = 2;
    let s = world.observe();
    let plan = decide(&s, &Natural);
    assert_eq!(against(&s, Verb::Halt, 1), Some(Rule::StayersFirst));
    let scales = |action: &Action| matches!(action, Action::Scale { replicas: 2 } | Action::Read { .. });
    assert!(plan.actions.iter().any(scales) && runs(&plan).is_empty(), "{:?}", plan.actions);
    // Without those that are stopped already nobody would serve: the primary, which leaves, converts its data.
    let mut world = due();
    world.group.replicas = 1;
    world.serve(0, Role::Stopped);
    world.serve(1, Role::Primary);
    let mut s = world.observe();
    s.record.last_primaries.clear();
    for ordinal in [0, 2] {
        s.members[ordinal].reading.role = Role::Stopped;
        let pod = s.members[ordinal].pod.as_mut().unwrap();
        (pod.outdated, pod.older_template, pod.programs) = (false, false, Some("17".into()));
    }
    assert_eq!(against(&s, Verb::Halt, 1), None);
    // It works and leaves once the one that comes in its place is in its role, which is started after the conversion (simulator, seed 96004395).
    let mut s = due().observe();
    s.group.makes_pods = true;
    s.record.seats = Some(Seats { numbers: [0, 1, 3].into(), leaving: [2].into(), next: 4, ..Seats::default() });
    assert!(s.leaves(&s.members[2]));
    assert_eq!(runs(&decide(&s, &Natural)), [(Verb::Halt, db(2))]);
    // Two leave, and the one that is stopped does not go before the other one, which waits (simulator, seed 187575286).
    s.record.seats = Some(Seats { numbers: [0, 3, 4].into(), leaving: [1, 2].into(), next: 5, ..Seats::default() });
    s.members[2].reading.role = Role::Stopped;
    let pod = s.members[2].pod.as_mut().unwrap();
    (pod.outdated, pod.older_template, pod.programs) = (false, false, Some("17".into()));
    assert_eq!(runs(&decide(&s, &Natural)), [(Verb::Halt, db(1))]);
}

// Several primaries stop one after the other: the last one has the writes of all.
#[test]
fn of_several_primaries_one_stops_at_a_time() {
    let mut world = due();
    world.group.primaries = 3;
    (0..3).for_each(|ordinal| world.serve(ordinal, Role::Primary));
    assert_eq!(runs(&decide(&world.observe(), &Natural)), [(Verb::Halt, db(2))]);
}

// Pods of stopped members go at once beside a primary, and otherwise only when nobody may run: what is in a pod without a volume stays.
#[test]
fn the_pods_of_stopped_members_get_the_new_template() {
    let mut world = due();
    world.serve(2, Role::Stopped);
    let deletes = |s: &Snapshot, ordinal: usize| {
        let member = &s.members[ordinal];
        let uid = member.pod.as_ref().unwrap().uid.clone();
        recheck_deletion(s, s, &member.name, &uid, DeletionCause::Update).map(|_| ()).map_err(|v| v.rule)
    };
    let s = world.observe();
    assert_eq!((deletes(&s, 2), deletes(&s, 1), deletes(&s, 0)), (Ok(()), Err(Rule::WrongRole), Err(Rule::WrongRole)));
    let changed = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = s.clone();
        change(&mut s);
        deletes(&s, 2)
    };
    assert_eq!(changed(&|s| s.members[2].claims.clear()), Err(Rule::OnlyCopy));
    assert_eq!(changed(&|s| s.members[2].pod.as_mut().unwrap().outdated = false), Err(Rule::NotAtRest));
    assert_eq!(changed(&|s| s.set.as_mut().unwrap().unseen = true), Err(Rule::NotAtRest));
    assert_eq!(
        changed(&|s| s.members[2].pod.as_mut().unwrap().needs_new_member = true),
        Ok(()),
        "the data stays with it"
    );
    let pending = |s: &mut Snapshot| {
        let pod = s.members[2].pod.as_mut().unwrap();
        pod.phase = Phase::Pending;
        pod.containers.values_mut().for_each(|container| (container.id, container.running) = (None, false));
    };
    assert_eq!(changed(&pending), Ok(()), "nothing ever ran in it");
    let half = |s: &mut Snapshot| s.members[2].pod.as_mut().unwrap().phase = Phase::Pending;
    assert_eq!(changed(&half), Ok(()), "something runs in it, and not what counts");
    (0..2).for_each(|ordinal| world.serve(ordinal, Role::Stopped));
    let mut s = world.observe();
    s.record.last_primaries.clear();
    assert_eq!([deletes(&s, 0), deletes(&s, 1), deletes(&s, 2)], [Ok(()); 3]);
    s.members[0].reading.role = Role::Unknown;
    assert_eq!(deletes(&s, 1), Err(Rule::MayBePrimary), "db-0 may lead still");
}
