//! `tanist history`: the templates that a group had, and which members run each.
use super::super::find::find;
use super::super::output::{Form, form, note, print};
use super::super::table::{Cell, Table};
use super::super::{Session, color};
use super::{Revision, Revisions};
use jiff::Timestamp;
use serde_json::{Value, json};
use tanist_api::age::age;
use tanist_api::view::View;

/// The arguments of `tanist history`.
#[derive(Debug, Clone, clap::Args)]
pub struct History {
    /// The name of the group, in the namespace of the command.
    pub group: String,
    /// Show the template of this revision, as YAML.
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<u64>,
    /// The output format. Default: a table.
    #[arg(long, short, value_enum)]
    pub output: Option<Form>,
}

/// Shows the templates of a group.
///
/// # Errors
/// When the group or its templates cannot be read, or there is no such revision.
pub async fn history(session: &Session, asked: &History) -> anyhow::Result<()> {
    let group = find(&session.groups(), &asked.group).await?;
    let revisions = Revisions::read(session, &group).await?;
    let view = View::new(&group);
    if asked.revision.is_some() {
        let revision = revisions.get(asked.revision)?;
        return print(&form(&revision.template, asked.output.unwrap_or(Form::Yaml))?);
    }
    if let Some(how) = asked.output {
        let all: Vec<_> = revisions.kept.iter().map(|revision| value(&revisions, revision, &view)).collect();
        return print(&form(&json!(all), how)?);
    }
    if revisions.kept.is_empty() {
        note(&revisions.nothing());
        return Ok(());
    }
    if revisions.present_number().is_none() {
        note("the present template is not stored yet");
    }
    print(&table(&revisions, &view, Timestamp::now()).text(color::is_on()))
}

/// The members that run a template.
fn members(revision: &Revision, view: &View<'_>) -> Vec<String> {
    let run = view.members().iter().filter(|member| member.revision == Some(revision.number));
    run.map(|member| member.name.clone()).collect()
}

/// The images of a template's containers.
fn images(template: &Value) -> Vec<String> {
    let containers = template.pointer("/spec/containers").and_then(Value::as_array);
    let image = |container: &Value| container.get("image").and_then(Value::as_str).map(str::to_owned);
    containers.into_iter().flatten().filter_map(image).collect()
}

fn table(revisions: &Revisions, view: &View<'_>, now: Timestamp) -> Table {
    let mut table = Table::new(&["REVISION", "MEMBERS", "IMAGES", "AGE", "CHANGE-CAUSE"]);
    for revision in &revisions.kept {
        let is_present = revisions.present_number() == Some(revision.number);
        let mark = if is_present { " (present)" } else { "" };
        let style = if is_present { color::good() } else { anstyle::Style::new() };
        table.add(vec![
            Cell::styled(format!("{}{mark}", revision.number), style),
            Cell::plain(members(revision, view).join(",")),
            Cell::plain(images(&revision.template).join(",")),
            Cell::plain(revision.created.map(|at| age(at, now)).unwrap_or_default()),
            Cell::optional(revision.cause.as_deref()),
        ]);
    }
    table
}

/// A template for programs.
fn value(revisions: &Revisions, revision: &Revision, view: &View<'_>) -> Value {
    json!({
        "revision": revision.number,
        "present": revisions.present_number() == Some(revision.number),
        "members": members(revision, view),
        "created": revision.created.map(|at| at.to_string()),
        "changeCause": revision.cause,
        "template": revision.template,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use super::super::tests::{group, kept, some, template};
    use super::*;
    use crate::cli::example;

    #[test]
    fn each_template_has_a_row_with_the_members_that_run_it() {
        let member = |name: &str, revision: u64| json!({"name": name, "ordinal": 0, "phase": "Running", "role": "Secondary", "revision": revision});
        let members = json!([member("db-0", 3), member("db-1", 10), member("db-2", 10)]);
        let group = example(&json!({"spec": {"template": template("db:10")}, "status": {"members": members}}));
        let (revisions, view) = (some(), View::new(&group));
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let text = table(&revisions, &view, now).text(false);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[2].starts_with("3              db-0        db:3     60m   to db:3"), "{text}");
        assert!(lines[3].starts_with("10 (present)   db-1,db-2   db:10    60m   to db:10"), "{text}");
        let shown = value(&revisions, &revisions.kept[2], &view);
        assert_eq!((&shown["present"], &shown["members"]), (&json!(true), &json!(["db-1", "db-2"])));
        assert_eq!(shown["template"], template("db:10"));
    }

    // E10, E11: another configuration is another revision of the same template. The latest is the present one.
    #[test]
    fn of_several_with_the_same_template_the_latest_is_present() {
        let objects = [3, 4, 5].map(|number| kept(number, if number == 3 { "db:3" } else { "db:10" }, "u"));
        let group = group("db:10");
        let revisions =
            Revisions::of(&group, objects.into_iter().map(|o| serde_json::from_value(o).unwrap()).collect());
        let view = View::new(&group);
        let present: Vec<_> = revisions.kept.iter().map(|r| value(&revisions, r, &view)["present"].clone()).collect();
        assert_eq!(present, [false, false, true]);
        let text = table(&revisions, &view, "2026-01-01T01:00:00Z".parse().unwrap()).text(false);
        assert_eq!(text.matches("(present)").count(), 1, "{text}");
        assert_eq!(revisions.get(None).unwrap().number, 3, "a roll-back goes to another template");
    }
}
