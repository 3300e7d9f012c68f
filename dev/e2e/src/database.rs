//! The databases of the examples as users run them, and a client of each that notes which writes were acknowledged.
use crate::cluster::{documents, kubectl, kubectl_given, load_image, manifests_root};
use crate::group::{ETCD, Example, Group, text};
use crate::operator::until;
use crate::play::Stage;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A database of which a test makes a group, and how clients use it.
pub struct Database {
    /// The example; its group has the same name as its image.
    pub example: Example,
    /// The name of the group, and of the image.
    pub name: &'static str,
    /// What is executed once in the first member that leads.
    setup: Option<&'static [&'static str]>,
    /// A shell script of the client that writes the row `$1`.
    insert: &'static str,
    /// What prints the rows of a member, one per line.
    read: &'static [&'static str],
    /// The text before the number in such a line.
    prefix: &'static str,
    /// What the client's pod needs: `env` and `volumeMounts` of the container, `volumes` of the pod.
    needs: fn() -> [Value; 3],
}

/// A primary and two synchronous standbys.
pub const POSTGRES: Database = Database {
    example: Example { container: "postgres", manifest: "postgres/postgres.yaml" },
    name: "postgres",
    setup: Some(&["psql", "-X", "-q", "-c", "CREATE TABLE t (id bigint PRIMARY KEY)"]),
    insert: "PGPASSWORD=$(</etc/postgres/passwords/superuser) PGCONNECT_TIMEOUT=3 psql -X -q \
             -d 'host=postgres-rw user=postgres dbname=postgres target_session_attrs=read-write' -c \"INSERT INTO t VALUES ($1)\"",
    read: &["psql", "-X", "-q", "-A", "-t", "-c", "SELECT id FROM t"],
    prefix: "",
    needs: || {
        let mount = json!([{"name": "passwords", "mountPath": "/etc/postgres/passwords", "readOnly": true}]);
        [json!([]), mount, json!([{"name": "passwords", "secret": {"secretName": "postgres", "defaultMode": 0o440}}])]
    },
};

/// Three members of MariaDB, all of them primary.
pub const GALERA: Database = Database {
    example: Example { container: "mariadb", manifest: "galera/group.yaml" },
    name: "galera",
    setup: Some(&[
        "galera",
        "sql",
        "CREATE DATABASE app; CREATE TABLE app.t (id BIGINT PRIMARY KEY) ENGINE=InnoDB; \
         CREATE USER app@'%' IDENTIFIED BY 'app'; GRANT ALL ON app.* TO app@'%'",
    ]),
    insert: "mariadb --no-defaults -h galera-rw -u app -papp --connect-timeout=3 app -e \"INSERT INTO t VALUES ($1)\"",
    read: &["galera", "sql", "SELECT id FROM app.t"],
    prefix: "",
    needs: || [json!([]), json!([]), json!([])],
};

/// Three members that agree, of which etcd itself elects one.
pub const AGREEING: Database = Database {
    example: ETCD,
    name: "etcd",
    setup: None,
    insert: "etcdctl put \"key$1\" \"$1\"",
    read: &["etcd-member", "ctl", "get", "--prefix", "key", "--keys-only"],
    prefix: "key",
    needs: || {
        let settings = [
            ("ETCDCTL_API", "3"),
            ("ETCDCTL_ENDPOINTS", "https://etcd-rw:2379"),
            ("ETCDCTL_CACERT", "/tls/ca.crt"),
            ("ETCDCTL_CERT", "/tls/tls.crt"),
            ("ETCDCTL_KEY", "/tls/tls.key"),
            ("ETCDCTL_DIAL_TIMEOUT", "2s"),
            ("ETCDCTL_COMMAND_TIMEOUT", "4s"),
        ];
        let settings = settings.map(|(name, value)| json!({"name": name, "value": value}));
        let mount = json!([{"name": "tls", "mountPath": "/tls", "readOnly": true}]);
        let volumes = json!([{"name": "tls", "secret": {"secretName": "etcd-client-tls", "defaultMode": 0o440}}]);
        [json!(settings), mount, volumes]
    },
};

impl Database {
    /// Its group, created from the example with changes to its spec, and what the example has beside it.
    ///
    /// # Errors
    /// When the image was not built, or the API server refuses something.
    pub async fn create(&self, stage: &Stage, changes: Value) -> Result<Group> {
        if self.example == ETCD {
            return stage.etcd(changes).await;
        }
        load_image(self.name)?;
        let manifest = std::fs::read_to_string(manifests_root().join("examples").join(self.example.manifest))?;
        for object in documents(&manifest)?.iter().filter(|object| text(object, "/kind") != "ReplicaGroup") {
            kubectl_given(&object.to_string(), &["apply", "-n", &stage.namespace, "-f", "-"])?;
        }
        let group = Group { example: self.example, ..stage.group(self.name) };
        group.create(changes).await?;
        Ok(group)
    }

    fn client(&self, node: &str) -> Value {
        // The journal has milliseconds and row of each write that was acknowledged.
        let script = "for ((id = 1; ; id++)); do timeout 5 bash -c \"$INSERT\" insert \"$id\" >/dev/null 2>&1 && \
                      echo \"$(date +%s%3N) $id\" >>/work/journal; sleep 0.1; done";
        let [mut env, mut mounts, mut volumes] = (self.needs)();
        let more = [
            (&mut env, json!({"name": "INSERT", "value": self.insert})),
            (&mut mounts, json!({"name": "work", "mountPath": "/work"})),
            (&mut volumes, json!({"name": "work", "emptyDir": {}})),
        ];
        for (list, one) in more {
            list.as_array_mut().into_iter().for_each(|list| list.push(one.clone()));
        }
        let user = json!({"runAsNonRoot": true, "runAsUser": 999, "runAsGroup": 999, "fsGroup": 999, "seccompProfile": {"type": "RuntimeDefault"}});
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 0, "securityContext": user, "volumes": volumes,
                "containers": [{
                    "name": "client", "image": format!("tanist.local/{}:1", self.name), "imagePullPolicy": "IfNotPresent",
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
                    "env": env, "volumeMounts": mounts, "command": ["bash", "-c", script]
                }]
            }
        })
    }
}

/// A client that writes one row after the other into a database.
pub struct Writer<'a> {
    database: &'a Database,
    namespace: String,
}

impl<'a> Writer<'a> {
    /// Starts it on that node.
    ///
    /// # Errors
    /// When nothing that it writes is acknowledged.
    pub async fn begin(database: &'a Database, group: &Group, node: &str) -> Result<Self> {
        if let Some(setup) = database.setup {
            let done = group.member(0).exec(setup).await?;
            ensure!(done.code == 0, "{done:?}");
        }
        kubectl_given(&database.client(node).to_string(), &["apply", "-n", &group.namespace, "-f", "-"])?;
        let writer = Writer { database, namespace: group.namespace.clone() };
        until("writes of the client", 60, async || Ok(writer.journal().is_ok_and(|journal| journal.len() > 3))).await?;
        Ok(writer)
    }

    /// When each row was acknowledged, in milliseconds since the epoch, and which.
    fn journal(&self) -> Result<Vec<(u64, u64)>> {
        let text = kubectl(&["exec", "-n", &self.namespace, "client", "--", "cat", "/work/journal"])?;
        let row = |line: &str| {
            let (at, id) = line.split_once(' ')?;
            Some((at.parse().ok()?, id.parse().ok()?))
        };
        Ok(text.lines().filter_map(row).collect())
    }

    /// How many rows were acknowledged.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn acknowledged(&self) -> Result<usize> {
        Ok(self.journal()?.len())
    }

    /// The longest time without an acknowledgement after that many rows, in milliseconds.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn outage(&self, after: usize) -> Result<u64> {
        let journal = self.journal()?;
        let since = journal.get(after.saturating_sub(1)..).unwrap_or_default();
        let gaps =
            since.windows(2).filter_map(|pair| if let [(a, _), (b, _)] = pair { b.checked_sub(*a) } else { None });
        Ok(gaps.max().unwrap_or_default())
    }

    /// Its writes go on.
    ///
    /// # Errors
    /// When no further one is acknowledged.
    pub async fn goes_on(&self) -> Result<()> {
        let before = self.acknowledged()?;
        until("further writes", 60, async || Ok(self.acknowledged()? > before + 5)).await
    }

    /// Every row that was acknowledged is in each of these members.
    ///
    /// # Errors
    /// Which rows are missing, and where.
    pub async fn lost_nothing(&self, group: &Group, members: u32) -> Result<()> {
        self.goes_on().await?;
        // Read first: what is acknowledged later need not be there.
        let wanted: BTreeSet<u64> = self.journal()?.into_iter().map(|(_, id)| id).collect();
        ensure!(wanted.len() > 100, "only {} rows were acknowledged: this shows nothing", wanted.len());
        for member in group.members(members) {
            let mut missing = Vec::new();
            let whole = until("every row", 30, async || {
                let read = member.exec(self.database.read).await?;
                let id = |line: &str| line.trim().strip_prefix(self.database.prefix)?.parse().ok();
                let found: BTreeSet<u64> = read.text.lines().filter_map(id).collect();
                missing = wanted.difference(&found).copied().collect();
                Ok(missing.is_empty())
            });
            whole.await.map_err(|error| {
                error.context(format!("{} lacks {} of {} rows: {missing:?}", member.name, missing.len(), wanted.len()))
            })?;
        }
        Ok(())
    }
}
