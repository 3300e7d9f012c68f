//! Stories: text scripts with golden transcripts, each a test of its own. `support/script.rs` has their commands, `support/ending.rs` how each ends.
//!
//! | command | plays |
//! | --- | --- |
//! | `cargo test --locked -p tanist-core --test core scripts::` | all |
//! | `cargo test --locked -p tanist-core --test core scripts::failover::` | those of `failover.txt` |
//! | `cargo test --locked -p tanist-core --test core two_histories` | those whose names have this in them |
//! | `TANIST_BLESS=1 cargo test --locked -p tanist-core --test core scripts::` | all, and writes what they say now into their files, and their names into `list.rs` |
//!
//! The tests are ordinary ones, made by a macro from `list.rs`, and not those of a harness: they run with all options of Rust's own harness, as
//! `dev/mutate` needs it (several names at a time, `--fail-fast`, `--report-time`), and what they print is caught. libtest-mimic, and the harnesses that use it, take
//! one filter and have neither.
mod book;

use std::collections::BTreeSet;

/// A test for each story: `FILE: NAME NAME ...;`, where the file is `FILE.txt` with `-` in place of `_`.
macro_rules! stories {
    ($($file:ident: $($name:ident)*;)*) => {
        $(mod $file {
            $(#[test]
            fn $name() {
                super::book::tell(stringify!($file), stringify!($name));
            })*
        })*
    };
}

include!("list.rs");

/// `list.rs` has each story of each file.
#[test]
fn every_story_is_a_test() {
    let files = book::files();
    let mut list =
        String::from("// The stories of each file, written by TANIST_BLESS=1: a test compares.\nstories! {\n");
    let mut names = BTreeSet::new();
    for file in &files {
        list.push_str(&format!("    {file}:\n"));
        for name in book::names(file) {
            list.push_str(&format!("        {name}\n"));
            // Tables of mutations name a test without its modules.
            assert!(names.insert(name.clone()), "two stories are called {name}");
            if book::is_blessed() && !include_str!("list.rs").contains(&format!(" {name}\n")) {
                book::tell(file, &name);
            }
        }
        list.push_str("    ;\n");
    }
    list.push_str("}\n");
    if book::is_blessed() {
        std::fs::write(book::folder().join("list.rs"), list).unwrap();
        return;
    }
    assert_eq!(list, include_str!("list.rs"), "list.rs lacks a story or has one too many; TANIST_BLESS=1 writes it");
}
