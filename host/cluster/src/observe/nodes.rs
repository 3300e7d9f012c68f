//! Reads the nodes on which members run, and on which last primaries ran.
use super::conditions::{self, Taints};
use super::{Error, convert, within};
use crate::context::Context;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tanist_core::contract::{Phase, Timestamp};
use tanist_core::record::Record;
use tanist_core::snapshot::{self, Member};

/// Nodes that are read at the same time.
const NODES_AT_ONCE: usize = 16;

/// What there is of the nodes that matter to a group, by name.
#[derive(Default)]
pub(super) struct Nodes {
    /// Those that exist. `None`: the operator may not read nodes.
    pub(super) nodes: Option<BTreeMap<String, snapshot::Node>>,
    /// The taints of the nodes that exist.
    pub(super) taints: BTreeMap<String, Taints>,
    /// Those that do not exist, and since when this process has seen that.
    pub(super) deleted: BTreeMap<String, Timestamp>,
}

/// The nodes of members and last primaries. `label`: that of a node's zone, if the user names one.
pub(super) async fn read(
    ctx: &Arc<Context>,
    members: &[Member],
    record: &Record,
    label: Option<&str>,
) -> Result<Nodes, Error> {
    let of_pods = members.iter().filter_map(|m| m.pod.as_ref()?.node.clone());
    let of_memory = record.ran().filter_map(|l| l.node.clone());
    let names: BTreeSet<String> = of_pods.chain(of_memory).collect();
    let read = names.into_iter().map(|name| {
        let ctx = ctx.clone();
        async move { Ok((within("nodes", ctx.cluster.get::<Node>("", &name)).await?, name)) }
    });
    let read: Result<Vec<_>, Error> = stream::iter(read).buffer_unordered(NODES_AT_ONCE).try_collect().await;
    let read = match read {
        Ok(read) => read,
        Err(Error::Read(_, error)) if error.code() == Some(403) => return Ok(Nodes::default()),
        Err(error) => return Err(error),
    };
    let (mut found, now) = (Nodes { nodes: Some(BTreeMap::new()), ..Nodes::default() }, ctx.clock.now_or_next());
    for (node, name) in read {
        let Some(node) = node else {
            found.deleted.insert(name.clone(), ctx.hints.deleted_node(&name, now));
            continue;
        };
        let zone = convert::zone(&node, label);
        let seen = ctx.hints.node(&name, &convert::life(&node), snapshot::Node { zone, ..convert::node(&node) }, now);
        found.nodes.get_or_insert_default().insert(name.clone(), seen);
        found.taints.insert(name, conditions::taints(&node));
    }
    Ok(found)
}

/// Since when this process has seen that pods of last primaries are gone.
pub(super) fn gone(ctx: &Context, group: &str, members: &[Member], record: &Record) -> BTreeMap<String, Timestamp> {
    let is_there = |uid: &String| members.iter().any(|m| m.pod.as_ref().is_some_and(|pod| pod.uid == *uid));
    let gone = record.ran().map(|last| &last.pod_uid).filter(|uid| !is_there(uid)).cloned();
    ctx.hints.with_group(group, |hints| hints.see_gone(gone, ctx.clock.now_or_next()))
}

/// Marks members on nodes that do not report as unreachable: asking them would only time out, and what the API shows of them is outdated.
pub(super) fn silence(members: &mut [Member], nodes: Option<&BTreeMap<String, snapshot::Node>>) {
    for pod in members.iter_mut().filter_map(|m| m.pod.as_mut()) {
        let node = pod.node.as_ref().and_then(|name| nodes?.get(name));
        if node.is_some_and(|node| !node.ready) && pod.phase != Phase::Ended {
            pod.phase = Phase::Unreachable;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::cluster::{Cluster, Error as Failed, Exec, Found, Object, Read, Write};
    use crate::stub::Stub;
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::time::Duration;
    use tanist_core::contract::Position;
    use tanist_core::evidence::Ended;
    use tanist_core::record::LastPrimary;
    use tanist_core::snapshot::{Node, Pod};
    use tokio::sync::Barrier;

    /// Answers a read only when as many as are awaited have arrived.
    struct Together {
        all: Barrier,
        /// Whether there are nodes at all.
        nodes: bool,
    }

    impl Cluster for Together {
        fn read(&self, _: Read) -> BoxFuture<'_, Result<Found, Failed>> {
            async {
                self.all.wait().await;
                let node = self.nodes.then(|| Object::Node(Arc::default()));
                Ok(Found { objects: node.into_iter().collect(), version: None })
            }
            .boxed()
        }

        fn write(&self, _: Write) -> BoxFuture<'_, Result<Option<Object>, Failed>> {
            async { Ok(None) }.boxed()
        }

        fn exec(&self, _: Exec) -> BoxFuture<'_, Ended> {
            async { Ended::Unknown("nothing runs here".into()) }.boxed()
        }
    }

    // A group on many nodes is not looked at for as long as one read takes, times their number.
    #[tokio::test(start_paused = true)]
    async fn nodes_are_read_beside_each_other() {
        let stub = Stub::new();
        let context = Arc::into_inner(stub.context()).unwrap();
        let cluster = Arc::new(Together { all: Barrier::new(NODES_AT_ONCE), nodes: true });
        let ctx = Arc::new(Context { cluster, ..context });
        let read = read(&ctx, &[], &ran(NODES_AT_ONCE), None).await.map_err(|error| error.to_string());
        assert_eq!(read.map(|found| found.nodes.map(|nodes| nodes.len())), Ok(Some(NODES_AT_ONCE)));
    }

    /// What is remembered of so many last primaries, each on its own node.
    fn ran(number: usize) -> Record {
        let ran = |number: usize| LastPrimary {
            member: format!("db-{number}").as_str().into(),
            pod_uid: "u".into(),
            container: "db".into(),
            container_id: "c".into(),
            node: Some(format!("n{number}")),
            grace: 30,
            gone: None,
        };
        Record { last_primaries: (0..number).map(ran).collect(), ..Record::default() }
    }

    // S20, S21: times are whole seconds, so what is seen in the middle of a second counts from the next one. Else each wait would be up to a second too short.
    #[tokio::test]
    async fn what_is_gone_counts_from_the_next_second() {
        let context = Arc::into_inner(Stub::new().context()).unwrap();
        let clock = Clock::new(1000, {
            let first = AtomicBool::new(true);
            move || Duration::from_millis(if first.swap(false, SeqCst) { 0 } else { 5001 })
        });
        let cluster = Arc::new(Together { all: Barrier::new(1), nodes: false });
        let (ctx, record) = (Arc::new(Context { clock: Arc::new(clock), cluster, ..context }), ran(1));
        assert_eq!(gone(&ctx, "g", &[], &record), BTreeMap::from([("u".to_owned(), 1006)]));
        let read = read(&ctx, &[], &record, None).await.map_err(|error| error.to_string());
        assert_eq!(read.map(|found| found.deleted), Ok(BTreeMap::from([("n0".to_owned(), 1006)])));
    }

    fn on(node: &str, phase: Phase) -> Member {
        let pod = tanist_core::examples::pod("c", true, phase);
        Member {
            name: "db-0".into(),
            ordinal: 0,
            pod: Some(Pod { node: Some(node.into()), ..pod }),
            claims: Vec::new(),
            reading: Default::default(),
            position: Position::NotAsked,
            position_at: 0,
            position_stale: false,
            asked: false,
            conditions: Vec::new(),
        }
    }

    // S20: pods on a silent node are not asked, long before Kubernetes marks each of them; an ended pod stays ended. If nodes cannot be read, all pods are asked.
    #[test]
    fn a_silent_node_silences_its_pods() {
        let node = |ready| Node { ready, since: 0, seen: 0, out_of_service: false, cordoned: false, zone: None };
        let nodes = BTreeMap::from([("dark".to_owned(), node(false)), ("well".to_owned(), node(true))]);
        let phase_of = |name, phase, nodes: Option<&BTreeMap<String, Node>>| {
            let mut members = [on(name, phase)];
            silence(&mut members, nodes);
            let [member] = members;
            member.pod.map(|p| p.phase)
        };
        assert_eq!(phase_of("dark", Phase::Running, Some(&nodes)), Some(Phase::Unreachable));
        assert_eq!(phase_of("dark", Phase::Ended, Some(&nodes)), Some(Phase::Ended));
        assert_eq!(phase_of("well", Phase::Running, Some(&nodes)), Some(Phase::Running));
        assert_eq!(phase_of("dark", Phase::Running, None), Some(Phase::Running));
    }
}
