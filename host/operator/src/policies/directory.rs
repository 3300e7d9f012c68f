//! Watches a policy directory on the operator's machine, for instance a mounted volume, so that an edit is noticed at once.
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::path::Path;

/// A channel that gets a message for every change in a directory, for as long as the watcher lives. A mounted `ConfigMap` changes by a symbolic
/// link in its directory.
///
/// # Errors
/// When the kernel cannot watch it. Changes are then noticed when the files are read again.
pub fn watch(directory: &Path) -> notify::Result<(RecommendedWatcher, UnboundedReceiver<()>)> {
    let (changed, changes) = unbounded();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reading a file must not count as a change: each reading would start the next.
        if event.is_ok_and(|e| !e.kind.is_access()) {
            let _ = changed.unbounded_send(());
        }
    })?;
    watcher.watch(directory, RecursiveMode::NonRecursive)?;
    Ok((watcher, changes))
}
