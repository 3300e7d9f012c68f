//! A source that changes all the time (H25), with virtual time.
use super::*;
use crate::policies::active::Active;

// H25: A, B and a broken version in turn, once a second for a minute. The first change acts at once, three compilations are made, and the group's status,
// which a round writes when it differs, is written a few times. At the end what the source has decides.
#[test]
fn a_source_that_flips_each_second_costs_three_compilations_and_a_few_writes() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.sources.insert(map("mine"), content("a"));
    world.round("db", &layers);
    let mut written = vec![world.look("db", &layers)];
    let mut at_once = None;
    for second in 1..=60_usize {
        world.now += Duration::from_secs(1);
        world.edit(&map("mine"), ["a", "b", "broken"][second % 3]);
        // A round each second is more than the group would have: it is woken only when something changed for it.
        let found = world.look("db", &layers);
        world.settle();
        if second == 1 {
            at_once = Some(found.clone());
        }
        if written.last() != Some(&found) {
            written.push(found);
        }
    }
    assert_eq!(at_once.unwrap(), [is("b", "{}", Standing::Active)]);
    assert_eq!(written.last().unwrap()[0].2, Standing::Flapping);
    for _ in 0..10 {
        world.pass(1);
        let found = world.look("db", &layers);
        if written.last() != Some(&found) {
            written.push(found);
        }
    }
    assert_eq!(written.last().unwrap(), &[is("a", "{}", Standing::Active)]);
    assert!(world.compiled.len() <= 3, "{:?}", world.compiled);
    assert!(written.len() <= 12, "{written:?}");
}

// The copies follow what decides, and no more than that.
#[test]
fn a_source_that_flips_writes_few_copies() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.sources.insert(map("mine"), content("a"));
    for second in 0..60_usize {
        world.now += Duration::from_secs(1);
        world.edit(&map("mine"), ["a", "b"][second % 2]);
        world.round("db", &layers);
    }
    let numbers: Vec<_> =
        world.copies["db"].iter().filter_map(|(_, note, _)| note.as_ref()).map(|note| note.number).collect();
    assert!(numbers.len() <= 3 && numbers.iter().all(|number| *number <= 4), "{numbers:?}");
}

// The sentence of a group that flaps does not change with each change of its source: each would be a write.
#[test]
fn what_is_said_of_a_source_that_flips_stays_the_same() {
    let engine = crate::mock::engine();
    let policy = crate::policies::builtin::policy(&engine, &crate::policies::builtin::POLICIES[0]).unwrap();
    let policy = crate::policies::examined::Examined::builtin(policy);
    let version = crate::policies::store::good::Version { digest: "d".into(), parameters: "{}".into(), points: None };
    let found = Found { standing: Standing::Flapping, decides: Some((policy, "{}".into(), version)) };
    let spec =
        serde_json::from_value(serde_json::json!({"configMap": {"name": "mine", "key": "policy.wasm"}})).unwrap();
    let active = Active::new(&[spec], vec![("configmap/mine/policy.wasm".into(), found)], &[]);
    assert_eq!(active.status[0].state, "Flapping");
    assert_eq!(
        active.status[0].message.as_deref().unwrap(),
        "it changed more than 3 times within 10 s, so its last change waits until it has not changed for 5 s; sequence decides until then"
    );
}
