//! What decides when a source is broken, in the same process and after a restart (S33).
use super::*;

// S33, P9: last good is component, parameters and points together, so a mistake in the parameters leaves the former parameters in force.
#[test]
fn a_mistake_in_the_parameters_and_a_restart_leave_what_decided_before() {
    for origin in [map("mine"), Origin::Builtin("sequence".into())] {
        let mut world = World::new();
        world.sources.insert(map("mine"), content("prefer 1"));
        let name = if matches!(origin, Origin::Builtin(_)) { "sequence" } else { "prefer 1" };
        assert_eq!(world.round("db", &[layer(origin.clone(), "good")]), [is(name, "good", Standing::Active)]);
        let stale = [is(name, "good", Standing::Failed("typo does not fit".into()))];
        assert_eq!(world.round("db", &[layer(origin.clone(), "typo")]), stale);
        world.restart();
        assert_eq!(world.look("db", &[layer(origin.clone(), "typo")])[0].2, Standing::Loading);
        world.settle();
        world.round("db", &[layer(origin.clone(), "typo")]);
        assert_eq!(world.round("db", &[layer(origin.clone(), "typo")]), stale, "{origin:?}");
    }
}

// P37: a policy that fails its exam does not begin to decide. One that decided before, in a version of the operator that examined less, goes on.
#[test]
fn who_fails_the_exam_does_not_begin_to_decide_but_goes_on() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.sources.insert(map("mine"), content("reckless 1"));
    let failed = Standing::Failed("its exam failed".into());
    assert_eq!(world.round("db", &layers), [is("-", "", failed.clone())]);
    world.edit(&map("mine"), "prefer 1");
    assert_eq!(world.round("db", &layers), [is("prefer 1", "{}", Standing::Active)]);
    world.edit(&map("mine"), "reckless 2");
    assert_eq!(world.round("db", &layers), [is("prefer 1", "{}", failed.clone())]);

    // Its copy is there, and so is what it is of.
    let copies = world.copies.get_mut("db").unwrap();
    for (_, note, of) in copies {
        *of = Some(content("reckless 3"));
        note.as_mut().unwrap().version.digest = content("reckless 3").digest;
    }
    world.edit(&map("mine"), "reckless 3");
    world.restart();
    for _ in 0..3 {
        world.round("db", &layers);
    }
    assert_eq!(world.round("db", &layers), [is("reckless 3", "{}", failed)]);
}

// P38: the exam counts at the points at which a layer is asked: the same policy decides in one group, and not in another.
#[test]
fn who_fails_the_exam_at_other_points_decides() {
    let mut world = World::new();
    world.sources.insert(map("mine"), content("reckless at failover"));
    let asked = |points| [Wanted { points, ..layer(map("mine"), "{}") }];
    let failed = [is("-", "", Standing::Failed("its exam failed".into()))];
    let decides = [is("reckless at failover", "{}", Standing::Active)];
    assert_eq!(world.round("db", &asked(Some(vec![Point::Place]))), decides);
    assert_eq!(world.round("other", &asked(Some(vec![Point::Failover, Point::Place]))), failed);
    assert_eq!(world.round("third", &asked(None)), failed);
    // More points make a new version, which is not accepted; the last good one keeps its own points.
    let wider = world.round("db", &asked(None));
    assert_eq!(wider, [is("reckless at failover", "{}", Standing::Failed("its exam failed".into()))]);
    assert_eq!(world.compiled.len(), 1, "one exam is for all of them");
}

// S33, P10: a source that is deleted leaves what it had; when it comes back it decides again.
#[test]
fn a_source_that_is_deleted_leaves_what_decided_before() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.sources.insert(map("mine"), content("prefer 1"));
    world.round("db", &layers);
    world.remove(&map("mine"));
    assert_eq!(world.look("db", &layers), [is("prefer 1", "{}", Standing::Failed("there is none".into()))]);
    world.edit(&map("mine"), "prefer 1");
    assert_eq!(world.look("db", &layers), [is("prefer 1", "{}", Standing::Active)]);
}

// S33, P9: a layer is found by its source and not by its place.
#[test]
fn a_layer_before_a_broken_one_and_a_restart_change_nothing() {
    let mut world = World::new();
    world.sources.insert(map("mine"), content("prefer 1"));
    world.sources.insert(map("first"), content("first 1"));
    world.round("db", &[layer(map("mine"), "{}")]);
    world.edit(&map("mine"), "broken");
    let both = [layer(map("first"), "{}"), layer(map("mine"), "{}")];
    let expected =
        [is("first 1", "{}", Standing::Active), is("prefer 1", "{}", Standing::Failed("broken is no policy".into()))];
    assert_eq!(world.round("db", &both), expected);
    world.restart();
    world.round("db", &both);
    assert_eq!(world.round("db", &both), expected);
}

// P9: after a restart the copy decides while the source is still being compiled, which may take long if that is a hostile one.
#[test]
fn after_a_restart_the_copy_decides_before_a_source_that_takes_long() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.sources.insert(map("mine"), content("prefer 1"));
    world.round("db", &layers);
    world.compiles = false;
    world.edit(&map("mine"), "bomb");
    world.restart();
    world.round("db", &layers);
    assert_eq!(world.compiled, ["prefer 1"]);
    assert_eq!(world.look("db", &layers), [is("-", "", Standing::Loading)]);
    world.compile(&content("prefer 1"));
    world.settle();
    assert_eq!(world.look("db", &layers), [is("prefer 1", "{}", Standing::Loading)]);
    assert_eq!(world.compiled, ["prefer 1", "bomb"]);
    // Where the source has what the copy is of, it is compiled once, and the copy is not read.
    world.restart();
    world.sources.insert(map("mine"), content("prefer 1"));
    world.failing = vec!["fetch"];
    world.round("db", &layers);
    assert_eq!((world.compiled.len(), world.failing.len()), (1, 1));
}

// S33, P9: a copy that could not be written, or listed, or read, is tried again.
#[test]
fn requests_about_copies_are_tried_again() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.sources.insert(map("mine"), content("prefer 1"));
    world.failing = vec!["list"];
    world.round("db", &layers);
    assert_eq!(world.stored("db"), [""; 0], "the copies could not be listed");
    world.failing = vec!["copy", "copy"];
    for (seconds, written) in [(5, 0), (4, 0), (1, 0), (9, 0), (1, 1)] {
        world.pass(seconds);
        assert_eq!(world.stored("db").len(), written);
    }
    world.edit(&map("mine"), "broken");
    world.restart();
    world.failing = vec!["fetch"];
    world.round("db", &layers);
    assert_eq!(world.look("db", &layers)[0].0, "-");
    for _ in 0..4 {
        world.pass(5);
        world.look("db", &layers);
    }
    assert_eq!(world.look("db", &layers)[0].0, "prefer 1");
}

// S33, P9: copies belong to a group with its UID. One that is deleted and created again at once takes nothing of its predecessor's.
#[test]
fn a_group_that_is_created_again_does_not_take_what_its_predecessor_stored() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.sources.insert(map("mine"), content("prefer 1"));
    world.round("old", &layers);
    world.edit(&map("mine"), "broken");
    assert_eq!(world.round("new", &layers), [is("-", "", Standing::Failed("broken is no policy".into()))]);
    assert_eq!(world.round("old", &layers)[0].0, "prefer 1");
    world.edit(&map("mine"), "prefer 2");
    world.pass(20);
    world.round("new", &layers);
    assert_eq!(
        (world.stored("old"), world.stored("new")),
        (vec!["prefer 1 {}".into()], vec!["prefer 2 {}".to_owned()])
    );
}

// P9: at most three copies for each source; what returns is the newest again; those of sources that are not used any more go when all is well.
#[test]
fn old_copies_are_removed() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.sources.insert(map("mine"), content("v1"));
    world.round("db", &layers);
    for text in ["v2", "v3", "v4", "v2", "v5"] {
        world.pass(60);
        world.edit(&map("mine"), text);
        world.round("db", &layers);
    }
    assert_eq!(world.stored("db"), ["v4 {}", "v2 {}", "v5 {}"]);
    // Not while something is wrong: the spec itself may be the mistake.
    world.round("db", &[layer(map("mime"), "{}")]);
    assert_eq!(world.stored("db").len(), 3);
    world.sources.insert(map("other"), content("other"));
    world.round("db", &[layer(map("other"), "{}")]);
    assert_eq!(world.stored("db"), ["other {}"]);
}

// Nothing is stored for what is built in, unless the spec says something about it.
#[test]
fn a_built_in_policy_alone_has_no_copy() {
    let mut world = World::new();
    world.round("db", &[layer(Origin::Builtin("sequence".into()), "{}")]);
    assert_eq!(world.stored("db"), [""; 0]);
}

// A copy of the last release has no note; the status says which source it is of. It is used, and replaced once its source is good.
#[test]
fn copies_of_the_last_release_are_used_and_replaced() {
    let mut world = World::new();
    let old = content("prefer 1");
    world.copies.insert("db".into(), vec![("db-policy-1".into(), None, Some(old.clone()))]);
    world.sources.insert(map("mine"), content("broken"));
    let mut mine = layer(map("mine"), "{}");
    mine.former = Some((old.digest.clone(), "db-policy-1".into()));
    world.round("db", &[mine.clone()]);
    let stale = is("prefer 1", "{}", Standing::Failed("broken is no policy".into()));
    assert_eq!(world.round("db", &[mine.clone()]), [stale]);
    world.edit(&map("mine"), "prefer 1");
    world.round("db", &[mine]);
    assert_eq!((world.stored("db"), world.copies["db"].len()), (vec!["prefer 1 {}".to_owned()], 1));
}

// A policy that fails three questions in a row, after one that answered, is replaced by that one until its source changes.
#[test]
fn a_policy_that_fails_questions_in_a_row_gives_way_to_the_one_before() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.sources.insert(map("mine"), content("v1"));
    world.round("db", &layers);
    world.heard("db", &layers, 0, Heard::Answered);
    world.edit(&map("mine"), "v2");
    world.round("db", &layers);
    let steps =
        [Heard::Failed, Heard::Failed, Heard::CutOff, Heard::Answered, Heard::Failed, Heard::Failed, Heard::CutOff];
    for heard in steps {
        world.heard("db", &layers, 0, heard);
        assert_eq!(world.look("db", &layers), [is("v2", "{}", Standing::Active)], "not three in a row");
    }
    world.woken.clear();
    world.heard("db", &layers, 0, Heard::Failed);
    assert_eq!(FAULTS, 3);
    assert_eq!(
        (world.woken.len(), world.state.take_news("db").len()),
        (1, 1),
        "the group looks again, and there is an event"
    );
    assert_eq!(world.look("db", &layers), [is("v1", "{}", Standing::Reverted)]);
    world.heard("db", &layers, 0, Heard::Answered);
    assert_eq!(world.look("db", &layers), [is("v1", "{}", Standing::Reverted)], "until the source changes");
    world.edit(&map("mine"), "v3");
    assert_eq!(world.round("db", &layers), [is("v3", "{}", Standing::Active)]);
}

// Without a version before that answered there is nothing to go back to. After a restart the copy is what answered before.
#[test]
fn the_one_before_must_have_answered_and_is_found_after_a_restart() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.sources.insert(map("mine"), content("v1"));
    world.round("db", &layers);
    world.edit(&map("mine"), "v2");
    world.round("db", &layers);
    for _ in 0..4 {
        world.heard("db", &layers, 0, Heard::Failed);
    }
    assert_eq!(world.look("db", &layers), [is("v2", "{}", Standing::Active)]);
    world.restart();
    world.round("db", &layers);
    for _ in 0..3 {
        world.heard("db", &layers, 0, Heard::Failed);
    }
    assert_eq!(world.round("db", &layers), [is("v1", "{}", Standing::Reverted)]);
}

// A layer that is never well keeps the copies of what was named before, and not their policies in memory: whoever names another ConfigMap each time would fill it for all.
#[test]
fn what_the_spec_does_not_name_leaves_the_memory() {
    let (mut world, broken) = (World::new(), layer(map("broken"), "{}"));
    world.sources.insert(map("broken"), content("broken"));
    for number in 0..5 {
        let name = format!("prefer {number}");
        world.sources.insert(map(&name), content(&name));
        world.round("db", &[layer(map(&name), "{}"), broken.clone()]);
        world.round("db", &[layer(map(&name), "{}"), broken.clone()]);
    }
    assert_eq!(world.stored("db").len(), 5, "the copies stay: the spec may be what is wrong");
    let ready: Vec<_> = world.state.ready.values().map(String::as_str).filter(|text| *text != "sequence").collect();
    assert_eq!(ready, ["prefer 4"]);
    // Its source is broken by now: what decided before comes from its copy.
    world.edit(&map("prefer 1"), "broken 1");
    let layers = [layer(map("prefer 1"), "{}"), broken];
    (0..3).for_each(|_| drop(world.round("db", &layers)));
    assert_eq!(world.round("db", &layers)[0].0, "prefer 1");
}
