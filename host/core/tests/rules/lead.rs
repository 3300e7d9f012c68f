//! When the lead moves on purpose, and when a policy may move it.
use super::super::support::db;
use super::super::support::policies::{Lead, Natural, Says};
use super::super::support::world::{START, World};
use std::cell::RefCell;
use tanist_core::check::{Rule, policy_may_move_lead, switchover_member};
use tanist_core::checked::recheck;
use tanist_core::contract::{Answer, Position, Role, Sequence};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Reason};
use tanist_core::policy::{Answered, Point, Policies, Question, Reply, Unanswered};
use tanist_core::record::Switchover;
use tanist_core::snapshot::{ClaimMark, Snapshot};

fn settled() -> World {
    World::settled(1_000)
}

fn held(world: &mut World) -> Result<(), Rule> {
    policy_may_move_lead(&world.observe()).map_err(|violation| violation.rule)
}

/// Keeps the questions about the lead, and has no opinion.
#[derive(Default)]
struct Curious(RefCell<Vec<Question>>);

impl Policies for Curious {
    fn has(&self, point: Point) -> bool {
        point != Point::Rebalance
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        if question.point == Point::Switchover {
            self.0.borrow_mut().push(question.clone());
        }
        Lead::Abstains.ask(question)
    }
}

fn questions(world: &mut World) -> Vec<Question> {
    let curious = Curious::default();
    let _ = decide(&world.observe(), &curious);
    curious.0.into_inner()
}

// P24: wit/policy.wit, `switchover`: only a policy that exports it is asked.
#[test]
fn a_settled_group_asks_only_a_policy_that_has_the_question() {
    let mut world = settled();
    let says = Says::new(Reply::Answer(Answer::Refuse("no".into())));
    let plan = decide(&world.observe(), &says);
    assert!(says.asked.borrow().is_empty() && plan.waits.is_empty(), "{:?}", plan.waits);
    assert_eq!(questions(&mut world).len(), 1);
}

// A4, P21, P24: nothing is read for it.
#[test]
fn the_question_about_the_lead_reads_nothing_and_names_the_cause() {
    let mut world = settled();
    let asked = questions(&mut world).remove(0);
    assert!(asked.snapshot.members.iter().all(|m| m.position == Position::NotAsked));
    let cause = |facts: &[(String, String)]| facts.iter().find(|(key, _)| key == "switchover").map(|(_, v)| v.clone());
    assert_eq!(cause(&asked.snapshot.group.facts), None);
    let barred: Vec<_> = asked.snapshot.members.iter().map(|m| m.barred.as_deref()).collect();
    assert_eq!(barred, [Some("it leads"), None, None]);
    let plan = decide(&world.observe(), &Curious::default());
    assert!(plan.actions.iter().all(|a| !matches!(a, Action::Read { .. })), "{:?}", plan.actions);

    world.nodes.get_mut("node-0").unwrap().cordoned = true;
    world.nodes.get_mut("node-1").unwrap().cordoned = true;
    let asked = questions(&mut world).remove(0);
    assert_eq!(cause(&asked.snapshot.group.facts).as_deref(), Some("drain"));
    assert_eq!(asked.snapshot.members[1].barred.as_deref(), Some("its node is to be drained"));
    world.group.replicas = 0;
    assert_eq!(questions(&mut world), []);
}

// P25: each of the host's reasons against it.
#[test]
fn a_policy_moves_the_lead_only_while_nothing_else_is_going_on() {
    assert_eq!(held(&mut settled()), Ok(()));
    let broken = |change: &dyn Fn(&mut World)| {
        let mut world = settled();
        change(&mut world);
        held(&mut world).unwrap_err()
    };
    assert_eq!(broken(&|w| w.group.primaries = 2), Rule::NobodyServes);
    assert_eq!(broken(&|w| w.group.replicas = 0), Rule::NobodyServes);
    assert_eq!(broken(&|w| w.group.preferred_primary = Some(db(0))), Rule::AdministratorDecides);
    assert_eq!(broken(&|w| w.body(1).app.probe = Some(Role::Unknown)), Rule::MayBePrimary);
    assert_eq!(broken(&|w| w.record.member_mut(&db(0)).last_primary = Some(w.now - 299)), Rule::LeadMovedRecently);
    assert_eq!(broken(&|w| w.record.member_mut(&db(1)).last_primary = Some(w.now - 299)), Rule::LeadMovedRecently);
    let mut world = settled();
    world.record.member_mut(&db(0)).last_primary = Some(world.now - 300);
    assert_eq!(held(&mut world), Ok(()));
}

// What a policy chose is in the record until the switchover is over: an older operator can read it then (docs/safety.md, S37).
#[test]
fn what_a_policy_chose_leaves_the_record_with_its_switchover() {
    let text = |world: &World| serde_json::to_string(&world.record.switchover).unwrap();
    let mut world = settled();
    world.nodes.get_mut("node-0").unwrap().cordoned = true;
    let policy = Lead::To(db(2));
    let mut chosen = false;
    for _ in 0..40 {
        world.round(&policy);
        chosen |= text(&world).contains(r#""chosen":"db-2""#);
    }
    world.play(&policy, 60);
    assert!(chosen && world.body(2).app.leads());
    assert!(!text(&world).contains("chosen"), "{}", text(&world));
    world.nodes.get_mut("node-0").unwrap().cordoned = false;
    world.play(&Natural, 60);
    assert_eq!(text(&world), "null");

    // One that failed stays in the record as long as its cause, so that it is not repeated at once; after a minute it is tried again.
    let mut world = settled();
    world.nodes.get_mut("node-0").unwrap().cordoned = true;
    let (from, chosen, why) = (db(0), Some(db(2)), "the node of db-0 is to be drained".to_owned());
    world.record.switchover = Some(Switchover {
        from,
        to: None,
        chosen,
        why,
        term: 1,
        floor: None,
        begun: Some(world.now),
        led: None,
        failed: 0,
    });
    world.play(&policy, 50);
    assert!(text(&world).contains(r#""led":"db-0""#) && !text(&world).contains("chosen"), "{}", text(&world));
    world.play(&policy, 20);
    assert!(world.body(2).app.leads(), "{}", text(&world));
    assert_eq!(tries(1), 120);
    assert_eq!((tries(0), tries(9)), (60, 3600));
}

/// Seconds until a switchover is tried again that has failed that often before.
fn tries(failed: u32) -> i64 {
    let (from, why) = (db(0), String::new());
    let (begun, led) = (Some(START), Some(db(0)));
    let last = Switchover { from, to: None, chosen: None, why, term: 1, floor: None, begun, led, failed };
    last.next_try().unwrap() - START
}

// P24: wit/policy.wit, `switchover`: the host bars who could not take over. What is barred here would be barred in the failover, too.
#[test]
fn only_members_that_could_take_over_may_be_chosen() {
    let bar = |change: &dyn Fn(&mut World)| {
        let mut world = settled();
        change(&mut world);
        let asked = questions(&mut world).remove(0);
        assert_eq!(asked.snapshot.members[2].barred, None);
        asked.snapshot.members[1].barred.clone().unwrap()
    };
    assert_eq!(bar(&|w| w.serve(1, Role::Stopped)), "it is stopped and has to follow the primary first");
    assert_eq!(
        bar(&|w| w.record.member_mut(&db(1)).follow_again = true),
        "it is secondary and has to follow the primary first"
    );
    let rests = |w: &mut World| w.record.member_mut(&db(1)).retry_at = Some(w.now + 7);
    assert_eq!(bar(&rests), "failures: 0; next try in 7 s");
    assert_eq!(
        bar(&|w| w.record.member_mut(&db(1)).claim_uid = Some("another".into())),
        "its volume was replaced after its role was last confirmed"
    );
    assert_eq!(bar(&|w| w.nodes.get_mut("node-1").unwrap().cordoned = true), "its node is to be drained");

    let mut world = settled();
    world.group.replicas = 2;
    let asked = questions(&mut world).remove(0);
    let barred: Vec<_> = asked.snapshot.members.iter().map(|m| m.barred.as_deref()).collect();
    assert_eq!(barred, [Some("it leads"), None, Some("it is beyond spec.replicas")]);
}

// P25: an administrator's request for another member goes before a policy's, also in a switchover with another cause.
#[test]
fn the_preferred_primary_goes_before_what_a_policy_chooses() {
    let mut world = settled();
    world.nodes.get_mut("node-0").unwrap().cordoned = true;
    world.group.preferred_primary = Some(db(2));
    let asked = questions(&mut world).remove(0);
    let barred: Vec<_> = asked.snapshot.members.iter().map(|m| m.barred.as_deref()).collect();
    assert_eq!(barred, [Some("it leads"), Some("db-2 is spec.preferredPrimary, and can lead"), None]);
    world.nodes.get_mut("node-2").unwrap().cordoned = true;
    let asked = questions(&mut world).remove(0);
    assert_eq!(asked.snapshot.members[1].barred, None, "the preferred one is on a node that is to be drained, too");
}

// Before a command starts, the record is that from before the decision. What is over in it says nothing about who has to lead now.
#[test]
fn a_switchover_that_ended_does_not_hold_up_the_next_one() {
    let mut world = settled();
    world.serve(1, Role::Stopped);
    let (from, to, why) = (db(0), Some(db(1)), String::new());
    let mut last =
        Switchover { from, to, chosen: None, why, term: 1, floor: None, begun: Some(START), led: None, failed: 0 };
    let mut stops = |last: &Switchover| {
        world.record.switchover = Some(last.clone());
        let s = world.observe();
        switchover_member(&s, &s.members[0]).map_err(|violation| violation.rule)
    };
    assert_eq!(stops(&last), Err(Rule::NoSuccessor), "it is to db-1, which is stopped");
    (last.to, last.chosen) = (None, last.to);
    assert_eq!(stops(&last), Err(Rule::NoSuccessor), "a policy chose db-1");
    last.led = Some(db(0));
    assert_eq!(stops(&last), Ok(()));
}

// S32: whoever restored an old record has a group in which nobody may take over. Its primary is not stopped then.
#[test]
fn with_an_outdated_record_the_primary_is_not_stopped() {
    let mut s = settled().observe();
    assert_eq!(switchover_member(&s, &s.members[0]).map_err(|violation| violation.rule), Ok(()));
    let mark = ClaimMark {
        version: None,
        membership: None,
        group: s.group.name.clone(),
        term: s.record.term + 1,
        sequence: None,
        primaries: vec![db(2)],
        ran: Vec::new(),
    };
    s.members[2].claims[0].mark = Some(mark);
    assert_eq!(switchover_member(&s, &s.members[0]).map_err(|violation| violation.rule), Err(Rule::ClaimChanged));
}

// docs/rules.md, "Switchover": the second look has the record of before the round. If that names another member, the primary would be led out of its
// Service, and then not be stopped.
#[test]
fn a_policy_that_names_another_member_is_followed_in_the_next_round() {
    let mut world = settled();
    world.nodes.get_mut("node-0").unwrap().cordoned = true;
    let mut seen = world.observe();
    let nine = Sequence { history: None, number: 9 };
    seen.members[2].position = Position::Known(nine.clone());
    let why = "the node of db-0 is to be drained".to_owned();
    let (from, chosen, floor) = (db(0), Some(db(1)), Some(nine));
    seen.record.switchover =
        Some(Switchover { from, to: None, chosen, why, term: 1, floor, begun: None, led: None, failed: 0 });
    let plan = decide(&seen, &Lead::To(db(2)));
    assert!(plan.actions.iter().all(|a| !matches!(a, Action::Run { .. } | Action::Route { .. })), "{:?}", plan.actions);
    let wait = plan.waits.iter().find(|w| w.reason == Reason::SwitchoverPending).unwrap();
    assert_eq!(wait.until, Some(seen.now + 1));

    let mut live = seen.clone();
    live.members[1].asked = true;
    seen.record = plan.record;
    let plan = decide(&seen, &Lead::To(db(2)));
    let intent = plan.actions.iter().find_map(|a| if let Action::Run { intent, .. } = a { Some(intent) } else { None });
    assert!(recheck(&seen, &live, intent.unwrap()).is_ok());
}

// docs/rules.md, "Switchover": while a policy holds the lead, clients write on. What a successor has to reach is read again when it goes on.
#[test]
fn after_a_hold_the_sequence_of_the_primary_is_read_again() {
    let mut world = settled();
    world.nodes.get_mut("node-0").unwrap().cordoned = true;
    let mut seen = world.observe();
    let floor = Some(Sequence { history: None, number: 9 });
    let why = "the node of db-0 is to be drained".to_owned();
    let open =
        Switchover { from: db(0), to: None, chosen: None, why, term: 1, floor, begun: None, led: None, failed: 0 };
    seen.record.switchover = Some(open);
    seen.record = decide(&seen, &Lead::Waits(Some(60))).record;
    assert_eq!(seen.record.switchover, None);
    let plan = decide(&seen, &Lead::To(db(2)));
    let reads = |action: &Action| matches!(action, Action::Read { member, .. } if *member == db(0));
    assert!(plan.actions.iter().any(reads), "{:?}", plan.actions);
}

/// Names both secondaries, the later one first.
struct Backwards;

impl Policies for Backwards {
    fn has(&self, point: Point) -> bool {
        point != Point::Rebalance
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let mut answered = Lead::Another.ask(question)?;
        if let (Point::Switchover, Reply::Answer(Answer::Choose(ranking))) = (question.point, &mut answered.reply) {
            ranking.candidates.reverse();
        }
        Ok(answered)
    }
}

// docs/rules.md, "Switchover": a policy that names two members and changes their order all the time holds up no drain.
#[test]
fn a_member_that_may_lead_at_once_does_while_the_policy_names_it() {
    let mut world = settled();
    world.nodes.get_mut("node-0").unwrap().cordoned = true;
    for node in 1..3 {
        let copy = world.nodes["node-0"].clone();
        world.nodes.entry(format!("node-{node}")).or_insert(copy).cordoned = false;
    }
    let mut seen = world.observe();
    for (ordinal, node) in [(1, "node-1"), (2, "node-2")] {
        seen.members[ordinal].pod.as_mut().unwrap().node = Some(node.into());
    }
    let at = |number| Sequence { history: None, number };
    let begins = |seen: &Snapshot, policy: &dyn Policies| {
        let plan = decide(seen, policy);
        let began = plan.actions.iter().any(|a| matches!(a, Action::Run { intent, .. } if intent.member == db(0)));
        (began, plan.record.switchover.and_then(|open| open.chosen))
    };
    seen.members[1].position = Position::Known(at(9));
    seen.members[2].position = Position::Known(at(9));
    let (from, chosen, floor) = (db(0), Some(db(1)), Some(at(9)));
    let why = "the node of db-0 is to be drained".to_owned();
    seen.record.switchover =
        Some(Switchover { from, to: None, chosen, why, term: 1, floor, begun: None, led: None, failed: 0 });
    assert_eq!(begins(&seen, &Backwards), (true, Some(db(1))), "it named db-1 before, and names it still");
    assert_eq!(begins(&seen, &Lead::To(db(2))), (false, Some(db(2))), "it does not name db-1 any more");
    seen.members[1].position = Position::Known(at(8));
    assert_eq!(begins(&seen, &Backwards), (false, Some(db(2))), "db-1 lags, and db-2 does not");
}

// docs/rules.md, "Switchover": a drain begins another switchover. What failed before is forgotten with it.
#[test]
fn after_a_drain_that_was_called_off_a_policy_may_try_again() {
    let mut world = settled();
    let (from, to, led) = (db(0), Some(db(2)), Some(db(0)));
    let (why, begun) = ("policy lead moves the lead to db-2: in order".to_owned(), Some(START));
    world.record.switchover =
        Some(Switchover { from, to, chosen: None, why, term: 1, floor: None, begun, led, failed: 0 });
    assert_eq!(held(&mut world), Err(Rule::SwitchoverFailed));
    world.round(&Lead::To(db(2)));
    assert_eq!(held(&mut world), Err(Rule::SwitchoverFailed), "it is not repeated by itself");
    world.nodes.get_mut("node-0").unwrap().cordoned = true;
    world.round(&Natural);
    world.nodes.get_mut("node-0").unwrap().cordoned = false;
    world.round(&Natural);
    assert_eq!(held(&mut world), Ok(()));
}
