//! The question is the core's own, with its bars, and what the host would not accept is a failure here, too.

use std::sync::Arc;

use tanist_author::ask::Verdict;
use tanist_engine::{Layer, Policy};

use super::{HOSTILE, INTERPRETER, SEQUENCE, layer, not_asked, ran, ranking, results};

fn script(text: &str) -> Layer {
    layer(&Arc::new(Policy::script(&INTERPRETER, "file/mine.star", text).unwrap()), "{}")
}

fn default_of(text: &str) -> Vec<String> {
    results(&ran(text, &[layer(&SEQUENCE, "{}")]))
}

#[test]
fn each_question_arises_without_further_words() {
    for (point, results) in [
        ("seed", ["db-0 chosen", "db-1 next", "db-2 next"]),
        ("failover", ["db-0 chosen", "db-1 next", "db-2 next"]),
        ("join", ["db-0 barred: it is primary", "db-1 chosen", "db-2 next"]),
        ("place", ["db-0 barred: it is primary", "db-1 chosen", "db-2 next"]),
        ("demote", ["db-0 next", "db-1 next", "db-2 chosen"]),
    ] {
        assert_eq!(default_of(&format!("point: {point}")), results, "{point}");
    }
    // The built-in policy does not have it.
    assert_eq!(default_of("point: switchover"), ["db-0 barred: it leads", "db-1 -", "db-2 -"]);
    assert_eq!(default_of("point: rebalance"), ["db-0 barred: it leads", "db-1 -", "db-2 -"]);
    assert_eq!(
        default_of("point: update"),
        ["db-0 barred: db-1 gets a new pod before the primary", "db-1 -", "db-2 -"]
    );
    let judged = default_of("point: judge");
    assert_eq!(
        judged,
        [
            "db-0 barred: db-2 is watched with the new template",
            "db-1 barred: db-2 is watched with the new template",
            "db-2 -"
        ]
    );
    let treated = default_of("point: treat\nmembers: {db-0: {}, db-1: {role: failed}, db-2: {}}");
    assert_eq!(treated[1], "db-1 stop", "{treated:?}");
}

// P40: members are barred as in a cluster.
#[test]
fn the_bars_are_those_of_the_host() {
    let behind = default_of("point: seed\nmembers: {db-0: 4, db-1: 9, db-2: 9}");
    assert_eq!(behind, ["db-0 barred: its data (4) is behind the highest known (9)", "db-1 chosen", "db-2 next"]);
    let older = default_of("point: seed\nmembers: {db-0: {data: 9, term: 2}, db-1: {data: 3, term: 3}}");
    assert_eq!(older, ["db-0 barred: its data is of an older term and may lack the latest writes", "db-1 chosen"]);
    let empty = default_of("point: seed\nmembers: {db-0: EMPTY, db-1: 1}");
    assert_eq!(empty, ["db-0 barred: it has no data, and this group has or had data", "db-1 chosen"]);
    let never = default_of("point: seed\nmembers: {db-0: EMPTY, db-1: EMPTY}");
    assert_eq!(never, ["db-0 chosen", "db-1 next"]);
    let excluded = default_of(
        "point: failover\ngroup: {prefer-running: true}\nmembers: {db-0: {role: stopped, last-primary: -5}, db-1: {}}",
    );
    assert_eq!(excluded[0], "db-0 barred: it was the primary and is stopped; spec.failover.preferRunning excludes it");
    let drained = default_of("point: failover\nmembers: {db-0: {cordoned: true}, db-1: {}}");
    assert!(drained[0].starts_with("db-0 barred: its node is to be drained"), "{drained:?}");
    let gone = default_of("point: failover\nmembers: {db-0: {phase: missing, last-primary: -5}, db-1: {}}");
    assert_eq!(gone, ["db-0 barred: its pod is missing", "db-1 chosen"]);
}

// P40: no question is asked that a round would not ask.
#[test]
fn a_question_that_does_not_arise_is_an_error_that_says_why() {
    let runs = not_asked("point: seed\nmembers: {db-0: {role: primary}}");
    assert!(runs.starts_with("the host does not ask seed about this snapshot"), "{runs}");
    let unread = not_asked("point: seed\nmembers: {db-0: 1, db-1: unknown}");
    assert!(unread.contains("the data of db-1 cannot be read"), "{unread}");
    let histories = not_asked("point: seed\nmembers: {db-0: 'a:1', db-1: 'b:1'}");
    assert!(histories.contains("these histories cannot be compared"), "{histories}");
    let other = not_asked("point: failover\nmembers: {db-0: {role: stopped}, db-1: {role: stopped}}");
    assert!(other.contains("it asks seed"), "{other}");
    let lost = not_asked("point: failover\nmembers: {db-0: {reachable: false}, db-1: {}}");
    assert!(lost.contains("db-0 may be primary"), "{lost}");
}

// P19: where nobody may be chosen, no policy is asked.
#[test]
fn when_everybody_is_barred_nobody_is_asked() {
    let ran = ran("point: seed\ngroup: {high-water: 12}\nmembers: {db-0: 9, db-1: 4}", &[layer(&SEQUENCE, "{}")]);
    let Verdict::Nobody { reason } = &ran.verdict else { panic!("{:?}", ran.verdict) };
    assert!(reason.contains("the most recent data that this group ever had") && ran.layers.is_empty(), "{reason}");
    assert_eq!(results(&ran)[1], "db-1 barred: its data (4) is behind the highest known (9)");
}

// P40: an answer is checked as the host checks it.
#[test]
fn an_answer_that_the_host_drops_is_a_failure() {
    for (how, words) in
        [("bad-member", "not a member of this group"), ("twice", "twice"), ("empty", "without candidates")]
    {
        let ran = ran("point: seed", &[layer(&HOSTILE, &format!(r#"{{"do":"{how}"}}"#))]);
        let Verdict::Fail { kind, reason } = &ran.verdict else { panic!("{how}: {:?}", ran.verdict) };
        assert!(kind == "dropped" && reason.contains(words), "{how}: {reason}");
    }
}

// P40: each limit of the operator ends a question here, too.
#[test]
fn the_limits_are_those_of_the_host() {
    for (how, kind) in
        [("loop", "fuel"), ("grow", "memory"), ("recurse", "stack"), ("trap", "trap"), ("fault", "fault")]
    {
        let ran = ran("point: seed", &[layer(&HOSTILE, &format!(r#"{{"do":"{how}"}}"#))]);
        assert!(matches!(&ran.verdict, Verdict::Fail { kind: found, .. } if found == kind), "{how}: {:?}", ran.verdict);
    }
}

// P13, P14: the order of the stack, and what the others would have answered.
#[test]
fn the_first_policy_with_an_opinion_decides_and_the_others_are_shown() {
    let abstains = layer(&HOSTILE, r#"{"do":"abstain"}"#);
    let asked =
        ran("point: seed", &[abstains.clone(), layer(&SEQUENCE, r#"{"prefer":["db-2"]}"#), layer(&SEQUENCE, "{}")]);
    assert_eq!(ranking(&asked)[0], "db-2");
    assert_eq!(asked.layers.iter().map(|each| each.decides).collect::<Vec<_>>(), [false, true, false]);
    assert!(matches!(asked.layers[0].answer, Some(Verdict::Abstain)));
    assert!(matches!(&asked.layers[2].answer, Some(Verdict::Choose { ranking, .. }) if ranking[0].member == "db-0"));
    // A policy that fails ends the question: the next one could decide what the first would have refused.
    let failing = ran("point: seed", &[layer(&HOSTILE, r#"{"do":"trap"}"#), layer(&SEQUENCE, "{}")]);
    assert!(matches!(failing.verdict, Verdict::Fail { .. }), "{:?}", failing.verdict);
    let nobody = ran("point: seed", &[abstains]);
    assert_eq!(nobody.verdict, Verdict::Abstain);
    // A policy that the group does not ask at this point has no answer.
    let elsewhere = Layer { points: Some(vec![tanist_core::policy::Point::Join]), ..layer(&SEQUENCE, "{}") };
    let asked = ran("point: seed", &[elsewhere]);
    assert!(asked.layers[0].answer.is_none() && asked.layers[0].cost.is_none(), "{:?}", asked.layers);
}

// P40: fuel and memory.
#[test]
fn what_a_question_costs_is_shown() {
    let asked = ran("point: seed", &[layer(&SEQUENCE, "{}")]);
    let cost = asked.layers[0].cost.unwrap();
    assert!(cost.fuel > 1_000 && cost.fuel < cost.budget && cost.memory >= 64 << 10, "{cost:?}");
    let spins = ran("point: seed", &[layer(&HOSTILE, r#"{"do":"loop"}"#)]);
    let cost = spins.layers[0].cost.unwrap();
    assert_eq!(cost.fuel, cost.budget, "it used up all of it");
}

#[test]
fn a_policy_is_given_what_the_case_says() {
    let show = r#"
def seed(s):
    for m in s.members:
        print(m.name, m.phase, m.role, m.zone, m.node, m.labels, m.facts, m.failures, m.last_primary, m.term)
    for t in s.history:
        print(t.at, t.what, t.member)
    print(s.now, s.group.name, s.group.namespace, s.group.preferred_primary, s.group.labels, s.group.facts, s.group.term)
"#;
    let asked = ran(
        "point: seed\nnow: 1000\ngroup: {namespace: shop, preferred-primary: web-0, labels: {tier: gold}, facts: {size: '3'}}\n\
         members:\n  web-0: {data: 7, zone: a, node: n1, labels: {rank: '1'}, facts: {lag: '5'}, last-primary: -30}\n  \
         web-1: {data: 7, term: 4, failures: 2, last-primary: 900}\nhistory: [{at: -60, what: demoted, member: web-1}]",
        &[script(show)],
    );
    let notes = &asked.layers[0].notes;
    assert_eq!(
        notes,
        &[
            r#"web-0 running stopped a n1 {"rank": "1"} {"behind": "0", "lag": "5"} 0 970 4"#,
            r#"web-1 running stopped None node-of-web-1 {} {"behind": "0"} 2 900 4"#,
            "940 demoted web-1",
            concat!(
                r#"1000 web shop web-0 {"tier": "gold"} {"last-primary": "web-0", "last-primary-node": "n1", "#,
                r#""last-primary-zone": "a", "size": "3"} 4"#
            ),
        ]
    );
}

// P17: what was printed before a failure is shown.
#[test]
fn notes_are_kept_when_a_script_fails() {
    let asked = ran("point: seed", &[script("def seed(s):\n    print('before')\n    fail('no idea')\n")]);
    let Verdict::Fail { reason, .. } = &asked.verdict else { panic!("{:?}", asked.verdict) };
    assert!(reason.contains("no idea") && reason.contains("mine.star:3"), "{reason}");
    assert_eq!(asked.layers[0].notes, ["before"]);
}
