//! What a script is given: the fields of the contract, by its names, and the table in policies/starlark/README.md that says so.

use std::{collections::BTreeSet, fs, path::PathBuf};

use tanist_core::{
    contract::{Condition, Failure, Member, Outcome, Phase, Position, Role, Sequence, Snapshot, Transition},
    policy::Point,
};
use wit_parser::{Resolve, TypeDefKind};

use crate::{
    ask, common,
    common::{contract, member, snapshot},
    computed,
};

/// The records of the contract that a script sees, and how it reaches one of each in [`full`].
const RECORDS: [(&str, &str, &str); 7] = [
    ("snapshot", "s", "s"),
    ("group", "s.group", "s.group"),
    ("member", "m", "s.members[0]"),
    ("sequence", "sequence", "s.members[0].position.sequence"),
    ("condition", "condition", "s.members[0].conditions[0]"),
    ("failure", "failure", "s.members[0].last_failure"),
    ("transition", "transition", "s.history[0]"),
];
/// What a script has beside the fields of the contract.
const MORE: [&str; 11] = [
    "s.eligible()",
    "m.data",
    "m.label(name)",
    "m.fact(name)",
    "s.group.label(name)",
    "s.group.fact(name)",
    "failure.code",
    "position.state",
    "position.sequence",
    "position.why",
    "data.number",
];

/// The fields of a record of the contract, with `_` for `-`.
fn fields(record: &str) -> Vec<String> {
    let mut resolve = Resolve::default();
    resolve.push_str("policy.wit", &contract()).unwrap();
    let found = resolve.types.iter().find(|(_, each)| each.name.as_deref() == Some(record));
    let TypeDefKind::Record(record) = &found.unwrap().1.kind else { panic!("{record} is no record") };
    record.fields.iter().map(|field| field.name.replace('-', "_")).collect()
}

/// A snapshot in which nothing is absent.
fn full() -> Snapshot {
    let sequence = Sequence { history: Some("h".to_owned()), number: u64::MAX };
    let mut story = snapshot(vec![Member {
        name: "db-0".into(),
        ordinal: 7,
        phase: Phase::Unreachable,
        phase_since: -1,
        ready: true,
        role: Role::Failed,
        role_since: 2,
        role_detail: Some("why".to_owned()),
        last_primary: Some(3),
        term: Some(u64::MAX),
        position: Position::Known(sequence.clone()),
        node: Some("n1".to_owned()),
        zone: Some("z1".to_owned()),
        failures: 5,
        last_failure: Some(Failure { command: "stop".to_owned(), outcome: Outcome::Exited(-1), at: 6 }),
        marked: Some(8),
        conditions: vec![Condition { name: "c".to_owned(), since: 9, detail: Some("d".to_owned()) }],
        labels: vec![("l".to_owned(), "v".to_owned())],
        facts: vec![("f".to_owned(), "w".to_owned())],
        barred: Some("b".to_owned()),
    }]);
    story.group.preferred_primary = Some("db-0".into());
    story.group.high_water = Some(sequence);
    story.group.term = 4;
    story.group.labels = vec![("gl".to_owned(), "gv".to_owned())];
    story.group.facts = vec![("gf".to_owned(), "gw".to_owned())];
    story.history = vec![Transition {
        at: 10,
        what: "pod-deleted".to_owned(),
        member: Some("db-0".into()),
        detail: Some("e".to_owned()),
    }];
    story
}

// P30: a script sees the contract's snapshot field by field.
#[test]
fn a_script_has_every_field_of_the_contract_and_no_other() {
    let extra = |record: &str| match record {
        "snapshot" => vec!["eligible"],
        "group" => vec!["fact", "label"],
        "member" => vec!["data", "fact", "label"],
        "failure" => vec!["code"],
        _ => vec![],
    };
    for (record, _, path) in RECORDS {
        let mut expected: BTreeSet<String> = fields(record).into_iter().collect();
        expected.extend(extra(record).into_iter().map(str::to_owned));
        let missing: Vec<_> = expected
            .iter()
            .filter(|field| computed(&format!("hasattr({path}, '{field}')"), full()) != "True")
            .collect();
        assert!(missing.is_empty(), "{record}: {missing:?}");
        assert_eq!(computed(&format!("len(dir({path}))"), full()), expected.len().to_string(), "{record}");
    }
}

// P30: as its type, up to the ends of the range.
#[test]
fn every_value_arrives() {
    for (expression, value) in [
        ("[s.now, s.parameters]", "[1000, {}]"),
        ("[s.group.name, s.group.namespace, s.group.replicas, s.group.primaries]", r#"["db", "default", 1, 1]"#),
        ("[s.group.has_secondaries, s.group.term, s.group.preferred_primary]", r#"[True, 4, "db-0"]"#),
        ("[s.group.high_water.history, s.group.high_water.number]", r#"["h", 18446744073709551615]"#),
        (
            "[s.group.labels, s.group.facts, s.group.label('gl'), s.group.fact('x')]",
            r#"[{"gl": "gv"}, {"gf": "gw"}, "gv", None]"#,
        ),
        (
            "[s.members[0].name, s.members[0].ordinal, s.members[0].phase, s.members[0].phase_since]",
            r#"["db-0", 7, "unreachable", -1]"#,
        ),
        (
            "[s.members[0].ready, s.members[0].role, s.members[0].role_since, s.members[0].role_detail]",
            r#"[True, "failed", 2, "why"]"#,
        ),
        (
            "[s.members[0].last_primary, s.members[0].term, s.members[0].node, s.members[0].zone]",
            r#"[3, 18446744073709551615, "n1", "z1"]"#,
        ),
        (
            "[s.members[0].position.state, s.members[0].position.sequence.number, s.members[0].position.why]",
            r#"["known", 18446744073709551615, None]"#,
        ),
        (
            "[s.members[0].failures, s.members[0].last_failure.command, s.members[0].last_failure.outcome]",
            r#"[5, "stop", "exited"]"#,
        ),
        ("[s.members[0].last_failure.code, s.members[0].last_failure.at, s.members[0].marked]", "[-1, 6, 8]"),
        (
            "[s.members[0].conditions[0].name, s.members[0].conditions[0].since, s.members[0].conditions[0].detail]",
            r#"["c", 9, "d"]"#,
        ),
        (
            "[s.members[0].labels, s.members[0].facts, s.members[0].label('l'), s.members[0].fact('f')]",
            r#"[{"l": "v"}, {"f": "w"}, "v", "w"]"#,
        ),
        ("[s.members[0].label('x'), s.members[0].barred, s.eligible()]", r#"[None, "b", []]"#),
        (
            "[s.members[0].data.term, s.members[0].data.number, s.members[0].data.history]",
            r#"[18446744073709551615, 18446744073709551615, "h"]"#,
        ),
        (
            "[s.history[0].at, s.history[0].what, s.history[0].member, s.history[0].detail]",
            r#"[10, "pod-deleted", "db-0", "e"]"#,
        ),
    ] {
        assert_eq!(computed(expression, full()), value, "{expression}");
    }
}

// P30: absent is None, and never a value.
#[test]
fn what_is_absent_is_none() {
    let story = || snapshot(vec![Member { position: Position::Empty, ..member(0, 0) }]);
    let absent = "[s.members[0].role_detail, s.members[0].last_primary, s.members[0].term, s.members[0].node, s.members[0].zone, s.members[0].last_failure, s.members[0].marked, s.members[0].barred, s.members[0].position.sequence, s.members[0].data.number, s.group.high_water]";
    assert_eq!(computed(absent, story()), format!("[{}]", ["None"; 11].join(", ")));
    for (position, state) in
        [(Position::Empty, "empty"), (Position::NotAsked, "not-asked"), (Position::Unknown("no".to_owned()), "unknown")]
    {
        let story = snapshot(vec![Member { position, ..member(0, 0) }]);
        assert_eq!(computed("s.members[0].position.state", story), state);
    }
}

// P30: the README is the manual of a script's author: it lists what there is, and nothing else.
#[test]
fn the_readme_lists_what_a_script_is_given() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../policies/starlark/README.md");
    let readme = fs::read_to_string(path).unwrap();
    let listed: BTreeSet<&str> =
        readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |").map(|(name, _)| name)).collect();
    let mut given: BTreeSet<String> = MORE.into_iter().map(str::to_owned).collect();
    given.extend(["data.term", "data.history"].map(str::to_owned));
    for (record, prefix, _) in RECORDS {
        given.extend(fields(record).into_iter().map(|field| format!("{prefix}.{field}")));
    }
    let listed: BTreeSet<String> =
        listed.into_iter().filter(|name| name.contains('.') && !name.contains("...")).map(str::to_owned).collect();
    assert_eq!(listed, given);
}

// The limit of memory is for the members that a group may have.
#[test]
fn a_script_reads_a_thousand_members() {
    let members = (0..1_000).map(|ordinal| Member {
        labels: vec![("rack".to_owned(), format!("r{}", ordinal % 7))],
        ..common::member(ordinal, 9)
    });
    let text = "def seed(s):\n    best = sorted(s.eligible(), key = lambda m: (m.label('rack') != 'r3', m.ordinal))\n    return choose(best, 'by rack')\n";
    let answered = ask(text, Point::Seed, snapshot(members.collect())).unwrap();
    assert_eq!(crate::names(answered)[..2], ["db-3", "db-10"]);
}
