//! A process of the operator: rounds of one group, started by changes and by what the rounds themselves await.
use crate::server::Server;
use crate::world::{START, World};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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

/// How long events of a group coalesce into one round.
const DEBOUNCE: Duration = Duration::from_millis(5);

/// How often the watch of this process looks for changes.
const WATCH: Duration = Duration::from_millis(20);

/// A process of the operator.
pub struct Operator {
    world: World,
    ctx: Arc<Context>,
    wake: Arc<Notify>,
    policies: Box<dyn Policies + Send + Sync>,
    health: PolicyHealth,
}

impl Operator {
    /// A process whose decisions these policies make. `seed`: of its nonces.
    #[must_use]
    pub fn new(world: &World, seed: u64, policies: Box<dyn Policies + Send + Sync>) -> Self {
        let wake = Arc::new(Notify::new());
        let (waking, clock, drawn) = (wake.clone(), world.clone(), AtomicU64::new(0));
        let ctx = Context {
            cluster: Arc::new(Server { world: world.clone() }),
            clock: Arc::new(Clock::new(START, move || clock.passed())),
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
        Operator { world: world.clone(), ctx: Arc::new(ctx), wake, policies, health }
    }

    /// Runs rounds of the group of that name until the time is over.
    pub async fn run(&self, group: &str, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        let mut next = Duration::ZERO;
        while tokio::time::Instant::now() < until {
            let due = tokio::time::sleep(next);
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = self.watch(group) => {}
                () = due => {}
                () = tokio::time::sleep_until(until) => return,
            }
            tokio::time::sleep(DEBOUNCE).await;
            let Some(object) = self.world.lock().groups.get(group).cloned() else { return };
            next = self.round(&object).await;
        }
    }

    /// Ends when an object of the group has changed. As the operator's watch of pods does, it remembers how pods ended.
    async fn watch(&self, group: &str) {
        loop {
            let (ended, is_changed) = {
                let mut state = self.world.lock();
                (std::mem::take(&mut state.ended), state.changed.remove(group))
            };
            for pod in ended.iter().filter(|pod| every_container_ended(pod)) {
                pod.metadata.uid.clone().into_iter().for_each(|uid| self.ctx.hints.end(uid));
            }
            if is_changed {
                return;
            }
            tokio::time::sleep(WATCH).await;
        }
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
