//! What a script says about itself, what it prints, and how its errors read.

use tanist_core::{
    contract::Snapshot,
    policy::{Point, Policies, Question},
};
use tanist_engine::Stack;

use crate::{
    ask, ask_with,
    common::{member, snapshot},
    computed, failure, layer, load, refusal, three,
};

const SEED: &str = "def seed(s): return choose(s.members[0], 'first')\n";

// P29: name, version and summary.
#[test]
fn a_script_is_named_by_its_file_or_by_itself() {
    let plain = load(SEED).unwrap();
    assert_eq!(
        (plain.name().name.as_str(), plain.name().version.as_str(), plain.name().source.as_str()),
        ("mine", "0.0.0", "configmap/rules/mine.star")
    );
    assert!(plain.name().digest.starts_with("sha256:"));
    let named = format!(
        "def describe():\n    return {{'name': 'zones', 'version': '1.2.3', 'summary': 'Zones first.', 'declares': ['chooses-lower-sequence']}}\n{SEED}"
    );
    let named = load(&named).unwrap();
    assert_eq!((named.name().name.as_str(), named.name().version.as_str()), ("zones", "1.2.3"));
    assert_eq!(
        (named.description().summary.as_str(), &named.description().declares[..]),
        ("Zones first.", &["chooses-lower-sequence".to_owned()][..])
    );
}

// P29: a mistake in `describe()` or `parameters` is found when the script is loaded.
#[test]
fn what_a_script_says_about_itself_is_checked() {
    let describing = |what: &str| refusal(&format!("def describe(): return {what}\n{SEED}"));
    assert!(describing("{'nam': 'x'}").contains("describe() has the key \"nam\"; it may have name, version, summary"));
    assert!(describing("'x'").contains("describe() returned a value of type string, expected a dictionary"));
    assert!(describing("{'version': 'one'}").contains("its version `one` is not a semantic version"));
    assert!(
        refusal(&format!("parameters = []\n{SEED}"))
            .contains("parameters has a value of type list, expected a dictionary")
    );
    assert!(refusal(&format!("parameters = {{'type': 'object', 'pattern': 'x'}}\n{SEED}")).contains("pattern"));
}

// P16, P29: parameters of a script are checked as those of a component.
#[test]
fn a_script_gets_parameters_that_its_schema_accepts() {
    let text = "parameters = {'type': 'object', 'properties': {'lag': {'type': 'integer', 'default': 7}}}\n\
                def seed(s): return refuse('%s %s' % (s.parameters['lag'], s.parameters.get('zone')))\n";
    let said = |parameters| format!("{:?}", ask_with(text, parameters, Point::Seed, three()).unwrap().reply);
    assert!(said("{}").contains("7 None") && said(r#"{"lag":3}"#).contains("3 None"));
    assert!(load(text).unwrap().validate(r#"{"lag":"x"}"#).is_err());
}

// P17: what a script prints is in the notes of its decision, also when it fails.
#[test]
fn what_is_printed_is_noted_also_when_the_script_fails() {
    let text = "def seed(s):\n    print('candidates', len(s.eligible()))\n    print('second')\n    return choose(s.members[0])\n";
    assert_eq!(ask(text, Point::Seed, three()).unwrap().notes, ["mine: candidates 3", "mine: second"]);
    let text = "def seed(s):\n    print('before')\n    return s.members[7]\n";
    assert_eq!(ask(text, Point::Seed, three()).unwrap_err().notes, ["mine: before"]);
    let abstains = "def seed(s):\n    print('no opinion')\n";
    assert_eq!(ask(abstains, Point::Seed, three()).unwrap_err().notes, ["mine: no opinion"]);
}

// P17: who abstains has notes, too.
#[test]
fn the_notes_of_all_that_were_asked_are_kept() {
    let first = layer("def seed(s):\n    print('no opinion')\n");
    let second = layer("def seed(s):\n    print('the first')\n    return choose(s.members[0])\n");
    let answered = Stack::new(vec![first, second]).ask(&Question { point: Point::Seed, snapshot: three() }).unwrap();
    assert_eq!(answered.notes, ["mine: no opinion", "mine: the first"]);
}

// P17: 32 notes of 256 bytes.
#[test]
fn notes_are_bounded_and_say_what_was_left_out() {
    let text =
        "def seed(s):\n    for i in range(100): print(i)\n    print('x' * 1000)\n    return choose(s.members[0])\n";
    let notes = ask(text, Point::Seed, three()).unwrap().notes;
    assert_eq!((notes.len(), notes[31].as_str()), (32, "mine: 70 more, 31 are kept"));
    let notes = ask("def seed(s):\n    print('x' * 1000)\n", Point::Seed, three()).unwrap_err().notes;
    assert!(notes[0].len() < 300 && notes[0].ends_with('…'), "{notes:?}");
}

// P32: an error names file, line and column, and who called whom.
#[test]
fn errors_name_the_place_and_the_calls() {
    let text = "def worst(members):\n    return members[9]\n\ndef seed(s):\n    return choose(worst(s.members))\n";
    let said = failure(text);
    assert!(said.contains("(mine.star:2:12)"), "{said}");
    assert!(said.contains("in worst, called from seed (5:19)"), "{said}");
    assert!(said.contains("out of bound") && said.contains('9'), "{said}");
}

// P31, P32: before any question, also in lines that never run; `load` and `import` are refused.
#[test]
fn a_typo_is_found_when_the_script_is_loaded() {
    let said = refusal("def seed(s):\n    if False:\n        return chose(s.members)\n");
    assert!(
        said.contains("chose") && said.contains("did you mean `choose`") && said.ends_with("(mine.star:3:16)"),
        "{said}"
    );
    let said = refusal("def seed(s):\n    return choose(s.members\n");
    assert!(said.contains("mine.star:"), "{said}");
    let said = refusal("load('other.star', 'x')\n");
    assert!(said.contains("load") && said.contains("mine.star:1:1"), "{said}");
    assert!(refusal("def seed(s):\n    import os\n").contains("mine.star:2:5"));
}

// P32: a misspelt field.
#[test]
fn an_unknown_field_is_named_with_the_one_that_was_meant() {
    let said = failure("def seed(s):\n    return choose([m for m in s.members if m.zoen == 'a'])\n");
    assert!(said.contains("zoen") && said.contains("did you mean `zone`") && said.contains("mine.star:2:"), "{said}");
}

// P30: the order of the contract: term first, then numbers inside one history; unknown data, then none, comes last.
#[test]
fn data_is_ordered_as_the_contract_orders_it() {
    use tanist_core::contract::{Member, Position, Sequence};
    let at = |ordinal, term, number| Member { term, ..member(ordinal, number) };
    let story = |members: Vec<Member>| -> Snapshot { snapshot(members) };
    let order = "[m.ordinal for m in sorted(s.members, key = lambda m: m.data, reverse = True)]";
    let position = |ordinal, position| Member { position, ..member(ordinal, 0) };
    let all = vec![
        at(0, Some(1), 9),
        at(1, Some(2), 3),
        at(2, None, 100),
        position(3, Position::Empty),
        position(4, Position::NotAsked),
        at(5, Some(2), 4),
    ];
    assert_eq!(computed(order, story(all)), "[5, 1, 0, 2, 4, 3]");
    let in_history = |ordinal, history: &str, number| {
        position(ordinal, Position::Known(Sequence { history: Some(history.to_owned()), number }))
    };
    let two = vec![in_history(0, "a", 1), in_history(1, "b", 2)];
    let said =
        ask("def seed(s): return choose([max(s.members, key = lambda m: m.data)])\n", Point::Seed, story(two.clone()))
            .unwrap_err()
            .message;
    assert!(said.contains("of two histories") && said.contains("mine.star:1:"), "{said}");
    assert_eq!(computed("s.members[0].data == s.members[1].data", story(two)), "False");
    assert_eq!(computed("s.members[0].data == s.members[1].data", story(vec![member(0, 5), member(1, 5)])), "True");
}
