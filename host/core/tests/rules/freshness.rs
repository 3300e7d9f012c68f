//! How old what a decision rests on may be, and what is known about commands.
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tanist_core::contract::{MemberName, Phase, Position, Role};
use tanist_core::evidence::Commands;
use tanist_core::examples::{pod, usual};
use tanist_core::freshness::{
    Ages, Ask, FRESH, Moment, PositionHint, RECENT, Readings, Sight, StatusAnswer, Statuses, Worth,
};
use tanist_core::policy::Point;
use tanist_core::snapshot::{Evidence, Pod, Snapshot};
use tanist_protocol::why::Word;

/// The resync interval.
const RESYNC: Duration = Duration::from_secs(30);

/// A moment, in milliseconds after the process began to count.
fn at(millis: u64) -> Moment {
    Moment::after_start(Duration::from_millis(millis))
}

fn both(age: Duration) -> Ages {
    Ages { any: age, settled: age }
}

/// Whether an answer of that pod, so many seconds old, is still used when the pod looks like `now`.
fn serves(then: &Pod, role: Role, seconds: u64, now: &Pod, settled: Duration) -> bool {
    let mut readings = Readings::default();
    readings.remember_status(then, "db", (at(0), at(0)), StatusAnswer::of(role));
    readings.recent(now, "db", Ages { any: RECENT, settled }, at(seconds * 1000)).is_some()
}

// Decision 0008: the table.
#[test]
fn how_old_an_answer_may_be_depends_on_what_rests_on_it() {
    let (one, other) = (MemberName::from("db-1"), MemberName::from("db-2"));
    let resync = Duration::from_secs(60);
    assert_eq!(Ask::Changed(resync).ages(true, &one), Ages { any: RECENT, settled: resync });
    assert_eq!(Ask::Changed(resync).ages(false, &one), both(RECENT), "readiness says nothing of roles");
    assert_eq!(Ask::Everyone.ages(true, &one), both(FRESH), "ready or not, before a term opens");
    assert_eq!(Ask::Only(&one).ages(true, &one), both(Duration::ZERO));
    assert_eq!(Ask::Only(&one).ages(true, &other), both(RECENT));
    assert_eq!(Ask::Recent.ages(true, &one), both(RECENT));
    let awaited = [Ask::Everyone, Ask::Only(&one), Ask::Only(&other), Ask::Recent, Ask::Changed(resync)];
    assert_eq!(awaited.map(|ask| ask.awaits(&one)), [true, true, false, false, false]);
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
    let (mut readings, pod) = (Readings::default(), pod("c", true, Phase::Running));
    assert!(!readings.can_look(&pod.uid));
    for looks in [false, true, false] {
        let said = StatusAnswer { looks, ..StatusAnswer::of(Role::Stopped) };
        readings.remember_status(&pod, "db", (at(0), at(0)), said);
        assert_eq!(readings.can_look(&pod.uid), looks);
        // D6: one that can look need not know what else there is.
        assert!(!readings.takes_env(&pod.uid));
    }
}

// D6: nor is it given an environment.
#[test]
fn an_older_runner_is_given_no_environment() {
    let (mut readings, pod) = (Readings::default(), pod("c", true, Phase::Running));
    for takes_env in [false, true, false] {
        let said = StatusAnswer { takes_env, ..StatusAnswer::of(Role::Stopped) };
        readings.remember_status(&pod, "db", (at(0), at(0)), said);
        assert_eq!(readings.takes_env(&pod.uid), takes_env);
    }
}

// A `status` that hangs until its timeout counts in the round that its end starts; otherwise it would never count.
#[test]
fn an_unknown_answer_is_as_old_as_its_end() {
    let (mut readings, pod) = (Readings::default(), pod("c", true, Phase::Running));
    let said = |role| StatusAnswer { processes: Some(0), ..StatusAnswer::of(role) };
    let (hung, now) = ((at(0), at(25_000)), at(25_000));
    readings.remember_status(&pod, "db", hung, said(Role::Unknown));
    assert!(readings.recent(&pod, "db", both(RECENT), now).is_some());
    assert_eq!(readings.pending(&pod, "db", RECENT).processes, Some(0), "the last unknown answer still counts");
    readings.touch(&pod.uid, now);
    assert!(readings.recent(&pod, "db", both(RECENT), now).is_none(), "a command was in between");
    readings.remember_status(&pod, "db", hung, said(Role::Secondary));
    assert!(readings.recent(&pod, "db", both(RECENT), now).is_none(), "the age of a role counts from its question");
    let pending = readings.pending(&pod, "db", RECENT);
    assert_eq!((pending.role, pending.processes), (Role::Unknown, None), "a known role is not reused");
}

#[test]
fn a_command_makes_answers_old() {
    let (mut readings, pod) = (Readings::default(), pod("c", true, Phase::Running));
    let said = |after| StatusAnswer { after, ..StatusAnswer::of(Role::Secondary) };
    let ages = Ages { any: RECENT, settled: RESYNC };
    readings.remember_status(&pod, "db", (at(0), at(100)), said(Duration::ZERO));
    readings.touch(&pod.uid, at(40));
    assert!(readings.recent(&pod, "db", ages, at(100)).is_none());
    readings.remember_status(&pod, "db", (at(0), at(100)), said(Duration::ZERO));
    assert!(readings.recent(&pod, "db", ages, at(100)).is_none(), "it was asked before, and answered after");
    readings.remember_status(&pod, "db", (at(0), at(100)), said(Duration::from_millis(40)));
    assert!(readings.recent(&pod, "db", ages, at(100)).is_some(), "it came with the result of the command");
}

/// The position of a stopped member in container `c`, asked for at 100 s and answered a second later.
// S5: a process that stood still, or lost its turn, sees that somebody else wrote the record. What it asked before is of another time, even if the answer
// comes later.
#[test]
fn what_was_asked_before_somebody_else_wrote_is_forgotten() {
    let pod = pod("c", true, Phase::Running);
    let mut readings = Readings::default();
    assert!(!readings.note_record(Some(&json!(7)), at(0)), "the first look");
    readings.remember_status(&pod, "db", (at(1_000), at(1_010)), StatusAnswer::of(Role::Primary));
    let recent =
        |readings: &Readings, now| readings.recent(&pod, "db", both(Duration::from_secs(60)), at(now)).is_some();
    readings.wrote_record(Some(&json!(8)));
    assert!(!readings.note_record(Some(&json!(8)), at(1_500)), "its own write");
    assert!(recent(&readings, 2_000));
    assert!(readings.note_record(Some(&json!(9)), at(20_000)));
    assert!(!recent(&readings, 20_000));
    readings.remember_status(&pod, "db", (at(19_990), at(20_010)), StatusAnswer::of(Role::Primary));
    assert!(!recent(&readings, 20_020), "it was asked before");
    readings.remember_status(&pod, "db", (at(20_030), at(20_040)), StatusAnswer::of(Role::Secondary));
    assert!(recent(&readings, 20_050));
    assert!(!readings.note_record(Some(&json!(9)), at(20_060)), "once");
}

fn position(position: Position) -> PositionHint {
    let (asked, answered) = (at(100_000), at(101_000));
    let container_id = "c".to_owned();
    PositionHint { container_id, position, at: 0, asked, answered, role: Role::Stopped, ready: false, led: false }
}

// A position counts for a seed only if it was asked for after data could last change, in the same container and role, and not long ago.
#[test]
fn a_position_is_worth_what_happened_since_it_was_asked_for() {
    let after = |millis: u64| at(100_000 + millis);
    let before = Some(at(99_999));
    let seen = Sight { container_id: Some("c"), role: Role::Stopped, ready: false, at: after(1500), moved: before };
    let known = position(Position::Empty);
    let table = [
        ("nothing happened", Sight { ..seen }, Worth::Stands),
        ("nothing was ever seen to move", Sight { moved: None, ..seen }, Worth::Stands),
        (
            "a pause or a primary was seen in the moment it was asked for",
            Sight { moved: Some(after(0)), ..seen },
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
    let led = PositionHint { led: true, ..known.clone() };
    assert_eq!(led.worth(seen), Worth::Moved, "a member may have been primary when it was asked for");
    assert_eq!(PositionHint { ready: true, ..known }.worth(seen), Worth::Stands, "it was ready and is not");
    let unknown = position(Position::Unknown("it hung".into()));
    assert_eq!(unknown.worth(Sight { at: after(10_999), ..seen }), Worth::Stands);
    assert_eq!(unknown.worth(Sight { at: after(11_000), ..seen }), Worth::Old, "it is asked again sooner");
}

// A pause between two looks shows in the generation; another override makes positions old too.
#[test]
fn what_was_asked_under_another_question_is_asked_anew() {
    let mut readings = Readings::default();
    assert!(readings.moves((1, None), false, at(0)), "nothing was seen before");
    assert!(!readings.moves((1, None), false, at(1)));
    assert!(readings.moves((1, None), true, at(2)), "a member may be primary");
    assert!(readings.moves((3, None), false, at(3)), "paused and resumed, or anything else");
    assert!(readings.moves((3, Some("db-1 9 3".into())), false, at(4)));
    assert!(!readings.moves((3, Some("db-1 9 3".into())), false, at(5)));
}

// Memory stays bounded: how commands without an open intent ended is forgotten, what is still needed is not.
#[test]
fn what_is_known_of_commands_goes_with_their_intents() {
    let mut commands = Commands::default();
    commands.promise(["open", "closed", "running"].map(String::from));
    for token in ["open", "closed", "running"] {
        assert!(commands.begin(token));
    }
    for token in ["open", "closed"] {
        commands.end(token, Evidence::Exited(0));
    }
    commands.promise(["promised".to_owned()]);
    commands.forget_closed(&BTreeSet::from(["open"]));
    let known = ["open", "closed", "promised", "running"].map(|token| commands.known(token));
    let under_way = Some(Evidence::Running);
    assert_eq!(known, [Some(Evidence::Exited(0)), None, under_way.clone(), under_way]);
    assert_eq!((commands.under_way(), commands.is_idle()), (1, false));
}

// S1, S6: a command that was promised and not begun never started; one that was not promised must not start.
#[test]
fn a_promise_that_is_not_begun_is_void_and_a_command_without_one_does_not_start() {
    let mut commands = Commands::default();
    assert!(!commands.begin("never"));
    assert_eq!(commands.known("never"), None);
    commands.promise(["begun", "not"].map(String::from));
    assert!(commands.begin("begun") && !commands.begin("begun"), "once");
    commands.withdraw();
    assert_eq!(commands.known("not"), Some(Evidence::NotStarted(Word::Void.into())));
    assert_eq!(commands.known("begun"), Some(Evidence::Running));
    assert!(!commands.begin("not"), "it is void");
}

// An outcome that may still change is asked for again.
#[test]
fn only_what_is_final_is_learned() {
    let mut commands = Commands::default();
    for open in [Evidence::Running, Evidence::Unknown("the runner was away".into())] {
        commands.learn("t", &open);
        assert_eq!(commands.known("t"), None);
    }
    commands.learn("t", &Evidence::Exited(3));
    assert_eq!(commands.known("t"), Some(Evidence::Exited(3)));
}

/// A group with two secondaries that run, with the answers of its second member.
struct Look {
    s: Snapshot,
    readings: Readings,
}

impl Look {
    fn new() -> Self {
        Look { s: usual(Point::Failover).0.observed().clone(), readings: Readings::default() }
    }

    /// The second member's `status` gives that role, asked for and answered at that second. Returns the roles that changed.
    fn answers(&mut self, role: Role, second: u64) -> Vec<(Role, Role)> {
        let pod = self.s.members[1].pod.clone().unwrap();
        let container = self.s.group.commands.status.container.clone();
        let at = Moment::after_start(Duration::from_secs(second));
        self.readings.remember_status(&pod, &container, (at, at), StatusAnswer::of(role));
        let said = BTreeMap::from([(self.s.members[1].name.clone(), StatusAnswer::of(role))]);
        self.join(said, second)
    }

    fn join(&mut self, said: Statuses, second: u64) -> Vec<(Role, Role)> {
        let at = Moment::after_start(Duration::from_secs(second));
        let now = i64::try_from(second).unwrap();
        let members = &mut self.s.members;
        let changes = self.readings.apply(&self.s.group, members, said, now, at);
        changes.into_iter().filter(|c| c.member == self.s.members[1].name).map(|c| (c.from, c.to)).collect()
    }

    fn reading(&self) -> (Role, i64, u32, Option<i64>) {
        let reading = &self.s.members[1].reading;
        (reading.role, reading.since, reading.unknown_streak, reading.contact)
    }
}

// S19, P21: since when a role holds, how many answers in a row gave none, and when the last one did.
#[test]
fn roles_streaks_and_contacts_are_joined_to_the_members() {
    let mut look = Look::new();
    assert_eq!(look.answers(Role::Secondary, 10), []);
    assert_eq!(look.answers(Role::Secondary, 20), []);
    assert_eq!(look.reading(), (Role::Secondary, 10, 0, None));
    assert_eq!(look.answers(Role::Unknown, 30), [(Role::Secondary, Role::Unknown)]);
    look.answers(Role::Unknown, 40);
    assert_eq!(look.reading(), (Role::Unknown, 30, 2, Some(20)), "the last answer with a role was that of 20");
    // It is not asked while its container does not run.
    look.join(Statuses::new(), 50);
    assert_eq!(look.reading(), (Role::Unknown, 30, 0, Some(20)));
    assert_eq!(look.answers(Role::Primary, 60), [(Role::Unknown, Role::Primary)]);
    look.answers(Role::Unknown, 70);
    assert_eq!(look.reading(), (Role::Unknown, 70, 1, Some(60)), "the streak ended with an answer");
    // Without a pod only the last contact is left; another pod begins anew.
    let pod = look.s.members[1].pod.take();
    look.join(Statuses::new(), 80);
    assert_eq!(look.s.members[1].reading.contact, Some(60));
    look.s.members[1].pod = pod.clone();
    assert_eq!(look.answers(Role::Unknown, 90), [], "what was known of a pod is forgotten when it is gone");
    assert_eq!(look.reading(), (Role::Unknown, 90, 1, Some(60)));
    look.s.members[1].pod = pod.map(|pod| Pod { uid: "another".into(), ..pod });
    look.answers(Role::Unknown, 95);
    assert_eq!(look.reading(), (Role::Unknown, 95, 1, Some(60)), "another pod begins anew");
}

// Only what stands is joined: a position is gone with the role in which it was read, and stale once data may have moved.
#[test]
fn remembered_positions_are_joined_to_the_members() {
    let mut look = Look::new();
    let pod = look.s.members[1].pod.clone().unwrap();
    let container = look.s.group.commands.sequence.container.clone();
    let id = pod.containers[&container].id.clone().unwrap();
    let (asked, answered) = (at(10_000), at(10_000));
    let hint = PositionHint { container_id: id, asked, answered, ready: true, ..position(Position::Empty) };
    let read = |look: &mut Look, role, second| {
        look.s.members[1].position = Position::NotAsked;
        look.s.members[1].position_stale = false;
        look.answers(role, second);
        let member = &look.s.members[1];
        (member.position.clone(), member.position_stale, member.asked)
    };
    assert!(look.readings.begin_reading(&pod.uid) && !look.readings.begin_reading(&pod.uid), "once at a time");
    assert_eq!(read(&mut look, Role::Stopped, 5), (Position::NotAsked, false, true), "it is being read");
    look.readings.remember_position(&pod.uid, hint);
    assert_eq!(look.readings.under_way(), 0);
    assert_eq!(read(&mut look, Role::Stopped, 11), (Position::Empty, false, false));
    look.readings.moves((1, None), true, at(12_000));
    look.readings.moves((1, None), false, at(13_000));
    assert_eq!(read(&mut look, Role::Stopped, 14), (Position::Empty, true, false), "data may have moved since");
    assert_eq!(read(&mut look, Role::Secondary, 15).0, Position::NotAsked, "its role is another one");
    assert_eq!(read(&mut look, Role::Stopped, 16).0, Position::NotAsked, "and it is forgotten");
}

// S13: an operator that starts knows no position, whatever the one before it read. The member was started by hand and stopped again
// in between, perhaps.
#[test]
fn an_operator_that_starts_reads_every_position_anew() {
    let mut look = Look::new();
    assert_eq!(answered(&mut look, 10_000), Position::Empty);
    look.readings = Readings::default();
    look.s.members[1].position = Position::NotAsked;
    look.answers(Role::Stopped, 12);
    assert_eq!(look.s.members[1].position, Position::NotAsked);
}

/// What is known of the position of db-1 when an answer comes that was asked for at that moment.
fn answered(look: &mut Look, asked: u64) -> Position {
    let pod = look.s.members[1].pod.clone().unwrap();
    let container_id = pod.containers[&look.s.group.commands.sequence.container].id.clone().unwrap();
    let (asked, answered) = (at(asked), at(10_500));
    let hint = PositionHint { container_id, asked, answered, ready: true, ..position(Position::Empty) };
    look.readings.remember_position(&pod.uid, hint);
    look.s.members[1].position = Position::NotAsked;
    look.answers(Role::Stopped, 11);
    look.s.members[1].position.clone()
}

// S5: the answer to a question from before somebody else wrote is dropped when it comes. It would not only be old: the high-water mark would rise to data that was
// given up since.
#[test]
fn a_position_that_was_asked_for_before_somebody_else_wrote_is_dropped() {
    let mut look = Look::new();
    look.readings.note_record(Some(&json!(1)), at(0));
    assert_eq!(answered(&mut look, 10_000), Position::Empty);
    look.readings.note_record(Some(&json!(2)), at(10_200));
    assert_eq!(answered(&mut look, 10_100), Position::NotAsked);
    assert_eq!(answered(&mut look, 10_300), Position::Empty);
}

// A look at which nothing moves leaves the time of the last move as it was: what is read after that counts.
#[test]
fn a_quiet_look_makes_nothing_old() {
    let mut look = Look::new();
    let pod = look.s.members[1].pod.clone().unwrap();
    let container = look.s.group.commands.sequence.container.clone();
    let id = pod.containers[&container].id.clone().unwrap();
    look.readings.moves((1, None), true, at(9_000));
    let (asked, answered) = (at(10_000), at(10_000));
    let hint = PositionHint { container_id: id, asked, answered, ready: true, ..position(Position::Empty) };
    look.readings.remember_position(&pod.uid, hint);
    for second in 11..13 {
        assert!(!look.readings.moves((1, None), false, at(second * 1000)));
        look.answers(Role::Stopped, second);
        let member = &look.s.members[1];
        assert_eq!((member.position.clone(), member.position_stale), (Position::Empty, false), "{second}");
    }
}

// Both looks of a round: a group in which a member may be primary has no current position.
#[test]
fn where_a_member_may_be_primary_positions_are_stale() {
    let mut look = Look::new();
    look.s.members.iter_mut().for_each(|m| m.position_stale = false);
    look.s.group.paused = true;
    let moves = look.s.data_may_move();
    look.readings.note_moves(&mut look.s, moves, at(1000));
    assert!(look.s.members.iter().all(|m| m.position_stale), "an administrator may change anything by hand");
}
