//! What the pod of a member has because it belongs to a zone (`spec.zones`, E16 to E21).
use super::BuildError;
use super::pods::{add_env, containers, list, object};
use serde_json::{Map, Value, json};
use tanist_api::{LABEL_ZONE, LABEL_ZONE_INDEX, ReplicaGroup};

/// Lets the pod run in that zone only, and tells it so.
///
/// # Errors
/// When the template is no pod template.
pub(super) fn place(group: &ReplicaGroup, zone: &str, pod: &mut Value) -> Result<(), BuildError> {
    let whole = pod.as_object_mut().ok_or_else(|| BuildError::Form("template has to be an object".into()))?;
    // One that the user does not name any more has no place in the list.
    let index = group.spec.zones.list.iter().position(|known| known.name == zone).map(|index| index.to_string());
    let labels = object(object(whole, "metadata", "template")?, "labels", "template.metadata")?;
    labels.insert(LABEL_ZONE.into(), zone.into());
    if let Some(index) = &index {
        labels.insert(LABEL_ZONE_INDEX.into(), index.as_str().into());
    }
    let named = json!({"name": "ZONE_NAME", "value": zone});
    let numbered = index.map(|index| json!({"name": "ZONE_INDEX", "value": index}));
    let env: Vec<Value> = std::iter::once(named).chain(numbered).collect();
    let spec = object(whole, "spec", "template")?;
    for kind in ["initContainers", "containers"] {
        for container in containers(spec, kind)? {
            add_env(container?, env.clone())?;
        }
    }
    require(spec, &json!({"key": group.spec.zones.label(), "operator": "In", "values": [zone]}))
}

/// Adds a requirement for the node to each term of the user's: terms are alternatives, so one more would allow every other zone (E19).
fn require(spec: &mut Map<String, Value>, wanted: &Value) -> Result<(), BuildError> {
    let affinity = object(object(spec, "affinity", "template.spec")?, "nodeAffinity", "template.spec.affinity")?;
    let required =
        object(affinity, "requiredDuringSchedulingIgnoredDuringExecution", "template.spec.affinity.nodeAffinity")?;
    let terms = list(required, "nodeSelectorTerms", "the required node affinity of template.spec")?;
    if terms.is_empty() {
        terms.push(json!({"matchExpressions": [wanted]}));
        return Ok(());
    }
    for term in terms {
        let form = || BuildError::Form("every term of a node affinity has to be an object".into());
        let term = term.as_object_mut().ok_or_else(form)?;
        // No node matches an empty one; with a requirement one would.
        if !term.is_empty() {
            list(term, "matchExpressions", "a term of a node affinity")?.push(wanted.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::member;
    use super::super::tests::{group, settings};
    use serde_json::{Value, json};

    /// The pod of db-7 in that zone, of a group with the zones a and b. `spec`: of its template.
    fn pod(zone: Option<&str>, spec: Value) -> Value {
        let changes = json!({"members": {"kind": "Pods"}, "zones": {"list": [{"name": "a"}, {"name": "b"}]}, "template": {"spec": spec}});
        member(&group(changes), 7, zone, &settings()).unwrap().pop().unwrap()
    }

    fn terms(pod: &Value) -> &Value {
        &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    }

    // E29: the number of a member is on its pod, as a StatefulSet writes it.
    #[test]
    fn a_pod_says_its_number() {
        assert_eq!(pod(None, json!({}))["metadata"]["labels"]["apps.kubernetes.io/pod-index"], json!("7"));
    }

    // E17, E20: the zone of a member is on its pod, and in all its containers.
    #[test]
    fn a_pod_says_its_zone() {
        let containers = |env: Value| json!([{"name": "db", "image": "db:1", "env": env}]);
        let init = json!([{"name": "before", "image": "db:1"}]);
        let made = pod(Some("b"), json!({"containers": containers(json!([])), "initContainers": init}));
        let labels = &made["metadata"]["labels"];
        assert_eq!((&labels["tanist.dev/zone"], &labels["tanist.dev/zone-index"]), (&json!("b"), &json!("1")));
        for kind in ["containers", "initContainers"] {
            for container in made["spec"][kind].as_array().unwrap().iter().filter(|c| c["name"] != "tanist-run") {
                let env = container["env"].as_array().unwrap();
                let of = |name: &str| env.iter().find(|own| own["name"] == name).map(|own| own["value"].clone());
                assert_eq!((of("ZONE_NAME"), of("ZONE_INDEX")), (Some(json!("b")), Some(json!("1"))), "{container}");
            }
        }
        let own = pod(Some("b"), json!({"containers": containers(json!([{"name": "ZONE_NAME", "value": "mine"}]))}));
        let names = own["spec"]["containers"][0]["env"].as_array().unwrap().iter().filter(|e| e["name"] == "ZONE_NAME");
        assert_eq!(names.map(|e| e["value"].clone()).collect::<Vec<_>>(), [json!("mine")], "the user's comes first");
    }

    // E19, E21: the zone is one more requirement in each of the user's alternatives, never another alternative; all else of the template stays.
    #[test]
    fn a_pod_runs_in_its_zone_only() {
        let in_zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]});
        let with = |affinity: Value| {
            let tolerations = json!([{"key": "dedicated", "operator": "Exists"}]);
            let containers = json!([{"name": "db", "image": "db:1"}]);
            let made =
                pod(Some("b"), json!({"containers": containers, "affinity": affinity, "tolerations": tolerations}));
            assert_eq!(made["spec"]["tolerations"], tolerations);
            made
        };
        assert_eq!(*terms(&with(Value::Null)), json!([{"matchExpressions": [in_zone]}]));
        let disk = json!({"key": "disk", "operator": "In", "values": ["ssd"]});
        let field = json!([{"key": "metadata.name", "operator": "In", "values": ["n1"]}]);
        let own = json!([{"matchExpressions": [disk]}, {"matchFields": field}, {}]);
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": own}});
        let both =
            json!([{"matchExpressions": [disk, in_zone]}, {"matchFields": field, "matchExpressions": [in_zone]}, {}]);
        assert_eq!(*terms(&with(json!({"nodeAffinity": required}))), both);
    }

    // E16, E18: names are those of members without zones, and one whose zone was removed from the list stays where its volume is.
    #[test]
    fn a_zone_that_is_not_named_any_more_keeps_its_members_until_they_have_left() {
        let containers = || json!({"containers": [{"name": "db", "image": "db:1"}]});
        let made = pod(Some("former"), containers());
        assert_eq!(made["metadata"]["name"], "db-7");
        assert_eq!(terms(&made)[0]["matchExpressions"][0]["values"], json!(["former"]));
        assert_eq!(made["metadata"]["labels"].get("tanist.dev/zone-index"), None);
        assert_eq!(pod(None, containers())["spec"]["affinity"].get("nodeAffinity"), None, "nobody knows its zone yet");
    }

    // E14: racks, or whatever else the nodes are labelled with.
    #[test]
    fn another_label_may_say_the_zone() {
        let zones = json!({"nodeLabel": "example.org/rack", "list": [{"name": "r1"}]});
        let group = group(json!({"members": {"kind": "Pods"}, "zones": zones}));
        let made = member(&group, 0, Some("r1"), &settings()).unwrap().pop().unwrap();
        assert_eq!(terms(&made)[0]["matchExpressions"][0]["key"], "example.org/rack");
        assert_eq!(made["spec"]["topologySpreadConstraints"][0]["topologyKey"], "example.org/rack");
    }
}
