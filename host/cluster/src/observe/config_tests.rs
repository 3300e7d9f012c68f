#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
use super::*;
use crate::stub::{GROUP, Stub};
use tanist_core::contract::Role;

fn template(spec: Value) -> Template {
    Template(json!({"spec": spec}).as_object().unwrap().clone())
}

// E10: everything that a pod gets from a ConfigMap or a Secret, in init containers and projected volumes too. One that is needed anywhere is needed.
#[test]
fn every_reference_of_a_template_is_found() {
    let from = |kind: &str, name: &str| json!({"valueFrom": {kind: {"name": name, "key": "k"}}});
    let spec = json!({
        "volumes": [
            {"name": "a", "configMap": {"name": "mounted"}}, {"name": "b", "secret": {"secretName": "mounted"}}, {"name": "c", "emptyDir": {}},
            {"name": "d", "projected": {"sources": [
                {"configMap": {"name": "projected", "optional": true}}, {"secret": {"name": "projected"}}, {"downwardAPI": {}}
            ]}}
        ],
        "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "all"}}, {"secretRef": {"name": "all", "optional": true}}]}],
        "containers": [{"name": "c", "env": [from("configMapKeyRef", "one"), from("secretKeyRef", "one"), {"name": "plain", "value": "v"},
            json!({"valueFrom": {"configMapKeyRef": {"name": "mounted", "key": "k", "optional": true}}})]}]
    });
    let found: Vec<_> =
        references(&template(spec)).into_iter().map(|((kind, name), optional)| (kind.word(), name, optional)).collect();
    let of = |kind: &'static str, optional: &str| {
        ["all", "mounted", "one", "projected"].map(|name| (kind, name.to_owned(), name == optional)).to_vec()
    };
    assert_eq!(found, [of("ConfigMap", "projected"), of("Secret", "all")].concat());
    assert_eq!(references(&template(json!({"containers": "none"}))), BTreeMap::new());
    let spec = json!({
        "volumes": [{"name": "v", "configMap": {"name": "both", "optional": true}}],
        "containers": [{"name": "c", "env": [from("configMapKeyRef", "both")]}]
    });
    assert_eq!(references(&template(spec)).into_values().collect::<Vec<_>>(), [false], "the container needs it");
}

fn object(metadata: Value, data: Value) -> Arc<DynamicObject> {
    let mut object = json!({"metadata": metadata});
    object.as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
    Arc::new(serde_json::from_value(object).unwrap())
}

// E10: data counts, and no metadata; a Secret that is made anew counts as changed, and its data is never shown.
#[test]
fn data_counts_and_metadata_does_not() {
    let of = |kind, metadata, content| data((kind, "c"), false, Ok(Some(object(metadata, content)))).unwrap();
    let map = |labels: Value, value: &str| {
        of(Kind::ConfigMap, json!({"name": "c", "uid": "u", "labels": labels}), json!({"data": {"k": value}}))
    };
    assert_eq!(map(json!({}), "1"), map(json!({"other": "label"}), "1"));
    assert_ne!(map(json!({}), "1"), map(json!({}), "2"));
    let binary = of(Kind::ConfigMap, json!({"name": "c"}), json!({"data": {"k": "1"}, "binaryData": {"b": "AA=="}}));
    assert_ne!(binary, map(json!({}), "1"));
    let secret = |uid: &str, value: &str| {
        of(Kind::Secret, json!({"name": "c", "uid": uid}), json!({"data": {"password": value}}))
    };
    assert!(!secret("u", "hunter2").to_string().contains("hunter2"));
    assert_ne!(secret("u", "a"), secret("u", "b"));
    assert_ne!(secret("u", "a"), secret("v", "a"), "whoever sees a hash cannot try passwords without the UID");
}

// E10: one that pods need and that is not there, or cannot be read, changes nothing and is said; one that they do without counts as absent.
#[test]
fn what_is_missing_is_said() {
    let answered = |code| Error::Answered { code, reason: "Forbidden".into(), message: "no".into() };
    let said = |kind, read| data((kind, "settings"), false, read).unwrap_err();
    let Reading::Missing(missing) = said(Kind::ConfigMap, Ok(None)) else { panic!("it may be there") };
    assert!(missing.starts_with("there is no ConfigMap settings, which spec.template names"), "{missing}");
    let unread = |kind, code| match said(kind, Err(answered(code))) {
        Reading::Trouble(trouble) => trouble,
        other => panic!("nobody knows whether it is there: {other:?}"),
    };
    assert!(unread(Kind::Secret, 403).contains("give it the right (deploy/rbac/secrets)"));
    assert!(unread(Kind::ConfigMap, 500).contains("cannot be read"));
    assert_eq!(data((Kind::ConfigMap, "settings"), true, Ok(None)).unwrap(), json!(["ConfigMap", "settings"]));
}

fn hash(text: &str) -> Reading {
    Reading::Hash(Some(text.to_owned()))
}

/// What counts after each reading at its second, in a process that begins.
fn played(live: Option<&str>, readings: &[(u64, Reading)]) -> Vec<(Option<String>, Option<Timestamp>)> {
    let mut known = None;
    let mut after = |(second, reading): &(u64, Reading)| {
        let at = Moment::default() + Duration::from_secs(*second);
        let configured = settle(&mut known, reading.clone(), live, at, i64::try_from(*second).unwrap());
        (configured.hash, configured.settles)
    };
    readings.iter().map(&mut after).collect()
}

fn used(live: Option<&str>, readings: &[(u64, Reading)]) -> Vec<String> {
    played(live, readings).into_iter().map(|(hash, _)| hash.unwrap_or_default()).collect()
}

// E2, E11: a burst of changes is one change, ten seconds after its last; what comes back in time is none.
#[test]
fn a_burst_is_one_change() {
    let burst = [(0, hash("a")), (5, hash("b")), (8, hash("c")), (17, hash("c")), (18, hash("c"))];
    assert_eq!(used(None, &burst), ["a", "a", "a", "a", "c"]);
    assert_eq!(played(None, &burst)[2].1, Some(19));
    let undone = [(0, hash("a")), (5, hash("b")), (9, hash("a")), (16, hash("b")), (20, hash("b"))];
    assert_eq!(used(None, &undone), ["a", "a", "a", "a", "a"]);
    assert_eq!(played(None, &undone)[2].1, None);
}

// E2: what a process that begins reads counts at once; what cannot be read changes nothing, before and after.
#[test]
fn what_cannot_be_read_changes_nothing() {
    let lost = || Reading::Trouble("it is gone".into());
    assert_eq!(
        used(Some("live"), &[(0, lost()), (1, hash("a")), (2, lost()), (30, hash("a"))]),
        ["live", "a", "a", "a"]
    );
    assert_eq!(
        used(Some("live"), &[(0, hash("live")), (1, lost()), (40, hash("b")), (51, hash("b"))]),
        ["live", "live", "live", "b"]
    );
}

// E11: no pod is made anew because changes do not count any more.
#[test]
fn to_follow_no_more_changes_nothing() {
    assert_eq!(used(Some("live"), &[(0, Reading::Off)]), ["live"]);
    assert_eq!(used(None, &[(0, Reading::Off)]), [""]);
    assert_eq!(used(Some("live"), &[(0, Reading::Hash(None))]), [""], "the template names none any more");
}

// E11: without the user's word nothing is read, and what counted before stays.
#[tokio::test]
async fn configuration_counts_only_where_the_user_wants_it() {
    let stub = Stub::new();
    stub.set_object("/api/v1/namespaces/ns/configmaps/c", json!({"metadata": {"name": "c"}, "data": {"k": "1"}}));
    let ctx = stub.context();
    let reading = async |wanted: bool| {
        stub.change(GROUP, |group| {
            let containers = json!([{"name": "db", "image": "db:1", "envFrom": [{"configMapRef": {"name": "c"}}]}]);
            group["spec"]["template"] = json!({"spec": {"containers": containers}});
            group["spec"]["update"] = json!({"onConfigChange": wanted});
        });
        let observed = stub.observe(&ctx, &[Role::Primary, Role::Secondary]).await;
        read(&ctx, &observed.object, &observed.snapshot.group).await
    };
    assert_eq!(reading(false).await, Reading::Off);
    assert!(matches!(reading(true).await, Reading::Hash(Some(_))));
    stub.remove("/api/v1/namespaces/ns/configmaps/c");
    assert!(matches!(reading(true).await, Reading::Missing(_)));
    let seen = stub.observe(&ctx, &[Role::Primary, Role::Secondary]).await.snapshot.group.update;
    assert!(seen.config_missing && seen.config_trouble.is_some(), "{:?}", seen.config_trouble);
}

// E2, E11: a change of a ConfigMap wakes the groups that want it and whose template names it, and no others.
#[test]
fn only_groups_that_follow_a_config_map_look() {
    let group = |follows: bool| {
        let spec = json!({"containers": [{"name": "db", "image": "db:1", "envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "password"}}]}]});
        let update = json!({"onConfigChange": follows});
        tanist_api::examples::group(&json!({"spec": {"template": {"spec": spec}, "update": update}})).unwrap()
    };
    assert!(follows(&group(true), "settings"));
    assert!(
        !follows(&group(true), "other") && !follows(&group(true), "password") && !follows(&group(false), "settings")
    );
}

// E10: what users may store in the objects that a template names is more than this process may hold: more than 8 MiB is said and not hashed.
#[tokio::test]
async fn what_all_objects_have_together_is_bounded() {
    let stub = Stub::new();
    let large = "x".repeat(3 << 20);
    for name in ["a", "b", "c"] {
        let path = format!("/api/v1/namespaces/ns/configmaps/{name}");
        stub.set_object(&path, json!({"metadata": {"name": name}, "data": {"k": large}}));
    }
    let ctx = stub.context();
    let reading = async |names: &[&str]| {
        let from: Vec<_> = names.iter().map(|name| json!({"configMapRef": {"name": name}})).collect();
        stub.change(GROUP, |group| {
            group["spec"]["template"] =
                json!({"spec": {"containers": [{"name": "db", "image": "db:1", "envFrom": from}]}});
            group["spec"]["update"] = json!({"onConfigChange": true});
        });
        let observed = stub.observe(&ctx, &[Role::Primary, Role::Secondary]).await;
        read(&ctx, &observed.object, &observed.snapshot.group).await
    };
    assert!(matches!(reading(&["a", "b"]).await, Reading::Hash(Some(_))));
    let Reading::Trouble(why) = reading(&["a", "b", "c"]).await else { panic!("it is read") };
    assert!(why.contains("have more than 8 MiB: name fewer"), "{why}");
}

// E2, E10: others read theirs: what counted before goes on to count without a word, and the next look reads it.
#[tokio::test(start_paused = true)]
async fn who_has_to_wait_for_a_turn_reads_later() {
    let stub = Stub::new();
    stub.set_object("/api/v1/namespaces/ns/configmaps/c", json!({"metadata": {"name": "c"}, "data": {"k": "1"}}));
    stub.change(GROUP, |group| {
        let containers = json!([{"name": "db", "image": "db:1", "envFrom": [{"configMapRef": {"name": "c"}}]}]);
        group["spec"]["template"] = json!({"spec": {"containers": containers}});
        group["spec"]["update"] = json!({"onConfigChange": true});
    });
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Role::Primary, Role::Secondary]).await;
    let turns = ctx.configurations.acquire_many(u32::try_from(AT_ONCE).unwrap()).await.unwrap();
    let group = &observed.snapshot.group;
    assert_eq!(read(&ctx, &observed.object, group).await, Reading::Later);
    assert_eq!(used(Some("live"), &[(0, hash("live")), (1, Reading::Later)]), ["live", "live"]);
    drop(turns);
    assert!(matches!(read(&ctx, &observed.object, group).await, Reading::Hash(Some(_))));
}

// What pods have as their annotation is the hash of the list: with another one every pod would be replaced.
#[test]
fn the_hash_is_that_of_the_list() {
    let all = [json!(["ConfigMap", "a", [{"k": "1"}, null]]), json!(["Secret", "b"])];
    let mut hashed = Hashed::default();
    all.iter().for_each(|one| hashed.add(one));
    assert_eq!(hashed.end(), Some(sha256(&json!(all).to_string())));
    assert_eq!(Hashed::default().end(), None);
}
