//! `tanist status`: groups in a table or as objects, once or for as long as they change.
use super::find::find;
use super::output::{self, Form, Output, note, print, print_on};
use super::table::{Cell, Table};
use super::trouble::failed;
use super::wait::watch_error;
use super::{Session, color};
use anyhow::bail;
use futures::{StreamExt, pin_mut};
use jiff::Timestamp;
use kube::api::ListParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use std::collections::{BTreeMap, BTreeSet};
use tanist_api::ReplicaGroup;
use tanist_api::age::age;
use tanist_api::view::View;

/// The arguments of `tanist status`.
#[derive(Debug, Clone, clap::Args)]
pub struct Status {
    /// The groups. Without a name: all groups of the namespace.
    #[arg(value_name = "GROUP")]
    pub groups: Vec<String>,
    /// Show the groups of all namespaces.
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,
    /// After the first output, go on printing changes.
    #[arg(long, short)]
    pub watch: bool,
    /// The output format. Default: a table.
    #[arg(long, short, value_enum)]
    pub output: Option<Output>,
}

/// Shows the groups that are named, or all of the namespace, in the format that is asked for.
///
/// # Errors
/// The error of the API server; or that a group does not exist, after the others were shown.
pub async fn status(session: &Session, asked: &Status) -> anyhow::Result<()> {
    if asked.all_namespaces && !asked.groups.is_empty() {
        bail!("a group cannot be looked up by its name in all namespaces; leave out the name or --all-namespaces");
    }
    let groups = match asked.all_namespaces {
        true => Api::all(session.client.clone()),
        false => session.groups(),
    };
    if asked.watch {
        // A name that is wrong would never be heard of.
        for name in &asked.groups {
            find(&groups, name).await?;
        }
        return watch(&groups, asked).await;
    }
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for name in &asked.groups {
        match find(&groups, name).await {
            Ok(group) => found.push(group),
            Err(error) => missing.push(error.to_string()),
        }
    }
    if asked.groups.is_empty() {
        found = groups.list(&ListParams::default()).await.map_err(|e| failed("list groups", &e))?.items;
        if found.is_empty() && matches!(asked.output, None | Some(Output::Wide | Output::Name)) {
            note(&none(asked, &session.namespace));
            return Ok(());
        }
    }
    if missing.is_empty() || !found.is_empty() {
        print(&text(&found, asked, Timestamp::now(), color::is_on())?)?;
    }
    if !missing.is_empty() {
        bail!("{}", missing.join("\nerror: "));
    }
    Ok(())
}

fn none(asked: &Status, namespace: &str) -> String {
    match asked.all_namespaces {
        true => "no groups in any namespace".into(),
        false => format!("no groups in namespace {namespace}; all namespaces: --all-namespaces"),
    }
}

/// The output for groups. As JSON or YAML, a single group that was named is the object itself, everything else a List.
fn text(groups: &[ReplicaGroup], asked: &Status, now: Timestamp, colors: bool) -> anyhow::Result<String> {
    let objects = || match (groups, asked.groups.len()) {
        ([only], 1) => output::object(only),
        _ => output::list(groups),
    };
    match asked.output {
        None | Some(Output::Wide) => {
            let mut table = Table::new(&heads(asked));
            groups.iter().for_each(|group| table.add(row(&View::new(group), asked, now)));
            Ok(table.text(colors))
        }
        Some(Output::Json) => output::form(&objects()?, Form::Json),
        Some(Output::Yaml) => output::form(&objects()?, Form::Yaml),
        Some(Output::Name) => Ok(groups.iter().map(output::name).collect()),
    }
}

fn is_wide(asked: &Status) -> bool {
    asked.output == Some(Output::Wide)
}

fn heads(asked: &Status) -> Vec<&'static str> {
    let place = asked.all_namespaces.then_some("NAMESPACE");
    let always = ["NAME", "READY", "PRIMARY", "MEMBERS", "POLICY", "TERM", "REASON", "AGE"];
    let wide = is_wide(asked).then_some(["VERSION", "SINCE", "AWAITED", "MESSAGE"]);
    place.into_iter().chain(always).chain(wide.into_iter().flatten()).collect()
}

fn row(view: &View<'_>, asked: &Status, now: Timestamp) -> Vec<Cell> {
    let ready = view.condition("Ready");
    let truth = ready.map(|c| c.status.as_str()).unwrap_or_default();
    let mut row = Vec::new();
    if asked.all_namespaces {
        row.push(Cell::plain(view.group.namespace().unwrap_or_default()));
    }
    row.extend([
        Cell::plain(view.group.name_any()),
        Cell::styled(truth, color::truth(truth)),
        Cell::plain(view.primaries().join(",")),
        Cell::optional(view.in_role()),
        Cell::optional(view.policy()),
        Cell::plain(view.term().map(|t| t.to_string()).unwrap_or_default()),
        Cell::optional(ready.map(|c| c.reason.as_str())),
        Cell::plain(view.created().map(|t| age(t, now)).unwrap_or_default()),
    ]);
    if is_wide(asked) {
        let reasons: Vec<_> = view.waits().iter().map(|w| w.reason.as_str()).collect();
        row.push(Cell::optional(view.version()));
        row.push(Cell::plain(ready.map(|c| age(c.last_transition_time.0, now)).unwrap_or_default()));
        row.push(Cell::plain(reasons.join(",")));
        row.push(Cell::optional(ready.map(|c| c.message.as_str())));
    }
    row
}

/// Prints the present groups, then their changes, until it is interrupted.
async fn watch(groups: &Api<ReplicaGroup>, asked: &Status) -> anyhow::Result<()> {
    let mut screen = Screen::new(asked.clone(), color::is_on());
    let events = watcher(groups.clone(), config(asked)).default_backoff();
    pin_mut!(events);
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let shown = match event {
            Ok(Event::Init) => {
                listed.clear();
                String::new()
            }
            Ok(Event::InitApply(group)) => {
                listed.push(group);
                String::new()
            }
            Ok(Event::InitDone) => screen.begin(&listed, Timestamp::now())?,
            Ok(Event::Apply(group)) => screen.change(&group, Timestamp::now())?,
            Ok(Event::Delete(group)) => screen.delete(&group),
            // Before the first output an error ends the command, so that the user sees the cause. Later the watch restarts by itself.
            Err(error) if !screen.began => bail!("{}", watch_error(&error)),
            Err(error) => {
                note(&format!("{}; trying again", watch_error(&error)));
                String::new()
            }
        };
        print_on(&shown)?;
    }
    bail!("the watch of the groups ended; run the command again")
}

fn config(asked: &Status) -> watcher::Config {
    match asked.groups.as_slice() {
        [only] => watcher::Config::default().fields(&format!("metadata.name={only}")),
        _ => watcher::Config::default(),
    }
}

/// What a watch has printed so far.
struct Screen {
    asked: Status,
    colors: bool,
    began: bool,
    table: Option<Table>,
    shown: BTreeMap<String, String>,
}

impl Screen {
    fn new(asked: Status, colors: bool) -> Self {
        Screen { asked, colors, began: false, table: None, shown: BTreeMap::new() }
    }

    fn concerns(&self, group: &ReplicaGroup) -> bool {
        self.asked.groups.is_empty() || self.asked.groups.contains(&group.name_any())
    }

    /// The output for a complete list: at first all groups, so that columns get their widths; after a break of the watch only what changed.
    fn begin(&mut self, groups: &[ReplicaGroup], now: Timestamp) -> anyhow::Result<String> {
        let first = !std::mem::replace(&mut self.began, true);
        let is_table = matches!(self.asked.output, None | Some(Output::Wide));
        let ours: Vec<_> = groups.iter().filter(|g| self.concerns(g)).collect();
        if first && is_table && !ours.is_empty() {
            let mut table = Table::new(&heads(&self.asked));
            for group in &ours {
                self.shown.insert(View::new(group).name(), self.gist(group)?);
                table.add(row(&View::new(group), &self.asked, now));
            }
            let text = table.text(self.colors);
            self.table = Some(table);
            return Ok(text);
        }
        // What was deleted while the watch was broken is in no event.
        let present: BTreeSet<_> = ours.iter().map(|group| View::new(group).name()).collect();
        let gone: Vec<_> = self.shown.keys().filter(|name| !present.contains(*name)).cloned().collect();
        gone.iter().for_each(|name| self.forget(name));
        ours.into_iter().map(|group| self.change(group, now)).collect()
    }

    /// The output for one group; empty if nothing changed of what is shown.
    fn change(&mut self, group: &ReplicaGroup, now: Timestamp) -> anyhow::Result<String> {
        if !self.concerns(group) {
            return Ok(String::new());
        }
        let gist = self.gist(group)?;
        if self.shown.insert(View::new(group).name(), gist.clone()).as_ref() == Some(&gist) {
            return Ok(String::new());
        }
        match self.asked.output {
            None | Some(Output::Wide) => {
                let begun = self.table.is_some();
                let table = self.table.get_or_insert_with(|| Table::new(&heads(&self.asked)));
                table.add(row(&View::new(group), &self.asked, now));
                let text = if begun { table.last(self.colors) } else { table.text(self.colors) };
                table.keep_widths();
                Ok(text)
            }
            Some(Output::Json) => output::form(&output::object(group)?, Form::Json),
            Some(Output::Yaml) => Ok(format!("---\n{}", output::form(&output::object(group)?, Form::Yaml)?)),
            Some(Output::Name) => Ok(output::name(group)),
        }
    }

    fn delete(&mut self, group: &ReplicaGroup) -> String {
        self.forget(&View::new(group).name());
        String::new()
    }

    fn forget(&mut self, name: &str) {
        if self.shown.remove(name).is_some() {
            note(&format!("group {name} was deleted"));
        }
    }

    /// What is shown of a group, without columns that change with time alone.
    fn gist(&self, group: &ReplicaGroup) -> anyhow::Result<String> {
        match self.asked.output {
            None | Some(Output::Wide) => {
                let mut table = Table::new(&heads(&self.asked));
                table.add(row(&View::new(group), &self.asked, Timestamp::UNIX_EPOCH));
                Ok(table.last(false))
            }
            Some(Output::Json | Output::Yaml) => Ok(group.resource_version().unwrap_or_default()),
            Some(Output::Name) => Ok(String::new()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use crate::cli::{Ask, example};
    use crate::mock;
    use clap::Parser;
    use serde_json::{Value, json};

    fn asked(names: &[&str], output: Option<Output>) -> Status {
        let groups = names.iter().map(|n| (*n).to_owned()).collect();
        Status { groups, all_namespaces: false, watch: false, output }
    }

    /// What is asked with these words behind `tanist status`.
    fn typed(words: &[&str]) -> Status {
        let args = Args::try_parse_from(["tanist", "status"].iter().chain(words)).unwrap();
        let Command::Ask(Ask::Status(asked)) = args.command else { panic!("the command is not status") };
        asked
    }

    fn printed(words: &[&str], groups: &[ReplicaGroup]) -> String {
        text(groups, &typed(words), now(), false).unwrap()
    }

    fn now() -> Timestamp {
        "2026-01-01T00:03:12Z".parse().unwrap()
    }

    fn waits() -> Value {
        json!({"status": {
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "NoPrimary", "message": "0 of 1 primaries serve",
                "lastTransitionTime": "2026-01-01T00:03:07Z"
            }],
            "primaries": null, "columns": {"primaries": null, "members": "0/2"},
            "version": "17",
            "awaiting": [{"reason": "MayBePrimary", "message": "m"}, {"reason": "PodsNotRunning", "message": "n"}]
        }})
    }

    /// The group db of the namespace bank, which waits, and the one of shop, which is well.
    fn of_two_namespaces() -> [ReplicaGroup; 2] {
        let mut changes = waits();
        changes["metadata"] = json!({"namespace": "bank"});
        [example(&changes), example(&json!({}))]
    }

    #[test]
    fn a_table_as_kubectl_prints_it() {
        let text = |asked: &Status, group: &ReplicaGroup| {
            super::text(std::slice::from_ref(group), asked, now(), false).unwrap()
        };
        let well = example(&json!({}));
        let narrow = "\
NAME   READY   PRIMARY   MEMBERS   POLICY     TERM   REASON             AGE
db     True    db-1      2/2       sequence   4      AllMembersInRole   3m12s
";
        assert_eq!(text(&asked(&[], None), &well), narrow);
        let lost = example(&waits());
        let wide = "\
NAME   READY   PRIMARY   MEMBERS   POLICY     TERM   REASON      AGE     VERSION   SINCE   AWAITED                       MESSAGE
db     False   -         0/2       sequence   4      NoPrimary   3m12s   17        5s      MayBePrimary,PodsNotRunning   0 of 1 primaries serve
";
        assert_eq!(text(&asked(&["db"], Some(Output::Wide)), &lost), wide);
        let all = Status { all_namespaces: true, ..asked(&[], None) };
        assert!(text(&all, &well).starts_with("NAMESPACE   NAME   READY"));
        assert_eq!(text(&asked(&[], Some(Output::Name)), &well), "replicagroup.tanist.dev/db\n");
        let unseen = example(&json!({"status": null}));
        assert!(
            text(&asked(&[], None), &unseen)
                .contains("\ndb     -       -         -         -        -      -        3m12s\n")
        );
    }

    #[test]
    fn a_name_gives_the_object_and_no_name_a_list() {
        let text = |names: &[&str], groups: &[ReplicaGroup]| -> Value {
            serde_json::from_str(&super::text(groups, &asked(names, Some(Output::Json)), now(), false).unwrap())
                .unwrap()
        };
        let group = example(&json!({}));
        assert_eq!(text(&["db"], std::slice::from_ref(&group))["kind"], "ReplicaGroup");
        assert_eq!(text(&[], std::slice::from_ref(&group))["kind"], "List", "also when there is only one");
        assert_eq!(text(&["db", "web"], std::slice::from_ref(&group))["kind"], "List");
    }

    #[test]
    fn in_all_namespaces_each_row_begins_with_its_namespace() {
        let groups = of_two_namespaces();
        let all = printed(&["-A"], &groups);
        let rows = "\
NAMESPACE   NAME   READY   PRIMARY   MEMBERS   POLICY     TERM   REASON             AGE
bank        db     False   -         0/2       sequence   4      NoPrimary          3m12s
shop        db     True    db-1      2/2       sequence   4      AllMembersInRole   3m12s
";
        assert_eq!(all, rows);
        let others: String = all.lines().map(|line| format!("{}\n", &line["NAMESPACE   ".len()..])).collect();
        assert_eq!(printed(&[], &groups), others, "in one namespace its name is in no row");
        let wide = printed(&["-A", "-o", "wide"], &groups);
        assert_eq!(wide.lines().count(), 3);
        assert!(wide.lines().zip(all.lines()).all(|(wide, line)| wide.starts_with(line)), "{wide}");
    }

    // JSON is YAML, too: what can be parsed may still be JSON.
    #[test]
    fn yaml_is_an_object_or_a_list_in_lines() {
        let groups = of_two_namespaces();
        let [_, group] = &groups;
        let parsed = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
        let one = printed(&["db", "-o", "yaml"], std::slice::from_ref(group));
        assert!(one.starts_with("apiVersion: tanist.dev/v1alpha1\nkind: ReplicaGroup\nmetadata:\n"), "{one}");
        assert!(one.contains("\n  namespace: shop\n") && one.ends_with('\n'), "{one}");
        assert_eq!(parsed(&one), output::object(group).unwrap());
        let all = printed(&["-A", "-o", "yaml"], &groups);
        assert!(all.starts_with("apiVersion: v1\n"), "{all}");
        assert_eq!(parsed(&all), output::list(&groups).unwrap());
        let only = parsed(&printed(&["-o", "yaml"], std::slice::from_ref(group)));
        assert_eq!(only["kind"], "List", "also when there is only one");
        assert_eq!(parsed(&printed(&["-o", "yaml"], &[]))["items"], json!([]), "also when there is none");
    }

    // As `kubectl get -o name`: what is printed are arguments for kubectl.
    #[test]
    fn names_have_the_resource_and_no_namespace() {
        let groups =
            [example(&json!({"metadata": {"namespace": "bank"}})), example(&json!({"metadata": {"name": "web"}}))];
        let both = "replicagroup.tanist.dev/db\nreplicagroup.tanist.dev/web\n";
        assert_eq!(printed(&["-o", "name"], &groups), both);
        assert_eq!(printed(&["db", "web", "-o", "name"], &groups), both);
        assert_eq!(printed(&["-A", "-o", "name"], &groups), both, "kubectl leaves the namespaces out, too");
        assert_eq!(printed(&["-o", "name"], &[]), "");
    }

    #[test]
    fn a_watch_of_all_namespaces_tells_groups_of_one_name_apart() {
        let groups = of_two_namespaces();
        let again =
            |screen: &mut Screen| -> String { groups.iter().map(|g| screen.change(g, now()).unwrap()).collect() };
        let mut table = Screen::new(typed(&["-A", "--watch"]), false);
        assert_eq!(table.begin(&groups, now()).unwrap(), printed(&["-A"], &groups));
        assert_eq!(again(&mut table), "", "neither has changed");
        let lost = "shop        db     False   -         0/2       sequence   4      NoPrimary          3m12s\n";
        assert_eq!(table.change(&example(&waits()), now()).unwrap(), lost);
        let mut names = Screen::new(typed(&["-A", "--watch", "-o", "name"]), false);
        assert_eq!(names.begin(&groups, now()).unwrap(), printed(&["-A", "-o", "name"], &groups));
        assert_eq!(again(&mut names), "");
    }

    #[test]
    fn a_watch_in_yaml_is_a_document_for_each_change() {
        let groups = of_two_namespaces();
        let documents = |text: &str| -> Vec<Value> {
            text.split("---\n").skip(1).map(|document| serde_saphyr::from_str(document).unwrap()).collect()
        };
        let mut screen = Screen::new(typed(&["-A", "--watch", "-o", "yaml"]), false);
        let present: Vec<_> = groups.iter().map(|group| output::object(group).unwrap()).collect();
        assert_eq!(documents(&screen.begin(&groups, now()).unwrap()), present);
        let [bank, _] = &groups;
        assert_eq!(screen.change(bank, now()).unwrap(), "", "the object is the same");
        let changed = example(&json!({"metadata": {"resourceVersion": "10"}}));
        assert_eq!(documents(&screen.change(&changed, now()).unwrap()), [output::object(&changed).unwrap()]);
    }

    #[test]
    fn a_watch_shows_what_changed_and_nothing_twice() {
        let mut screen = Screen::new(asked(&[], None), false);
        let well = example(&json!({}));
        let text = screen.begin(std::slice::from_ref(&well), now()).unwrap();
        assert_eq!(text.lines().count(), 2);
        let later = "2026-01-01T09:00:00Z".parse().unwrap();
        assert_eq!(screen.change(&well, later).unwrap(), "", "only time has passed");
        assert_eq!(screen.begin(std::slice::from_ref(&well), later).unwrap(), "", "the watch began anew");
        let lost = screen.change(&example(&waits()), later).unwrap();
        assert_eq!(lost, "db     False   -         0/2       sequence   4      NoPrimary          9h\n");
        assert_eq!(screen.begin(&[], later).unwrap(), "", "it was deleted while the watch was broken");
        let again = screen.begin(&[example(&waits())], later).unwrap();
        assert_eq!(again, lost, "one of that name that was created since is shown");
        let mut other = Screen::new(asked(&["web"], None), false);
        assert_eq!(other.begin(std::slice::from_ref(&well), now()).unwrap(), "", "it was not asked for");
        let mut empty = Screen::new(asked(&[], None), false);
        assert_eq!(empty.begin(&[], now()).unwrap(), "");
        assert_eq!(empty.change(&well, now()).unwrap().lines().count(), 2, "the heads come with the first row");
    }

    // Existing groups are shown, and the exit code reports that one is missing.
    #[tokio::test]
    async fn a_name_that_is_not_there_is_an_error() {
        let session = |client| Session::over(client, "shop");
        let (client, _) = mock::server(|_, path, _| match path.contains("/replicagroups/db") {
            true => Some((200, serde_json::to_value(example(&json!({}))).unwrap())),
            false => mock::refusal(404, "NotFound", "no"),
        });
        let two = status(&session(client), &asked(&["db", "bd"], Some(Output::Name))).await;
        assert_eq!(two.unwrap_err().to_string(), "no group bd in namespace shop");
        let (client, requests) = mock::server(|_, _, _| mock::refusal(500, "InternalError", "no"));
        let all = Status { all_namespaces: true, ..asked(&["db"], None) };
        assert!(status(&session(client.clone()), &all).await.unwrap_err().to_string().contains("leave out"));
        assert!(requests.lock().unwrap().is_empty(), "nothing was asked");
        let all = Status { all_namespaces: true, ..asked(&[], None) };
        assert!(status(&session(client), &all).await.is_err());
        assert!(requests.lock().unwrap()[0].1.starts_with("/apis/tanist.dev/v1alpha1/replicagroups?"), "cluster-wide");
    }
}
