//! What all rounds share: clients, settings, clock, hints, policies, bounds and metrics.
use crate::args::Run;
use crate::clock::{self, Clock};
use crate::cluster::Cluster;
use crate::cluster::kube::Kube;
use crate::decisions::Decisions;
use crate::handover::Seen;
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
use tanist_api::ReplicaGroup;
use tanist_engine::Engine;

/// What all rounds share.
pub struct Context {
    /// The cluster that rounds read and write, and in whose members they execute.
    pub cluster: Arc<dyn Cluster>,
    /// The client for single requests. Each request has a deadline of ours, within which kube may retry answers 429, 503 and 504.
    pub client: Client,
    /// The client for exec and for watches, which never retries. A command must not run twice; and kube's pauses between retries grow to minutes,
    /// in which a watch would miss changes. Watches restart by themselves.
    pub exec_client: Client,
    /// The clock for everything that is decided or stored.
    pub clock: Arc<Clock>,
    /// The settings of the command line.
    pub settings: Run,
    /// What this process remembers between rounds.
    pub hints: Hints,
    /// Up to which version pods were seen, for the next leader.
    pub seen: Arc<Seen>,
    /// Loads the policies of groups.
    pub policies: Sources,
    /// The threads on which decisions are made.
    pub decisions: Decisions,
    /// Starts a round of a group.
    pub wake: UnboundedSender<ObjectRef<ReplicaGroup>>,
    /// Slots for short executions: `status`, `sequence` and `settle`.
    pub questions: Slots,
    /// Slots for commands.
    pub commands: Slots,
    /// The queue of events that are to be written.
    pub news: Queue,
    /// The metrics of this process.
    pub metrics: Metrics,
    /// True after SIGTERM: nothing new starts.
    pub closing: AtomicBool,
}

/// Deadline of a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Deadline of a single request. A healthy API server answers within milliseconds.
const REQUEST: Duration = Duration::from_secs(30);

/// The clients of one API server.
pub struct Reach {
    /// For single requests.
    pub client: Client,
    /// For exec and for watches.
    pub exec_client: Client,
    /// The clock that takes its time from the API server's answers.
    pub clock: Arc<Clock>,
}

impl Context {
    /// Connects to the API server of a configuration.
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

    /// The same with existing connections.
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
            cluster: Arc::new(Kube::new(client.clone(), exec_client.clone())),
            exec_client,
            clock,
            questions: Slots::new(settings.execs),
            commands: Slots::new(settings.commands),
            news,
            hints: Hints::default(),
            seen: Arc::default(),
            policies: Sources::new(engine, client.clone(), wake.clone(), settings.policy_dir.clone()),
            decisions: Decisions::default(),
            client,
            wake,
            metrics,
            closing: AtomicBool::new(false),
            settings,
        }
    }

    /// Starts a round of a group.
    pub fn wake(&self, group: &ReplicaGroup) {
        // The receiver is gone only while the process is ending, so a failure to send does not matter.
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
            self.decisions.forget(uid);
            self.metrics.forget(&group.namespace().unwrap_or_default(), &group.name_any());
        }
    }

    /// Whether the process has received SIGTERM.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }
}
