use super::*;
use tanist_core::snapshot::Container;

const RESYNC: Duration = Duration::from_secs(30);

/// A pod with one container, `db`.
pub fn pod(id: &str, ready: bool, phase: Phase) -> Pod {
    let container = Container { id: Some(id.into()), running: true, ready };
    Pod {
        uid: "u".into(),
        version: "1".into(),
        phase,
        phase_since: 0,
        ready: false,
        node: None,
        grace: 30,
        containers: BTreeMap::from([("db".to_owned(), container)]),
        routed: None,
        outdated: false,
        older_template: false,
        gate: None,
        labels: Vec::new(),
        trouble: None,
        stray: None,
    }
}

/// Whether an answer of that pod, so many seconds old, is still used when the pod looks like `now`.
fn serves(then: &Pod, role: Role, seconds: u64, now: &Pod, settled: Duration) -> bool {
    let mut group = Group::default();
    let asked = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
    group.remember_status(
        then,
        "db",
        asked,
        StatusAnswer { role, detail: None, processes: None, after: Duration::ZERO, looks: false },
    );
    group.answers.values_mut().for_each(|hint| hint.ended = asked);
    group.recent(now, "db", RECENT, settled).is_some()
}

// Decision 0008: when an answer is reused, and when `status` is executed again.
#[test]
fn an_answer_serves_while_its_container_stays_ready() {
    let (well, fell) = (pod("c", true, Phase::Running), pod("c", false, Phase::Running));
    let role = Role::Secondary;
    assert!(serves(&well, role, 10, &well, RESYNC));
    assert!(!serves(&well, role, 10, &well, RECENT), "only the first look trusts readiness");
    assert!(!serves(&well, role, 31, &well, RESYNC), "resync asks every member");
    assert!(!serves(&well, role, 0, &fell, RESYNC), "the application died");
    assert!(!serves(&fell, role, 10, &well, RESYNC), "it was not ready when it said so");
    assert!(!serves(&well, role, 10, &pod("d", true, Phase::Running), RESYNC), "another container");
    assert!(!serves(&well, role, 10, &pod("c", true, Phase::Terminating), RESYNC), "it is being stopped");
    assert!(!serves(&well, Role::Unknown, 10, &well, RESYNC), "its role was unknown");
    assert!(serves(&fell, role, 1, &fell, RECENT), "a burst of rounds asks once");
}

// Decision 0013: a runner is asked only for features that it has named.
#[test]
fn an_older_runner_is_not_asked_to_look() {
    let (mut group, pod) = (Group::default(), pod("c", true, Phase::Running));
    assert!(!group.can_look(&pod.uid));
    for looks in [false, true, false] {
        let said = StatusAnswer { role: Role::Stopped, detail: None, processes: None, after: Duration::ZERO, looks };
        group.remember_status(&pod, "db", Instant::now(), said);
        assert_eq!(group.can_look(&pod.uid), looks);
    }
}

// Memory stays bounded: results without an open intent are forgotten, results that are still needed are not.
#[test]
fn results_go_with_their_intents() {
    let mut group = Group::default();
    for token in ["open", "closed", "promised", "running"] {
        group.results.insert(token.into(), Evidence::Exited(0));
    }
    group.promised.insert("promised".into());
    group.running.insert("running".into());
    group.forget_results(&BTreeSet::from(["open"]));
    assert_eq!(group.results.into_keys().collect::<Vec<_>>(), ["open", "promised", "running"]);
}

// A `status` that hangs until its timeout counts in the round that its end starts; otherwise it would never count.
#[test]
fn an_unknown_answer_is_as_old_as_its_end() {
    let (mut group, pod) = (Group::default(), pod("c", true, Phase::Running));
    let asked = Instant::now().checked_sub(Duration::from_secs(25)).unwrap();
    let said = |role| StatusAnswer { role, detail: None, processes: Some(0), after: Duration::ZERO, looks: false };
    group.remember_status(&pod, "db", asked, said(Role::Unknown));
    assert!(group.recent(&pod, "db", RECENT, RECENT).is_some());
    assert_eq!(group.pending(&pod, "db", RECENT).processes, Some(0), "the last unknown answer still counts");
    group.touch(&pod.uid, Instant::now());
    assert!(group.recent(&pod, "db", RECENT, RECENT).is_none(), "a command was in between");
    group.remember_status(&pod, "db", asked, said(Role::Secondary));
    assert!(group.recent(&pod, "db", RECENT, RECENT).is_none(), "the age of a role counts from its question");
    let pending = group.pending(&pod, "db", RECENT);
    assert_eq!((pending.role, pending.processes), (Role::Unknown, None), "a known role is not reused");
}

#[test]
fn a_command_makes_answers_old() {
    let (mut group, pod) = (Group::default(), pod("c", true, Phase::Running));
    let asked = Instant::now();
    let said = |after| StatusAnswer { role: Role::Secondary, detail: None, processes: None, after, looks: false };
    group.remember_status(&pod, "db", asked, said(Duration::ZERO));
    let end = asked + Duration::from_millis(40);
    group.touch(&pod.uid, end);
    assert!(group.recent(&pod, "db", RECENT, RESYNC).is_none());
    group.remember_status(&pod, "db", asked, said(Duration::ZERO));
    assert!(group.recent(&pod, "db", RECENT, RESYNC).is_none(), "it was asked before, and answered after");
    group.remember_status(&pod, "db", asked, said(end - asked));
    assert!(group.recent(&pod, "db", RECENT, RESYNC).is_some(), "it came with the result of the command");
}

/// The position of a stopped member in container `c`, asked for at `asked` and answered a second later.
fn position(position: Position, asked: Instant) -> PositionHint {
    let answered = asked + Duration::from_secs(1);
    let container_id = "c".to_owned();
    PositionHint { container_id, position, at: 0, asked, answered, role: Role::Stopped, ready: false, led: false }
}

// A position counts for a seed only if it was asked for after data could last change, in the same container and role, and not long ago.
#[test]
fn a_position_is_worth_what_happened_since_it_was_asked_for() {
    let asked = Instant::now() + Duration::from_secs(100);
    let after = |millis| asked + Duration::from_millis(millis);
    let before = asked.checked_sub(Duration::from_millis(1));
    let seen = Sight { container_id: Some("c"), role: Role::Stopped, ready: false, at: after(1500), moved: before };
    let known = position(Position::Empty, asked);
    let table = [
        ("nothing happened", Sight { ..seen }, Worth::Stands),
        ("nothing was ever seen to move", Sight { moved: None, ..seen }, Worth::Stands),
        (
            "a pause or a primary was seen in the moment it was asked for",
            Sight { moved: Some(asked), ..seen },
            Worth::Moved,
        ),
        ("while it was under way", Sight { moved: Some(after(500)), ..seen }, Worth::Moved),
        ("since it came", Sight { moved: Some(after(1200)), ..seen }, Worth::Moved),
        ("the container is another one", Sight { container_id: Some("d"), ..seen }, Worth::Gone),
        ("there is none", Sight { container_id: None, ..seen }, Worth::Gone),
        ("it is primary", Sight { role: Role::Primary, ..seen }, Worth::Gone),
        ("its role is unknown", Sight { role: Role::Unknown, ..seen }, Worth::Gone),
        ("it became ready", Sight { ready: true, ..seen }, Worth::Gone),
        ("just young enough", Sight { at: after(30_999), ..seen }, Worth::Stands),
        ("it is old: a stopped member may have run since", Sight { at: after(31_000), ..seen }, Worth::Old),
    ];
    for (why, sight, worth) in table {
        assert_eq!(known.worth(sight), worth, "{why}");
    }
    assert_eq!(
        PositionHint { led: true, ..known.clone() }.worth(seen),
        Worth::Moved,
        "a member may have been primary when it was asked for"
    );
    assert_eq!(PositionHint { ready: true, ..known }.worth(seen), Worth::Stands, "it was ready and is not");
    let unknown = position(Position::Unknown("it hung".into()), asked);
    assert_eq!(unknown.worth(Sight { at: after(10_999), ..seen }), Worth::Stands);
    assert_eq!(unknown.worth(Sight { at: after(11_000), ..seen }), Worth::Old, "it is asked again sooner");
}

// A pause between two looks shows in the generation; another override makes positions old too.
#[test]
fn what_was_asked_under_another_question_is_asked_anew() {
    let (mut group, now) = (Group::default(), Instant::now());
    let at = |seconds| now + Duration::from_secs(seconds);
    assert!(group.moves((1, None), false, now), "nothing was seen before");
    assert!(!group.moves((1, None), false, at(1)));
    assert_eq!(group.moved, Some(now));
    assert!(group.moves((1, None), true, at(2)), "a member may be primary");
    assert!(group.moves((3, None), false, at(3)), "paused and resumed, or anything else");
    assert!(group.moves((3, Some("db-1 9 3".into())), false, at(4)));
    assert!(!group.moves((3, Some("db-1 9 3".into())), false, at(5)));
    assert_eq!(group.moved, Some(at(4)));
}

fn node(ready: bool, since: Timestamp) -> Node {
    Node { ready, since, seen: 0, out_of_service: false, cordoned: false, zone: None }
}

// S28: this process measures how long a node has reported; times in the API come from other clocks.
#[test]
fn a_node_reports_since_this_process_saw_it() {
    let hints = Hints::default();
    let times = |life: &str, node: Node, now| {
        let node = hints.node("n", life, node, now);
        (node.since, node.seen)
    };
    assert_eq!(times("a", node(true, 100), 5000), (100, 5000), "ready for long, and seen for the first time");
    assert_eq!(times("a", node(true, 100), 5040), (100, 5000));
    assert_eq!(times("b", node(true, 90), 5100), (5100, 5100), "a break, whatever its clock says");
    assert_eq!(times("b", node(false, 90), 5200).1, 5200);
    assert_eq!(times("b", node(true, 90), 5300), (5300, 5300), "it was silent in between");
    assert_eq!(times("b", node(true, 90), 5400), (5300, 5300));
    let hints = Hints::default();
    let ahead = |now| hints.node("n", "a", node(true, 9000), now).since;
    assert_eq!((ahead(5000), ahead(5060)), (5000, 5000), "no start of reporting lies in the future");
}
