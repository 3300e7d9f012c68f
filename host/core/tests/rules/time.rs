//! Time and what rests on it: proofs, stored times, and positions (docs/safety.md, S28).
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::super::support::{db, sequence};
use tanist_core::check::{Rule, SeedOrder, start};
use tanist_core::contract::{Failure, Outcome, Position};
use tanist_core::decide::decide;
use tanist_core::evidence::Commands;
use tanist_core::limits;
use tanist_core::over::prove_over;
use tanist_core::plan::Action;
use tanist_core::record::{Event, Intent, LastPrimary, Record, Switchover, Verb};
use tanist_core::snapshot::{Evidence, Override, Snapshot};

/// Two stopped members of the same data, read.
fn read() -> Snapshot {
    let mut world = World::new(2, 1);
    world.remember(0, 1, "5");
    world.remember(1, 1, "5");
    world.round(&Natural);
    world.observe()
}

fn seed(s: &Snapshot) -> Option<Rule> {
    let pod = s.members[0].pod.clone().unwrap();
    let intent = Intent {
        token: "t".into(),
        verb: Verb::Seed,
        command: "primary".into(),
        member: db(0),
        target: None,
        pod_uid: pod.uid,
        container: "db".into(),
        container_id: pod.containers["db"].id.clone().unwrap(),
        generation: 1,
        started: s.now,
        timeout: 60,
        term: 2,
        again: false,
        exited: None,
        version: None,
        had_role: false,
    };
    start(s, &intent).err().map(|v| v.rule)
}

// A member that is stopped now may have run in between.
#[test]
fn a_seed_rests_on_positions_read_since_the_primary_was_lost() {
    let s = read();
    assert_eq!(seed(&s), None);
    for moved in [0, 1] {
        let mut s = s.clone();
        s.members[moved].position_stale = true;
        assert_eq!(seed(&s), Some(Rule::PositionUnknown), "db-{moved}");
        let plan = decide(&s, &Natural);
        let count = |wanted: fn(&Action) -> bool| plan.actions.iter().filter(|a| wanted(a)).count();
        let (reads, runs) = (count(|a| matches!(a, Action::Read { .. })), count(|a| matches!(a, Action::Run { .. })));
        assert_eq!((reads, runs), (1, 0), "it is read once more, and nobody is started");
    }
}

// An override is compared with the present position, not with an earlier one.
#[test]
fn an_override_rests_on_a_position_read_since_the_primary_was_lost() {
    let mut s = read();
    let position = Position::Known(sequence("5"));
    s.group.requested_override = Some(Override { member: db(0), position, term: 1, raw: "db-0 5 1".into() });
    assert_eq!(seed(&s), None);
    s.members[0].position_stale = true;
    assert_eq!(SeedOrder::of(&s).member(&s.members[0]).err().map(|v| v.rule), Some(Rule::PositionUnknown));
}

// Histories are compared only after positions were read again, before an administrator is asked to decide.
#[test]
fn histories_read_before_are_read_anew() {
    let mut s = read();
    s.members[1].position = Position::Known(sequence("b:5"));
    assert_eq!(SeedOrder::of(&s).group().err().map(|v| v.rule), Some(Rule::HistoriesDiffer));
    s.members[1].position_stale = true;
    assert_eq!(SeedOrder::of(&s).group(), Ok(()));
    assert!(decide(&s, &Natural).actions.iter().any(|a| matches!(a, Action::Read { .. })));
}

/// A primary with a grace of 600 s, whose pod was noted as gone at that time.
fn vanished(at: i64) -> LastPrimary {
    LastPrimary {
        member: db(0),
        pod_uid: "gone".into(),
        container: "db".into(),
        container_id: "c".into(),
        node: Some("node-0".into()),
        grace: 600,
        gone: Some(at),
    }
}

// S28, Over: stored times and times of other clocks prove nothing before this process has seen the node report for as long as it has to stay Ready.
#[test]
fn a_node_has_to_be_seen_to_report() {
    let mut s = read();
    let last = vanished(s.now - 5000);
    assert_eq!(prove_over(&s, &last), Ok("its pod is gone and its node stayed Ready"));
    let now = s.now;
    s.nodes.as_mut().unwrap().get_mut("node-0").unwrap().seen = now;
    assert_eq!(prove_over(&s, &last).err().and_then(|not| not.until), Some(now + 630), "its kubelet may hear now");
    s.now += 630;
    assert!(prove_over(&s, &last).is_err(), "the node was read before that, and may be silent since");
    s.nodes_at = s.now;
    assert!(prove_over(&s, &last).is_ok());
    s.nodes.as_mut().unwrap().get_mut("node-0").unwrap().since = s.now;
    assert_eq!(prove_over(&s, &last).err().and_then(|not| not.until), Some(s.now + 630), "it was silent in between");
}

// S28: what a process noted that ended before this one began may be of a clock that was far behind.
#[test]
fn a_process_waits_itself_for_what_another_one_noted() {
    let mut s = read();
    let noted = s.now - 86_400;
    s.began = s.now - 10;
    let last = vanished(noted);
    assert_eq!(prove_over(&s, &last).err().and_then(|not| not.until), Some(s.began + 690), "its processes may end");
    let pod = s.members[0].pod.clone().unwrap();
    let open = Intent {
        token: "t".into(),
        verb: Verb::Seed,
        command: "primary".into(),
        member: db(0),
        target: None,
        pod_uid: pod.uid.clone(),
        container: "db".into(),
        container_id: pod.containers["db"].id.clone().unwrap(),
        generation: 1,
        started: noted,
        timeout: 60,
        term: 2,
        again: false,
        exited: None,
        version: None,
        had_role: false,
    };
    s.record.intents.push(open);
    s.evidence.insert("t".into(), Evidence::Unknown("the stream broke".into()));
    let deletes = |s: &Snapshot| decide(s, &Natural).actions.iter().any(|a| matches!(a, Action::DeletePod { .. }));
    let last_resort = s.began + 60 + i64::from(s.group.unknown_grace);
    s.now = last_resort - 1;
    assert!(!deletes(&s), "it may still be starting");
    s.now = last_resort;
    assert!(deletes(&s));
    // Its own deadline counts from its start, which may come later than the note: so long it has in any case.
    s.group.unknown_grace = 0;
    s.now = s.began + 60 + limits::BEGIN_SECONDS - 1;
    assert!(!deletes(&s), "it may have begun a moment ago");
    s.now += 1;
    assert!(deletes(&s));
}

// S28, P19: times of a clock that was ahead are corrected when they are read; times in the past stay.
#[test]
fn stored_times_are_never_later_than_now() {
    let mut world = World::new(1, 1);
    world.remember(0, 1, "5");
    world.round(&Natural);
    let (_, plan, _) = world.round(&Natural);
    assert!(!plan.record.last_primaries.is_empty() && !plan.record.intents.is_empty());
    let at = |time: i64| {
        let mut record: Record = plan.record.clone();
        record.last_primaries.iter_mut().for_each(|l| l.gone = Some(time));
        record.intents.iter_mut().for_each(|i| (i.started, i.exited) = (time, Some(time)));
        record.note(time, Event::CommandStarted, None, None);
        let failure = Failure { command: "primary".into(), outcome: Outcome::Unknown, at: time };
        let known = record.member_mut(&db(0));
        (known.last_primary, known.last_failure) = (Some(time), Some(failure));
        (known.retry_at, known.treat_at) = (Some(time), Some(time));
        let (from, why) = (db(0), String::new());
        record.switchover = Some(Switchover {
            from,
            to: None,
            chosen: None,
            why,
            term: 1,
            floor: None,
            begun: Some(time),
            led: None,
            failed: 0,
        });
        record.waiting_since = Some(time);
        record
    };
    let now = 1_000_000;
    let mut ahead = at(now + 3600);
    ahead.clamp(now, now);
    let mut wanted = at(now);
    let known = wanted.member_mut(&db(0));
    (known.retry_at, known.treat_at) =
        (Some(now + limits::BACKOFF_FIRST_SECONDS), Some(now + limits::BACKOFF_FIRST_SECONDS));
    assert_eq!(ahead, wanted);
    for (failures, pause) in [(1, 10), (2, 20), (3, 40), (20, limits::BACKOFF_LONGEST_SECONDS)] {
        let mut record = at(now + 3600);
        let known = record.member_mut(&db(0));
        (known.failures, known.treated) = (failures, failures + limits::FREE_TREATMENTS - 1);
        record.clamp(now, now);
        let known = record.member(&db(0));
        assert_eq!((known.retry_at, known.treat_at), (Some(now + pause), Some(now + pause)), "{failures}");
    }
    let (mut past, before) = (at(now - 3600), at(now - 3600));
    past.clamp(now, now);
    assert_eq!(past, before);
    let mut resting = Record::default();
    resting.member_mut(&db(0)).retry_at = Some(now + 7);
    resting.clamp(now, now);
    assert_eq!(resting.member(&db(0)).retry_at, Some(now + 7), "a back-off in its bounds stays");
}

// S28: what was noted by a clock that is ahead happened before this process began to look, so that no rest after it lasts longer than it should.
#[test]
fn what_was_noted_ahead_of_time_is_over_when_a_process_begins() {
    let noted = |at| {
        let mut record = Record::default();
        record.note(at, Event::Stopped, None, None);
        record.clamp(1000, 400);
        record.history[0].at
    };
    assert_eq!([1001, 1000, 500, 300].map(noted), [400, 1000, 500, 300]);
}

// S28: a verdict that nobody takes back rests on time in which this process has looked itself, whatever the clock of the one before said.
#[test]
fn only_what_a_process_saw_itself_counts() {
    let s = Snapshot { now: 1000, began: 400, ..read() };
    assert_eq!([300, 400, 500, 1001].map(|at| s.counts_from(at)), [400, 400, 500, 1000]);
}

// S28: another process began commands by a clock that was a day behind. Each has its own time under the eyes of this process, and a role is awaited anew; times that
// this process can have seen stay.
#[test]
fn a_command_of_another_process_has_its_time_whatever_its_clock_said() {
    let (now, grace, day) = (1_000_000, 900, 86_400);
    let open = |token: &str, started, exited| Intent {
        token: token.into(),
        verb: Verb::Place,
        command: "secondary".into(),
        member: db(0),
        target: None,
        pod_uid: "u0".into(),
        container: "db".into(),
        container_id: "c".into(),
        generation: 1,
        started,
        timeout: 60,
        term: 1,
        again: false,
        had_role: false,
        exited,
        version: None,
    };
    let read = || vec![open("old", now - day, Some(now - day)), open("new", now - 5, None)];
    let last_resort = |intent: &Intent| intent.started + i64::from(intent.timeout) + i64::from(grace);
    let mut commands = Commands::default();
    let mut intents = read();
    commands.watch(&mut intents, grace, now);
    assert_eq!(last_resort(&intents[0]), now + 60);
    assert_eq!(intents[0].exited, Some(now));
    assert_eq!((intents[1].started, intents[1].exited), (now - 5, None));
    let mut later = read();
    commands.watch(&mut later, grace, now + 50);
    assert_eq!(later, intents, "time goes on");
    commands.watch(&mut [], grace, now + 51);
    let mut again = read();
    commands.watch(&mut again, grace, now + 52);
    assert_eq!(last_resort(&again[0]), now + 52 + 60, "what is closed is forgotten");
}
