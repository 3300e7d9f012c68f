//! What every round has at hand.
use crate::api::ReplicaGroup;
use crate::args::Run;
use crate::clock::{self, Clock};
use crate::hints::Hints;
use crate::metrics::Metrics;
use crate::news::Queue;
use crate::policies::Sources;
use crate::slots::Slots;
use futures::channel::mpsc::UnboundedSender;
use kube::client::ClientBuilder;
use kube::runtime::reflector::ObjectRef;
use kube::{Client, Config, ResourceExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tanist_engine::Engine;

/// What every round has at hand.
pub struct Context {
    /// For single requests: each has a deadline of ours around it, within which kube may retry what the API server put off (429, 503, 504).
    pub client: Client,
    /// For exec and for watches: nothing below us retries. A command must not run twice, and kube's pauses between retries grow to minutes,
    /// for which a watch would be deaf; watches begin again by themselves.
    pub exec_client: Client,
    /// What time it is, for everything that is decided or stored.
    pub clock: Arc<Clock>,
    /// The command line.
    pub settings: Run,
    /// What is remembered between rounds.
    pub hints: Hints,
    /// Where policies come from.
    pub policies: Sources,
    /// Starts a round of a group.
    pub wake: UnboundedSender<ObjectRef<ReplicaGroup>>,
    /// How many members are asked at a time.
    pub questions: Slots,
    /// How many commands run at a time.
    pub commands: Slots,
    /// Where events wait until they are written.
    pub news: Queue,
    /// What is counted.
    pub metrics: Metrics,
    /// Set on SIGTERM: nothing new starts.
    pub closing: AtomicBool,
}

/// Deadline of a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Deadline of a plain request; the API server answers in milliseconds or is in trouble.
const REQUEST: Duration = Duration::from_secs(30);

/// The way to an API server.
pub struct Reach {
    /// For everything but exec.
    pub client: Client,
    /// For exec alone.
    pub exec_client: Client,
    /// Hears the API server's time in what comes back.
    pub clock: Arc<Clock>,
}

impl Context {
    /// Connects.
    ///
    /// # Errors
    /// When there is no configuration for a cluster.
    pub fn new(
        config: Config,
        settings: Run,
        engine: Engine,
        metrics: Metrics,
        wake: UnboundedSender<ObjectRef<ReplicaGroup>>,
        news: Queue,
    ) -> kube::Result<Self> {
        let mut plain = config;
        plain.connect_timeout = Some(CONNECT);
        plain.write_timeout = Some(REQUEST);
        let mut exec = plain.clone();
        exec.default_retry = false;
        let clock = Arc::new(Clock::default());
        let client = ClientBuilder::try_from(plain)?.with_layer(&clock::listen(clock.clone())).build();
        let reach = Reach { client, exec_client: Client::try_from(exec)?, clock };
        Ok(Self::over(reach, settings, engine, metrics, wake, news))
    }

    /// The same, over connections that are there already.
    #[must_use]
    pub fn over(
        reach: Reach,
        settings: Run,
        engine: Engine,
        metrics: Metrics,
        wake: UnboundedSender<ObjectRef<ReplicaGroup>>,
        news: Queue,
    ) -> Self {
        let Reach { client, exec_client, clock } = reach;
        Context {
            exec_client,
            clock,
            questions: Slots::new(settings.execs),
            commands: Slots::new(settings.commands),
            news,
            hints: Hints::default(),
            policies: Sources::new(engine, client.clone(), settings.policy_dir.clone()),
            client,
            wake,
            metrics,
            closing: AtomicBool::new(false),
            settings,
        }
    }

    /// Starts a round of a group.
    pub fn wake(&self, group: &ReplicaGroup) {
        // Nobody listens only when the process is ending.
        let _ = self.wake.unbounded_send(ObjectRef::from_obj(group));
    }

    /// The same, by its name.
    pub fn wake_named(&self, namespace: &str, name: &str) {
        let _ = self.wake.unbounded_send(ObjectRef::new(name).within(namespace));
    }

    /// Forgets a group that is gone.
    pub fn forget(&self, group: &ReplicaGroup) {
        if let Some(uid) = &group.metadata.uid {
            self.hints.forget(uid);
            self.questions.forget(uid);
            self.commands.forget(uid);
            self.policies.forget(uid);
            self.metrics.forget(&group.namespace().unwrap_or_default(), &group.name_any());
        }
    }

    /// Whether SIGTERM has come.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }
}
