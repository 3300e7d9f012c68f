//! The rules that hold when a command starts, as `decide` and the second look before each act use them.
use super::super::support::policies::Natural;
use super::super::support::world::{World, command};
use super::super::support::{db, sequence};
use super::second_look::deletion;
use tanist_core::check::{Rule, shrink_group, start};
use tanist_core::checked::recheck;
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::record::{Intent, Verb};
use tanist_core::snapshot::{Container, Override, Snapshot};

/// Three stopped members, the middle one behind; all positions are read.
pub fn stopped() -> World {
    let mut world = World::new(3, 2);
    for (ordinal, data) in [(0, "5"), (1, "4"), (2, "5")] {
        world.remember(ordinal, 1, data);
    }
    world.round(&Natural);
    world
}

/// db-0 leads, the others are stopped.
pub fn served() -> World {
    let mut world = stopped();
    world.serve(0, Role::Primary);
    world.group.commands.secondary = Some(super::super::support::world::command("secondary"));
    world
}

pub fn intent(s: &Snapshot, verb: Verb, ordinal: u32) -> Intent {
    let pod = s.member(&db(ordinal)).and_then(|m| m.pod.clone()).unwrap();
    Intent {
        token: "t".into(),
        verb,
        command: s.command(verb, false).0.into(),
        member: db(ordinal),
        target: None,
        pod_uid: pod.uid,
        container: "db".into(),
        container_id: pod.containers["db"].id.clone().unwrap(),
        generation: 1,
        started: s.now,
        timeout: 60,
        term: s.record.term,
        again: false,
        had_role: false,
        exited: None,
        version: None,
    }
}

/// The rule that does not hold for a command; `None`: it may start.
pub fn against(s: &Snapshot, verb: Verb, ordinal: u32) -> Option<Rule> {
    start(s, &intent(s, verb, ordinal)).err().map(|v| v.rule)
}

fn runs(plan: &Plan) -> Vec<Intent> {
    let run = |a: &Action| if let Action::Run { intent, .. } = a { Some(intent.clone()) } else { None };
    plan.actions.iter().filter_map(run).collect()
}

// A10, A16: the best member is chosen, even if another one answered first.
#[test]
fn a_member_that_is_being_read_is_not_passed_over() {
    for (primaries, verb) in [(2, Verb::Join), (1, Verb::Place)] {
        let mut world = served();
        world.group.primaries = primaries;
        let mut s = world.observe();
        let known = |data: &str| Position::Known(sequence(data));
        s.members[1].position = known("4");
        (s.members[2].position, s.members[2].asked) = (Position::NotAsked, true);
        let plan = decide(&s, &Natural);
        assert!(runs(&plan).is_empty() && plan.waits.iter().any(|w| w.reason == Reason::ReadingPositions), "{plan:?}");
        (s.members[2].position, s.members[2].asked) = (known("5"), false);
        let begun: Vec<_> = runs(&decide(&s, &Natural)).into_iter().map(|i| (i.verb, i.member)).collect();
        assert_eq!(begun, [(verb, db(2))]);
        // A member that cannot be read delays the question only until its reading has ended.
        s.members[2].position = Position::Unknown("it hung".into());
        let begun: Vec<_> = runs(&decide(&s, &Natural)).into_iter().map(|i| i.member).collect();
        assert_eq!(begun, [db(1)]);
    }
}

// S25, S26: on the way to 0 the primary leaves last, and no other member leaves before the members that stay serve.
#[test]
fn members_leave_in_order() {
    let mut world = served();
    world.group.primaries = 1;
    world.serve(1, Role::Secondary);
    world.group.replicas = 0;
    let s = world.observe();
    assert_eq!((against(&s, Verb::Remove, 0), against(&s, Verb::Remove, 1)), (Some(Rule::StayersFirst), None));
    world.serve(1, Role::Stopped);
    assert_eq!(against(&world.observe(), Verb::Remove, 0), None);
    world.group.replicas = 1;
    world.serve(2, Role::Secondary);
    let s = world.observe();
    assert_eq!((against(&s, Verb::Remove, 0), against(&s, Verb::Remove, 2)), (Some(Rule::NotSurplus), None));
    world.serve(0, Role::Stopped);
    assert_eq!(against(&world.observe(), Verb::Remove, 2), Some(Rule::StayersFirst));
}

// S26: the pod of the member that led to the end stays until its data was read after it stopped.
#[test]
fn a_group_goes_to_zero_when_the_last_data_is_known() {
    let mut world = stopped();
    world.group.replicas = 0;
    let mut s = world.observe();
    let shrinks = |s: &Snapshot| shrink_group(s, 0).map_err(|v| (v.rule, v.member));
    s.members[1].position = Position::Unknown("?".into());
    assert_eq!(shrinks(&s), Ok(()), "nobody led");
    s.record.member_mut(&db(1)).primary_term = Some(s.record.term);
    let unread = Err((Rule::PositionUnknown, Some(db(1))));
    assert_eq!(shrinks(&s), unread);
    s.members[1].position = Position::Known(sequence("4"));
    assert_eq!(shrinks(&s), Ok(()));
    s.members[1].position_stale = true;
    assert_eq!(shrinks(&s), unread, "it was read before the end");
    s.record.term += 1;
    assert_eq!(shrinks(&s), unread, "a takeover that never began opened a later term");
    s.record.member_mut(&db(1)).followed_since = true;
    assert_eq!(shrinks(&s), Ok(()), "it followed another one since");
}

#[test]
fn a_seed_needs_all_members_stopped_read_and_not_ahead() {
    let mut world = stopped();
    let s = world.observe();
    assert_eq!((against(&s, Verb::Seed, 0), against(&s, Verb::Seed, 1)), (None, Some(Rule::BelowHighest)));
    type Change = fn(&mut Snapshot);
    let cases: [(Change, Rule); 15] = [
        (|s| s.members[2].pod = None, Rule::PodCount),
        (|s| s.set = None, Rule::PodCount),
        (|s| s.record.last_replicas = 4, Rule::PodCount),
        (|s| s.members[1].reading.role = Role::Primary, Rule::MayBePrimary),
        (|s| s.members[1].reading.role = Role::Unknown, Rule::MayBePrimary),
        (|s| s.members[1].reading.role = Role::Failed, Rule::MayBePrimary),
        (|s| s.members[1].reading.role = Role::Starting, Rule::MayBePrimary),
        (|s| s.members[1].reading.role = Role::Secondary, Rule::NotAllStopped),
        (|s| s.members[1].position = Position::Unknown("?".into()), Rule::PositionUnknown),
        // S8, S9: a position that was read in an earlier container does not count.
        (|s| s.members[1].position = Position::NotAsked, Rule::PositionUnknown),
        (|s| s.members[1].position = Position::Known(sequence("b:1")), Rule::HistoriesDiffer),
        (|s| s.record.member_mut(&db(1)).term = None, Rule::NeedsAdoption),
        (|s| s.surplus_claims.push("data-db-7".into()), Rule::UnrecordedClaims),
        (|s| s.record.member_mut(&db(0)).retry_at = Some(s.now + 1), Rule::BackOff),
        (|s| s.members[0].asked = true, Rule::MemberBusy),
    ];
    for (number, (change, rule)) in cases.into_iter().enumerate() {
        let mut changed = s.clone();
        change(&mut changed);
        assert_eq!(against(&changed, Verb::Seed, 0), Some(rule), "case {number}");
    }
}

// docs/rules.md, "Targets"; A34: an error, never a success.
#[test]
fn no_command_goes_to_a_pod_that_is_gone_replaced_or_leaving() {
    let mut world = served();
    let s = world.observe();
    let join = intent(&s, Verb::Join, 1);
    assert_eq!(start(&s, &join), Ok(()));
    let rule = |change: &dyn Fn(&mut Snapshot)| {
        let mut changed = s.clone();
        change(&mut changed);
        start(&changed, &join).unwrap_err().rule
    };
    assert_eq!(rule(&|s| s.members[1].pod = None), Rule::TargetReplaced);
    assert_eq!(rule(&|s| s.members[1].pod.as_mut().unwrap().uid = "other".into()), Rule::TargetReplaced);
    let container = |id: &str, running| Container { id: Some(id.into()), running, ready: running };
    assert_eq!(
        rule(&|s| drop(s.members[1].pod.as_mut().unwrap().containers.insert("db".into(), container("other", true)))),
        Rule::TargetReplaced
    );
    for phase in [Phase::Pending, Phase::Terminating, Phase::Ended, Phase::Unreachable] {
        assert_eq!(rule(&|s| s.members[1].pod.as_mut().unwrap().phase = phase), Rule::TargetUnreachable);
    }
    assert_eq!(rule(&|s| drop(s.members.remove(1))), Rule::TargetUnreachable);
}

#[test]
fn a_join_needs_a_primary_that_serves_and_room_for_another() {
    let mut world = served();
    let s = world.observe();
    assert_eq!((against(&s, Verb::Join, 1), against(&s, Verb::Join, 0)), (None, Some(Rule::WrongRole)));
    let mut full = s.clone();
    full.group.primaries = 1;
    assert_eq!(against(&full, Verb::Join, 1), Some(Rule::PrimaryLimit));
    // Promise 1: every member that may be primary counts.
    for role in [Role::Primary, Role::Unknown, Role::Failed, Role::Starting] {
        let mut maybe = s.clone();
        maybe.members[2].reading.role = role;
        assert_eq!(against(&maybe, Verb::Join, 1), Some(Rule::PrimaryLimit), "{role:?}");
    }
    let mut nobody = s.clone();
    nobody.members[0].reading.role = Role::Stopped;
    assert_eq!(against(&nobody, Verb::Join, 1), Some(Rule::NobodyServes));
    let mut older = s.clone();
    older.record.term = 2;
    assert_eq!(against(&older, Verb::Join, 1), Some(Rule::NobodyServes), "a primary of an older term does not serve");
    let mut unconfirmed = s.clone();
    let started = tanist_core::record::Started {
        term: 1,
        target: false,
        before: Position::Empty,
        followed: false,
        peer_stopped: false,
    };
    unconfirmed.record.member_mut(&db(0)).started = Some(started);
    assert_eq!(against(&unconfirmed, Verb::Join, 1), Some(Rule::NobodyServes), "S4: not before its role is confirmed");
    let mut busy = s.clone();
    busy.record.intents.push(intent(&s, Verb::Join, 2));
    assert_eq!(against(&busy, Verb::Join, 1), Some(Rule::SecondPrimaryCommand), "A10");
    busy.record.intents[0].verb = Verb::Place;
    assert_eq!(against(&busy, Verb::Join, 2), Some(Rule::MemberBusy));
    assert_eq!(against(&busy, Verb::Join, 1), None, "a secondary's long start does not delay other members");
}

// A15, A18, A21: the second look checks the same rules.
#[test]
fn a_secondary_needs_its_command_its_primaries_and_a_stopped_member() {
    let mut world = served();
    world.group.primaries = 1;
    let s = world.observe();
    assert_eq!(against(&s, Verb::Place, 1), None);
    let rule = |change: &dyn Fn(&mut Snapshot)| {
        let mut changed = s.clone();
        change(&mut changed);
        against(&changed, Verb::Place, 1)
    };
    assert_eq!(rule(&|s| s.group.commands.secondary = None), Some(Rule::NoCommand));
    assert_eq!(rule(&|s| s.members[0].reading.role = Role::Stopped), Some(Rule::NobodyServes));
    assert_eq!(rule(&|s| s.group.primaries = 2), Some(Rule::NotPlaceable));
    assert_eq!(rule(&|s| s.group.replicas = 1), Some(Rule::NotPlaceable));
    assert_eq!(rule(&|s| s.members[1].reading.role = Role::Secondary), Some(Rule::WrongRole));
    assert_eq!(rule(&|s| s.members[1].reading.role = Role::Failed), Some(Rule::MemberFailed));
}

// S25: a group of one whose primary leaves needs a secondary for a moment, or the lead could never be taken over.
#[test]
fn beside_a_primary_that_leaves_the_member_that_stays_follows() {
    let mut world = World::new(2, 1);
    world.group.commands.secondary = Some(command("secondary"));
    (0..2).for_each(|ordinal| world.remember(ordinal, 1, "9"));
    world.serve(1, Role::Primary);
    world.group.replicas = 1;
    let s = world.observe();
    assert_eq!(against(&s, Verb::Place, 0), None);
    world.play(&Natural, 120);
    assert_eq!(world.set.as_ref().unwrap().replicas, 1, "db-1 handed over and left");
    assert_eq!(world.body(0).app.role, Role::Primary);
}

#[test]
fn only_a_surplus_or_stale_primary_is_stopped_and_only_a_failed_member_treated() {
    let mut world = served();
    world.serve(1, Role::Primary);
    let s = world.observe();
    assert_eq!(against(&s, Verb::Demote, 1), Some(Rule::NotSurplus));
    assert_eq!(against(&s, Verb::Demote, 2), Some(Rule::WrongRole));
    assert_eq!(against(&s, Verb::Treat, 1), Some(Rule::WrongRole));
    let mut surplus = s.clone();
    surplus.group.primaries = 1;
    assert_eq!(against(&surplus, Verb::Demote, 0), None);
    let mut stale = s.clone();
    stale.record.term = 2;
    stale.record.member_mut(&db(1)).term = Some(2);
    assert_eq!((against(&stale, Verb::Demote, 0), against(&stale, Verb::Demote, 1)), (None, Some(Rule::NotSurplus)));
    stale.members[1].reading.role = Role::Stopped;
    assert_eq!(against(&stale, Verb::Demote, 0), Some(Rule::NotSurplus), "not while no other primary serves");
    let mut failed = s.clone();
    failed.members[2].reading.role = Role::Failed;
    assert_eq!(against(&failed, Verb::Treat, 2), None);
    failed.record.member_mut(&db(2)).treat_at = Some(failed.now + 1);
    assert_eq!(against(&failed, Verb::Treat, 2), Some(Rule::BackOff));
}

// A seed waits for an open command that may still start a member, even if `status` says stopped for now.
#[test]
fn an_unsettled_start_blocks_a_seed() {
    let mut world = stopped();
    let mut s = world.observe();
    s.record.intents.push(intent(&s, Verb::Place, 2));
    assert_eq!(against(&s, Verb::Seed, 0), Some(Rule::NotAllStopped));
}

// S16: all claims count, and a missing record is no proof (S32).
#[test]
fn a_changed_claim_of_a_last_primary_blocks_a_seed() {
    let mut world = stopped();
    let mut s = world.observe();
    s.record.member_mut(&db(1)).primary_term = Some(1);
    assert_eq!(against(&s, Verb::Seed, 0), None);
    for change in [Some("another".to_owned()), None] {
        s.record.member_mut(&db(1)).claim_uid = change;
        assert_eq!(against(&s, Verb::Seed, 0), Some(Rule::ClaimChanged));
    }
    // Without any claim there is nothing to change.
    s.members[1].claims.clear();
    assert_eq!(against(&s, Verb::Seed, 0), None);
}

// The override lifts the objections of the record, never those of members that may run.
#[test]
fn an_override_lifts_every_rule_but_over() {
    let mut world = stopped();
    world.group.requested_override =
        Some(Override { member: db(1), position: Position::Known(sequence("4")), term: 1, raw: "o".into() });
    let s = world.observe();
    assert_eq!((against(&s, Verb::Seed, 1), against(&s, Verb::Seed, 0)), (None, Some(Rule::BarredMember)));
    let lifted: [fn(&mut Snapshot); 8] = [
        |s| s.members[2].pod = None,
        |s| s.members[0].position = Position::Unknown("?".into()),
        |s| s.members[0].position = Position::NotAsked,
        |s| s.record.member_mut(&db(1)).term = Some(0),
        |s| s.members[0].position = Position::Known(sequence("b:9")),
        |s| (s.record.member_mut(&db(0)).primary_term, s.members[0].claims) = (Some(1), Vec::new()),
        |s| s.record.high_water = Some(tanist_core::record::Mark { term: 1, sequence: sequence("900") }),
        |s| s.surplus_claims.push("data-db-9".into()),
    ];
    for (number, change) in lifted.into_iter().enumerate() {
        let mut changed = s.clone();
        change(&mut changed);
        assert_eq!(against(&changed, Verb::Seed, 1), None, "case {number}");
    }
    let kept: [fn(&mut Snapshot); 3] = [
        |s| s.members[0].reading.role = Role::Unknown,
        |s| s.members[0].reading.role = Role::Secondary,
        |s| s.record.intents.push(intent(s, Verb::Place, 0)),
    ];
    for (number, change) in kept.into_iter().enumerate() {
        let mut changed = s.clone();
        change(&mut changed);
        assert!(
            matches!(against(&changed, Verb::Seed, 1), Some(Rule::MayBePrimary | Rule::NotAllStopped)),
            "case {number}"
        );
    }
    let mut used = s.clone();
    used.record.used_override = Some("o".into());
    assert_eq!(against(&used, Verb::Seed, 1), Some(Rule::BelowHighest));
}

fn gone(world: &mut World) {
    world.respawn = false;
    world.delete(2);
}

// S8, S9, A34: anything may be replaced between decision and act.
#[test]
fn a_second_look_refuses_what_changed_since_the_decision() {
    let seed = || {
        let mut world = stopped();
        let s = world.observe();
        let plan = decide(&s, &Natural);
        let intent = runs(&plan).remove(0);
        assert_eq!((intent.verb, intent.member.as_str()), (Verb::Seed, "db-0"));
        (world, s, intent)
    };
    let (mut world, s, run) = seed();
    assert_eq!(recheck(&s, &world.observe(), &run).map(drop), Ok(()));
    type Change = fn(&mut World);
    let cases: [(Change, Rule); 7] = [
        (|w| w.restart(0), Rule::TargetReplaced),
        (|w| w.delete(0), Rule::TargetReplaced),
        (|w| w.restart(2), Rule::PositionUnknown),
        (|w| w.delete(1), Rule::PositionUnknown),
        (|w| w.serve(1, Role::Primary), Rule::MayBePrimary),
        (|w| w.body(2).app.probe = Some(Role::Unknown), Rule::MayBePrimary),
        (gone, Rule::PodCount),
    ];
    for (number, (change, rule)) in cases.into_iter().enumerate() {
        let (mut world, s, run) = seed();
        change(&mut world);
        assert_eq!(recheck(&s, &world.observe(), &run).unwrap_err().rule, rule, "case {number}");
    }
}

// S8, S19: a member that answers again keeps its pod, and a new pod is not the failed one.
#[test]
fn a_second_look_does_not_delete_a_pod_that_recovered() {
    let failed = || {
        let mut world = served();
        world.serve(2, Role::Failed);
        world.behaviours.push((db(2), "stop".into(), super::super::support::app::Behaviour::Fails(1), false));
        world.round(&Natural);
        let s = world.observe();
        let plan = decide(&s, &Natural);
        let delete = |a: &Action| if let Action::DeletePod { pod_uid, .. } = a { Some(pod_uid.clone()) } else { None };
        let uid = plan.actions.iter().find_map(delete).expect("its stop failed");
        (world, s, uid)
    };
    let (mut world, s, uid) = failed();
    assert_eq!(deletion(&s, &world.observe(), &db(2), &uid).map(drop), Ok(()));
    world.delete(2);
    assert_eq!(deletion(&s, &world.observe(), &db(2), &uid).unwrap_err().rule, Rule::TargetReplaced);
    // Its stop worked after all, as its new container shows.
    let (mut world, s, uid) = failed();
    world.restart(2);
    assert_eq!(deletion(&s, &world.observe(), &db(2), &uid).unwrap_err().rule, Rule::WrongRole);
    // A command of unknown outcome: the role settles it in the last moment.
    let mut world = stopped();
    world.behaviours.push((db(0), "primary".into(), super::super::support::app::Behaviour::Vanishes, false));
    world.round(&Natural);
    world.now += 1000;
    let s = world.observe();
    let uid = s.members[0].pod.as_ref().unwrap().uid.clone();
    assert_eq!(deletion(&s, &world.observe(), &db(0), &uid).map(drop), Ok(()));
    world.serve(0, Role::Primary);
    assert!(deletion(&s, &world.observe(), &db(0), &uid).is_err());
}

// A13, S22, A37: a member that clients must not reach is unrouted first, then stopped; its successor is routed once its role is confirmed.
#[test]
fn a_stale_primary_is_unrouted_and_then_stopped() {
    let mut world = served();
    world.play(&Natural, 60);
    world.record.term = 2;
    world.record.member_mut(&db(2)).term = Some(2);
    let plan = decide(&world.observe(), &Natural);
    let hide = |a: &Action| matches!(a, Action::Route { member, role: None, ready: false, .. } if *member == db(0));
    let stop =
        |a: &Action| matches!(a, Action::Run { intent, .. } if intent.verb == Verb::Demote && intent.member == db(0));
    assert!(hide(&plan.actions[0]));
    let (hidden, stopped) = (plan.actions.iter().position(hide), plan.actions.iter().position(stop));
    assert!(hidden < stopped && stopped.is_some());
    assert_eq!(plan.actions.iter().filter(|a| hide(a)).count(), 1);
}

#[test]
fn an_intent_names_pod_container_generation_and_deadline() {
    let mut world = stopped();
    world.group.generation = 7;
    let s = world.observe();
    let plan = decide(&s, &Natural);
    let run = runs(&plan).remove(0);
    let pod = s.members[0].pod.as_ref().unwrap();
    assert_eq!(
        (run.pod_uid.as_str(), run.container_id.as_str()),
        (pod.uid.as_str(), pod.containers["db"].id.as_deref().unwrap())
    );
    assert_eq!((run.generation, run.started, run.timeout, run.term), (7, s.now, 60, 2));
    assert!(run.token.ends_with(&s.nonce) && plan.record.intents == [run]);
    assert_eq!(plan.record.term, 2, "the term rises with the intent");
}

// Reading 17: a count of 0 in the container of `status` says nothing about an application that runs in another container.
#[test]
fn no_process_counts_only_where_the_application_runs() {
    let mut world = served();
    world.body(0).app.probe = Some(Role::Unknown);
    world.body(0).app.processes = Some(0);
    let observed = || {
        let mut world = world.clone();
        (0..3).map(|_| world.observe()).last().unwrap()
    };
    let role = |s: &Snapshot| s.role(s.member(&db(0)).unwrap()).0;
    assert_eq!(role(&observed()), Role::Failed, "all commands run where status does");
    let elsewhere = |change: fn(&mut tanist_core::snapshot::Commands)| {
        let mut s = observed();
        change(&mut s.group.commands);
        role(&s)
    };
    assert_eq!(elsewhere(|c| c.status.container = "probe".into()), Role::Unknown);
    assert_eq!(elsewhere(|c| c.primary.container = "main".into()), Role::Unknown);
    assert_eq!(elsewhere(|c| c.secondary.as_mut().unwrap().container = "main".into()), Role::Unknown);
    assert_eq!(
        elsewhere(|c| c.seed = Some(tanist_core::snapshot::Command { container: "main".into(), ..c.stop.clone() })),
        Role::Unknown
    );
    assert_eq!(elsewhere(|c| c.sequence.container = "probe".into()), Role::Failed, "it starts nothing");
}

// S20, S44: two members on nodes that do not report may be primary, and one more serves: more than the two that are desired. A secondary is started all the same, for that may last for ever (found by the
// simulator, seed 91000098). While fewer may be, it waits for the next primary.
#[test]
fn a_secondary_does_not_wait_for_more_silent_members_than_are_desired() {
    let may_place = |silent: &[u32]| {
        let mut world = World::new(4, 2);
        world.group.commands.secondary = Some(command("secondary"));
        (0..4).for_each(|ordinal| world.remember(ordinal, 1, "9"));
        world.serve(1, Role::Primary);
        for ordinal in silent {
            world.nodes.get_mut(&format!("node-{ordinal}")).unwrap().ready = false;
            world.body(*ordinal).pod.phase = Phase::Unreachable;
        }
        tanist_core::check::place_group(&world.observe()).is_ok()
    };
    assert_eq!((may_place(&[]), may_place(&[0]), may_place(&[0, 3])), (false, true, true));
}
