//! What the tests of this crate share: a context whose API server has scripted answers, and an engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
use crate::args::{Args, Command, Run};
use crate::context::{Context, Reach};
use crate::metrics::Metrics;
use crate::news::{Outbox, Queue};
use crate::policies::builtin;
use clap::Parser;
use futures::channel::mpsc;
use kube::Client;
use std::sync::{Arc, LazyLock};
use tanist_engine::{Engine, Limits, Policy};
pub use tanist_mock::*;

/// What an operator of the namespace `shop` is told, and more words.
pub fn settings(more: &[&str]) -> Run {
    let words = ["tanist", "run", "--namespaces", "shop", "--runner-image", "example.org/tanist:1"];
    let Command::Run(settings) = Args::parse_from(words.iter().chain(more)).command else { panic!("run") };
    *settings
}

/// A context whose requests all go there.
pub fn context(client: Client, more: &[&str]) -> (Arc<Context>, Outbox) {
    let (settings, engine) = (settings(more), engine());
    let metrics = Metrics::default();
    let (queue, outbox) = Queue::new(metrics.clone());
    let (wake, _) = mpsc::unbounded();
    let reach = Reach { client: client.clone(), exec_client: client, clock: Arc::default() };
    let context = Context::over(reach, settings, engine, metrics, wake, queue);
    context.policies.have_builtins();
    (Arc::new(context), outbox)
}

/// The engine of all tests, in which the built-in policy is compiled once.
pub fn engine() -> Engine {
    static ENGINE: LazyLock<(Engine, Policy)> = LazyLock::new(|| {
        let engine = Engine::new(Limits::default().unhurried()).unwrap();
        let policy = builtin::policy(&engine, &builtin::POLICIES[0]).unwrap();
        (engine, policy)
    });
    ENGINE.0.clone()
}
