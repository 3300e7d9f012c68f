//! Which lines of scripts the cases of a folder ran.

use tanist_author::{
    coverage::Covered,
    suite::{Options, test},
};

use super::{folder, tools};

/// Line 5 is reached by `failover` alone, line 8 by nothing.
const SCRIPT: &str = "def seed(s):
    if not s.group.term:
        return choose(s.eligible())
    # A comment is no line of it.
    return wait('not yet', until = s.now + 5)

def join(s):
    return refuse('nobody joins')

def failover(s):
    return seed(s)
";

const SEED: &str = "cases:\n  - {point: seed, group: {term: 0}, expect: {choose: db-0}}\n";
const FAILOVER: &str = "  - {point: failover, members: {db-0: {role: secondary}}, expect: wait}\n";

/// The lines that ran, of how many, and those that did not.
fn covered(files: &[(&str, &str)]) -> Result<Vec<Covered>, String> {
    let folder = folder(files);
    let options = Options { coverage: true, ..Options::default() };
    let tested = test(&tools(), folder.path(), &options).map_err(|error| error.to_string())?;
    assert!(tested.cases().all(|case| case.passed), "{:?}", tested.cases().collect::<Vec<_>>());
    Ok(tested.coverage.unwrap())
}

// P41: the share of lines that the cases ran, and the lines that no case reached.
#[test]
fn the_lines_that_no_case_reached_are_named() {
    let one = covered(&[("mine.star", SCRIPT), ("cases.yaml", SEED)]).unwrap();
    let expected =
        Covered { source: "file/mine.star".to_owned(), lines: 8, ran: 5, percent: 62, missed: vec![5, 8, 11] };
    assert_eq!(one, [expected]);
    let both = covered(&[("mine.star", SCRIPT), ("cases.yaml", &format!("{SEED}{FAILOVER}"))]).unwrap();
    assert_eq!((both[0].ran, both[0].percent, both[0].missed_in_short().as_str()), (7, 87, "8"));
    assert!(both[0].reaches(87) && !both[0].reaches(88));
}

// What no case asks is shown with nothing, and does not hide behind what is reached.
#[test]
fn a_script_that_is_not_asked_has_no_lines_that_ran() {
    let join = "cases:\n  - {point: place, expect: abstain}\n";
    let none = covered(&[("mine.star", "def join(s):\n    return None\n"), ("cases.yaml", join)]).unwrap();
    assert_eq!((none[0].lines, none[0].ran, none[0].percent), (2, 0, 0));
    assert_eq!(none[0].missed_in_short(), "1-2");
}

// In a cluster a policy below the one that decides is not asked; what is built in is not the author's.
#[test]
fn only_policies_that_are_asked_run_and_built_in_ones_do_not_count() {
    let group = "kind: ReplicaGroup\nspec: {policies: [{file: a.star}, {file: b.star}]}\n";
    let decides = "def seed(s):\n    return refuse('no')\n";
    let cases = "group: group.yaml\ncases:\n  - {point: seed, expect: refuse}\n";
    let files = [("group.yaml", group), ("a.star", decides), ("b.star", decides), ("cases.yaml", cases)];
    let both = covered(&files).unwrap();
    let shown: Vec<_> = both.iter().map(|each| (each.file(), each.ran)).collect();
    assert_eq!(shown, [("a.star", 2), ("b.star", 0)]);
    let cases = "policy: prefer.wasm\nparameters: {member: db-0}\ncases: [{point: seed, expect: {choose: db-0}}]\n";
    let folder = folder(&[("cases.yaml", cases)]);
    std::fs::copy(super::built("prefer"), folder.path().join("prefer.wasm")).unwrap();
    let options = Options { coverage: true, ..Options::default() };
    let said = test(&tools(), folder.path(), &options).unwrap_err().to_string();
    assert!(said.contains("ask no script"), "{said}");
}
