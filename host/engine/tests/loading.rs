//! What is loaded and what is refused, with which words.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use std::{collections::BTreeMap, sync::Arc};

use common::{Guest, ask, built, component, contract, engine, layer, load, snapshot};
use tanist_core::contract::Answer;
use tanist_core::policy::{Point, Policies as _, Reply};
use tanist_engine::{Engine, Layer, Limits, LoadError, Policy, Stack};
use wit_component::WitPrinter;
use wit_parser::Resolve;

fn refusal(bytes: &[u8]) -> (&'static str, String) {
    let error = Policy::load(&engine(), "test/bytes", bytes).unwrap_err();
    let mut message = error.to_string();
    if let Some(source) = std::error::Error::source(&error) {
        message = format!("{message}: {source}");
    }
    (error.kind(), message)
}

fn refusal_of(guest: &Guest) -> (&'static str, String) {
    refusal(&guest.build())
}

#[test]
fn a_policy_that_has_one_interface_is_loaded() {
    let policy = Guest::default().load().unwrap();
    assert_eq!(policy.points().collect::<Vec<_>>(), [Point::Seed, Point::Failover, Point::Join, Point::Demote]);
    assert_eq!(policy.name().to_string(), "tiny 1.0.0 (test/guest)");
    assert!(policy.name().digest.starts_with("sha256:") && policy.name().digest.len() == 71);
    let stack = Stack::new(vec![layer(&Arc::new(policy), "{}")]);
    assert_eq!(ask(&stack, Point::Treat, &snapshot(vec![])).unwrap_err().kind, "no-policy");
    assert_eq!(ask(&stack, Point::Seed, &snapshot(vec![])).unwrap_err().kind, "abstained-all");
}

#[test]
fn all_built_policies_are_loaded() {
    let engine = engine();
    for name in ["sequence", "reversed", "prefer", "hostile"] {
        let policy = load(&engine, name);
        assert_eq!(policy.name().name, name);
        let has = |point: &Point| !point.is_optional() || name == "hostile";
        assert!(policy.points().eq(Point::ALL.into_iter().filter(has)), "{name}");
    }
}

#[test]
fn the_built_in_policy_fits_into_a_fraction_of_a_config_map() {
    assert!(built("sequence").len() < 100_000, "{}", built("sequence").len());
}

#[test]
fn instances_that_hold_only_types_may_be_imported() {
    let contract =
        contract().replace("world election-only {\n    export types;", "world election-only {\n    import types;");
    let bytes = component(&Guest::default().module(), &contract, "election-only");
    assert!(Policy::load(&engine(), "test/imports-types", &bytes).is_ok());
}

// P23: another patch release of the contract is the same contract.
#[test]
fn patch_releases_of_the_contract_are_served() {
    assert!(Guest { version: "0.1.7", ..Guest::default() }.load().is_ok());
}

/// The contract as version 0.1.0 was released.
const RELEASED: &str = include_str!("../../../wit/released/policy-0.1.0.wit");

/// The same of 0.1.1.
const SECOND: &str = include_str!("../../../wit/released/policy-0.1.1.wit");

/// The same of 0.1.2.
const THIRD: &str = include_str!("../../../wit/released/policy-0.1.2.wit");

/// The same of 0.1.3.
const FOURTH: &str = include_str!("../../../wit/released/policy-0.1.3.wit");

/// The same of 0.1.4.
const FIFTH: &str = include_str!("../../../wit/released/policy-0.1.4.wit");

/// Each interface of a contract, without its comments.
fn interfaces(contract: &str) -> BTreeMap<String, String> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", contract).unwrap();
    let print = |id| {
        let mut printer = WitPrinter::default();
        printer.emit_docs(false);
        printer.print_interface(&resolve, id).unwrap();
        String::from(printer.output)
    };
    resolve.packages[package].interfaces.iter().map(|(name, id)| (name.clone(), print(*id))).collect()
}

// P23: wit/policy.wit, "HOW IT CHANGES": a published interface never changes, because for a component it would be another one.
#[test]
fn released_interfaces_are_as_they_were() {
    let (released, present) = (interfaces(RELEASED), interfaces(&contract()));
    assert_eq!(released.len(), 7, "about, election, interpreter, notes, placement, recovery, types");
    let second = interfaces(SECOND);
    assert!(second.len() == 8 && second.contains_key("switchover"), "those of 0.1.0, and switchover");
    let third = interfaces(THIRD);
    assert!(third.len() == 9 && third.contains_key("rebalance"), "those of 0.1.1, and rebalance");
    let fourth = interfaces(FOURTH);
    assert!(fourth.len() == 10 && fourth.contains_key("rollout"), "those of 0.1.2, and rollout");
    let fifth = interfaces(FIFTH);
    assert!(fifth.len() == 11 && fifth.contains_key("scaling"), "those of 0.1.3, and scaling");
    for (name, text) in released.iter().chain(&second).chain(&third).chain(&fourth).chain(&fifth) {
        assert_eq!(present.get(name), Some(text), "{name} was changed; add an interface or a package version instead");
    }
    // The comparison sees a field more, and no comment.
    let changed = RELEASED.replace("ready: bool,", "ready: bool,\n        more: bool,");
    assert_ne!(interfaces(&changed)["types"], released["types"]);
    let commented = RELEASED.replace("ready: bool,", "/// Whether.\n        ready: bool,");
    assert_eq!(interfaces(&commented), released);
}

// P23: what was built when 0.1.0 was released goes on deciding.
#[test]
fn a_policy_of_the_first_release_is_loaded() {
    let guest = Guest { version: "0.1.0", ..Guest::default() };
    let bytes = component(&guest.module(), RELEASED, "election-only");
    let policy = Policy::load(&engine(), "test/first", &bytes).unwrap();
    assert_eq!(policy.points().count(), 4);
    let stack = Stack::new(vec![layer(&Arc::new(policy), "{}")]);
    assert_eq!(ask(&stack, Point::Seed, &snapshot(vec![])).unwrap_err().kind, "abstained-all");
}

// wit/policy.wit, "HOW IT CHANGES": a patch release adds interfaces. A policy that has one of a later release decides what this host asks, also after the operator
// was rolled back; a name that this release should know is a mistake.
#[test]
fn an_interface_of_a_later_patch_release_is_never_asked() {
    let later = "interface repair {\n    use types.{snapshot, answer, fault};\n    grow: func(snapshot: snapshot) -> result<answer, fault>;\n}\n";
    let with = |version: &str| {
        let text = contract().replace("tanist:policy@0.1.4", &format!("tanist:policy@{version}"));
        let text = text.replace("world election-only {", &format!("{later}world election-only {{\n    export repair;"));
        let export = format!(
            "(func (export \"tanist:policy/repair@{version}#grow\") (param i32) (result i32) unreachable)
             (func (export \"cabi_post_tanist:policy/repair@{version}#grow\") (param i32))"
        );
        let version = version.to_owned().leak();
        // Room for 1,000 members.
        let guest = Guest { version, extra: export.leak(), pages: 64, ..Guest::default() };
        component(&guest.module(), &text, "election-only")
    };
    let policy = Policy::load(&engine(), "test/later", &with("0.1.7")).unwrap();
    assert_eq!(policy.later_interfaces(), ["tanist:policy/repair@0.1.7"]);
    assert_eq!(policy.points().count(), 4);
    let exam = tanist_engine::exam(&policy, None, &tanist_engine::ExamLimits::UNHURRIED);
    assert!(exam.passed(), "{exam}");
    let said = exam.not_examined.iter().filter(|said| said.contains("repair@0.1.7")).count();
    assert_eq!(said, 1, "{:?}", exam.not_examined);

    let (kind, message) = refusal(&with("0.1.4"));
    assert_eq!(kind, "unserved");
    assert!(message.starts_with("it uses tanist:policy/repair@0.1.4"), "{message}");
}

/// A component that exports this optional interface alone beside `about`, and chooses the member `db-1`.
fn only(interface: &str, contract: &str) -> Vec<u8> {
    only_with(interface, &[interface], contract)
}

/// The same, whose interface has these functions.
fn only_with(interface: &str, functions: &[&str], contract: &str) -> Vec<u8> {
    let guest = Guest { pages: 64, ..Guest::default() };
    let module = guest.module();
    let (about, _) = module.split_once("(func (export \"tanist:policy/election").unwrap();
    let function = |name: &&str| {
        format!(r#"(func (export "tanist:policy/{interface}@0.1.4#{name}") (param i32) (result i32) (i32.const 3200))"#)
    };
    let functions = functions.iter().map(function).collect::<String>();
    // A ranking of one candidate at 3072, without a source: `db-1`, because `now`.
    let module = format!(
        r#"{about}
            (data (i32.const 3000) "db-1now")
            (data (i32.const 3072) "\b8\0b\00\00\04\00\00\00\bc\0b\00\00\03\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00")
            (data (i32.const 3200) "\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\0c\00\00\01\00\00\00\00\00\00\00\00\00\00\00")
            {functions})"#
    );
    component(&module, contract, &format!("{interface}-only"))
}

// P24, P50: wit/policy.wit, `switchover` and `rebalance`: a policy may have one of these questions alone, and is asked nothing else.
#[test]
fn a_policy_may_have_an_optional_question_alone() {
    for (point, other) in [(Point::Switchover, Point::Rebalance), (Point::Rebalance, Point::Switchover)] {
        let policy = Arc::new(Policy::load(&engine(), "test/one", &only(point.as_str(), &contract())).unwrap());
        assert_eq!(policy.points().collect::<Vec<_>>(), [point]);
        let stack = Stack::new(vec![layer(&policy, "{}")]);
        assert!(stack.has(point) && !stack.has(other));
        let asked = snapshot(vec![common::member(0, 9), common::member(1, 9)]);
        let reply = ask(&stack, point, &asked).unwrap().reply;
        let Reply::Answer(Answer::Choose(ranking)) = reply else { panic!("{reply:?}") };
        assert_eq!((ranking.candidates[0].member.as_str(), ranking.candidates[0].reason.as_str()), ("db-1", "now"));
        assert_eq!(ask(&stack, Point::Failover, &asked).unwrap_err().kind, "no-policy");
    }
}

// P52: wit/policy.wit, `rollout`: a policy may have the two questions of an update alone.
#[test]
fn a_policy_may_have_the_questions_of_an_update_alone() {
    let component = only_with("rollout", &["update", "judge"], &contract());
    let policy = Arc::new(Policy::load(&engine(), "test/rollout", &component).unwrap());
    assert_eq!(policy.points().collect::<Vec<_>>(), [Point::Update, Point::Judge]);
    let stack = Stack::new(vec![layer(&policy, "{}")]);
    let asked = snapshot(vec![common::member(0, 9), common::member(1, 9)]);
    for point in [Point::Update, Point::Judge] {
        let reply = ask(&stack, point, &asked).unwrap().reply;
        let Reply::Answer(Answer::Choose(ranking)) = reply else { panic!("{reply:?}") };
        assert_eq!(ranking.candidates[0].member.as_str(), "db-1");
    }
    assert!(!stack.has(Point::Switchover) && ask(&stack, Point::Failover, &asked).is_err());
    let declared = "judge: func(snapshot: snapshot) -> result<answer, fault>;";
    let changed = contract().replacen(declared, &declared.replace("result<answer, fault>", "result<fault, answer>"), 1);
    assert_ne!(changed, contract());
    let (kind, message) = refusal(&only_with("rollout", &["update", "judge"], &changed));
    assert_eq!(kind, "type", "{message}");
}

// P53: wit/policy.wit, `scaling`: a policy may have the two questions about the number of members alone.
#[test]
fn a_policy_may_have_the_questions_about_the_number_of_members_alone() {
    let component = only_with("scaling", &["admit", "order"], &contract());
    let policy = Arc::new(Policy::load(&engine(), "test/scaling", &component).unwrap());
    assert_eq!(policy.points().collect::<Vec<_>>(), [Point::Admit, Point::Order]);
    let stack = Stack::new(vec![layer(&policy, "{}")]);
    let asked = snapshot(vec![common::member(0, 9), common::member(1, 9)]);
    for point in [Point::Admit, Point::Order] {
        let reply = ask(&stack, point, &asked).unwrap().reply;
        let Reply::Answer(Answer::Choose(ranking)) = reply else { panic!("{reply:?}") };
        assert_eq!(ranking.candidates[0].member.as_str(), "db-1");
    }
    assert!(!stack.has(Point::Judge) && ask(&stack, Point::Failover, &asked).is_err());
    let declared = "order: func(snapshot: snapshot) -> result<answer, fault>;";
    let changed = contract().replacen(declared, &declared.replace("result<answer, fault>", "result<fault, answer>"), 1);
    assert_ne!(changed, contract());
    let (kind, message) = refusal(&only_with("scaling", &["admit", "order"], &changed));
    assert_eq!(kind, "type", "{message}");
}

// A component that was built for the contract before it, in which another interface is optional, goes on as it is.
#[test]
fn a_policy_of_the_second_release_is_loaded() {
    let guest = Guest { version: "0.1.1", ..Guest::default() };
    let bytes = component(&guest.module(), SECOND, "election-only");
    let policy = Policy::load(&engine(), "test/second", &bytes).unwrap();
    assert_eq!(policy.points().count(), 4);
}

// P24: a question that arises all the time is put only to who has it: everybody else costs nothing.
#[test]
fn a_stack_says_whether_a_policy_has_the_question_about_the_lead() {
    let engine = engine();
    let (sequence, hostile) = (load(&engine, "sequence"), load(&engine, "hostile"));
    let stack = |layers: Vec<Layer>| Stack::new(layers).has(Point::Switchover);
    assert!(!stack(vec![layer(&sequence, "{}")]) && Stack::new(vec![]).has(Point::Seed));
    let told = layer(&hostile, r#"{"do":"wait"}"#);
    assert!(stack(vec![layer(&sequence, "{}"), told.clone()]));
    let restricted = Layer { points: Some(vec![Point::Seed]), ..told };
    assert!(!stack(vec![restricted, layer(&sequence, "{}")]), "the group does not ask it there");
}

#[test]
fn an_optional_question_of_another_type_is_refused() {
    for name in ["switchover", "rebalance"] {
        let declared = format!("{name}: func(snapshot: snapshot) -> result<answer, fault>;");
        let changed = declared.replace("result<answer, fault>", "result<fault, answer>");
        let changed = contract().replacen(&declared, &changed, 1);
        assert_ne!(changed, contract());
        let (kind, message) = refusal(&only(name, &changed));
        assert_eq!(kind, "type", "{message}");
        assert!(message.contains(&format!("its tanist:policy/{name} is not that of the contract")), "{message}");
    }
}

#[test]
fn an_interface_of_another_type_is_refused_before_the_first_question() {
    for (from, to, part) in [
        (
            "barred: option<string>,",
            "barred: option<string>, extra: u32,",
            "expected record of 20 fields, found 21 fields",
        ),
        ("not-asked,\n    }", "not-asked, other,\n    }", "variant"),
        ("demote: func(snapshot: snapshot) -> result<answer, fault>;", "", "demote"),
        ("seed: func(snapshot: snapshot)", "seed: func(snapshot: snapshot, extra: u32)", ""),
        (
            "seed: func(snapshot: snapshot) -> result<answer, fault>",
            "seed: func(snapshot: snapshot) -> result<fault, answer>",
            "",
        ),
    ] {
        let changed = contract().replacen(from, to, 1);
        assert_ne!(changed, contract());
        let module = Guest::default().module();
        let (kind, message) = refusal(&component(&module, &changed, "election-only"));
        assert_eq!(kind, "type", "{message}");
        assert!(
            message.contains("its tanist:policy/election is not that of the contract") && message.contains(part),
            "{message}"
        );
    }
}

#[test]
fn descriptions_and_schemas_are_checked() {
    for (guest, kind, part) in [
        (Guest { name: ["", "1.0.0"], ..Guest::default() }, "description", "its name has 0 bytes, 1 to 64 are allowed"),
        (Guest { name: ["\u{1b}[2J", "1.0.0"], ..Guest::default() }, "description", "its name has control characters"),
        (Guest { name: ["tiny", "1"], ..Guest::default() }, "description", "its version `1` is not a semantic version"),
        (Guest { schema: "{", ..Guest::default() }, "schema", "schema: it is not JSON"),
        (
            Guest { schema: r##"{"type":"object","$ref":"#"}"##, ..Guest::default() },
            "schema",
            "schema: `$ref` is not understood",
        ),
    ] {
        let (found, message) = refusal_of(&guest);
        assert_eq!(found, kind);
        assert!(message.contains(part), "{message}");
    }
}

// P16: of a policy that is loaded: what it gets, and what is refused.
#[test]
fn parameters_are_checked_and_brought_into_one_form() {
    let policy = load(&engine(), "sequence");
    assert_eq!(policy.validate("{}").unwrap(), r#"{"prefer":[],"runningFirst":true}"#);
    assert_eq!(
        policy.validate(r#"{"runningFirst": false, "prefer": ["db-2"]}"#).unwrap(),
        r#"{"prefer":["db-2"],"runningFirst":false}"#
    );
    let error = policy.validate(r#"{"prefer":["db-1",2]}"#).unwrap_err();
    assert_eq!(error.to_string(), "parameters.prefer[1]: expected a text, found a whole number");
    assert!(policy.validate(r#"{"order":"lowest"}"#).is_err());
    let none = load(&engine(), "reversed").validate(r#"{"a":1}"#).unwrap_err();
    assert_eq!(none.to_string(), "parameters: this policy takes no parameters");
}

#[test]
fn the_same_bytes_share_what_was_compiled() {
    let engine = engine();
    let first = Policy::load(&engine, "configmap/a/x.wasm", &built("prefer")).unwrap();
    let second = Policy::load(&engine, "configmap/b/x.wasm", &built("prefer")).unwrap();
    // What was compiled holds the description, so that one place means one compilation.
    assert!(std::ptr::eq(first.description(), second.description()));
    assert_eq!(first.name().digest, second.name().digest);
    assert_ne!(first.name().source, second.name().source);
}

#[test]
fn a_smaller_limit_refuses_what_a_larger_accepts() {
    let engine = Engine::new(Limits { component_bytes: 1_000, ..Limits::default() }).unwrap();
    assert!(matches!(Policy::load(&engine, "x", &built("prefer")), Err(LoadError::Size { limit: 1_000, .. })));
}
