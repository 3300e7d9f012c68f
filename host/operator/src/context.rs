//! What the tasks of this process share: clients, settings, policies, metrics, and what its rounds share.
use crate::args::Run;
use crate::decisions::Decisions;
use crate::handover::Seen;
use crate::metrics::Metrics;
use crate::news::Queue;
use crate::policies::Sources;
use futures::channel::mpsc::UnboundedSender;
use kube::client::ClientBuilder;
use kube::runtime::reflector::ObjectRef;
use kube::{Client, Config, ResourceExt};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_cluster::clock::{self, Clock};
use tanist_cluster::cluster::kube::Kube;
use tanist_cluster::context::Context as Rounds;
use tanist_cluster::hints::Hints;
use tanist_cluster::objects::Settings as Installation;
use tanist_cluster::slots::Slots;
use tanist_engine::Engine;

/// What the tasks of this process share.
pub struct Context {
    /// What rounds share: the cluster as they see it, clock, hints, slots.
    pub rounds: Arc<Rounds>,
    /// The client for single requests. Each request has a deadline of ours, within which kube may retry answers 429, 503 and 504.
    pub client: Client,
    /// The client for exec and for watches, which never retries. A command must not run twice; and kube's pauses between retries grow to minutes,
    /// in which a watch would miss changes. Watches restart by themselves.
    pub exec_client: Client,
    /// The settings of the command line.
    pub settings: Run,
    /// Up to which version pods were seen, for the next leader.
    pub seen: Arc<Seen>,
    /// Loads the policies of groups.
    pub policies: Sources,
    /// The threads on which decisions are made.
    pub decisions: Decisions,
    /// The queue of events that are to be written.
    pub news: Queue,
    /// The metrics of this process.
    pub metrics: Metrics,
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
        let exec_client = Kube::exec_client(plain.clone())?;
        let clock = Arc::new(Clock::default());
        let client = ClientBuilder::try_from(plain)?.with_layer(&clock::listen(clock.clone())).build();
        let reach = Reach { client, exec_client, clock };
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
        let waking = wake.clone();
        let rounds = Rounds {
            cluster: Arc::new(Kube::new(client.clone(), exec_client.clone())),
            clock,
            settings: Installation {
                runner_image: settings.runner_image.clone(),
                installation: settings.installation.clone(),
            },
            cluster_domain: settings.cluster_domain.clone(),
            hints: Hints::default(),
            questions: Slots::new(settings.execs),
            commands: Slots::new(settings.commands),
            configurations: tokio::sync::Semaphore::new(tanist_cluster::observe::config::AT_ONCE),
            count: Arc::new(metrics.clone()),
            dice: Box::new(rand::random),
            // The receiver is gone only while the process is ending, so a failure to send does not matter.
            wake: Box::new(move |namespace, name| {
                let _ = waking.unbounded_send(ObjectRef::new(name).within(namespace));
            }),
            closing: AtomicBool::new(false),
        };
        Context {
            rounds: Arc::new(rounds),
            exec_client,
            news,
            seen: Arc::default(),
            policies: Sources::new(engine, client.clone(), wake.clone(), settings.policy_dir.clone()),
            decisions: Decisions::default(),
            client,
            metrics,
            settings,
        }
    }

    /// Forgets a group that is gone.
    pub fn forget(&self, group: &ReplicaGroup) {
        if let Some(uid) = &group.metadata.uid {
            self.rounds.forget(uid);
            self.policies.forget(uid);
            self.decisions.forget(uid);
            self.metrics.forget(&group.namespace().unwrap_or_default(), &group.name_any());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests may")]
    use super::*;
    use crate::mock;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// An API server that answers one request, at noon on 1 January 2001.
    fn of_2001() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let read = stream.read(&mut [0; 4096]).unwrap();
            assert!(read > 0);
            let version = r#"{"major": "1", "minor": "34", "gitVersion": "", "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}"#;
            let length = version.len();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 01 Jan 2001 12:00:00 GMT";
            write!(stream, "{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{version}").unwrap();
        });
        format!("http://{address}")
    }

    // S28: what is decided and stored has the time of the API server, whose answers the clock hears.
    #[tokio::test]
    async fn the_clock_hears_the_answers_of_the_api_server() {
        let (settings, engine) = (mock::settings(&[]), mock::engine());
        let metrics = Metrics::default();
        let (news, _outbox) = Queue::new(metrics.clone());
        let (wake, _woken) = futures::channel::mpsc::unbounded();
        let config = Config::new(of_2001().parse().unwrap());
        let ctx = Context::new(config, settings, engine, metrics, wake, news).unwrap();
        let noon = 978_350_400;
        assert!(ctx.rounds.clock.now() > noon + 86_400, "before the first answer it is our own");
        ctx.client.apiserver_version().await.unwrap();
        let now = ctx.rounds.clock.now();
        assert!((noon..noon + 86_400).contains(&now), "{now}");
    }
}
