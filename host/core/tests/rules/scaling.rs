//! Policies decide whether the number of members changes, and who is next (wit/policy.wit, `scaling`; docs/rules.md, "Number of members").
use super::super::support::db;
use super::super::support::policies::{At, Lead, Natural, answered};
use super::super::support::setting::members;
use super::super::support::world::{World, command};
use super::membership::agreeing;
use super::resize::{age, growing};
use std::cell::RefCell;
use std::collections::BTreeMap;
use tanist_core::checked::recheck_scaling;
use tanist_core::contract::{Answer, Candidate, Position, Ranking, Role};
use tanist_core::decide::decide;
use tanist_core::limits;
use tanist_core::membership::Vote;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::policy::{Answered, CUT_OFF, LOADING, NOT_LOADED, Point, Policies, Question, Reply, Unanswered};
use tanist_core::question::question;
use tanist_core::record::{GroupSize, Record};
use tanist_core::status::{Finding, Kind, PolicyHealth, Truth, report};

/// A primary and secondaries that serve.
fn serving(members: u32) -> World {
    let mut world = World::new(members, 1);
    world.group.commands.secondary = Some(command("secondary"));
    for ordinal in 0..members {
        world.remember(ordinal, 1, "9");
        world.serve(ordinal, if ordinal == 0 { Role::Primary } else { Role::Secondary });
    }
    world.play(&Natural, 0);
    world.now += 1000;
    (0..members).for_each(|ordinal| world.body(ordinal).pod.ready = true);
    world
}

/// The default rule; at one optional point it chooses everybody who may be chosen, the highest ordinal first, and keeps the question.
struct Keeps(Point, RefCell<Vec<Question>>);

impl Policies for Keeps {
    fn has(&self, point: Point) -> bool {
        !point.is_optional() || point == self.0
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        if question.point != self.0 {
            return Natural.ask(question);
        }
        self.1.borrow_mut().push(question.clone());
        let open = question.snapshot.members.iter().rev().filter(|m| m.barred.is_none());
        let candidates =
            open.map(|m| Candidate { member: m.name.clone(), reason: "it fits".into(), source: None }).collect();
        answered("keeps", Reply::Answer(Answer::Choose(Ranking { candidates, passed_over: Vec::new() })))
    }
}

fn keeps(point: Point) -> Keeps {
    Keeps(point, RefCell::default())
}

fn said(plan: &Plan, reason: Reason) -> Option<String> {
    plan.waits.iter().find(|wait| wait.reason == reason).map(|wait| wait.message.clone())
}

fn fact(facts: &[(String, String)], word: &str) -> Option<String> {
    facts.iter().find(|(key, _)| key == word).map(|(_, value)| value.clone())
}

/// The ordinals of those who may be chosen.
fn open(question: &Question) -> Vec<u32> {
    question.snapshot.members.iter().filter(|m| m.barred.is_none()).map(|m| m.ordinal).collect()
}

/// The first command that starts in some rounds.
fn first_run(world: &mut World, policy: &dyn Policies) -> Option<String> {
    for _ in 0..8 {
        let (_, plan, _) = world.round(policy);
        if let Some(first) = runs(&plan).first() {
            return Some(first.clone());
        }
        world.now += 1;
    }
    None
}

/// On whom a command starts, and which.
fn runs(plan: &Plan) -> Vec<String> {
    let run = |action: &Action| match action {
        Action::Run { intent, .. } => Some(intent.what()),
        _ => None,
    };
    plan.actions.iter().filter_map(run).collect()
}

/// The numbers, as the record has them.
fn size(replicas: u32, primaries: u32) -> Option<GroupSize> {
    Some(GroupSize { replicas, primaries })
}

/// The same, with a policy that has let in what there is.
fn let_in(members: u32) -> World {
    let mut world = serving(members);
    world.record.admitted = size(members, 1);
    world
}

// P53: the question names who would come, and how many there were; what was let in is stored with the reason, and counts from the next round on.
#[test]
fn a_policy_lets_members_in() {
    let mut world = let_in(3);
    world.group.replicas = 5;
    let policy = keeps(Point::Admit);
    let s = world.observe();
    assert_eq!((s.group.replicas, s.group.requested.replicas, s.members.len()), (3, 5, 3));
    let plan = decide(&s, &policy);
    let asked = policy.1.borrow()[0].clone();
    assert_eq!((open(&asked), asked.snapshot.members.len(), asked.snapshot.group.replicas), (vec![3, 4], 5, 5));
    assert_eq!(fact(&asked.snapshot.group.facts, "replicas-before").as_deref(), Some("3"));
    assert_eq!((plan.record.admitted, plan.wake_at()), (size(5, 1), Some(world.now + 1)));
    let past = plan.record.history.last().unwrap();
    let why = "from 3 to 5, by policy keeps: it fits";
    assert_eq!((past.what.as_str(), past.detail.as_deref()), ("admitted", Some(why)));
    assert_eq!(plan.decisions.iter().map(|decision| decision.point).collect::<Vec<_>>(), [Point::Admit]);
    // It counts now, and nobody is asked twice.
    world.record = plan.record;
    assert_eq!(world.observe().group.replicas, 5);
    assert!(decide(&world.observe(), &policy).decisions.is_empty());
    assert_eq!(policy.1.borrow().len(), 1);
}

// P53: what there is when a policy comes was let in by nobody, and counts; without the policy nothing is stored any more.
#[test]
fn what_there_is_counts() {
    let mut world = serving(3);
    let policy = keeps(Point::Admit);
    assert_eq!(decide(&world.observe(), &Natural).record.admitted, None);
    assert_eq!(decide(&world.observe(), &policy).record.admitted, size(3, 1));
    world.record.admitted = size(3, 1);
    // The number of primaries alone is no question.
    world.group.primaries = 2;
    assert_eq!(decide(&world.observe(), &policy).record.admitted, size(3, 2));
    assert!(policy.1.borrow().is_empty());
    world.group.replicas = 2;
    let plan = decide(&world.observe(), &Natural);
    assert_eq!((plan.record.admitted, plan.wake_at()), (None, Some(world.now + 1)), "no policy has the question");
}

// P53, D22: those who would leave are the candidates; while nobody is let go everybody stays, also the primary that would have to hand over.
#[test]
fn nobody_leaves_without_leave() {
    let mut world = let_in(4);
    world.group.replicas = 2;
    let policy = keeps(Point::Admit);
    let _ = decide(&world.observe(), &policy);
    assert_eq!(open(&policy.1.borrow()[0]), [2, 3]);
    let s = world.observe();
    for kind in ["refuses", "waits", "trap", NOT_LOADED, LOADING, CUT_OFF] {
        let opinion = match kind {
            "refuses" => Lead::Refuses,
            "waits" => Lead::Waits(Some(40)),
            kind => Lead::Fails(kind),
        };
        let plan = decide(&s, &At(Point::Admit, opinion));
        assert_eq!((runs(&plan), plan.record.admitted), (Vec::new(), size(4, 1)), "{kind}");
        assert!(s.members.iter().all(|m| !s.leaves(m)));
        assert!(!plan.actions.iter().any(|action| matches!(action, Action::Scale { .. })));
        let conditions = report(&s, &plan, &PolicyHealth::Active(String::new()), None).conditions;
        let ready = conditions.into_iter().find(|c| c.kind == Kind::Ready).unwrap();
        assert_eq!((ready.status, ready.reason), (Truth::False, Finding::NotAdmitted.into()));
        assert!(
            ready.message.ends_with("spec.replicas is 2, and policies have not allowed this number of members"),
            "{}",
            ready.message
        );
    }
}

// P53, S1: with the number of members the number of primaries is held: of a group that is asked to stop, or to get smaller, no primary is stopped before that is let in.
#[test]
fn no_primary_stops_before_the_number_is_let_in() {
    for (replicas, primaries) in [(0, 0), (1, 1)] {
        let mut world = World::new(3, 3);
        for ordinal in 0..3 {
            world.remember(ordinal, 1, "9");
            world.serve(ordinal, Role::Primary);
        }
        world.play(&Natural, 0);
        world.record.admitted = size(3, 3);
        (world.group.replicas, world.group.primaries) = (replicas, primaries);
        let s = world.observe();
        assert_eq!((s.group.primaries, s.group.requested), (3, GroupSize { replicas, primaries }));
        assert_eq!(first_run(&mut world, &At(Point::Admit, Lead::Refuses)), None);
        world.record.admitted = None;
        let first = first_run(&mut world, &Natural);
        assert!(first.as_ref().is_some_and(|first| first.starts_with("stop on")), "{first:?}");
    }
}

// P53: a group that policies do not let out of 0 says so, and is not Ready as one that was to be stopped is.
#[test]
fn a_group_that_is_not_let_out_of_0_is_not_ready() {
    let mut world = let_in(3);
    (0..3).for_each(|ordinal| world.body(ordinal).app.role = Role::Stopped);
    for (asked, expected) in [(3, (Truth::False, "NotAdmitted")), (0, (Truth::True, "Stopped"))] {
        (world.group.replicas, world.record.admitted) = (asked, size(0, 0));
        let s = world.observe();
        let plan = decide(&s, &At(Point::Admit, Lead::Refuses));
        let conditions = report(&s, &plan, &PolicyHealth::Active(String::new()), None).conditions;
        let ready = conditions.into_iter().find(|c| c.kind == Kind::Ready).unwrap();
        assert_eq!((ready.status, ready.reason.as_str()), expected, "{}", ready.message);
    }
}

// P53: users see who decides and why, and a delay ends at its time.
#[test]
fn users_see_who_lets_nobody_in() {
    let mut world = let_in(3);
    world.group.replicas = 5;
    let played = |opinion| At(Point::Admit, opinion);
    let waits = decide(&world.observe(), &played(Lead::Waits(Some(40))));
    let why = "spec.replicas is 5, and 3 members were let in: policy mover waits: not now";
    assert_eq!(said(&waits, Reason::ResizePending).as_deref(), Some(why));
    assert_eq!(waits.wake_at(), Some(world.now + 40));
    let refuses = decide(&world.observe(), &played(Lead::Refuses));
    assert!(said(&refuses, Reason::PolicyRefuses).unwrap().contains("spec.replicas is 5, and 3 members were let in"));
}

// P53: a policy that was never loaded may not have the question: it holds nothing up, and nothing is stored for it.
#[test]
fn what_was_never_loaded_holds_up_nothing() {
    for kind in [LOADING, NOT_LOADED] {
        let mut world = serving(3);
        world.group.replicas = 2;
        let plan = decide(&world.observe(), &At(Point::Admit, Lead::Fails(kind)));
        assert_eq!((runs(&plan), plan.record.admitted), (vec!["stop on db-2".into()], None), "{kind}");
    }
}

// P53: without an opinion the number that is asked for counts, and goes on to count when the next answer is another one.
#[test]
fn without_an_opinion_the_number_counts() {
    let mut world = let_in(3);
    world.group.replicas = 2;
    let plan = decide(&world.observe(), &At(Point::Admit, Lead::Abstains));
    assert_eq!(plan.record.admitted, size(2, 1));
    world.record = plan.record;
    let refuses = At(Point::Admit, Lead::Refuses);
    assert_eq!(runs(&decide(&world.observe(), &refuses)), ["stop on db-2"]);
}

// P53: a new group, also one that is created anew over its claims, has the size that it was created with.
#[test]
fn a_new_group_asks_nobody() {
    let policy = keeps(Point::Admit);
    let mut world = World::new(3, 1);
    world.record = Record { admitted: size(3, 1), ..Record::default() };
    world.group.replicas = 5;
    let plan = decide(&world.observe(), &policy);
    assert_eq!((plan.record.admitted, plan.wake_at()), (size(5, 1), Some(world.now + 1)));
    assert!(policy.1.borrow().is_empty());
    let mut again = serving(3);
    (again.set, again.record.last_replicas) = (None, 0);
    assert_eq!(decide(&again.observe(), &At(Point::Admit, Lead::Refuses)).record.admitted, size(3, 1));
}

// P53, S25: an operator that decided to shrink before another one wrote that nobody goes shrinks nothing.
#[test]
fn a_shrink_that_is_not_let_in_any_more_is_not_made() {
    let mut world = serving(3);
    world.body(2).app.role = Role::Stopped;
    (world.group.replicas, world.record.admitted) = (2, size(2, 1));
    let decided = world.observe();
    assert!(recheck_scaling(&decided, &decided, 2).is_ok());
    world.record.admitted = size(3, 1);
    let live = world.observe();
    assert!(recheck_scaling(&decided, &live, 2).is_err());
}

// P53, D16: the policy chooses among those who leave; it sees what would be done with each.
#[test]
fn a_policy_chooses_who_is_stopped() {
    let mut world = serving(4);
    world.group.replicas = 2;
    assert_eq!(runs(&decide(&world.observe(), &Natural)), ["stop on db-3"], "the host's own order");
    let policy = keeps(Point::Order);
    assert_eq!(runs(&decide(&world.observe(), &policy)), ["stop on db-3"]);
    let asked = policy.1.borrow()[0].clone();
    assert_eq!(open(&asked), [2, 3]);
    let changes: Vec<_> = asked.snapshot.members.iter().map(|m| fact(&m.facts, "change")).collect();
    assert_eq!(changes, [None, None, Some("stop".into()), Some("stop".into())]);
    let plan = decide(&world.observe(), &At(Point::Order, Lead::Insists(db(2))));
    assert_eq!(runs(&plan), ["stop on db-2"]);
    assert_eq!(plan.decisions.iter().map(|decision| decision.point).collect::<Vec<_>>(), [Point::Order]);
}

// P53: nobody who stays is stopped, whoever names it; a policy that waits, refuses or cannot answer holds everybody.
#[test]
fn a_policy_cannot_stop_who_stays() {
    let mut world = serving(4);
    world.group.replicas = 2;
    let played = |world: &mut World, opinion| decide(&world.observe(), &At(Point::Order, opinion));
    let plan = played(&mut world, Lead::Insists(db(1)));
    assert!(runs(&plan).is_empty() && said(&plan, Reason::AnswerRejected).is_some());
    for (opinion, reason) in [
        (Lead::Waits(Some(40)), Reason::ResizePending),
        (Lead::Refuses, Reason::PolicyRefuses),
        (Lead::Fails("trap"), Reason::PolicyBroken),
        (Lead::Fails(LOADING), Reason::PolicyLoading),
    ] {
        let plan = played(&mut world, opinion);
        assert!(runs(&plan).is_empty() && said(&plan, reason).is_some(), "{reason:?}");
    }
    // One that could not be loaded may not have the question.
    for opinion in [Lead::Abstains, Lead::Fails(NOT_LOADED)] {
        assert_eq!(runs(&played(&mut world, opinion)), ["stop on db-3"]);
    }
}

// P53, D9: of several that wait to be added the policy chooses one; only one change is open at a time.
#[test]
fn a_policy_chooses_who_is_added() {
    let mut world = World::new(5, 5);
    world.group.commands.membership = Some(members(true));
    for ordinal in 0..3 {
        world.remember(ordinal, 1, "9");
        world.serve(ordinal, Role::Primary);
    }
    world.form(0..3);
    world.record.ever_seeded = Some(tanist_core::record::Seeded { member: db(0), confirmed: true });
    let policy = keeps(Point::Order);
    let first = first_run(&mut world, &policy);
    let asked = policy.1.borrow().last().cloned().unwrap();
    assert_eq!(open(&asked), [3, 4]);
    let told = |ordinal: usize, word| fact(&asked.snapshot.members[ordinal].facts, word);
    assert_eq!(
        (told(0, "listed").as_deref(), told(0, "healthy").as_deref(), told(0, "change")),
        (Some("voter"), Some("true"), None)
    );
    assert_eq!((told(4, "listed"), told(4, "change").as_deref()), (None, Some("add")));
    assert_eq!(fact(&asked.snapshot.group.facts, "quorum").as_deref(), Some("true"));
    assert_eq!(first.as_deref(), Some("memberAdd of db-4 on db-0"));
}

// P53: what members that agree say of each other is told at the questions about their number alone.
#[test]
fn facts_about_the_number_are_sent_at_its_questions_alone() {
    let s = agreeing(3).observe();
    let told = |point| {
        let asked = question(&s, point, &BTreeMap::new()).snapshot;
        let of_members = |word| asked.members.iter().any(|m| fact(&m.facts, word).is_some());
        [of_members("listed"), of_members("healthy"), fact(&asked.group.facts, "quorum").is_some()]
    };
    assert_eq!((told(Point::Order), told(Point::Admit)), ([true; 3], [true; 3]));
    assert_eq!((told(Point::Failover), told(Point::Update)), ([false; 3], [false; 3]));
}

// P53: nothing is changed on an old list, so no policy chooses by it: who is there may have changed meanwhile.
#[test]
fn on_an_old_list_no_policy_is_asked() {
    let asked = |seconds| {
        let mut s = growing(3);
        age(&mut s, seconds);
        let policy = keeps(Point::Order);
        let begun = runs(&decide(&s, &policy));
        let questions = policy.1.borrow().len();
        (questions, begun)
    };
    assert_eq!(asked(limits::LIST_CHANGE_SECONDS), (1, vec!["memberAdd of db-3 on db-0".to_owned()]));
    assert_eq!(asked(limits::LIST_CHANGE_SECONDS + 1), (0, Vec::new()));
}

// P53, D21: db-2 lost its volume, and db-3 could be added as a learner. The repair comes first, and no policy is asked about it.
#[test]
fn no_policy_is_asked_about_a_repair() {
    let mut s = growing(3);
    s.group.commands.membership = Some(members(true));
    (s.members[2].reading.role, s.members[2].position) = (Role::Stopped, Position::Empty);
    let policy = keeps(Point::Order);
    assert_eq!(runs(&decide(&s, &policy)), ["memberRemove of db-2 on db-0"]);
    assert!(policy.1.borrow().is_empty());
}

// P53, D12: db-1 and db-2 leave. db-1 was half added and is in the way of the others: it goes first, and no policy is asked about it.
#[test]
fn no_policy_is_asked_about_what_was_half_added() {
    let mut s = growing(3);
    (s.group.replicas, s.group.primaries, s.members[1].reading.role) = (1, 1, Role::Stopped);
    for heard in s.lists.values_mut() {
        let entries = &mut heard.list.as_mut().unwrap().entries;
        let own = entries.iter_mut().filter(|entry| entry.name == Some(db(1)));
        own.for_each(|entry| (entry.name, entry.vote) = (None, Vote::Learner));
    }
    let policy = keeps(Point::Order);
    assert_eq!(runs(&decide(&s, &policy)), ["memberRemove of db-1 on db-0"]);
    assert!(policy.1.borrow().is_empty());
}
