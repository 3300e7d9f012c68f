//! How the data is converted to a later version of the application, and what is known of it afterwards (docs/rules.md, "Major versions").
use super::super::support::policies::Natural;
use super::super::support::setting::command;
use super::super::support::world::World;
use super::super::support::{db, sequence};
use super::checks::{against, intent};
use super::upgrade::{age, begun, due, ended, renew, runs, stopped};
use tanist_core::check::{self, Rule, SeedOrder};
use tanist_core::checked::recheck;
use tanist_core::contract::{MemberName, Position, Role};
use tanist_core::decide::decide;
use tanist_core::memory::{claim_mark, recall};
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::record::{FailedUpgrade, Intent, Record, Seeded, Started, Switchover, Verb};
use tanist_core::snapshot::{Claim, Evidence, Mode, Override, Snapshot, UpgradeOn};

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

// The lost primary has the latest data, and a pod with programs of a version that the user took back: it gets another one although secondaries run, for they wait for it (simulator, seed 58384752).
#[test]
fn who_lacks_the_programs_for_its_data_gets_them_beside_secondaries() {
    let mut world = due();
    world.record.version = Some("17".into());
    (0..3).for_each(|ordinal| renew(&mut world, ordinal));
    world.serve(0, Role::Stopped);
    let mut s = world.observe();
    s.record.last_primaries.clear();
    age(&mut s, 0);
    let goes = |s: &Snapshot| check::update_idle(s, &s.members[0]).map_err(|v| v.rule);
    assert_eq!(goes(&s), Ok(()));
    let mut unclear = s.clone();
    unclear.members[1].reading.role = Role::Unknown;
    assert_eq!(goes(&unclear), Err(Rule::MayBePrimary));
    let mut converts = s.clone();
    converts.record.version = Some("15".into());
    assert_eq!(goes(&converts), Err(Rule::NotAllStopped), "for a conversion all stop first");
    renew(&mut world, 0);
    assert_eq!(goes(&world.observe()), Err(Rule::NotAtRest), "it has the programs");
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
    assert_eq!(rule(&|s| s.members[1].pod.as_mut().unwrap().older_template = true), Some(Rule::NotAtRest));
    // A pod with another runner is not replaced for that, and who is idle on purpose stays so.
    assert_eq!(rule(&|s| s.members[1].pod.as_mut().unwrap().outdated = true), None);
    let idle = |s: &mut Snapshot| {
        s.group.commands.secondary = None;
        s.members.iter_mut().skip(1).for_each(|member| member.reading.role = Role::Stopped);
    };
    assert_eq!(rule(&idle), None);
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
    (0..3).for_each(|ordinal| world.body(ordinal).pod.programs = None);
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

// A record that was lost, and that no claim tells: the data is of the version of the programs that work with it, whatever the user wants by now. Else nobody whose pod has these could be started again (simulator,
// seed 11923792).
#[test]
fn when_the_record_is_lost_the_data_is_of_the_version_of_what_runs() {
    let lost = |change: &dyn Fn(&mut World)| {
        let mut world = due();
        world.record = Record::default();
        change(&mut world);
        let plan = decide(&world.observe(), &Natural);
        assert!(plan.record.ever_seeded.is_some(), "it is adopted");
        assert_eq!(plan.record.member(&db(0)).version, plan.record.version);
        plan.record.version
    };
    assert_eq!(lost(&|_| ()).as_deref(), Some("15"));
    assert_eq!(lost(&|w| renew(w, 0)).as_deref(), Some("15"), "the earliest, whoever leads");
    assert_eq!(lost(&|w| (0..3).for_each(|ordinal| renew(w, ordinal))).as_deref(), Some("17"));
    let idle = |w: &mut World| {
        renew(w, 0);
        (1..3).for_each(|ordinal| w.serve(ordinal, Role::Stopped));
    };
    assert_eq!(lost(&idle).as_deref(), Some("17"), "what does not work with the data says nothing");
    assert_eq!(lost(&|w| (0..3).for_each(|ordinal| w.body(ordinal).pod.programs = None)).as_deref(), Some("17"));
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
    // A group whose first seed was never confirmed has nothing but the note of that start.
    let s = stopped();
    let plan = decide(&s, &Natural);
    let note = tanist_core::memory::start_note(&s, &plan.record, &begun(&plan));
    let (member, unmarked) = mark(0, 1, "");
    assert_eq!(recalled(&[(member, Claim { mark: None, start: note, ..unmarked })]), is("15"));
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
