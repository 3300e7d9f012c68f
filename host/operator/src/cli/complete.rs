//! `tanist __complete WORD...`: completions of the last word, for shells and for kubectl. The output has the form that kubectl expects of plugins:
//! one candidate on each line with its meaning behind a tab, and at the end a colon and a number that tells the shell what to do itself.
use super::Reach;
use super::output::printable;
use super::templates::Revisions;
use crate::args::Args;
use clap::{Arg, Command, CommandFactory};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::ListParams;
use kube::config::Kubeconfig;
use kube::{Api, ResourceExt};
use std::collections::BTreeMap;
use std::time::Duration;
use tanist_api::view::View;
use tanist_api::{LABEL_POLICY, ReplicaGroup};

/// The hidden command. Users do not type it, so clap does not know it.
pub const VERB: &str = "__complete";

/// How long a completion waits for the cluster: the user has just pressed a key.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the shell does when there is no candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Directive {
    /// The shell offers files: kubectl's `ShellCompDirectiveDefault`.
    Files = 0,
    /// The shell offers nothing: kubectl's `ShellCompDirectiveNoFileComp`.
    NoFiles = 4,
}

/// A candidate and what it means.
type Candidate = (String, String);

/// The kind of word that is expected in the last place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    /// One of these words.
    Words(Vec<Candidate>),
    Group,
    /// A member of that group.
    Member(String),
    /// The revision of a template of that group.
    Revision(String),
    /// A ConfigMap with policies.
    ConfigMap,
    Namespace,
    /// A context of the kubeconfig.
    Context,
    /// A file, which the shell completes itself.
    File,
    /// A value without candidates.
    Nothing,
}

/// The words before the last one, parsed.
#[derive(Debug)]
struct Line {
    expected: Expected,
    /// The text before each candidate, for instance `--to=` in `--to=db`.
    head: String,
    /// What the candidate begins with.
    begun: String,
    reach: Reach,
    /// Groups or members that are already among the words.
    taken: Vec<String>,
}

/// The answer to a shell whose line has these words, of which the last is to be completed.
pub async fn answer(words: &[String]) -> String {
    let line = read(words);
    let directive = if line.expected == Expected::File { Directive::Files } else { Directive::NoFiles };
    let found = tokio::time::timeout(PATIENCE, candidates(&line)).await.unwrap_or_default();
    let mut out = String::new();
    for (word, meaning) in found.into_iter().filter(|(w, _)| w.starts_with(&line.begun) && !line.taken.contains(w)) {
        let tab = if meaning.is_empty() { "" } else { "\t" };
        out.push_str(&format!("{}{word}{tab}{}\n", line.head, printable(&meaning)));
    }
    out.push_str(&format!(":{}\n", directive as u8));
    out
}

/// The candidates. Empty if the cluster does not answer: a shell cannot show an error among candidates.
async fn candidates(line: &Line) -> Vec<Candidate> {
    match &line.expected {
        Expected::Words(words) => words.clone(),
        Expected::Group => groups(&line.reach).await.unwrap_or_default().iter().map(group).collect(),
        Expected::Member(of) => {
            let all = groups(&line.reach).await.unwrap_or_default();
            let found = all.iter().find(|g| g.name_any() == *of);
            let members = found.map(|g| View::new(g).members()).unwrap_or_default();
            members.iter().map(|m| (m.name.clone(), m.role.clone())).collect()
        }
        Expected::Revision(of) => revisions(&line.reach, of).await.unwrap_or_default(),
        Expected::ConfigMap => config_maps(&line.reach).await.unwrap_or_default(),
        Expected::Namespace => namespaces(&line.reach).await.unwrap_or_default(),
        Expected::Context => contexts(&line.reach),
        Expected::File | Expected::Nothing => Vec::new(),
    }
}

async fn groups(reach: &Reach) -> Option<Vec<ReplicaGroup>> {
    let (client, namespace) = reach.connect().await.ok()?;
    Some(Api::namespaced(client, &namespace).list(&ListParams::default()).await.ok()?.items)
}

fn group(group: &ReplicaGroup) -> Candidate {
    let primaries = View::new(group).primaries().join(", ");
    let meaning = if primaries.is_empty() { "no primary".into() } else { format!("primary {primaries}") };
    (group.name_any(), meaning)
}

/// The templates of a group, each with why the group was changed.
async fn revisions(reach: &Reach, name: &str) -> Option<Vec<Candidate>> {
    let session = reach.session().await.ok()?;
    let group = session.groups().get_opt(name).await.ok()??;
    let all = Revisions::read(&session, &group).await.ok()?;
    Some(all.kept.into_iter().rev().map(|r| (r.number.to_string(), r.cause.unwrap_or_default())).collect())
}

/// The ConfigMaps that the operator looks at.
async fn config_maps(reach: &Reach) -> Option<Vec<Candidate>> {
    let (client, namespace) = reach.connect().await.ok()?;
    let labelled = ListParams::default().labels(&format!("{LABEL_POLICY}=true"));
    let all = Api::<ConfigMap>::namespaced(client, &namespace).list_metadata(&labelled).await.ok()?;
    Some(all.items.iter().map(|map| (map.name_any(), String::new())).collect())
}

async fn namespaces(reach: &Reach) -> Option<Vec<Candidate>> {
    let (client, _) = reach.connect().await.ok()?;
    let all = Api::<Namespace>::all(client).list_metadata(&ListParams::default()).await.ok()?;
    Some(all.items.iter().map(|n| (n.name_any(), String::new())).collect())
}

fn contexts(reach: &Reach) -> Vec<Candidate> {
    let file = match &reach.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    file.map(|f| f.contexts.into_iter().map(|c| (c.name, String::new())).collect()).unwrap_or_default()
}

/// Parses the words as clap would, as far as they are complete.
fn read(words: &[String]) -> Line {
    let mut root = Args::command();
    root.build();
    let mut walk = Walk { command: &root, awaiting: None, ended: false, options: BTreeMap::new(), places: Vec::new() };
    let (last, before) = match words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", words),
    };
    before.iter().for_each(|word| walk.step(word));
    let (head, begun, expected) = walk.expected(last);
    let option = |id: &str| walk.options.get(id).cloned();
    let reach = Reach {
        namespace: option("namespace"),
        kubeconfig: option("kubeconfig").map(Into::into),
        context: option("context"),
    };
    let taken = if expected == Expected::Group { walk.places.clone() } else { Vec::new() };
    Line { expected, head, begun, reach, taken }
}

/// The state of the parser between two words.
struct Walk<'c> {
    command: &'c Command,
    awaiting: Option<&'c Arg>,
    ended: bool,
    options: BTreeMap<String, String>,
    places: Vec<String>,
}

impl<'c> Walk<'c> {
    fn step(&mut self, word: &str) {
        if let Some(arg) = self.awaiting {
            // Bash splits --to=db-1 at the equals sign.
            if word != "=" {
                self.options.insert(arg.get_id().to_string(), word.to_owned());
                self.awaiting = None;
            }
        } else if word == "--" {
            self.ended = true;
        } else if let Some(long) = word.strip_prefix("--").filter(|_| !self.ended) {
            let (name, value) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
            let found = self.command.get_arguments().find(|a| a.get_long() == Some(name) && takes_value(a));
            match (found, value) {
                (Some(arg), Some(value)) => drop(self.options.insert(arg.get_id().to_string(), value.to_owned())),
                (found, _) => self.awaiting = found,
            }
        } else if let Some(shorts) = word.strip_prefix('-').filter(|s| !self.ended && !s.is_empty()) {
            self.shorts(shorts);
        } else if let Some(command) = self.command.find_subcommand(word).filter(|_| self.places.is_empty()) {
            self.command = command;
        } else {
            self.places.push(word.to_owned());
        }
    }

    /// `-Aw`, `-n`, `-nshop`, `-n=shop`.
    fn shorts(&mut self, shorts: &str) {
        for (at, short) in shorts.char_indices() {
            let Some(arg) = self.command.get_arguments().find(|a| a.get_short() == Some(short)) else { return };
            if !takes_value(arg) {
                continue;
            }
            let rest = shorts.get(at + short.len_utf8()..).unwrap_or_default();
            match rest.strip_prefix('=').unwrap_or(rest) {
                "" => self.awaiting = Some(arg),
                value => drop(self.options.insert(arg.get_id().to_string(), value.to_owned())),
            }
            return;
        }
    }

    /// The text before each candidate, the beginning of the candidates, and their kind.
    fn expected(&self, last: &str) -> (String, String, Expected) {
        if let Some(arg) = self.awaiting {
            return (String::new(), last.strip_prefix('=').unwrap_or(last).to_owned(), self.values(arg));
        }
        if !self.ended && last.starts_with('-') {
            return match last.split_once('=') {
                Some((option, value)) => {
                    let long = option.strip_prefix("--").unwrap_or_default();
                    let found = self.command.get_arguments().find(|a| a.get_long() == Some(long));
                    let values = found.map_or(Expected::Nothing, |arg| self.values(arg));
                    (format!("{option}="), value.to_owned(), values)
                }
                None => (String::new(), last.to_owned(), Expected::Words(self.flags())),
            };
        }
        (String::new(), last.to_owned(), self.place())
    }

    fn flags(&self) -> Vec<Candidate> {
        let shown = self.command.get_arguments().filter(|a| !a.is_hide_set());
        let long = shown.filter_map(|a| Some((format!("--{}", a.get_long()?), about(a.get_help()))));
        long.filter(|(flag, _)| !self.options.contains_key(&flag.trim_start_matches('-').replace('-', "_"))).collect()
    }

    /// The kind of the next word: a command's name, or a positional argument.
    fn place(&self) -> Expected {
        if self.command.has_subcommands() {
            let shown = self.command.get_subcommands().filter(|c| !c.is_hide_set());
            return Expected::Words(shown.map(|c| (c.get_name().to_owned(), about(c.get_about()))).collect());
        }
        let places: Vec<_> = self.command.get_positionals().collect();
        let here = places.get(self.places.len()).copied();
        // The last positional argument may be repeated.
        let many = |a: &&Arg| a.get_num_args().is_some_and(|n| n.max_values() > 1);
        let last = places.last().copied().filter(many);
        here.or(last).map_or(Expected::Nothing, |arg| self.values(arg))
    }

    /// The kind of an argument's values, by its name.
    fn values(&self, arg: &Arg) -> Expected {
        let names = arg.get_value_names().unwrap_or_default();
        if names.iter().any(|name| name.as_str() == "REVISION") {
            return self.places.first().map_or(Expected::Nothing, |group| Expected::Revision(group.clone()));
        }
        match arg.get_id().as_str() {
            "group" | "groups" => Expected::Group,
            "member" | "to" | "from" => {
                self.places.first().map_or(Expected::Nothing, |group| Expected::Member(group.clone()))
            }
            "config_map" => Expected::ConfigMap,
            "namespace" | "namespaces" => Expected::Namespace,
            "context" => Expected::Context,
            "kubeconfig" | "policy_dir" | "file" | "dir" | "snapshot" | "manifest" | "policy_file" | "junit"
            | "sdk" => Expected::File,
            _ => {
                let values = arg.get_possible_values();
                let words =
                    values.iter().filter(|v| !v.is_hide_set()).map(|v| (v.get_name().to_owned(), about(v.get_help())));
                let words: Vec<_> = words.collect();
                if words.is_empty() { Expected::Nothing } else { Expected::Words(words) }
            }
        }
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// The first sentence of a help text.
fn about(help: Option<&clap::builder::StyledStr>) -> String {
    let text = help.map(ToString::to_string).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    line.split_once(". ").map_or(line, |(first, _)| first).trim_end_matches('.').to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
mod tests {
    use super::*;

    fn line(words: &str) -> Line {
        read(&words.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    async fn answered(words: &str) -> Vec<String> {
        let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        answer(&words).await.lines().map(|l| l.split('\t').next().unwrap().to_owned()).collect()
    }

    // P42: a space at the end is an empty last word: the next word is expected.
    #[tokio::test]
    async fn commands_flags_and_values_are_completed() {
        assert_eq!(answered("stat").await, ["status", ":4"]);
        assert_eq!(answered("re").await, ["restart", "recover", "resume", "retry", ":4"]);
        assert_eq!(answered("status -o ").await, ["wide", "json", "yaml", "name", ":4"]);
        assert_eq!(answered("status --output=y").await, ["--output=yaml", ":4"]);
        assert_eq!(answered("status --output = y").await, ["yaml", ":4"], "as bash takes it apart");
        assert_eq!(answered("status --al").await, ["--all-namespaces", ":4"]);
        assert_eq!(answered("override db db-1 --y").await, ["--yes", ":4"]);
        assert_eq!(answered("switchover db --kubeconfig ").await, [":0"], "the shell offers files");
        assert_eq!(
            answered("policy ").await,
            ["new", "check", "run", "test", "bench", "inspect", "fmt", "snapshot", "try", "put", "dev", "help", ":4"]
        );
        let questions = [
            "seed",
            "failover",
            "join",
            "demote",
            "place",
            "treat",
            "switchover",
            "rebalance",
            "update",
            "judge",
            "admit",
            "order",
            ":4",
        ];
        assert_eq!(answered("policy try db x.star --question ").await, questions);
        assert_eq!(answered("policy new --lang ").await, ["starlark", "rust", ":4"]);
        assert_eq!(answered("simulate --faults node-").await, ["node-silent", "node-gone", "node-away", ":4"]);
        for words in [
            "policy check ",
            "policy run x.star --snapshot ",
            "policy run --group ",
            "policy test --junit ",
            "policy try db ",
            "policy put rules ",
            "policy fmt a.star ",
            "policy dev ",
            "simulate --policy ",
            "simulate --group ",
        ] {
            assert_eq!(answered(words).await, [":0"], "the shell offers files: {words}");
        }
        assert!(answered("").await.contains(&"switchover".to_owned()));
        assert_eq!(answered("pause db ").await, [":4"], "there is no second place");
    }

    #[test]
    fn groups_and_members_are_expected_in_their_places() {
        for words in [
            "explain ",
            "status ",
            "status web ",
            "status -A ",
            "-n shop pause d",
            "override -y ",
            "policy snapshot ",
            "policy try ",
            "policy dev . ",
        ] {
            assert_eq!(line(words).expected, Expected::Group, "{words}");
        }
        for words in [
            "switchover db --to ",
            "switchover db --to=d",
            "override db ",
            "override --yes db db",
            "recover db --from ",
        ] {
            assert_eq!(line(words).expected, Expected::Member("db".into()), "{words}");
        }
        assert_eq!(line("policy put ").expected, Expected::ConfigMap);
        assert_eq!(line("policy put ru").expected, Expected::ConfigMap);
        assert_eq!(line("status -n ").expected, Expected::Namespace);
        assert_eq!(line("--context ").expected, Expected::Context);
        assert_eq!(line("status web ").taken, ["web"], "it is there already");
    }

    #[test]
    fn the_cluster_of_the_words_is_asked() {
        for words in
            ["-n shop --context two status ", "status -nshop --context=two ", "status -A -n=shop --context two d"]
        {
            let reach = line(words).reach;
            assert_eq!((reach.namespace.as_deref(), reach.context.as_deref()), (Some("shop"), Some("two")), "{words}");
        }
    }

    #[test]
    fn a_group_is_offered_with_its_primary() {
        let well = crate::cli::example(&serde_json::json!({}));
        assert_eq!(group(&well), ("db".to_owned(), "primary db-1".to_owned()));
    }
}
