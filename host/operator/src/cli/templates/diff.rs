//! `tanist diff`: what differs between two templates of a group.
use super::super::Session;
use super::super::color::{self, paint};
use super::super::find::find;
use super::super::output::{Form, form, note, print};
use super::{Revision, Revisions};
use serde_json::Value;
use similar::TextDiff;

/// The arguments of `tanist diff`.
#[derive(Debug, Clone, clap::Args)]
pub struct Diff {
    /// The name of the group, in the namespace of the command.
    pub group: String,
    /// The revision to compare. Default: the latest that is not the present one.
    #[arg(long, value_name = "REVISION")]
    pub from: Option<u64>,
    /// The revision that it is compared with. Default: the group's present template.
    #[arg(long, value_name = "REVISION")]
    pub to: Option<u64>,
}

/// Shows what differs between two templates.
///
/// # Errors
/// When the group or its templates cannot be read, or there is no such revision.
pub async fn diff(session: &Session, asked: &Diff) -> anyhow::Result<()> {
    let group = find(&session.groups(), &asked.group).await?;
    let revisions = Revisions::read(session, &group).await?;
    let from = revisions.get(asked.from)?;
    let (to, name) = match asked.to {
        Some(number) => (Some(revisions.get(Some(number))?), format!("revision {number}")),
        None => (revisions.latest(), present(&revisions)),
    };
    let template = to.map_or(&revisions.present, |revision| &revision.template);
    for line in to.into_iter().flat_map(|to| beside(from, to)) {
        note(&line);
    }
    print(&text((&from.template, &format!("revision {}", from.number)), (template, &name), color::is_on())?)
}

/// What else differs, or that nothing does: beside the template a revision has a configuration and a version.
fn beside(from: &Revision, to: &Revision) -> Vec<String> {
    let (a, b) = (from.number, to.number);
    if a == b {
        return vec![format!("revision {a} is compared with itself")];
    }
    let version = |revision: &Revision| revision.version.clone().unwrap_or_else(|| "none".into());
    let mut lines = Vec::new();
    if from.version != to.version {
        lines.push(format!("spec.version: {} in revision {a}, {} in revision {b}", version(from), version(to)));
    }
    if from.config != to.config {
        lines.push(format!(
            "the data of the ConfigMaps and Secrets that belong to the template (spec.update) differs between the revisions {a} and {b}; only a hash of it is stored, so it cannot be shown"
        ));
    }
    if lines.is_empty() && from.template == to.template {
        lines.push(format!("the revisions {a} and {b} are equal"));
    }
    lines
}

/// The name of the present template.
pub fn present(revisions: &Revisions) -> String {
    revisions.present_number().map_or("spec.template".into(), |number| format!("spec.template (revision {number})"))
}

/// The lines that differ, with three around them. Empty: they are equal.
///
/// # Errors
/// When a template cannot be written as YAML.
pub fn text(from: (&Value, &str), to: (&Value, &str), colors: bool) -> anyhow::Result<String> {
    let (old, new) = (form(from.0, Form::Yaml)?, form(to.0, Form::Yaml)?);
    let unified = TextDiff::from_lines(&old, &new).unified_diff().header(from.1, to.1).to_string();
    let painted = unified.lines().map(|line| {
        let style = match line.as_bytes().first() {
            Some(b'+') => color::good(),
            Some(b'-') => color::bad(),
            _ => anstyle::Style::new(),
        };
        format!("{}\n", paint(line, style, colors))
    });
    Ok(painted.collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::super::tests::{some, template};
    use super::*;

    #[test]
    fn the_lines_that_differ_are_shown() {
        let shown = text((&template("db:1"), "revision 1"), (&template("db:2"), "spec.template"), false).unwrap();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.first().zip(lines.get(1)), Some((&"--- revision 1", &"+++ spec.template")));
        assert!(lines.iter().any(|l| l.starts_with('-') && l.contains("image: db:1")), "{shown}");
        assert!(lines.iter().any(|l| l.starts_with('+') && l.contains("image: db:2")), "{shown}");
        assert!(text((&template("db:1"), "a"), (&template("db:1"), "b"), false).unwrap().is_empty());
        let colored = text((&template("db:1"), "a"), (&template("db:2"), "b"), true).unwrap();
        assert!(colored.contains("\u{1b}[32m+"), "{colored}");
    }

    // E11: revisions of the same template differ in their configuration, or in their version: `tanist diff` says so instead of nothing.
    #[test]
    fn what_differs_beside_the_template_is_said() {
        let all = some();
        let [two, three, ten] = all.kept.as_slice() else { panic!("{all:?}") };
        assert_eq!(beside(two, three), Vec::<String>::new(), "the templates show it");
        let configured = Revision { config: Some("c".into()), ..ten.clone() };
        let again = Revision { number: 11, ..configured.clone() };
        assert_eq!(beside(&configured, &again), ["the revisions 10 and 11 are equal"]);
        let changed = Revision { config: Some("d".into()), version: Some("17".into()), ..again };
        let said = beside(&configured, &changed);
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!(said.first().map(String::as_str), Some("spec.version: none in revision 10, 17 in revision 11"));
        assert!(said.last().unwrap().contains("differs between the revisions 10 and 11"), "{said:?}");
        assert_eq!(beside(ten, ten), ["revision 10 is compared with itself"]);
    }

    #[test]
    fn the_present_template_has_its_number_when_it_is_stored() {
        assert_eq!(present(&some()), "spec.template (revision 10)");
        assert_eq!(present(&Revisions { present: template("x"), ..some() }), "spec.template");
    }
}
