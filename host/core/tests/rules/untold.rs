//! Secondaries that were not told whom to follow in the present term, and may follow its primary all the same (docs/rules.md, "Term"; docs/safety.md, S15; simulator, seed 262736218).
use super::super::support::policies::Natural;
use super::super::support::{db, sequence};
use tanist_core::check::{FailoverOrder, Rule, SeedOrder};
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::examples::Scene;
use tanist_core::memory;
use tanist_core::record::{Intent, LastPrimary, Record, Started, Untold, Verb};
use tanist_core::snapshot::{Evidence, Override, Snapshot};

fn known(data: &str) -> Position {
    Position::Known(sequence(data))
}

/// Marks the member as one that may have followed the primary of that term, and had this before.
fn mark(s: &mut Snapshot, ordinal: u32, term: u64, before: Position) {
    let member = s.members.iter().find(|m| m.ordinal == ordinal);
    let claims = member.and_then(|member| memory::claim_uids(&member.claims));
    s.record.member_mut(&db(ordinal)).untold = Some(Untold { term, before, claims, earlier: None });
}

/// An open command that makes that member a secondary, begun in that term.
fn place(s: &Snapshot, ordinal: usize, term: u64) -> Intent {
    let (member, status) = (&s.members[ordinal], &s.group.commands.status.container);
    let pod = member.pod.as_ref().unwrap();
    let intent = serde_json::json!({
        "token": "place-9-a", "verb": "place", "command": "secondary", "member": member.name, "podUid": pod.uid, "container": status,
        "containerId": pod.containers[status].id, "generation": 1, "started": s.now, "timeout": 10, "term": term
    });
    serde_json::from_value(intent).unwrap()
}

fn started(term: u64, before: Position) -> Option<Started> {
    Some(Started { term, target: false, before, followed: false, peer_stopped: false })
}

/// db-0 led term 3 and is lost with its pod, db-1 follows in that term and has 95. db-2 runs with 100 since term 2.
fn lost(before: Position) -> Snapshot {
    let scene = Scene::new(3).in_term(3).with_data(&["100", "95", "100"]);
    let scene = scene.with_roles(&[Role::Stopped, Role::Secondary, Role::Secondary]).led(0).gone(0).of_term(2, 2);
    let mut s = scene.observed().clone();
    s.record.high_water = None;
    mark(&mut s, 2, 3, before);
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
        s.members[2].position_stale = true;
        assert_ne!(against(&s, 2), Some(Rule::OlderTerm), "{data}: it was not read since");
        s.members[2].position_stale = false;
        mark(&mut s, 2, 3, Position::NotAsked);
        assert!(against(&s, 1).is_some(), "{data}: nobody knows what it had");
    }
}

// A takeover without effect leaves the order of before. So do the marks of before.
#[test]
fn a_mark_counts_in_its_term() {
    for (term, first, counts) in
        [(2, None, false), (4, None, false), (4, Some(3), true), (4, Some(2), true), (5, Some(4), false)]
    {
        let mut s = lost(Position::NotAsked);
        mark(&mut s, 2, term, known("100"));
        let untold = s.record.member_mut(&db(2)).untold.as_mut().unwrap();
        let claims = untold.claims.clone();
        untold.earlier = first.map(|term| Box::new(Untold { term, before: known("80"), claims, earlier: None }));
        let bars = (Some(Rule::BelowHighest), Some(Rule::Unconfirmed));
        let expected = if counts { bars } else { (None, Some(Rule::OlderTerm)) };
        assert_eq!((against(&s, 1), against(&s, 2)), expected, "{term} {first:?}");
    }
}

// S16: what it had was on a volume that was replaced. One that is new on its volume, or was rebuilt, had nothing else.
#[test]
fn its_volume_counts_like_that_of_a_follower() {
    let replace = |s: &mut Snapshot| s.members[2].claims.first_mut().unwrap().uid = "another".into();
    let mut s = lost(known("80"));
    s.members[2].position = Position::Empty;
    replace(&mut s);
    assert_eq!(against(&s, 1), Some(Rule::ClaimChanged));
    mark(&mut s, 2, 3, Position::Empty);
    assert_eq!(against(&s, 1), None, "it has that volume since before");
    s.record.member_mut(&db(2)).untold = None;
    assert_eq!(against(&s, 1), None);
    // Empty again on another volume is not the same.
    let mut s = lost(Position::Empty);
    s.members[2].position = Position::Empty;
    assert_eq!(against(&s, 2), Some(Rule::OlderTerm));
    replace(&mut s);
    assert_eq!(against(&s, 1), Some(Rule::ClaimChanged));
}

// L-F: one that is being placed blocks only while it may have what others lack. What it had before that start may be of this term.
#[test]
fn what_it_had_before_its_start_counts() {
    let placed = |before: &str, mark: Option<Position>| {
        let mut s = lost(Position::NotAsked);
        (s.members[2].reading.role, s.members[2].position) = (Role::Starting, Position::NotAsked);
        let intent = place(&s, 2, 3);
        s.record.intents.push(intent);
        s.evidence.insert("place-9-a".into(), Evidence::Running);
        match mark {
            Some(before) => self::mark(&mut s, 2, 3, before),
            None => s.record.member_mut(&db(2)).untold = None,
        }
        let memory = s.record.member_mut(&db(2));
        (memory.last_command, memory.started) = (Some("secondary".into()), started(3, known(before)));
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
        mark.into_iter().for_each(|before| self::mark(&mut s, 2, 3, known(before)));
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
    // The same number on another volume is not the same data.
    let mut s = group(Some("100"));
    s.members[2].claims.first_mut().unwrap().uid = "another".into();
    assert_eq!(marked(&decide(&s, &Natural).record).len(), 1);
}

// S15: from the moment in which the new primary leads all others may follow it, but those that are proven to be stopped: one that cannot be reached, one whose pod is gone from a node that does not report, and one on which
// a command runs that starts it.
#[test]
fn a_takeover_marks_all_others_that_may_run() {
    let scene = Scene::new(6).in_term(3).with_data(&["100"; 6]);
    let stopped = Role::Stopped;
    let scene = scene.with_roles(&[stopped, Role::Secondary, Role::Secondary, stopped, Role::Secondary, stopped]);
    let mut s = scene.led(0).gone(0).reads(2).observed().clone();
    s.members[4].pod.iter_mut().for_each(|pod| pod.phase = Phase::Unreachable);
    s.members[4].position_stale = true;
    s.record.intents.push(place(&s, 5, 3));
    s.evidence.insert("place-9-a".into(), Evidence::Running);
    s.members[5].position = Position::NotAsked;
    let memory = s.record.member_mut(&db(5));
    (memory.last_command, memory.started) = (Some("secondary".into()), started(3, known("7")));
    let plan = decide(&s, &Natural);
    let begun = plan.record.intents.iter().map(|i| (i.verb, i.member.clone()));
    assert_eq!(begun.collect::<Vec<_>>(), [(Verb::Place, db(5)), (Verb::Failover, db(1))]);
    let expected = [("db-2", known("100")), ("db-4", known("100")), ("db-5", known("7"))];
    assert_eq!(marked(&plan.record), expected.map(|(name, before)| (name.into(), 4, before)));
    // It stops in a pod that is being deleted.
    s.members[3].pod.iter_mut().for_each(|pod| pod.phase = Phase::Terminating);
    assert_eq!(marked(&decide(&s, &Natural).record).len(), 3);
}

// S15, S20: a secondary is remembered where it ran when its node became silent, until that is proven over. Another pod that is gone ended with its node, or in order.
#[test]
fn whose_pod_is_gone_from_a_silent_node_may_follow_on() {
    let scene = Scene::new(3).in_term(3).with_data(&["100"; 3]);
    let scene = scene.with_roles(&[Role::Stopped, Role::Secondary, Role::Secondary]).led(0).gone(0).reads(1);
    let mut s = scene.observed().clone();
    let ran = |record: &Record| record.member(&db(2)).ran.is_some();
    assert!(!ran(&decide(&s, &Natural).record), "it can be asked");
    let reachable = s.members[2].pod.clone();
    s.members[2].pod.iter_mut().for_each(|pod| pod.phase = Phase::Unreachable);
    s.record = decide(&s, &Natural).record;
    assert!(ran(&s.record));
    let names =
        |s: &Snapshot| marked(&decide(s, &Natural).record).into_iter().map(|(name, ..)| name).collect::<Vec<_>>();
    s.record.intents.clear();
    s.record.last_primaries.clear();
    for member in ["db-1", "db-2"] {
        let known = s.record.member_mut(&member.into());
        (known.untold, known.started) = (None, None);
    }
    (s.members[2].pod, s.members[2].position) = (None, Position::NotAsked);
    s.nodes.iter_mut().flatten().filter(|(name, _)| *name == "node-3").for_each(|(_, node)| node.ready = false);
    assert_eq!(names(&s), ["db-2"]);
    s.record.member_mut(&db(2)).ran = None;
    assert_eq!(names(&s), [""; 0], "nothing says that it ran on a silent node");
    (s.members[2].pod, s.members[2].position) = (reachable, known("100"));
    assert_eq!(names(&s), ["db-2"]);
}

// S15: with an override a seed does not wait for a member whose pod is gone.
#[test]
fn a_seed_by_override_marks_them_too() {
    let scene = Scene::new(2).in_term(3).with_data(&["100", "100"]).with_roles(&[Role::Stopped, Role::Stopped]);
    let mut s = scene.led(0).observed().clone();
    let pod = s.members[1].pod.take().unwrap();
    let status = s.group.commands.status.container.clone();
    s.record.member_mut(&db(1)).ran = Some(LastPrimary {
        member: db(1),
        container_id: pod.containers[&status].id.clone().unwrap(),
        container: status,
        pod_uid: pod.uid,
        node: None,
        grace: 10,
        gone: Some(s.now),
    });
    s.members[1].position = Position::NotAsked;
    s.group.requested_override =
        Some(Override { raw: "db-0 100 of term 3".into(), member: db(0), position: known("100"), term: 3 });
    let plan = decide(&s, &Natural);
    assert_eq!(plan.record.intents.iter().map(|i| i.verb).collect::<Vec<_>>(), [Verb::Seed], "{:?}", plan.waits);
    assert_eq!(marked(&plan.record), [("db-1".into(), 4, Position::NotAsked)]);
}

// S15: when a takeover has no effect, the one before counts, with the data from before that one. Data that was given up by a takeover is of an older term.
#[test]
fn a_later_mark_keeps_the_first_one() {
    let mut s = lost(known("80"));
    s.members[1].position = known("100");
    let plan = decide(&s, &Natural);
    assert_eq!(marked(&plan.record)[0], ("db-2".into(), 4, known("100")));
    let untold = |record: &Record| {
        let mark = record.member(&db(2)).untold.as_ref()?.earlier.as_ref()?;
        Some((mark.term, mark.before.clone()))
    };
    assert_eq!(untold(&plan.record), Some((3, known("80"))));
    // And the one after that.
    s.record = plan.record;
    s.record.intents.clear();
    s.record.last_primaries.clear();
    s.record.member_mut(&db(1)).started = None;
    s.record.member_mut(&db(1)).term = Some(4);
    let plan = decide(&s, &Natural);
    assert_eq!((plan.record.term, untold(&plan.record)), (5, Some((3, known("80")))));
}

// It runs, so it may get something at any time: its mark stays, also while its data is that of before.
#[test]
fn who_runs_may_follow_on() {
    let s = lost(known("100"));
    let record = decide(&s, &Natural).record;
    let first = record.member(&db(2)).untold.as_ref().map(|mark| mark.first().term);
    assert_eq!((record.term, first), (4, Some(3)));
}

// A start that was begun in an earlier term told the member nothing about the primary of this one.
#[test]
fn a_late_start_of_an_earlier_term_leaves_the_mark() {
    let settled = |term: u64| {
        let mut s = lost(Position::NotAsked);
        s.record.intents.push(place(&s, 2, term));
        s.evidence.insert("place-9-a".into(), Evidence::Exited(0));
        s.record.member_mut(&db(2)).started = started(term, known("100"));
        // Its data cannot be read, so nobody takes over in this round.
        s.members[2].position = Position::Unknown("no answer".into());
        let record = decide(&s, &Natural).record;
        assert_eq!(record.member(&db(2)).term, Some(term), "it is settled");
        marked(&record)
    };
    assert_eq!(settled(2), [("db-2".into(), 3, Position::NotAsked)]);
    assert_eq!(settled(3), []);
}

// What is no member any more blocks nothing.
#[test]
fn a_mark_goes_with_its_member() {
    let mut s = lost(known("80"));
    mark(&mut s, 7, 3, Position::NotAsked);
    let names: Vec<_> = marked(&decide(&s, &Natural).record).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["db-2"]);
}

// One that was started by a user, or whose mark was lost, is marked when it is seen.
#[test]
fn who_is_seen_beside_a_primary_is_marked() {
    let scene = Scene::new(3).in_term(3).with_data(&["100", "95", "100"]);
    let scene = scene.with_roles(&[Role::Primary, Role::Secondary, Role::Secondary]).of_term(2, 2);
    let mut s = scene.observed().clone();
    // It rests after a failure, so it is not told in this round.
    s.record.member_mut(&db(2)).retry_at = Some(s.now + 60);
    assert_eq!(marked(&decide(&s, &Natural).record), [("db-2".into(), 3, Position::NotAsked)]);
    // What is known of before stays known.
    mark(&mut s, 2, 3, known("80"));
    assert_eq!(marked(&decide(&s, &Natural).record), [("db-2".into(), 3, known("80"))]);
    s.record.member_mut(&db(2)).untold = None;
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
