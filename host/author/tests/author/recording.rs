//! A recorded group is the group: what is asked about the case is what the host asks about the group, with the same bars.

use tanist_author::{
    arise::{Arises, arises},
    ask::{Verdict, ask},
    case::Cases,
    recorded::{About, Recording, record},
    world,
};
use tanist_core::{
    contract::{Condition, Phase, Position, Role, Sequence},
    examples::{NOW, Scene, usual},
    policy::{Point, Question},
    record::{Broken, Intent, LastPrimary, LostPrimary, MemberRecord, Started, Switchover, Verb},
    snapshot::Snapshot,
};

use super::{SEQUENCE, layer};

fn recorded(snapshot: &Snapshot, point: Point) -> Recording {
    record(snapshot, Some(point), &About::default()).unwrap_or_else(|error| panic!("{point}: {error}"))
}

/// What the host asks about the recorded case.
fn played(recording: &Recording) -> Question {
    let cases = Cases::parse("recorded.yaml", recording.text.clone()).unwrap();
    let case = &cases.content.cases[0].value;
    arises(&world::snapshot(case), case.point.value)
        .unwrap_or_else(|e| panic!("{e}\n{}", recording.text))
        .question()
        .clone()
}

fn asked(snapshot: &Snapshot, point: Point) -> Question {
    arises(snapshot, point).unwrap_or_else(|error| panic!("{error}")).question().clone()
}

fn bars(question: &Question) -> Vec<(String, Option<String>)> {
    question.snapshot.members.iter().map(|m| (m.name.to_string(), m.barred.clone())).collect()
}

// P45: a recorded case is the same question.
#[test]
fn a_recorded_group_is_asked_the_same_with_the_same_bars() {
    for point in Point::ALL {
        let (scene, _) = usual(point);
        let recording = recorded(scene.observed(), point);
        let (group, case) = (asked(scene.observed(), point), played(&recording));
        assert!(
            bars(&group).iter().any(|(_, bar)| bar.is_some()) || point == Point::Demote,
            "{point}: nobody is barred"
        );
        assert_eq!(bars(&case), bars(&group), "{point}\n{}", recording.text);
        assert_eq!(recording.cases[0].assumed, None);
    }
}

/// A restart of five members in which nothing special is the case: all are stopped and have the same data.
fn restart() -> Snapshot {
    Scene::new(5).in_term(3).with_data(&["a:18"; 5]).led(0).observed().clone()
}

/// Two secondaries of a primary that is gone.
fn lost() -> Snapshot {
    let roles = [Role::Stopped, Role::Secondary, Role::Secondary, Role::Secondary, Role::Stopped];
    let scene = Scene::new(5).in_term(3).with_data(&["a:20"; 5]).with_roles(&roles).led(0).gone(0);
    scene.observed().clone()
}

/// A primary serves, and the others are stopped.
fn led() -> Snapshot {
    let roles = [Role::Primary, Role::Stopped, Role::Stopped, Role::Stopped, Role::Stopped];
    Scene::new(5).primaries(3).in_term(3).with_data(&["a:20"; 5]).with_roles(&roles).observed().clone()
}

fn known(s: &mut Snapshot, member: usize) -> &mut MemberRecord {
    let name = s.members[member].name.clone();
    s.record.member_mut(&name)
}

fn last(s: &Snapshot, member: usize) -> LastPrimary {
    LastPrimary {
        member: s.members[member].name.clone(),
        pod_uid: "an-earlier-pod".to_owned(),
        container: "db".to_owned(),
        container_id: "an-earlier-container".to_owned(),
        node: Some("node-1".to_owned()),
        grace: 10,
        gone: Some(NOW - 5),
    }
}

fn intent(s: &Snapshot, member: usize, verb: Verb) -> Intent {
    Intent {
        token: "token".to_owned(),
        verb,
        command: "secondary".to_owned(),
        member: s.members[member].name.clone(),
        target: None,
        pod_uid: format!("pod-{member}"),
        container: "db".to_owned(),
        container_id: format!("container-{member}"),
        generation: 1,
        started: NOW - 5,
        timeout: 600,
        term: 3,
        again: false,
        had_role: false,
        exited: None,
        version: None,
    }
}

type Change = fn(&mut Snapshot);

/// Each state that bars the second member, with the words of its bar.
const BARRED: [(Point, &str, Change); 15] = [
    (Point::Join, "it failed and has not been treated yet: primary failed", |s| {
        let (pod_uid, container_id) = ("pod-1".to_owned(), "container-1".to_owned());
        known(s, 1).broken = Some(Broken { pod_uid, container_id, reason: "primary failed".to_owned() });
    }),
    (Point::Seed, "failures: 2 (last command: primary); next try in 15 s", |s| {
        let (failures, retry_at) = (2, Some(NOW + 15));
        let failure = Scene::new(2).in_term(3).rests(1).observed().record.member(&"db-1".into()).last_failure.clone();
        let own = known(s, 1);
        (own.failures, own.retry_at, own.last_failure) = (failures, retry_at, failure);
    }),
    (Point::Seed, "a start on it was never confirmed", |s| {
        let started = Started { term: 3, target: false, before: Position::Empty, followed: true, peer_stopped: false };
        known(s, 1).started = Some(started);
    }),
    (Point::Seed, "its volume was replaced", |s| s.members[1].claims[0].uid = "another".to_owned()),
    (Point::Seed, "its data is of an older term", |s| known(s, 1).term = Some(2)),
    (Point::Seed, "is behind the highest known (a:18)", |s| {
        s.members[1].position = Position::Known(Sequence { history: Some("a".to_owned()), number: 17 });
    }),
    (Point::Seed, "it has no data, and this group has or had data", |s| s.members[1].position = Position::Empty),
    (Point::Failover, "its pod is not running yet", |s| {
        s.group.failover.reads = Some(2);
        let pod = s.members[1].pod.as_mut().unwrap();
        pod.phase = Phase::Pending;
        pod.containers.values_mut().for_each(|container| container.running = false);
        (s.members[1].reading.role, s.members[1].position) = (Role::Unknown, Position::NotAsked);
    }),
    (Point::Failover, "its pod is being deleted", |s| {
        s.members[1].pod.as_mut().unwrap().phase = Phase::Terminating;
        (s.group.failover.reads, s.members[1].position) = (Some(2), Position::NotAsked);
    }),
    (Point::Failover, "it is giving up the lead", |s| {
        let names = |at: usize| s.members[at].name.clone();
        let why = "an administrator wants it".to_owned();
        let switchover = Switchover {
            from: names(1),
            to: None,
            chosen: None,
            why,
            term: 3,
            floor: None,
            begun: Some(NOW - 5),
            led: None,
            failed: 0,
        };
        s.record.switchover = Some(switchover);
    }),
    (Point::Failover, "db-2 is the requested primary and has the same data", |s| {
        let names = |at: usize| s.members[at].name.clone();
        let (why, to) = ("an administrator wants it".to_owned(), Some(names(2)));
        let switchover = Switchover {
            from: names(0),
            to,
            chosen: None,
            why,
            term: 3,
            floor: None,
            begun: Some(NOW - 5),
            led: None,
            failed: 0,
        };
        s.record.switchover = Some(switchover);
    }),
    (Point::Failover, "it is leaving, and a member that stays has the same data", |s| {
        s.group.replicas = 4;
    }),
    (Point::Failover, "it was the primary and is stopped; spec.failover.preferRunning excludes it", |s| {
        s.group.failover.prefer_running = true;
        s.members[1].reading.role = Role::Stopped;
        known(s, 1).primary_term = Some(3);
    }),
    (Point::Join, "its command secondary is not settled", |s| {
        let open = intent(s, 1, Verb::Place);
        s.record.intents.push(open);
    }),
    (Point::Join, "it may be primary already: the pod of db-1 is gone", |s| {
        // On a node that no member is on.
        let gone = LastPrimary { node: Some("node-9".to_owned()), ..last(s, 1) };
        let nodes = s.nodes.as_mut().unwrap();
        nodes.insert("node-9".to_owned(), nodes["node-1"].clone());
        s.record.last_primaries.push(gone);
    }),
];

#[test]
fn each_state_that_bars_a_member_is_recorded() {
    for (point, words, change) in BARRED {
        let mut group = match point {
            Point::Seed => restart(),
            Point::Failover => lost(),
            _ => led(),
        };
        change(&mut group);
        let in_group = asked(&group, point);
        let barred = bars(&in_group).into_iter().filter_map(|(_, bar)| bar).find(|bar| bar.contains(words));
        assert!(barred.is_some(), "{words}: {:?}", bars(&in_group));
        let recording = recorded(&group, point);
        let without_seconds = |all: Vec<(String, Option<String>)>| {
            let text = |bar: String| bar.split("; its node has to stay Ready").next().unwrap().to_owned();
            all.into_iter().map(|(name, bar)| (name, bar.map(text))).collect::<Vec<_>>()
        };
        let (case, group) = (without_seconds(bars(&played(&recording))), without_seconds(bars(&in_group)));
        assert_eq!(case, group, "{words}\n{}", recording.text);
    }
}

#[test]
fn everything_that_the_contract_shows_is_recorded() {
    for point in Point::ALL {
        let (scene, _) = usual(point);
        let recording = recorded(scene.observed(), point);
        let (mut group, case) = (asked(scene.observed(), point), played(&recording));
        // Why data cannot be read has no word in a case.
        for (own, other) in group.snapshot.members.iter_mut().zip(&case.snapshot.members) {
            if matches!((&own.position, &other.position), (Position::Unknown(_), Position::Unknown(_))) {
                own.position.clone_from(&other.position);
            }
        }
        assert_eq!(case.snapshot, group.snapshot, "{point}\n{}", recording.text);
    }
}

// P45: what a case has no words for is not left out silently.
#[test]
fn what_a_case_cannot_say_is_said() {
    let mut group = lost();
    group.group.preferred_primary = Some("db-9".into());
    let differs = &recorded(&group, Point::Failover).cases[0].differs;
    assert_eq!(differs, &["the group: preferred-primary is db-9 in the group, absent in the case"]);
    assert_eq!(recorded(&lost(), Point::Failover).cases[0].differs, Vec::<String>::new());
}

// P45: a healthy group is asked each question, and the change that leads to it is named.
#[test]
fn a_healthy_group_is_recorded_with_what_would_have_to_happen() {
    let roles = [Role::Primary, Role::Secondary, Role::Secondary];
    let healthy = Scene::new(3).in_term(3).with_data(&["a:20", "a:7", "EMPTY"]).with_roles(&roles).observed().clone();
    let recording = record(&healthy, None, &About::default()).unwrap();
    let names: Vec<_> = recording.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "seed, if every member were stopped",
            "failover, if db-0 were lost, with its pod",
            "join, if 2 primaries were desired",
            "place, if db-2 were stopped",
            "treat, if db-2 were failed",
            "switchover, as it arises now",
            "rebalance, as it arises now",
            "update, if spec.template had changed",
            "judge, if spec.template had changed, and db-2 were watched with it",
            "admit, if 4 members were asked for in place of 3",
            "order, if 2 members were desired",
        ]
    );
    // What follows the primary has what the primary has, whatever was read of it long ago.
    let cases = Cases::parse("recorded.yaml", recording.text).unwrap();
    let ran = ask(&cases.content.cases[1].value, &[layer(&SEQUENCE, "{}")]).unwrap();
    let Verdict::Choose { ranking, .. } = &ran.verdict else { panic!("{:?}", ran.verdict) };
    assert_eq!(ranking.iter().map(|each| each.member.as_str()).collect::<Vec<_>>(), ["db-1", "db-2"]);
}

#[test]
fn a_question_that_nothing_simple_leads_to_is_an_error_that_says_why() {
    let roles = [Role::Primary, Role::Secondary, Role::Secondary];
    let healthy = Scene::new(3).in_term(3).with_data(&["20"; 3]).with_roles(&roles).observed().clone();
    let said = |snapshot: &Snapshot, point| record(snapshot, Some(point), &About::default()).unwrap_err().to_string();
    let demote = said(&healthy, Point::Demote);
    assert!(demote.contains("fewer than two primaries serve"), "{demote}");
    let failover = said(&restart(), Point::Failover);
    assert!(failover.contains("it asks seed") && failover.contains("no secondary runs"), "{failover}");
    // A primary whose pod is gone and which is not proven over is what a failover waits for.
    let mut waits = lost();
    let gone = last(&waits, 0);
    waits.record.last_primaries.push(gone);
    assert!(arises(&waits, Point::Failover).unwrap_err().to_string().contains("db-0 may be primary"));
    assert_eq!(recorded(&waits, Point::Failover).cases[0].assumed.as_deref(), Some("db-0 were lost, with its pod"));
    assert!(matches!(arises(&lost(), Point::Failover), Ok(Arises::Asked(_))));
}

#[test]
fn what_the_operator_remembers_is_checked_when_a_case_is_read() {
    let refused = |lines: &str| {
        let text = format!("cases:\n  - point: seed\n    members:\n      db-0: 1\n{lines}");
        Cases::parse("cases.yaml", text).unwrap_err().to_string()
    };
    let member = refused("      db-1: {memory: {retryat: 5}}\n");
    assert!(member.starts_with("cases.yaml:5:") && member.contains("retryat"), "{member}");
    let group = refused("    group: {memory: {term: x}}\n");
    assert!(group.starts_with("cases.yaml:5:") && group.contains("no memory of the operator"), "{group}");
    let apart = refused("    group: {memory: {members: {}}}\n");
    assert!(apart.contains("stands at each member"), "{apart}");
    let failure = refused("      db-1: {failures: 1, last-failure: {command: stop, outcome: broke, at: -5}}\n");
    assert!(failure.starts_with("cases.yaml:5:") && failure.contains("broke"), "{failure}");
}

#[test]
fn texts_of_users_stay_texts() {
    let mut group = restart();
    group.group.labels = vec![("a: b".to_owned(), "yes\n# no".to_owned()), ("rank".to_owned(), "007".to_owned())];
    let about = About {
        notes: vec!["one\ncases: []".to_owned()],
        parameters: serde_json::from_str(r#"{"member": "true", "limit": 3, "of": ["1", null]}"#).unwrap(),
    };
    let recording = record(&group, Some(Point::Seed), &about).unwrap();
    let cases = Cases::parse("recorded.yaml", recording.text.clone()).unwrap();
    assert_eq!(cases.parameters(0).0, about.parameters, "{}", recording.text);
    assert_eq!(played(&recording).snapshot.group.labels, group.group.labels, "{}", recording.text);
}

// What the host says about a member and a lost primary is in the recording: facts, conditions, where the last primary was.
#[test]
fn facts_and_conditions_are_recorded() {
    let (scene, _) = usual(Point::Failover);
    let mut group = scene.observed().clone();
    group.group.failover.max_behind = Some(5);
    group.members[0].reading.contact = Some(NOW - 40);
    let detail = Some("node-1".to_owned());
    group.members[1].conditions = vec![Condition { name: "node-draining".into(), since: NOW - 90, detail }];
    let (node, zone) = (Some("gone".to_owned()), Some("zone-x".to_owned()));
    group.record.lost_primary = Some(LostPrimary { member: "db-0".into(), node, zone });
    let recording = recorded(&group, Point::Failover);
    let (live, case) = (asked(&group, Point::Failover).snapshot, played(&recording).snapshot);
    assert_eq!(case.group.facts, live.group.facts, "{}", recording.text);
    let fact = |word: &str| live.group.facts.iter().find(|(key, _)| key == word).map(|(_, value)| value.as_str());
    assert_eq!(
        ["max-behind", "last-primary-node", "last-primary-zone"].map(fact),
        [Some("5"), Some("gone"), Some("zone-x")]
    );
    for (own, other) in live.members.iter().zip(&case.members) {
        assert_eq!(
            (&own.facts, &own.conditions),
            (&other.facts, &other.conditions),
            "{}\n{}",
            own.name,
            recording.text
        );
    }
    assert!(live.members[0].facts.contains(&("last-contact".into(), (NOW - 40).to_string())));
    assert_eq!(live.members[1].conditions.len(), 1);
    assert_eq!(recording.cases[0].differs, Vec::<String>::new());
}
