//! The form of an answer (docs/safety.md, H9 to H12): an answer that breaks a rule is dropped as a whole and reported, and nothing is done.
use super::super::support::policies::{Reversed, Says};
use super::super::support::world::World;
use super::super::support::{db, policies::Natural};
use tanist_core::check::Rule;
use tanist_core::contract::{
    Answer, Candidate, Care, Delay, MemberName, Position, Ranking, Remark, Remedy, Role, Treatment,
};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Plan, Reason, Standing};
use tanist_core::policy::{Point, Reply};

fn candidate(name: &str) -> Candidate {
    Candidate { member: name.into(), reason: "because".into(), source: None }
}

fn choose(candidates: Vec<Candidate>) -> Reply {
    Reply::Answer(Answer::Choose(Ranking { candidates, passed_over: Vec::new() }))
}

/// db-0 and db-2 have the highest data, db-1 has less; all positions are read.
fn at_seed(reply: Reply) -> (Plan, Says) {
    let mut world = World::new(3, 1);
    for (ordinal, data) in [(0, "5"), (1, "4"), (2, "5")] {
        world.remember(ordinal, 1, data);
    }
    world.round(&Natural); // reads
    let says = Says::new(reply);
    (decide(&world.observe(), &says), says)
}

fn at_treat(treatments: Vec<Treatment>) -> Plan {
    let mut world = World::new(2, 1);
    world.remember(0, 1, "5");
    world.remember(1, 1, "5");
    world.serve(0, Role::Primary);
    world.serve(1, Role::Failed);
    decide(&world.observe(), &Says::new(Reply::Care(Care::Treat(treatments))))
}

fn treatment(name: &str, remedy: Remedy) -> Treatment {
    Treatment { member: name.into(), remedy, reason: "because".into() }
}

fn dropped(plan: &Plan, rule: Rule) {
    let rules: Vec<_> = plan.violations.iter().map(|v| v.rule).collect();
    assert_eq!(rules, [rule]);
    assert!(plan.waits.iter().any(|w| w.reason == Reason::AnswerRejected), "{:?}", plan.waits);
    assert!(!plan.actions.iter().any(|a| matches!(a, Action::Run { .. } | Action::DeletePod { .. })));
    assert!(plan.record.intents.is_empty());
}

// P14, P18: nothing of it is done, though its first candidate may be sound; `source` is not possible yet.
#[test]
fn an_answer_that_breaks_a_rule_is_dropped_as_a_whole() {
    let long = || Candidate { reason: "x".repeat(257), ..candidate("db-2") };
    let source = || Candidate { source: Some(db(2)), ..candidate("db-0") };
    let remark = Remark { member: "db-9".into(), reason: String::new() };
    let cases = [
        (vec![], Rule::EmptyAnswer),
        (vec![candidate("db-9")], Rule::UnknownMember),
        (vec![candidate("")], Rule::UnknownMember),
        (vec![candidate("db-1")], Rule::BarredMember),
        (vec![candidate("db-0"), candidate("db-1")], Rule::BarredMember),
        (vec![candidate("db-0"), candidate("db-0")], Rule::DuplicateMember),
        (vec![candidate("db-0"), long()], Rule::ReasonTooLong),
        (vec![source()], Rule::SourceNotPossible),
    ];
    for (candidates, rule) in cases {
        dropped(&at_seed(choose(candidates)).0, rule);
    }
    let remarked = Ranking { candidates: vec![candidate("db-0")], passed_over: vec![remark] };
    dropped(&at_seed(Reply::Answer(Answer::Choose(remarked))).0, Rule::UnknownMember);
}

// P14, P18: the same for treatments; `replace` is not possible yet.
#[test]
fn treatments_are_held_against_the_same_rules() {
    let stop = |name| treatment(name, Remedy::Stop);
    dropped(&at_treat(vec![stop("db-7")]), Rule::UnknownMember);
    dropped(&at_treat(vec![stop("db-0")]), Rule::BarredMember);
    dropped(&at_treat(vec![stop("db-1"), stop("db-1")]), Rule::DuplicateMember);
    dropped(&at_treat(vec![treatment("db-1", Remedy::Replace)]), Rule::RemedyNotPossible);
    dropped(&at_treat(vec![Treatment { reason: "x".repeat(257), ..stop("db-1") }]), Rule::ReasonTooLong);
}

#[test]
fn to_leave_a_failed_member_is_an_answer() {
    for nothing in [vec![], vec![treatment("db-1", Remedy::Leave)]] {
        let plan = at_treat(nothing);
        assert!(plan.violations.is_empty() && plan.record.intents.is_empty());
        assert!(plan.waits.iter().any(|w| w.reason == Reason::MemberFailed));
    }
}

// P15: the group looks again at the time that a policy named.
#[test]
fn a_delay_ends_later_than_now() {
    let now = at_seed(choose(vec![candidate("db-0")])).1.asked.borrow()[0].snapshot.now;
    let wait = |until| Reply::Answer(Answer::Wait(Delay { reason: "later".into(), until }));
    for over in [now, now - 1] {
        dropped(&at_seed(wait(Some(over))).0, Rule::DelayNotLater);
    }
    let plan = at_seed(wait(Some(now + 7))).0;
    assert_eq!(plan.wake_at(), Some(now + 7));
    assert!(at_seed(wait(None)).0.violations.is_empty());
}

#[test]
fn an_answer_to_another_question_is_no_answer() {
    let (plan, _) = at_seed(Reply::Care(Care::Treat(vec![treatment("db-0", Remedy::Recreate)])));
    assert!(plan.waits.iter().any(|w| w.reason == Reason::PolicyBroken) && plan.record.intents.is_empty());
    for abstention in [Reply::Answer(Answer::Abstain), Reply::Care(Care::Abstain)] {
        assert!(at_seed(abstention).0.waits.iter().any(|w| w.reason == Reason::PolicyBroken));
    }
}

// P14: wit/policy.wit, `ranking`: only the first candidate is acted on.
#[test]
fn only_the_first_candidate_is_acted_on() {
    let (plan, _) = at_seed(choose(vec![candidate("db-2"), candidate("db-0")]));
    let members: Vec<_> = plan.record.intents.iter().map(|i| &i.member).collect();
    assert_eq!(members, [&db(2)]);
    let standing: Vec<_> = plan.decisions[0].candidates.iter().map(|c| c.result).collect();
    assert_eq!(standing, [Standing::Fallback, Standing::Barred, Standing::Chosen]);
}

// P19: wit/policy.wit: policies choose among safe members, which are sorted by ordinal, and see no time later than now.
#[test]
fn a_question_says_who_may_be_chosen_and_why_not() {
    let (_, says) = at_seed(choose(vec![candidate("db-0")]));
    let asked = says.asked.borrow();
    assert_eq!(asked[0].point, Point::Seed);
    let s = &asked[0].snapshot;
    let barred: Vec<_> = s.members.iter().map(|m| m.barred.is_some()).collect();
    assert_eq!(barred, [false, true, false]);
    assert!(s.members.windows(2).all(|m| m[0].ordinal < m[1].ordinal));
    assert!(s.members.iter().all(|m| m.phase_since <= s.now && m.role_since <= s.now));
    assert!(matches!(s.members[0].position, Position::Known(_)));
}

// A8: twelve equal members are ordered by their numbers, not by their names.
#[test]
fn twelve_members_are_ordered_by_number() {
    let mut world = World::new(12, 12);
    for ordinal in 0..12 {
        world.remember(ordinal, 1, "5");
    }
    world.play(&Natural, 60);
    let expected: Vec<_> = (0..12).map(|n| format!("primary db-{n}")).collect();
    let started: Vec<_> = world.started.iter().filter(|c| c.starts_with("primary")).cloned().collect();
    assert_eq!(started, expected);
}

// The host makes no decision that a policy could make: the reversed order changes every outcome.
#[test]
fn the_reversed_order_changes_who_seeds_joins_is_placed_and_demoted() {
    let play = |policies: &dyn tanist_core::policy::Policies| {
        let mut world = World::new(4, 2);
        world.group.commands.secondary = Some(super::super::support::world::command("secondary"));
        for (ordinal, data) in [(0, "5"), (1, "4"), (2, "5"), (3, "3")] {
            world.remember(ordinal, 1, data);
        }
        world.play(policies, 60);
        world.group.primaries = 1;
        world.play(policies, 60);
        let commands = world.started.into_iter().filter(|c| !c.starts_with("sequence"));
        commands.map(|c| c.replace("db-", "")).collect::<Vec<_>>()
    };
    // The secondaries were told of both primaries, so they are told again of the one that is left.
    let demoted = "stop 2 secondary 1 secondary 3 secondary 2";
    let natural = play(&Natural).join(" ");
    assert_eq!(natural, format!("primary 0 primary 2 secondary 1 secondary 3 {demoted}"));
    let reversed = play(&Reversed).join(" ");
    assert_eq!(reversed, "primary 2 primary 3 secondary 1 secondary 0 stop 2 secondary 0 secondary 1 secondary 2");
    // Among equals the first member is stopped by the reversed order, the last one by the natural order.
    let equal = |policies: &dyn tanist_core::policy::Policies| {
        let mut world = World::new(2, 2);
        for ordinal in 0..2 {
            world.remember(ordinal, 1, "5");
            world.serve(ordinal, Role::Primary);
        }
        world.group.primaries = 1;
        world.play(policies, 0);
        world.started.into_iter().find(|c| c.starts_with("stop"))
    };
    assert_eq!((equal(&Natural), equal(&Reversed)), (Some("stop db-1".into()), Some("stop db-0".into())));
    assert_eq!(MemberName::from("db-1"), db(1));
}
