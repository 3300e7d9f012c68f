//! A group goes from one kind of members to the other (`spec.members.kind`), and no pod is lost (D23; docs/rules.md, "Members by identity").
use super::super::support::policies::Natural;
use super::super::support::world::World;
use std::collections::BTreeSet;
use std::sync::Arc;
use tanist_core::check::fits_set;
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::record::{Fallback, GivenUp, Record, Seats};
use tanist_core::snapshot::{LeftClaim, Moving, MovingSet, Object, Pod, Snapshot};

fn seats(numbers: &[u32], next: u32) -> Seats {
    Seats { numbers: numbers.iter().copied().collect(), next, ..Seats::default() }
}

fn set() -> MovingSet {
    MovingSet { uid: "set".into(), version: "7".into(), replicas: 3, is_current: true, is_being_deleted: false }
}

/// A group of three that runs in a StatefulSet, and is to make its pods itself.
fn leaving() -> Snapshot {
    let mut s = World::settled(10_000).observe();
    s.moving = Some(Moving { to_pods: true, set: Some(set()) });
    s
}

/// The same later: the record has the numbers.
fn numbered() -> Snapshot {
    let mut s = leaving();
    s.group.makes_pods = true;
    s.record.seats = Some(seats(&[0, 1, 2], 3));
    s
}

/// A group of three that made its pods itself, and is to have a StatefulSet.
fn returning() -> Snapshot {
    let mut s = numbered();
    s.moving = Some(Moving { to_pods: false, set: Some(set()) });
    s
}

fn decided(s: &Snapshot) -> Plan {
    decide(s, &Natural)
}

fn change_pod(s: &mut Snapshot, ordinal: u32, change: impl FnOnce(&mut Pod)) {
    let pod = s.members.iter_mut().find(|m| m.ordinal == ordinal).and_then(|m| m.pod.as_mut());
    pod.into_iter().for_each(change_once(change));
}

fn change_once(change: impl FnOnce(&mut Pod)) -> impl FnMut(&mut Pod) {
    let mut change = Some(change);
    move |pod| {
        if let Some(change) = change.take() {
            change(pod);
        }
    }
}

fn waits(plan: &Plan) -> String {
    let moves = plan.waits.iter().filter(|wait| wait.reason == Reason::MovePending);
    moves.map(|wait| wait.message.clone()).collect::<Vec<_>>().join("; ")
}

fn adopts(plan: &Plan) -> Vec<String> {
    let adopted = |action: &Action| match action {
        Action::Adopt { member, version, .. } => Some(format!("{member} {version}")),
        _ => None,
    };
    plan.actions.iter().filter_map(adopted).collect()
}

fn drops(plan: &Plan) -> bool {
    plan.actions.contains(&Action::DropSet { uid: "set".into(), version: "7".into() })
}

#[test]
fn the_numbers_are_written_before_any_pod_changes_its_owner() {
    let s = leaving();
    let plan = decided(&s);
    assert_eq!(plan.record.seats, Some(seats(&[0, 1, 2], 3)));
    assert!(adopts(&plan).is_empty() && !drops(&plan), "{:?}", plan.actions);
}

// A group that was larger kept the claims of the members that left: these numbers are no members, and nobody gets them again.
#[test]
fn numbers_of_claims_that_were_kept_are_used() {
    let mut s = leaving();
    s.surplus_claims = vec!["data-db-6".into()];
    assert_eq!(decided(&s).record.seats, Some(seats(&[0, 1, 2], 7)));
    let claim = s.members.iter().find_map(|m| m.claims.first().cloned()).unwrap();
    s.left_claims = vec![LeftClaim { member: "db-8".into(), claim, is_being_deleted: false }];
    assert_eq!(decided(&s).record.seats, Some(seats(&[0, 1, 2], 9)));
}

#[test]
fn nobody_moves_while_something_else_is_under_way() {
    let stays = |change: &dyn Fn(&mut Snapshot), why: &str| {
        let mut s = leaving();
        change(&mut s);
        let plan = decided(&s);
        assert_eq!(plan.record.seats, None, "{why}");
        assert!(waits(&plan).contains(why), "{why}: {}", waits(&plan));
    };
    stays(&|s| s.group.replicas = 2, "members come or leave");
    stays(&|s| s.set.iter_mut().for_each(|set| set.replicas = 4), "members come or leave");
    stays(&|s| s.set.iter_mut().for_each(|set| set.unseen = true), "has not seen it yet");
    let object = Object {
        kind: "Service".into(),
        name: "db".into(),
        manifest: Arc::default(),
        current: false,
        version: None,
        trial: None,
    };
    stays(&|s| s.objects.push(object.clone()), "Service db is being applied");
    stays(
        &|s| {
            let failed = GivenUp { template: "new".into(), at: 1, why: "it failed".into() };
            s.group.update.rolls_back = true;
            s.group.update.template = "new".into();
            s.record.fallback = Some(Fallback { good: "old".into(), trial: None, failed: Some(failed) });
        },
        "pods went back to the template before",
    );
    stays(
        &|s| {
            s.group.replicas = 0;
            s.group.primaries = 0;
        },
        "the group is stopped",
    );
}

#[test]
fn the_set_goes_when_no_pod_belongs_to_it() {
    let mut s = numbered();
    change_pod(&mut s, 1, |pod| {
        pod.is_elsewhere = true;
        pod.version = "5".into();
        pod.adoption = Some(Arc::default());
    });
    let plan = decided(&s);
    assert_eq!(adopts(&plan), ["db-1 5"]);
    assert!(!drops(&plan) && waits(&plan).contains("the pod of db-1 changes its owner"), "{}", waits(&plan));
    // It is not one that could change its owner, and belongs to the set all the same.
    change_pod(&mut s, 1, |pod| pod.adoption = None);
    assert!(!drops(&decided(&s)));
    change_pod(&mut s, 1, |pod| pod.is_elsewhere = false);
    assert!(drops(&decided(&s)));
    // Whose Service does not say of which template pods are can make none.
    let mut blind = s.clone();
    blind.set.as_mut().unwrap().unseen = true;
    assert!(!drops(&decided(&blind)) && waits(&decided(&blind)).contains("cannot make pods yet"));
    let of_set = |moving: &mut Moving| moving.set.iter_mut().for_each(|set| set.is_being_deleted = true);
    let mut deleted = s.clone();
    deleted.moving.iter_mut().for_each(of_set);
    assert!(!drops(&decided(&deleted)), "that was done");
    change_pod(&mut s, 1, |pod| {
        pod.adoption = Some(Arc::default());
        pod.is_being_deleted = true;
    });
    assert!(adopts(&decided(&s)).is_empty(), "it goes anyway");
}

#[test]
fn a_set_takes_over_when_every_pod_belongs_to_it() {
    let plan = decided(&returning());
    assert_eq!((plan.record.seats, plan.record.last_replicas), (None, 3));
    let stays = |change: &dyn Fn(&mut Snapshot), why: &str| {
        let mut s = returning();
        change(&mut s);
        let plan = decided(&s);
        assert!(plan.record.seats.is_some(), "{why}");
        assert!(waits(&plan).contains(why), "{why}: {}", waits(&plan));
    };
    let of_set = |s: &mut Snapshot, change: &dyn Fn(&mut MovingSet)| {
        s.moving.iter_mut().filter_map(|moving| moving.set.as_mut()).for_each(change);
    };
    stays(&|s| change_pod(s, 2, |pod| pod.is_elsewhere = true), "the pod of db-2 changes its owner");
    stays(&|s| of_set(s, &|set| set.is_current = false), "the StatefulSet is being applied");
    stays(&|s| of_set(s, &|set| set.replicas = 2), "the StatefulSet is being applied");
    stays(&|s| s.moving = Some(Moving { to_pods: false, set: None }), "the StatefulSet is being created");
    stays(&|s| s.record.seats = Some(seats(&[0, 2, 3], 4)), "the members are db-0, db-2, db-3");
}

#[test]
fn a_set_has_the_numbers_from_0_without_a_gap() {
    let group = numbered().group;
    let fits = |known: Seats| {
        let record = Record { seats: Some(known), ..Record::default() };
        fits_set(&group, &record).is_ok()
    };
    assert!(fits(seats(&[0, 1, 2], 7)));
    assert!(fits(seats(&[0, 1], 2)), "the third one gets the number that a set would give it");
    assert!(!fits(seats(&[0, 1], 3)));
    assert!(!fits(seats(&[0, 1, 2, 3], 4)), "one has to leave first");
    assert!(!fits(seats(&[1, 2, 3], 4)));
    let dormant = Seats { dormant: BTreeSet::from([2]), ..seats(&[0, 1], 3) };
    assert!(fits(dormant), "who comes back is a member");
}
