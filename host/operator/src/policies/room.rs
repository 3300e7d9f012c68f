//! How much of the labelled ConfigMaps is held in memory. Whoever may write ConfigMaps in one namespace could otherwise fill the memory of the process that manages the groups of all of them.
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::runtime::watcher::Event;
use std::collections::BTreeMap;

/// The annotation of a `ConfigMap` in the cache, and only there, whose data found no room.
pub const LEFT_OUT: &str = "tanist.dev/left-out";

/// Bytes of all `ConfigMap`s of one namespace.
pub const OF_NAMESPACE: usize = 32 * 1024 * 1024;

/// Bytes of those of all namespaces.
pub const IN_ALL: usize = 96 * 1024 * 1024;

/// How many are read at a time when the cache is filled: each may have a megabyte, and none has found its room yet.
pub const PAGE: u32 = 16;

/// The sizes of the `ConfigMap`s in the caches, and how many bytes there may be.
#[derive(Debug)]
pub struct Room {
    of_namespace: usize,
    in_all: usize,
    held: BTreeMap<(String, String), usize>,
    /// The sums of `held`, by namespace.
    sums: BTreeMap<String, usize>,
}

/// What an object takes beside its texts.
const OBJECT: usize = 1024;

impl Default for Room {
    fn default() -> Self {
        Room { of_namespace: OF_NAMESPACE, in_all: IN_ALL, held: BTreeMap::new(), sums: BTreeMap::new() }
    }
}

impl Room {
    /// What goes into the cache of that namespace: a `ConfigMap` for which there is no room goes in without its data.
    pub fn fit(&mut self, namespace: &str, mut event: Event<ConfigMap>) -> Event<ConfigMap> {
        match &mut event {
            Event::Init => {
                self.held.retain(|(of, _), _| of != namespace);
                self.sums.remove(namespace);
            }
            Event::Apply(map) | Event::InitApply(map) => self.hold(namespace, map),
            Event::Delete(map) => self.forget(&(namespace.to_owned(), map.name_any())),
            Event::InitDone => {}
        }
        event
    }

    fn hold(&mut self, namespace: &str, map: &mut ConfigMap) {
        // What nobody reads takes no room.
        map.metadata.managed_fields = None;
        let place = (namespace.to_owned(), map.name_any());
        self.forget(&place);
        let size = size(map);
        let of_namespace = self.sums.get(namespace).copied().unwrap_or_default();
        let in_all: usize = self.sums.values().sum();
        if of_namespace + size > self.of_namespace || in_all + size > self.in_all {
            (map.data, map.binary_data, map.metadata.labels) = (None, None, None);
            map.metadata.annotations = Some(BTreeMap::from([(LEFT_OUT.to_owned(), size.to_string())]));
            return;
        }
        self.held.insert(place, size);
        *self.sums.entry(namespace.to_owned()).or_default() += size;
    }

    fn forget(&mut self, place: &(String, String)) {
        let size = self.held.remove(place).unwrap_or_default();
        self.sums.get_mut(&place.0).into_iter().for_each(|sum| *sum = sum.saturating_sub(size));
    }
}

fn size(map: &ConfigMap) -> usize {
    let texts = map.data.iter().flatten().map(|(key, text)| key.len() + text.len());
    let bytes = map.binary_data.iter().flatten().map(|(key, bytes)| key.len() + bytes.0.len());
    let notes = map.annotations().iter().chain(map.labels()).map(|(key, note)| key.len() + note.len());
    OBJECT + texts.chain(bytes).chain(notes).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(name: &str, bytes: usize) -> ConfigMap {
        let map = json!({"metadata": {"name": name, "managedFields": [{"manager": "x"}]}, "data": {"a": "x".repeat(bytes - 1)}});
        serde_json::from_value(map).unwrap()
    }

    // Promise 4: one namespace leaves room for the others, and all of them leave room for the groups. What is there already keeps its room, and what goes gives it back.
    #[test]
    fn what_finds_no_room_is_held_without_its_data() {
        let mut room = Room { of_namespace: 100 + 2 * OBJECT, in_all: 150 + 3 * OBJECT, ..Room::default() };
        let mut is_held = |namespace: &str, event| match room.fit(namespace, event) {
            Event::Apply(map) | Event::InitApply(map) => {
                assert!(map.metadata.managed_fields.is_none());
                assert_eq!(map.data.is_some(), !map.annotations().contains_key(LEFT_OUT));
                map.data.is_some()
            }
            _ => false,
        };
        assert!(is_held("a", Event::InitApply(map("one", 60))));
        assert!(!is_held("a", Event::Apply(map("two", 41))), "of the namespace");
        assert!(is_held("a", Event::Apply(map("two", 40))));
        assert!(is_held("a", Event::Apply(map("one", 30))), "its own size does not count twice");
        assert!(is_held("b", Event::Apply(map("one", 80))));
        assert!(!is_held("c", Event::Apply(map("one", 1))), "in all");
        is_held("b", Event::Delete(map("one", 80)));
        let mut labelled = map("more", 1);
        labelled.labels_mut().insert("long".into(), "x".repeat(200));
        assert!(!is_held("d", Event::Apply(labelled)), "labels count, too");
        assert!(is_held("c", Event::Apply(map("one", 80))));
        is_held("a", Event::Init);
        assert!(is_held("a", Event::InitApply(map("three", 70))), "another list has what there is now");
    }
}
