//! Groups as a watch reads them: one that this version cannot read is left out and reported, and the others go on. The definition may be of a later version than the operator (docs/operations.md, "Roll back").
use futures::{Stream, StreamExt, future};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::runtime::watcher::{self, Event};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
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
        let mut is_cut = false;
        let object = Bounded { depth: DEPTH, is_cut: &mut is_cut }.deserialize(from)?;
        // Every object has these, whatever its version.
        let metadata = object.get("metadata").ok_or_else(|| de::Error::missing_field("metadata"))?;
        let metadata = ObjectMeta::deserialize(metadata).map_err(de::Error::custom)?;
        let read = match is_cut {
            true => Err(format!("objects in it are nested more than {DEPTH} deep")),
            false => serde_json::from_value(object).map(Box::new).map_err(|why| why.to_string()),
        };
        Ok(Stored { metadata, read })
    }
}

/// How deep the objects in a group may be nested. A pod template has some 15. serde_json reads at most 128 of them, and a list in which one group has more could not be read at all; the API server
/// takes 10,000.
const DEPTH: usize = 64;

/// Reads a value up to that depth. What is deeper is left out, which does not recurse.
struct Bounded<'a> {
    depth: usize,
    is_cut: &'a mut bool,
}

impl Bounded<'_> {
    fn inner(&mut self) -> Bounded<'_> {
        Bounded { depth: self.depth.saturating_sub(1), is_cut: self.is_cut }
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        if self.depth > 0 {
            return from.deserialize_any(self);
        }
        *self.is_cut = true;
        IgnoredAny::deserialize(from).map(|_| Value::Null)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.inner())? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            map.insert(key, entries.next_value_seed(self.inner())?);
        }
        Ok(Value::Object(map))
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

/// The group without what no watch needs: these would stay in memory for each group, and a round reads its group itself.
fn without_history(mut group: ReplicaGroup) -> ReplicaGroup {
    group.metadata.managed_fields = None;
    if let Some(status) = &mut group.status {
        status.decisions.clear();
        let record = status.record.as_mut().and_then(Value::as_object_mut);
        record.into_iter().for_each(|record| drop(record.remove("history")));
    }
    group
}

/// The events of the groups that can be read. `report` is told of each other one, and why it cannot be read.
pub fn readable(
    events: impl Stream<Item = watcher::Result<Event<Stored>>>,
    report: impl Fn(&Stored, &str),
) -> impl Stream<Item = watcher::Result<Event<ReplicaGroup>>> {
    let read = move |stored: Stored| match stored.read {
        Ok(group) => Some(without_history(*group)),
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
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
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

    // The API server takes objects that are nested 10,000 deep, and serde_json reads 128: one of them must not hide the list in which it is, nor end the watch.
    #[test]
    fn one_group_that_is_nested_too_deep_hides_no_other() {
        let nested = |depth: usize| {
            let parameters = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
            format!(
                r#"{{"metadata":{{"name":"db"}},"spec":{{"replicas":1,"primaries":1,"template":{{}},"commands":{{"status":{{"exec":["s"]}}}},"policies":[{{"builtin":"sequence","parameters":{parameters}}}]}}}}"#
            )
        };
        let list = format!(r#"{{"items":[{},{}]}}"#, nested(9000), nested(1));
        #[derive(Deserialize)]
        struct List {
            items: Vec<Stored>,
        }
        let List { items } = serde_json::from_str(&list).unwrap();
        let why = items[0].read.as_ref().unwrap_err();
        assert_eq!((items[0].name_any().as_str(), why.as_str()), ("db", "objects in it are nested more than 64 deep"));
        assert!(items[1].read.is_ok());
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
