//! Reads the nodes on which members run, and on which last primaries ran.
use super::conditions::{self, Taints};
use super::{Error, convert, within};
use crate::context::Context;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tanist_core::record::Record;
use tanist_core::snapshot::{self, Member};

/// Nodes that are read at the same time.
const NODES_AT_ONCE: usize = 16;

/// The nodes, and their taints, by name.
type Nodes = (BTreeMap<String, snapshot::Node>, BTreeMap<String, Taints>);

/// The nodes of members and last primaries, and their taints. `None`: the operator may not read nodes.
pub(super) async fn read(ctx: &Arc<Context>, members: &[Member], record: &Record) -> Result<Option<Nodes>, Error> {
    let of_pods = members.iter().filter_map(|m| m.pod.as_ref()?.node.clone());
    let of_memory = record.last_primaries.iter().filter_map(|l| l.node.clone());
    let names: BTreeSet<String> = of_pods.chain(of_memory).collect();
    let read = names.into_iter().map(|name| {
        let ctx = ctx.clone();
        async move { Ok((within("nodes", ctx.cluster.get::<Node>("", &name)).await?, name)) }
    });
    let read: Result<Vec<_>, Error> = stream::iter(read).buffer_unordered(NODES_AT_ONCE).try_collect().await;
    match read {
        Ok(found) => {
            let seen = found.into_iter().filter_map(|(node, name)| {
                let node = node?;
                let seen = ctx.hints.node(&name, &convert::life(&node), convert::node(&node), ctx.clock.now());
                Some(((name.clone(), seen), (name, conditions::taints(&node))))
            });
            Ok(Some(seen.unzip()))
        }
        Err(Error::Read(_, error)) if error.code() == Some(403) => Ok(None),
        Err(error) => Err(error),
    }
}
