//! Members that agree elect who of them leads: nobody is started or stopped for that, and clients are led to whoever was elected. Nobody waits for a start that cannot end.
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::super::support::{db, sequence, setting};
use super::checks::{against, intent};
use super::membership::{agreeing, agreeing_of};
use super::resize::{all_stopped, relist};
use tanist_core::check::{self, Rule};
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::limits;
use tanist_core::plan::{Action, DeletionCause, Plan, Reason};
use tanist_core::record::{Event, Intent, LastPrimary, Record, Seeded, Started, Switchover, Verb};
use tanist_core::snapshot::{Evidence, Mode, Snapshot, Strategy};

/// Three members of which these two roles are those of the first two; the third one follows. db-0 led before, and clients are led to it.
fn elected(first: Role, second: Role) -> Snapshot {
    let mut s = agreeing(1).observe();
    (s.members[0].reading.role, s.members[1].reading.role) = (first, second);
    s.members[0].pod.as_mut().unwrap().routed = Some("primary".into());
    s
}

fn begun(plan: &Plan) -> Vec<Verb> {
    let runs =
        plan.actions.iter().filter_map(|a| if let Action::Run { intent, .. } = a { Some(intent.verb) } else { None });
    runs.collect()
}

/// Where clients are led to from now on, and whether the member is Ready.
fn led(plan: &Plan, ordinal: u32) -> Vec<(Option<&'static str>, bool)> {
    let routes = plan.actions.iter().filter_map(|action| match action {
        Action::Route { member, role, ready, .. } if *member == db(ordinal) => Some((*role, *ready)),
        _ => None,
    });
    routes.collect()
}

// Promise 1; docs/rules.md, "Membership": while the members elect, nobody is made primary: that would open a term, and whoever they elect would count as one of an older term.
#[test]
fn nobody_takes_over_while_the_members_elect() {
    let s = elected(Role::Secondary, Role::Secondary);
    let plan = decide(&s, &Natural);
    assert_eq!((begun(&plan), plan.record.term), (vec![], s.record.term));
    let said: Vec<_> = plan.waits.iter().filter(|w| w.reason == Reason::FailoverPending).map(|w| &w.message).collect();
    assert!(said.len() == 1 && said[0].contains("elect the next one themselves"), "{said:?}");
    assert_eq!(check::failover_alone(&s).unwrap_err().rule, Rule::AlreadyFormed);
    let mut plain = s.clone();
    plain.group.commands.membership = None;
    assert_eq!(check::failover_alone(&plain).unwrap_err().rule, Rule::MayBePrimary, "nobody says who leads");
}

// S22, S31: clients are led to the one that was elected: also when the one before is silent, or cannot be read.
#[test]
fn clients_are_led_to_whoever_was_elected() {
    let plan = decide(&elected(Role::Secondary, Role::Primary), &Natural);
    assert_eq!((begun(&plan), led(&plan, 1).last()), (vec![], Some(&(Some("primary"), true))));
    assert_eq!(led(&plan, 0).last(), Some(&(Some("secondary"), true)));

    let mut unread = elected(Role::Unknown, Role::Primary);
    let plan = decide(&unread, &Natural);
    assert_eq!((led(&plan, 0), led(&plan, 1).last()), (vec![(None, false)], Some(&(Some("primary"), true))));
    unread.members[0].pod.as_mut().unwrap().phase = Phase::Unreachable;
    assert_eq!(led(&decide(&unread, &Natural), 1).last(), Some(&(Some("primary"), true)));
    let alone = decide(&elected(Role::Unknown, Role::Secondary), &Natural);
    assert_eq!(led(&alone, 0), [], "S19: nobody else was elected");
    unread.group.commands.membership = None;
    assert!(!led(&decide(&unread, &Natural), 1).contains(&(Some("primary"), true)), "nobody elected it");
}

// A13, promise 1: for a moment two say that they lead, the one elected after the other. None of them is stopped for that.
#[test]
fn nobody_is_stopped_for_an_election() {
    let s = elected(Role::Primary, Role::Primary);
    let plan = decide(&s, &Natural);
    assert_eq!((begun(&plan), led(&plan, 1).contains(&(Some("primary"), true))), (vec![], false));
    let mut known = s.clone();
    known.members.iter_mut().for_each(|member| member.position = Position::Known(sequence("9")));
    assert_eq!(decide(&known, &Natural).stalled, None, "no question arises to which there is no answer");
    assert_eq!(against(&s, Verb::Demote, 1), Some(Rule::NotSurplus));
    let mut plain = s.clone();
    plain.group.commands.membership = None;
    assert_eq!(against(&plain, Verb::Demote, 1), None);
    // One of an older term, and one that leaves and is listed no more, go as ever.
    let mut stale = s.clone();
    stale.record.member_mut(&db(1)).term = Some(0);
    assert_eq!(against(&stale, Verb::Demote, 1), None);
}

// S20, D21: whom a majority removed is counted no more, whatever runs on a node that does not report: the one that came in its place becomes a primary.
#[test]
fn whom_a_majority_removed_keeps_nobody_from_leading() {
    let mut s = agreeing_of(4, 4).observe();
    let joins = |s: &Snapshot| check::join_group(s).err().map(|violation| violation.rule);
    s.members[3].reading.role = Role::Stopped;
    (s.group.replicas, s.group.primaries) = (3, 3);
    // db-2 leaves, and db-3 is to be in its place.
    (s.members[2].ordinal, s.members[3].ordinal) = (3, 2);
    (s.members[2].reading.role, s.members[2].pod.as_mut().unwrap().phase) = (Role::Unknown, Phase::Unreachable);
    assert_eq!(joins(&s), Some(Rule::PrimaryLimit), "it is listed");
    relist(&mut s, None);
    assert_eq!(joins(&s), None);
    s.lists.clear();
    assert_eq!(joins(&s), Some(Rule::PrimaryLimit), "nobody says so");
    s.record.membership.as_mut().unwrap().members.retain(|listed| listed.member != Some(db(2)));
    assert_eq!(joins(&s), Some(Rule::PrimaryLimit), "what is remembered may be older than what was added since");
}

// D25: the disruption budget keeps as many members Ready as a majority is, so nobody is Ready who has no vote.
#[test]
fn nobody_is_ready_without_a_vote() {
    let ready = |s: &Snapshot, ordinal| led(&decide(s, &Natural), ordinal).last().map(|(_, ready)| *ready);
    let mut s = agreeing_of(4, 4).observe();
    s.members.iter_mut().for_each(|member| member.pod.as_mut().unwrap().gate = None);
    assert_eq!((ready(&s, 0), ready(&s, 3)), (Some(true), Some(true)));
    let mut learner = s.clone();
    let vote = |s: &mut Snapshot, votes| {
        let known = s.record.membership.as_mut().unwrap().members.iter_mut();
        known.filter(|listed| listed.member == Some(db(3))).for_each(|listed| listed.voter = votes);
    };
    vote(&mut learner, false);
    for heard in learner.lists.values_mut() {
        let entries = heard.list.as_mut().unwrap().entries.iter_mut();
        entries.filter(|e| e.name == Some(db(3))).for_each(|e| e.vote = tanist_core::membership::Vote::Learner);
    }
    assert_eq!((ready(&learner, 0), ready(&learner, 3)), (Some(true), Some(false)));
    let is_fenced = |action: &Action| matches!(action, Action::Route { role: Some(_), version: Some(_), .. });
    let routes: Vec<_> = decide(&learner, &Natural).actions;
    let routes: Vec<_> = routes.iter().filter(|a| matches!(a, Action::Route { role: Some(_), .. })).collect();
    assert!(routes.len() == 4 && routes.into_iter().all(is_fenced), "S6: also the role of one that is not Ready");
    // It was removed and is stopped, and the next removal waits.
    let mut removed = s.clone();
    (removed.group.replicas, removed.group.primaries, removed.group.removal_rest) = (3, 3, 3_600);
    removed.members[3].reading.role = Role::Stopped;
    assert_ne!(ready(&removed, 3), Some(true), "stopped voters do not vote");
    for heard in removed.lists.values_mut() {
        heard.list.as_mut().unwrap().entries.retain(|e| e.name != Some(db(3)));
    }
    removed.record.membership.as_mut().unwrap().members.retain(|listed| listed.member != Some(db(3)));
    assert_ne!(ready(&removed, 3), Some(true));
    // Before the first list there is nobody else.
    let mut first = s;
    first.record.membership = None;
    assert_eq!(ready(&first, 0), Some(true));
}

/// All have been started again, each command exited 0, and they wait for one another.
fn waiting() -> Snapshot {
    let mut s = all_stopped();
    s.lists.clear();
    for ordinal in 0..3 {
        let start = intent(&s, Verb::Rejoin, ordinal);
        s.evidence.insert(start.token.clone(), Evidence::Exited(0));
        let pod = s.members[ordinal as usize].pod.as_ref().unwrap();
        s.record.push_last_primary(LastPrimary::of(&start, pod));
        s.record.intents.push(Intent { exited: Some(s.now - limits::OTHERS_SECONDS), ..start });
        let before = s.members[ordinal as usize].position.clone();
        let started = Started { term: 1, target: false, before, followed: false, peer_stopped: false };
        s.record.member_mut(&db(ordinal)).started = Some(started);
        s.members[ordinal as usize].reading.role = Role::Starting;
    }
    s.group.start_deadline = 604_800;
    s
}

// S26, D8: a start that waits for a majority, for a week if need be, does not keep the user from stopping all members.
#[test]
fn a_group_that_waits_for_a_majority_can_be_stopped() {
    let mut s = waiting();
    let waits = decide(&s, &Natural);
    assert_eq!((begun(&waits), waits.record.intents.len()), (vec![], 3));
    (s.group.replicas, s.group.primaries) = (0, 0);
    let plan = decide(&s, &Natural);
    assert_eq!(begun(&plan), [Verb::Remove]);
    assert_eq!(plan.record.intents.len(), 1, "nobody waits for the starts");
    assert!(
        plan.record
            .history
            .iter()
            .any(|past| past.detail.as_deref().is_some_and(|d| d.contains("all members are to stop")))
    );
    // While others serve, a member that is starting will serve, too.
    s.members[0].reading.role = Role::Primary;
    s.record.intents.remove(0);
    s.record.member_mut(&db(0)).started = None;
    assert_eq!(decide(&s, &Natural).record.intents.len(), 2);
}

/// The pods that are deleted for an update.
fn updated(plan: &Plan) -> Vec<u32> {
    let pods = (0..3).filter(|ordinal| {
        plan.actions.iter().any(|action| {
            matches!(action, Action::DeletePod { member, cause: DeletionCause::Update, .. } if *member == db(*ordinal))
        })
    });
    pods.collect()
}

// E5, E36: nor does it keep the members from the template that cures them. One that served with its template before waits on, and so does one that has no volume.
#[test]
fn a_group_that_waits_for_a_majority_gets_a_corrected_template() {
    let mut s = waiting();
    for member in &mut s.members {
        let pod = member.pod.as_mut().unwrap();
        (pod.older_template, pod.outdated) = (true, true);
    }
    let plan = decide(&s, &Natural);
    assert_eq!((updated(&plan), plan.record.intents.len()), (vec![0, 1, 2], 0));
    let with = |change: &dyn Fn(&mut Snapshot)| {
        let mut other = s.clone();
        change(&mut other);
        updated(&decide(&other, &Natural))
    };
    assert_eq!(with(&|s| s.group.update.mode = Mode::ByHand), Vec::<u32>::new());
    assert_eq!(with(&|s| s.members[1].claims.clear()), [0, 2]);
    let served = |s: &mut Snapshot| {
        s.record.member_mut(&db(1)).started = None;
        s.record.intents.remove(1);
    };
    assert_eq!(with(&served), [0, 2]);
    assert_eq!(with(&|s| s.members[1].reading.role = Role::Unknown), [0, 2], "it may serve");
    let present = |s: &mut Snapshot| {
        let pod = s.members[1].pod.as_mut().unwrap();
        (pod.older_template, pod.outdated) = (false, false);
    };
    assert_eq!(with(&present), [0, 2]);
    let broken = |s: &mut Snapshot| {
        present(s);
        let pod = s.members[1].pod.as_mut().unwrap();
        (pod.phase, pod.trouble) = (Phase::Pending, Some("its image does not exist".into()));
    };
    assert_eq!(with(&broken), Vec::<u32>::new(), "the present template cures nobody");
    let crashes = |s: &mut Snapshot| {
        present(s);
        s.record.intents.remove(1);
        s.record.member_mut(&db(1)).failures = 1;
        s.members[1].reading.role = Role::Stopped;
    };
    assert_eq!(with(&crashes), Vec::<u32>::new(), "a start with it failed");
    let healed = |s: &mut Snapshot| {
        present(s);
        s.record.member_mut(&db(1)).failures = 1;
    };
    assert_eq!(with(&healed), [0, 2], "the one after that waits for them");
    let elects = |s: &mut Snapshot| {
        s.record.intents.remove(1);
        s.record.member_mut(&db(1)).started = None;
        s.members[1].reading.role = Role::Secondary;
    };
    assert_eq!(with(&elects), Vec::<u32>::new(), "others are a majority, and elect");
    // The nodes of the others may come back a moment later.
    let early = |s: &mut Snapshot| {
        s.record.intents.iter_mut().for_each(|open| open.exited = Some(s.now - limits::OTHERS_SECONDS + 1));
    };
    assert_eq!(with(&early), Vec::<u32>::new());
    // Where a new member has to come instead, the start is awaited as before.
    let replaced = |s: &mut Snapshot| {
        (s.group.makes_pods, s.group.update.strategy) = (true, Strategy::Replace);
        s.members.iter_mut().for_each(|m| m.pod.as_mut().unwrap().needs_new_member = true);
    };
    let mut kept = s.clone();
    replaced(&mut kept);
    let plan = decide(&kept, &Natural);
    assert_eq!((updated(&plan), plan.record.intents.len()), (vec![], 3));
}

// D8, S32: a start that nobody waited for any longer came to an end all the same: a majority says that the member is one, and it serves like the others. Nobody is stopped for it.
#[test]
fn a_member_whose_start_was_not_awaited_serves_all_the_same() {
    for primaries in [3, 1] {
        let mut s = agreeing(primaries).observe();
        for ordinal in 0..3 {
            let started =
                Started { term: 1, target: false, before: Position::Empty, followed: false, peer_stopped: false };
            let known = s.record.member_mut(&db(ordinal));
            (known.started, known.failures) = (Some(started), 2);
        }
        let identity = Some("data=that of another pod".to_owned());
        s.record.member_mut(&db(0)).claim_uid.clone_from(&identity);
        let plan = decide(&s, &Natural);
        assert_eq!(begun(&plan), []);
        let again = Snapshot { record: plan.record.clone(), ..s.clone() };
        assert_eq!(again.serving().len(), primaries as usize);
        assert_eq!(plan.record.member(&db(0)).claim_uid, identity, "the volume stays that of its identity");
        assert!(plan.record.members.values().all(|known| known.failures == 0));
        let adopted = plan.record.history.iter().filter(|past| Event::Adopted.is(&past.what)).count();
        assert_eq!(adopted, 3);
        // Nobody says who the members are.
        s.lists.clear();
        assert!(decide(&s, &Natural).record.member(&db(1)).started.is_some());
    }
}

// A10, S4: a member that was started to follow may be elected before anybody looks: its start worked.
#[test]
fn a_follower_that_was_elected_meanwhile_has_started() {
    let mut s = elected(Role::Unknown, Role::Primary);
    let start = Intent { exited: Some(s.now - 60), ..intent(&s, Verb::Place, 1) };
    s.evidence.insert(start.token.clone(), Evidence::Exited(0));
    s.record.intents.push(start);
    let plan = decide(&s, &Natural);
    assert_eq!((plan.record.intents.len(), plan.record.member(&db(1)).broken.clone()), (0, None));
    assert_eq!(plan.record.member(&db(1)).primary_term, Some(s.record.term));
    assert_eq!(led(&plan, 1).last(), Some(&(Some("primary"), true)));
    s.group.commands.membership = None;
    assert!(decide(&s, &Natural).record.member(&db(1)).broken.is_some(), "nobody elected it");
}

// D8, S4, S19: the one that forms the cluster follows until it is elected, which takes a while. It has not failed, and is not stopped for that; the others join it.
#[test]
fn who_forms_the_cluster_is_elected_later() {
    let mut world = World::new(3, 1);
    world.group.commands.seed = Some(setting::command("seed"));
    world.group.commands.membership = Some(setting::members(false));
    world.group.commands.secondary = Some(setting::command("secondary"));
    for verb in [Verb::Seed, Verb::Recover] {
        let mut s = world.observe();
        s.record.term = 1;
        s.record.ever_seeded = Some(Seeded { member: db(0), confirmed: false });
        s.members[0].reading.role = Role::Secondary;
        let seed = Intent { exited: Some(s.now), ..intent(&s, verb, 0) };
        s.evidence.insert(seed.token.clone(), Evidence::Exited(0));
        s.record.intents.push(seed);
        let plan = decide(&s, &Natural);
        let known = plan.record.member(&db(0));
        assert_eq!((plan.record.intents.len(), known.term, known.primary_term), (0, Some(1), None), "{verb:?}");
        assert!(plan.record.ever_seeded.as_ref().is_some_and(|seeded| seeded.confirmed));
        assert!(plan.record.history.iter().any(|entry| Event::BecameSecondary.is(&entry.what)));
        s.group.commands.membership = None;
        assert_eq!(decide(&s, &Natural).record.intents.len(), 1, "{verb:?}: nobody elects it");
    }
}

// S25: who gave up the lead is not started again before the others have elected another one, or had the time for that. Whom the user prefers the members do not know.
#[test]
fn who_gave_up_the_lead_waits_for_an_election() {
    let s = elected(Role::Stopped, Role::Secondary);
    let after = |seconds: i64| {
        let mut s = s.clone();
        s.members[0].position = Position::Known(sequence("9"));
        let (from, why) = (db(0), String::new());
        // The stop itself takes a while.
        let begun = Some(s.now - seconds - 60);
        s.members[0].reading.since = s.now - seconds;
        s.record.switchover =
            Some(Switchover { from, to: None, chosen: None, why, term: 1, floor: None, begun, led: None, failed: 0 });
        s
    };
    assert_eq!(begun(&decide(&after(limits::ELECTION_SECONDS - 1), &Natural)), []);
    assert_eq!(begun(&decide(&after(limits::ELECTION_SECONDS), &Natural)), [Verb::Rejoin]);

    let mut prefers = agreeing(1).observe();
    prefers.group.preferred_primary = Some(db(1));
    assert_eq!(check::lead_cause(&prefers), None);
    prefers.group.commands.membership = None;
    assert_eq!(check::lead_cause(&prefers).map(|cause| cause.word), Some("preferred"));
}

// E32: of two voters the other one could not lead alone, so the leader gets its new pod without giving up the lead first.
#[test]
fn of_two_members_the_leader_is_updated_last_and_at_once() {
    let held = |members: u32| {
        let mut world = agreeing_of(members, 1);
        world.older(0);
        let s = world.observe();
        check::update_member(&s, &s.members[0]).map_err(|violation| violation.rule)
    };
    assert_eq!((held(2), held(3)), (Ok(()), Err(Rule::PrimaryLast)));
}

// S19: where all serve, one slow answer takes nobody out of service, also while another one leaves.
#[test]
fn one_slow_answer_takes_nobody_out_of_service_where_all_serve() {
    let mut s = agreeing(3).observe();
    (s.group.replicas, s.group.primaries) = (2, 2);
    s.members[0].reading.role = Role::Unknown;
    assert_eq!(led(&decide(&s, &Natural), 0), []);
}

// A13, D8: the user asks for more primaries, or for fewer, and what `status` says is as before: no follower is made primary, none of those that lead is stopped, and the group goes on.
#[test]
fn another_number_of_primaries_stops_nobody() {
    let mut more = agreeing(1).observe();
    more.group.primaries = 3;
    more.members.iter_mut().for_each(|member| member.position = Position::Known(sequence("9")));
    assert_eq!(begun(&decide(&more, &Natural)), []);
    more.group.commands.membership = None;
    assert_eq!(begun(&decide(&more, &Natural)), [Verb::Join]);

    let mut world = agreeing(3);
    world.group.primaries = 1;
    world.group.commands.secondary = Some(setting::command("secondary"));
    world.older(2);
    let s = world.observe();
    assert_eq!(check::update_member(&s, &s.members[2]), Ok(()), "the template that changes status arrives");
    world.serve(2, Role::Stopped);
    let mut stopped = world.observe();
    stopped.members[2].position = Position::Known(sequence("9"));
    assert_eq!(against(&stopped, Verb::Place, 2), None);
    stopped.group.commands.membership = None;
    assert_eq!(against(&stopped, Verb::Place, 2), Some(Rule::NotPlaceable));
}

// S32: one whose start nobody awaited any longer has not said its list yet: it is neither stopped nor told whom to follow.
#[test]
fn who_has_not_said_its_list_is_left_alone_for_a_moment() {
    for primaries in [3, 1] {
        let mut s = agreeing(primaries).observe();
        let before = Position::Empty;
        let started = Started { term: 1, target: false, before, followed: false, peer_stopped: false };
        s.record.member_mut(&db(2)).started = Some(started);
        s.lists.remove(&db(2));
        s.members.iter_mut().for_each(|member| member.position = Position::Known(sequence("9")));
        let plan = decide(&s, &Natural);
        assert_eq!((begun(&plan), plan.stalled), (vec![], None));
        let verb = if primaries == 1 { Verb::Follow } else { Verb::Demote };
        assert!(against(&s, verb, 2).is_some());
        s.group.commands.membership = None;
        assert_eq!(against(&s, verb, 2), None);
    }
}

// P44: policies do not choose who leads either, and whom the user prefers keeps nobody from leading.
#[test]
fn no_policy_moves_a_lead_that_is_elected() {
    let mut s = agreeing(1).observe();
    s.now += limits::LEAD_SECONDS;
    assert_eq!(check::policy_may_move_lead(&s).unwrap_err().rule, Rule::AlreadyFormed);
    s.group.preferred_primary = Some(db(1));
    assert_ne!(
        check::lead_candidate(&s, &s.members[2]).err().map(|violation| violation.rule),
        Some(Rule::AdministratorDecides)
    );
    s.group.commands.membership = None;
    assert_eq!(check::lead_candidate(&s, &s.members[2]).unwrap_err().rule, Rule::AdministratorDecides);
    s.group.preferred_primary = None;
    assert_eq!(check::policy_may_move_lead(&s), Ok(()));
}

// S22: while the group gets smaller, too, clients are led away from one that does not answer when another one was elected.
#[test]
fn clients_are_led_to_whoever_was_elected_also_while_members_leave() {
    let mut s = elected(Role::Unknown, Role::Primary);
    s.group.replicas = 1;
    assert_eq!(led(&decide(&s, &Natural), 0), [(None, false)]);
}

// S32: the status was removed and the claims say nothing: the list of the members may be remembered before anybody is adopted. Whoever says it, and is listed as started, counts from then on.
#[test]
fn who_is_listed_is_adopted_also_when_nobody_else_is_known() {
    let mut s = agreeing(3).observe();
    s.record = Record {
        membership: s.record.membership,
        cleared_generation: s.record.cleared_generation,
        ..Record::default()
    };
    s.members.iter_mut().flat_map(|member| &mut member.claims).for_each(|claim| claim.mark = None);
    s.members[2].reading.role = Role::Stopped;
    s.lists.remove(&db(2));
    // Nobody leads for a moment, because they elect.
    s.group.primaries = 1;
    s.group.commands.secondary = Some(setting::command("secondary"));
    s.members.iter_mut().take(2).for_each(|member| member.reading.role = Role::Secondary);
    let plan = decide(&s, &Natural);
    let terms: Vec<_> = (0..3).map(|ordinal| plan.record.member(&db(ordinal)).term).collect();
    assert_eq!((plan.record.term, terms), (1, vec![Some(1), Some(1), None]));
    assert!(plan.record.ever_seeded.as_ref().is_some_and(|seeded| seeded.confirmed));
}
