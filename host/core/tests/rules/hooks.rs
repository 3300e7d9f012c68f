//! The commands before and after the update of some members (B11; docs/rules.md, "Update: before and after").
use super::super::support::db;
use super::super::support::policies::{At, Lead, Natural};
use super::super::support::setting::command;
use super::super::support::world::{START, World};
use super::checks::intent;
use std::collections::BTreeSet;
use tanist_core::check::{self, Rule};
use tanist_core::checked::{recheck, recheck_deletion};
use tanist_core::contract::{MemberName, Role};
use tanist_core::decide::decide;
use tanist_core::over;
use tanist_core::plan::{Action, DeletionCause, Plan};
use tanist_core::policy::{Point, Policies};
use tanist_core::record::{Batched, Canary, Record, Seats, Switchover, Verb, Verdict};
use tanist_core::snapshot::{Batch, Evidence, Mode, Snapshot, Strategy};

/// A primary and two secondaries. The members with those ordinals have an older template, and both commands are there.
fn old(ordinals: &[u32]) -> World {
    let mut world = World::settled(10_000);
    world.group.commands.hooks.before = Some(command("before"));
    world.group.commands.hooks.after = Some(command("after"));
    ordinals.iter().for_each(|ordinal| world.older(*ordinal));
    world
}

fn names(ordinals: &[u32]) -> BTreeSet<MemberName> {
    ordinals.iter().map(|ordinal| db(*ordinal)).collect()
}

fn batch(ordinals: &[u32], begun: bool) -> Batched {
    Batched { members: names(ordinals), begun, failures: 0, retry_at: None }
}

/// The group with an open batch.
fn open(world: &World, ordinals: &[u32], begun: bool) -> Snapshot {
    let mut s = world.clone().observe();
    s.record.batch = Some(batch(ordinals, begun));
    s
}

fn deleted(plan: &Plan) -> Vec<&MemberName> {
    let deletions = plan.actions.iter().filter_map(|action| match action {
        Action::DeletePod { member, .. } => Some(member),
        _ => None,
    });
    deletions.collect()
}

/// The commands that a round starts, with their members and arguments.
fn runs(plan: &Plan) -> Vec<String> {
    let of = |action: &Action| match action {
        Action::Run { intent, argv, .. } => {
            Some(format!("{} on {}: {}", intent.command, intent.member, argv.join(" ")))
        }
        _ => None,
    };
    plan.actions.iter().filter_map(of).collect()
}

fn due(s: &Snapshot) -> Option<Verb> {
    check::due_hook(s)
}

// The round that names a batch does nothing else: the second look has the record from before it.
#[test]
fn a_batch_is_named_one_round_before_anything_happens() {
    let plan = decide(&old(&[1, 2]).observe(), &Natural);
    assert_eq!((plan.record.batch.clone(), deleted(&plan), runs(&plan)), (Some(batch(&[2], false)), vec![], vec![]));
    let plan = decide(&open(&old(&[1, 2]), &[2], false), &Natural);
    assert_eq!((deleted(&plan), runs(&plan)), (vec![], vec!["beforeUpdate on db-0: before db-2".to_owned()]));
    let plan = decide(&open(&old(&[1, 2]), &[2], true), &Natural);
    assert_eq!((deleted(&plan), runs(&plan)), (vec![&db(2)], vec![]));
}

#[test]
fn who_goes_together_is_named_together() {
    let mut world = old(&[1, 2]);
    world.group.update.batch = Batch::All;
    let plan = decide(&world.observe(), &Natural);
    assert_eq!((plan.record.batch, plan.look_again), (Some(batch(&[1, 2], false)), Some(START + 10_001)));
    let mut s = open(&world, &[1, 2], false);
    s.group.commands.hooks.before.as_mut().unwrap().exec =
        ["before", "$(MEMBERS)", "--quiet"].map(str::to_owned).into();
    assert_eq!(runs(&decide(&s, &Natural)), ["beforeUpdate on db-0: before db-1 db-2 --quiet"]);
    let plan = decide(&open(&world, &[1, 2], true), &Natural);
    assert_eq!(deleted(&plan), [&db(2), &db(1)]);
}

// S6: the pod of a member that works is spared on live reads, too, when its batch has not begun or is another one. One in which nothing runs is not.
#[test]
fn a_second_look_spares_whoever_was_not_announced() {
    let again = |s: &Snapshot| {
        let uid = s.members[2].pod.as_ref().unwrap().uid.clone();
        recheck_deletion(s, s, &db(2), &uid, DeletionCause::Update).map(drop).map_err(|violation| violation.rule)
    };
    let world = old(&[1, 2]);
    assert_eq!(again(&world.clone().observe()), Err(Rule::NotAtRest));
    assert_eq!(again(&open(&world, &[2], false)), Err(Rule::NotAtRest));
    assert_eq!(again(&open(&world, &[1], true)), Err(Rule::NotAtRest));
    assert_eq!(again(&open(&world, &[2], true)), Ok(()));
    let mut idle = open(&world, &[1], false);
    idle.members[2].reading.role = Role::Stopped;
    assert_eq!(again(&idle), Ok(()));
    let mut none = world.clone().observe();
    none.group.commands.hooks = Default::default();
    assert_eq!(again(&none), Ok(()));
}

#[test]
fn nobody_else_goes_while_a_batch_is_open() {
    let held = |s: &Snapshot, ordinal: usize| check::update_next(s, &s.members[ordinal]).map_err(|v| v.rule);
    let s = open(&old(&[1, 2]), &[1], true);
    assert_eq!((held(&s, 1), held(&s, 2)), (Ok(()), Err(Rule::NotAtRest)));
    let mut removed = s.clone();
    removed.group.commands.hooks = Default::default();
    assert_eq!(held(&removed, 2), Ok(()));
    assert_eq!(decide(&removed, &Natural).record.batch, None, "the user wants no commands any more");
    let lead = open(&old(&[0]), &[1], true);
    assert_eq!(check::gives_up_lead(&lead, &lead.members[0]).map_err(|v| v.rule), Err(Rule::NotAtRest));
}

// E32: the lead moves for the update, so the primary is announced first; a policy that says when the primary goes is asked before that.
#[test]
fn the_primary_is_announced_before_it_gives_up_the_lead() {
    let world = old(&[0]);
    let named = |policies: &dyn Policies| decide(&world.clone().observe(), policies).record.batch;
    assert_eq!(named(&Natural), Some(batch(&[0], false)));
    assert_eq!(named(&At(Point::Update, Lead::Waits(None))), None);
    assert_eq!(named(&At(Point::Update, Lead::To(db(0)))), Some(batch(&[0], false)));
    let moves = |s: &Snapshot| check::lead_cause(s).map(|cause| cause.word);
    assert_eq!(moves(&world.clone().observe()), None);
    assert_eq!((moves(&open(&world, &[0], false)), moves(&open(&world, &[0], true))), (None, Some("update")));
}

#[test]
fn a_batch_ends_when_all_of_it_are_back() {
    let begun = |ordinals: &[u32], change: &dyn Fn(&mut World)| {
        let mut world = old(ordinals);
        change(&mut world);
        due(&open(&world, &[1, 2], true))
    };
    assert_eq!(begun(&[], &|_| {}), Some(Verb::AfterUpdate));
    assert_eq!(begun(&[1], &|_| {}), None, "one has the former template");
    assert_eq!(begun(&[], &|w| w.serve(2, Role::Stopped)), None, "one is not in its role");
    assert_eq!(begun(&[], &|w| w.body(2).pod.ready = false), None);
    assert_eq!(begun(&[1], &|w| w.group.update.mode = Mode::Paused), Some(Verb::AfterUpdate), "it is called off");
    assert_eq!(begun(&[1], &|w| w.group.update.mode = Mode::ByHand), Some(Verb::AfterUpdate));
    assert_eq!(begun(&[0], &|_| {}), Some(Verb::AfterUpdate), "others are not waited for");
    let mut leaves = open(&old(&[2]), &[1, 2], true);
    leaves.group.replicas = 2;
    assert_eq!(due(&leaves), Some(Verb::AfterUpdate), "who leaves gets no new pod");
    let mut replaced = open(&old(&[2]), &[1, 2], true);
    replaced.group.makes_pods = true;
    replaced.record.seats =
        Some(Seats { numbers: [0, 1, 2, 3].into(), replaced: [(2, 3)].into(), next: 4, ..Seats::default() });
    assert_eq!(due(&replaced), Some(Verb::AfterUpdate), "nor does one in whose place a new one comes meanwhile");
}

// A template that changes once more, and a policy that chose another one before: the batch that is open goes first.
#[test]
fn the_members_of_an_open_batch_go_before_others() {
    let plan = decide(&open(&old(&[0, 1, 2]), &[1], true), &Natural);
    assert_eq!(deleted(&plan), [&db(1)]);
    let plan = decide(&open(&old(&[0, 1, 2]), &[1], false), &Natural);
    assert_eq!(runs(&plan), ["beforeUpdate on db-0: before db-1"]);
}

// E32: the primary was announced, and all have an older template once more: it is the last one, so its batch ends. A node that is to be drained is left first.
#[test]
fn a_batch_ends_when_it_is_the_turn_of_others() {
    let s = open(&old(&[0, 1, 2]), &[0], true);
    assert_eq!(
        (due(&s), runs(&decide(&s, &Natural))),
        (Some(Verb::AfterUpdate), vec!["afterUpdate on db-0: after db-0".to_owned()])
    );
    let s = open(&old(&[0, 1, 2]), &[0], false);
    assert_eq!(decide(&s, &Natural).record.batch, None);
    let mut world = old(&[1, 2]);
    world.nodes.get_mut("node-1").unwrap().cordoned = true;
    world.body(1).pod.node = Some("node-1".into());
    let s = open(&world, &[2], true);
    assert!(s.is_cordoned(&s.members[1]) && !s.is_cordoned(&s.members[2]));
    assert_eq!(due(&s), Some(Verb::AfterUpdate));
    let mut busy = open(&old(&[0, 1, 2]), &[0], true);
    busy.members[1].reading.role = Role::Stopped;
    assert_eq!(due(&busy), None, "the pod in which nothing runs waits for no batch");
    let mut held = open(&old(&[0, 1, 2]), &[0], true);
    held.members.iter_mut().for_each(|member| member.pod.as_mut().unwrap().ready = member.ordinal == 0);
    assert_eq!(due(&held), None, "nobody could go");
}

// Promise 1: a takeover may need whoever would execute it.
#[test]
fn a_command_waits_while_nobody_serves_or_the_lead_moves() {
    let may = |s: &Snapshot| check::hook_may_run(s, Verb::AfterUpdate).map_err(|v| v.rule);
    let s = open(&old(&[]), &[2], true);
    assert_eq!(may(&s), Ok(()));
    let mut lost = open(&old(&[]), &[2], true);
    lost.members[0].reading.role = Role::Unknown;
    assert_eq!((due(&lost), may(&lost)), (Some(Verb::AfterUpdate), Err(Rule::NobodyServes)));
    let mut moves = s.clone();
    let (from, why, begun) = (db(0), String::new(), Some(START));
    let open = Switchover { from, to: None, chosen: None, why, term: 1, floor: None, begun, led: None, failed: 0 };
    moves.record.switchover = Some(open);
    assert_eq!(may(&moves), Err(Rule::NotAtRest));
}

// S20: a command about other members starts nothing, so a primary whose application ended is over although it runs.
#[test]
fn a_primary_that_stopped_is_over_whatever_it_executes() {
    let mut s = open(&old(&[2]), &[2], false);
    s.record.intents = decide(&s, &Natural).record.intents;
    s.members[0].reading.role = Role::Stopped;
    let last = s.record.last_primaries[0].clone();
    assert_eq!(over::prove_over(&s, &last), Ok("its status says stopped"));
    s.record.intents[0].verb = Verb::Follow;
    assert!(over::prove_over(&s, &last).is_err());
}

// The first member with the template was watched, and the watch ends in this round: the second look has the record in which it does not.
#[test]
fn nothing_is_announced_in_the_round_in_which_a_watch_ends() {
    let mut world = old(&[2]);
    (world.group.update.canary, world.group.update.template) = (30, "new".into());
    let mut s = open(&world, &[2], false);
    let (member, pod) = (db(1), s.members[1].pod.as_ref().unwrap());
    let (pod_uid, container) = (pod.uid.clone(), pod.containers["db"].id.clone());
    let since = Some(START);
    let canary = Canary {
        template: "new".into(),
        member,
        pod_uid,
        container,
        begun: START,
        since,
        unjudged: None,
        verdict: None,
    };
    s.record.canary = Some(canary);
    let plan = decide(&s, &Natural);
    assert!(plan.record.canary.as_ref().is_some_and(|canary| canary.verdict == Some(Verdict::Passed)));
    assert_eq!(runs(&plan), [""; 0]);
    s.record = plan.record;
    assert_eq!(runs(&decide(&s, &Natural)), ["beforeUpdate on db-0: before db-2"]);
}

// A sidecar that only the new template has: the group says what to do.
#[test]
fn a_container_that_nobody_has_is_said() {
    let mut s = open(&old(&[2]), &[2], false);
    s.group.commands.hooks.before.as_mut().unwrap().container = "sidecar".into();
    let plan = decide(&s, &Natural);
    let said: Vec<_> = plan.waits.iter().map(|wait| wait.message.as_str()).collect();
    assert!(said.iter().any(|m| m.contains("no member that is in its role runs container sidecar")), "{said:?}");
}

#[test]
fn with_no_members_desired_nothing_is_run() {
    let mut s = open(&old(&[2]), &[2], true);
    s.group.replicas = 0;
    let plan = decide(&s, &Natural);
    assert!(!runs(&plan).iter().any(|run| run.contains("Update")) && plan.record.batch.is_some());
}

// S6, S9: it is held against live reads, too.
#[test]
fn a_second_look_holds_the_rules_of_these_commands() {
    let s = open(&old(&[2]), &[2], false);
    let plan = decide(&s, &Natural);
    let begun = plan.record.intents[0].clone();
    assert!(recheck(&s, &s, &begun).is_ok());
    let mut live = s.clone();
    live.members[1].reading.role = Role::Stopped;
    assert_eq!(recheck(&s, &live, &begun).map(drop).map_err(|v| v.rule), Err(Rule::NotAtRest));
}

// B8, B11: a member in whose place a new one would come waits until the open batch has ended, too.
#[test]
fn nobody_is_replaced_while_a_batch_is_open() {
    let mut s = old(&[1, 2]).observe();
    s.group.makes_pods = true;
    s.group.update.strategy = Strategy::Replace;
    let numbers = [0, 1, 2].into();
    s.record.seats = Some(tanist_core::record::Seats { numbers, next: 3, ..Default::default() });
    assert_eq!(check::replace_member(&s, &s.members[2]), Ok(()));
    s.record.batch = Some(batch(&[1], true));
    assert_eq!(check::replace_member(&s, &s.members[2]).map_err(|v| v.rule), Err(Rule::NotAtRest));
}

// What was never announced has no end; what may have been has one.
#[test]
fn a_batch_that_was_never_announced_is_forgotten() {
    let world = old(&[]);
    let mut s = open(&world, &[2], false);
    assert_eq!((due(&s), decide(&s, &Natural).record.batch), (None, None));
    s.record.batch.as_mut().unwrap().failures = 1;
    assert_eq!(due(&s), Some(Verb::AfterUpdate));
    let waits = open(&old(&[2]), &[2], false);
    assert_eq!(
        (due(&waits), decide(&waits, &Natural).record.batch),
        (Some(Verb::BeforeUpdate), Some(batch(&[2], false)))
    );
    let mut off = waits.clone();
    off.group.update.mode = Mode::ByHand;
    assert_eq!((due(&off), decide(&off, &Natural).record.batch), (None, None), "its pod is left to the user");
}

#[test]
fn a_command_rests_after_a_failure_and_waits_for_others() {
    let may = |s: &Snapshot| check::hook_may_run(s, Verb::BeforeUpdate).map_err(|v| (v.rule, v.until));
    let s = open(&old(&[2]), &[2], false);
    assert_eq!(may(&s), Ok(()));
    let mut rests = s.clone();
    rests.record.batch.as_mut().unwrap().retry_at = Some(s.now + 5);
    assert_eq!(may(&rests), Err((Rule::BackOff, Some(s.now + 5))));
    rests.record.clear_backoff();
    assert_eq!(may(&rests), Ok(()), "tanist.dev/retry");
    let mut busy = s.clone();
    busy.record.intents.push(super::checks::intent(&s, Verb::Follow, 1));
    assert_eq!(may(&busy), Err((Rule::MemberBusy, None)));
    let mut ill = s.clone();
    ill.members[1].reading.role = Role::Stopped;
    assert_eq!(may(&ill), Err((Rule::NotAtRest, None)), "no pod could go after it");
    let end = check::hook_may_run(&s, Verb::AfterUpdate).map_err(|v| v.rule);
    assert_eq!(end, Err(Rule::NotAtRest), "it is not its turn");
}

// B11: nobody is announced whose update is called off, also while one of the batch is not well. Otherwise its batch would have begun in a group that has only `afterUpdate`.
#[test]
fn nobody_is_announced_whose_update_is_called_off() {
    let mut world = old(&[2]);
    world.body(2).pod.ready = false;
    let mut s = open(&world, &[2], false);
    assert_eq!(due(&s), Some(Verb::BeforeUpdate));
    s.group.update.mode = Mode::Paused;
    assert_eq!(due(&s), None);
    s.group.commands.hooks.before = None;
    assert_eq!(decide(&s, &Natural).record.batch, Some(batch(&[2], false)));
}

// B11: nothing else is open when `afterUpdate` starts, although nobody is to go any more.
#[test]
fn the_end_of_a_batch_waits_for_a_command_that_is_open() {
    let may = |s: &Snapshot| check::hook_may_run(s, Verb::AfterUpdate).map_err(|v| v.rule);
    let s = open(&old(&[]), &[2], true);
    assert_eq!(may(&s), Ok(()));
    let mut busy = s.clone();
    busy.record.intents.push(super::checks::intent(&s, Verb::Follow, 1));
    assert_eq!((due(&busy), may(&busy)), (Some(Verb::AfterUpdate), Err(Rule::MemberBusy)));
}

// S28: the clock of the process before was ahead.
#[test]
fn the_rest_after_a_failure_is_never_longer_than_it_should_be() {
    let far = Batched { failures: 1, retry_at: Some(START + 9_000), ..batch(&[2], false) };
    let mut record = Record { batch: Some(far), ..Record::default() };
    record.clamp(START, START);
    assert_eq!(record.batch.unwrap().retry_at, Some(START + 10));
}

// The primary is first, because no takeover waits for it; after a failure another member is asked. Whoever executes it goes on in its role, with its clients.
#[test]
fn one_that_goes_on_executes_it() {
    let on =
        |s: &Snapshot| runs(&decide(s, &Natural)).into_iter().map(|run| run[16..20].to_owned()).collect::<Vec<_>>();
    let mut s = open(&old(&[2]), &[2], false);
    assert_eq!(on(&s), ["db-0"]);
    for (failures, expected) in [(1, "db-1"), (2, "db-2"), (3, "db-0")] {
        s.record.batch.as_mut().unwrap().failures = failures;
        assert_eq!(on(&s), [expected], "{failures}");
    }
    s.record.batch.as_mut().unwrap().failures = 0;
    s.members[0].asked = true;
    assert_eq!(on(&s), [""; 0], "the primary is being asked for its sequence, and no secondary is kept busy for that");
    let executes = |s: &Snapshot, ordinal: usize| check::executes_hook(s, &s.members[ordinal]).map_err(|v| v.rule);
    let mut stopped = open(&old(&[2]), &[2], true);
    stopped.members[1].reading.role = Role::Stopped;
    assert_eq!((executes(&stopped, 0), executes(&stopped, 1)), (Ok(()), Err(Rule::WrongRole)));
    let mut runs = open(&old(&[2]), &[2], false);
    runs.record.intents = decide(&runs, &Natural).record.intents;
    assert!(runs.serves(&runs.members[0]) && runs.record.intents[0].verb == Verb::BeforeUpdate);
}

// B8: in the place of a member a new one comes, and nobody is told.
#[test]
fn where_new_members_come_nobody_is_told() {
    let mut s = old(&[2]).observe();
    s.group.makes_pods = true;
    s.group.update.strategy = Strategy::Replace;
    let numbers = [0, 1, 2].into();
    s.record.seats = Some(tanist_core::record::Seats { numbers, next: 3, ..Default::default() });
    let plan = decide(&s, &Natural);
    let called: Vec<u32> = plan.record.seats.unwrap().replaced.keys().copied().collect();
    assert_eq!((plan.record.batch, called), (None, vec![2]));
}

// B11: `afterUpdate` failed, and may have done its work. When the template changes once more, `beforeUpdate` comes before the next pod goes; otherwise `afterUpdate` is tried again (simulator, seed 37006832).
#[test]
fn what_is_taken_back_is_said_again() {
    let after = |world: &World| {
        let mut s = open(world, &[2], true);
        let failed = intent(&s, Verb::AfterUpdate, 0);
        s.evidence.insert(failed.token.clone(), Evidence::Exited(1));
        s.record.intents.push(failed);
        let plan = decide(&s, &Natural);
        let mut next = Snapshot { record: plan.record, ..s };
        next.now += 3_600;
        (due(&next), deleted(&decide(&next, &Natural)).len())
    };
    assert_eq!(after(&old(&[2])), (Some(Verb::BeforeUpdate), 0));
    assert_eq!(after(&old(&[])), (Some(Verb::AfterUpdate), 0));
}
