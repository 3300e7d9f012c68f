//! A group in a cluster, for `snapshot`, `try`, `put` and `dev`: what may be read with the role `view`, and the policies that decide for the group now.
use super::super::Session;
use super::super::find::{find, observed};
use super::super::output::note;
use super::super::trouble::failed;
use crate::policies::{content_of, source_text};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod};
use kube::api::ListParams;
use kube::{Api, Error, ResourceExt};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tanist_api::spec::Policy as PolicySpec;
use tanist_api::view::View;
use tanist_api::{LABEL_GROUP, LABEL_POLICY, ReplicaGroup};
use tanist_author::Place;
use tanist_author::recorded::{About, Recording, record};
use tanist_author::tools::{Tools, layer};
use tanist_cluster::observe::told::{Objects, Told, told};
use tanist_core::data::show_position;
use tanist_core::policy::Point;
use tanist_core::snapshot::Snapshot;
use tanist_engine::Layer;

/// The name of the policy that every stack ends with.
const LAST: &str = "sequence";

/// A live group.
pub struct Live {
    /// The group's object, as the API server returned it.
    pub group: ReplicaGroup,
    /// The input of a decision, as far as it can be known from outside.
    pub snapshot: Snapshot,
    /// What a reader has to know about it, each a sentence.
    pub unsaid: Vec<String>,
}

/// Reads a group. Nothing is executed and nothing written.
///
/// # Errors
/// When there is no such group, it cannot be read, or no operator has looked at it.
pub async fn read(session: &Session, name: &str) -> anyhow::Result<Live> {
    let group = find(&session.groups(), name).await?;
    let view = View::new(&group);
    observed(&view).map_err(anyhow::Error::msg)?;
    let (client, namespace) = (&session.client, session.namespace.as_str());
    let of_group = ListParams::default().labels(&format!("{LABEL_GROUP}={name}"));
    let pods = Api::<Pod>::namespaced(client.clone(), namespace).list(&of_group).await;
    let pods = pods.map_err(|error| failed(&format!("list the pods of {name}"), &error))?.items;
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace).list(&of_group).await;
    let set = Api::<StatefulSet>::namespaced(client.clone(), namespace).get_opt(name).await;
    let nodes = nodes(session, &pods).await;
    let mut unsaid = Vec::new();
    let claims = allowed(claims.map(|list| list.items), "claims", "whether a volume was replaced", &mut unsaid)?;
    let set = allowed(set, "StatefulSets", "how many pods are expected", &mut unsaid)?;
    let nodes = allowed(nodes, "nodes", "zones, and which nodes are to be drained", &mut unsaid)?;
    let objects = Objects { group: group.clone(), set: set.flatten(), pods, claims: claims.unwrap_or_default(), nodes };
    let Told { snapshot, guessed } = told(objects, Timestamp::now().as_second())?;
    let mut all = about(&view, &snapshot, &guessed);
    all.extend(unsaid);
    Ok(Live { group, snapshot, unsaid: all })
}

/// The nodes of these pods.
async fn nodes(session: &Session, pods: &[Pod]) -> kube::Result<Vec<Node>> {
    let names: BTreeSet<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
    let nodes = Api::<Node>::all(session.client.clone());
    let found = join_all(names.iter().map(|name| nodes.get_opt(name))).await;
    Ok(found.into_iter().collect::<kube::Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// What was read. `None`: this user may not read it; then it is said what is not known.
fn allowed<T>(read: kube::Result<T>, what: &str, lacks: &str, unsaid: &mut Vec<String>) -> anyhow::Result<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(Error::Api(status)) if status.code == 403 => {
            unsaid.push(format!("you may not read {what}, so {lacks} is not known"));
            Ok(None)
        }
        Err(error) => Err(failed(&format!("read {what}"), &error)),
    }
}

/// What is not as the operator would see it.
fn about(view: &View<'_>, snapshot: &Snapshot, guessed: &[(String, tanist_core::contract::Position)]) -> Vec<String> {
    let mut all = vec![
        "data is what was last read of each member, roles are those of the group's status; the operator reads both anew before it asks".to_owned(),
    ];
    if !guessed.is_empty() {
        let taken: Vec<_> = guessed.iter().map(|(name, data)| format!("{name} {}", show_position(data))).collect();
        all.push(format!(
            "the operator has not asked these members for their data, since no question needed it; taken is: {}",
            taken.join(", ")
        ));
    }
    if let Some((seen, present)) = view.is_behind() {
        all.push(format!("the operator has seen generation {seen} of the spec, and not yet {present}"));
    }
    if snapshot.group.paused {
        all.push("the group is paused, so no policy is asked before it is resumed".to_owned());
    }
    if snapshot.active_override().is_some() {
        all.push("an administrator has set an override, so no policy is asked by seed and failover".to_owned());
    }
    all
}

/// Records a group as cases, with the parameters of that policy of its spec.
///
/// # Errors
/// When the question does not arise.
pub fn recorded(live: &Live, question: Option<Point>, policy: Option<&PolicySpec>) -> anyhow::Result<Recording> {
    let mut notes = vec![format!(
        "Recorded from the group {}/{} at {:.0}. Times of 0 and less are seconds before `now`.",
        live.snapshot.group.namespace,
        live.snapshot.group.name,
        Timestamp::now()
    )];
    let sources: Vec<_> = live.group.spec.policies.iter().map(source_text).collect();
    notes.push(format!("Its policies: {}.", sources.join(", ")));
    let parameters = policy.map(|policy| policy.parameters.clone()).unwrap_or_default();
    Ok(record(&live.snapshot, question, &About { notes, parameters })?)
}

/// The entry of a group's spec that a file of that name is put under: it has that name as key or as file.
pub fn entry_of<'g>(group: &'g ReplicaGroup, file: &str) -> Option<&'g PolicySpec> {
    let names = |policy: &&PolicySpec| {
        policy.config_map.as_ref().is_some_and(|map| map.key == file) || policy.file.as_deref() == Some(file)
    };
    group.spec.policies.iter().find(names)
}

/// One policy of a group's stack as it is now.
pub struct Present {
    /// Where it comes from, as in the group's status.
    pub source: String,
    /// It with its parameters, or why it cannot be asked from here.
    pub layer: Result<Layer, String>,
}

/// The group's stack as it is now, the built-in policy that ends each stack included.
///
/// # Errors
/// When a `ConfigMap` cannot be read.
pub async fn stack(session: &Session, tools: &Tools, group: &ReplicaGroup) -> anyhow::Result<Vec<Present>> {
    let mut specs = group.spec.policies.clone();
    if !specs.iter().any(|policy| policy.builtin.as_deref() == Some(LAST) && policy.points.is_empty()) {
        specs.push(PolicySpec::builtin(LAST));
    }
    let mut all = Vec::new();
    for spec in &specs {
        let source = source_text(spec);
        let place = Place { file: source.clone(), line: 0, column: 0 };
        let policy = match (&spec.builtin, &spec.config_map) {
            (Some(name), _) => tools.builtin(name, &place).map_err(|error| error.to_string()),
            (_, Some(map)) => from_config_map(session, tools, &source, &map.name, &map.key).await?,
            _ => Err("it is not in the cluster's objects, so it cannot be asked from here".to_owned()),
        };
        let points = (!spec.points.is_empty()).then(|| spec.points.clone());
        let layer = policy.and_then(|policy| {
            layer(Arc::new(policy), &spec.parameters, points, &place).map_err(|error| error.to_string())
        });
        all.push(Present { source, layer });
    }
    Ok(all)
}

async fn from_config_map(
    session: &Session,
    tools: &Tools,
    source: &str,
    name: &str,
    key: &str,
) -> anyhow::Result<Result<tanist_engine::Policy, String>> {
    let maps = Api::<ConfigMap>::namespaced(session.client.clone(), &session.namespace);
    let map = maps.get_opt(name).await.map_err(|error| failed(&format!("read the ConfigMap {name}"), &error))?;
    let labelled = |map: &ConfigMap| map.labels().get(LABEL_POLICY).is_some_and(|value| value == "true");
    let Some(map) = map.filter(labelled) else {
        return Ok(Err(format!("there is no ConfigMap {name} with the label {LABEL_POLICY}: \"true\"")));
    };
    let limit = tools.engine().limits().component_bytes;
    let content = match content_of(&map, key, limit) {
        Ok(content) => content,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let loaded = tools.load_from(source, Path::new(key), &content.bytes);
    Ok(loaded.map_err(|error| tanist_cluster::api_error::chain(&error)))
}

/// Prints what a reader has to know to standard error, so that the output can be stored.
pub fn warn(sentences: &[String]) {
    for sentence in sentences {
        note(&format!("note: {sentence}"));
    }
}

/// The words of the points, for the arguments.
pub fn points() -> impl clap::builder::TypedValueParser<Value = Point> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    let words = Point::ALL.map(Point::as_str);
    PossibleValuesParser::new(words).try_map(|word| {
        Point::ALL.into_iter().find(|point| point.as_str() == word).ok_or_else(|| format!("{word} is no question"))
    })
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "told_tests.rs"]
mod told_tests;
