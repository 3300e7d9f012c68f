use super::tests::{build, group, of_kind, settings};
use super::*;
use serde_json::{Value, json};
use tanist_core::record::Seats;

#[test]
fn one_member_at_a_time_may_be_disturbed() {
    let objects = build(json!({}));
    assert_eq!(of_kind(&objects, "PodDisruptionBudget")["spec"]["maxUnavailable"], 1);
}

// D25, B8: where the operator makes the pods, one of those that are desired; a new member that is still to come in the place of another one is missing to nobody.
#[test]
fn a_new_member_on_its_way_does_not_keep_nodes_from_being_drained() {
    let group = group(json!({"members": {"kind": "Pods"}}));
    let note = TemplateNote::next(None, template_hash(&group), std::iter::empty(), None, None);
    let least = |replicas: u32, spare: u32| {
        let size = Size { replicas, desired: 3, voters: 0, spare, makers: Some(Makers::Operator) };
        let objects = desired(&group, size, &settings(), &note).unwrap();
        of_kind(&objects, "PodDisruptionBudget")["spec"]["minAvailable"].clone()
    };
    assert_eq!((least(3, 0), least(4, 1)), (json!(2), json!(2)));
}

// D25, B8: the roster says how many that are.
#[test]
fn how_many_are_on_their_way_is_counted() {
    let object = group(json!({"members": {"kind": "Pods"}}));
    let group = tanist_api::validate::group(&object, "cluster.local").unwrap();
    let seats = Seats { numbers: [0, 1, 2, 3].into(), replaced: [(2, 3)].into(), next: 4, ..Seats::default() };
    let record = Record { seats: Some(seats), ..Record::default() };
    let size = Size::of(&group, Roster::new(&group, None, &record), &record);
    assert_eq!((size.replicas, size.desired, size.spare), (group.replicas + 1, group.replicas, 1));
    // Once it was in a role it counts: one of all may be disturbed, and not all of a former version at once (E4).
    let mut arrived = record.clone();
    for ordinal in 0..4 {
        arrived.member_mut(&format!("{}-{ordinal}", group.name).into()).term = Some(1);
    }
    assert_eq!(Size::of(&group, Roster::new(&group, None, &arrived), &arrived).spare, 0);
}

// D25: a majority of the voters, or of the members that are desired if those are more.
#[test]
fn of_members_that_agree_a_majority_stays() {
    let commands: serde_json::Map<String, Value> = ["memberList", "memberAdd", "memberRemove"]
        .map(|name| (name.to_owned(), json!({"exec": [name]})))
        .into_iter()
        .collect();
    let group = group(json!({"commands": commands}));
    let least = |(desired_members, voters): (u32, usize)| {
        let note = TemplateNote::next(None, template_hash(&group), std::iter::empty(), None, None);
        let objects = desired(
            &group,
            Size { replicas: 3, desired: desired_members, voters, spare: 0, makers: None },
            &settings(),
            &note,
        )
        .unwrap();
        let budget = of_kind(&objects, "PodDisruptionBudget")["spec"].clone();
        assert!(budget["maxUnavailable"].is_null());
        budget["minAvailable"].clone()
    };
    assert_eq!([0, 1, 3, 4, 5].map(|voters| least((3, voters))), [2, 2, 2, 3, 3]);
    // P53: those that policies do not let in count for nothing.
    assert_eq!(least((1, 0)), 1);
}
