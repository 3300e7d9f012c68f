//! When one member of an application that agrees goes on alone: by name, in the situation that people saw, and while nobody else runs. No policy can break these rules.
use super::super::support::agreement::Lie;
use super::super::support::policies::Natural;
use super::super::support::world::{World, command};
use super::super::support::{db, sequence};
use super::checks::intent;
use super::membership::agreeing;
use super::memory::{claim, marked, noted};
use tanist_core::check::{self, Asked, Rule, Serves};
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::memory::recall;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::record::{LastPrimary, Listed, Membership, Record, Recovery, Stage, Started, Verb};
use tanist_core::snapshot::{Evidence, LeftClaim, RecoveryRequest, Snapshot};
use tanist_protocol::why::Word;

/// A group of three whose members can be recovered.
fn group(primaries: u32) -> World {
    let mut world = agreeing(primaries);
    world.group.commands.membership.as_mut().unwrap().recover = Some(command("recover"));
    world
}

/// An administrator asks for that member, and names what there is.
fn ask(s: &mut Snapshot, ordinal: u32) {
    let known = s.record.membership.clone().unwrap_or_default();
    s.group.requested_recovery = Some(RecoveryRequest {
        member: db(ordinal),
        group: s.group.uid.clone(),
        claim: s.members[usize::try_from(ordinal).unwrap()].claims[0].uid.clone(),
        restored: false,
        cluster: known.cluster,
        list: known.revision,
        raw: "asked".into(),
    });
}

fn accept(s: &mut Snapshot, tries: u32) {
    let member = s.group.requested_recovery.as_ref().unwrap().member.clone();
    let (request, stage) = ("asked".into(), Stage::Accepted);
    s.record.recovery = Some(Recovery { request, member, stage, apart: false, tries });
}

/// Nobody runs any more, an administrator named db-0, and that was accepted.
fn lost() -> Snapshot {
    let mut world = group(3);
    (0..3).for_each(|ordinal| world.serve(ordinal, Role::Stopped));
    let mut s = world.observe();
    s.members.iter_mut().for_each(|m| m.position = Position::Known(sequence("9")));
    ask(&mut s, 0);
    accept(&mut s, 0);
    s
}

fn against(s: &Snapshot, verb: Verb, ordinal: u32) -> Option<Rule> {
    check::start(s, &intent(s, verb, ordinal)).err().map(|violation| violation.rule)
}

/// The rule that forbids the recovery of db-0 after that change.
fn with(change: &dyn Fn(&mut Snapshot)) -> Option<Rule> {
    let mut s = lost();
    change(&mut s);
    against(&s, Verb::Recover, 0)
}

fn request(s: &mut Snapshot) -> &mut RecoveryRequest {
    s.group.requested_recovery.as_mut().unwrap()
}

fn runs(plan: &Plan) -> Vec<(Verb, String)> {
    let run = |a: &Action| match a {
        Action::Run { intent, .. } => Some((intent.verb, intent.member.to_string())),
        _ => None,
    };
    plan.actions.iter().filter_map(run).collect()
}

// D8: nobody goes on alone without an administrator, who names the member, its volume and what is remembered of the others.
#[test]
fn a_recovery_is_bound_to_what_people_saw() {
    assert_eq!(with(&|_| ()), None);
    assert_eq!(with(&|s| s.group.requested_recovery = None), Some(Rule::NotAsked));
    assert_eq!(with(&|s| s.record.recovery = None), Some(Rule::NotAsked), "not accepted");
    assert_eq!(with(&|s| request(s).raw = "another".into()), Some(Rule::NotAsked), "another request was accepted");
    assert_eq!(with(&|s| request(s).member = db(1)), Some(Rule::NotAsked));
    assert_eq!(with(&|s| request(s).member = db(9)), Some(Rule::NotAsked));
    assert_eq!(with(&|s| request(s).group = "earlier".into()), Some(Rule::NotAsked));
    assert_eq!(with(&|s| request(s).claim = "other".into()), Some(Rule::NotAsked));
    assert_eq!(with(&|s| request(s).list += 1), Some(Rule::NotAsked));
    assert_eq!(with(&|s| request(s).cluster = "c2".into()), Some(Rule::NotAsked));
    assert_eq!(with(&|s| s.group.replicas = 0), Some(Rule::NotAsked));
    let unmade = |s: &mut Snapshot| s.group.commands.membership.as_mut().unwrap().recover = None;
    assert_eq!(with(&unmade), Some(Rule::NotAsked));
    for stage in [Stage::Refused, Stage::Done] {
        assert_eq!(
            with(&move |s| s.record.recovery.as_mut().unwrap().stage = stage),
            Some(Rule::NotAsked),
            "{stage:?}"
        );
    }
    let mut s = lost();
    s.group.recovery_error = Some("half of one".into());
    assert_eq!(check::asked(&s), Asked::Unfit("half of one".into()));
}

// D8: it goes on with the volume on which it was started, or with one that people name; there has to be something on it.
#[test]
fn a_recovery_goes_on_with_a_volume_that_is_known() {
    let other = |s: &mut Snapshot| s.record.member_mut(&db(0)).claim_uid = Some("before".into());
    assert_eq!(with(&other), Some(Rule::NotAsked));
    let named = |s: &mut Snapshot| (other(s), request(s).restored = true);
    assert_eq!(with(&|s| named(s).1), None);
    let unformed = |s: &mut Snapshot| {
        (s.record.membership, s.record.ever_seeded) = (None, None);
        (request(s).cluster, request(s).list) = (String::new(), 0);
    };
    assert_eq!(with(&unformed), Some(Rule::NotAsked));
    assert_eq!(with(&|s| (unformed(s), request(s).restored = true).0), None, "nothing is remembered");
    assert_eq!(with(&|s| s.members[0].position = Position::Empty), Some(Rule::EmptyMember));
    assert_eq!(with(&|s| s.members[0].position = Position::NotAsked), Some(Rule::PositionUnknown));
    assert_eq!(with(&|s| s.members[0].position_stale = true), Some(Rule::PositionUnknown));
    assert_eq!(with(&|s| s.members[0].position = Position::Unknown("no".into())), Some(Rule::PositionUnknown));
    assert_eq!(with(&|s| s.members[1].position = Position::NotAsked), None, "what the others hold is given up");
    assert_eq!(with(&|s| s.record.member_mut(&db(0)).retry_at = Some(s.now + 1)), Some(Rule::BackOff));
}

// D8, S20: every other member is proven to be stopped: members that run may be a majority. That holds for those that only follow, too.
#[test]
fn nobody_goes_on_alone_while_another_one_may_run() {
    for role in [Role::Starting, Role::Unknown, Role::Failed] {
        assert!(with(&move |s| s.members[1].reading.role = role).is_some(), "{role:?}");
    }
    let silent = |s: &mut Snapshot| {
        s.members[1].pod.as_mut().unwrap().phase = Phase::Unreachable;
        s.members[1].reading.role = Role::Unknown;
    };
    assert_eq!(with(&silent), Some(Rule::MayBePrimary));
    let gone = |s: &mut Snapshot| s.members[1].pod = None;
    assert_eq!(with(&gone), Some(Rule::MayBePrimary), "it ran there, and its pod is gone");
    let over = |s: &mut Snapshot| {
        gone(s);
        s.record.last_primaries.clear();
        s.record.member_mut(&db(1)).ran = None;
    };
    assert_eq!(with(&over), None, "it has no pod, and what ran in it is over");
    let earlier = |s: &Snapshot| {
        let pod = s.members[1].pod.as_ref().unwrap();
        LastPrimary { pod_uid: "an earlier pod".into(), ..LastPrimary::of(&intent(s, Verb::Rejoin, 1), pod) }
    };
    let led = |s: &mut Snapshot| s.record.last_primaries.push(earlier(s));
    assert_eq!(with(&led), Some(Rule::MayBePrimary));
    let followed = |s: &mut Snapshot| s.record.member_mut(&db(1)).ran = Some(earlier(s));
    assert_eq!(with(&followed), Some(Rule::MayBePrimary), "it followed there");
    let ended = |s: &mut Snapshot| (followed(s), s.ended.insert("an earlier pod".into())).0;
    assert_eq!(with(&ended), None);
    let open = |s: &mut Snapshot| s.record.intents.push(intent(s, Verb::Halt, 2));
    assert_eq!(with(&open), Some(Rule::MayBePrimary), "it led, and its command is not settled");
    let unled = |s: &mut Snapshot| (open(s), s.record.last_primaries.clear()).1;
    assert_eq!(with(&unled), Some(Rule::NotAllStopped));
}

// D8: where a member runs that can be recovered is remembered in whatever role, until it is proven over.
#[test]
fn where_members_run_is_remembered() {
    let mut world = group(1);
    world.play(&Natural, 0);
    let ran =
        |world: &World, ordinal: u32| world.record.member(&db(ordinal)).ran.as_ref().map(|ran| ran.pod_uid.clone());
    for ordinal in 0..3 {
        assert_eq!(ran(&world, ordinal), Some(world.pods[&ordinal].pod.uid.clone()), "db-{ordinal}");
    }
    let before = ran(&world, 2);
    world.respawn = false;
    world.forget(2);
    world.round(&Natural);
    assert_eq!(ran(&world, 2), before, "its pod was deleted by force, and what ran in it may run still");
    assert_eq!(world.record.member(&db(2)).ran.as_ref().unwrap().gone, Some(world.now));
    world.now += 120;
    world.round(&Natural);
    assert_eq!(ran(&world, 2), None, "its node stayed Ready");
}

// D8, S20: the nodes of two members go dark before anybody could see them in a role, also before the group has the command: where they run is remembered, so nobody goes on alone
// while they may be a majority. An earlier pod is not forgotten for one that cannot be read.
#[test]
fn one_that_cannot_be_read_may_run_too() {
    let mut world = agreeing(1);
    world.record.members.values_mut().for_each(|known| known.ran = None);
    for ordinal in [1, 2] {
        world.nodes.get_mut(&format!("node-{ordinal}")).unwrap().ready = false;
        world.body(ordinal).pod.phase = Phase::Unreachable;
    }
    world.round(&Natural);
    let pods = [1, 2].map(|ordinal| world.pods[&ordinal].pod.uid.clone());
    world.respawn = false;
    [1, 2].into_iter().for_each(|ordinal| world.forget(ordinal));
    world.round(&Natural);
    let ran = |world: &World| [1, 2].map(|o| world.record.member(&db(o)).ran.clone().unwrap().pod_uid);
    assert_eq!(ran(&world), pods);
    world.respawn = true;
    [1, 2].into_iter().for_each(|ordinal| world.new_pod(ordinal));
    world.body(1).app.probe = Some(Role::Unknown);
    world.round(&Natural);
    assert_eq!(ran(&world), pods);
    let mut s = lost();
    let last = LastPrimary { pod_uid: "dark".into(), ..world.record.member(&db(1)).ran.clone().unwrap() };
    s.nodes.as_mut().unwrap().get_mut("node-1").unwrap().ready = false;
    s.record.member_mut(&db(1)).ran = Some(last);
    assert_eq!(against(&s, Verb::Recover, 0), Some(Rule::MayBePrimary));
}

// D8, S32: what is remembered of where members ran is on their claims, too.
#[test]
fn where_members_ran_is_on_their_claims() {
    let mut world = group(1);
    world.play(&Natural, 0);
    let mark = |ordinal: u32| world.volumes[&ordinal].mark.clone().unwrap();
    let pods: Vec<_> = (0..3).map(|ordinal| world.pods[&ordinal].pod.uid.clone()).collect();
    for ordinal in 0..3 {
        let mut ran: Vec<_> = mark(ordinal).ran.into_iter().map(|last| last.pod_uid).collect();
        assert_eq!(ran[0], pods[usize::try_from(ordinal).unwrap()], "its own comes first");
        ran.sort();
        assert_eq!(ran, pods, "each once");
    }
}

// D8: a recovery on a restored volume that was not started, or did not succeed, leaves the member its own volume, or none if none is known: what was restored has no identity.
#[test]
fn a_restored_volume_is_that_of_the_identity_once_it_leads() {
    let mut world = group(3);
    (0..3).for_each(|ordinal| world.serve(ordinal, Role::Stopped));
    world.volumes.get_mut(&0).unwrap().uid = "restored".into();
    for is_known in [true, false] {
        let mut s = world.observe();
        s.members.iter_mut().for_each(|m| m.position = Position::Known(sequence("9")));
        s.record.member_mut(&db(0)).claim_uid.take_if(|_| !is_known);
        let own = s.record.member(&db(0)).claim_uid.clone();
        ask(&mut s, 0);
        s.group.requested_recovery.as_mut().unwrap().restored = true;
        accept(&mut s, 0);
        let plan = decide(&s, &Natural);
        assert_eq!(runs(&plan), [(Verb::Recover, "db-0".to_owned())], "{plan:?}");
        assert_eq!(plan.record.member(&db(0)).claim_uid, own);
        s.record = plan.record;
        let token = s.record.intents[0].token.clone();
        s.evidence.insert(token, Evidence::Exited(0));
        s.members[0].reading.role = Role::Primary;
        let plan = decide(&s, &Natural);
        assert_eq!(plan.record.recovery.as_ref().map(|known| known.stage), Some(Stage::Done), "{plan:?}");
        assert_eq!(plan.record.member(&db(0)).claim_uid.as_deref(), Some("restored"));
        assert_eq!(plan.record.recovered_term, Some(plan.record.term));
    }
}

// D8: the member leads, and the identities of the others are over: neither the volumes on which they were started nor their starts are remembered.
#[test]
fn whoever_was_given_up_has_no_identity() {
    let mut s = lost();
    s.record = decide(&s, &Natural).record;
    s.evidence.insert(s.record.intents[0].token.clone(), Evidence::Exited(0));
    s.members[0].reading.role = Role::Primary;
    let started = Started { term: 1, target: false, before: Position::Empty, followed: false, peer_stopped: false };
    s.record.member_mut(&db(1)).started = Some(started);
    // What was said before it counts no more.
    s.lists.clear();
    let record = decide(&s, &Natural).record;
    let known = [0, 1, 2].map(|ordinal| record.member(&db(ordinal)).clone());
    let left = known.map(|known| (known.started.is_some(), known.claim_uid.is_some()));
    assert_eq!(left, [(false, true), (false, false), (false, false)]);
}

// D8, D20: claims from before a recovery may be all that is left of what was given up.
#[test]
fn claims_of_what_was_given_up_stay() {
    let discard = |recovered: Option<u64>, term: u64| {
        let mut s = group(3).observe();
        s.group.deletes_volumes = true;
        s.record.retired.insert(db(3));
        s.record.recovered_term = recovered;
        let left = LeftClaim {
            member: db(3),
            claim: claim("data-db-3", "w", marked("db", term, None, &[0])),
            is_being_deleted: false,
        };
        check::discard_claim(&s, &left).err().map(|violation| violation.rule)
    };
    assert_eq!(discard(None, 1), None);
    assert_eq!((discard(Some(2), 1), discard(Some(2), 2)), (Some(Rule::OnlyCopy), None));
}

// D8: what is noted of where a member ran ends with that, also when the group does not have the command any more.
#[test]
fn where_a_member_ran_is_forgotten_without_the_command_too() {
    let mut world = group(1);
    world.play(&Natural, 0);
    world.group.commands.membership.as_mut().unwrap().recover = None;
    world.respawn = false;
    world.forget(2);
    world.round(&Natural);
    world.now += 120;
    world.round(&Natural);
    assert_eq!(world.record.member(&db(2)).ran, None);
}

// S20, D20: an identity that runs twice has two votes, also when it only follows.
#[test]
fn an_identity_runs_nowhere_else() {
    let ran = |pod: Option<&str>| {
        let mut s = lost();
        (s.group.requested_recovery, s.record.recovery) = (None, None);
        let own = s.members[1].pod.clone().unwrap();
        let last = LastPrimary::of(&intent(&s, Verb::Rejoin, 1), &own);
        s.record.member_mut(&db(1)).ran = Some(LastPrimary { pod_uid: pod.unwrap_or(&own.uid).into(), ..last });
        against(&s, Verb::Rejoin, 1)
    };
    assert_eq!(ran(Some("an earlier pod")), Some(Rule::MayBePrimary));
    assert_eq!(ran(None), None, "where it is stopped");
}

// D8: while a member is recovered nobody else is started or changed, and once its command began that holds without the request, too.
#[test]
fn nobody_else_starts_while_a_member_is_recovered() {
    let s = lost();
    assert!(check::is_recovering(&s));
    for verb in [Verb::Rejoin, Verb::Join, Verb::Place, Verb::Seed, Verb::Failover] {
        assert_eq!(against(&s, verb, 1), Some(Rule::Recovering), "{verb:?}");
    }
    assert!(runs(&decide(&s, &Natural)).iter().all(|(verb, _)| *verb == Verb::Recover), "{:?}", decide(&s, &Natural));
    let mut withdrawn = s.clone();
    withdrawn.group.requested_recovery = None;
    assert!(!check::is_recovering(&withdrawn));
    let plan = decide(&withdrawn, &Natural);
    assert_eq!(plan.record.recovery, None);
    assert_eq!(runs(&plan).len(), 3, "all start again: {plan:?}");
    assert!((0..3).all(|o| plan.record.member(&db(o)).ran.is_some()), "where they are started is noted: {plan:?}");
    let mut begun = s.clone();
    accept(&mut begun, 1);
    begun.group.requested_recovery = None;
    assert!(check::is_recovering(&begun));
    let plan = decide(&begun, &Natural);
    assert!(runs(&plan).is_empty() && plan.waits[0].reason == Reason::RecoverInvalid, "{plan:?}");
    assert!(plan.waits[0].message.contains("tanist recover db --from db-0"), "{:?}", plan.waits);
    begun.group.replicas = 0;
    assert!(!check::is_recovering(&begun), "all stop");
}

// D8: members that serve are left alone; the request is refused once and for all.
#[test]
fn members_that_serve_are_left_alone() {
    let mut s = group(3).observe();
    ask(&mut s, 0);
    assert_eq!(check::serves(&s), Serves::Somebody("db-0, db-1, db-2".into()));
    let plan = decide(&s, &Natural);
    assert_eq!(plan.record.recovery.as_ref().map(|r| r.stage), Some(Stage::Refused));
    assert!(runs(&plan).is_empty(), "{plan:?}");
    accept(&mut s, 0);
    assert_eq!(against(&s, Verb::Halt, 1), Some(Rule::NotAsked), "they serve meanwhile");
    let plan = decide(&s, &Natural);
    assert_eq!(plan.record.recovery.as_ref().map(|r| r.stage), Some(Stage::Refused));
    let mut unread = s.clone();
    unread.lists.clear();
    unread.record.recovery = None;
    let plan = decide(&unread, &Natural);
    assert!(plan.record.recovery.is_none() && runs(&plan).is_empty(), "their lists are read first: {plan:?}");
    let asks = plan.actions.iter().filter(|a| matches!(a, Action::List { .. })).count();
    assert_eq!(asks, 3);
    // Lists of different times may differ although everything is well.
    unread.lists = s.lists.clone();
    unread.lists.get_mut(&db(1)).unwrap().at -= 6;
    assert_eq!(check::serves(&unread), Serves::Unread(vec![db(1)]));
}

// D8: who waits for a majority is stopped; one that failed is treated.
#[test]
fn who_waits_for_a_majority_is_stopped() {
    let halts = |role: Role| {
        let mut s = lost();
        s.members[1].reading.role = role;
        against(&s, Verb::Halt, 1)
    };
    assert_eq!((halts(Role::Starting), halts(Role::Unknown)), (None, None));
    assert_eq!(halts(Role::Stopped), Some(Rule::WrongRole));
    assert_eq!(halts(Role::Failed), Some(Rule::WrongRole));
    let mut unasked = lost();
    unasked.members[1].reading.role = Role::Starting;
    unasked.group.requested_recovery = None;
    assert_eq!(against(&unasked, Verb::Halt, 1), Some(Rule::NotAsked));
}

// D27: two clusters, or lists that no majority says, are what an administrator decides about while members run.
#[test]
fn members_that_are_apart_may_be_stopped() {
    let serves = |lies: &[(u32, Lie)]| {
        let mut world = group(3);
        world.agreement.lies.extend(lies.iter().copied());
        (0..3).for_each(|ordinal| world.ask_for_list(ordinal));
        check::serves(&world.observe())
    };
    assert_eq!(serves(&[(2, Lie::Split)]), Serves::Apart);
    assert!(matches!(serves(&[(2, Lie::Differs)]), Serves::Somebody(_)), "two of three voters say one list");
    let mut apart = group(3).observe();
    ask(&mut apart, 0);
    accept(&mut apart, 0);
    apart.record.recovery.as_mut().unwrap().apart = true;
    assert_eq!(against(&apart, Verb::Halt, 1), None);
    apart.group.requested_recovery = None;
    assert_eq!(against(&apart, Verb::Halt, 1), Some(Rule::NotAsked));
    // Each of three voters says another list.
    let mut differing = group(3).observe();
    for (at, heard) in differing.lists.values_mut().enumerate() {
        let entries = &mut heard.list.as_mut().unwrap().entries;
        entries.iter_mut().for_each(|entry| entry.address = format!("http://elsewhere-{at}"));
    }
    assert_eq!(check::serves(&differing), Serves::Apart);
}

// D8, S32: the record is lost while the command is on its way: its claim opens it again, and nobody else starts.
#[test]
fn a_recovery_outlives_the_record() {
    let claims = [
        noted(0, Verb::Recover, 2, 7, marked("db", 1, None, &[0])),
        (db(1), claim("data-db-1", "v", marked("db", 1, None, &[0]))),
    ];
    let record = recall(Record::default(), "db", claims.iter().map(|(m, c)| (m, c)));
    assert_eq!(record.intents.iter().map(|i| i.verb).collect::<Vec<_>>(), [Verb::Recover]);
    assert_eq!(record.recovery, Some(Recovery::recalled(&db(0))));
    // It may not have been the first try: when this one turns out not to have begun, the group is being recovered still.
    let mut s = lost();
    (s.record.recovery, s.record.intents) = (record.recovery, record.intents.clone());
    s.evidence.insert(record.intents[0].token.clone(), Evidence::NotStarted(Word::Void.into()));
    (s.record.intents[0].pod_uid, s.record.intents[0].container_id) =
        s.members[0].pod.as_ref().map(|pod| (pod.uid.clone(), pod.containers["db"].id.clone().unwrap())).unwrap();
    s.group.requested_recovery = None;
    let settled = decide(&s, &Natural).record;
    assert!(settled.intents.is_empty() && settled.recovery.is_some_and(|known| known.is_begun()));
    let mut known = Record { term: 1, ..Record::default() };
    let (request, stage) = ("asked".into(), Stage::Accepted);
    known.recovery = Some(Recovery { request, member: db(0), stage, apart: true, tries: 2 });
    let recalled = recall(known.clone(), "db", claims.iter().map(|(m, c)| (m, c)));
    assert_eq!(recalled.recovery, known.recovery, "the record knows more");
    for led in [0, 1] {
        let settled = [noted(0, Verb::Recover, 2, 7, marked("db", 2, None, &[led]))];
        let record = recall(Record::default(), "db", settled.iter().map(|(m, c)| (m, c)));
        assert!(record.intents.is_empty(), "db-{led} led since: in the same term, when it was withdrawn");
    }
}

// D8, S32: what was given up is not remembered again from the claims of those that were given up, whichever claim comes first.
#[test]
fn a_list_that_was_given_up_is_not_recalled() {
    let listed = |id: &str, ordinal| Listed {
        id: id.into(),
        member: Some(db(ordinal)),
        started: true,
        voter: true,
        volume: None,
    };
    let list = |cluster: &str, revision, members| Some(Membership { cluster: cluster.into(), revision, members });
    let with = |term, membership| {
        let mut mark = marked("db", term, None, &[0]).unwrap();
        mark.membership = membership;
        Some(mark)
    };
    let old = list("c1", 9, vec![listed("m1", 0), listed("m2", 1)]);
    let new = list("c2", 3, vec![listed("m3", 0)]);
    let recovered = (db(0), claim("data-db-0", "u", with(2, new.clone())));
    let given_up = (db(1), claim("data-db-1", "v", with(1, old.clone())));
    for claims in [[&recovered, &given_up], [&given_up, &recovered]] {
        let recalled = |record: &Record| recall(record.clone(), "db", claims.map(|(m, c)| (m, c))).membership;
        assert_eq!(recalled(&Record::default()), new);
        let known = |term, membership| Record { term, membership, ..Record::default() };
        assert_eq!(recalled(&known(2, new.clone())), new);
        assert_eq!(recalled(&known(2, None)), new);
        assert_eq!(recalled(&known(1, old.clone())), new, "the record is an older one");
        let alone = Some(Membership::alone(&db(0), new.as_ref()));
        assert_eq!(recalled(&known(3, alone.clone())), alone, "nothing was said since");
    }
}

// D8, A10, S32: it is a start like a seed: one at a time, of a new term, and known by its token alone.
#[test]
fn a_recovery_is_a_start_like_a_seed() {
    assert!(Verb::Recover.makes_primary() && Verb::Recover.opens_term() && Verb::Recover.may_lead());
    assert!(
        Verb::token_makes_primary(&Verb::Recover.token(3, "nonce")) && !Verb::token_makes_primary("rejoin-3-nonce")
    );
    assert!(Verb::Recover.ends_lists() && !Verb::Recover.changes_members());
    assert_eq!((Verb::Halt.intended(), Verb::Halt.may_lead()), (Role::Stopped, false));
    assert_eq!(lost().command(Verb::Recover, false).0, "recover");
}
