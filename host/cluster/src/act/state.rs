//! Writes the ConfigMap of the cluster state.
use super::{Error, upkeep, writes};
use crate::cluster;
use crate::context::Context;
use crate::objects;
use crate::observe::Observed;
use std::sync::Arc;
use tanist_core::snapshot::Object;
use tanist_core::state::Data;

/// Writes the values to the ConfigMap of that name. `version`: the one that was read, if there is one. `awaited`: a start needs it and comes after the answer; otherwise nobody waits for it.
pub(super) async fn write(
    ctx: &Arc<Context>,
    observed: &Observed,
    (name, data): (&str, &Data),
    version: Option<String>,
    awaited: bool,
) -> Result<(), Error> {
    let unbuilt = |why: objects::BuildError| {
        Error::Write(format!("build ConfigMap {name}"), cluster::Error::Unreachable(why.to_string()))
    };
    let manifest = objects::cluster_state(&observed.object, &ctx.settings, name, data).map_err(unbuilt)?;
    let (kind, name) = ("ConfigMap".to_owned(), name.to_owned());
    let object = Object { kind, name, manifest: Arc::new(manifest), current: false, version, trial: None };
    match awaited {
        true => writes::apply(ctx, &observed.snapshot, &object).await,
        false => upkeep::apply(ctx, observed, &object),
    }
}
