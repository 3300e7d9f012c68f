use super::*;
use serde_json::{Value, json};

pub(super) fn settings() -> Settings {
    Settings { runner_image: "tanist.local/tanist:dev".into(), installation: "here".into() }
}

/// Builds the objects of a group whose StatefulSet does not exist yet.
fn objects(group: &ReplicaGroup, replicas: u32, settings: &Settings) -> Result<Vec<Value>, BuildError> {
    desired(group, replicas, settings, &TemplateNote::next(None, template_hash(group), std::iter::empty(), None, None))
}

/// A group as it was stored, with these changes to its spec.
pub(super) fn group(changes: Value) -> ReplicaGroup {
    let mut group = json!({
        "apiVersion": "tanist.dev/v1alpha1",
        "kind": "ReplicaGroup",
        "metadata": {"name": "db", "namespace": "shop", "uid": "00000000-0000-0000-0000-000000000001"},
        "spec": {
            "replicas": 3,
            "primaries": 1,
            "template": {"spec": {"containers": [{"name": "db", "image": "example.org/db:1"}]}},
            "commands": {
                "status": {"exec": ["/db/status"]},
                "sequence": {"exec": ["/db/sequence"]},
                "stop": {"exec": ["/db/stop"]},
                "primary": {"exec": ["/db/start", "primary", "$(PEERS)"]}
            }
        }
    });
    merge(&mut group["spec"], changes);
    serde_json::from_value(group).unwrap()
}

fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(into.entry(key).or_insert(Value::Null), change);
            }
        }
        (into, change) => *into = change,
    }
}

fn applied(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"]["tanist.dev/applied"].as_str()
}

pub(super) fn build(changes: Value) -> Vec<Value> {
    objects(&group(changes), 3, &settings()).unwrap()
}

pub(super) fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap()
}

fn pod(changes: Value) -> Value {
    of_kind(&build(changes), "StatefulSet")["spec"]["template"].clone()
}

fn refusal(changes: Value) -> String {
    objects(&group(changes), 3, &settings()).unwrap_err().to_string()
}

/// Compares with the stored objects; `TANIST_BLESS=1` stores them. They are applied to a real API server by tests/admission/run.
fn golden(name: &str, objects: &[Value]) {
    let texts: Vec<String> = objects.iter().map(|object| serde_saphyr::to_string(object).unwrap()).collect();
    let text = texts.join("---\n");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.yaml"));
    if std::env::var_os("TANIST_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == text,
        "{} is out of date: look at the difference after TANIST_BLESS=1 cargo test --locked -p tanist",
        path.display()
    );
}

fn everything() -> Value {
    json!({
        "primaries": "All",
        "template": {
            "metadata": {
                "labels": {"app.kubernetes.io/name": "galera", "policy.tanist.dev/rank": "1"},
                "annotations": {"example.org/note": "kept"}
            },
            "spec": {
                "securityContext": {"runAsUser": 999, "fsGroup": 999},
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"tanist.dev/group": "db"}}}
                ]}},
                "initContainers": [{"name": "prepare", "image": "example.org/db:1", "command": ["/db/prepare"]}],
                "containers": [
                    {"name": "metrics", "image": "example.org/metrics:1", "ports": [{"containerPort": 9104, "name": "metrics"}]},
                    {
                        "name": "db",
                        "image": "example.org/db:1",
                        "command": ["/db/daemon"],
                        "args": ["--loud"],
                        "env": [{"name": "ME", "value": "$(POD_NAME).$(SERVICE_NAME)"}, {"name": "POD_NAMESPACE", "value": "mine"}],
                        "ports": [
                            {"containerPort": 3306, "name": "mysql"},
                            {"containerPort": 4567},
                            {"containerPort": 4567, "protocol": "UDP"}
                        ],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}]
                    }
                ]
            }
        },
        "volumeClaimTemplates": [
            {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        ],
        "container": "db",
        "statusIntervalSeconds": 3,
        "commands": {
            "status": {"exec": ["/bin/sh", "-c", "test -e /run/$$ || echo $(date)"], "timeoutSeconds": 7},
            "stop": {"exec": ["/db/stop", "--now"], "timeoutSeconds": 120},
            "fence": {"exec": ["/metrics/fence"], "container": "metrics"}
        }
    })
}

// A pod says for which version of the application it was made, whoever makes it, and so does a stored template.
#[test]
fn pods_say_for_which_version_they_were_made() {
    let said = |changes: Value| {
        let group = group(changes);
        let all = objects(&group, 3, &settings()).unwrap();
        let set = all.iter().find(|o| o["kind"] == "StatefulSet").unwrap();
        let made = member(&group, 0, None, &settings()).unwrap();
        let kept = revision(&group, &settings(), "h", 1).unwrap();
        let of = |metadata: &Value| metadata["annotations"]["tanist.dev/version"].as_str().map(str::to_owned);
        [of(&set["spec"]["template"]["metadata"]), of(&made.last().unwrap()["metadata"]), of(&kept["metadata"])]
    };
    assert_eq!(said(json!({"version": "10.6"})), [(); 3].map(|()| Some("10.6".to_owned())));
    assert_eq!(said(json!({})), [(); 3].map(|()| None));
}

#[test]
fn a_group_with_nothing_but_the_required_gets_these_objects() {
    // Rows A43, A45, A47.
    golden("minimal", &build(json!({})));
}

#[test]
fn a_group_with_everything_gets_these_objects() {
    // Rows A43, A44, A45, A46, A47.
    golden("everything", &build(everything()));
}

#[test]
fn without_the_runner_containers_stay_as_they_are() {
    let mut changes = everything();
    merge(&mut changes, json!({"runner": "None"}));
    golden("not-wrapped", &build(changes));
}

// D23: without a StatefulSet the Service says of which template pods are, and claims and pods are what its controller would make.
#[test]
fn without_a_set_the_operator_makes_what_its_controller_would() {
    let mut changes = everything();
    merge(&mut changes, json!({"members": {"kind": "Pods"}}));
    let group = group(changes);
    let mut all = objects(&group, 3, &settings()).unwrap();
    assert!(all.iter().all(|object| object["kind"] != "StatefulSet"));
    let made = member(&group, 7, None, &settings()).unwrap();
    let [claim, pod] = made.as_slice() else { panic!("one claim, then the pod") };
    let noted = &all[0]["metadata"]["annotations"]["tanist.dev/pod-revision"];
    assert_eq!(&pod["metadata"]["labels"]["controller-revision-hash"], noted);
    assert_eq!((&claim["metadata"]["name"], &pod["metadata"]["name"]), (&json!("data-db-7"), &json!("db-7")));
    // A claim outlives its group, as one of a StatefulSet does.
    assert!(claim["metadata"].get("ownerReferences").is_none());
    all.extend(made);
    golden("own-pods", &all);
}

// The API server refuses these in the template of a StatefulSet, and not in a pod: without a volume a member would lose its data whenever it ends.
#[test]
fn a_pod_of_a_member_does_not_end_by_itself() {
    let refused = |field: &str, value: Value| {
        let spec = json!({field: value, "containers": [{"name": "db", "image": "db:1"}]});
        let group = group(json!({"members": {"kind": "Pods"}, "template": {"spec": spec}}));
        member(&group, 0, None, &settings()).err().map(|error| error.to_string())
    };
    assert!(refused("restartPolicy", json!("Never")).is_some_and(|why| why.contains("has to be Always, not Never")));
    assert!(refused("activeDeadlineSeconds", json!(60)).is_some());
    assert_eq!(
        (refused("restartPolicy", json!("Always")), refused("activeDeadlineSeconds", Value::Null)),
        (None, None)
    );
}

#[test]
fn a_changed_template_is_another_revision_and_another_number_of_members_is_not() {
    let revision = |image: &str, replicas: u32| {
        let template = json!({"spec": {"containers": [{"name": "db", "image": image}]}});
        let group = group(json!({"members": {"kind": "Pods"}, "template": template, "replicas": replicas}));
        let all = objects(&group, replicas, &settings()).unwrap();
        all[0]["metadata"]["annotations"]["tanist.dev/pod-revision"].clone()
    };
    assert_eq!(revision("db:1", 3), revision("db:1", 5));
    assert_ne!(revision("db:1", 3), revision("db:2", 3));
}

#[test]
fn the_set_is_parallel_on_delete_and_keeps_claims() {
    // Row A45.
    let objects = build(json!({}));
    let set = of_kind(&objects, "StatefulSet");
    assert_eq!(set["metadata"]["name"], "db");
    assert_eq!(set["spec"]["serviceName"], "db");
    assert_eq!(set["spec"]["podManagementPolicy"], "Parallel");
    assert_eq!(set["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
    assert_eq!(
        set["spec"]["persistentVolumeClaimRetentionPolicy"],
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
    );
    let owner = &set["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["controller"], &owner["blockOwnerDeletion"]),
        (&json!("ReplicaGroup"), &json!(true), &json!(true))
    );
}

#[test]
fn a_pod_gets_ten_minutes_to_end_unless_its_template_says_otherwise() {
    // Row A45.
    assert_eq!(pod(json!({}))["spec"]["terminationGracePeriodSeconds"], 600);
    let pod = pod(json!({"template": {"spec": {"terminationGracePeriodSeconds": 30}}}));
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 30);
    let command = pod["spec"]["containers"][0]["command"].as_array().unwrap();
    assert_eq!(command[command.len() - 2..], ["--grace", "30"]);
}

#[test]
fn every_container_knows_who_it_is_unless_the_user_says_so() {
    // Row A45.
    let pod = pod(everything());
    for kind in ["containers", "initContainers"] {
        for container in pod["spec"][kind].as_array().unwrap().iter().filter(|c| c["name"] != "tanist-run") {
            for name in ["POD_NAME", "POD_NAMESPACE", "SERVICE_NAME", "TANIST_POD_UID"] {
                let env = container["env"].as_array().unwrap();
                assert_eq!(
                    env.iter().filter(|variable| variable["name"] == name).count(),
                    1,
                    "{name} in {}",
                    container["name"]
                );
            }
        }
    }
    let names: Vec<&Value> =
        pod["spec"]["containers"][1]["env"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
    assert_eq!(
        names,
        ["POD_NAME", "SERVICE_NAME", "TANIST_POD_UID", "ME", "POD_NAMESPACE"],
        "ours first, so that theirs may refer to them"
    );
}

#[test]
fn a_pod_is_a_member_by_label_and_gate_and_gets_no_token() {
    let member = pod(json!({"template": {"spec": {"readinessGates": [{"conditionType": "example.org/other"}]}}}));
    assert_eq!(member["metadata"]["labels"]["tanist.dev/group"], "db");
    assert_eq!(
        member["spec"]["readinessGates"],
        json!([{"conditionType": "example.org/other"}, {"conditionType": "tanist.dev/member"}])
    );
    assert_eq!(member["spec"]["automountServiceAccountToken"], false);
    let asked = pod(json!({"template": {"spec": {"automountServiceAccountToken": true}}}));
    assert_eq!(asked["spec"]["automountServiceAccountToken"], true);
}

#[test]
fn members_can_be_kept_apart_by_the_groups_label() {
    // Row A46: the label that an anti-affinity selects is on the pods.
    let pod = pod(everything());
    let term = &pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    let selected = term["labelSelector"]["matchLabels"].as_object().unwrap();
    assert!(selected.iter().all(|(key, value)| pod["metadata"]["labels"].get(key) == Some(value)));
}

// Members are spread over nodes and zones by default; a value in the template stays, an empty list too.
#[test]
fn members_are_kept_apart_unless_the_template_says_otherwise() {
    let pod = pod(json!({}));
    let preferred = &pod["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(preferred[0]["podAffinityTerm"]["topologyKey"], "kubernetes.io/hostname");
    let keys: Vec<_> = (0..2).map(|n| &pod["spec"]["topologySpreadConstraints"][n]["topologyKey"]).collect();
    assert_eq!(keys, ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]);
    let selector = &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"];
    assert_eq!(selector, &json!({"tanist.dev/group": "db"}));

    let own = json!({"template": {"spec": {"affinity": {"podAntiAffinity": {}}, "topologySpreadConstraints": []}}});
    let pod = self::pod(own);
    assert_eq!(pod["spec"]["affinity"]["podAntiAffinity"], json!({}));
    assert_eq!(pod["spec"]["topologySpreadConstraints"], json!([]));
}

#[test]
fn names_resolve_before_members_are_ready() {
    // Row A47.
    let objects = build(json!({}));
    let headless = objects.iter().find(|o| o["kind"] == "Service" && o["metadata"]["name"] == "db").unwrap();
    assert_eq!(headless["spec"]["clusterIP"], "None");
    assert_eq!(headless["spec"]["publishNotReadyAddresses"], true);
    assert_eq!(headless["spec"]["ports"][0]["port"], 12345);
}

// Rows E12, E13: each Service is of the type, and has the labels and annotations, that the user wants; what makes it one of the group comes first.
#[test]
fn services_are_as_the_user_wants_them() {
    let of = |services: Value, name: &str| {
        let objects = build(json!({"services": services}));
        objects.into_iter().find(|o| o["kind"] == "Service" && o["metadata"]["name"] == name).unwrap()
    };
    let asked = json!({"primary": {
        "type": "LoadBalancer", "labels": {"team": "a", "tanist.dev/group": "other"}, "annotations": {"example.org/lb": "inner"},
        "loadBalancerClass": "example.org/inner", "loadBalancerSourceRanges": ["10.0.0.0/8"], "externalTrafficPolicy": "Local"
    }, "secondary": {"type": "NodePort"}});
    let service = of(asked.clone(), "db-rw");
    let labels = &service["metadata"]["labels"];
    assert_eq!((labels["team"].as_str(), labels["tanist.dev/group"].as_str()), (Some("a"), Some("db")));
    let annotations = &service["metadata"]["annotations"];
    assert_eq!(annotations["example.org/lb"], "inner");
    assert!(annotations["tanist.dev/applied"].is_string());
    let spec = &service["spec"];
    assert_eq!(spec["selector"], json!({"tanist.dev/group": "db", "tanist.dev/role": "primary"}));
    let words = ["type", "loadBalancerClass", "externalTrafficPolicy"].map(|key| spec[key].as_str());
    assert_eq!(words, [Some("LoadBalancer"), Some("example.org/inner"), Some("Local")]);
    assert_eq!(spec["loadBalancerSourceRanges"], json!(["10.0.0.0/8"]));
    assert_eq!(of(asked.clone(), "db-ro")["spec"]["type"], "NodePort");
    assert_eq!(of(asked, "db")["spec"].get("type"), None, "members find each other as before");
    let plain = of(json!({}), "db-rw");
    assert_eq!(plain["spec"]["type"], "ClusterIP");
    let left = ["loadBalancerClass", "loadBalancerSourceRanges", "externalTrafficPolicy"];
    assert!(left.iter().all(|key| plain["spec"].get(key).is_none()), "others may set them");
}

#[test]
fn services_lead_to_roles_on_the_containers_ports() {
    let objects = build(everything());
    for (name, role) in [("db-rw", "primary"), ("db-ro", "secondary")] {
        let service = objects.iter().find(|o| o["metadata"]["name"] == name).unwrap();
        assert_eq!(service["spec"]["selector"], json!({"tanist.dev/group": "db", "tanist.dev/role": role}));
        let ports: Vec<String> = service["spec"]["ports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| format!("{}/{}", p["name"], p["port"]))
            .collect();
        assert_eq!(ports, ["\"metrics\"/9104", "\"mysql\"/3306", "\"tcp-4567\"/4567", "\"udp-4567\"/4567"]);
    }
}

#[test]
fn the_kubelet_changes_no_argument_of_a_command() {
    let pod = pod(everything());
    let command = pod["spec"]["containers"][1]["command"].as_array().unwrap();
    let argument = command.iter().find(|a| a.as_str().unwrap().starts_with("test -e")).unwrap();
    assert_eq!(
        argument, "test -e /run/$$$$ || echo $$(date)",
        "it halves $$ and would replace $(date) if that were a variable"
    );
}

#[test]
fn only_the_container_of_a_command_gets_its_options() {
    let pod = pod(everything());
    let options = |at: usize| pod["spec"]["containers"][at]["command"].to_string();
    assert!(
        !options(0).contains("--listen") && !options(0).contains("--status-arg") && !options(0).contains("--stop-arg")
    );
    assert!(options(0).contains("/tanist/metrics") && options(1).contains("/tanist/db"));
    assert!(pod["spec"]["containers"][0].get("readinessProbe").is_none());
    assert_eq!(pod["spec"]["containers"][1]["readinessProbe"]["httpGet"], json!({"path": "/ready", "port": 8099}));
}

// Decision 0013: a death shows in readiness with any probe of the template that the runner can carry out.
#[test]
fn the_users_probe_is_the_runners_and_the_users_hook_wins() {
    let probe = json!({"tcpSocket": {"port": "sql"}, "periodSeconds": 5});
    let hook = json!({"exec": {"command": ["/mine"]}});
    let container = json!([{"name": "db", "image": "x", "ports": [{"name": "sql", "containerPort": 3306}],
        "readinessProbe": probe, "lifecycle": {"preStop": hook}}]);
    let template = json!({"template": {"spec": {"containers": container}}});
    let wrapped = &pod(template.clone())["spec"]["containers"][0];
    // Seconds count for a takeover, so the runner is asked each second whatever the user's period is.
    let own = json!({"httpGet": {"path": "/ready", "port": 8099}, "periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 1});
    assert_eq!(wrapped["readinessProbe"], own);
    let variable = |name: &str| wrapped["env"].as_array().unwrap().iter().find(|v| v["name"] == name).unwrap();
    let options = variable("TANIST_RUN_OPTIONS")["value"].as_str().unwrap();
    assert!(options.starts_with("--probe-tcp-port\n3306\n--probe-delay\n0\n--probe-period\n5\n"), "{options}");
    assert!(
        !wrapped["command"].to_string().contains("--probe-"),
        "an older runner would not start with such an argument"
    );
    let address = variable("TANIST_POD_IP");
    assert_eq!(address["valueFrom"]["fieldRef"]["fieldPath"], "status.podIP");
    let mut bare = template;
    merge(&mut bare, json!({"runner": "None"}));
    let bare = &pod(bare)["spec"]["containers"][0];
    assert_eq!((&bare["lifecycle"]["preStop"], &bare["readinessProbe"]), (&hook, &probe));
}

#[test]
fn a_probe_that_the_runner_cannot_carry_out_stays_the_kubelets() {
    let probe = json!({"grpc": {"port": 9000}});
    let with = |container: &str, probe: &Value| {
        let containers = json!([{"name": "db", "image": "x"}, {"name": "web", "image": "y"}]);
        let mut changes = json!({"template": {"spec": {"containers": containers}}});
        let at = usize::from(container == "web");
        changes["template"]["spec"]["containers"][at]["readinessProbe"] = probe.clone();
        pod(changes)["spec"]["containers"][at].clone()
    };
    let db = with("db", &probe);
    assert_eq!(db["readinessProbe"], probe);
    assert!(!db["env"].to_string().contains("TANIST_RUN_OPTIONS"));
    let tcp = json!({"tcpSocket": {"port": 80}});
    assert_eq!(with("web", &tcp)["readinessProbe"], tcp, "no command runs in that container");
}

#[test]
fn the_kubelet_changes_no_argument_of_a_probe() {
    let probe = json!({"exec": {"command": ["sh", "-c", "test $$ = $(cat pid)"]}});
    let containers = json!([{"name": "db", "image": "x", "readinessProbe": probe}]);
    let pod = pod(json!({"template": {"spec": {"containers": containers}}}));
    let env = pod["spec"]["containers"][0]["env"].to_string();
    assert!(env.contains("test $$$$ = $$(cat pid)"), "{env}");
}

#[test]
fn a_desired_object_is_named_by_its_hash() {
    let first = build(json!({}));
    assert_eq!(first, build(json!({})), "equal specs give equal objects");
    let more = objects(&group(json!({})), 2, &settings()).unwrap();
    let differ = |a: &[Value], b: &[Value]| a.iter().zip(b).filter(|(a, b)| applied(a) != applied(b)).count();
    assert_eq!(differ(&first, &more), 1, "only the set has a size");
    let other = Settings { runner_image: "tanist.local/tanist:2".into(), ..settings() };
    assert_eq!(differ(&first, &objects(&group(json!({})), 3, &other).unwrap()), 1);
    let mut edited = first[0].clone();
    edited["metadata"]["annotations"].as_object_mut().unwrap().remove("tanist.dev/applied");
    let hash: String = sha2::Sha256::digest(edited.to_string()).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(applied(&first[0]), Some(hash.as_str()));
}

#[test]
fn a_template_that_cannot_be_used_is_explained() {
    assert!(refusal(json!({"container": "web"})).starts_with("spec.template has no container web"));
    assert!(refusal(json!({"container": "web", "runner": "None"})).starts_with("spec.template has no container web"));
    let volumes = json!({"template": {"spec": {"volumes": [{"name": "tanist", "emptyDir": {}}]}}});
    assert!(refusal(volumes).starts_with("the volume name tanist is taken by the runner"));
    let mount = json!({"template": {"spec": {"containers": [{"name": "db", "volumeMounts": [{"name": "x", "mountPath": "/tanist/"}]}]}}});
    assert!(refusal(mount).starts_with("the path /tanist is taken by the runner"));
    let env = json!({"template": {"spec": {"containers": [{"name": "db", "env": {"A": "b"}}]}}});
    assert!(refusal(env).contains("env of a container of template.spec has to be a list"));
    let mut unknown = group(json!({}));
    unknown.metadata.uid = None;
    let error = objects(&unknown, 3, &settings()).unwrap_err();
    assert_eq!(error, BuildError::NotStored("name or UID"));
}

// E22, E25: the pods of an active/passive group run what their containers say; nothing of Tanist is in them but the gate.
#[test]
fn the_pods_of_an_active_passive_group_run_what_they_say() {
    let commands = json!({"sequence": null, "stop": null, "primary": null});
    let containers = json!([{"name": "db", "image": "example.org/web:1", "command": ["web"], "args": ["--port=80"]}]);
    let built = build(json!({"commands": commands, "template": {"spec": {"containers": containers}}}));
    let spec = &of_kind(&built, "StatefulSet")["spec"]["template"]["spec"];
    let container = &spec["containers"][0];
    assert_eq!((&container["command"], &container["args"]), (&json!(["web"]), &json!(["--port=80"])));
    for absent in ["readinessProbe", "lifecycle", "volumeMounts"] {
        assert_eq!(container[absent], Value::Null, "{absent}");
    }
    assert_eq!((&spec["initContainers"], &spec["volumes"]), (&Value::Null, &Value::Null));
    assert_eq!(spec["readinessGates"], json!([{"conditionType": "tanist.dev/member"}]));
    let rw = built.iter().find(|object| object["metadata"]["name"] == "db-rw").unwrap();
    assert_eq!(rw["spec"]["selector"], json!({"tanist.dev/group": "db", "tanist.dev/role": "primary"}));
}
