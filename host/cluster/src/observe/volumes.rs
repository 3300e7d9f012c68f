//! How large the volumes of members are, and are to be.
use super::quantity;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use std::collections::BTreeMap;
use tanist_api::ReplicaGroup;
use tanist_api::spec::ClaimTemplate;
use tanist_core::snapshot::{Amount, Room};

/// The resource of a claim.
const STORAGE: &str = "storage";

/// Conditions of a claim that is being resized, in the order in which they come, and what each means.
const RESIZING: [(&str, &str); 4] = [
    ("ControllerResizeError", "the storage failed to make it larger, and tries again"),
    ("NodeResizeError", "the node failed to make its file system larger, and tries again"),
    (
        "FileSystemResizePending",
        "the node makes its file system larger; if that takes long, the storage does it only when the pod is made anew: delete the pod",
    ),
    ("Resizing", "the storage makes it larger"),
];

/// How large the volume of a claim is, and is to be. `None`: it is not bound yet, or no template asks for a size.
#[must_use]
pub fn room(claim: &PersistentVolumeClaim, member: &str, templates: &[ClaimTemplate]) -> Option<Room> {
    let name = claim.name_any();
    let volume = name.strip_suffix(member)?.strip_suffix('-')?;
    let template = templates.iter().find(|template| template.metadata.name == volume)?;
    let status = claim.status.as_ref().filter(|status| status.phase.as_deref() == Some("Bound"))?;
    let requested = amount(storage(claim.spec.as_ref()?)?)?;
    // Without a capacity the volume has what was asked for, as far as anybody says.
    let capacity = status.capacity.as_ref().and_then(|all| amount(all.get(STORAGE)?));
    let conditions = status.conditions.iter().flatten().filter(|condition| condition.status == "True");
    let conditions: BTreeMap<_, _> = conditions.map(|condition| (condition.type_.as_str(), condition)).collect();
    let state = status.allocated_resource_statuses.as_ref().and_then(|all| all.get(STORAGE));
    let is_refused = state.is_some_and(|state| state.ends_with("Infeasible"));
    let note = RESIZING.iter().find_map(|(kind, meaning)| Some((conditions.get(kind)?, meaning)));
    let note = note.map(|(condition, meaning)| match condition.message.as_deref().filter(|said| !said.is_empty()) {
        Some(said) => format!("{meaning}: {said}"),
        None => (*meaning).to_owned(),
    });
    let refusal = is_refused
        .then(|| "the storage cannot make it larger; set the size in spec.volumeClaimTemplates back".to_owned());
    Some(Room {
        volume: volume.to_owned(),
        desired: amount(storage(&template.spec)?)?,
        capacity: capacity.unwrap_or_else(|| requested.clone()),
        requested,
        note: refusal.or(note),
        is_refused,
    })
}

fn storage(spec: &PersistentVolumeClaimSpec) -> Option<&Quantity> {
    spec.resources.as_ref()?.requests.as_ref()?.get(STORAGE)
}

fn amount(quantity: &Quantity) -> Option<Amount> {
    Some(Amount { bytes: quantity::bytes(&quantity.0)?, text: quantity.0.clone() })
}

/// The group with the sizes with which its `StatefulSet` was made: the API server refuses to change them there, and the claims are raised one by one.
#[must_use]
pub fn as_made(group: &ReplicaGroup, set: Option<&StatefulSet>) -> ReplicaGroup {
    let mut group = group.clone();
    let made = set.and_then(|set| set.spec.as_ref()?.volume_claim_templates.as_ref()).into_iter().flatten();
    for made in made {
        let name = made.metadata.name.as_deref();
        let template = group.spec.volume_claim_templates.iter_mut().find(|t| Some(t.metadata.name.as_str()) == name);
        let Some((template, size)) = template.zip(made.spec.as_ref().and_then(storage)) else { continue };
        // The same amount in other words is no change.
        let differs = storage(&template.spec).and_then(amount).map(|a| a.bytes) != amount(size).map(|a| a.bytes);
        if differs {
            let requests = template.spec.resources.get_or_insert_default().requests.get_or_insert_default();
            requests.insert(STORAGE.to_owned(), size.clone());
        }
    }
    group
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn templates(size: &str) -> Vec<ClaimTemplate> {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
        vec![serde_json::from_value(json!({"metadata": {"name": "data"}, "spec": spec})).unwrap()]
    }

    fn claim(status: Value) -> PersistentVolumeClaim {
        let spec = json!({"resources": {"requests": {"storage": "1Gi"}}});
        serde_json::from_value(json!({"metadata": {"name": "data-db-1"}, "spec": spec, "status": status})).unwrap()
    }

    fn texts(room: &Room) -> (&str, &str, &str) {
        (&room.desired.text, &room.requested.text, &room.capacity.text)
    }

    // docs/rules.md, "Volumes": a claim is compared with the template of its own volume, once it is bound.
    #[test]
    fn a_claim_is_compared_with_its_template() {
        let bound = |more: Value| {
            let mut status = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
            status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            room(&claim(status), "db-1", &templates("2Gi"))
        };
        let plain = bound(json!({})).unwrap();
        assert_eq!((texts(&plain), &plain.note, plain.is_refused), (("2Gi", "1Gi", "1Gi"), &None, false));
        assert_eq!(room(&claim(json!({"phase": "Pending"})), "db-1", &templates("2Gi")), None);
        let bare = claim(json!({"phase": "Bound"}));
        assert_eq!(room(&bare, "db-1", &templates("2Gi")).unwrap().capacity.text, "1Gi");
        let mut other = templates("2Gi");
        other[0].metadata.name = "log".into();
        assert_eq!(room(&bare, "db-1", &other), None, "it is of another volume");

        let pending = json!({"conditions": [{"type": "FileSystemResizePending", "status": "True", "message": "waiting for the node"}]});
        let note = bound(pending).unwrap().note.unwrap();
        assert!(note.contains("when the pod is made anew: delete the pod: waiting for the node"), "{note}");
        let refused = bound(json!({"allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"}})).unwrap();
        assert!(refused.is_refused && refused.note.unwrap().contains("set the size in spec.volumeClaimTemplates back"));
    }

    // The templates of claims of a StatefulSet cannot be changed: it is applied with those that it has, however they are written.
    #[test]
    fn a_set_is_applied_with_the_sizes_that_it_has() {
        let group = |size: &str| -> ReplicaGroup {
            let command = |name: &str| json!({"exec": [name]});
            let commands = json!({"status": command("s"), "sequence": command("q"), "stop": command("t"), "primary": command("p")});
            serde_json::from_value(json!({
                "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "metadata": {"name": "db"},
                "spec": {"replicas": 1, "primaries": 1, "template": {}, "commands": commands, "volumeClaimTemplates": templates(size)}
            }))
            .unwrap()
        };
        let set: StatefulSet = serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": {
            "selector": {}, "serviceName": "db", "template": {}, "volumeClaimTemplates": [{"metadata": {"name": "data"},
                "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]
        }}))
        .unwrap();
        let size = |group: &ReplicaGroup| storage(&group.spec.volume_claim_templates[0].spec).unwrap().0.clone();
        assert_eq!(size(&as_made(&group("2Gi"), Some(&set))), "1Gi");
        assert_eq!(size(&as_made(&group("2Gi"), None)), "2Gi");
        assert_eq!(size(&as_made(&group("1024Mi"), Some(&set))), "1024Mi");
    }
}
