//! Instances that were made before there was a question: a question finds everything as it is without them.
use std::{sync::Arc, time::Duration};

use tanist_core::policy::{Point, Question, Reply};
use tanist_engine::{Alone, Interpreter, Layer, Limits, Policy, RunError};

use crate::{common, layer, load, three};

const CHOOSES: &str = r#"
def failover(s):
    print("asked about", len(s.members))
    return choose(s.eligible())
"#;

fn ask(layer: &Layer) -> Alone {
    layer.ask(&Question { point: Point::Failover, snapshot: three() }).expect("it has the point")
}

/// What a question got, without the time that it took.
fn got(alone: &Alone) -> (&Result<Option<Reply>, RunError>, u64, u64, usize, &[String]) {
    (&alone.reply, alone.fuel, alone.budget, alone.memory, &alone.notes)
}

fn was_prepared(alone: &Alone) -> bool {
    alone.spent.load == Duration::ZERO
}

#[test]
fn a_prepared_instance_answers_as_any_other_and_once() {
    let layer = layer(CHOOSES);
    let usual = ask(&layer);
    assert!(!was_prepared(&usual) && usual.reply.is_ok(), "{usual:?}");
    layer.policy.prepare();
    layer.policy.prepare();
    let prepared = ask(&layer);
    assert!(was_prepared(&prepared));
    assert_eq!(got(&prepared), got(&usual));
    let again = ask(&layer);
    assert!(!was_prepared(&again), "it was asked a second time");
    assert_eq!(got(&again), got(&usual));
}

// A script is stopped at the same place, and the error is the same.
#[test]
fn a_prepared_instance_has_the_same_budget() {
    let burns = "def failover(s):\n    return choose([str(n) for n in range(100000)] * 10)\n";
    let endless = "def failover(s):\n    for n in range(1000000):\n        m = n\n";
    for text in [burns, endless] {
        let layer = layer(text);
        let usual = ask(&layer);
        layer.policy.prepare();
        let prepared = ask(&layer);
        assert!(was_prepared(&prepared) && usual.reply.is_err(), "{usual:?}");
        assert_eq!(got(&prepared), got(&usual));
    }
}

// An error names the file that the text came from, so an instance that was given the text under another name is not used.
#[test]
fn a_prepared_instance_is_used_under_its_own_name_only() {
    let policy = load("def failover(s):\n    fail('no')\n").unwrap();
    let (one, other) = (policy.from_source("configmap/a/one.star"), policy.from_source("configmap/a/other.star"));
    one.prepare();
    let of = |policy| Layer { policy: Arc::new(policy), points: None, parameters: "{}".to_owned() };
    let (one, other) = (of(one), of(other));
    let said = ask(&other);
    assert!(!was_prepared(&said));
    assert!(format!("{:?}", said.reply).contains("other.star"), "{said:?}");
    let said = ask(&one);
    assert!(was_prepared(&said));
    assert!(format!("{:?}", said.reply).contains("one.star"), "{said:?}");
}

// There is a limit, however many scripts there are: a later one takes no other's place while that one is recent.
#[test]
fn sixteen_instances_are_prepared_at_most() {
    let interpreter = Interpreter::load(Limits::default().unhurried(), &common::built("starlark")).unwrap();
    let layers: Vec<_> = (0..20)
        .map(|n| {
            let text = format!("def failover(s):\n    return wait('script {n}')\n");
            let policy = Policy::script(&interpreter, "configmap/a/b.star", &text).unwrap();
            Layer { policy: Arc::new(policy), points: None, parameters: "{}".to_owned() }
        })
        .collect();
    layers.iter().for_each(|layer| layer.policy.prepare());
    let prepared: Vec<_> = layers.iter().map(|layer| was_prepared(&ask(layer))).collect();
    assert_eq!(prepared, [[true; 16].as_slice(), &[false; 4]].concat());
}

// The work before a question is not metered as a question is, so what loads for long is not loaded ahead.
#[test]
fn a_script_that_loads_for_long_is_not_prepared() {
    let heavy = "table = [n * n for n in range(20000)]\n\ndef failover(s):\n    return choose(s.eligible())\n";
    let layer = layer(heavy);
    let usual = ask(&layer);
    assert!(usual.reply.is_ok() && usual.fuel > 4_000_000, "{usual:?}");
    layer.policy.prepare();
    assert!(!was_prepared(&ask(&layer)));
}
