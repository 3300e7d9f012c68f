//! A process of the operator: rounds of one group, started by changes and by what the rounds themselves await.
use crate::faults::Fault;
use crate::server::Server;
use crate::world::World;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_cluster::clock::Clock;
use tanist_cluster::context::Context;
use tanist_cluster::hints::Hints;
use tanist_cluster::objects::Settings;
use tanist_cluster::observe::{Observed, every_container_ended};
use tanist_cluster::report;
use tanist_cluster::round::{Decider, round};
use tanist_cluster::slots::Slots;
use tanist_core::decide::decide;
use tanist_core::plan::Plan;
use tanist_core::policy::Policies;
use tanist_core::status::PolicyHealth;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long events of a group coalesce into one round.
const DEBOUNCE: Duration = Duration::from_millis(5);

/// How long a change takes until a watch shows it.
const WATCH: Duration = Duration::from_millis(10);

/// Seconds for which a process that takes the Lease reads back how pods ended.
const HANDED_OVER: i64 = 20;

/// Whether a process lives: one that was killed asks for nothing any more, and a frozen one goes on later.
#[derive(Debug, Clone, Default)]
pub struct Process(Arc<Mutex<Life>>);

#[derive(Debug, Default)]
struct Life {
    is_dead: bool,
    frozen_until: Option<Instant>,
}

impl Process {
    /// It ends here and now: whatever it awaits never comes.
    pub fn kill(&self) {
        self.lock().is_dead = true;
    }

    /// It stands still for that long.
    pub fn freeze(&self, time: Duration) {
        self.lock().frozen_until = Some(Instant::now() + time);
    }

    /// Ends when the process may go on, and never if it is dead.
    pub async fn goes_on(&self) {
        loop {
            let (is_dead, until) = {
                let life = self.lock();
                (life.is_dead, life.frozen_until.filter(|until| *until > Instant::now()))
            };
            match until {
                _ if is_dead => return std::future::pending().await,
                Some(until) => tokio::time::sleep_until(until).await,
                None => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Life> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process of the operator.
pub struct Operator {
    /// Whether it lives.
    pub process: Process,
    world: World,
    ctx: Arc<Context>,
    wake: Arc<Notify>,
    policies: Box<dyn Policies + Send + Sync>,
    health: PolicyHealth,
    /// How many changes its watches have shown.
    shown: AtomicU64,
    /// When it began, in seconds since 1970.
    began: i64,
}

impl Operator {
    /// A process whose decisions these policies make. `seed`: of its nonces.
    #[must_use]
    pub fn new(world: &World, seed: u64, policies: Box<dyn Policies + Send + Sync>) -> Self {
        let wake = Arc::new(Notify::new());
        let (waking, clock, drawn) = (wake.clone(), world.clone(), AtomicU64::new(0));
        let process = Process::default();
        let now = world.lock().now;
        let ctx = Context {
            cluster: Arc::new(Server { world: world.clone(), process: process.clone() }),
            clock: Arc::new(Clock::new(now, move || clock.passed())),
            settings: Settings { runner_image: "runner:1".into(), installation: "tanist".into() },
            cluster_domain: "cluster.local".into(),
            hints: Hints::default(),
            questions: Slots::new(16),
            commands: Slots::new(16),
            count: Arc::new(()),
            dice: Box::new(move || seed.wrapping_mul(1_000_003).wrapping_add(drawn.fetch_add(1, Ordering::Relaxed))),
            wake: Box::new(move |_, _| waking.notify_one()),
            closing: AtomicBool::new(false),
        };
        let health = PolicyHealth::Active("one policy".into());
        Operator {
            process,
            world: world.clone(),
            ctx: Arc::new(ctx),
            wake,
            policies,
            health,
            shown: AtomicU64::new(0),
            began: now,
        }
    }

    /// Runs rounds of the group of that name until the time is over.
    pub async fn run(&self, group: &str, time: Duration) {
        let until = Instant::now() + time;
        let mut next = Duration::ZERO;
        while Instant::now() < until {
            let due = tokio::time::sleep(next);
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = self.watch() => {}
                () = due => {}
                () = tokio::time::sleep_until(until) => return,
            }
            tokio::time::sleep(DEBOUNCE).await;
            let Some(object) = self.world.lock().groups.get(group).cloned() else { return };
            next = self.round(&object).await;
        }
    }

    /// Ends when a watch shows a change. As the operator's watch of pods does, it remembers how pods ended.
    async fn watch(&self) {
        loop {
            let news = self.world.lock().news.clone();
            let told = news.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if self.look() {
                return;
            }
            told.await;
            let lag = {
                let mut state = self.world.lock();
                state.happens(Fault::WatchLags, 10).then(|| Duration::from_millis(state.dice(10_000)))
            };
            tokio::time::sleep(WATCH + lag.unwrap_or_default()).await;
        }
    }

    /// Whether something changed since the last look.
    fn look(&self) -> bool {
        let state = self.world.lock();
        let since = self.began.saturating_sub(HANDED_OVER);
        for (_, pod) in state.ended.iter().filter(|(at, pod)| *at >= since && every_container_ended(pod)) {
            pod.metadata.uid.clone().into_iter().for_each(|uid| self.ctx.hints.end(uid));
        }
        self.shown.swap(state.changes, Ordering::Relaxed) != state.changes
    }

    async fn round(&self, group: &ReplicaGroup) -> Duration {
        let never = Duration::from_secs(u64::from(group.spec.resync_interval_seconds));
        match round(&self.ctx, group, self).await {
            Ok(done) => done.again.unwrap_or(never),
            Err(error) => {
                self.world.lock().say(format!("a round ended early: {error}"));
                error.again().unwrap_or(never)
            }
        }
    }
}

impl Decider for Operator {
    type Error = std::convert::Infallible;

    fn policies(&self) -> report::Policies<'_> {
        report::Policies { health: &self.health, status: &[] }
    }

    async fn decide(&self, observed: Observed) -> Result<(Observed, Plan), Self::Error> {
        let plan = decide(&observed.snapshot, &*self.policies);
        Ok((observed, plan))
    }
}
