//! The conditions that users see (A48, A50): each one True, False and Unknown where that is possible, with its reason.
use super::super::support::policies::{Broken, Delays, Natural};
use super::super::support::world::World;
use super::super::support::{app::Behaviour, db};
use tanist_core::contract::{Phase, Role};
use tanist_core::examples::Scene;
use tanist_core::plan::{Plan, Reason};
use tanist_core::policy::{CUT_OFF, LOADING, Policies};
use tanist_core::status::{Failed, Kind, PolicyHealth, Report, Trouble, Truth, report, unobserved};

fn loaded() -> PolicyHealth {
    PolicyHealth::Active("natural 1".into())
}

fn said(world: &mut World, policies: &dyn Policies, health: &PolicyHealth, trouble: Option<&Trouble>) -> Report {
    let (snapshot, plan) = world.play(policies, 0);
    report(&snapshot, &plan, health, trouble)
}

fn is(report: &Report, kind: &str) -> (Truth, String) {
    let found: Vec<_> = report.conditions.iter().filter(|c| c.kind.as_str() == kind).collect();
    assert_eq!(found.len(), 1, "{kind}");
    (found[0].status, found[0].reason.as_str().to_owned())
}

fn truth(status: Truth, reason: &str) -> (Truth, String) {
    (status, reason.to_owned())
}

fn formed(primaries: u32) -> World {
    let mut world = World::new(3, primaries);
    world.play(&Natural, 60);
    world
}

#[test]
fn ready_says_whether_every_member_is_in_its_role() {
    let mut world = formed(2);
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "Ready"), truth(Truth::True, "AllMembersInRole"));
    world.body(1).app.probe = Some(Role::Unknown);
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "Ready"), truth(Truth::False, "MembersNotInRole"));
    world.body(0).app.probe = Some(Role::Unknown);
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "Ready"), truth(Truth::Unknown, "RolesUnknown"));
    let mut world = World::new(3, 2);
    assert_eq!(is(&said(&mut world, &Broken, &loaded(), None), "Ready"), truth(Truth::False, "NoPrimary"));
    world.group.paused = true;
    assert_eq!(is(&said(&mut world, &Broken, &loaded(), None), "Ready"), truth(Truth::Unknown, "Paused"));
}

#[test]
fn progressing_says_whether_anything_moves_by_itself() {
    let trouble = Trouble { reason: Failed::ApiUnwritable, message: "failed to write".into() };
    let mut world = formed(2);
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "Progressing"), truth(Truth::False, "Settled"));
    assert_eq!(
        is(&said(&mut world, &Natural, &loaded(), Some(&trouble)), "Progressing"),
        truth(Truth::Unknown, "ApiUnwritable")
    );
    world.body(2).app.role = Role::Starting;
    world.record.member_mut(&db(2)).last_command = Some("secondary".into());
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "Progressing"), truth(Truth::True, "MemberStarting"));
    world.body(2).app.probe = Some(Role::Unknown);
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "Progressing"), truth(Truth::Unknown, "RolesUnknown"));
    world.body(2).app.probe = None;
    world.body(2).app.role = Role::Stopped;
    world.behaviours.push((db(1), "primary".into(), Behaviour::Hangs, false));
    world.restart(1);
    let (snapshot, plan, _) = world.round(&Natural);
    assert_eq!(is(&report(&snapshot, &plan, &loaded(), None), "Progressing").0, Truth::True);
    let (snapshot, plan, _) = world.round(&Natural);
    assert_eq!(is(&report(&snapshot, &plan, &loaded(), None), "Progressing"), truth(Truth::True, "CommandStarted"));
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "Progressing"), truth(Truth::True, "CommandRunning"));
}

#[test]
fn degraded_says_whether_an_administrator_is_needed() {
    let trouble = Trouble { reason: Failed::Forbidden, message: "failed to delete pod".into() };
    let mut world = formed(2);
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "Degraded"), truth(Truth::False, "Healthy"));
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), Some(&trouble)), "Degraded"), truth(Truth::True, "Forbidden"));
    world.body(1).app.probe = Some(Role::Unknown);
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "Degraded"), truth(Truth::Unknown, "RolesUnknown"));
    world.body(1).app.probe = None;
    world.body(1).app.role = Role::Failed;
    assert_eq!(is(&said(&mut world, &Broken, &loaded(), None), "Degraded"), truth(Truth::True, "PolicyBroken"));
    world.group.paused = true;
    assert_eq!(is(&said(&mut world, &Broken, &loaded(), None), "Degraded"), truth(Truth::Unknown, "Paused"));
}

#[test]
fn policy_active_says_which_policy_decides() {
    let mut world = formed(2);
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "PolicyActive"), truth(Truth::True, "Loaded"));
    let stale = PolicyHealth::Stale("not wasm".into());
    assert_eq!(is(&said(&mut world, &Natural, &stale, None), "PolicyActive"), truth(Truth::False, "LastGoodDecides"));
    let missing = PolicyHealth::Missing("no such ConfigMap".into());
    assert_eq!(is(&said(&mut world, &Natural, &missing, None), "PolicyActive"), truth(Truth::Unknown, "NoPolicy"));
    let loading = PolicyHealth::Loading("configmap/mine/policy.wasm is being loaded".into());
    let told = said(&mut world, &Natural, &loading, None);
    assert_eq!(is(&told, "PolicyActive"), truth(Truth::Unknown, "PolicyLoading"));
    let flapping = PolicyHealth::Flapping("it changes all the time".into());
    assert_eq!(is(&said(&mut world, &Natural, &flapping, None), "PolicyActive"), truth(Truth::False, "Flapping"));
    let reverted = PolicyHealth::Reverted("it failed three times".into());
    let told = said(&mut world, &Natural, &reverted, None);
    assert_eq!(is(&told, "PolicyActive"), truth(Truth::False, "PreviousDecides"));
    let mut world = World::new(3, 2);
    assert_eq!(is(&said(&mut world, &Broken, &loaded(), None), "PolicyActive"), truth(Truth::False, "PolicyFailed"));
}

// S33, H24: a policy that is being loaded and a question that the machine's load cut off are no faults of a policy, need no administrator, and
// are asked again: the first when it is loaded, the second after a second.
#[test]
fn a_delay_is_no_fault_of_a_policy() {
    for (kind, reason, again) in [(LOADING, "PolicyLoading", None), (CUT_OFF, "DecisionDelayed", Some(1))] {
        let mut world = World::new(3, 2);
        // First the positions are read, then the question is asked.
        world.round(&Delays(kind));
        let (snapshot, plan, _) = world.round(&Delays(kind));
        let told = report(&snapshot, &plan, &loaded(), None);
        assert_eq!(is(&told, "Progressing"), truth(Truth::True, reason));
        assert_eq!(is(&told, "Degraded"), truth(Truth::False, "Healthy"));
        assert_eq!(is(&told, "PolicyActive"), truth(Truth::True, "Loaded"));
        assert!(plan.broken.is_empty() && plan.record.intents.is_empty());
        assert_eq!(plan.wake_at(), again.map(|seconds| snapshot.now + seconds), "{reason}");
    }
}

#[test]
fn stalled_says_that_no_candidate_is_left() {
    let mut world = formed(1);
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "Stalled"), truth(Truth::False, "Moving"));
    world.behaviours.push((db(0), "primary".into(), Behaviour::Fails(1), true));
    world.restart(0);
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "Stalled"), truth(Truth::True, "NoCandidateLeft"));
    world.group.paused = true;
    assert_eq!(is(&said(&mut world, &Natural, &loaded(), None), "Stalled"), truth(Truth::Unknown, "Paused"));
}

// A group is not stalled because a pod is missing.
#[test]
fn a_missing_pod_does_not_stall_the_group() {
    let mut world = formed(3);
    world.respawn = false;
    world.delete(2);
    let told = said(&mut world, &Natural, &loaded(), None);
    assert_eq!(is(&told, "Stalled"), truth(Truth::False, "Moving"));
    assert_eq!(is(&told, "Progressing"), truth(Truth::True, "PodsNotRunning"));
    assert_eq!(is(&told, "Degraded"), truth(Truth::False, "Healthy"));
}

// The reason that Kubernetes gives for a pod that it cannot start is shown, and an administrator is needed.
#[test]
fn a_pod_that_cannot_start_is_reported_in_kubernetes_words() {
    let mut world = formed(3);
    let pod = &mut world.body(2).pod;
    (pod.phase, pod.trouble) = (Phase::Pending, Some("container db: CreateContainerConfigError: no secret".into()));
    let told = said(&mut world, &Natural, &loaded(), None);
    assert_eq!(is(&told, "Degraded"), truth(Truth::True, "PodCannotStart"));
    let why = &told.conditions.iter().find(|c| c.kind == Kind::Degraded).unwrap().message;
    assert!(
        why.ends_with("the pod of db-2 is not running yet: container db: CreateContainerConfigError: no secret"),
        "{why}"
    );
}

#[test]
fn what_could_not_be_observed_is_unknown() {
    let trouble = Trouble { reason: Failed::ApiUnreadable, message: "no answer".into() };
    let conditions = unobserved(&trouble, &loaded());
    let kinds: Vec<_> = conditions.iter().map(|c| c.kind.as_str()).collect();
    assert_eq!(kinds, ["Ready", "Available", "Progressing", "Degraded", "PolicyActive", "Stalled"]);
    let others = conditions.iter().filter(|c| c.kind != Kind::PolicyActive);
    assert!(
        others.clone().count() == 5
            && others.clone().all(|c| c.status == Truth::Unknown && c.reason == Failed::ApiUnreadable.into())
    );
}

// A50, reading 24: a change of the template that has not reached all pods is reported.
#[test]
fn pods_of_an_older_template_are_named() {
    let mut world = formed(1);
    let none = said(&mut world, &Natural, &loaded(), None);
    assert!(none.conditions.iter().all(|c| c.kind != Kind::UpdatePending));
    world.body(1).pod.outdated = true;
    let told = said(&mut world, &Natural, &loaded(), None);
    assert_eq!(is(&told, "UpdatePending").0, Truth::True);
    assert!(told.conditions.iter().any(|c| c.kind == Kind::UpdatePending && c.message.starts_with("db-1: ")));
}

// Ready answers whether what the user asked for runs: not while no pod has the new template, whatever the old ones serve. One pod is enough:
// who replaces the others, and when, is the administrator's decision.
#[test]
fn a_group_is_not_ready_while_no_pod_runs_the_new_template() {
    let mut world = formed(1);
    for ordinal in 0..3 {
        world.body(ordinal).pod.older_template = true;
    }
    let told = said(&mut world, &Natural, &loaded(), None);
    assert_eq!(is(&told, "Ready"), truth(Truth::False, "UpdatePending"));
    assert_eq!(is(&told, "Degraded"), truth(Truth::False, "Healthy"));
    world.body(2).pod.older_template = false;
    let one = said(&mut world, &Natural, &loaded(), None);
    assert_eq!(is(&one, "Ready"), truth(Truth::True, "AllMembersInRole"));
    assert_eq!((told.updated, one.updated), (0, 1));
}

// Another version of the operator makes other pods of the same template: that is no change of the user's, and takes Ready from nobody.
#[test]
fn pods_of_another_version_of_the_operator_leave_a_group_ready() {
    let mut world = formed(1);
    for ordinal in 0..3 {
        world.body(ordinal).pod.outdated = true;
    }
    let told = said(&mut world, &Natural, &loaded(), None);
    assert_eq!(is(&told, "Ready"), truth(Truth::True, "AllMembersInRole"));
    assert_eq!(is(&told, "UpdatePending").0, Truth::True);
}

#[test]
fn the_table_shows_what_was_observed() {
    let mut world = formed(1);
    world.body(2).app.role = Role::Failed;
    let told = said(&mut world, &Broken, &loaded(), None);
    let roles: Vec<_> = told.members.iter().map(|m| (m.name.as_str(), m.role, m.serving)).collect();
    assert_eq!(roles, [("db-0", Role::Primary, true), ("db-1", Role::Stopped, false), ("db-2", Role::Failed, false)]);
    assert_eq!((told.primaries, told.settled), (vec![db(0)], 2));
    assert!(told.members[2].waits_for.as_ref().is_some_and(|w| w.contains("its status says failed")));
    assert!(told.conditions.iter().all(|c| c.message.len() <= 1024 && !c.message.chars().any(char::is_control)));
}

/// The variants of an enum, as its source has them.
fn variants<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let body = source.split_once(&format!("pub enum {name} {{")).unwrap().1.split_once("\n}").unwrap().0;
    body.lines().map(str::trim).filter_map(|line| line.strip_suffix(',')).collect()
}

// The words of the API are written down, each for its variant: a renamed variant renames no word by accident, and no variant lacks one. Those of the
// reasons are in docs/runbook.md, which another test compares.
#[test]
fn every_rule_has_its_own_word() {
    let source = include_str!("../../src/check.rs");
    let all = variants(source, "Rule");
    assert!(all.len() >= 38, "{all:?}");
    for word in all {
        assert!(source.contains(&format!("Rule::{word} => \"{word}\",")), "{word}");
    }
}

// Programs wait for these: `kubectl wait --for=condition=Ready`, alerts, dashboards.
#[test]
fn conditions_have_the_words_of_the_released_version() {
    let kinds: Vec<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    let first = ["Ready", "Available", "Progressing", "Degraded", "PolicyActive", "Stalled"];
    let others = ["NeedsAdoption", "UpdatePending", "TemplateRejected", "Rescaling"];
    assert_eq!((&kinds[..6], &kinds[6..]), (&first[..], &others[..]));
    assert_eq!(Truth::ALL.iter().map(|truth| truth.as_str()).collect::<Vec<_>>(), ["True", "False", "Unknown"]);
}

// A48: an update that takes long is not the worst while nobody serves.
#[test]
fn nobody_serves_comes_before_what_takes_long() {
    let degraded = |serves: bool, reason: Reason| {
        let mut s = Scene::new(2).in_term(1).with_roles(&[Role::Primary, Role::Secondary]).observed().clone();
        if !serves {
            s.members[0].reading.role = Role::Starting;
        }
        let mut plan = Plan::new(s.record.clone());
        plan.wait(reason, None, "it takes long");
        is(&report(&s, &plan, &loaded(), None), "Degraded")
    };
    for reason in [Reason::UpdateStuck, Reason::ResizeOverdue] {
        assert_eq!(degraded(true, reason), truth(Truth::True, reason.as_str()));
        assert_eq!(degraded(false, reason), truth(Truth::True, "NoPrimary"));
    }
    assert_eq!(
        degraded(false, Reason::ClaimChanged),
        truth(Truth::True, "ClaimChanged"),
        "it may be why nobody serves"
    );
}
