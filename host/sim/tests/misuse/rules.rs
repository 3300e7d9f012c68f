//! The rules of the definition in Rust: no evaluator of CEL is at hand. Each stands beside its text, so that a rule that is changed or added fails here; that the
//! API server reads the texts in this way is shown by `host/operator/tests/admission`.
use serde_json::Value;
use tanist_core::version;

/// Whether a rule holds for a value. `old`: the value that was stored before.
pub fn holds(cel: &str, own: &Value, old: Option<&Value>) -> bool {
    // A rule that names the former value is one about changes.
    if cel == "self == oldSelf" {
        return old.is_none_or(|old| old == own);
    }
    if cel.starts_with("oldSelf.replicas == 0 || ((!has(self.commands.") {
        return old.is_none_or(|old| stays_in_place(cel, own, old));
    }
    if let Some((_, rule)) = CHANGES.iter().find(|(text, _)| *text == cel) {
        return old.is_none_or(|old| rule(own, old));
    }
    let known = RULES.iter().find(|(text, _)| *text == cel).map(|(_, rule)| rule(own));
    known.or_else(|| of_a_command(cel, own)).unwrap_or_else(|| panic!("write this rule down in Rust, too: {cel}"))
}

type Rule = fn(&Value) -> bool;

const RULES: &[(&str, Rule)] = &[
    ("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')", |own| {
        let name = text(own, "/metadata/name");
        let fits = name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        fits && (1..=40).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && !name.ends_with('-')
    }),
    ("!has(self.spec.preferredPrimary) || self.spec.preferredPrimary.startsWith(self.metadata.name + '-')", |own| {
        let preferred = own.pointer("/spec/preferredPrimary").and_then(Value::as_str);
        preferred.is_none_or(|preferred| preferred.starts_with(&format!("{}-", text(own, "/metadata/name"))))
    }),
    (
        "type(self.primaries) == string ? self.primaries == 'All' : (self.primaries >= 0 && self.primaries <= 1000 && \
         (self.replicas == 0 || (self.primaries >= 1 && self.primaries <= self.replicas)))",
        |own| {
            let (primaries, replicas) = (&own["primaries"], own["replicas"].as_i64().unwrap_or(0));
            let of = |count: i64| (0..=1000).contains(&count) && (replicas == 0 || (1..=replicas).contains(&count));
            primaries.as_str().map_or_else(|| primaries.as_i64().is_some_and(of), |word| word == "All")
        },
    ),
    ("!has(self.failover) || !has(self.failover.maxBehind) || has(self.commands.secondary)", |own| {
        own.pointer("/failover/maxBehind").is_none() || own.pointer("/commands/secondary").is_some()
    }),
    ("!has(self.container) || self.template.spec.containers.exists(c, c.name == self.container)", |own| {
        own.get("container").is_none_or(|name| has_container(own, name))
    }),
    (
        "!has(self.commands.primary) || self.runner != 'Injected' || !has(self.template.spec.shareProcessNamespace) || !self.template.spec.shareProcessNamespace",
        |own| !is_injected(own) || own.pointer("/template/spec/shareProcessNamespace") != Some(&Value::Bool(true)),
    ),
    (
        "!has(self.commands.primary) || self.runner != 'Injected' || !has(self.template.spec.volumes) || !self.template.spec.volumes.exists(v, v.name == 'tanist')",
        |own| !is_injected(own) || !names(own, "/template/spec/volumes").any(|name| name == "tanist"),
    ),
    (
        "!has(self.commands.primary) || self.runner != 'Injected' || (!self.template.spec.containers.exists(c, c.name == 'tanist-run') && \
         (!has(self.template.spec.initContainers) || !self.template.spec.initContainers.exists(c, c.name == 'tanist-run')))",
        |own| {
            let both = names(own, "/template/spec/containers").chain(names(own, "/template/spec/initContainers"));
            !is_injected(own) || both.into_iter().all(|name| name != "tanist-run")
        },
    ),
    (
        "has(self.memberList) == has(self.memberAdd) && has(self.memberList) == has(self.memberRemove) && \
         (!has(self.memberPromote) || has(self.memberList))",
        |own| {
            let has = |name: &str| own.get(name).is_some();
            let list = has("memberList");
            list == has("memberAdd") && list == has("memberRemove") && (list || !has("memberPromote"))
        },
    ),
    ("!has(self.recover) || has(self.memberList)", |own| {
        own.get("recover").is_none() || own.get("memberList").is_some()
    }),
    ("!has(self.wipe) || has(self.memberList)", |own| own.get("wipe").is_none() || own.get("memberList").is_some()),
    ("self.scaling.volumes != 'Wipe' || has(self.commands.wipe) && self.runner == 'Injected'", |own| {
        let wipes = own.pointer("/scaling/volumes").is_some_and(|volumes| volumes == "Wipe");
        !wipes || own.pointer("/commands/wipe").is_some() && is_injected(own)
    }),
    ("!has(self.memberList) || has(self.seed)", |own| own.get("memberList").is_none() || own.get("seed").is_some()),
    ("has(self.sequence) == has(self.primary) && has(self.stop) == has(self.primary)", |own| {
        let has = |name: &str| own.get(name).is_some();
        has("sequence") == has("primary") && has("stop") == has("primary")
    }),
    (
        "has(self.primary) || !(has(self.seed) || has(self.secondary) || has(self.promote) || has(self.follow) || \
         has(self.memberList) || has(self.recover) || has(self.prepared) || has(self.beforeUpdate) || has(self.afterUpdate) || has(self.upgrade) || has(self.wipe))",
        |own| own.get("primary").is_some() || NEED_PRIMARY.iter().all(|name| own.get(*name).is_none()),
    ),
    ("has(self.commands.primary) || (type(self.primaries) == int && self.primaries == 1)", |own| {
        has_primary(own) || own["primaries"] == 1
    }),
    ("has(self.commands.primary) || !has(self.clusterState)", |own| {
        has_primary(own) || own.get("clusterState").is_none()
    }),
    ("has(self.commands.primary) || self.update.strategy == 'Recreate'", |own| {
        has_primary(own) || own.pointer("/update/strategy").is_none_or(|strategy| strategy == "Recreate")
    }),
    ("has(self.commands.primary) || !has(self.zones) || !has(self.zones.list) || self.zones.list.size() == 0", |own| {
        has_primary(own) || !has_zones(own)
    }),
    (
        "!has(self.commands.memberList) || type(self.primaries) == string || (self.primaries == 1 && has(self.commands.secondary))",
        |own| {
            let agrees = own.pointer("/commands/memberList").is_some();
            let one_leads = own["primaries"] == 1 && own.pointer("/commands/secondary").is_some();
            !agrees || own["primaries"].is_string() || one_leads
        },
    ),
    ("!has(self.commands.memberList) || self.replicas <= 64", |own| {
        own.pointer("/commands/memberList").is_none() || own["replicas"].as_i64().is_some_and(|count| count <= 64)
    }),
    ("!has(self.scaling.minReplicas) || self.replicas == 0 || self.replicas >= self.scaling.minReplicas", |own| {
        let least = own.pointer("/scaling/minReplicas").and_then(Value::as_i64);
        own["replicas"] == 0 || least.is_none_or(|least| own["replicas"].as_i64() >= Some(least))
    }),
    ("!has(self.scaling.maxReplicas) || self.replicas <= self.scaling.maxReplicas", |own| {
        let most = own.pointer("/scaling/maxReplicas").and_then(Value::as_i64);
        most.is_none_or(|most| own["replicas"].as_i64() <= Some(most))
    }),
    ("!self.scaling.odd || self.replicas == 0 || self.replicas % 2 == 1", |own| {
        let is_even = own["replicas"].as_i64().is_some_and(|count| count > 0 && count % 2 == 0);
        own.pointer("/scaling/odd") != Some(&Value::Bool(true)) || !is_even
    }),
    ("self.scaling.volumes != 'Delete' || has(self.commands.memberList)", |own| {
        let deletes = own.pointer("/scaling/volumes").is_some_and(|volumes| volumes == "Delete");
        !deletes || own.pointer("/commands/memberList").is_some()
    }),
    ("self.type == 'LoadBalancer' || !(has(self.loadBalancerClass) || has(self.loadBalancerSourceRanges))", |own| {
        let names_one = own.get("loadBalancerClass").is_some() || own.get("loadBalancerSourceRanges").is_some();
        own["type"] == "LoadBalancer" || !names_one
    }),
    ("self.type != 'ClusterIP' || !has(self.externalTrafficPolicy)", |own| {
        own["type"] != "ClusterIP" || own.get("externalTrafficPolicy").is_none()
    }),
    ("!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas", |own| {
        let of = |key: &str| own.get(key).and_then(Value::as_i64);
        of("minReplicas").zip(of("maxReplicas")).is_none_or(|(least, most)| least <= most)
    }),
    ("self.members.kind == 'Pods' || self.update.strategy == 'Recreate'", |own| {
        let recreates = own.pointer("/update/strategy").is_none_or(|strategy| strategy == "Recreate");
        recreates || own.pointer("/members/kind").is_some_and(|kind| kind == "Pods")
    }),
    ("self.replicas <= 500 || self.update.strategy != 'SideBySide'", |own| {
        let beside = own.pointer("/update/strategy").is_some_and(|strategy| strategy == "SideBySide");
        !beside || own["replicas"].as_i64().is_none_or(|replicas| replicas <= 500)
    }),
    ("!has(self.commands.memberList) || self.update.strategy != 'SideBySide'", |own| {
        let beside = own.pointer("/update/strategy").is_some_and(|strategy| strategy == "SideBySide");
        !beside || own.pointer("/commands/memberList").is_none()
    }),
    (
        "self.members.kind == 'Pods' || !has(self.zones) || !has(self.zones.list) || self.zones.list.size() == 0",
        |own| !has_zones(own) || own.pointer("/members/kind").is_some_and(|kind| kind == "Pods"),
    ),
    (
        "self.replicas == 0 || !has(self.zones) || !has(self.zones.list) || self.zones.list.size() == 0 || \
         (self.zones.list.map(z, has(z.replicas) ? z.replicas : 0).sum() <= self.replicas && \
         (self.zones.list.exists(z, !has(z.replicas)) || self.zones.list.map(z, z.replicas).sum() == self.replicas))",
        |own| {
            let zones = own.pointer("/zones/list").and_then(Value::as_array).filter(|zones| !zones.is_empty());
            let replicas = own["replicas"].as_i64().unwrap_or(0);
            zones.is_none_or(|zones| {
                let given: Vec<i64> = zones.iter().filter_map(|zone| zone["replicas"].as_i64()).collect();
                let sum: i64 = given.iter().sum();
                replicas == 0 || sum == replicas || sum < replicas && given.len() < zones.len()
            })
        },
    ),
    ("self.kind == 'Pods' || !has(self.remove) || self.remove.size() == 0", |own| {
        own["kind"] == "Pods" || own.get("remove").and_then(Value::as_array).is_none_or(Vec::is_empty)
    }),
    ("self.kind == 'Pods' || !has(self.replaceAfterFailures) || self.replaceAfterFailures == 0", |own| {
        own["kind"] == "Pods" || own.get("replaceAfterFailures").and_then(Value::as_u64).unwrap_or(0) == 0
    }),
    ("!has(self.spec.members.remove) || self.spec.members.remove.all(m, m.startsWith(self.metadata.name))", |own| {
        let named = own.pointer("/spec/members/remove").and_then(Value::as_array);
        let is_own = |member: &Value| member.as_str().is_some_and(|m| m.starts_with(text(own, "/metadata/name")));
        named.is_none_or(|named| named.iter().all(is_own))
    }),
    ("!has(self.commands.upgrade) || has(self.version)", |own| !upgrades(own) || own.get("version").is_some()),
    ("has(self.commands.primary) || !has(self.version)", |own| has_primary(own) || own.get("version").is_none()),
    ("!has(self.commands.upgrade) || self.update.onFailure == 'Wait'", |own| {
        !upgrades(own) || own.pointer("/update/onFailure").is_none_or(|how| how == "Wait")
    }),
    ("!has(self.commands.upgrade) || self.update.upgradeOn == 'Primary' || !has(self.commands.memberList)", |own| {
        !all_stop(own) || own.pointer("/commands/memberList").is_none()
    }),
    (
        "!has(self.commands.upgrade) || self.update.upgradeOn == 'Primary' || self.volumeClaimTemplates.size() > 0",
        |own| !all_stop(own) || own["volumeClaimTemplates"].as_array().is_some_and(|all| !all.is_empty()),
    ),
    (
        "!has(self.commands.upgrade) || self.update.upgradeOn == 'Primary' || self.update.strategy == 'Recreate'",
        |own| !all_stop(own) || own.pointer("/update/strategy").is_none_or(|strategy| strategy == "Recreate"),
    ),
    ("!has(self.commands.upgrade) || self.update.upgradeOn == 'Primary' || self.update.batch != 'None'", |own| {
        !all_stop(own) || own.pointer("/update/batch").is_none_or(|batch| batch != "None")
    }),
    ("has(self.value) != has(self.each)", |own| own.get("value").is_some() != own.get("each").is_some()),
    (
        "!has(self.value) || self.value.matches('^([^$]|[$]+[^$(]|[$]+[(](GROUP|NAMESPACE|UID|STATE|COUNT|NAMES|ADDRESSES)[)])*[$]*$')",
        |own| has_known_places(own.get("value"), &GROUP_PLACES),
    ),
    (
        "!has(self.each) || self.each.matches('^([^$]|[$]+[^$(]|[$]+[(](NAME|ADDRESS|ORDINAL|ID|GROUP|NAMESPACE|UID|STATE|COUNT|NAMES|ADDRESSES)[)])*[$]*$')",
        |own| has_known_places(own.get("each"), &[&GROUP_PLACES[..], &["NAME", "ADDRESS", "ORDINAL", "ID"]].concat()),
    ),
    ("!has(self.fence)", |own| own.get("fence").is_none()),
    ("self.size() == 0", |own| own.as_array().is_some_and(Vec::is_empty)),
    ("!has(self.labels) || self.labels.all(k, !k.startsWith('tanist.dev/'))", |own| no_reserved(own.get("labels"))),
    ("!has(self.annotations) || self.annotations.all(k, !k.startsWith('tanist.dev/'))", |own| {
        no_reserved(own.get("annotations"))
    }),
    ("self.all(k, !k.startsWith('tanist.dev/'))", |own| no_reserved(Some(own))),
    (
        "[has(self.builtin), has(self.configMap), has(self.file), has(self.image)].filter(source, source).size() == 1",
        |own| {
            ["builtin", "configMap", "file", "image"].iter().filter(|source| own.get(**source).is_some()).count() == 1
        },
    ),
];

type Change = fn(&Value, &Value) -> bool;

/// Rules about the former value and the present one.
const CHANGES: &[(&str, Change)] = &[
    ("has(self.commands.primary) == has(oldSelf.commands.primary)", |own, old| has_primary(own) == has_primary(old)),
    ("!self.scaling.neverDown || self.replicas >= oldSelf.replicas", |own, old| {
        let is_guarded = own.pointer("/scaling/neverDown") == Some(&Value::Bool(true));
        !is_guarded || own["replicas"].as_i64() >= old["replicas"].as_i64()
    }),
    (
        "!has(self.spec.version) || !has(oldSelf.spec.version) || !has(self.status) || !has(self.status.version) || \
         [[self.spec.version, oldSelf.spec.version, self.status.version].map(v, (v + '.0.0').split('.')) \
         .map(n, int(n[0]) * 1000000000000 + int(n[1]) * 1000000 + int(n[2]))].all(n, n[0] >= n[1] || n[0] >= n[2])",
        |own, old| {
            let of = |whole: &Value, place: &str| version::read(whole.pointer(place)?.as_str()?);
            let (is, was) = (of(own, "/spec/version"), of(old, "/spec/version"));
            let data = of(own, "/status/version");
            is.is_none() || was.is_none() || data.is_none() || is >= was || is >= data
        },
    ),
    (
        "self.map(t, t.metadata) == oldSelf.map(t, t.metadata) && self.map(t, t.spec.?accessModes) == oldSelf.map(t, \
         t.spec.?accessModes) && self.map(t, t.spec.?dataSource) == oldSelf.map(t, t.spec.?dataSource) && self.map(t, \
         t.spec.?dataSourceRef) == oldSelf.map(t, t.spec.?dataSourceRef) && self.map(t, t.spec.?selector) == oldSelf.map(t, \
         t.spec.?selector) && self.map(t, t.spec.?storageClassName) == oldSelf.map(t, t.spec.?storageClassName) && self.map(t, \
         t.spec.?volumeMode) == oldSelf.map(t, t.spec.?volumeMode) && self.map(t, t.spec.?volumeAttributesClassName) == \
         oldSelf.map(t, t.spec.?volumeAttributesClassName) && self.map(t, t.spec.?volumeName) == oldSelf.map(t, \
         t.spec.?volumeName) && self.map(t, t.spec.?resources.?limits) == oldSelf.map(t, t.spec.?resources.?limits)",
        |own, old| without_sizes(own) == without_sizes(old),
    ),
    (
        "self.spec.volumeClaimTemplates.all(n, oldSelf.spec.volumeClaimTemplates.all(o, n.metadata.name != o.metadata.name || \
         !(has(o.spec.resources) && has(o.spec.resources.requests) && 'storage' in o.spec.resources.requests) || \
         (has(n.spec.resources) && has(n.spec.resources.requests) && 'storage' in n.spec.resources.requests && \
         (quantity(string(n.spec.resources.requests['storage'])).compareTo(quantity(string(o.spec.resources.requests['storage']))) \
         >= 0 || (has(oldSelf.status) && has(oldSelf.status.volumes) && n.metadata.name in oldSelf.status.volumes && \
         quantity(string(n.spec.resources.requests['storage'])).compareTo(quantity(oldSelf.status.volumes[n.metadata.name].requested)) \
         >= 0)))))",
        |own, old| {
            let templates = |of: &Value| {
                of.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array).cloned().unwrap_or_default()
            };
            let before = templates(old);
            templates(own).iter().all(|new| {
                let name = text(new, "/metadata/name");
                let former = before.iter().filter(|former| text(former, "/metadata/name") == name);
                let claimed = old.pointer("/status/volumes").and_then(|all| bytes(all.get(name)?.get("requested")?));
                former.filter_map(|former| former.pointer(SIZE)).all(|former| {
                    let size = new.pointer(SIZE).and_then(bytes);
                    // What is no amount is refused, too.
                    size.is_some_and(|size| {
                        bytes(former).is_some_and(|former| size >= former)
                            || claimed.is_some_and(|claimed| size >= claimed)
                    })
                })
            })
        },
    ),
];

/// The size in a template of claims.
const SIZE: &str = "/spec/resources/requests/storage";

fn bytes(amount: &Value) -> Option<u128> {
    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    tanist_cluster::observe::quantity::bytes(&text)
}

fn without_sizes(templates: &Value) -> Value {
    let mut templates = templates.clone();
    for template in templates.as_array_mut().into_iter().flatten() {
        if let Some(resources) = template.pointer_mut("/spec/resources").and_then(Value::as_object_mut) {
            resources.remove("requests");
        }
    }
    templates
}

/// The rule about the container of a command. `None`: it is another rule.
fn of_a_command(cel: &str, own: &Value) -> Option<bool> {
    let name = cel.strip_prefix("!has(self.commands.")?.split(')').next()?;
    let whole = format!(
        "!has(self.commands.{name}) || !has(self.commands.{name}.container) || \
         self.template.spec.containers.exists(c, c.name == self.commands.{name}.container)"
    );
    let container = own.pointer(&format!("/commands/{name}/container"));
    (cel == whole).then(|| container.is_none_or(|container| has_container(own, container)))
}

/// The rule about the containers of commands: it names each of them in the same way.
fn stays_in_place(cel: &str, own: &Value, old: &Value) -> bool {
    let all = cel.trim_start_matches("oldSelf.replicas == 0 || (").trim_end_matches(')');
    let names: Vec<&str> =
        all.split(" && ").filter_map(|part| part.split("has(self.commands.").nth(1)?.split(')').next()).collect();
    let place = |of: &str, name: &str| {
        format!(
            "(has({of}.commands.{name}.container) ? {of}.commands.{name}.container : \
             has({of}.container) ? {of}.container : {of}.template.spec.containers[0].name)"
        )
    };
    let of = |name: &&str| {
        let (now, before) = (place("self", name), place("oldSelf", name));
        format!("(!has(self.commands.{name}) || !has(oldSelf.commands.{name}) || {now} == {before})")
    };
    let whole: Vec<String> = names.iter().map(of).collect();
    assert_eq!(cel, format!("oldSelf.replicas == 0 || ({})", whole.join(" && ")), "write this rule down in Rust, too");
    let container =
        |spec: &Value, name: &str| Some(spec.pointer(&format!("/commands/{name}"))?.get("container").cloned());
    let same = |name: &&str| container(own, name).zip(container(old, name)).is_none_or(|(own, old)| own == old);
    old["replicas"] == 0 || names.iter().all(same)
}

/// Commands that only a group with `commands.primary` may have.
const NEED_PRIMARY: [&str; 11] = [
    "wipe",
    "seed",
    "secondary",
    "promote",
    "follow",
    "memberList",
    "recover",
    "prepared",
    "beforeUpdate",
    "afterUpdate",
    "upgrade",
];

/// The places of a text about a group.
const GROUP_PLACES: [&str; 7] = ["GROUP", "NAMESPACE", "UID", "STATE", "COUNT", "NAMES", "ADDRESSES"];

/// Whether each `$(` in a text begins one of these places.
fn has_known_places(text: Option<&Value>, places: &[&str]) -> bool {
    let text = text.and_then(Value::as_str).unwrap_or_default();
    text.split("$(").skip(1).all(|rest| rest.split_once(')').is_some_and(|(place, _)| places.contains(&place)))
}

fn text<'v>(own: &'v Value, pointer: &str) -> &'v str {
    own.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether members are started by the runner. A group without `commands.primary` has none.
fn is_injected(own: &Value) -> bool {
    has_primary(own) && own["runner"] == "Injected"
}

fn upgrades(own: &Value) -> bool {
    own.pointer("/commands/upgrade").is_some()
}

/// Whether all members stop so that one of them can convert its data.
fn all_stop(own: &Value) -> bool {
    upgrades(own) && own.pointer("/update/upgradeOn").is_none_or(|on| on != "Primary")
}

fn has_primary(own: &Value) -> bool {
    own.pointer("/commands/primary").is_some()
}

fn has_zones(own: &Value) -> bool {
    own.pointer("/zones/list").and_then(Value::as_array).is_some_and(|zones| !zones.is_empty())
}

fn names<'v>(own: &'v Value, list: &str) -> impl Iterator<Item = &'v str> {
    let items = own.pointer(list).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.get("name")?.as_str())
}

fn has_container(own: &Value, name: &Value) -> bool {
    names(own, "/template/spec/containers").any(|each| name == each)
}

fn no_reserved(of: Option<&Value>) -> bool {
    of.and_then(Value::as_object).is_none_or(|all| all.keys().all(|key| !key.starts_with("tanist.dev/")))
}
