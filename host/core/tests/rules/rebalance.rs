//! When a policy may have a secondary stopped and started again, and which one.
use super::super::support::db;
use super::super::support::policies::{At, Lead, Natural, Says};
use super::super::support::world::{START, World};
use super::checks::intent;
use super::second_look::deletion;
use std::cell::RefCell;
use tanist_core::check::{Rule, rebalance_candidate, rebalance_group};
use tanist_core::checked::recheck_deletion;
use tanist_core::contract::{Answer, Position, Role};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, DeletionCause, Plan};
use tanist_core::policy::{Answered, CUT_OFF, Point, Policies, Question, Reply, Unanswered};
use tanist_core::record::{Event, Switchover, Verb};
use tanist_core::snapshot::{Object, Override};

fn settled() -> World {
    World::settled(10_000)
}

fn held(world: &mut World) -> Result<(), Rule> {
    rebalance_group(&world.observe()).map_err(|violation| violation.rule)
}

fn moves(to: u32) -> At {
    At(Point::Rebalance, Lead::Insists(db(to)))
}

/// The members whose pods a plan deletes, and why.
pub fn deleted(plan: &Plan) -> Vec<(String, DeletionCause)> {
    let of = |a: &Action| match a {
        Action::DeletePod { member, cause, .. } => Some((member.to_string(), *cause)),
        _ => None,
    };
    plan.actions.iter().filter_map(of).collect()
}

/// Keeps the questions about a move, and has no opinion.
#[derive(Default)]
struct Curious(RefCell<Vec<Question>>);

impl Policies for Curious {
    fn has(&self, point: Point) -> bool {
        point != Point::Switchover
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        if question.point == Point::Rebalance {
            self.0.borrow_mut().push(question.clone());
        }
        At(Point::Rebalance, Lead::Abstains).ask(question)
    }
}

/// Has no opinion on the lead, and wants db-1 moved.
struct Both;

impl Policies for Both {
    fn has(&self, _: Point) -> bool {
        true
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        match question.point {
            Point::Switchover => Lead::Abstains.ask(question),
            _ => moves(1).ask(question),
        }
    }
}

fn questions(world: &mut World) -> Vec<Question> {
    let curious = Curious::default();
    let _ = decide(&world.observe(), &curious);
    curious.0.into_inner()
}

// wit/policy.wit, `rebalance`: only a policy that exports it is asked, and nothing is read for it.
#[test]
fn a_settled_group_asks_only_a_policy_that_has_the_question_about_moves() {
    let mut world = settled();
    let says = Says::new(Reply::Answer(Answer::Refuse("no".into())));
    let plan = decide(&world.observe(), &says);
    assert!(says.asked.borrow().is_empty() && plan.waits.is_empty(), "{:?}", plan.waits);
    let asked = questions(&mut world).remove(0);
    assert!(asked.snapshot.members.iter().all(|m| m.position == Position::NotAsked));
    let barred: Vec<_> = asked.snapshot.members.iter().map(|m| m.barred.as_deref()).collect();
    assert_eq!(barred, [Some("it leads"), None, None]);
    // It has every question, also that about the number of members, which is noted once.
    world.record = decide(&world.observe(), &Curious::default()).record;
    let plan = decide(&world.observe(), &Curious::default());
    assert!(plan.actions.is_empty() && plan.record == world.record, "{:?}", plan.actions);
}

// P50; docs/rules.md, "Rebalance": a member moves only while nothing else is going on.
#[test]
fn a_member_moves_only_in_a_group_at_rest() {
    assert_eq!(held(&mut settled()), Ok(()));
    let broken = |change: &dyn Fn(&mut World)| {
        let mut world = settled();
        change(&mut world);
        assert_eq!(questions(&mut world), []);
        held(&mut world).unwrap_err()
    };
    assert_eq!(broken(&|w| w.group.paused = true), Rule::AdministratorDecides);
    let override_of = |term| {
        let position = Position::Empty;
        Some(Override { member: db(1), position, term, raw: "db-1 9 1".into() })
    };
    assert_eq!(broken(&|w| w.group.requested_override = override_of(1)), Rule::AdministratorDecides);
    assert_eq!(broken(&|w| w.group.preferred_primary = Some(db(1))), Rule::NotAtRest, "the lead is to move");
    let open = |begun| {
        let (from, why) = (db(0), String::new());
        Some(Switchover { from, to: Some(db(1)), chosen: None, why, term: 1, floor: None, begun, led: None, failed: 0 })
    };
    assert_eq!(broken(&|w| w.record.switchover = open(None)), Rule::NotAtRest);
    assert_eq!(broken(&|w| w.record.switchover = open(Some(START))), Rule::NotAtRest);
    assert_eq!(broken(&|w| w.group.primaries = 2), Rule::NobodyServes);
    assert_eq!(broken(&|w| w.serve(0, Role::Stopped)), Rule::NobodyServes);
    assert_eq!(broken(&|w| w.group.replicas = 0), Rule::NobodyServes);
    assert_eq!(broken(&|w| w.body(1).app.probe = Some(Role::Unknown)), Rule::MayBePrimary);
    assert_eq!(broken(&|w| w.group.replicas = 2), Rule::NotAtRest, "db-2 leaves");
    assert_eq!(broken(&|w| w.group.replicas = 4), Rule::NotAtRest, "db-3 is to come");
    let one_more = |w: &mut World| {
        w.new_volume(3);
        w.new_pod(3);
        w.remember(3, 1, "9");
        w.serve(3, Role::Secondary);
        w.body(3).pod.ready = true;
    };
    assert_eq!(broken(&one_more), Rule::NotAtRest, "db-3 is not desired");
    let busy = |w: &mut World| {
        let s = w.observe();
        w.record.intents.push(intent(&s, Verb::Follow, 2));
    };
    assert_eq!(broken(&busy), Rule::MemberBusy);
    assert_eq!(broken(&|w| drop(w.pods.remove(&2))), Rule::NotAtRest, "a pod is missing");
    assert_eq!(broken(&|w| w.serve(2, Role::Stopped)), Rule::NotAtRest);
    assert_eq!(broken(&|w| w.serve(2, Role::Starting)), Rule::MayBePrimary);
    assert_eq!(broken(&|w| w.record.member_mut(&db(2)).follow_again = true), Rule::NotAtRest, "not confirmed");
    assert_eq!(broken(&|w| w.body(2).pod.ready = false), Rule::NotAtRest);
    assert_eq!(broken(&|w| w.body(0).pod.ready = false), Rule::NotAtRest, "the primary counts, too");
    assert_eq!(broken(&|w| w.body(2).pod.stray = Some("put it back".into())), Rule::NotAtRest);
    assert_eq!(broken(&|w| w.body(0).pod.outdated = true), Rule::NotAtRest, "a rollout is under way");
    assert_eq!(broken(&|w| w.body(0).pod.older_template = true), Rule::NotAtRest, "one begins");
    assert_eq!(broken(&|w| w.body(0).pod.phase_since = w.now - 299), Rule::ChangedRecently);
    let noted = |w: &mut World| w.record.note(w.now - 299, Event::BecameSecondary, Some(&db(2)), None);
    assert_eq!(broken(&noted), Rule::ChangedRecently);
    let mut world = settled();
    world.body(0).pod.phase_since = world.now - 300;
    world.record.note(world.now - 300, Event::BecameSecondary, Some(&db(2)), None);
    world.group.requested_override = override_of(7);
    assert_eq!(held(&mut world), Ok(()), "an override of another term is no request");
    // The set was changed a moment ago: what its controller says of revisions is from before.
    let mut s = settled().observe();
    s.set.as_mut().unwrap().unseen = true;
    assert_eq!(rebalance_group(&s).unwrap_err().rule, Rule::NotAtRest);
    // The set is getting smaller, or has yet to.
    let s = settled().observe();
    let mut more = s.clone();
    more.set.as_mut().unwrap().replicas = 4;
    assert_eq!(rebalance_group(&more).unwrap_err().rule, Rule::NotAtRest);
    more = s;
    more.record.last_replicas = 4;
    assert_eq!(rebalance_group(&more).unwrap_err().rule, Rule::NotAtRest);
}

// `wait` is no stall and no report: the group is looked at again at that time.
#[test]
fn a_policy_that_waits_is_asked_again_at_its_time() {
    let mut world = settled();
    let waits = |seconds| At(Point::Rebalance, Lead::Waits(seconds));
    let plan = decide(&world.observe(), &waits(Some(77)));
    assert_eq!((plan.look_again, plan.waits.len(), plan.decisions.len()), (Some(world.now + 77), 0, 0));
    assert_eq!(decide(&world.observe(), &waits(None)).look_again, None);
    let late = At(Point::Rebalance, Lead::Fails(CUT_OFF));
    let plan = decide(&world.observe(), &late);
    assert_eq!((plan.look_again, plan.waits.len()), (Some(world.now + 1), 0), "the machine was busy");
}

// What else a round waits for comes first.
#[test]
fn a_round_that_awaits_anything_else_moves_nobody() {
    let mut world = settled();
    let (kind, name, manifest) = ("Service".into(), "db-rw".into(), serde_json::Value::Null.into());
    world.objects.push(Object { kind, name, manifest, current: false, version: None, trial: None });
    assert_eq!(deleted(&decide(&world.observe(), &moves(1))), [], "an object is being applied");
    world.objects.clear();
    let plan = decide(&world.observe(), &moves(1));
    assert_eq!(deleted(&plan), [("db-1".to_owned(), DeletionCause::Rebalance)]);
    // A switchover that failed waits for an administrator, and so does everything that only a policy wants.
    let (from, why, begun) = (db(0), "once".to_owned(), Some(START));
    world.record.switchover = Some(Switchover {
        from,
        to: Some(db(1)),
        chosen: None,
        why,
        term: 1,
        floor: None,
        begun,
        led: Some(db(0)),
        failed: 0,
    });
    let plan = decide(&world.observe(), &Both);
    assert!(deleted(&plan).is_empty() && !plan.waits.is_empty(), "{:?}", plan.waits);
}

// P50; wit/policy.wit, `rebalance`: the host bars who may not move.
#[test]
fn only_a_secondary_that_was_not_moved_a_short_time_ago_may_be_chosen() {
    let bar = |change: &dyn Fn(&mut World)| {
        let mut world = settled();
        change(&mut world);
        let asked = questions(&mut world).remove(0);
        assert_eq!(asked.snapshot.members[2].barred, None);
        asked.snapshot.members[1].barred.clone().unwrap_or_default()
    };
    let rests = |w: &mut World| w.record.member_mut(&db(1)).retry_at = Some(w.now + 7);
    assert_eq!(bar(&rests), "failures: 0; next try in 7 s");
    assert_eq!(
        bar(&|w| w.record.member_mut(&db(1)).claim_uid = Some("another".into())),
        "its volume was replaced after its role was last confirmed"
    );
    let drain = |w: &mut World| w.nodes.get_mut("node-2").unwrap().cordoned = true;
    assert_eq!(bar(&drain), "the node of db-2 is to be drained", "db-2 itself may move");
    let recent = "db-1 became Ready less than 3600 s ago";
    assert_eq!(bar(&|w| w.body(1).pod.phase_since = w.now - 3599), recent);
    assert_eq!(bar(&|w| w.body(1).pod.phase_since = w.now - 3600), "");
    // The clock of the node is hours behind: what this operator noted counts, too.
    assert_eq!(bar(&|w| w.record.note(w.now - 3599, Event::PodDeleted, Some(&db(1)), None)), recent);
    assert_eq!(bar(&|w| w.record.note(w.now - 3599, Event::PodDeleted, Some(&db(0)), None)), "");

    // Each rule by itself: in a group at rest these do not occur.
    let mut world = settled();
    let mut s = world.observe();
    let rule = |s: &tanist_core::snapshot::Snapshot, n: usize| {
        rebalance_candidate(s, &s.members[n]).map_err(|violation| violation.rule)
    };
    assert_eq!((rule(&s, 0), rule(&s, 1)), (Err(Rule::WrongRole), Ok(())));
    s.members[1].asked = true;
    assert_eq!(rule(&s, 1), Err(Rule::MemberBusy));
    s.members[1].asked = false;
    s.record.member_mut(&db(1)).follow_again = true;
    assert_eq!(rule(&s, 1), Err(Rule::WrongRole));
}

// When every member is barred for some time nobody is asked, and the group is looked at again then.
#[test]
fn a_group_whose_secondaries_are_new_is_looked_at_again() {
    let mut world = settled();
    for ordinal in 0..3 {
        world.body(ordinal).pod.phase_since = world.now - 1000 - i64::from(ordinal);
    }
    let plan = decide(&world.observe(), &moves(1));
    assert_eq!((plan.look_again, deleted(&plan)), (Some(world.now + 2598), vec![]));
    world.body(0).pod.phase_since = world.now - 100;
    assert_eq!(decide(&world.observe(), &moves(1)).look_again, Some(world.now + 200));
    world.record.history.clear();
    world.body(0).pod.phase_since = world.now - 400;
    world.record.note(world.now - 50, Event::BecameSecondary, Some(&db(1)), None);
    assert_eq!(decide(&world.observe(), &moves(1)).look_again, Some(world.now + 250));
}

// The rule of the cause is held again on what is there now, and never that of another cause: a member that fails between decision and act is not
// deleted as one that works, and one that works is not deleted as one that failed.
#[test]
fn a_second_look_keeps_the_pod_of_a_member_that_may_not_move() {
    let mut world = settled();
    let s = world.observe();
    assert_eq!(deleted(&decide(&s, &moves(1))).len(), 1);
    let uid = s.members[1].pod.as_ref().unwrap().uid.clone();
    let look = |world: &mut World| {
        let checked = recheck_deletion(&s, &world.observe(), &db(1), &uid, DeletionCause::Rebalance);
        checked.map(|checked| checked.version().to_owned()).map_err(|violation| violation.rule)
    };
    assert_eq!(look(&mut world), Ok("1".to_owned()));
    assert_eq!(deletion(&s, &world.observe(), &db(1), &uid).unwrap_err().rule, Rule::WrongRole);
    world.serve(1, Role::Failed);
    assert!(deletion(&s, &world.observe(), &db(1), &uid).is_ok(), "as a treatment it would be deleted");
    assert_eq!(look(&mut world), Err(Rule::MayBePrimary));
    world.serve(1, Role::Secondary);
    world.serve(0, Role::Stopped);
    assert_eq!(look(&mut world), Err(Rule::NobodyServes), "the primary died in this very round");
    world.serve(0, Role::Primary);
    world.body(2).pod.phase = tanist_core::contract::Phase::Terminating;
    assert_eq!(look(&mut world), Err(Rule::NotAtRest), "another member is evicted");
    world.body(2).pod.phase = tanist_core::contract::Phase::Running;
    world.body(1).pod.phase_since = world.now - 1000;
    assert_eq!(look(&mut world), Err(Rule::ChangedRecently), "it was not Ready for a moment");
    world.delete(1);
    assert_eq!(look(&mut world), Err(Rule::TargetReplaced));
}

// With several primaries a secondary moves as with one; never a primary.
#[test]
fn beside_several_primaries_a_secondary_moves() {
    let mut world = settled();
    world.group.primaries = 2;
    world.serve(1, Role::Primary);
    world.play(&Natural, 0);
    world.now += 10_000;
    let asked = questions(&mut world).remove(0);
    let barred: Vec<_> = asked.snapshot.members.iter().map(|m| m.barred.as_deref()).collect();
    assert_eq!(barred, [Some("it leads"), Some("it leads"), None]);
    assert_eq!(deleted(&decide(&world.observe(), &moves(2))).len(), 1);
    let plan = decide(&world.observe(), &moves(1));
    assert_eq!((deleted(&plan), plan.violations[0].rule), (vec![], Rule::BarredMember));
}
