//! Policies from a directory on the operator's machine, for instance a mounted volume: watched, so that an edit is seen at once.
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::path::Path;

/// Tells of every change in a directory, for as long as the watcher lives. A mounted `ConfigMap` changes by a link of its directory.
///
/// # Errors
/// When the kernel does not watch it; changes are then seen at the next round.
pub fn watch(directory: &Path) -> notify::Result<(RecommendedWatcher, UnboundedReceiver<()>)> {
    let (changed, changes) = unbounded();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reading is no change; were it one, each reading would start the next.
        if event.is_ok_and(|e| !e.kind.is_access()) {
            let _ = changed.unbounded_send(());
        }
    })?;
    watcher.watch(directory, RecursiveMode::NonRecursive)?;
    Ok((watcher, changes))
}
