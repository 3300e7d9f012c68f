//! What a run sets up: the operator, a group, its clients, and who watches.
use crate::background::{Background, now};
use crate::cluster::{GROUP, NAMESPACE, NODES, PROGRAM, QUIET, SYSTEM, TOOLS};
use crate::play::Play;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tanist_e2e::{merge, root, run, text, until};

impl Play {
    /// Installs the operator on the quiet node, as many as are wanted.
    ///
    /// # Errors
    /// When something is refused, or does not come up.
    pub async fn install(&self) -> Result<()> {
        let cluster = &self.cluster;
        let listed = cluster.everywhere(&["get", "nodes", "--no-headers"])?;
        let ready = listed.lines().filter(|line| line.split_whitespace().nth(1) == Some("Ready")).count();
        let name = &cluster.name;
        ensure!(ready == 4, "four nodes are needed, {ready} are Ready: CLUSTER={name} NODES=4 dev/cluster up");
        self.load_images()?;
        // Of an earlier run.
        let _ = cluster.everywhere(&["taint", "nodes", "--all", "node.kubernetes.io/out-of-service-"]);
        let apply = ["apply", "--server-side", "--force-conflicts", "-k"];
        let folder = |path: &str| root().join(path).to_string_lossy().into_owned();
        cluster.everywhere(&[&apply[..], &[&folder("deploy/crd")]].concat())?;
        cluster.everywhere(&["delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true"])?;
        cluster.everywhere(&["create", "namespace", NAMESPACE])?;
        for path in ["deploy/operator", "deploy/rbac/nodes"] {
            cluster.everywhere(&[&apply[..], &[&folder(path)]].concat())?;
        }
        cluster.kube(&[&apply[..], &[&folder("deploy/rbac/namespace")]].concat())?;
        let operators = ["-n", SYSTEM, "deployment/tanist"];
        let watched = format!("WATCH_NAMESPACES={NAMESPACE}");
        cluster.everywhere(&[&["set", "env"][..], &operators, &[&watched]].concat())?;
        if let Some(image) = &self.wanted.operator {
            let image = format!("tanist={image}");
            cluster.everywhere(&[&["set", "image"][..], &operators, &[&image]].concat())?;
        }
        let pods = json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": QUIET}}});
        let patch = json!({"spec": {"replicas": self.wanted.operators, "template": pods}}).to_string();
        cluster.everywhere(&[&["patch"][..], &operators, &["--type", "merge", "-p", &patch]].concat())?;
        cluster.everywhere(&[&["rollout", "restart"][..], &operators].concat())?;
        cluster.everywhere(&[&["rollout", "status"][..], &operators, &["--timeout=120s"]].concat())?;
        let selected = ["get", "pods", "-n", SYSTEM, "-l", "tanist.dev/component=operator", "--no-headers"];
        let wanted = usize::try_from(self.wanted.operators)?;
        until("operators of earlier versions to end", 60, async || {
            Ok(cluster.everywhere(&selected)?.lines().count() == wanted)
        })
        .await
    }

    fn load_images(&self) -> Result<()> {
        let own = ["tanist.tar", "postgres.tar"].map(|name| self.wanted.images.join(name));
        let files: Vec<_> =
            own.iter().chain(&self.wanted.load).map(|file| file.to_string_lossy().into_owned()).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        self.cluster.machines(&[&["load"], &files[..]].concat()).map(drop)
    }

    /// Makes the example, each member on a node of its own: its volume stays there, as a node's disk does, so it never comes back elsewhere.
    ///
    /// # Errors
    /// When it is refused, or is not ready in time.
    pub async fn form(&self) -> Result<()> {
        let mut objects = self.example()?;
        for group in objects.iter_mut().filter(|object| text(object, "/kind") == "ReplicaGroup") {
            self.adapt(group)?;
        }
        objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
            "data": {"setting.conf": self.wanted.setting.file()}}));
        let all = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.cluster.given(&all.to_string(), &["apply", "-f", "-"])?;
        // What waits for a condition fails at once when there is no group yet, and there is.
        self.cluster.ready(300).context("the group was not ready within 300 s")?;
        // The first writes wait for the first standby, which is there by now.
        for table in TABLES {
            self.cluster.sql(&self.cluster.primary()?, &format!("CREATE TABLE {table}"))?;
        }
        Ok(())
    }

    /// The objects of examples/postgres. kubectl reads them: to it alone `0440` is a number.
    fn example(&self) -> Result<Vec<Value>> {
        let file = root().join("examples/postgres/postgres.yaml");
        let read = ["create", "--dry-run=client", "-o", "json", "-f", &file.to_string_lossy()];
        let text = self.cluster.kube(&read)?;
        let read: Vec<Value> = serde_json::Deserializer::from_str(&text).into_iter().collect::<Result<_, _>>()?;
        let mut objects = Vec::new();
        for object in read {
            match object.get("items").and_then(Value::as_array) {
                Some(items) => objects.extend(items.iter().cloned()),
                None => objects.push(object),
            }
        }
        ensure!(objects.len() > 1, "examples/postgres/postgres.yaml has {} objects", objects.len());
        Ok(objects)
    }

    fn adapt(&self, group: &mut Value) -> Result<()> {
        let apart = json!([{"topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"tanist.dev/group": GROUP}}}]);
        let away = json!([{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [QUIET]}]);
        let affinity = json!({
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart},
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": away}]}}
        });
        let spec = group.pointer_mut("/spec").context("no spec in the example")?;
        // Replaced, not merged with what the example has.
        merge(spec, json!({"failover": null, "template": {"spec": {"affinity": null}}}));
        let failover = self.wanted.setting.failover(self.wanted.members);
        merge(
            spec,
            json!({"replicas": self.wanted.members, "failover": failover, "template": {"spec": {"affinity": affinity}}}),
        );
        let mut add = |list: &str, item: Value| {
            let list = spec.pointer_mut(list).and_then(Value::as_array_mut).context("the example has another form")?;
            list.push(item);
            anyhow::Ok(())
        };
        add(
            "/template/spec/containers/0/volumeMounts",
            json!({"name": "settings", "mountPath": "/etc/postgres/conf.d"}),
        )?;
        add("/template/spec/volumes", json!({"name": "settings", "configMap": {"name": "settings"}}))?;
        let claim = spec.pointer_mut("/volumeClaimTemplates/0/spec").context("no claim in the example")?;
        merge(claim, json!({"storageClassName": "node-local"}));
        Ok(())
    }

    /// Begins clients on every node, and all watches. Names are known where DNS can be reached; behind a cut link, only addresses that were known before.
    ///
    /// # Errors
    /// When they cannot be begun, or their writes are not acknowledged.
    pub async fn clients(&mut self) -> Result<()> {
        self.unpack_tools()?;
        let service =
            self.cluster.kube(&["get", "service", &format!("{GROUP}-rw"), "-o", "jsonpath={.spec.clusterIP}"])?;
        let mut quiet = vec![format!("rw:rw:{GROUP}-rw"), format!("ro:ro:{GROUP}-ro")];
        quiet.extend((0..self.wanted.members).map(|n| format!("direct:direct-{n}:{GROUP}-{n}.{GROUP}")));
        crate::background::appended(&self.work.journal())?;
        let password = self.password()?;
        self.client(QUIET, &password, &quiet)?;
        for node in NODES {
            let mut all =
                vec![format!("rw:rw-{node}:{service}"), format!("beside:beside-{node}"), format!("look:look-{node}")];
            if self.wanted.setting.prefer {
                all.push(format!("prefer:prefer-{node}"));
            }
            self.client(node, &password, &all)?;
        }
        self.watch_all()?;
        let since = now();
        until("the clients' writes to be acknowledged", 30, async || self.writes_go_on(since, None)).await
    }

    /// As examples/postgres has it, in plain text.
    fn password(&self) -> Result<String> {
        let template = "go-template={{.data.superuser | base64decode}}";
        self.cluster.kube(&["get", "secret", "postgres", "-o", template])
    }

    /// A root file system with psql, and this program, which every node sees.
    fn unpack_tools(&self) -> Result<()> {
        let volumes = Path::new("/var/lib/tanist").join(&self.cluster.name).join("volumes");
        let folder = volumes.join(".chaos-tools");
        unpack_rootfs(&folder)?;
        let program = folder.join("tanist-chaos");
        // One that runs cannot be written to.
        let _ = std::fs::remove_file(&program);
        std::fs::copy(std::env::current_exe()?, &program).context("failed to copy the clients' program")?;
        let resolver = self.cluster.enter(QUIET, &["grep", "^nameserver", "/run/node/resolv.conf"])?;
        std::fs::write(folder.join("etc/resolv.conf"), format!("{resolver}search {NAMESPACE}.svc.cluster.local\n"))?;
        Ok(())
    }

    /// The journal is the host's: what a client learned stays, whatever becomes of its node.
    fn client(&mut self, node: &str, password: &str, clients: &[String]) -> Result<()> {
        let mut command = self.cluster.command(&["enter", node, PROGRAM, "client", TOOLS]);
        command.args(clients).env("PGPASSWORD", password);
        self.background.push(Background::append(&self.work.journal(), &self.work.complaints(), command)?);
        Ok(())
    }

    /// Every version of the group, its pods and Services with the moment it came, each node's connections, and the operator's log.
    fn watch_all(&mut self) -> Result<()> {
        const ROLES: &str = r#"jsonpath={.metadata.name}|{.metadata.labels.tanist\.dev/role}|{.metadata.uid}{"\n"}"#;
        const ENDPOINTS: &str = r#"jsonpath={range .endpoints[*]}{.targetRef.name}:{.conditions.ready}:{.addresses[0]} {end}{.metadata.name}{"\n"}"#;
        let (group, service) = (format!("tanist.dev/group={GROUP}"), format!("kubernetes.io/service-name={GROUP}-rw"));
        let watch = |cluster: &crate::cluster::Cluster, what: &[&str], shown: &str| {
            cluster.kubectl(&[&["get"], what, &["--watch", "-o", shown]].concat())
        };
        let mut all = vec![
            ("group".to_owned(), watch(&self.cluster, &["rg", GROUP], r#"jsonpath={.status}{"\n"}"#)),
            ("pods".to_owned(), watch(&self.cluster, &["pods", "-l", &group], ROLES)),
            ("rw".to_owned(), watch(&self.cluster, &["endpointslices", "-l", &service], ENDPOINTS)),
        ];
        for node in NODES.into_iter().chain([QUIET]) {
            // The kernel's own word of each connection: when it came, and whom the rules of that moment chose.
            let tracker = ["conntrack", "-E", "-e", "NEW,DESTROY", "-o", "timestamp", "-p", "tcp", "--dport", "5432"];
            all.push((format!("nat-{node}"), self.cluster.command(&[&["enter", node], &tracker[..]].concat())));
        }
        // What a pod said is gone with it; each stream begins with all that there is.
        let log = ["kubectl", "logs", "-n", SYSTEM, "-f", "-l", "tanist.dev/component=operator", "--tail=-1"];
        all.push(("operator".into(), self.cluster.command(&log)));
        for (name, command) in all {
            let watch = Background::record(&self.work.at(&name), &self.work.complaints(), command)?;
            self.background.push(watch);
        }
        Ok(())
    }
}

/// What the clients write to.
pub const TABLES: [&str; 3] = [
    "chaos (client text, id text, PRIMARY KEY (client, id))",
    "registers (key text PRIMARY KEY, value text)",
    "lists (key text PRIMARY KEY, value text)",
];

/// The root file system of examples/postgres, once.
///
/// # Errors
/// When it cannot be made or unpacked.
pub fn unpack_rootfs(folder: &Path) -> Result<()> {
    let complete = folder.join(".complete");
    if complete.exists() {
        return Ok(());
    }
    let archive = run(Command::new(root().join("examples/postgres/image")).arg("--rootfs"))?;
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(PathBuf::from(archive.trim())).arg("-C").arg(folder);
    run(unpack.args(["--exclude=./dev/*", "--exclude=dev/*"]))?;
    std::fs::write(complete, "")?;
    Ok(())
}
