//! When the data is converted to a later version of the application (docs/rules.md, "Major versions").
use super::super::support::policies::Natural;
use super::super::support::setting::{command, members};
use super::super::support::world::World;
use super::super::support::{db, sequence};
use super::checks::{against, intent};
use tanist_core::check::{self, Rule, SeedOrder, due_upgrade, is_converting};
use tanist_core::checked::{recheck, recheck_deletion};
use tanist_core::contract::{MemberName, Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::memory::{claim_mark, recall};
use tanist_core::plan::{Action, DeletionCause, Plan, Reason};
use tanist_core::record::{FailedUpgrade, Intent, Record, Seeded, Started, Switchover, Verb};
use tanist_core::snapshot::{Claim, Evidence, Mode, Override, Snapshot, UpgradeOn};
use tanist_core::version;

/// A primary and two secondaries with data of version 15, and a template for version 17 that no pod has.
fn due() -> World {
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
fn renew(world: &mut World, ordinal: u32) {
    let pod = &mut world.body(ordinal).pod;
    (pod.outdated, pod.older_template, pod.programs) = (false, false, Some("17".into()));
}

/// The same with a pod of the former template.
fn age(s: &mut Snapshot, ordinal: usize) {
    let pod = s.members[ordinal].pod.as_mut().unwrap();
    (pod.outdated, pod.older_template, pod.programs) = (true, true, Some("15".into()));
}

/// All are stopped, with the new template; their data was read.
fn stopped() -> Snapshot {
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

fn runs(plan: &Plan) -> Vec<(Verb, MemberName)> {
    let of = |action: &Action| match action {
        Action::Run { intent, .. } => Some((intent.verb, intent.member.clone())),
        _ => None,
    };
    plan.actions.iter().filter_map(of).collect()
}

fn begun(plan: &Plan) -> Intent {
    plan.record.intents.last().cloned().unwrap()
}

fn ended(s: &Snapshot, open: &Intent, record: &Record, evidence: Evidence) -> Snapshot {
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

// The member with the latest data converts it, as it would be seeded; nothing else is started.
#[test]
fn who_would_be_seeded_converts_its_data() {
    let s = stopped();
    let plan = decide(&s, &Natural);
    assert_eq!(runs(&plan), [(Verb::Convert, db(0))]);
    let open = begun(&plan);
    assert_eq!((open.term, open.version.as_deref(), open.had_role), (s.record.term + 1, Some("17"), true));
    let known = plan.record.member(&db(0));
    assert!(known.started.as_ref().is_some_and(|started| started.target && started.term == open.term));
    assert!(plan.record.last_primaries.iter().any(|last| last.member == db(0)), "it may run there still after the pod");
    assert_eq!((plan.record.version.as_deref(), known.version.as_deref()), (Some("15"), None));
    assert!(recheck(&s, &s, &open).is_ok());
    let rule = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = s.clone();
        change(&mut s);
        (against(&s, Verb::Convert, 0), runs(&decide(&s, &Natural)).iter().any(|(verb, _)| *verb == Verb::Convert))
    };
    assert_eq!(rule(&|_| ()), (None, true));
    type Change = fn(&mut Snapshot);
    let cases: [(Change, Rule); 8] = [
        (|s| s.record.version = Some("17".into()), Rule::NotAsked),
        (|s| s.members[1].reading.role = Role::Primary, Rule::MayBePrimary),
        (|s| age(s, 1), Rule::NotAtRest),
        (|s| s.members[1].pod = None, Rule::PodCount),
        (|s| s.members[1].position = Position::Unknown("?".into()), Rule::PositionUnknown),
        (|s| s.record.member_mut(&db(0)).term = Some(0), Rule::OlderTerm),
        (|s| s.members[0].claims.clear(), Rule::ClaimChanged),
        (|s| s.group.update.mode = Mode::Paused, Rule::NotAsked),
    ];
    for (change, expected) in cases {
        let (broken, _) = rule(&change);
        assert_eq!(broken, Some(expected));
    }
    // An administrator chose the member, and not whether its programs fit.
    let raw = "db-0 9 1".to_owned();
    let requested = Override { member: db(0), position: Position::Known(sequence("9")), term: s.record.term, raw };
    let chosen = |s: &mut Snapshot| s.group.requested_override = Some(requested.clone());
    assert_eq!(rule(&chosen), (None, true));
    let older = |s: &mut Snapshot| {
        chosen(s);
        age(s, 0);
    };
    assert_eq!(rule(&older).0, Some(Rule::NotAtRest));
    let mut other = s.clone();
    other.record.intents.push(Intent { verb: Verb::Seed, ..intent(&s, Verb::Seed, 1) });
    assert_eq!(against(&other, Verb::Convert, 0), Some(Rule::SecondPrimaryCommand));
    let empty = Snapshot {
        members: s
            .members
            .iter()
            .cloned()
            .map(|mut m| {
                m.position = Position::Empty;
                m
            })
            .collect(),
        ..s.clone()
    };
    let order = SeedOrder::of(&empty);
    assert!(check::convert_member(&empty, &order, &empty.members[0]).is_err(), "there is nothing to convert");
}

// What a conversion leaves: data of its own term and the new version. Only its exit code says that, for the member was stopped before.
#[test]
fn only_its_exit_code_shows_that_the_data_is_converted() {
    let s = stopped();
    let plan = decide(&s, &Natural);
    let open = begun(&plan);
    let after = |evidence: Evidence| decide(&ended(&s, &open, &plan.record, evidence), &Natural);
    let done = after(Evidence::Exited(0));
    assert_eq!(done.record.version.as_deref(), Some("17"));
    let known = done.record.member(&db(0));
    assert_eq!((known.term, known.version.as_deref()), (Some(open.term), Some("17")));
    assert_eq!(known.started, None);
    assert_eq!(known.primary_term, s.record.member(&db(0)).primary_term, "it did not lead in that term");
    assert_eq!(done.noted(&plan.record).next().map(|t| t.what.as_str()), Some("upgraded"));
    let converts = |plan: &Plan| plan.record.version.as_deref() == Some("17");
    for evidence in
        [Evidence::Exited(1), Evidence::Running, Evidence::Interrupted, Evidence::Unknown("the stream broke".into())]
    {
        assert!(!converts(&after(evidence.clone())), "{evidence:?}");
    }
    // Its container is another one by now.
    let mut restarted = ended(&s, &open, &plan.record, Evidence::Exited(0));
    let container = restarted.members[0].pod.as_mut().unwrap().containers.get_mut("db").unwrap();
    container.id = Some("next".into());
    assert!(converts(&decide(&restarted, &Natural)), "what it did is on the volume");
    restarted.evidence.insert(open.token.clone(), Evidence::Interrupted);
    let plan_again = decide(&restarted, &Natural);
    assert!(
        !converts(&plan_again) && plan_again.record.member(&db(0)).failures == 1,
        "a stop would have succeeded by that"
    );
    let mut gone = ended(&s, &open, &plan.record, Evidence::Exited(0));
    gone.ended.insert(open.pod_uid.clone());
    gone.members[0].pod = None;
    assert!(converts(&decide(&gone, &Natural)));
    gone.evidence.clear();
    assert!(!converts(&decide(&gone, &Natural)));
    // Never begun: nothing of it stays.
    let mut never = ended(&s, &open, &plan.record, Evidence::NotStarted("no such container".into()));
    never.now += 100;
    never.members[0].position = Position::NotAsked;
    let undone = decide(&never, &Natural);
    assert!(undone.record.member(&db(0)).failures == 1 && !converts(&undone));
    assert!(undone.record.intents.iter().all(|i| i.member != db(0)));
    assert_eq!(undone.record.member(&db(0)).started, None);
}

// Nothing starts on data that does not fit to its programs.
#[test]
fn nobody_starts_with_programs_of_another_version() {
    let s = stopped();
    assert_eq!(against(&s, Verb::Seed, 0), Some(Rule::NotConverted));
    let mut paused = s.clone();
    paused.group.update.mode = Mode::Paused;
    assert_eq!(against(&paused, Verb::Seed, 0), Some(Rule::NotConverted));
    (0..3).for_each(|ordinal| age(&mut paused, ordinal));
    assert_eq!(
        against(&paused, Verb::Seed, 0),
        None,
        "with the former template the group goes on while updates are paused"
    );
    let mut later = s.clone();
    later.record.version = Some("18".into());
    assert_eq!(against(&later, Verb::Seed, 0), Some(Rule::VersionTooLow));
    let plan = decide(&later, &Natural);
    assert_eq!(runs(&plan), []);
    assert!(plan.waits.iter().any(|w| w.reason == Reason::VersionTooLow && w.message.contains("version 18")));
    let mut on_primary = s.clone();
    on_primary.group.update.upgrade_on = UpgradeOn::Primary;
    assert_eq!(against(&on_primary, Verb::Seed, 0), None, "the application reads its former data");
    on_primary.record.version = Some("17".into());
    age(&mut on_primary, 0);
    assert_eq!(against(&on_primary, Verb::Seed, 0), Some(Rule::NotConverted), "and no later one");
    // The data was converted, and a pod is made of a template from before, which somebody wrote late: it goes, also while nobody serves.
    let mut late = s;
    late.record.version = Some("17".into());
    (0..3).for_each(|ordinal| age(&mut late, ordinal));
    assert_eq!(against(&late, Verb::Seed, 0), Some(Rule::NotConverted));
    let plan = decide(&late, &Natural);
    let deletes = |action: &Action| matches!(action, Action::DeletePod { member, .. } if *member == db(0));
    assert!(plan.actions.iter().any(deletes) && runs(&plan).is_empty());
    // Who runs goes on, and may take over.
    let mut world = due();
    world.group.update.mode = Mode::Paused;
    renew(&mut world, 1);
    world.serve(0, Role::Stopped);
    let s = world.observe();
    assert!(check::programs_fit(&s, &s.members[1]).is_ok());
    assert_ne!(against(&s, Verb::Failover, 1), Some(Rule::NotConverted));
}

// On a primary: once everybody has the template and nothing else is open.
#[test]
fn a_primary_converts_when_everybody_works_with_the_new_template() {
    let mut world = due();
    world.group.update.upgrade_on = UpgradeOn::Primary;
    for ordinal in 0..3 {
        renew(&mut world, ordinal);
    }
    let s = world.observe();
    let plan = decide(&s, &Natural);
    assert_eq!(runs(&plan), [(Verb::Upgrade, db(0))]);
    let open = begun(&plan);
    assert_eq!((open.term, open.version.as_deref()), (s.record.term, Some("17")));
    let then = Snapshot { record: plan.record.clone(), ..s.clone() };
    assert!(then.serves(&then.members[0]), "its clients stay with it");
    let rule = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = s.clone();
        change(&mut s);
        against(&s, Verb::Upgrade, 0)
    };
    let rest = |at: i64| FailedUpgrade { failures: 1, retry_at: Some(at) };
    let now = s.now;
    let open_switchover = Switchover {
        from: db(0),
        to: None,
        chosen: None,
        why: String::new(),
        term: 1,
        floor: None,
        begun: Some(now),
        led: None,
        failed: 0,
    };
    assert_eq!(rule(&|_| ()), None);
    assert_eq!(rule(&|s| age(s, 1)), Some(Rule::NotAtRest));
    let former = |s: &mut Snapshot| s.members[1].pod.as_mut().unwrap().programs = Some("15".into());
    assert_eq!(rule(&former), Some(Rule::NotAtRest), "it could not go on with the data");
    assert_eq!(rule(&|s| s.members[1].pod.as_mut().unwrap().ready = false), Some(Rule::NotAtRest));
    assert_eq!(rule(&|s| s.members[1].reading.role = Role::Stopped), Some(Rule::NotAtRest));
    assert_eq!(rule(&|s| s.members[0].reading.role = Role::Stopped), Some(Rule::NobodyServes));
    assert_eq!(rule(&|s| s.group.replicas = 4), Some(Rule::NotAtRest));
    assert_eq!(rule(&|s| s.record.intents.push(intent(s, Verb::Follow, 1))), Some(Rule::MemberBusy));
    assert_eq!(rule(&|s| s.record.switchover = Some(open_switchover.clone())), Some(Rule::NotAtRest));
    assert_eq!(rule(&|s| s.record.failed_upgrade = Some(rest(now + 1))), Some(Rule::BackOff));
    assert_eq!(rule(&|s| s.record.failed_upgrade = Some(rest(now))), None);
    assert_eq!(rule(&|s| s.group.update.mode = Mode::Paused), Some(Rule::AdministratorDecides));
    assert_eq!(rule(&|s| s.group.update.upgrade_on = UpgradeOn::StoppedMember), Some(Rule::NotAsked));
    assert_eq!(against(&s, Verb::Upgrade, 1), Some(Rule::WrongRole));
    let after = |evidence: Evidence| decide(&ended(&s, &open, &plan.record, evidence), &Natural).record;
    let done = after(Evidence::Exited(0));
    assert_eq!((done.version.as_deref(), done.failed_upgrade.clone()), (Some("17"), None));
    assert!((0..3).all(|ordinal| done.member(&db(ordinal)).version.as_deref() == Some("17")));
    let failed = after(Evidence::Exited(1));
    assert_eq!((failed.version.as_deref(), failed.failed_upgrade.clone()), (Some("15"), Some(rest(now + 11))));
    assert_eq!(failed.member(&db(0)).broken, None, "who executed it is well");
    let told = Snapshot { record: failed.clone(), ..s.clone() };
    assert!(
        decide(&told, &Natural)
            .waits
            .iter()
            .any(|w| w.reason == Reason::UpdateStuck && w.message.contains("failures: 1"))
    );
    let unknown = after(Evidence::Interrupted);
    assert_eq!((unknown.version.as_deref(), unknown.failed_upgrade.is_some()), (Some("15"), true));
}

// The version of the data is what the user says until there is data of the group, and then what was converted.
#[test]
fn who_names_a_version_for_the_first_time_says_of_which_the_data_is() {
    let mut world = due();
    world.record.version = None;
    let plan = decide(&world.observe(), &Natural);
    assert_eq!(plan.record.version.as_deref(), Some("17"));
    assert!((0..3).all(|ordinal| plan.record.member(&db(ordinal)).version.as_deref() == Some("17")));
    world.record.version = Some("15".into());
    assert_eq!(decide(&world.observe(), &Natural).record.version.as_deref(), Some("15"));
    world.group.commands.upgrade = None;
    assert_eq!(decide(&world.observe(), &Natural).record.version.as_deref(), Some("15"), "its programs do not run yet");
    renew(&mut world, 0);
    assert_eq!(decide(&world.observe(), &Natural).record.version.as_deref(), Some("17"), "it converts its data itself");
    world.group.version = Some("9".into());
    assert_eq!(decide(&world.observe(), &Natural).record.version.as_deref(), Some("15"), "and not back");
    world.body(0).pod.programs = Some("9".into());
    assert_eq!(decide(&world.observe(), &Natural).record.version.as_deref(), Some("15"), "whatever runs");
    // The first data is of the version of the programs that make it, whatever the user wants by then.
    let mut fresh = World::new(3, 1);
    fresh.group.commands.upgrade = Some(command("upgrade"));
    fresh.group.version = Some("17".into());
    assert_eq!(decide(&fresh.observe(), &Natural).record.version, None);
    (0..3).for_each(|ordinal| fresh.body(ordinal).pod.programs = Some("15".into()));
    while fresh.record.ever_seeded.is_none() {
        fresh.round(&Natural);
    }
    assert_eq!(fresh.record.version.as_deref(), Some("15"));
    assert_eq!(decide(&fresh.observe(), &Natural).record.version.as_deref(), Some("15"));
}

// The first seed was begun and wrote nothing: its empty volume needs no conversion, and one that may have data is converted.
#[test]
fn a_first_seed_that_came_to_nothing_has_nothing_to_convert() {
    let mut s = stopped();
    s.record.ever_seeded = Some(Seeded { member: db(0), confirmed: false });
    s.record.high_water = None;
    s.record.members.clear();
    for member in &mut s.members {
        member.position = Position::Empty;
    }
    assert_eq!(decide(&s, &Natural).record.version.as_deref(), Some("17"));
    let mut wrote = s.clone();
    wrote.members[0].position = Position::Known(sequence("1"));
    let started = Started { term: 1, target: true, before: Position::Empty, followed: false, peer_stopped: false };
    wrote.record.member_mut(&db(0)).started = Some(started);
    let plan = decide(&wrote, &Natural);
    assert_eq!((plan.record.version.as_deref(), runs(&plan)), (Some("15"), vec![(Verb::Convert, db(0))]));
    let order = SeedOrder::of(&s);
    assert_eq!(check::convert_member(&s, &order, &s.members[0]).map_err(|v| v.rule), Err(Rule::EmptyMember));
    // Where the application reads former data it is seeded once more, and its data stays what it was.
    wrote.group.update.upgrade_on = UpgradeOn::Primary;
    let plan = decide(&wrote, &Natural);
    assert_eq!((plan.record.version.as_deref(), runs(&plan)), (Some("15"), vec![(Verb::Seed, db(0))]));
}

// Claims say of which version the data is, for a status that is lost: that of the latest term, and in it the later one.
#[test]
fn claims_remember_the_version() {
    let mut record = due().record;
    record.member_mut(&db(0)).version = Some("17".into());
    let mark = |member: u32, term: u64, version: &str| {
        let mut record = record.clone();
        let known = record.member_mut(&db(member));
        (known.term, known.version) = (Some(term), Some(version.to_owned()).filter(|v| !v.is_empty()));
        let mark = claim_mark(&record, "db", &db(member));
        let claim = Claim {
            name: format!("data-db-{member}"),
            uid: format!("c{member}"),
            version: "1".into(),
            mark,
            start: None,
            room: None,
        };
        (db(member), claim)
    };
    let recalled = |claims: &[(MemberName, Claim)]| {
        let claims = claims.iter().map(|(member, claim)| (member, claim));
        recall(Record::default(), "db", claims).version
    };
    let is = |version: &str| Some(version.to_owned());
    assert_eq!(recalled(&[mark(0, 2, "17"), mark(1, 1, "15")]), is("17"));
    assert_eq!(recalled(&[mark(0, 1, "17"), mark(1, 2, "15")]), is("15"), "17 was given up");
    assert_eq!(recalled(&[mark(0, 1, "15"), mark(1, 1, "17")]), is("17"), "a primary converted it");
    assert_eq!(recalled(&[mark(0, 1, "17"), mark(1, 1, "15")]), is("17"));
    assert_eq!(recalled(&[mark(0, 1, "15"), mark(1, 3, "")]), is("15"));
    assert_eq!(recalled(&[mark(0, 1, "")]), None);
    let known = Record { version: is("9"), ..record.clone() };
    let claim = mark(0, 1, "17");
    assert_eq!(recall(known, "db", [(&claim.0, &claim.1)]).version, is("9"), "the record knows it");
}

// Commands get the version of the data, in a decision and when they only ask.
#[test]
fn commands_are_told_the_version_of_the_data() {
    let s = stopped();
    let plan = decide(&s, &Natural);
    let env = plan.actions.iter().find_map(|a| if let Action::Run { env, .. } = a { Some(env.clone()) } else { None });
    assert_eq!(env, Some(vec!["TANIST_VERSION=15".to_owned()]));
    assert_eq!(tanist_core::state::environment(&s), ["TANIST_VERSION=15"]);
    let mut none = s;
    none.record.version = None;
    assert_eq!(tanist_core::state::environment(&none), [""; 0]);
}

// The arguments of the command.
#[test]
fn both_versions_are_arguments() {
    let argv = |exec: &[&str]| {
        let mut s = stopped();
        s.group.commands.upgrade.as_mut().unwrap().exec = exec.iter().map(ToString::to_string).collect();
        let plan = decide(&s, &Natural);
        plan.actions.iter().find_map(|a| if let Action::Run { argv, .. } = a { Some(argv.join(" ")) } else { None })
    };
    assert_eq!(argv(&["up"]).as_deref(), Some("up 15 17"));
    assert_eq!(argv(&["up", "--to", "$(TO)"]).as_deref(), Some("up --to 17"));
    assert_eq!(argv(&["up", "$(TO)", "$(FROM)", "-v"]).as_deref(), Some("up 17 15 -v"));
}

// A start that the record lost makes no second one beside it (S32): its note on the claim says that it converts.
#[test]
fn a_conversion_that_the_record_lost_is_awaited() {
    assert!(Verb::Convert.makes_primary() && Verb::Convert.may_lead() && Verb::Convert.opens_term());
    assert!(Verb::token_makes_primary(&Verb::Convert.token(1, "n")) && !Verb::Convert.stops());
    assert!(Verb::Halt.stops() && Verb::Convert.intended() == Role::Stopped);
    let s = stopped();
    let plan = decide(&s, &Natural);
    let open = begun(&plan);
    let note = tanist_core::memory::start_note(&s, &plan.record, &open).unwrap();
    let claim = |mark| Claim {
        name: "data-db-0".into(),
        uid: "c0".into(),
        version: "1".into(),
        mark,
        start: Some(note.clone()),
        room: None,
    };
    let recalled = |mark| recall(Record::default(), "db", [(&db(0), &claim(mark))]);
    assert_eq!(recalled(None).intents, std::slice::from_ref(&open));
    let done = decide(&ended(&s, &open, &plan.record, Evidence::Exited(0)), &Natural).record;
    let mark = claim_mark(&done, "db", &db(0));
    assert_eq!(recalled(mark).intents, [], "the claim says that it worked");
    let before = claim_mark(&s.record, "db", &db(0));
    assert_eq!(recalled(before).intents, [open]);
}
