//! Groups as a watch reads them: one that this version cannot read is left out and reported, and the others go on. The definition may be of a later version than the operator (docs/operations.md, "Roll back").
use futures::{Stream, StreamExt, future};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::runtime::watcher::{self, Event};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use std::borrow::Cow;
use tanist_api::ReplicaGroup;

/// A group as it is stored, whether it can be read or not.
#[derive(Debug, Clone)]
pub struct Stored {
    metadata: ObjectMeta,
    /// The group, or why it cannot be read.
    read: Result<Box<ReplicaGroup>, String>,
}

impl<'de> Deserialize<'de> for Stored {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(from)?;
        // Every object has these, whatever its version.
        let metadata = object.get("metadata").ok_or_else(|| de::Error::missing_field("metadata"))?;
        let metadata = ObjectMeta::deserialize(metadata).map_err(de::Error::custom)?;
        let read = serde_json::from_value(object).map(Box::new).map_err(|why| why.to_string());
        Ok(Stored { metadata, read })
    }
}

impl Resource for Stored {
    type DynamicType = ();
    type Scope = <ReplicaGroup as Resource>::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        ReplicaGroup::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        ReplicaGroup::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        ReplicaGroup::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        ReplicaGroup::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The events of the groups that can be read. `report` is told of each other one, and why it cannot be read.
pub fn readable(
    events: impl Stream<Item = watcher::Result<Event<Stored>>>,
    report: impl Fn(&Stored, &str),
) -> impl Stream<Item = watcher::Result<Event<ReplicaGroup>>> {
    let read = move |stored: Stored| match stored.read {
        Ok(group) => Some(*group),
        Err(ref why) => {
            report(&stored, why);
            None
        }
    };
    events.filter_map(move |event| {
        future::ready(match event {
            Ok(Event::Apply(stored)) => read(stored).map(|group| Ok(Event::Apply(group))),
            Ok(Event::InitApply(stored)) => read(stored).map(|group| Ok(Event::InitApply(group))),
            Ok(Event::Delete(stored)) => read(stored).map(|group| Ok(Event::Delete(group))),
            Ok(Event::Init) => Some(Ok(Event::Init)),
            Ok(Event::InitDone) => Some(Ok(Event::InitDone)),
            Err(error) => Some(Err(error)),
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may")]
    use super::*;
    use kube::ResourceExt;
    use serde_json::json;
    use std::cell::RefCell;

    fn stored(name: &str, changes: Value) -> Stored {
        let mut spec = json!({
            "replicas": 1, "primaries": 1,
            "template": {"spec": {"containers": [{"name": "db", "image": "i"}]}},
            "commands": {"status": {"exec": ["s"]}}
        });
        spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let (api, kind) = ("tanist.dev/v1alpha1", "ReplicaGroup");
        let object =
            json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    // A group of a later version, with a word that this one does not know: the others of its namespace are seen all the same.
    #[tokio::test]
    async fn one_group_that_cannot_be_read_hides_no_other() {
        let later = || stored("later", json!({"runner": "OfTheFuture"}));
        let events = vec![
            Ok(Event::Init),
            Ok(Event::InitApply(later())),
            Ok(Event::InitApply(stored("db", json!({})))),
            Ok(Event::InitDone),
            Ok(Event::Apply(later())),
            Ok(Event::Apply(stored("db", json!({"replicas": 2})))),
            Ok(Event::Delete(later())),
            Ok(Event::Delete(stored("db", json!({})))),
            Err(watcher::Error::NoResourceVersion),
        ];
        let told = RefCell::new(Vec::new());
        let report = |stored: &Stored, why: &str| told.borrow_mut().push(format!("{}: {why}", stored.name_any()));
        let seen: Vec<_> = readable(futures::stream::iter(events), report)
            .map(|event| match event {
                Ok(Event::Init) => "begin".to_owned(),
                Ok(Event::InitApply(group)) => format!("there {}", group.name_any()),
                Ok(Event::InitDone) => "all".to_owned(),
                Ok(Event::Apply(group)) => format!("changed {} {}", group.name_any(), group.spec.replicas),
                Ok(Event::Delete(group)) => format!("gone {}", group.name_any()),
                Err(error) => error.to_string(),
            })
            .collect()
            .await;
        assert_eq!(seen[..5], ["begin", "there db", "all", "changed db 2", "gone db"]);
        assert_eq!(seen.len(), 6, "an error of the watch is one still: {seen:?}");
        let told = told.into_inner();
        assert_eq!(told.len(), 3);
        assert!(told.iter().all(|line| line.starts_with("later: ") && line.contains("OfTheFuture")), "{told:?}");
    }
}
