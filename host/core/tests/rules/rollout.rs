//! Policies decide who gets a changed template next, and whether it works (wit/policy.wit, `rollout`; docs/rules.md, "Update").
use super::super::support::policies::{At, Lead, Natural, Says};
use super::super::support::world::World;
use super::super::support::{db, sequence};
use std::cell::RefCell;
use tanist_core::check::{Rule, may_be_judged};
use tanist_core::checked::recheck_update;
use tanist_core::contract::{Answer, Member, Role};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::policy::{Answered, CUT_OFF, LOADING, NOT_LOADED, Point, Policies, Question, Reply, Unanswered};
use tanist_core::record::{Canary, Fallback, GivenUp, Switchover, Verdict};
use tanist_core::snapshot::{Batch, Former, Query, QueryAnswer};

const NEW: &str = "the new template";

/// A primary and four secondaries that work, all of them with an older template.
fn old() -> World {
    let mut world = World::new(5, 1);
    world.group.commands.secondary = Some(super::super::support::world::command("secondary"));
    for ordinal in 0..5 {
        world.remember(ordinal, 1, "9");
        world.serve(ordinal, if ordinal == 0 { Role::Primary } else { Role::Secondary });
    }
    let now = world.now;
    let known = world.record.member_mut(&db(0));
    (known.primary_term, known.last_primary) = (Some(1), Some(now));
    world.play(&Natural, 0);
    world.now += 10_000;
    (0..5).for_each(|ordinal| {
        world.body(ordinal).pod.ready = true;
        world.older(ordinal);
    });
    world.group.update.template = NEW.into();
    world
}

/// The same; db-4 has the new template and has been watched for so many of 60 seconds.
fn watched(seconds: i64) -> World {
    let mut world = old();
    let pod = &mut world.body(4).pod;
    (pod.outdated, pod.older_template) = (false, false);
    world.group.update.canary = 60;
    world.record.canary = decide(&world.observe(), &Natural).record.canary;
    assert!(world.record.canary.as_ref().is_some_and(|canary| canary.since.is_some()));
    world.now += seconds;
    world
}

fn gone(plan: &Plan) -> Vec<String> {
    let name = |action: &Action| match action {
        Action::DeletePod { member, .. } => Some(member.to_string()),
        _ => None,
    };
    plan.actions.iter().filter_map(name).collect()
}

fn said(plan: &Plan, reason: Reason) -> Option<String> {
    plan.waits.iter().find(|wait| wait.reason == reason).map(|wait| wait.message.clone())
}

/// The default rule; at one point it chooses every member that may be chosen, in this order, and keeps the question.
struct Ranks(Point, [u32; 5], RefCell<Vec<Question>>);

impl Policies for Ranks {
    fn has(&self, point: Point) -> bool {
        !point.is_optional() || point == self.0
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        if question.point != self.0 {
            return Natural.ask(question);
        }
        self.2.borrow_mut().push(question.clone());
        let mut ordered = question.clone();
        let place = |m: &Member| self.1.iter().position(|ordinal| *ordinal == m.ordinal);
        ordered.snapshot.members.sort_by_key(place);
        // `Natural` orders by data: here all is alike, so its order is that of the ordinals.
        let first = |m: &&Member| m.barred.is_none();
        let names: Vec<_> = ordered.snapshot.members.iter().filter(first).map(|m| m.name.clone()).collect();
        let candidates = names.into_iter().map(|member| tanist_core::contract::Candidate {
            member,
            reason: "its disk is the emptiest".into(),
            source: None,
        });
        let ranking = tanist_core::contract::Ranking { candidates: candidates.collect(), passed_over: Vec::new() };
        super::super::support::policies::answered("ranks", Reply::Answer(Answer::Choose(ranking)))
    }
}

fn ranks(order: [u32; 5]) -> Ranks {
    Ranks(Point::Update, order, RefCell::default())
}

fn fact(facts: &[(String, String)], word: &str) -> Option<String> {
    facts.iter().find(|(key, _)| key == word).map(|(_, value)| value.clone())
}

// E32, P52: whoever a policy puts first gets the template first; users see why. The second look holds the rules for it, as for the host's own choice.
#[test]
fn a_policy_chooses_who_is_next() {
    let s = old().observe();
    assert_eq!(gone(&decide(&s, &Natural)), ["db-4"], "the host's own order");
    let policy = ranks([2, 1, 3, 4, 0]);
    let plan = decide(&s, &policy);
    assert_eq!(gone(&plan), ["db-2"]);
    let why = "it has an older template than the group; policy ranks chose it: its disk is the emptiest";
    assert!(matches!(&plan.actions[..], [Action::DeletePod { reason, .. }] if reason == why), "{:?}", plan.actions);
    assert_eq!(plan.record.history.last().and_then(|past| past.detail.clone()).as_deref(), Some(why));
    assert_eq!(plan.decisions.iter().map(|decision| decision.point).collect::<Vec<_>>(), [Point::Update]);
    let message = said(&plan, Reason::Updating).unwrap();
    assert_eq!(message, "0 of 5 pods have the present template; db-2 gets a new pod");
    // The primary is barred: it comes last, and gives up the lead first.
    let asked = policy.2.borrow();
    let barred: Vec<_> = asked[0].snapshot.members.iter().map(|m| m.barred.is_some()).collect();
    assert_eq!(barred, [true, false, false, false, false]);
    assert!(asked[0].snapshot.members[0].barred.as_ref().unwrap().contains("before the primary"));
    assert_eq!(fact(&asked[0].snapshot.members[2].facts, "template").as_deref(), Some("older"));
    assert_eq!(fact(&asked[0].snapshot.group.facts, "update-batch").as_deref(), Some("member"));
    let uid = s.members[2].pod.as_ref().unwrap().uid.clone();
    assert!(recheck_update(&s, &s, &[(&db(2), uid.as_str())]).is_ok());
}

// B27: in a batch those go along that the policy chose, in its order, as far as the rules let them.
#[test]
fn those_that_a_policy_chose_go_along() {
    let mut world = old();
    world.group.update.batch = Batch::All;
    assert_eq!(gone(&decide(&world.observe(), &ranks([2, 1, 3, 4, 0]))), ["db-2", "db-1", "db-3", "db-4"]);
    let two = At(Point::Update, Lead::Insists(db(3)));
    assert_eq!(gone(&decide(&world.observe(), &two)), ["db-3"], "nobody else was chosen");
}

// P52: no policy gets a pod deleted that the rules keep.
#[test]
fn a_policy_cannot_choose_who_is_barred() {
    let mut world = old();
    let primary = At(Point::Update, Lead::Insists(db(0)));
    let plan = decide(&world.observe(), &primary);
    assert_eq!((gone(&plan), plan.violations.len()), (Vec::new(), 1));
    assert!(said(&plan, Reason::AnswerRejected).is_some());
    // While two members are not Ready everybody is barred, and nobody is asked.
    [1, 3].into_iter().for_each(|ordinal| world.body(ordinal).pod.ready = false);
    let policy = ranks([2, 1, 3, 4, 0]);
    let plan = decide(&world.observe(), &policy);
    assert!(gone(&plan).is_empty() && policy.2.borrow().is_empty());
    assert!(said(&plan, Reason::Updating).unwrap().contains("db-4 is next: the pod of db-1 is not Ready"));
}

// E32: a policy holds an update up, and users see why; without an opinion the host goes on; one that is broken or not loaded lets nothing happen.
#[test]
fn a_policy_holds_an_update_up() {
    let s = old().observe();
    let played = |opinion| decide(&s, &At(Point::Update, opinion));
    let waits = played(Lead::Waits(Some(40)));
    assert!(gone(&waits).is_empty());
    assert_eq!(said(&waits, Reason::PolicyWaits), None, "it is no stall, however long it takes");
    assert!(said(&waits, Reason::Updating).unwrap().ends_with("db-4 would be next: policy mover waits: not now"));
    assert_eq!(waits.wake_at(), Some(s.now + 40));
    let refuses = played(Lead::Refuses);
    assert!(gone(&refuses).is_empty() && said(&refuses, Reason::PolicyRefuses).is_some());
    assert_eq!(gone(&played(Lead::Abstains)), ["db-4"]);
    for (kind, reason) in
        [("trap", Reason::PolicyBroken), (LOADING, Reason::PolicyLoading), (CUT_OFF, Reason::DecisionDelayed)]
    {
        let plan = played(Lead::Fails(kind));
        assert!(gone(&plan).is_empty() && said(&plan, reason).is_some(), "{kind}");
    }
    assert!(gone(&played(Lead::Fails(NOT_LOADED))).is_empty());
    // A policy without the question is not asked.
    let silent = Says::new(Reply::Answer(Answer::Abstain));
    assert!(!silent.has(Point::Update) && gone(&decide(&s, &silent)) == ["db-4"]);
    assert!(silent.asked.borrow().is_empty());
}

// E35: an update that a policy holds up for too long is reported as one that is stuck.
#[test]
fn an_update_that_is_held_up_is_stuck() {
    let mut world = old();
    let policy = At(Point::Update, Lead::Waits(None));
    world.record.updating = decide(&world.observe(), &policy).record.updating;
    world.now += 600;
    let stuck = said(&decide(&world.observe(), &policy), Reason::UpdateStuck).unwrap();
    assert!(stuck.contains("policy mover waits: not now"), "{stuck}");
}

// E5: members in whose pods nothing works get the template at once, whatever a policy thinks of it: it may be their cure.
#[test]
fn a_cure_waits_for_no_policy() {
    let mut world = old();
    world.body(3).app.role = Role::Stopped;
    let plan = decide(&world.observe(), &At(Point::Update, Lead::Refuses));
    assert_eq!(gone(&plan), ["db-3"]);
}

/// The same, where all but the primary have the new template.
fn last() -> World {
    let mut world = old();
    (1..5).for_each(|ordinal| {
        let pod = &mut world.body(ordinal).pod;
        (pod.outdated, pod.older_template) = (false, false);
    });
    world
}

/// The command that stops the primary so that another one leads, if the plan begins one; or the reading of the primary's data before it.
fn lead_moves(plan: &Plan) -> bool {
    plan.record.switchover.is_some()
        && plan.actions.iter().any(|a| matches!(a, Action::Run { .. } | Action::Read { .. }))
}

// E32, P52: the primary's turn is a policy's, too: its lead does not move for the update while a policy waits, refuses or cannot answer.
#[test]
fn a_policy_holds_the_primary() {
    let s = last().observe();
    let played = |opinion| decide(&s, &At(Point::Update, opinion));
    assert!(lead_moves(&decide(&s, &Natural)), "the host's own order");
    let waits = played(Lead::Waits(Some(40)));
    assert!(!lead_moves(&waits) && waits.record.switchover.is_none());
    let why = said(&waits, Reason::SwitchoverPending).unwrap();
    assert!(why.contains("gives up the lead first: policy mover waits: not now"), "{why}");
    assert_eq!(waits.wake_at(), Some(s.now + 40));
    for (opinion, reason) in [(Lead::Refuses, Reason::PolicyRefuses), (Lead::Fails("trap"), Reason::PolicyBroken)] {
        let plan = played(opinion);
        assert!(!lead_moves(&plan) && said(&plan, reason).is_some(), "{reason:?}");
    }
    assert!(lead_moves(&played(Lead::Abstains)));
    let chosen = played(Lead::Insists(db(0)));
    assert!(lead_moves(&chosen) && chosen.decisions.iter().any(|decision| decision.point == Point::Update));
    let barred = played(Lead::Insists(db(1)));
    assert!(!lead_moves(&barred) && barred.violations.len() == 1);
}

// docs/rules.md, "Switchover": while a policy holds the primary's turn, clients write on. What a successor has to reach is read again when it goes on.
#[test]
fn after_the_primary_was_held_its_sequence_is_read_again() {
    let mut s = last().observe();
    let floor = Some(sequence("9"));
    let why = "db-0 gets the present template and gives up the lead first".to_owned();
    let open =
        Switchover { from: db(0), to: None, chosen: None, why, term: 1, floor, begun: None, led: None, failed: 0 };
    s.record.switchover = Some(open);
    s.record = decide(&s, &At(Point::Update, Lead::Waits(Some(40)))).record;
    assert_eq!(s.record.switchover, None);
    let plan = decide(&s, &Natural);
    let reads = |action: &Action| matches!(action, Action::Read { member, .. } if *member == db(0));
    assert!(plan.actions.iter().any(reads), "{:?}", plan.actions);
}

// E35, P52: no policy keeps a member on a template that failed.
#[test]
fn the_way_back_waits_for_no_policy() {
    let mut world = old();
    world.group.update.rolls_back = true;
    world.group.update.former = Former::Kept;
    let failed = GivenUp { template: NEW.into(), at: world.now, why: "it does not work".into() };
    world.record.fallback = Some(Fallback { good: "the one before".into(), trial: None, failed: Some(failed) });
    assert_eq!(gone(&decide(&world.observe(), &At(Point::Update, Lead::Refuses))), ["db-4"]);
    let mut primary = last();
    primary.group.update = world.group.update.clone();
    primary.record.fallback = world.record.fallback.clone();
    assert!(lead_moves(&decide(&primary.observe(), &At(Point::Update, Lead::Refuses))));
}

// E5: those in no role go by themselves: whoever works in the same batch goes in a later round, so that neither holds up the other at the second look.
#[test]
fn a_cure_goes_before_the_batch() {
    let mut world = old();
    world.group.update.batch = Batch::All;
    world.body(3).app.role = Role::Stopped;
    let plan = decide(&world.observe(), &Natural);
    assert_eq!(gone(&plan), ["db-3"]);
    assert!(said(&plan, Reason::Updating).unwrap().ends_with("db-3 gets a new pod"));
}

fn verdict(plan: &Plan) -> Option<Verdict> {
    plan.record.canary.as_ref().and_then(|canary| canary.verdict.clone())
}

fn judged(world: &mut World, opinion: Lead) -> Plan {
    decide(&world.observe(), &At(Point::Judge, opinion))
}

// E34, P52: a policy says that the template works before the time is over, and that is noted. The question is about the member that is watched.
#[test]
fn a_policy_lets_a_template_pass_early() {
    let mut world = watched(10);
    assert_eq!(verdict(&decide(&world.observe(), &Natural)), None, "the host waits for 60 s");
    let policy = Ranks(Point::Judge, [0, 1, 2, 3, 4], RefCell::default());
    let plan = decide(&world.observe(), &policy);
    assert_eq!(verdict(&plan), Some(Verdict::Passed));
    let noted = plan.record.history.last().unwrap();
    let why = "policy ranks says that it works: its disk is the emptiest";
    assert_eq!((noted.what.as_str(), noted.detail.as_deref()), ("canary-passed", Some(why)));
    let asked = policy.2.borrow();
    let open: Vec<_> = asked[0].snapshot.members.iter().filter(|m| m.barred.is_none()).map(|m| m.ordinal).collect();
    assert_eq!(open, [4]);
    let told = |word| fact(&asked[0].snapshot.group.facts, word);
    let since = (world.now - 10).to_string();
    assert_eq!(
        (told("canary").as_deref(), told("canary-seconds").as_deref(), told("canary-since")),
        (Some("db-4"), Some("60"), Some(since))
    );
}

// E34: where the group has `check`, a policy's word counts only after that exited 0; the fact `check` has the code.
#[test]
fn a_policy_does_not_pass_over_check() {
    let mut world = watched(10);
    world.group.commands.check = Some(super::super::support::world::command("check"));
    let plan = judged(&mut world, Lead::Another);
    assert_eq!(verdict(&plan), None);
    assert!(plan.actions.iter().any(|action| matches!(action, Action::Ask { .. })));
    let mut s = world.observe();
    s.answers.insert((Query::Check, db(4)), QueryAnswer { at: world.now, ended: world.now, said: Ok(0) });
    let policy = Ranks(Point::Judge, [0, 1, 2, 3, 4], RefCell::default());
    assert_eq!(verdict(&decide(&s, &policy)), Some(Verdict::Passed));
    assert_eq!(fact(&policy.2.borrow()[0].snapshot.members[4].facts, "check").as_deref(), Some("0"));
    s.answers.insert((Query::Check, db(4)), QueryAnswer { at: world.now, ended: world.now, said: Ok(3) });
    let failed = decide(&s, &At(Point::Judge, Lead::Another));
    assert_eq!(verdict(&failed), Some(Verdict::Failed("check exited 3".into())), "whatever a policy says");
}

// E34, P52: what the host saw of the member has failed, and a policy that says that the template works is not asked.
#[test]
fn a_policy_does_not_pass_over_a_restart() {
    let mut world = watched(10);
    world.body(4).pod.containers.values_mut().for_each(|container| container.id = Some("another".into()));
    let failed = Some(Verdict::Failed("its container was restarted".into()));
    assert_eq!(verdict(&judged(&mut world, Lead::Another)), failed);
}

// E34, E38, P52: a policy says that the template does not work: nobody else gets it until it changes.
#[test]
fn a_policy_gives_a_template_up() {
    let mut world = watched(10);
    let plan = judged(&mut world, Lead::Refuses);
    let why = "policy mover says that it does not work: an administrator has to look";
    assert_eq!(plan.record.canary.as_ref().and_then(Canary::failure), Some(why));
    assert!(said(&plan, Reason::CanaryFailed).unwrap().contains(why));
    world.record = plan.record;
    world.now += 10_000;
    let plan = judged(&mut world, Lead::Another);
    assert!(gone(&plan).is_empty() && verdict(&plan).is_some_and(|verdict| verdict != Verdict::Passed), "it is final");
}

// E34: while a policy waits the others do, too, beyond the time; not for ever.
#[test]
fn a_policy_that_waits_holds_the_others_back_for_so_long() {
    let mut world = watched(60);
    assert_eq!(verdict(&decide(&world.observe(), &Natural)), Some(Verdict::Passed));
    let plan = judged(&mut world, Lead::Waits(Some(5)));
    assert_eq!((verdict(&plan), plan.wake_at()), (None, Some(world.now + 5)));
    assert!(said(&plan, Reason::Canary).unwrap().contains("policy mover waits: not now"));
    world.now += 599;
    assert_eq!(verdict(&judged(&mut world, Lead::Waits(None))), None);
    world.now += 1;
    let why = "nobody said in 660 s that it works: policy mover waits: not now";
    assert_eq!(verdict(&judged(&mut world, Lead::Waits(None))), Some(Verdict::Failed(why.into())));
    assert_eq!(verdict(&judged(&mut watched(60), Lead::Abstains)), Some(Verdict::Passed));
}

// P52: a policy that is broken or not loaded says nothing about the template: it neither passes nor fails, and the group says what is wrong with the policy.
#[test]
fn a_broken_policy_judges_nothing() {
    for (kind, reason) in
        [("trap", Reason::PolicyBroken), (LOADING, Reason::PolicyLoading), (CUT_OFF, Reason::DecisionDelayed)]
    {
        for seconds in [60, 10_000] {
            let plan = judged(&mut watched(seconds), Lead::Fails(kind));
            assert_eq!(verdict(&plan), None, "{kind}");
            assert!(said(&plan, reason).is_some() && gone(&plan).is_empty(), "{kind}");
        }
    }
    // The time without an answer does not count, however long it was.
    let mut world = watched(10);
    world.record = judged(&mut world, Lead::Fails("trap")).record;
    world.now += 100_000;
    let plan = judged(&mut world, Lead::Fails("trap"));
    assert_eq!(plan.wake_at(), None, "it is asked again when something changes");
    world.record = plan.record;
    let plan = judged(&mut world, Lead::Waits(None));
    assert_eq!(verdict(&plan), None);
    world.record = plan.record;
    world.now += 649;
    assert_eq!(verdict(&judged(&mut world, Lead::Waits(None))), None);
    world.now += 1;
    assert!(verdict(&judged(&mut world, Lead::Waits(None))).is_some());
    // What is seen of the member itself counts all the same.
    let mut restarted = watched(10);
    restarted.body(4).pod.containers.values_mut().for_each(|container| container.id = Some("another".into()));
    assert!(matches!(verdict(&judged(&mut restarted, Lead::Fails("trap"))), Some(Verdict::Failed(_))));
}

// E34: while the group is paused nobody looks, so an open watch begins anew after it; a verdict stays.
#[test]
fn a_pause_of_the_group_ends_a_watch() {
    let mut world = watched(10);
    world.group.paused = true;
    assert_eq!(decide(&world.observe(), &Natural).record.canary, None);
    world.record.canary.as_mut().unwrap().verdict = Some(Verdict::Failed("it fell over".into()));
    assert!(verdict(&decide(&world.observe(), &Natural)).is_some());
}

// The member that is watched is judged while it is in its role; before, nobody is asked.
#[test]
fn who_is_not_in_its_role_is_not_judged() {
    let mut world = watched(10);
    world.body(4).pod.ready = false;
    let policy = Ranks(Point::Judge, [0, 1, 2, 3, 4], RefCell::default());
    assert_eq!(verdict(&decide(&world.observe(), &policy)), None);
    assert!(policy.2.borrow().is_empty());
}

// P52: the rule for an answer itself: it may name only the member that is watched, and that only while it is in its role.
#[test]
fn only_who_is_watched_and_in_its_role_may_be_judged() {
    let mut world = watched(10);
    let may = |world: &mut World, ordinal: usize| {
        let s = world.observe();
        may_be_judged(&s, &db(4), &s.members[ordinal]).map_err(|violation| violation.rule)
    };
    assert_eq!((may(&mut world, 4), may(&mut world, 3)), (Ok(()), Err(Rule::WrongRole)));
    world.body(4).pod.ready = false;
    assert_eq!(may(&mut world, 4), Err(Rule::NotAtRest));
}
