//! Checking, inspecting and measuring a policy.

use std::fs;

use serde_json::{Map, json};
use tanist_author::{
    bench::{MEMBERS, bench, usual},
    check::{Checked, Result as Gate, check},
    inspect::inspect,
};
use tanist_core::policy::Point;

use super::{built, folder, tools};

fn gates(checked: &Checked) -> Vec<(&str, Gate)> {
    checked.stages.iter().map(|stage| (stage.stage.as_str(), stage.result)).collect()
}

// P3, P40: the gates in their order, and the one that refused.
#[test]
fn a_check_names_every_gate_and_the_one_that_refused() {
    use Gate::{Passed, Refused, Skipped};
    let well = check(&tools(), &built("prefer"), &[]).unwrap();
    assert!(well.passed(), "{:?}", well.stages);
    let all = ["size", "structure", "compile", "type", "exam"];
    assert_eq!(gates(&well), all.map(|gate| (gate, Passed)));
    assert!(well.stages[0].detail.ends_with(" of 1048576 bytes"), "{:?}", well.stages[0]);
    for what in
        ["core modules 1, functions ", "bytes of memory at the start ", "estimated microseconds of the compiler "]
    {
        assert!(well.stages[1].detail.contains(what), "{:?}", well.stages[1]);
    }
    assert_eq!(well.stages[3].detail, "its questions: seed, failover, join, demote, place, treat");

    let files = folder(&[
        ("text.wasm", "hello"),
        ("good.star", "def seed(s):\n    pass\n"),
        ("bad.star", "def seed(s):\n    return choos(s.members)\n"),
    ]);
    let large = vec![0; (1 << 20) + 1];
    fs::write(files.path().join("large.wasm"), large).unwrap();
    fs::write(files.path().join("cut.wasm"), &fs::read(built("prefer")).unwrap()[..9_000]).unwrap();
    let checked = |name: &str| check(&tools(), &files.path().join(name), &[]).unwrap();
    for (name, at) in [("text.wasm", 0), ("large.wasm", 0), ("cut.wasm", 1)] {
        let results: Vec<_> = checked(name).stages.iter().map(|stage| stage.result).collect();
        let expected: Vec<_> = (0..5)
            .map(|i| {
                if i < at {
                    Passed
                } else if i == at {
                    Refused
                } else {
                    Skipped
                }
            })
            .collect();
        assert_eq!(results, expected, "{name}");
        assert!(!checked(name).passed());
    }
    let script = checked("good.star");
    assert_eq!(
        gates(&script),
        [("size", Passed), ("structure", Skipped), ("compile", Skipped), ("type", Passed), ("exam", Passed)]
    );
    assert!(script.stages[3].detail.contains("its questions: seed"), "{:?}", script.stages[3]);
    assert!(script.stages[4].detail.starts_with("passed: "), "{:?}", script.stages[4]);
    // What loads and would choose wrongly is refused by the exam, with the whole report.
    fs::write(files.path().join("last.star"), "def seed(s):\n    return choose(reversed(s.eligible()))\n").unwrap();
    let last = checked("last.star");
    assert!(!last.passed() && last.policy.is_some(), "{:?}", gates(&last));
    assert_eq!(gates(&last)[4], ("exam", Refused));
    assert!(!last.exam.unwrap().findings.is_empty());
    let script = checked("bad.star");
    assert_eq!((script.stages[0].result, script.stages[4].result), (Passed, Refused));
    assert!(script.stages[4].detail.contains("bad.star:2:"), "{}", script.stages[4].detail);
    assert!(check(&tools(), &files.path().join("none.wasm"), &[]).is_err(), "a file that cannot be read is no refusal");
}

// P40: what a policy says about itself, and what the loader counted.
#[test]
fn an_inspection_shows_what_a_policy_is() {
    let prefer = inspect(&tools(), &built("prefer")).unwrap();
    assert_eq!((prefer.name.name.as_str(), prefer.kind), ("prefer", "component"));
    assert!(prefer.name.digest.starts_with("sha256:"));
    assert_eq!(prefer.parameters.unwrap()["required"], json!(["member"]));
    assert!(prefer.exports.contains(&"tanist:policy/about@0.1.4".to_owned()), "{:?}", prefer.exports);
    assert!(prefer.counts.iter().any(|(what, count)| *what == "functions" && *count > 1), "{:?}", prefer.counts);
    let files = folder(&[("mine.star", "\"\"\"Does nothing.\"\"\"\ndef join(s):\n    pass\n")]);
    let mine = inspect(&tools(), &files.path().join("mine.star")).unwrap();
    assert_eq!((mine.name.name.as_str(), mine.kind, mine.summary.as_str()), ("mine", "script", "Does nothing."));
    assert_eq!((mine.points, mine.parameters.is_none(), mine.exports.len()), (vec![Point::Join], true, 0));
}

#[test]
fn every_question_that_is_measured_has_candidates() {
    for point in Point::ALL {
        for members in MEMBERS {
            let asked = usual(point, members).unwrap_or_else(|error| panic!("{members}: {error}"));
            let all = &asked.snapshot.members;
            assert_eq!(all.len(), usize::try_from(members).unwrap());
            let candidates = all.iter().filter(|member| member.barred.is_none()).count();
            // Only the member that is watched can be judged; one comes, or one leaves.
            let one = matches!(point, Point::Judge | Point::Admit | Point::Order);
            let least = if one { 1 } else { all.len() - 4 };
            assert!(candidates >= least, "{point}: {candidates} of {members} may be chosen");
            assert!(all.windows(2).all(|two| two[0].ordinal < two[1].ordinal), "{point}");
        }
    }
}

// P40: each question is measured, and a failure is shown as one.
#[test]
fn a_measurement_has_every_question_and_its_failures() {
    let parameters: Map<_, _> = [("member".to_owned(), json!("db-1"))].into_iter().collect();
    let measured = bench(&tools(), &built("prefer"), &parameters).unwrap();
    let has = Point::ALL.iter().filter(|point| !point.is_optional()).count();
    assert_eq!(measured.questions.len(), has * MEMBERS.len());
    for each in &measured.questions {
        assert!(
            each.failed.is_none() && each.times >= 10 && each.p50 <= each.p99 && each.instance <= each.p99,
            "{each:?}"
        );
        assert!(each.parse.is_none() && each.fuel < each.budget, "{each:?}");
    }
    let said = bench(&tools(), &built("prefer"), &Map::new()).unwrap_err().to_string();
    assert!(said.starts_with("--parameters: the parameters do not fit the policy prefer"), "{said}");
    let traps: Map<_, _> = [("do".to_owned(), json!("trap"))].into_iter().collect();
    let measured = bench(&tools(), &built("hostile"), &traps).unwrap();
    assert!(measured.questions.iter().all(|each| each.failed.is_some()));
}
