//! What has to be read before a member takes over or begins, so that nothing that was acknowledged is lost (S8, S15).
use super::super::support::policies::Natural;
use super::super::support::{db, sequence};
use super::checks::intent;
use tanist_core::check::{FailoverOrder, Rule, SeedOrder};
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::examples::Scene;
use tanist_core::plan::Reason;
use tanist_core::record::{Started, Verb};
use tanist_core::snapshot::{Evidence, Snapshot};

/// The primary db-0 is lost with its pod; db-1 follows and has 95, db-2 follows and has 100.
fn lost() -> Snapshot {
    let scene = Scene::new(3).in_term(3).with_data(&["100", "95", "100"]);
    scene.with_roles(&[Role::Stopped, Role::Secondary, Role::Secondary]).led(0).gone(0).observed().clone()
}

/// Why nobody may take over. `None`: somebody may.
fn against(s: &Snapshot) -> Option<Rule> {
    FailoverOrder::of(s).group().err().map(|violation| violation.rule)
}

/// Why nobody may be the first primary.
fn against_seed(s: &Snapshot) -> Option<Rule> {
    SeedOrder::of(s).group().err().map(|violation| violation.rule)
}

/// The node of db-2 does not report.
fn without_db_2(mut s: Snapshot) -> Snapshot {
    s.members[2].position = Position::NotAsked;
    s.members[2].pod.as_mut().unwrap().phase = Phase::Unreachable;
    s
}

// S15: the number of `failover.reads` is meant for the desired members, and the lost primary is one of them, whether its data counts or not. db-2 leaves, and may have been the one that made a write count.
#[test]
fn the_lost_primary_is_one_of_the_desired_members() {
    let lost = |replicas: u32, prefer_running: bool| {
        let mut s = without_db_2(lost());
        (s.group.replicas, s.group.failover.reads, s.group.failover.prefer_running) =
            (replicas, Some(1), prefer_running);
        against(&s)
    };
    for prefer_running in [false, true] {
        assert_eq!(lost(2, prefer_running), Some(Rule::PositionUnknown), "one more follows");
    }
    assert_eq!(lost(3, true), None);
}

// S8: a position that was read while a primary served says nothing of what came since, whatever became of the member that said it.
#[test]
fn what_was_read_before_the_primary_was_lost_is_not_known() {
    let read = |is_stale: bool, phase: Phase| {
        let mut s = lost();
        let member = &mut s.members[2];
        (member.position, member.position_stale) = (Position::Known(sequence("90")), is_stale);
        member.pod.as_mut().unwrap().phase = phase;
        against(&s)
    };
    assert_eq!(read(false, Phase::Terminating), None);
    assert_eq!(read(true, Phase::Terminating), Some(Rule::PositionUnknown));
    assert_eq!(read(true, Phase::Running), None, "it is asked anew");
}

// S15, L-F: who only joins holds up nobody. But where the user says how many have to be read, its program may have made a write count before it served anybody.
#[test]
fn a_program_that_starts_may_have_received_writes() {
    let joins = |reads: Option<u32>, role: Role, evidence: Evidence| {
        let mut s = lost();
        s.members[2].reading.role = role;
        (s.members[2].position, s.group.failover.reads) = (Position::NotAsked, reads);
        let placed = intent(&s, Verb::Place, 2);
        s.record.intents.push(placed);
        s.evidence.insert("t".into(), evidence);
        let before = Position::Known(sequence("90"));
        let memory = s.record.member_mut(&db(2));
        memory.last_command = Some("secondary".into());
        memory.started = Some(Started { term: 3, target: false, before, followed: false, peer_stopped: false });
        against(&s)
    };
    let running = || Evidence::Running;
    assert_eq!(joins(None, Role::Starting, running()), None);
    assert_eq!(joins(Some(2), Role::Starting, running()), Some(Rule::PositionUnknown));
    assert_eq!(joins(Some(2), Role::Stopped, running()), None, "it copies, and nothing runs");
    assert_eq!(joins(None, Role::Starting, Evidence::Exited(0)), None);
    assert_eq!(joins(Some(2), Role::Starting, Evidence::Exited(0)), Some(Rule::PositionUnknown));
}

// S15: a volume that broke may look empty. Who was primary last and says so, on the volume that it had, is not passed over for members that were stopped before it.
#[test]
fn a_last_primary_without_data_is_not_passed_over() {
    let group = |data: [&str; 3], change: &dyn Fn(&mut Snapshot)| {
        let scene = Scene::new(3).in_term(3).with_data(&data);
        let mut s = scene.with_roles(&[Role::Stopped, Role::Stopped, Role::Stopped]).led(0).observed().clone();
        s.record.last_primaries.clear();
        s.record.high_water = None;
        change(&mut s);
        against_seed(&s)
    };
    assert_eq!(group(["100", "90", "90"], &|_| ()), None);
    let empty = |s: &mut Snapshot| s.members[0].position = Position::Empty;
    assert_eq!(group(["100", "90", "90"], &empty), Some(Rule::EmptyMember));
    let waits = |s: &Snapshot| decide(s, &Natural).waits.iter().map(|wait| wait.reason).collect::<Vec<_>>();
    let scene = Scene::new(3).in_term(3).with_data(&["100", "90", "90"]);
    let mut s = scene.with_roles(&[Role::Stopped, Role::Stopped, Role::Stopped]).led(0).observed().clone();
    s.record.last_primaries.clear();
    empty(&mut s);
    assert_eq!(waits(&s), [Reason::ClaimChanged], "an administrator decides");
    let without_volumes = |s: &mut Snapshot| {
        empty(s);
        s.members[0].claims.clear();
        s.record.member_mut(&db(0)).claim_uid = None;
    };
    assert_eq!(group(["100", "90", "90"], &without_volumes), None, "its data went with its pod");
    let with_another = |s: &mut Snapshot| {
        empty(s);
        s.record.member_mut(&db(1)).primary_term = Some(3);
    };
    assert_eq!(group(["100", "90", "90"], &with_another), None, "db-1 led as well");
    let followed = |s: &mut Snapshot| {
        s.record.member_mut(&db(1)).primary_term = Some(3);
        s.members[1].position = Position::Empty;
        s.record.member_mut(&db(0)).followed_since = true;
    };
    assert_eq!(group(["100", "90", "90"], &followed), Some(Rule::EmptyMember), "db-1 led after db-0");
    let all = |s: &mut Snapshot| s.members.iter_mut().for_each(|m| m.position = Position::Empty);
    assert_eq!(group(["100", "90", "90"], &all), None, "each member says that for itself");
}
