//! Every field of the resource gets boundary and bad values while its group runs, and then the good one again (docs/safety.md, S42), and two ways that lead
//! to the same spec lead to the same group (S43).
//!
//! The fields, their bounds and their rules are those of `crds/`: a new field is tried without a change here. A rule in CEL that [`rules`] does not have in Rust
//! fails a test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod lives;
#[allow(dead_code, missing_docs, reason = "the policies of the core's tests; not all are used here")]
#[path = "../../../core/tests/support/policies.rs"]
mod policies;
mod rules;
mod schema;
mod values;

use lives::{find_faults, lived, two_ways};
use schema::{Definition, Field, at, set};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use tanist_api::{ReplicaGroup, validate};
use tanist_cluster::objects::{Settings, TemplateNote, desired, member, template_hash};
use tanist_core::version;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The group that has every field.
const EVERYTHING: &str = "everything";

/// Fields that only the operator itself reads: which policies decide, when a round is due, and how many former templates are kept.
const READ_ELSEWHERE: [&str; 10] = [
    "spec.policies",
    "spec.resyncIntervalSeconds",
    // The API server alone holds `replicas` against these.
    "spec.scaling.maxReplicas",
    "spec.scaling.minReplicas",
    "spec.scaling.neverDown",
    "spec.scaling.odd",
    "spec.update.onConfigChange",
    "spec.update.onSecretChange",
    // Whether a change calls for a new member is seen on pods.
    "spec.update.replaceWhen",
    "spec.update.revisionHistoryLimit",
];

/// What is shown only by the pods that exist: their template is what they were made from, whatever the group's is by now, and so is what their runners execute by themselves.
const SHOWN_BY_PODS: [&str; 5] =
    ["spec.template", "spec.runner", "spec.commands.status", "spec.commands.stop", "spec.statusIntervalSeconds"];

/// The examples of this repository, and a group that has every field. Their commands are those of the simulated application.
fn groups() -> Vec<(&'static str, Value)> {
    let manifests = [
        (EVERYTHING, include_str!("../../../operator/tests/admission/good/everything.yaml")),
        ("register", include_str!("../../../../examples/register/group.yaml")),
        ("redis", include_str!("../../../../examples/redis/redis.yaml")),
        ("postgres", include_str!("../../../../examples/postgres/postgres.yaml")),
        ("galera", include_str!("../../../../examples/galera/group.yaml")),
    ];
    manifests.into_iter().map(|(name, text)| (name, simulated(text))).collect()
}

/// The group of a manifest, with the commands of the simulated application and at work.
fn simulated(text: &str) -> Value {
    // The API server's YAML has octal numbers of this form.
    let text = &text.replace(": 0440", ": 288");
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let mut group = documents.into_iter().find(|each| each["kind"] == "ReplicaGroup").unwrap();
    for (name, command) in group["spec"]["commands"].as_object_mut().unwrap() {
        let word = match name.as_str() {
            "seed" | "promote" => "primary",
            "follow" => "secondary",
            other => other,
        };
        command["exec"] = json!([word]);
    }
    // The group that has every field is paused, has more primaries than one can prefer, and settles what is unknown by deleting its pod at once.
    if group["spec"]["paused"] == true {
        group["spec"]["paused"] = json!(false);
        group["spec"]["primaries"] = json!(1);
        group["spec"]["unknownGraceSeconds"] = json!(60);
    }
    group
}

/// A value of a field that a group is given.
struct Try {
    /// The group.
    of: &'static str,
    /// The field and the value.
    what: String,
    /// The field.
    path: String,
    before: ReplicaGroup,
    /// What comes of it.
    after: Result<ReplicaGroup, String>,
}

/// All values of all fields of all groups, each group once.
fn tries(definition: &Definition) -> Vec<Try> {
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    for (of, group) in groups() {
        let before = definition.admit(&group, None).unwrap_or_else(|why| panic!("{of}: {why}"));
        let stored = serde_json::to_value(&before).unwrap();
        for field in definition.fields() {
            let present = at(&stored, &field.path).is_some();
            // Beside the group that has every field, only what an example sets itself is tried.
            if of != EVERYTHING && !present {
                continue;
            }
            for (word, value) in values::of(&field, at(&stored, &field.path)) {
                let mut changed = stored.clone();
                set(&mut changed, &field.path, value);
                if seen.insert(changed.to_string()) {
                    let after = definition.admit(&changed, Some(&stored));
                    let what = format!("{of}: {} {word}", field.name());
                    all.push(Try { of, what, path: field.name(), before: before.clone(), after });
                }
            }
        }
    }
    all
}

/// The most members of a group that is lived. A group shrinks when the roles of all that leave are known at once, and of more members than this the simulated cluster does not tell them as fast
/// as they age (docs/operations.md, "Size of a group").
const MEMBERS: u32 = 300;

/// What is lived of what is accepted: one in so many, and of the group that has every field one value of each. `TANIST_MISUSE`: one in how many; 1 is all.
fn chosen<'t>(tries: impl Iterator<Item = &'t Try>, usual: usize) -> Vec<(&'t Try, &'t ReplicaGroup)> {
    let stride = std::env::var("TANIST_MISUSE").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let is_other = |one: &Try, after: &ReplicaGroup| *after != one.before && after.spec.replicas <= MEMBERS;
    let changed = |one: &'t Try| one.after.as_ref().ok().filter(|after| is_other(one, after)).map(|after| (one, after));
    let mut fields = BTreeSet::new();
    let mut chosen: Vec<_> = tries.filter_map(changed).enumerate().collect();
    chosen.retain(|(number, (one, _))| number % stride == 0 || one.of == EVERYTHING && fields.insert(&one.path));
    chosen.into_iter().map(|(_, each)| each).collect()
}

#[test]
fn a_bad_value_is_refused_or_healed_by_its_revert() {
    let definition = Definition::read();
    let tries = tries(&definition);
    let mut unlike: Vec<String> = Vec::new();
    let mut refused = BTreeMap::<&str, usize>::new();
    for one in &tries {
        match &one.after {
            Err(why) if why.starts_with(schema::UNREADABLE) => unlike.push(format!("{}: {why}", one.what)),
            Err(why) => {
                *refused.entry(one.of).or_default() += 1;
                unlike.extend(unnamed(one, why));
            }
            Ok(_) => {}
        }
    }
    assert!(unlike.is_empty(), "{} of {}:\n{}", unlike.len(), tries.len(), unlike.join("\n"));
    let chosen = chosen(tries.iter(), 12);
    let faults =
        find_faults(&chosen, |(one, after)| lived(&one.before, after).err().map(|why| format!("{}: {why}", one.what)));
    println!("{} values, refused {refused:?}, {} lived", tries.len(), chosen.len());
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), chosen.len(), faults.join("\n\n"));
    assert!(chosen.len() >= 150, "{} values were lived", chosen.len());
}

/// A refusal that does not name the field, or another one of its path.
fn unnamed(one: &Try, why: &str) -> Option<String> {
    let below = one.path.strip_prefix("spec.").unwrap_or(&one.path);
    let mut names = below.split(['.', '[']).filter(|name| name.len() > 2);
    let is_named = names.any(|name| why.contains(name.trim_end_matches('s')));
    (!is_named).then(|| format!("{}: the refusal names another field: {why}", one.what))
}

#[test]
fn every_rule_says_what_to_do() {
    let advice = ["has to", "remove", "choose", "use another", "rename", "move", "keep", "create"];
    for (at, message) in Definition::read().messages() {
        assert!(advice.iter().any(|word| message.contains(word)), "{at}: {message}");
    }
}

/// S42: what is accepted changes the group that the core decides about, or an object that is made of it.
#[test]
fn no_field_is_silently_ignored() {
    let definition = Definition::read();
    let (_, mut group) = groups().swap_remove(0);
    // A command that names no container, and a label that policies may see.
    drop(group["spec"]["commands"]["stop"].as_object_mut().unwrap().remove("container"));
    group["metadata"]["labels"] = json!({"app.kubernetes.io/version": "7"});
    let before = definition.admit(&group, None).unwrap();
    let stored = serde_json::to_value(&before).unwrap();
    let mut ignored = Vec::new();
    let mut tried = 0;
    for field in definition.fields().into_iter().filter(|field| !read_elsewhere(field)) {
        // Immutable fields differ from the beginning.
        let accepted = values::of(&field, at(&stored, &field.path)).into_iter().filter_map(|(_, value)| {
            let mut changed = stored.clone();
            set(&mut changed, &field.path, value);
            definition.admit(&changed, None).ok().filter(|after| *after != before)
        });
        let accepted: Vec<ReplicaGroup> = accepted.collect();
        tried += usize::from(!accepted.is_empty());
        if !accepted.is_empty() && accepted.iter().all(|after| seen(after) == seen(&before)) {
            ignored.push(field.name());
        }
    }
    assert_eq!(ignored, Vec::<String>::new(), "of {tried} fields");
    assert!(tried > 60, "{tried} fields could be changed");
}

fn read_elsewhere(field: &Field<'_>) -> bool {
    READ_ELSEWHERE.iter().any(|name| field.name().starts_with(name))
}

/// All that a decision and the objects are made of.
fn seen(group: &ReplicaGroup) -> (String, String) {
    let mut group = group.clone();
    group.metadata.namespace = Some("shop".into());
    group.metadata.uid = Some("u".into());
    let settings = Settings { runner_image: "runner:1".into(), installation: "tanist".into() };
    let note = TemplateNote::next(None, template_hash(&group), std::iter::empty(), None, None);
    let objects = desired(&group, group.spec.replicas, &settings, &note);
    // Where the operator makes the pods itself they are no part of these.
    let made = member(&group, 0, group.spec.zones.list.first().map(|zone| zone.name.as_str()), &settings);
    (format!("{:?}", validate::group(&group, "cluster.local")), format!("{objects:?} {made:?}"))
}

/// S43: a group that was created with a value, and one that was changed to it, end alike: as many members in each role, and the same objects. Which member leads is a
/// matter of the way. A spec with which no group forms, such as one with a command that fails, leads nowhere.
#[test]
fn two_ways_to_the_same_spec_lead_to_the_same_group() {
    let definition = Definition::read();
    let all_tries = tries(&definition);
    let on_pods = |one: &Try| SHOWN_BY_PODS.iter().any(|name| one.path.starts_with(name));
    // The API server refuses an earlier version than that of the data, once there is data.
    let lowers = |one: &Try| {
        let is = one.after.as_ref().ok().and_then(|after| after.spec.version.as_deref());
        one.before.spec.version.as_deref().zip(is).is_some_and(|(was, is)| version::read(is) < version::read(was))
    };
    let chosen = chosen(all_tries.iter().filter(|one| !on_pods(one) && !lowers(one)), 60);
    let compared = AtomicUsize::new(0);
    let faults = find_faults(&chosen, |(one, after)| match two_ways(&one.before, after) {
        Ok(forms) => {
            compared.fetch_add(usize::from(forms), Ordering::Relaxed);
            None
        }
        Err(why) => Some(format!("{}: {why}", one.what)),
    });
    let compared = compared.into_inner();
    println!("{compared} of {} specs were reached in two ways", chosen.len());
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), chosen.len(), faults.join("\n\n"));
    assert!(compared >= 40, "{compared} specs were reached in two ways");
}
