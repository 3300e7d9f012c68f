//! How many members get a new pod at a time (`spec.update.batch`, B27, B28).
use super::super::support::policies::Natural;
use super::super::support::world::{START, World, command};
use super::super::support::{db, setting};
use super::rebalance::deleted;
use tanist_core::check::{Rule, gives_up_lead, update_member};
use tanist_core::checked::recheck_update;
use tanist_core::contract::{Phase, Role};
use tanist_core::decide::decide;
use tanist_core::limits;
use tanist_core::plan::Reason;
use tanist_core::record::{Canary, Verb, Verdict};
use tanist_core::snapshot::{Batch, Snapshot};

/// Six members in three zones, two in each, all of them with an older template: db-0 and db-3 in zone a, db-1 and db-4 in b, db-2 and db-5 in c.
fn six(primaries: u32, batch: Batch) -> World {
    let mut world = World::new(6, primaries);
    let follows = (primaries < 6).then(|| command("secondary"));
    world.group.commands.secondary = follows;
    world.group.update.batch = batch;
    for ordinal in 0..6 {
        world.remember(ordinal, 1, "9");
        let leads = ordinal < primaries;
        if leads {
            let now = world.now;
            let known = world.record.member_mut(&db(ordinal));
            (known.primary_term, known.last_primary) = (Some(1), Some(now));
        }
        world.serve(ordinal, if leads { Role::Primary } else { Role::Secondary });
        let zone = ["a", "b", "c"].into_iter().cycle().nth(usize::try_from(ordinal).unwrap());
        world.nodes.get_mut(&format!("node-{ordinal}")).unwrap().zone = zone.map(str::to_owned);
    }
    world.play(&Natural, 0);
    world.now = START + 10_000;
    (0..6).for_each(|ordinal| world.older(ordinal));
    world
}

/// Whose pods go in the next round, by ordinal.
fn next(s: &Snapshot) -> Vec<String> {
    let mut names: Vec<_> = deleted(&decide(s, &Natural)).into_iter().map(|(name, _)| name).collect();
    names.sort();
    names
}

/// Plays until all pods are of the present template, and returns whose pods went in each round, as many as there are.
fn batches(world: &mut World) -> Vec<usize> {
    let mut all = Vec::new();
    for _ in 0..200 {
        let (_, plan, _) = world.round(&Natural);
        let gone = deleted(&plan).len();
        all.extend((gone > 0).then_some(gone));
        assert!(world.pods.values().filter(|body| body.app.role == Role::Primary).count() <= 6);
        world.now += 1;
    }
    assert!(world.pods.values().all(|body| !body.pod.older_template), "{all:?}");
    all
}

// B27: three zones of two members. One after the other: six batches. By zones: the two of each zone at once, but a single primary comes after a switchover. All: everybody else at once.
#[test]
fn members_are_updated_in_batches() {
    assert_eq!(batches(&mut six(1, Batch::Member)), [1, 1, 1, 1, 1, 1]);
    assert_eq!(batches(&mut six(1, Batch::Zone)), [2, 2, 1, 1]);
    assert_eq!(batches(&mut six(1, Batch::All)), [5, 1]);
    // Where all are primaries, nobody gives up a lead; the last one that serves stays until another one does.
    assert_eq!(batches(&mut six(6, Batch::Member)), [1, 1, 1, 1, 1, 1]);
    assert_eq!(batches(&mut six(6, Batch::Zone)), [2, 2, 2]);
    assert_eq!(batches(&mut six(6, Batch::All)), [5, 1]);
}

// B27: with a zone go those of that zone, the highest ordinal first; whose zone is not known goes alone.
#[test]
fn a_zone_goes_together_and_an_unknown_zone_alone() {
    let mut world = six(1, Batch::Zone);
    assert_eq!(next(&world.observe()), ["db-2", "db-5"]);
    let said = decide(&world.observe(), &Natural).waits;
    let said = said.iter().find(|wait| wait.reason == Reason::Updating).unwrap();
    assert_eq!(said.message, "0 of 6 pods have the present template; db-5, db-2 get new pods");
    world.nodes.get_mut("node-5").unwrap().zone = None;
    world.nodes.get_mut("node-2").unwrap().zone = None;
    assert_eq!(next(&world.observe()), ["db-5"]);
    world.nodes_known = false;
    assert_eq!(next(&world.observe()), ["db-5"], "nodes cannot be read");
}

// B28: while a member of a zone is down, others of that zone may go, and nobody of another one. With two zones down nobody goes at all.
#[test]
fn never_two_zones_at_a_time() {
    let down = |ordinals: &[u32], of: usize| {
        let mut world = six(1, Batch::Zone);
        for ordinal in ordinals {
            world.body(*ordinal).pod.ready = false;
        }
        let s = world.observe();
        update_member(&s, &s.members[of]).map_err(|violation| violation.rule)
    };
    assert_eq!((down(&[5], 2), down(&[5], 1)), (Ok(()), Err(Rule::NotAtRest)));
    assert_eq!((down(&[5, 4], 2), down(&[5, 4], 1)), (Err(Rule::NotAtRest), Err(Rule::NotAtRest)));
    // The primary's own zone is like any other; what it leads has to lead on.
    assert_eq!(down(&[0], 3), Ok(()));
}

// B27, E34: the first member that gets a template is watched alone, and the rest goes in batches once it has passed; a former template goes back in batches.
#[test]
fn the_first_member_is_watched_alone() {
    let mut world = six(1, Batch::All);
    world.group.update.canary = 60;
    world.group.update.template = "new".into();
    assert_eq!(next(&world.observe()), ["db-5"]);
    let pod = &mut world.body(5).pod;
    (pod.outdated, pod.older_template) = (false, false);
    let canary = |verdict| {
        let mut s = six(1, Batch::All).observe();
        (s.group.update.canary, s.group.update.template) = (60, "new".into());
        let pod = s.members[5].pod.as_mut().unwrap();
        (pod.outdated, pod.older_template) = (false, false);
        s.record.canary = Some(Canary {
            template: "new".into(),
            member: db(5),
            pod_uid: s.members[5].pod.as_ref().unwrap().uid.clone(),
            container: None,
            unjudged: None,
            begun: START,
            since: None,
            verdict,
        });
        next(&s)
    };
    assert_eq!(canary(None), Vec::<String>::new());
    assert_eq!(canary(Some(Verdict::Passed)), ["db-1", "db-2", "db-3", "db-4"]);
}

// S8: however many go at a time, the lead moves only while everybody is in its role, and a primary that is not alone goes only while another one serves.
#[test]
fn a_primary_goes_only_while_another_one_serves() {
    let mut world = six(1, Batch::All);
    (1..6).for_each(|ordinal| {
        let pod = &mut world.body(ordinal).pod;
        (pod.outdated, pod.older_template) = (false, false);
    });
    let lead = |world: &mut World| {
        let s = world.observe();
        gives_up_lead(&s, &s.members[0]).map_err(|violation| violation.rule)
    };
    assert_eq!(lead(&mut world), Ok(()));
    world.body(4).pod.ready = false;
    assert_eq!(lead(&mut world), Err(Rule::NotAtRest));

    let held = |change: &dyn Fn(&mut World)| {
        let mut world = six(2, Batch::All);
        (2..6).for_each(|ordinal| {
            let pod = &mut world.body(ordinal).pod;
            (pod.outdated, pod.older_template) = (false, false);
        });
        change(&mut world);
        let s = world.observe();
        update_member(&s, &s.members[1]).map_err(|violation| violation.rule)
    };
    assert_eq!(held(&|_| ()), Ok(()));
    assert_eq!(held(&|w| w.body(0).pod.ready = false), Err(Rule::NobodyServes), "the other one serves no clients");
    assert_eq!(held(&|w| w.body(0).pod.phase = Phase::Terminating), Err(Rule::NobodyServes));
    assert_eq!(held(&|w| w.body(0).pod.routed = None), Err(Rule::NobodyServes), "clients do not reach it");
    // A primary that goes along is none that may be primary beside it; one that nobody can ask elsewhere is.
    let mut world = six(3, Batch::Zone);
    (3..6).for_each(|ordinal| {
        let pod = &mut world.body(ordinal).pod;
        (pod.outdated, pod.older_template) = (false, false);
    });
    world.body(0).app.probe = Some(Role::Unknown);
    let s = world.observe();
    assert_eq!(update_member(&s, &s.members[1]).map_err(|v| v.rule), Err(Rule::MayBePrimary));
    world.nodes.get_mut("node-0").unwrap().zone = Some("b".into());
    world.body(0).pod.phase = Phase::Terminating;
    let s = world.observe();
    assert_eq!(update_member(&s, &s.members[1]).map_err(|v| v.rule), Ok(()), "it goes along");
}

/// Five members that agree, all of them with an older template; their lists were said just now.
fn five_that_agree() -> World {
    let mut world = World::new(5, 1);
    world.group.commands.seed = Some(setting::command("seed"));
    world.group.commands.membership = Some(setting::members(false));
    world.group.commands.secondary = Some(command("secondary"));
    world.group.update.batch = Batch::All;
    for ordinal in 0..5 {
        world.remember(ordinal, 1, "9");
        world.serve(ordinal, if ordinal == 0 { Role::Primary } else { Role::Secondary });
    }
    world.record.member_mut(&db(0)).primary_term = Some(1);
    world.form(0..5);
    world.play(&Natural, 0);
    world.now = START + 10_000;
    (0..5).for_each(|ordinal| {
        world.ask_for_list(ordinal);
        world.older(ordinal);
    });
    world
}

// B27: where members agree, a majority stays, whatever the batch.
#[test]
fn a_majority_stays_where_members_agree() {
    let mut world = five_that_agree();
    assert_eq!(next(&world.observe()), ["db-3", "db-4"]);
    world.serve(2, Role::Stopped);
    assert_eq!(next(&world.observe()), ["db-2"], "who is in no role goes by itself");
    world.body(2).pod.phase = Phase::Terminating;
    assert_eq!(next(&world.observe()), ["db-4"], "the other three are needed");
}

// B27: of members that agree a second one goes only on a list that says who is healthy now: the others may have lost one since.
#[test]
fn an_older_list_lets_one_go() {
    let mut world = five_that_agree();
    let s = world.observe();
    assert_eq!(next(&s), ["db-3", "db-4"]);
    let mut old = s.clone();
    old.lists.values_mut().for_each(|heard| heard.at -= limits::LIST_FRESH_SECONDS + 1);
    assert_eq!(next(&old), ["db-4"]);
    world.nodes.get_mut("node-1").unwrap().cordoned = true;
    assert_eq!(next(&world.observe()), ["db-1"], "its pod may be evicted at any moment, so nobody else goes");
}

// S44: without secondaries nobody could take over from the primary, which goes on until all others have the new template and are well.
#[test]
fn a_single_primary_goes_with_nobody() {
    let mut world = six(1, Batch::All);
    world.group.commands.secondary = None;
    (1..6).for_each(|ordinal| world.serve(ordinal, Role::Stopped));
    assert_eq!(next(&world.observe()), ["db-1", "db-2", "db-3", "db-4", "db-5"]);
    (1..6).for_each(|ordinal| {
        let pod = &mut world.body(ordinal).pod;
        (pod.outdated, pod.older_template, pod.ready) = (false, false, ordinal != 3);
    });
    assert_eq!(next(&world.observe()), Vec::<String>::new(), "the new template may not work");
    world.body(3).pod.ready = true;
    assert_eq!(next(&world.observe()), ["db-0"]);
}

// Promise: no acknowledged write is lost. A pod without a volume has a copy of the data, so such pods go one after the other.
#[test]
fn pods_with_the_data_go_one_after_the_other() {
    let mut s = six(1, Batch::All).observe();
    for member in &mut s.members {
        member.claims.clear();
        s.record.member_mut(&member.name).claim_uid = None;
    }
    assert_eq!(next(&s), ["db-5"]);
}

// S8, S25: a lead that has to move needs somebody to go to.
#[test]
fn nobody_goes_while_the_lead_has_to_move() {
    let mut world = six(1, Batch::All);
    world.nodes.get_mut("node-0").unwrap().cordoned = true;
    let s = world.observe();
    assert_eq!(update_member(&s, &s.members[5]).map_err(|v| v.rule), Err(Rule::NotAtRest));
}

// C74: a command that is open holds up the next batch.
#[test]
fn an_open_command_holds_up_the_next_batch() {
    let mut world = six(1, Batch::Zone);
    let s = world.observe();
    let place = super::checks::intent(&s, Verb::Place, 5);
    world.record.intents.push(place);
    assert_eq!(next(&world.observe()), Vec::<String>::new());
}

// B27: those that go together are held against what will be when the others are gone, all of them or none.
#[test]
fn a_batch_is_deleted_whole_or_not_at_all() {
    let mut world = six(1, Batch::All);
    let s = world.observe();
    let pods: Vec<_> =
        s.members[1..].iter().map(|member| (&member.name, member.pod.as_ref().unwrap().uid.as_str())).collect();
    let look = |live: &Snapshot| {
        let deletions = recheck_update(&s, live, &pods);
        deletions.map(|all| all.len()).map_err(|(member, violation)| (member.to_string(), violation.rule))
    };
    assert_eq!(look(&s), Ok(5));
    world.body(4).app.role = Role::Stopped;
    assert!(look(&world.observe()).is_ok(), "one in no role goes in any case");
    world.body(4).app.role = Role::Failed;
    assert_eq!(look(&world.observe()), Err(("db-1".into(), Rule::MayBePrimary)), "nobody can tell what db-4 does");
    world.group.update.batch = Batch::Member;
    world.body(4).app.role = Role::Secondary;
    let last = Err(("db-2".into(), Rule::NotAtRest));
    assert_eq!(look(&world.observe()), last, "one at a time is what the user wants by now: db-1 would be gone");
}
