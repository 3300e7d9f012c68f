//! What becomes of a new member and of the one in whose place it comes (B8 to B10; docs/rules.md, "Update: successors").
use super::super::support::db;
use super::super::support::policies::Natural;
use super::checks::intent;
use super::replace::{arriving, at, begun, called, deleted, leaving, old, open, replaced, rule, set};
use tanist_core::check::{self, Rule};
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::record::{Canary, Seats, Updating, Verb, Verdict, Wanted};
use tanist_core::snapshot::{Mode, Moving, Set, Snapshot, Strategy};
use tanist_core::status::{Kind, PolicyHealth, Truth, report};

// B8: the former member stays, and is a member like any other, until as many others as desired are in their roles, also if it is in none itself: there may be no other copy of the data.
#[test]
fn the_new_member_joins_before_the_former_one_leaves() {
    let goes = |s: &Snapshot| rule(check::leaves_its_place(s, at(s, 2)));
    assert_eq!((goes(&arriving()), goes(&begun())), (Err(Rule::StayersFirst), Ok(())));
    let mut down = arriving();
    down.members[2].reading.role = Role::Stopped;
    down.members[3].reading.role = Role::Starting;
    assert_eq!(goes(&down), Err(Rule::StayersFirst));
    assert!(decide(&down, &Natural).touches(&db(2)), "its data is read, so that it is started again");
    let mut two = begun();
    two.record.seats.as_mut().unwrap().replaced = called(&[1, 2]);
    assert_eq!(goes(&two), Ok(()), "db-1 is on its way out, too, and works");
    assert_eq!(leaving(&decide(&two, &Natural)), [1], "one at a time");
    two.record.seats.as_mut().unwrap().leaving = set(&[1]);
    two.record.seats.as_mut().unwrap().replaced = called(&[2]);
    assert_eq!(goes(&two), Err(Rule::StayersFirst), "db-1 leaves first");
    let unseen = Snapshot { set: begun().set.map(|set| Set { unseen: true, ..set }), ..begun() };
    assert_eq!(goes(&unseen), Err(Rule::NotAtRest), "nobody knows yet of which template its pod is");
    let of_paused = |mode| {
        let mut s = begun();
        s.group.update.mode = mode;
        goes(&s)
    };
    assert_eq!(of_paused(Mode::Paused), Err(Rule::AdministratorDecides));

    let plan = decide(&begun(), &Natural);
    assert_eq!((open(&plan), leaving(&plan), deleted(&plan)), (vec![], vec![2], 0));
    assert_eq!(plan.wake_at(), Some(begun().now + 1));
    let said = plan.waits.iter().find(|wait| wait.reason == Reason::Updating).unwrap();
    assert_eq!(
        said.message,
        "1 of 4 pods have the present template; a new member comes in place of db-2; db-1 is next: members being replaced: 1, as many as spec.update.maxConcurrentReplacements allows"
    );
    let next = Snapshot { record: plan.record, ..begun() };
    assert!(next.leaves(at(&next, 2)) && !next.leaves(at(&next, 3)));
    let removes = |plan: &Plan| {
        plan.actions
            .iter()
            .any(|a| matches!(a, Action::Run { intent, .. } if intent.verb == Verb::Remove && intent.member == db(2)))
    };
    assert!(removes(&decide(&next, &Natural)));
    let said = decide(&arriving(), &Natural).waits;
    let said = said.iter().find(|wait| wait.reason == Reason::Updating).unwrap();
    assert!(said.message.contains("in place of db-2: 2 of 3 other members are in their roles"), "{}", said.message);
}

// B8: of a group of one, whose only member leads: its successor follows it first.
#[test]
fn a_group_of_one_has_two_meanwhile() {
    let mut s = arriving();
    s.group.replicas = 1;
    s.record.seats = Some(Seats { numbers: set(&[0, 3]), replaced: called(&[0]), next: 4, ..Seats::default() });
    s.members.retain(|m| m.ordinal == 0 || m.ordinal == 3);
    assert_eq!(rule(check::place_group(&s)), Ok(()));
    assert!(
        decide(&s, &Natural)
            .actions
            .iter()
            .any(|a| matches!(a, Action::Run { intent, .. } if intent.verb == Verb::Place))
    );
}

// E32, E38: until the new template is known to work the former member stays.
#[test]
fn the_former_member_stays_while_the_new_template_is_watched() {
    let watched = |verdict: Option<Verdict>, change: &dyn Fn(&mut Snapshot)| {
        let mut s = begun();
        (s.group.update.canary, s.group.update.template) = (30, "t2".into());
        let (template, member, pod_uid) = ("t2".into(), db(3), "uid-db-3".into());
        let since = Some(s.now);
        s.record.canary =
            Some(Canary { template, member, pod_uid, container: None, begun: s.now, since, unjudged: None, verdict });
        change(&mut s);
        rule(check::leaves_its_place(&s, at(&s, 2)))
    };
    let stays = Err(Rule::StayersFirst);
    assert_eq!(watched(None, &|_| ()), stays);
    assert_eq!(watched(Some(Verdict::Failed("no".into())), &|_| ()), stays);
    assert_eq!(watched(Some(Verdict::Passed), &|_| ()), Ok(()));
    assert_eq!(watched(None, &|s| s.record.canary = None), stays, "the watch has not begun");
    assert_eq!(watched(None, &|s| s.group.update.canary = 0), Ok(()), "nobody is watched");
    let all_new = |s: &mut Snapshot| s.members.iter_mut().for_each(|m| m.pod.as_mut().unwrap().older_template = false);
    assert_eq!(watched(None, &all_new), Ok(()), "nobody waits for the template any more, so nobody is watched");
}

// E32: the first member with a watched template goes alone, however many may be replaced at a time; and one that copies the data has its time.
#[test]
fn a_new_member_is_watched_alone_and_from_its_first_role_on() {
    let watched = |verdict: Option<Verdict>| {
        let mut s = begun();
        (s.group.update.canary, s.group.update.template, s.group.update.replacements) = (30, "t2".into(), 2);
        s.record.canary = verdict.map(|verdict| {
            let (template, member, pod_uid) = ("t2".into(), db(3), "uid-db-3".into());
            Canary {
                template,
                member,
                pod_uid,
                container: None,
                begun: s.now,
                since: None,
                unjudged: None,
                verdict: Some(verdict),
            }
        });
        s
    };
    assert_eq!(replaced(&watched(Some(Verdict::Passed)), 1), Ok(()));
    assert_eq!(replaced(&watched(None), 1), Err(Rule::NotAtRest));
    assert_eq!(replaced(&watched(Some(Verdict::Failed("no".into()))), 1), Err(Rule::NotAtRest));
    let mut down = watched(Some(Verdict::Failed("no".into())));
    down.members[1].reading.role = Role::Stopped;
    assert_eq!(replaced(&down, 1), Err(Rule::NotAtRest), "nobody gets a template that failed");
    // Four are desired, so nobody leaves and nobody is on the way out.
    let of_four = |verdict: Option<Verdict>| {
        let mut s = watched(verdict);
        s.record.seats.as_mut().unwrap().replaced.clear();
        (s.group.replicas, s.group.requested.replicas) = (4, 4);
        replaced(&s, 1)
    };
    assert_eq!(of_four(None), Err(Rule::NotAtRest), "who has the template is to be watched");
    assert_eq!(of_four(Some(Verdict::Passed)), Ok(()));

    let mut copying = arriving();
    (copying.group.update.canary, copying.group.update.template) = (30, "t2".into());
    let start = intent(&copying, Verb::Place, 3);
    copying.record.intents.push(start.clone());
    copying.evidence.insert(start.token, tanist_core::snapshot::Evidence::Running);
    let (template, member, pod_uid) = ("t2".into(), db(3), "uid-db-3".into());
    let begun = copying.now - 9_000;
    copying.record.canary =
        Some(Canary { template, member, pod_uid, container: None, begun, since: None, unjudged: None, verdict: None });
    copying.record.updating = Some(Updating { left: 3, since: begun });
    let plan = decide(&copying, &Natural);
    assert_eq!(plan.record.canary.and_then(|canary| canary.verdict), None);
    assert!(check::fails_with_template(&copying, at(&copying, 3)).is_none());
    copying.group.update.canary = 0;
    assert!(decide(&copying, &Natural).waits.iter().all(|wait| wait.reason != Reason::UpdateStuck));
    let mut again = copying.clone();
    again.record.member_mut(&db(3)).failures = 1;
    assert!(!check::is_arriving(&again, at(&again, 3)), "a start that failed before is not the first one");
    copying.record.intents.clear();
    copying.record.member_mut(&db(3)).retry_at = Some(copying.now + 60);
    assert!(decide(&copying, &Natural).waits.iter().any(|wait| wait.reason == Reason::UpdateStuck), "it does not copy");
}

// E35: a template that no node takes is one that does not work.
#[test]
fn a_new_member_without_a_place_is_a_failure_of_the_template() {
    let mut s = arriving();
    let pod = s.members[3].pod.as_mut().unwrap();
    (pod.phase, pod.node) = (Phase::Pending, None);
    assert!(check::fails_with_template(&s, at(&s, 3)).is_some());
    s.record.seats.as_mut().unwrap().replaced.clear();
    assert!(check::fails_with_template(&s, at(&s, 3)).is_none(), "the group grows");
}

// E5: two are down, and the limit is one: the first one leaves when its successor works, although the other one does not.
#[test]
fn members_that_are_down_do_not_wait_for_each_other() {
    let mut s = begun();
    (1..3).for_each(|at| s.members[at].reading.role = Role::Stopped);
    let goes = |s: &Snapshot| rule(check::leaves_its_place(s, at(s, 2)));
    assert_eq!(goes(&s), Ok(()));
    let mut works = s.clone();
    works.members[2].reading.role = Role::Secondary;
    assert_eq!(goes(&works), Err(Rule::StayersFirst), "it works, and db-1 does not");
    s.members[1].pod.as_mut().unwrap().older_template = false;
    assert_eq!(goes(&s), Err(Rule::StayersFirst), "db-1 waits for no new member");
}

// E5: db-1 is to leave and waits until two primaries serve without it; db-2 is to be one of them, and its pod does not run.
#[test]
fn a_member_that_is_down_waits_for_nobody_who_waits_for_it() {
    let mut s = old();
    s.group.unwanted = set(&[1]);
    s.members[2].reading.role = Role::Stopped;
    s.members[2].pod.as_mut().unwrap().phase = Phase::Pending;
    assert_eq!(replaced(&s, 2), Ok(()), "db-1 leaves when all that stay are in their roles");
    let mut gone = s.clone();
    gone.members[1].reading.role = Role::Stopped;
    assert_eq!(replaced(&gone, 2), Err(Rule::NotAtRest), "db-1 waits for nobody, and leaves");
    s.group.primaries = 2;
    assert_eq!(replaced(&s, 2), Ok(()));
    s.moving = Some(Moving { to_pods: true, set: None });
    assert_eq!(replaced(&s, 2), Err(Rule::NotAtRest), "the group is on its way");
}

// S15, E35: what becomes of a former member that lost its pod is not due to the template.
#[test]
fn a_former_member_without_a_place_leaves_and_blames_no_template() {
    let mut s = begun();
    let pod = s.members[2].pod.as_mut().unwrap();
    (pod.phase, pod.node, pod.older_template, pod.outdated) = (Phase::Pending, None, false, false);
    assert!(check::fails_with_template(&s, at(&s, 2)).is_none());
    assert_eq!(leaving(&decide(&s, &Natural)), [2]);
}

// S15: `failover.reads` says how many of `replicas` members have to be read so that one of them has each acknowledged write. While there is one more, a write may be on that one.
#[test]
fn one_more_has_to_be_read_while_one_more_follows() {
    let lost = |more: bool| {
        let mut s = begun();
        s.group.failover.reads = Some(2);
        if !more {
            s.members.pop();
            s.record.seats = Some(Seats { numbers: set(&[0, 1, 2]), next: 3, ..Seats::default() });
        }
        s.members[0].pod = None;
        s.record.last_primaries.clear();
        for at in [1, 2] {
            s.members[at].position = Position::Known(super::super::support::sequence("9"));
            s.members[at].position_stale = false;
        }
        if let Some(new) = s.members.get_mut(3) {
            new.position = Position::Unknown("its node is lost".into());
            new.pod = None;
        }
        rule(check::FailoverOrder::of(&s).group())
    };
    assert_eq!(lost(false), Ok(()));
    assert_eq!(lost(true), Err(Rule::PositionUnknown));
}

// A1, S18: a new member that never came, for instance because no node has room, holds up no seed. One that ran, or may have, does.
#[test]
fn a_seed_does_not_wait_for_a_new_member_that_never_came() {
    let down = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = arriving();
        s.record.last_primaries.clear();
        for at in 0..3 {
            s.members[at].reading.role = Role::Stopped;
            s.members[at].position = Position::Known(super::super::support::sequence("9"));
            s.members[at].position_stale = false;
        }
        let pod = s.members[3].pod.as_mut().unwrap();
        (pod.phase, pod.node) = (Phase::Pending, None);
        s.members[3].position = Position::NotAsked;
        change(&mut s);
        rule(check::start(&s, &intent(&s, Verb::Seed, 0)))
    };
    assert_eq!(down(&|_| ()), Ok(()));
    let desired = |s: &mut Snapshot| {
        s.record.seats.as_mut().unwrap().replaced.clear();
        (s.group.replicas, s.group.requested.replicas) = (4, 4);
    };
    assert_eq!(down(&desired), Err(Rule::PodCount));
    assert_eq!(down(&|s| s.record.member_mut(&db(3)).term = Some(1)), Err(Rule::PodCount));
    assert_eq!(down(&|s| s.members[2].pod.as_mut().unwrap().phase = Phase::Pending), Err(Rule::PodCount));
    let runs = |position: Position| {
        down(&move |s: &mut Snapshot| {
            let pod = s.members[3].pod.as_mut().unwrap();
            (pod.phase, pod.node) = (Phase::Running, Some("node-3".into()));
            (s.members[3].position, s.members[3].position_stale) = (position.clone(), false);
        })
    };
    assert_eq!(runs(Position::NotAsked), Err(Rule::PositionUnknown), "its pod runs, so its data is read first");
    assert_eq!(runs(Position::Empty), Ok(()));
}

// D11, S23: where members agree a former member that serves on makes no other one surplus, nor a group restless.
#[test]
fn a_former_member_that_serves_on_is_not_too_many() {
    let mut s = super::membership::agreeing(3).observe();
    let mut new = s.members[2].clone();
    (new.name, new.ordinal) = (db(3), 3);
    new.pod.as_mut().unwrap().uid = "uid-db-3".into();
    let known = s.record.member(&db(2)).clone();
    *s.record.member_mut(&db(3)) = known;
    s.members.push(new);
    s.group.makes_pods = true;
    s.record.seats = Some(Seats { numbers: set(&[0, 1, 2, 3]), replaced: called(&[2]), next: 4, ..Seats::default() });
    s.record.member_mut(&db(3)).primary_term = Some(1);
    let stops = |s: &Snapshot| {
        decide(s, &Natural)
            .actions
            .iter()
            .any(|a| matches!(a, Action::Run { intent, .. } if intent.verb == Verb::Demote))
    };
    assert!(!stops(&s));
    assert_eq!(rule(check::demote_member(&s, &s.serving(), at(&s, 1))), Err(Rule::NotSurplus));
    let pod = s.members[3].pod.as_mut().unwrap();
    (pod.older_template, pod.outdated) = (true, true);
    s.set.as_mut().unwrap().unseen = false;
    s.members.iter_mut().for_each(|m| m.pod.as_mut().unwrap().ready = true);
    let held = check::update_member(&s, at(&s, 3));
    assert!(held.as_ref().err().is_none_or(|why| why.rule != Rule::NobodyServes), "{held:?}");
}

// E36: a new member whose template does not work gets its cure as a pod, because the former one is still there.
#[test]
fn a_new_member_gets_a_new_pod() {
    let mut s = begun();
    let pod = s.members[3].pod.as_mut().unwrap();
    (pod.older_template, pod.outdated) = (true, true);
    assert!(!check::is_replaced(&s, at(&s, 3)) && check::is_replaced(&s, at(&s, 1)));
    assert_eq!(rule(check::update_member(&s, at(&s, 3))), Ok(()));
    s.members[3].reading.role = Role::Stopped;
    assert_eq!(rule(check::update_idle(&s, at(&s, 3))), Ok(()));
    let seats = s.record.seats.as_mut().unwrap();
    (seats.replaced, seats.leaving) = (called(&[]), set(&[2]));
    assert!(check::is_replaced(&s, at(&s, 3)), "nobody is there any more in whose place it came");
}

// A50: what was there is there, so the group is Ready while a new member copies the data, and it is not done.
#[test]
fn a_group_is_ready_while_a_new_member_comes() {
    let health = PolicyHealth::Active("natural 1".into());
    let said = |s: &Snapshot| {
        let told = report(s, &decide(s, &Natural), &health, None);
        let ready = told.conditions.into_iter().find(|c| c.kind == Kind::Ready).unwrap();
        (ready.status == Truth::True, ready.message)
    };
    let text = "1 of 1 primaries serve, 3 of 3 members are in their role";
    assert_eq!(said(&arriving()), (true, text.to_owned()));
    assert_eq!(said(&begun()), (true, text.to_owned()));
    let mut down = arriving();
    down.members[1].reading.role = Role::Stopped;
    assert!(!said(&down).0, "db-1 is missing");
    let mut growing = arriving();
    growing.record.seats.as_mut().unwrap().replaced.clear();
    assert!(!said(&growing).0, "a member too many");
}

// E35, E36: a template that is taken back, and an administrator who replaces pods by hand. The new member goes, because it has the higher number.
#[test]
fn a_member_stays_after_all() {
    let stays = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = begun();
        change(&mut s);
        let plan = decide(&s, &Natural);
        (open(&plan).is_empty() && leaving(&plan).is_empty(), plan)
    };
    let back = |s: &mut Snapshot| s.members[2].pod.as_mut().unwrap().older_template = false;
    let (stayed, plan) = stays(&back);
    assert!(stayed && plan.wake_at().is_some_and(|at| at <= begun().now + 1));
    let next = Snapshot { record: plan.record, ..begun() };
    assert!(!next.leaves(at(&next, 2)) && next.leaves(at(&next, 3)));
    assert!(stays(&|s| s.group.update.mode = Mode::ByHand).0);
    assert!(stays(&|s| s.group.update.strategy = Strategy::Recreate).0, "its pod is made anew");
    assert!(!stays(&|_| ()).0);
    assert!(
        !stays(&|s| s.group.update.strategy = Strategy::ReplacePrimaries).0,
        "what was begun is brought to its end"
    );
    assert!(!stays(&|s| s.group.update.mode = Mode::Paused).0);
    let needs = |s: &mut Snapshot| {
        s.group.update.strategy = Strategy::Recreate;
        s.members[2].pod.as_mut().unwrap().needs_new_member = true;
    };
    assert!(!stays(&needs).0);
    let idle = |s: &mut Snapshot| {
        back(s);
        s.members[2].reading.role = Role::Stopped;
    };
    let (stayed, plan) = stays(&idle);
    assert!(!stayed && leaving(&plan) == [2], "it does not work, and the new one does");
}

// S23, D11: where members agree, one that leaves serves on until it is removed. The one that stays gets clients beside it, so that it is in its role and the other one can go.
#[test]
fn a_primary_that_stays_gets_clients_beside_one_that_leaves() {
    let surplus = |leaves: bool| {
        let mut s = super::membership::agreeing(3).observe();
        let mut new = s.members[2].clone();
        (new.name, new.ordinal) = (db(3), 3);
        let pod = new.pod.as_mut().unwrap();
        (pod.uid, pod.routed) = ("uid-db-3".into(), None);
        let known = s.record.member(&db(2)).clone();
        *s.record.member_mut(&db(3)) = known;
        s.members.push(new);
        s.group.makes_pods = true;
        let leaving = if leaves { set(&[2]) } else { set(&[]) };
        s.record.seats = Some(Seats { numbers: set(&[0, 1, 2, 3]), leaving, next: 4, ..Seats::default() });
        let as_one_that_leaves = s.is_surplus(at(&s, 3));
        s.record.seats =
            Some(Seats { numbers: set(&[0, 1, 2, 3]), replaced: called(&[2]), next: 4, ..Seats::default() });
        (as_one_that_leaves, s.is_surplus(at(&s, 3)))
    };
    assert_eq!((surplus(true), surplus(false)), ((false, false), (true, false)));
}

// The number is forgotten with its member, also on the way to 0 members, on which nobody waits for new ones.
#[test]
fn a_member_that_left_is_not_replaced_any_more() {
    let mut known = Seats {
        numbers: set(&[0, 1, 2, 3]),
        replaced: called(&[1, 2]),
        leaving: set(&[0]),
        next: 4,
        ..Seats::default()
    };
    let stay = |known: &Seats, replicas, unwanted: &[u32]| {
        known.stay(&Wanted { replicas, unwanted: &set(unwanted), zones: &[] })
    };
    assert_eq!(stay(&known, 3, &[]), set(&[1, 2, 3]));
    assert_eq!(stay(&known, 1, &[2]), set(&[1, 3]), "fewer are desired, and the user wants db-2 to go");
    assert_eq!(stay(&known, 0, &[]), set(&[]));
    known.remove(&set(&[2]), false);
    assert_eq!((known.numbers.clone(), known.replaced.clone()), (set(&[0, 1, 3]), called(&[1])));
    known.remove(&set(&[0, 1, 3]), true);
    assert_eq!((known.dormant, known.replaced, known.leaving), (set(&[0, 1, 3]), called(&[]), set(&[])));
}
