//! The form of cases. What is misspelt is an error with its place: a case that silently tests something else is worse than none.

use tanist_author::{Error, case::Cases};

fn refused(text: &str) -> String {
    match Cases::parse("cases.yaml", text.to_owned()) {
        Err(error @ Error::Wrong { .. }) => error.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("this must be refused:\n{text}"),
    }
}

fn refused_case(lines: &str) -> String {
    let lines = lines.lines().map(|line| format!("    {line}\n")).collect::<String>();
    refused(&format!("cases:\n  - point: seed\n{lines}"))
}

// P41: a misspelt key.
#[test]
fn unknown_keys_are_errors_with_their_line() {
    for (text, line, word) in [
        ("cases: [{point: seed}]\npolicies: x\n", 2, "policies"),
        ("cases:\n  - point: seed\n    nmae: x\n", 3, "nmae"),
        ("cases:\n  - point: seed\n    group:\n      replica: 3\n", 4, "replica"),
        ("cases:\n  - point: seed\n    members:\n      db-0:\n        dta: 3\n", 5, "dta"),
        ("cases:\n  - point: seed\n    members:\n      db-0: {data: 1}\n      db-1: {zon: a}\n", 5, "zon"),
        ("cases:\n  - point: seed\n    history:\n      - {at: -1, waht: x}\n", 4, "waht"),
        ("cases:\n  - point: seed\n    expect: {chose: db-0}\n", 3, "chose"),
    ] {
        let said = refused(text);
        assert!(said.starts_with(&format!("cases.yaml:{line}:")) && said.contains(word), "{said}\n{text}");
        assert!(!said.contains('\n'), "one line: {said}");
    }
}

// P41: a misspelt word.
#[test]
fn unknown_points_and_words_are_errors_with_their_line() {
    for (text, line, words) in [
        ("cases:\n  - name: a\n    point: sede\n", 3, "sede"),
        ("cases:\n  - point: seed\n    members:\n      db-0: {role: leader}\n", 4, "leader"),
        (
            "cases:\n  - point: seed\n    members:\n      db-0: {data: 1x}\n",
            4,
            "1x is no data: write [HISTORY:]NUMBER, EMPTY",
        ),
        ("cases:\n  - point: seed\n    members:\n      db-0: nine\n", 4, "nine is no data"),
        ("cases:\n  - point: seed\n    expect: choos\n", 3, "choos is no answer"),
        ("cases:\n  - point: treat\n    expect: {treat: {db-0: kill}}\n", 3, "kill"),
    ] {
        let said = refused(text);
        assert!(said.starts_with(&format!("cases.yaml:{line}:")) && said.contains(words), "{said}\n{text}");
    }
}

// P41: a misspelt name.
#[test]
fn names_that_are_no_members_are_errors_with_their_line() {
    for (lines, line, word) in [
        ("expect: {choose: db-3}", 3, "db-3 is not a member of this case; its members are db-0, db-1, db-2"),
        ("expect: {choose: [db-0, db-9]}", 3, "db-9"),
        ("members: 2\nexpect: {choose: db-2}", 4, "db-2"),
        ("group: {preferred-primary: db-7}", 3, "db-7"),
        ("history:\n  - {at: -1, what: x, member: db-8}", 4, "db-8"),
    ] {
        let said = refused_case(lines);
        assert!(said.starts_with(&format!("cases.yaml:{line}:")) && said.contains(word), "{said}\n{lines}");
    }
    let treat = refused("cases:\n  - point: treat\n    expect: {treat: {db-5: stop}}\n");
    assert!(treat.starts_with("cases.yaml:3:") && treat.contains("db-5"), "{treat}");
}

#[test]
fn members_are_those_of_one_group() {
    for (lines, line, words) in [
        ("members: [db-0, web-1]", 3, "web-1 is not a member of the group db"),
        ("members: [db-0, db-0]", 3, "db-0 is listed twice"),
        ("members:\n  db-0: 1\n  db-0: 2", 5, "db-0"),
        ("members: [db-01]", 3, "db-01 is no name of a member"),
        ("members: [primary]", 3, "primary is no name of a member"),
        ("members: 0", 2, "it has 0 members; a group has 1 to 1000"),
        ("members: 1001", 2, "it has 1001 members"),
        ("group: {name: web}\nmembers: [db-0]", 4, "db-0 is not a member of the group web"),
        ("members:\n  db-0: {reachable: false, phase: missing}", 4, "not both"),
    ] {
        let said = refused_case(lines);
        assert!(said.starts_with(&format!("cases.yaml:{line}:")) && said.contains(words), "{said}\n{lines}");
    }
}

#[test]
fn an_expectation_is_one_answer_that_the_question_can_have() {
    for (lines, words) in [
        ("expect: {choose: db-0, refuse: x}", "exactly one of"),
        ("expect: {}", "exactly one of"),
        ("expect: {wait: x, reason: y}", "`reason` stands beside"),
        ("expect: {refuse: x, until: 5}", "`until` stands beside"),
        ("expect: {treat: {db-0: stop}}", "the answer to seed is `choose`"),
    ] {
        let said = refused_case(lines);
        assert!(said.starts_with("cases.yaml:3:") && said.contains(words), "{said}\n{lines}");
    }
    let treat = refused("cases:\n  - point: treat\n    expect: {choose: db-0}\n");
    assert!(treat.contains("the answer to treat is"), "{treat}");
}

#[test]
fn a_file_has_cases_of_different_names() {
    assert!(refused("cases: []\n").contains("it has 0 cases"));
    let twice = refused("cases:\n  - {name: a, point: seed}\n  - {name: b, point: seed}\n  - {name: a, point: seed}\n");
    assert!(twice.starts_with("cases.yaml:4:") && twice.contains("the case in line 2 is called `a` too"), "{twice}");
    let both = refused("policy: a.star\ngroup: g.yaml\ncases: [{point: seed}]\n");
    assert!(both.starts_with("cases.yaml:1:") && both.contains("not both"), "{both}");
    assert!(refused("cases:\n  - point: [\n").starts_with("cases.yaml:"));
}
