//! Writes what cases expect anew, and leaves the rest of the file as it is: order, comments, blank lines.

use std::{fs, path::Path};

use crate::{
    case::{Cases, Expect},
    error::Error,
    world,
};

/// Writes the expectations of some cases, by their places in the file, anew.
///
/// # Guarantees
/// Nothing is written unless the new text reads back as the old one with exactly these expectations.
///
/// # Errors
/// The file cannot be written, or a case is written in a form that cannot be changed in place.
pub fn write(path: &Path, cases: &Cases, wanted: &[(usize, Expect)]) -> Result<(), Error> {
    let text = rewritten(cases, wanted)?;
    fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// The new text of the file.
///
/// # Errors
/// A case is written in a form that cannot be changed in place.
pub fn rewritten(cases: &Cases, wanted: &[(usize, Expect)]) -> Result<String, Error> {
    let mut lines: Vec<String> = cases.text.split('\n').map(str::to_owned).collect();
    // From the last one to the first, so that the line numbers of the others stay right.
    let mut wanted: Vec<_> = wanted.iter().collect();
    wanted.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
    for (index, expect) in &wanted {
        replace(&mut lines, cases, *index, expect).ok_or_else(|| in_another_form(cases, *index))?;
    }
    let text = lines.join("\n");
    match reads_back(cases, &text, &wanted) {
        true => Ok(text),
        false => Err(in_another_form(cases, wanted.last().map_or(0, |(index, _)| *index))),
    }
}

fn in_another_form(cases: &Cases, index: usize) -> Error {
    let message = "what this case expects cannot be changed in place; write the case with one key on each line and run --update again";
    Error::Wrong { place: cases.place(index), message: message.to_owned() }
}

/// Replaces the lines of one expectation, or adds one below the point. `None`: it is not written with one key on each line.
fn replace(lines: &mut Vec<String>, cases: &Cases, index: usize, expect: &Expect) -> Option<()> {
    let case = &cases.content.cases.get(index)?.value;
    let Some(old) = &case.expect else {
        let at = usize::try_from(case.point.referenced.line()).ok()?;
        let indent = key(lines.get(at.checked_sub(1)?)?, "point")?;
        lines.insert(at, format!("{}expect: {}", " ".repeat(indent), expect.yaml()));
        return Some(());
    };
    // The value begins in the line of its key, or below it.
    let begins = usize::try_from(old.referenced.line()).ok()?.checked_sub(1)?;
    let (at, indent) = (0..=begins).rev().find_map(|at| Some((at, key(lines.get(at)?, "expect")?)))?;
    let deeper = |line: &String| line.trim().is_empty() || indent_of(line) > indent;
    let mut end = at + 1;
    while lines.get(end).is_some_and(deeper) {
        end += 1;
    }
    // Blank lines behind the value are not a part of it.
    while end > at + 1 && lines.get(end - 1).is_some_and(|line| line.trim().is_empty()) {
        end -= 1;
    }
    let line = lines.get(at)?;
    let head = line.get(..indent)?;
    let comment = comment(line.get(indent..)?).map(|text| format!("  {text}")).unwrap_or_default();
    let new = format!("{head}expect: {}{comment}", expect.yaml());
    lines.splice(at..end, [new]);
    Some(())
}

/// The column, from 0, at which a key of a block mapping begins in a line. The first key of a list's entry stands behind its dash.
fn key(line: &str, name: &str) -> Option<usize> {
    let rest = line.trim_start_matches([' ', '-']);
    let indent = line.len() - rest.len();
    rest.strip_prefix(name)?.starts_with(':').then_some(indent)
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The comment at the end of a line. A number sign within quotes begins none.
fn comment(line: &str) -> Option<&str> {
    let (mut quote, mut before) = (None, ' ');
    for (at, character) in line.char_indices() {
        match (quote, character) {
            (None, '#') if before == ' ' => return line.get(at..),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), character) if open == character && before != '\\' => quote = None,
            _ => {}
        }
        before = character;
    }
    None
}

/// Whether the new text says the same, but for these expectations.
fn reads_back(cases: &Cases, text: &str, wanted: &[&(usize, Expect)]) -> bool {
    let Ok(new) = Cases::parse(&cases.file, text.to_owned()) else { return false };
    let of = |cases: &Cases, index: usize| {
        let case = cases.content.cases.get(index).map(|case| &case.value)?;
        let expect = case.expect.as_ref().map(|expect| expect.value.clone());
        // Equal snapshots are equal questions, whatever line they are in.
        Some(((case.name.clone(), cases.parameters(index).0, world::snapshot(case)), expect))
    };
    let same = |index: usize| match (of(cases, index), of(&new, index)) {
        (Some((old, expected)), Some((new, found))) => {
            let asked = wanted.iter().find(|(each, _)| *each == index).map(|(_, expect)| expect.clone());
            old == new && found == asked.or(expected)
        }
        _ => false,
    };
    new.content.cases.len() == cases.content.cases.len() && (0..cases.content.cases.len()).all(same)
}
