//! `tanist diff`: what differs between two templates of a group.
use super::super::Session;
use super::super::color::{self, paint};
use super::super::find::find;
use super::super::output::{Form, form, print};
use super::Revisions;
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
        Some(number) => (&revisions.get(Some(number))?.template, format!("revision {number}")),
        None => (&revisions.present, present(&revisions)),
    };
    print(&text((&from.template, &format!("revision {}", from.number)), (to, &name), color::is_on())?)
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

    #[test]
    fn the_present_template_has_its_number_when_it_is_stored() {
        assert_eq!(present(&some()), "spec.template (revision 10)");
        assert_eq!(present(&Revisions { present: template("x"), ..some() }), "spec.template");
    }
}
