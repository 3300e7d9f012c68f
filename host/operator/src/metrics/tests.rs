#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]
use super::*;
use serde_json::{Value, json};
use tanist_core::snapshot::Evidence;
use tanist_core::status::Finding;

fn has(metrics: &Metrics, line: &str) {
    let text = metrics.text().unwrap();
    assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
}

fn lacks(metrics: &Metrics, part: &str) {
    let text = metrics.text().unwrap();
    assert!(!text.contains(part), "{part} is in\n{text}");
}

// The alerts and the dashboard of deploy/ use these names: they would stop working with a renamed metric.
#[test]
fn the_names_are_those_that_alerts_know() {
    let metrics = Metrics::default();
    metrics.executed("primary", Went::from(&Evidence::Exited(0)), Duration::from_millis(30));
    metrics.unknown();
    metrics.know("shop", |groups| groups.insert("db".into()));
    has(&metrics, "tanist_execs_total{command=\"primary\",result=\"ok\"} 1");
    has(&metrics, "tanist_exec_seconds_count{command=\"primary\",result=\"ok\"} 1");
    has(&metrics, "tanist_unknown_outcomes_total 1");
    has(&metrics, "tanist_check_violations_total 0");
    has(&metrics, "tanist_round_errors_total 0");
    has(&metrics, "tanist_groups{namespace=\"shop\"} 1");
    has(&metrics, "tanist_leader 0");
    metrics.forget("shop", "db");
    has(&metrics, "tanist_groups{namespace=\"shop\"} 0");
}

struct Says(Result<Value, &'static str>);

impl Policies for Says {
    fn ask(&self, _: &Question) -> Result<Answered, Unanswered> {
        let policy = tanist_core::policy::PolicyName {
            name: "mine".into(),
            version: "1".into(),
            source: "test".into(),
            digest: String::new(),
        };
        match &self.0 {
            Ok(reply) => {
                Ok(Answered { policy, reply: serde_json::from_value(reply.clone()).unwrap(), fuel: 7, notes: vec![] })
            }
            Err(kind) => Err(Unanswered { policy, kind, message: "it could not".into(), notes: vec![] }),
        }
    }
}

// Each question counts once, by its outcome. An answer that breaks a check counts as rejected.
#[test]
fn a_question_is_counted_by_its_outcome() {
    let metrics = Metrics::default();
    let question = json!({"point": "seed", "snapshot": {
        "now": 0, "parameters": "{}",
        "group": {"name": "db", "namespace": "shop", "replicas": 1, "primaries": 1, "has-secondaries": false, "term": 0},
        "members": []
    }});
    let question: Question = serde_json::from_value(question).unwrap();
    let ask = |says| Measured { active: &Says(says), metrics: &metrics }.ask(&question).is_ok();
    let stranger = json!({"candidates": [{"member": "stranger", "reason": "why not"}], "passed-over": []});
    assert!(ask(Ok(json!({"answer": {"choose": stranger}}))));
    assert!(ask(Ok(json!({"answer": {"refuse": "no"}}))));
    assert!(!ask(Err("trap")));
    // The alert on policies that are broken must not ring because of a machine that is busy.
    assert!(!ask(Err(tanist_core::policy::CUT_OFF)));
    for result in ["rejected", "nobody", "broken", "delayed"] {
        has(&metrics, &format!("tanist_decisions_total{{point=\"seed\",policy=\"mine\",result=\"{result}\"}} 1"));
    }
    has(&metrics, "tanist_fuel_total{policy=\"mine\"} 14");
    has(&metrics, "tanist_decision_seconds_count{point=\"seed\"} 4");
}

// A question that is put only to policies that have it, and that decides nothing when they abstain: no policy is broken.
#[test]
fn to_abstain_from_an_optional_question_is_no_failure() {
    let metrics = Metrics::default();
    let ask = |point: &str, kind| {
        let question: Question = serde_json::from_value(json!({"point": point, "snapshot": {
            "now": 0, "parameters": "{}",
            "group": {"name": "db", "namespace": "shop", "replicas": 1, "primaries": 1, "has-secondaries": false, "term": 0},
            "members": []
        }}))
        .unwrap();
        let says = Says(Err(kind));
        let measured = Measured { active: &says, metrics: &metrics };
        assert!(measured.ask(&question).is_err() && !measured.has(Point::Switchover) && measured.has(Point::Seed));
    };
    let (abstained, trap) = (tanist_core::policy::ABSTAINED_ALL, "trap");
    for (point, kind, result) in
        [("switchover", abstained, "nobody"), ("switchover", trap, "broken"), ("seed", abstained, "broken")]
    {
        ask(point, kind);
        has(&metrics, &format!("tanist_decisions_total{{point=\"{point}\",policy=\"mine\",result=\"{result}\"}} 1"));
    }
}

// An alert on a condition has to end with it.
#[test]
fn a_condition_that_is_gone_has_no_number() {
    let metrics = Metrics::default();
    let group: ReplicaGroup = serde_json::from_value(json!({
        "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"replicas": 1, "primaries": 1, "template": {}, "commands": {
            "status": {"exec": ["s"]}, "sequence": {"exec": ["q"]}, "stop": {"exec": ["t"]}, "primary": {"exec": ["p"]}
        }}
    }))
    .unwrap();
    let said = |kind, status| Condition { kind, status, reason: Finding::Settled.into(), message: String::new() };
    Count::conditions(
        &metrics,
        &group,
        &[said(Kind::Ready, Truth::Unknown), said(Kind::TemplateRejected, Truth::True)],
    );
    let line = |kind: &str, status: &str, value: u8| {
        let labels = format!("namespace=\"shop\",group=\"db\",condition=\"{kind}\",status=\"{status}\"");
        format!("tanist_group_condition{{{labels}}} {value}")
    };
    has(&metrics, &line("TemplateRejected", "True", 1));
    has(&metrics, &line("Ready", "Unknown", 1));
    has(&metrics, "tanist_groups{namespace=\"shop\"} 1");
    Count::conditions(&metrics, &group, &[said(Kind::Ready, Truth::True)]);
    has(&metrics, &line("Ready", "Unknown", 0));
    has(&metrics, &line("Ready", "True", 1));
    lacks(&metrics, "TemplateRejected");
    metrics.forget("shop", "db");
    lacks(&metrics, "group=\"db\"");
}
