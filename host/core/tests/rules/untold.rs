//! Secondaries that were not told whom to follow in the present term, and may follow its primary all the same (docs/rules.md, "Term"; docs/safety.md, S15; simulator, seed 262736218).
use super::super::support::policies::Natural;
use super::super::support::{db, sequence};
use tanist_core::check::{FailoverOrder, Rule, SeedOrder};
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::examples::Scene;
use tanist_core::record::{Record, Started, Untold, Verb};
use tanist_core::snapshot::Snapshot;

fn known(data: &str) -> Position {
    Position::Known(sequence(data))
}

/// db-0 led term 3 and is lost with its pod, db-1 follows in that term and has 95. db-2 runs with 100 since term 2.
fn lost(before: Position) -> Snapshot {
    let scene = Scene::new(3).in_term(3).with_data(&["100", "95", "100"]);
    let scene = scene.with_roles(&[Role::Stopped, Role::Secondary, Role::Secondary]).led(0).gone(0).of_term(2, 2);
    let mut s = scene.observed().clone();
    s.record.high_water = None;
    s.record.member_mut(&db(2)).untold = Some(Untold { term: 3, before });
    s
}

/// Why the member may not take over. `None`: it may.
fn against(s: &Snapshot, ordinal: usize) -> Option<Rule> {
    let order = FailoverOrder::of(s);
    order.group().and_then(|()| order.member(&s.members[ordinal])).err().map(|v| v.rule)
}

/// Which members are marked after this round, with the term and the position of before.
fn marked(record: &Record) -> Vec<(String, u64, Position)> {
    let mark = |(name, known): (&_, &tanist_core::record::MemberRecord)| {
        known.untold.as_ref().map(|mark| (ToString::to_string(name), mark.term, mark.before.clone()))
    };
    record.members.iter().filter_map(mark).collect()
}

// S15: its writes may be acknowledged. It leads nobody, because what it has may be mixed.
#[test]
fn it_blocks_a_takeover_with_less_and_does_not_win_it() {
    let s = lost(known("80"));
    assert_eq!((against(&s, 1), against(&s, 2)), (Some(Rule::BelowHighest), Some(Rule::Unconfirmed)));
    let mut s = lost(known("80"));
    s.members[1].position = known("100");
    assert_eq!(against(&s, 1), None, "nobody has more");
    s.members[2].position = Position::Unknown("no answer".into());
    assert_eq!(against(&s, 1), Some(Rule::PositionUnknown));
    s.group.failover.reads = Some(2);
    assert_eq!(against(&s, 1), Some(Rule::PositionUnknown), "db-0 and db-2 may both have a write that db-1 lacks");
}

// The data of an older term says nothing, whatever its number or its history.
#[test]
fn without_new_data_it_is_of_an_older_term() {
    for data in ["100", "old:100"] {
        let mut s = lost(known(data));
        s.members[2].position = known(data);
        assert_eq!((against(&s, 1), against(&s, 2)), (None, Some(Rule::OlderTerm)), "{data}");
        s.record.member_mut(&db(2)).untold = Some(Untold { term: 3, before: Position::NotAsked });
        assert!(against(&s, 1).is_some(), "{data}: nobody knows what it had");
        s.members[2].position_stale = true;
        assert!(against(&s, 1).is_some(), "{data}: it was not read since");
    }
}

// A takeover without effect leaves the order of before.
#[test]
fn a_mark_of_another_term_means_nothing() {
    for term in [2, 4] {
        let mut s = lost(Position::NotAsked);
        s.record.member_mut(&db(2)).untold = Some(Untold { term, before: Position::NotAsked });
        assert_eq!((against(&s, 1), against(&s, 2)), (None, Some(Rule::OlderTerm)), "{term}");
    }
}

// S16: what it had was on a volume that was replaced.
#[test]
fn its_volume_counts_like_that_of_a_follower() {
    let mut s = lost(known("80"));
    s.members[2].position = Position::Empty;
    let claim = s.members[2].claims.first_mut().unwrap();
    claim.uid = "another".into();
    assert_eq!(against(&s, 1), Some(Rule::ClaimChanged));
    s.record.member_mut(&db(2)).untold = None;
    assert_eq!(against(&s, 1), None);
}

// L-F: one that is being placed blocks only while it may have what others lack. What it had before that start may be of this term.
#[test]
fn what_it_had_before_its_start_counts() {
    let placed = |before: &str, mark: Option<Position>| {
        let mut s = lost(Position::NotAsked);
        (s.members[2].reading.role, s.members[2].position) = (Role::Starting, Position::NotAsked);
        let pod = s.members[2].pod.clone().unwrap();
        let status = s.group.commands.status.container.clone();
        let intent = serde_json::json!({
            "token": "place-9-a", "verb": "place", "command": "secondary", "member": "db-2", "podUid": pod.uid, "container": status,
            "containerId": pod.containers[&status].id, "generation": 1, "started": s.now, "timeout": 10, "term": 3
        });
        s.record.intents.push(serde_json::from_value(intent).unwrap());
        s.evidence.insert("place-9-a".into(), tanist_core::snapshot::Evidence::Running);
        let memory = s.record.member_mut(&db(2));
        memory.last_command = Some("secondary".into());
        memory.untold = mark.map(|before| Untold { term: 3, before });
        memory.started =
            Some(Started { term: 3, target: false, before: known(before), followed: false, peer_stopped: false });
        against(&s, 1)
    };
    assert_eq!(placed("100", None), None, "it was of an older term");
    assert_eq!(placed("100", Some(known("80"))), Some(Rule::PositionUnknown));
    assert_eq!(placed("100", Some(known("100"))), None, "it stood still");
    assert_eq!(placed("90", Some(known("80"))), None, "db-1 has more");
}

// S15: nor does the group begin anew from less when all are stopped.
#[test]
fn it_blocks_a_first_primary_with_less() {
    let group = |mark: Option<&str>| {
        let scene = Scene::new(3).in_term(3).with_data(&["95", "95", "100"]);
        let scene = scene.with_roles(&[Role::Stopped, Role::Stopped, Role::Stopped]).led(0).of_term(2, 2);
        let mut s = scene.observed().clone();
        s.record.high_water = None;
        s.record.member_mut(&db(2)).untold = mark.map(|before| Untold { term: 3, before: known(before) });
        s
    };
    let against = |s: &Snapshot, ordinal: usize| {
        let order = SeedOrder::of(s);
        order.group().and_then(|()| order.member(&s.members[ordinal])).err().map(|v| v.rule)
    };
    let s = group(Some("80"));
    assert_eq!((against(&s, 0), against(&s, 2)), (Some(Rule::BelowHighest), Some(Rule::Unconfirmed)));
    let mut s = group(Some("80"));
    s.members[2].position = Position::Unknown("no answer".into());
    assert_eq!(against(&s, 0), Some(Rule::PositionUnknown));
    assert_eq!(against(&group(None), 0), None);
    // Stopped with the data of before: the mark goes, and then the seed begins.
    let plan = decide(&group(Some("100")), &Natural);
    assert_eq!(marked(&plan.record), []);
    assert_eq!(
        plan.record.intents.iter().map(|i| (i.verb, i.member.clone())).collect::<Vec<_>>(),
        [(Verb::Seed, db(0))]
    );
    assert_eq!(marked(&decide(&group(Some("80")), &Natural).record).len(), 1);
}

// S15: from the moment in which the new primary leads all others that may run may follow it. One that is proven stopped does not.
#[test]
fn a_takeover_marks_all_others_that_may_run() {
    let scene = Scene::new(5).in_term(3).with_data(&["100"; 5]);
    let scene = scene.with_roles(&[Role::Stopped, Role::Secondary, Role::Secondary, Role::Stopped, Role::Secondary]);
    let mut s = scene.led(0).gone(0).reads(2).observed().clone();
    s.members[4].pod.iter_mut().for_each(|pod| pod.phase = Phase::Unreachable);
    s.members[4].position = Position::NotAsked;
    let plan = decide(&s, &Natural);
    assert_eq!(
        plan.record.intents.iter().map(|i| (i.verb, i.member.clone())).collect::<Vec<_>>(),
        [(Verb::Failover, db(1))]
    );
    assert_eq!(marked(&plan.record), [("db-2".into(), 4, known("100")), ("db-4".into(), 4, Position::NotAsked)]);
}

// What did not change since an earlier mark did not change since the next one.
#[test]
fn a_later_mark_keeps_the_earliest_position() {
    let mut s = lost(known("80"));
    s.members[1].position = known("100");
    let plan = decide(&s, &Natural);
    assert_eq!(marked(&plan.record), [("db-2".into(), 4, known("80"))]);
}

// One that was started by a user, or whose mark was lost, is marked when it is seen. Being told ends it.
#[test]
fn who_is_seen_beside_a_primary_is_marked_until_it_is_told() {
    let scene = Scene::new(3).in_term(3).with_data(&["100", "95", "100"]);
    let scene = scene.with_roles(&[Role::Primary, Role::Secondary, Role::Secondary]).of_term(2, 2);
    let mut s = scene.observed().clone();
    // It rests after a failure, so it is not told in this round.
    s.record.member_mut(&db(2)).retry_at = Some(s.now + 60);
    assert_eq!(marked(&decide(&s, &Natural).record), [("db-2".into(), 3, Position::NotAsked)]);
    let mut told = decide(&s, &Natural).record;
    told.member_mut(&db(2)).record_success();
    assert_eq!(marked(&told), []);
    // Nobody leads whom it could follow.
    s.members[0].reading.role = Role::Failed;
    assert_eq!(marked(&decide(&s, &Natural).record), []);
}

// Members that agree choose themselves whom they follow.
#[test]
fn members_that_agree_are_not_marked() {
    let scene = Scene::new(3).in_term(3).agreeing(&[0, 1, 2]);
    let scene = scene.with_roles(&[Role::Primary, Role::Secondary, Role::Secondary]).of_term(2, 2);
    let s = scene.observed().clone();
    assert_eq!(marked(&decide(&s, &Natural).record), []);
}
