//! Tests of a folder: what passes, what fails and how that is shown, and what `--update` writes.

use std::{fs, path::Path};

use tanist_author::{
    Error,
    case::Cases,
    report::junit,
    suite::{Options, Tested, test},
};

use super::{built, folder, tools};

const LOWEST: &str = r#"
def seed(s):
    ranked = sorted(s.eligible(), key = lambda m: m.ordinal)
    return choose([(m, "ordinal %d" % m.ordinal) for m in ranked])
"#;

fn run(place: &Path) -> Result<Tested, Error> {
    test(&tools(), place, &Options::default())
}

fn error(files: &[(&str, &str)]) -> String {
    let folder = folder(files);
    let said = run(folder.path()).unwrap_err().to_string();
    said.replace(&folder.path().display().to_string(), "DIR")
}

/// Whether each case passed.
fn passed(cases: &str) -> Vec<bool> {
    let folder = folder(&[("lowest.star", LOWEST), ("cases.yaml", cases)]);
    run(folder.path()).unwrap().cases().map(|case| case.passed).collect()
}

// P41: each form of an expectation, as it passes and as it fails.
#[test]
fn an_answer_passes_when_it_is_as_expected() {
    let cases = |expect: &str| format!("cases:\n  - {{point: seed, expect: {expect}}}\n");
    for (expect, well) in [
        ("{choose: db-0}", true),
        ("{choose: db-1}", false),
        ("{choose: [db-0, db-1, db-2]}", true),
        ("{choose: [db-0]}", false),
        ("{choose: [db-0, db-2, db-1]}", false),
        ("{choose: db-0, reason: ordinal}", true),
        ("{choose: db-0, reason: zone}", false),
        ("abstain", false),
        ("wait", false),
        ("nobody", false),
        ("fail", false),
    ] {
        assert_eq!(passed(&cases(expect)), [well], "{expect}");
    }
    let waits = "def seed(s):\n    return wait('for the night', until = s.now + 5)\n";
    for (expect, well) in [
        ("wait", true),
        ("{wait: night}", true),
        ("{wait: day}", false),
        ("{wait: night, until: 1700000005}", true),
        ("{wait: night, until: 1700000006}", false),
        ("refuse", false),
    ] {
        let folder = folder(&[("a.star", waits), ("cases.yaml", &cases(expect))]);
        assert_eq!(run(folder.path()).unwrap().counts(), (usize::from(well), 1), "{expect}");
    }
}

// P41, P42: a failure has a difference and everyone's reason, also as JUnit XML.
#[test]
fn what_failed_is_shown_with_everyones_reason() {
    let cases = "cases:\n  - name: the last one\n    point: seed\n    members: {db-0: 4, db-1: 9, db-2: 9}\n    expect: {choose: [db-2, db-1], reason: ordinal 2}\n  - point: seed\n";
    let folder = folder(&[("lowest.star", LOWEST), ("cases.yaml", cases)]);
    let tested = run(folder.path()).unwrap();
    let case = &tested.files[0].cases[0];
    assert_eq!((case.name.as_str(), case.line), ("the last one", 2));
    assert_eq!(
        case.difference,
        ["- choose: [db-2, db-1]", "- reason: \"ordinal 2\"", "+ choose: [db-1, db-2]", "+ reason: \"ordinal 1\""]
    );
    let members = &case.ran.as_ref().unwrap().members;
    assert_eq!(members[0].reason, "its data (4) is behind the highest known (9)");
    let nothing = &tested.files[0].cases[1];
    assert!(!nothing.passed && nothing.problem.as_ref().unwrap().contains("it expects nothing"), "{nothing:?}");
    assert_eq!(nothing.difference, ["+ choose: [db-0, db-1, db-2]"]);

    let xml = junit(&tested).unwrap();
    assert!(xml.contains("tests=\"2\" ") && xml.contains("failures=\"2\""), "{xml}");
    assert!(xml.contains("name=\"the last one\"") && xml.contains("- choose: [db-2, db-1]"), "{xml}");
    let json = serde_json::to_value(&tested).unwrap();
    assert_eq!(json["files"][0]["cases"][0]["ran"]["verdict"]["ranking"][0]["member"], "db-1");
}

// P41: a case whose question does not arise fails with the reason of the host.
#[test]
fn a_question_that_is_not_asked_fails_the_case() {
    let cases = "cases:\n  - {point: seed, members: {db-0: {role: primary}}, expect: abstain}\n";
    let folder = folder(&[("lowest.star", LOWEST), ("cases.yaml", cases)]);
    let tested = run(folder.path()).unwrap();
    let case = &tested.files[0].cases[0];
    assert!(!case.passed && case.problem.as_ref().unwrap().contains("the host does not ask seed"), "{case:?}");
}

// P41: `--update` changes expectations alone.
#[test]
fn update_writes_what_is_expected_and_nothing_else() {
    let before = "# On top.\npolicy: lowest.star\n\ncases:\n  # The first.\n  - name: one # of them\n    point: seed\n    expect: {choose: db-2} # why\n    members: 3\n\n  - point: seed\n    name: two\n    expect:\n      choose:\n        - db-1\n\n    # Below.\n    members: [db-0, db-1]\n  - {point: seed, expect: {choose: db-0}}\n  - point: seed\n    # Nothing yet.\n    members: 1\n";
    let after = "# On top.\npolicy: lowest.star\n\ncases:\n  # The first.\n  - name: one # of them\n    point: seed\n    expect: {choose: db-0}  # why\n    members: 3\n\n  - point: seed\n    name: two\n    expect: {choose: [db-0, db-1]}\n\n    # Below.\n    members: [db-0, db-1]\n  - {point: seed, expect: {choose: db-0}}\n  - point: seed\n    expect: {choose: db-0}\n    # Nothing yet.\n    members: 1\n";
    let folder = folder(&[("lowest.star", LOWEST), ("cases.yaml", before)]);
    let tested = test(&tools(), folder.path(), &Options { update: true, ..Options::default() }).unwrap();
    assert_eq!(
        tested.cases().map(|case| (case.passed, case.updated)).collect::<Vec<_>>(),
        [(true, true), (true, true), (true, false), (true, true)]
    );
    assert_eq!(fs::read_to_string(folder.path().join("cases.yaml")).unwrap(), after);
    assert_eq!(run(folder.path()).unwrap().counts(), (4, 4));
}

// P41: a file that `--update` cannot change in place stays as it was.
#[test]
fn update_writes_nothing_where_it_cannot_change_a_case_in_place() {
    for before in [
        "cases:\n  - {point: seed, members: 3, expect: {choose: db-2}}\n",
        // The key has a line of its own, and the brace that ends the case stands behind its value.
        "cases:\n  - {point: seed,\n    members: 3,\n    expect: {choose: db-2}}\n",
    ] {
        let folder = folder(&[("lowest.star", LOWEST), ("cases.yaml", before)]);
        let options = Options { update: true, ..Options::default() };
        let said = test(&tools(), folder.path(), &options).unwrap_err().to_string();
        assert!(said.contains("cases.yaml:2:") && said.contains("cannot be changed in place"), "{said}");
        assert_eq!(fs::read_to_string(folder.path().join("cases.yaml")).unwrap(), before);
    }
}

#[test]
fn reasons_with_any_characters_are_written_so_that_they_read_back() {
    let script = r#"
def seed(s):
    return wait("say \"no\": {it} # isn't [over], ü")
"#;
    let before = "cases:\n  - point: seed\n    expect: {wait: yes it is}\n";
    let folder = folder(&[("a.star", script), ("cases.yaml", before)]);
    test(&tools(), folder.path(), &Options { update: true, ..Options::default() }).unwrap();
    assert_eq!(
        run(folder.path()).unwrap().counts(),
        (1, 1),
        "{}",
        fs::read_to_string(folder.path().join("cases.yaml")).unwrap()
    );
    let text = fs::read_to_string(folder.path().join("cases.yaml")).unwrap();
    assert!(Cases::parse("cases.yaml", text).is_ok());
}

#[test]
fn the_policy_is_the_one_that_is_named_or_the_only_one() {
    let cases = "cases:\n  - {point: seed, expect: {choose: db-0}}\n";
    let named = format!("policy: b.star\n{cases}");
    let empty = "def join(s):\n    pass\n";
    assert_eq!(
        error(&[("x.txt", "")]),
        "DIR has no cases: write them into DIR/cases.yaml, NAME.cases.yaml or cases/NAME.yaml (docs/policies.md)"
    );
    assert!(error(&[("cases.yaml", cases)]).contains("no policy is named"));
    let several = error(&[("a.star", LOWEST), ("b.star", empty), ("cases.yaml", cases)]);
    assert!(several.contains("there are several policies (DIR/a.star, DIR/b.star)"), "{several}");
    let missing = error(&[("a.star", LOWEST), ("cases.yaml", &named)]);
    assert_eq!(missing, "DIR/cases.yaml:1:9: there is no policy DIR/b.star; build it, or correct the name");
    let found = folder(&[("a.star", empty), ("b.star", LOWEST), ("x.cases.yaml", &named)]);
    assert_eq!(run(found.path()).unwrap().counts(), (1, 1));
    let below =
        folder(&[("a.star", LOWEST), ("cases/one.yaml", cases), ("cases/two.yml", cases), ("other.yaml", "a: b")]);
    assert_eq!(run(below.path()).unwrap().counts(), (2, 2));
    // The one of the command line goes first.
    let options = Options { policy: Some(below.path().join("a.star")), ..Options::default() };
    let other = folder(&[("b.star", empty), ("cases.yaml", cases)]);
    assert_eq!(test(&tools(), other.path(), &options).unwrap().counts(), (1, 1));
}

#[test]
fn parameters_are_checked_and_each_case_may_have_its_own() {
    let text = "policy: prefer.wasm\nparameters: {member: db-1}\ncases:\n  - {point: seed, expect: {choose: db-1}}\n  - {point: seed, parameters: {member: db-2}, expect: {choose: db-2}}\n";
    let well = folder(&[("cases.yaml", text)]);
    fs::copy(built("prefer"), well.path().join("prefer.wasm")).unwrap();
    assert_eq!(run(well.path()).unwrap().counts(), (2, 2));
    fs::write(well.path().join("cases.yaml"), text.replace("member: db-2", "membr: db-2")).unwrap();
    let said = run(well.path()).unwrap_err().to_string();
    assert!(said.contains("cases.yaml:5:") && said.contains("the parameters do not fit the policy prefer"), "{said}");
}

const GROUP: &str = "apiVersion: v1\nkind: ConfigMap\n---\napiVersion: tanist.dev/v1alpha1\nkind: ReplicaGroup\nmetadata: {name: db}\nspec:\n  replicas: 3\n  policies:\n";

// P13: the stack of a group has `sequence` at its end.
#[test]
fn the_stack_of_a_manifest_is_asked_with_its_parameters() {
    let cases = "group: group.yaml\ncases:\n  - {point: seed, expect: {choose: db-2}}\n  - {point: join, expect: {choose: db-1}}\n";
    let group = format!("{GROUP}    - file: prefer.wasm\n      points: [seed]\n      parameters: {{member: db-2}}\n");
    let files = folder(&[("group.yaml", &group), ("cases.yaml", cases)]);
    fs::copy(built("prefer"), files.path().join("prefer.wasm")).unwrap();
    let tested = run(files.path()).unwrap();
    assert_eq!(tested.counts(), (2, 2), "{tested:?}");
    let ran = tested.files[0].cases[0].ran.as_ref().unwrap();
    let names: Vec<_> = ran.layers.iter().map(|layer| layer.policy.source.as_str()).collect();
    assert_eq!(names, ["file/prefer.wasm", "builtin/sequence"], "the built-in is asked last");
    // Listed with points it is not the last one; without points it is, and is there once.
    for (policies, sources) in [
        ("    - {builtin: sequence, points: [join]}\n", 2),
        ("    - {builtin: sequence, parameters: {prefer: [db-2]}}\n", 1),
    ] {
        fs::write(files.path().join("group.yaml"), format!("{GROUP}{policies}")).unwrap();
        let tested = run(files.path()).unwrap();
        assert_eq!(tested.files[0].cases[1].ran.as_ref().unwrap().layers.len(), sources, "{policies}");
    }
}

// P2: an image is refused with a sentence, as everything that is not here.
#[test]
fn what_a_manifest_names_and_is_not_here_is_refused_with_advice() {
    for (policy, words) in [
        ("configMap: {name: mine, key: mine.star}", "kubectl get configmap mine"),
        ("image: r/n@sha256:0", "not supported yet"),
        ("builtin: sequnce", "there is no built-in policy sequnce"),
        ("builtin: sequence\n      file: a.star", "exactly one of"),
        ("fiel: a.star", "fiel"),
        ("builtin: sequence\n      parameters: {preffer: []}", "the parameters do not fit the policy sequence"),
    ] {
        let group = format!("{GROUP}    - {policy}\n");
        let said = error(&[("g.yaml", &group), ("cases.yaml", "group: g.yaml\ncases: [{point: seed}]\n")]);
        assert!(said.starts_with("DIR/g.yaml:10:") || said.starts_with("DIR/g.yaml:11:"), "{said}");
        assert!(said.contains(words), "{said}");
    }
    let none = error(&[("g.yaml", "kind: Pod\n"), ("cases.yaml", "group: g.yaml\ncases: [{point: seed}]\n")]);
    assert!(none.contains("it has no ReplicaGroup"), "{none}");
}

// P26, P27: the built-in scripts answer the cases beside them.
#[test]
fn the_built_in_scripts_answer_their_cases() {
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    for name in ["patroni", "quorum", "sentinel", "zones"] {
        let tested = run(&policies.join(name)).unwrap();
        let failed: Vec<_> = tested.cases().filter(|case| !case.passed).collect();
        assert!(failed.is_empty(), "{name}: {failed:?}");
    }
}
