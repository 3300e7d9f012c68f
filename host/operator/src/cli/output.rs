//! Output formats. JSON and YAML are for programs and show objects as kubectl does.
use super::trouble::is_closed_pipe;
use anyhow::Context;
use clap::ValueEnum;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Write;
use tanist_api::ReplicaGroup;
use tanist_engine::is_unfit;

/// The output formats for groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// The table with more columns.
    Wide,
    /// The object as JSON; several as a List.
    Json,
    /// The object as YAML; several as a List.
    Yaml,
    /// Only the name of each group, as `replicagroup.tanist.dev/NAME`.
    Name,
}

/// The output formats for an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// The result as JSON.
    Json,
    /// The result as YAML.
    Yaml,
}

/// Prints to standard output, at once. If the reader has closed the pipe, as `head` does, the rest goes nowhere, and the command ends as it would have ended.
///
/// # Errors
/// When it cannot be written, as to a full disk.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_on(text).or_else(|error| if is_closed_pipe(&error) { Ok(()) } else { Err(error) })
}

/// The same for output that has no end of its own: a closed pipe ends it.
///
/// # Errors
/// When it cannot be written, as into a pipe that was closed.
pub fn print_on(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("failed to print")
}

/// Lines beside the output, for whoever watches, without control characters. They are lost if nobody can read them.
pub fn note(lines: &str) {
    lines.lines().for_each(|line| aside(&format!("{}\n", printable(line))));
}

/// A text beside the output, as it is.
pub fn aside(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// A text of somebody else as one line that changes nothing of the terminal ([`is_unfit`]).
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unfit(c) { ' ' } else { c }).collect()
}

/// A group's object as kubectl shows it, without `managedFields`.
pub fn object(group: &ReplicaGroup) -> anyhow::Result<Value> {
    let mut group = group.clone();
    group.metadata.managed_fields = None;
    serde_json::to_value(&group).context("failed to write the group as JSON")
}

/// Several objects as one List.
pub fn list(groups: &[ReplicaGroup]) -> anyhow::Result<Value> {
    let items = groups.iter().map(object).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}))
}

/// A value in that format, with a newline at the end.
pub fn form(value: &Value, form: Form) -> anyhow::Result<String> {
    match form {
        Form::Json => Ok(format!("{value:#}\n")),
        Form::Yaml => yaml(value).context("failed to write YAML"),
    }
}

/// A value as YAML, as kubectl writes it: no line is wrapped, and what a reader of an older YAML would take for something else than a word is quoted.
///
/// # Errors
/// When it cannot be written as YAML.
pub fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string_with_options(value, serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX })?)
}

/// As `kubectl get -o name` names it.
pub fn name(group: &ReplicaGroup) -> String {
    format!("replicagroup.tanist.dev/{}\n", group.name_any())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use super::*;
    use crate::cli::example;

    #[test]
    fn one_is_the_object_itself_and_several_are_a_list() {
        let group = example(&json!({"metadata": {"managedFields": [{"manager": "kubectl"}]}}));
        let one = object(&group).unwrap();
        assert_eq!((&one["kind"], &one["metadata"]["name"]), (&json!("ReplicaGroup"), &json!("db")));
        assert_eq!(one["metadata"]["managedFields"], Value::Null);
        let all = list(&[group.clone(), group.clone()]).unwrap();
        assert_eq!((&all["kind"], all["items"].as_array().unwrap().len()), (&json!("List"), 2));
        assert!(form(&one, Form::Yaml).unwrap().starts_with("apiVersion: tanist.dev/v1alpha1\nkind: ReplicaGroup\n"));
        let json = form(&one, Form::Json).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), one);
        assert_eq!(name(&group), "replicagroup.tanist.dev/db\n");
    }

    // Whoever may write a status or an annotation must not write on an administrator's terminal.
    #[test]
    fn what_others_wrote_moves_no_cursor() {
        assert_eq!(printable("a\u{1b}[2J\r\nb \u{202e}c\u{9b}é"), "a [2J  b  c é");
    }

    // kubectl reads YAML 1.1, where these words are no words.
    #[test]
    fn what_is_written_can_be_applied() {
        let words =
            json!({"a": "yes", "b": "on", "c": "1_000", "d": "12:30", "e": "long ".repeat(40), "f": "a: b", "g": true});
        let written = form(&words, Form::Yaml).unwrap();
        let long = format!("e: \"{}\"", "long ".repeat(40));
        let lines: Vec<_> = written.lines().collect();
        assert_eq!(lines, ["a: \"yes\"", "b: \"on\"", "c: \"1_000\"", "d: \"12:30\"", &long, "f: \"a: b\"", "g: true"]);
    }
}
