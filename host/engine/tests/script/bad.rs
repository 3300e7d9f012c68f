//! Bad input: each gets a sentence with the place and the limit.

use tanist_core::policy::Point;

use crate::{ask, failure, load, names, refusal, three};

/// Checks that every part is in a text.
#[track_caller]
fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "expected {part:?} in: {said}");
    }
    assert!(said.len() < 1_400, "{} bytes", said.len());
}

// P32: a misspelt point would never be asked.
#[test]
fn a_name_that_looks_like_a_point_is_refused() {
    says(
        &refusal("def sede(s):\n    return None\n"),
        &["no point has the name sede", "was seed meant?", "(mine.star:1:5)"],
    );
    says(
        &refusal("def seed(s): pass\nfialover = seed\n"),
        &["no point has the name fialover", "was failover meant?", "(mine.star:2:1)"],
    );
    // A helper may have any name, as long as something uses it.
    assert!(load("def seen(m): return True\ndef seed(s): return choose([m for m in s.members if seen(m)])\n").is_ok());
    assert!(load("def nearest(s): pass\ndef seed(s): pass\n").is_ok());
}

#[test]
fn a_point_takes_the_snapshot() {
    says(
        &refusal("def seed():\n    pass\n"),
        &["seed is asked with the snapshot alone; define it as seed(s)", "(mine.star:1:5)"],
    );
    says(&refusal("def seed(s, t):\n    pass\n"), &["define it as seed(s)"]);
    says(&refusal("seed = 5\n"), &["seed is the name of a point, expected a function, found int", "(mine.star:1:1)"]);
    assert!(load("def seed(s, limit = 3): pass\n").is_ok());
    says(&refusal("x = 1\n"), &["it defines none of seed(s), failover(s)"]);
}

// P33: what editors write beside the text: CRLF, a byte order mark, tabs.
#[test]
fn line_ends_of_windows_are_accepted_and_a_byte_order_mark_and_tabs_are_named() {
    assert_eq!(
        names(ask("def seed(s):\r\n    return choose(s.members[0])\r\n", Point::Seed, three()).unwrap()),
        ["db-0"]
    );
    says(&refusal("\u{feff}def seed(s):\n    pass\n"), &["byte order mark", "(mine.star:1:1)"]);
    says(&refusal("def seed(s):\n\treturn None\n"), &["ab", "(mine.star:2:1)"]);
}

// P33: 1 MiB of text, and none.
#[test]
fn a_script_has_a_size() {
    let long = format!("# {}\ndef seed(s): pass\n", "x".repeat(1 << 20));
    says(&refusal(&long), &["it has 1048597 bytes, 65536 are allowed"]);
    assert!(load(&format!("# {}\ndef seed(s): pass\n", "x".repeat(60_000))).is_ok());
    says(&refusal(""), &["it is empty"]);
    says(&refusal(" \n\n"), &["it is empty"]);
}

// P33: recursion without an end.
#[test]
fn calls_that_never_end_are_cut() {
    let text = "def down(n):\n    return down(n + 1)\n\ndef seed(s):\n    return down(0)\n";
    says(
        &failure(text),
        &[
            "calls are nested more than 50 deep",
            "(mine.star:2:12)",
            "in down, called from down (2:12)",
            "more calls",
            "called from seed",
        ],
    );
}

// P33: a parser that recurses would end by its stack.
#[test]
fn what_is_nested_too_deep_is_refused_before_it_is_parsed() {
    let deep =
        |open: &str, close: &str| format!("def seed(s): return {}1{}\n", open.repeat(10_000), close.repeat(10_000));
    says(&refusal(&deep("(", ")")), &["brackets are nested more than 48 deep", "(mine.star:1:"]);
    says(&refusal(&deep("[", "]")), &["brackets are nested more than 48 deep"]);
    says(&refusal(&deep("-", "")), &["operators of one line are nested more than 48 deep"]);
    says(&refusal(&deep("not ", "")), &["operators of one line are nested more than 48 deep"]);
    let blocks: String = (0..100).map(|depth| format!("{}if True:\n", " ".repeat(depth))).collect();
    says(
        &refusal(&format!("{blocks}{}pass\n", " ".repeat(100))),
        &["blocks are nested more than 48 deep", "(mine.star:50:"],
    );
    assert!(load(&format!("x = {}1{}\ndef seed(s): pass\n", "(".repeat(48), ")".repeat(48))).is_ok());
    let sum = format!("def seed(s):\n    return choose([m for m in s.members if {} > 0])\n", ["1"; 40].join(" + "));
    assert!(load(&sum).is_ok());
}

// P33: a loop of 10^9.
#[test]
fn long_loops_are_cut_with_a_place() {
    says(
        &failure("def seed(s):\n    for i in range(1000000000):\n        pass\n"),
        &["range: the result has 1000000000 elements, 100000 are allowed", "(mine.star:2:14)"],
    );
    let nested =
        "def seed(s):\n    n = 0\n    for i in range(100000):\n        for j in range(100000):\n            n += 1\n";
    says(&failure(nested), &["it took more than 50000 steps", "(mine.star:5:13)", "in seed"]);
    let inside = "def seed(s):\n    return len([0 for i in range(100000) for j in range(100000)])\n";
    says(&failure(inside), &["it took more than 50000 steps", "(mine.star:2:"]);
}

// P33: a loop outside of functions never reaches a question.
#[test]
fn a_loop_at_the_top_ends_when_the_script_is_loaded() {
    let text = "n = 0\nfor i in range(100000):\n    for j in range(100000):\n        n += 1\ndef seed(s): pass\n";
    says(&refusal(text), &["it took more than 50000 steps", "(mine.star:3:5)"]);
}

// P33: a text of 1 GiB, a list of 10^7.
#[test]
fn large_texts_and_lists_are_refused_with_a_place() {
    says(
        &failure("def seed(s):\n    return refuse('x' * (1 << 30))\n"),
        &["*: the result has 1073741824 elements, 100000 are allowed", "(mine.star:2:19)"],
    );
    says(&failure("def seed(s):\n    return refuse((1 << 30) * 'x')\n"), &["100000 are allowed"]);
    says(
        &failure("def seed(s):\n    return [0] * 10000000\n"),
        &["*: the result has 10000000 elements", "(mine.star:2:12)"],
    );
    says(&failure("def seed(s):\n    return (0,) * 10000000\n"), &["*: the result has 10000000 elements"]);
    says(
        &failure("def seed(s):\n    return list(range(10000000))\n"),
        &["range: the result has 10000000 elements, 100000 are allowed", "(mine.star:2:17)"],
    );
    says(
        &refusal("def seed(s):\n    x = 'x'\n    x *= 10\n"),
        &["`*=` is not supported; write x = x * y", "(mine.star:3:7)"],
    );
    let doubled =
        "def seed(s):\n    x = 'xxxxxxxx'\n    for i in range(40):\n        x = x + x\n    return refuse(x)\n";
    says(&failure(doubled), &["its values take more than 2048 KiB", "(mine.star:4:9)"]);
    let listed = "def seed(s):\n    x = [0]\n    for i in range(40):\n        x = x + x\n    return None\n";
    says(&failure(listed), &["its values take more than 2048 KiB", "(mine.star:4:9)"]);
}

// P33: what no count of the interpreter sees ends in the sandbox, as for every policy.
#[test]
fn what_grows_in_one_step_ends_in_the_sandbox() {
    let text = "def seed(s):\n    x = 'x' * 90000\n    return refuse(x.replace('x', x))\n";
    says(&failure(text), &["it asked for more memory than allowed", "16777216 are allowed"]);
}

// P33: integers that the contract cannot hold.
#[test]
fn numbers_beyond_64_bits_are_named() {
    let said = failure("def seed(s):\n    return wait('later', until = 1 << 70)\n");
    says(
        &said,
        &[
            "until is an int (1180591620717411303424), expected seconds since 1970 as an integer of 64 bits",
            "(mine.star:2:12)",
        ],
    );
    says(
        &failure("def seed(s):\n    return wait('later', until = s.now)\n"),
        &["until is 1000, expected a time after now, which is 1000"],
    );
    says(&failure("def seed(s):\n    return wait('later', until = 1.5)\n"), &["until is a float (1.5)"]);
    says(&failure("def seed(s):\n    return s.members[1 << 70]\n"), &["(mine.star:2:12)"]);
}

// P32, P33: names that are no members, one member twice, an empty list, a reason of 10 KiB.
#[test]
fn answers_are_checked_where_they_are_made() {
    says(
        &failure("def seed(s):\n    return choose(['db-7'])\n"),
        &["choose: the group has no member `db-7`", "(mine.star:2:12)"],
    );
    says(
        &failure("def seed(s):\n    return choose(s.members + [s.members[0]])\n"),
        &["choose: the member `db-0` is there twice", "(mine.star:2:12)"],
    );
    says(
        &failure("def seed(s):\n    return choose([s.members[0]], passed_over = [(s.members[0], 'no')])\n"),
        &["`db-0` is there twice"],
    );
    says(&failure("def seed(s):\n    return choose([])\n"), &["choose: the list is empty", "(mine.star:2:12)"]);
    says(
        &failure("def seed(s):\n    return choose(s.members, 'x' * 10240)\n"),
        &["the reason has 10240 bytes, 256 are allowed", "(mine.star:2:12)"],
    );
    says(&failure("def seed(s):\n    return refuse('x' * 10240)\n"), &["the reason has 10240 bytes, 256 are allowed"]);
    says(&failure("def seed(s):\n    return choose([(s.members[0], 'x' * 10240)])\n"), &["the reason has 10240 bytes"]);
    says(&failure("def seed(s):\n    return choose([1])\n"), &["choose: expected a member, found an int (1)"]);
    says(&failure("def seed(s):\n    return choose([(s.members[0], 5)])\n"), &["a reason is a text, found an int (5)"]);
    says(
        &failure("def seed(s):\n    return choose([stop(s.members[0])])\n"),
        &["a treatment of `db-0` is no answer to seed"],
    );
}

#[test]
fn a_member_that_is_barred_is_named_with_the_reason() {
    let mut story = three();
    story.members[0].barred = Some("below the highest data".to_owned());
    let said = ask("def seed(s):\n    return choose(s.members)\n", Point::Seed, story.clone()).unwrap_err().message;
    says(
        &said,
        &[
            "the member `db-0` may not be chosen now: below the highest data; s.eligible() has those that may",
            "(mine.star:2:12)",
        ],
    );
    let text = "def seed(s):\n    return choose(s.eligible(), passed_over = [(s.members[0], 'old')])\n";
    assert_eq!(names(ask(text, Point::Seed, story).unwrap()), ["db-1", "db-2"]);
}

#[test]
fn a_treatment_says_what_is_done() {
    let said = ask("def treat(s): return choose(s.members)\n", Point::Treat, three()).unwrap_err().message;
    says(&said, &["at treat say what is done with `db-0`: stop(m, why)", "(mine.star:1:22)"]);
    assert!(ask("def treat(s): return choose([])\n", Point::Treat, three()).is_ok());
}

#[test]
fn a_result_of_another_type_is_named() {
    for (value, kind) in [
        ("'db-0'", "string"),
        ("s.members", "list"),
        ("s.members[0]", "member"),
        ("True", "bool"),
        ("choose", "function"),
    ] {
        let said = failure(&format!("def seed(s):\n    return {value}\n"));
        says(
            &said,
            &[
                &format!("seed returned a value of type {kind}"),
                "return choose([...]), wait(\"why\"), refuse(\"why\") or nothing",
                "(mine.star:1:5)",
            ],
        );
    }
}

// P31: nothing could be remembered in it.
#[test]
fn a_global_list_cannot_be_changed_by_a_question() {
    says(&failure("seen = []\ndef seed(s):\n    seen.append(1)\n"), &["mine.star:3:"]);
}

#[test]
fn a_long_error_is_cut() {
    says(&failure("def seed(s):\n    fail('x' * 90000)\n"), &["xxx", "…", "(mine.star:2:5)"]);
}
