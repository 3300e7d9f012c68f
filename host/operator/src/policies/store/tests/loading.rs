//! What a round finds while sources are read and compiled.
use super::*;

// S33, H19, P4, P5: a round finds what is ready and waits for nothing. Its group is woken when there is more, and no other group is.
#[test]
fn a_round_finds_what_is_ready_and_is_woken_for_the_rest() {
    let mut world = World::new();
    let layers = [layer(map("mine"), "{}"), layer(Origin::Builtin("sequence".into()), "{}")];
    let builtin = is("sequence", "{}", Standing::Active);
    world.sources.insert(map("mine"), content("prefer 1"));
    world.compiles = false;
    assert_eq!(world.look("other", &layers[1..]), std::slice::from_ref(&builtin), "what is built in is always ready");
    assert_eq!(world.look("db", &layers), [is("-", "", Standing::Loading), builtin.clone()]);
    world.settle();
    world.woken.clear();
    assert_eq!(world.look("db", &layers), [is("-", "", Standing::Loading), builtin.clone()], "it is being compiled");

    world.compile(&content("prefer 1"));
    world.settle();
    assert_eq!(world.woken, BTreeSet::from(["db".to_owned()]));
    assert_eq!(world.look("db", &layers), [is("prefer 1", "{}", Standing::Active), builtin]);
    world.settle();
    assert_eq!(world.compiled, ["prefer 1"]);
}

// P4: while an edit is compiled, what was there before decides, and nobody is woken. Then it is swapped.
#[test]
fn what_was_loaded_before_decides_while_an_edit_is_compiled() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.sources.insert(map("mine"), content("prefer 1"));
    assert_eq!(world.round("db", &layers), [is("prefer 1", "{}", Standing::Active)]);
    world.woken.clear();
    world.compiles = false;
    world.edit(&map("mine"), "prefer 2");
    assert!(world.woken.is_empty());
    assert_eq!(world.look("db", &layers), [is("prefer 1", "{}", Standing::Loading)]);
    world.compile(&content("prefer 2"));
    world.settle();
    assert_eq!(world.woken, BTreeSet::from(["db".to_owned()]));
    assert_eq!(world.look("db", &layers), [is("prefer 2", "{}", Standing::Active)]);
}

// Before a namespace's ConfigMaps are known nothing is said to be missing.
#[test]
fn a_source_that_may_still_be_listed_is_not_missing() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.state = State::default();
    assert_eq!(world.round("db", &layers), [is("-", "", Standing::Loading)]);
    world.state.namespace_known("shop");
    world.settle();
    assert_eq!(world.look("db", &layers), [is("-", "", Standing::Failed("there is none".into()))]);
}

// H19, P6: a bomb in one namespace holds up nothing in another.
#[test]
fn a_compilation_that_does_not_end_holds_up_no_other_namespace() {
    let mut world = World::new();
    let there =
        |name: &str| Origin::ConfigMap { namespace: "mall".into(), name: name.into(), key: "policy.wasm".into() };
    world.state.namespace_known("mall");
    world.compiles = false;
    for bomb in ["bomb-1", "bomb-2", "bomb-3"] {
        world.sources.insert(map(bomb), content(bomb));
    }
    world.look("db", &["bomb-1", "bomb-2", "bomb-3"].map(|bomb| layer(map(bomb), "{}")));
    world.settle();
    assert_eq!(world.compiled, ["bomb-1"], "one at a time in a namespace");
    world.compiles = true;
    world.sources.insert(there("mine"), content("prefer 1"));
    assert_eq!(world.round("other", &[layer(there("mine"), "{}")]), [is("prefer 1", "{}", Standing::Active)]);
}

// H21, S49: a digest that failed is compiled again after five minutes, and by a new process; not each round.
#[test]
fn a_digest_that_failed_is_not_compiled_again_at_once() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}")]);
    world.sources.insert(map("mine"), content("broken"));
    let failed = is("-", "", Standing::Failed("broken is no policy".into()));
    assert_eq!(world.round("db", &layers), std::slice::from_ref(&failed));
    for _ in 0..29 {
        world.pass(10);
        world.touch(&map("mine"));
        assert_eq!(world.look("db", &layers), std::slice::from_ref(&failed));
    }
    // Another group, or the same group created again, brings no attempt either.
    world.state.forget("db");
    assert_eq!(world.round("new", &layers), [failed]);
    assert_eq!(world.compiled.len(), 1);
    assert_eq!(world.state.next(world.now), Some(world.now + Duration::from_secs(10)));
    world.pass(10);
    assert_eq!(RETRY.as_secs(), 300);
    assert_eq!(world.compiled.len(), 2);
    world.restart();
    world.round("new", &layers);
    assert_eq!(world.compiled.len(), 1);
}

#[test]
fn what_no_group_uses_any_more_is_dropped() {
    let (mut world, layers) = (World::new(), [layer(map("mine"), "{}"), layer(map("yours"), "{}")]);
    for name in ["mine", "yours"] {
        world.sources.insert(map(name), content(name));
    }
    world.round("db", &layers);
    world.round("other", &layers[..1]);
    let in_memory = |world: &World| world.state.in_memory();
    assert_eq!(in_memory(&world), (2, 2));
    world.state.forget("db");
    assert_eq!(in_memory(&world), (1, 1), "one is still used");
    world.state.forget("other");
    assert_eq!(in_memory(&world), (0, 0));
}

// P1: a file is read again from time to time, because not every volume announces changes.
#[test]
fn a_file_is_read_again_without_an_announcement() {
    let file = Origin::File { namespace: "shop".into(), name: "mine.wasm".into() };
    let (mut world, layers) = (World::new(), [layer(file.clone(), "{}")]);
    world.sources.insert(file.clone(), content("prefer 1"));
    world.round("db", &layers);
    world.sources.insert(file, content("prefer 2"));
    world.pass(29);
    assert_eq!(world.look("db", &layers), [is("prefer 1", "{}", Standing::Active)]);
    assert_eq!(world.state.next(world.now), Some(world.now + Duration::from_secs(1)));
    world.pass(1);
    assert_eq!(world.look("db", &layers), [is("prefer 2", "{}", Standing::Active)]);
}

// Promise 4: what is to be done is looked for in all groups under one lock, so rounds of groups that rest have nobody look: ten thousand of them would keep a processor busy.
#[test]
fn a_round_of_a_group_that_rests_has_nobody_look_for_work() {
    let (mut world, layers) =
        (World::new(), [layer(map("mine"), "{}"), layer(Origin::Builtin("sequence".into()), "{}")]);
    world.sources.insert(map("mine"), content("prefer 1"));
    assert!(world.is_busy("db", &layers), "it is new");
    world.settle();
    assert!(world.is_busy("db", &layers), "a version that is good has no copy yet");
    world.settle();
    assert!(!world.is_busy("db", &layers), "it rests");
    assert!(world.is_busy("db", &layers[1..]), "it does not use a source any more");
    world.settle();
    assert!(!world.is_busy("db", &layers[1..]), "it rests");
    assert!(world.is_busy("db", &layers), "it uses a source again");
    world.settle();
    assert!(world.is_busy("db", &layers), "its copy went when it was not used");
    world.settle();
    assert!(!world.is_busy("db", &layers), "it rests");
    assert!(
        world.is_busy("db", &[layer(map("mine"), "{\"a\":1}"), layers[1].clone()]),
        "other parameters are another version"
    );
}
