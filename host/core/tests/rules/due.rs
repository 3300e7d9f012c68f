//! When the next round is due.
use std::time::Duration;
use tanist_core::contract::Role;
use tanist_core::due::{ASK_AGAIN, Carried, due};
use tanist_core::evidence::Commands;
use tanist_core::examples::usual;
use tanist_core::plan::{Action, DecidedBy, Decision, DeletionCause, Plan, Reason};
use tanist_core::policy::Point;
use tanist_core::snapshot::{Evidence, Snapshot};

const RESYNC: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(50);

fn observed() -> (Snapshot, Plan) {
    let s = usual(Point::Failover).0.observed().clone();
    let plan = Plan::new(s.record.clone());
    (s, plan)
}

fn carried<'a>(s: &Snapshot, done: &'a [Action], retry: Option<Duration>) -> Carried<'a> {
    Carried { done, retry, resync: RESYNC, now: s.now }
}

fn nudge() -> Action {
    Action::Nudge { set_uid: "set".into() }
}

fn route() -> Action {
    Action::Route { member: "db-0".into(), pod_uid: "u".into(), role: Some("primary"), ready: true, version: None }
}

// A group that needs nothing is looked at after the resync interval, and what is tried again or awaited comes sooner.
#[test]
fn the_next_round_is_due_when_the_first_thing_is() {
    let (s, mut plan) = observed();
    let commands = Commands::default();
    let at = |plan: &Plan, done: &[Action], retry| due(&s, plan, &commands, carried(&s, done, retry));
    assert_eq!(at(&plan, &[], None), RESYNC);
    assert_eq!(at(&plan, &[], Some(Duration::from_millis(100))), Duration::from_millis(100));
    assert_eq!(at(&plan, &[], Some(RESYNC * 2)), RESYNC, "never later than that");
    plan.wait_until(Reason::PolicyWaits, None, "not now", Some(s.now + 7));
    assert_eq!(at(&plan, &[], None), Duration::from_secs(7));
    plan.look_again_at(s.now - 3);
    assert_eq!(at(&plan, &[], None), Duration::from_secs(1), "what is overdue waits for a second all the same");
}

// What changed may change the next decision; what ends by an event starts the next round itself.
#[test]
fn what_was_changed_is_looked_at_soon() {
    let (s, mut plan) = observed();
    let commands = Commands::default();
    let at = |plan: &Plan, done: &[Action]| due(&s, plan, &commands, carried(&s, done, None));
    assert_eq!(at(&plan, &[route()]), SOON);
    assert_eq!(at(&plan, &[nudge()]), RESYNC, "its end starts a round");
    assert_eq!(at(&plan, &[route(), nudge()]), RESYNC);
    plan.record.term += 1;
    assert_eq!(at(&plan, &[]), SOON, "the record changed");
}

// A command that another process began has no end that this process hears.
#[test]
fn a_command_that_runs_elsewhere_is_asked_about_again() {
    let (mut s, plan) = observed();
    s.evidence.insert("t".into(), Evidence::Running);
    let mut commands = Commands::default();
    assert_eq!(due(&s, &plan, &commands, carried(&s, &[], None)), ASK_AGAIN);
    commands.promise(["t".to_owned()]);
    assert!(commands.begin("t"));
    assert_eq!(due(&s, &plan, &commands, carried(&s, &[], None)), RESYNC, "its end starts a round");
    s.evidence.insert("t".into(), Evidence::Exited(0));
    assert_eq!(due(&s, &plan, &Commands::default(), carried(&s, &[], None)), RESYNC);
}

// S1: without its record nothing that needs it happened, and nothing says so.
#[test]
fn a_plan_without_its_record_says_only_what_happened() {
    let (s, mut plan) = observed();
    plan.record.term += 1;
    for point in [Point::Failover, Point::Rebalance] {
        plan.decisions.push(Decision {
            at: s.now,
            point,
            by: DecidedBy::Administrator,
            term: 1,
            chosen: None,
            reason: String::new(),
            candidates: vec![],
            notes: vec![],
        });
    }
    let noted = plan.clone().unwritten(&s.record);
    assert_eq!(noted, plan, "what was only observed needs no command");
    plan.actions.push(Action::DeletePod {
        member: "db-1".into(),
        pod_uid: "u".into(),
        cause: DeletionCause::Rebalance,
        reason: "there is room elsewhere".into(),
    });
    let unwritten = plan.unwritten(&s.record);
    assert_eq!(unwritten.record, s.record);
    let points: Vec<_> = unwritten.decisions.iter().map(|decision| decision.point).collect();
    assert_eq!(points, [Point::Failover], "nobody moved");
}

// S19: a member that was asked at a bad moment is asked again soon, and not only after the resync interval; one that never answers costs less and less.
#[test]
fn a_role_that_could_not_be_read_is_asked_for_again() {
    let (mut s, plan) = observed();
    let commands = Commands::default();
    let mut at = |role, streak| {
        (s.members[1].reading.role, s.members[1].reading.unknown_streak) = (role, streak);
        due(&s, &plan, &commands, carried(&s, &[], None)).as_secs()
    };
    assert_eq!([1, 2, 3, 5, 6, 40].map(|streak| at(Role::Unknown, streak)), [2, 4, 8, 32, 60, 60]);
    assert_eq!(at(Role::Unknown, 0), 60, "it was not asked");
    assert_eq!(at(Role::Secondary, 0), 60);
}
