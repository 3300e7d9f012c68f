//! Reads the nodes on which members run, and on which last primaries ran.
use super::conditions::{self, Taints};
use super::{Error, convert, within};
use crate::context::Context;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tanist_core::contract::Timestamp;
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
    let (mut found, now) = (Nodes { nodes: Some(BTreeMap::new()), ..Nodes::default() }, ctx.clock.now());
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
pub(super) fn gone(
    ctx: &Context,
    group: &str,
    members: &[Member],
    record: &Record,
    now: Timestamp,
) -> BTreeMap<String, Timestamp> {
    let is_there = |uid: &String| members.iter().any(|m| m.pod.as_ref().is_some_and(|pod| pod.uid == *uid));
    let gone = record.ran().map(|last| &last.pod_uid).filter(|uid| !is_there(uid)).cloned();
    ctx.hints.with_group(group, |hints| hints.see_gone(gone, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Error as Failed, Exec, Found, Object, Read, Write};
    use crate::context::Context;
    use crate::stub::Stub;
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use tanist_core::evidence::Ended;
    use tanist_core::record::LastPrimary;
    use tokio::sync::Barrier;

    /// Answers a read only when as many as are awaited have arrived.
    struct Together(Barrier);

    impl Cluster for Together {
        fn read(&self, _: Read) -> BoxFuture<'_, Result<Found, Failed>> {
            async {
                self.0.wait().await;
                Ok(Found { objects: vec![Object::Node(Arc::default())], version: None })
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
        let cluster = Arc::new(Together(Barrier::new(NODES_AT_ONCE)));
        let ctx = Arc::new(Context { cluster, ..context });
        let ran = |number: usize| LastPrimary {
            member: format!("db-{number}").as_str().into(),
            pod_uid: "u".into(),
            container: "db".into(),
            container_id: "c".into(),
            node: Some(format!("n{number}")),
            grace: 30,
            gone: None,
        };
        let record = Record { last_primaries: (0..NODES_AT_ONCE).map(ran).collect(), ..Record::default() };
        let read = read(&ctx, &[], &record, None).await.map_err(|error| error.to_string());
        assert_eq!(read.map(|found| found.nodes.map(|nodes| nodes.len())), Ok(Some(NODES_AT_ONCE)));
    }
}
