//! What is to be tried, as dev/mutants writes it: one mutation per line, its fields separated by tabs.

use std::fs;
use std::path::{Path, PathBuf};

/// A mutation to try: a line of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// Its place in its list, from 1. This number chooses it.
    pub number: u32,
    /// The file that it changes, from the repository's root.
    pub file: PathBuf,
    /// Where the changed text of the file is.
    pub mutated: PathBuf,
    /// Where the result is put.
    pub result: PathBuf,
    /// The names of tests that noticed it before, without their modules.
    pub hints: Vec<String>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum ReadPlan {
    /// The file cannot be read.
    #[error("failed to read {}", .0.display())]
    File(PathBuf, #[source] std::io::Error),
    /// A line has another form.
    #[error("failed to read line {0} of the plan")]
    Line(usize),
}

/// Reads a plan.
///
/// # Errors
/// The file cannot be read, or has a line of another form.
pub fn read(path: &Path) -> Result<Vec<Mutation>, ReadPlan> {
    let text = fs::read_to_string(path).map_err(|error| ReadPlan::File(path.to_owned(), error))?;
    text.lines().enumerate().map(|(at, line)| mutation(line).ok_or(ReadPlan::Line(at + 1))).collect()
}

fn mutation(line: &str) -> Option<Mutation> {
    let mut fields = line.split('\t');
    let mutation = Mutation {
        number: fields.next()?.parse().ok()?,
        file: fields.next()?.into(),
        mutated: fields.next()?.into(),
        result: fields.next()?.into(),
        hints: fields.next()?.split_whitespace().map(str::to_owned).collect(),
    };
    fields.next().is_none().then_some(mutation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_five_fields() {
        let read = mutation("7\thost/core/src/over.rs\t/tmp/7\t/tmp/r\ta_b c_d").unwrap();
        assert_eq!((read.number, read.hints), (7, vec!["a_b".to_owned(), "c_d".to_owned()]));
        assert!(mutation("7\ta\tb\tc\t").unwrap().hints.is_empty());
        assert_eq!(mutation("7\ta\tb\tc"), None);
        assert_eq!(mutation("x\ta\tb\tc\t"), None);
        assert_eq!(mutation("7\ta\tb\tc\t\t"), None);
    }
}
