//! A process of the operator: rounds of each group, started by changes and by what the rounds themselves await.
use crate::faults::Fault;
use crate::server::Server;
use crate::stale::{Stale, Watched};
use crate::world::World;
use kube::ResourceExt;
use std::collections::BTreeMap;
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
use tanist_core::policy::{Answered, Policies, PolicyName, Question, Unanswered};
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
    /// From when to when it last waited for an execution that took long.
    waited: Option<(Instant, Instant)>,
    /// How many points it passed: one before and one after each request and execution.
    points: u64,
    stop_at: Option<(u64, Stop)>,
    is_stopped: bool,
}

/// How a process is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It is killed.
    Kill,
    /// It stands still for that long, and is killed once it has seen that its Lease is gone.
    Freeze(Duration),
}

/// How long a process goes on that stood still and no longer leads.
pub const AFTER_FROST: Duration = Duration::from_secs(3);

/// How much later than something it may act on it. The clock of the world has whole seconds.
const MOMENT: Duration = Duration::from_secs(2);

impl Process {
    /// It ends here and now: whatever it awaits never comes.
    pub fn kill(&self) {
        self.lock().is_dead = true;
    }

    /// It stands still for that long.
    pub fn freeze(&self, time: Duration) {
        self.lock().frozen_until = Some(Instant::now() + time);
    }

    /// Whether it stood still at a time that is no longer ago.
    #[must_use]
    pub fn stood_still_within(&self, time: Duration) -> bool {
        self.lock().frozen_until.is_some_and(|until| until + time > Instant::now())
    }

    /// It waited for an execution that began then, and got an answer, or none. A short one says nothing.
    pub fn waited_since(&self, began: Instant) {
        let (mut known, now) = (self.lock(), Instant::now());
        if now.duration_since(began) > MOMENT {
            known.waited = Some((began, now));
        }
    }

    /// Whether it waited for an execution all that time, until a moment ago: meanwhile it asked the API server for nothing else.
    #[must_use]
    pub fn waits_since(&self, time: Duration) -> bool {
        self.lock().waited.is_some_and(|(began, ended)| began.elapsed() + MOMENT >= time && ended.elapsed() <= MOMENT)
    }

    /// It is stopped at that point of its life.
    pub fn stop_at(&self, point: u64, stop: Stop) {
        self.lock().stop_at = Some((point, stop));
    }

    /// Whether it was stopped there.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// How many points it passed.
    #[must_use]
    pub fn points(&self) -> u64 {
        self.lock().points
    }

    /// Counts a point, and stops there if it is the one.
    fn pass(&self) {
        let stop = {
            let mut life = self.lock();
            life.points += 1;
            let stop = life.stop_at.filter(|(point, _)| *point == life.points).map(|(_, stop)| stop);
            life.is_stopped |= stop.is_some();
            stop
        };
        match stop {
            Some(Stop::Kill) => self.kill(),
            Some(Stop::Freeze(time)) => {
                self.freeze(time);
                let process = self.clone();
                drop(tokio::spawn(async move {
                    tokio::time::sleep(time + AFTER_FROST).await;
                    process.kill();
                }));
            }
            None => {}
        }
    }

    /// Ends when the process may go on, and never if it is dead.
    pub async fn goes_on(&self) {
        self.pass();
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

/// What starts rounds of each group before they are due.
#[derive(Debug, Clone, Default)]
struct Wakes(Arc<Mutex<BTreeMap<String, Arc<Notify>>>>);

impl Wakes {
    fn of(&self, group: &str) -> Arc<Notify> {
        let mut wakes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wakes.entry(group.to_owned()).or_default().clone()
    }
}

/// A process of the operator.
pub struct Operator {
    /// Whether it lives.
    pub process: Process,
    world: World,
    ctx: Arc<Context>,
    wakes: Wakes,
    policies: Box<dyn Policies + Send + Sync>,
    health: PolicyHealth,
    /// When it began, in seconds since 1970.
    began: i64,
    /// What its watches showed.
    watched: Watched,
}

/// How far a clock may be wrong, in seconds: a little, by the error of a machine without a time server, and by a day.
const WRONG_BY: [i64; 3] = [5, 90, 86_400];

/// By how many millionths a clock may run faster or slower. No more is corrected by the kernel at a time.
const DRIFT: u64 = 500;

/// The clock of a new process: that of the API server, or one that is wrong.
fn clock(world: &World) -> Clock {
    let monotonic = world.clone();
    let mut state = world.lock();
    let now = state.now;
    if !state.happens(Fault::ClockSkewed, 2) {
        return Clock::new(now, move || monotonic.passed());
    }
    let kind = usize::try_from(state.roll(Fault::ClockSkewed, WRONG_BY.len() as u64)).unwrap_or(0);
    let most = WRONG_BY.get(kind).copied().unwrap_or(0);
    let sides = u64::try_from(most.saturating_mul(2).saturating_add(1)).unwrap_or(1);
    let ahead = i64::try_from(state.roll(Fault::ClockSkewed, sides)).unwrap_or(0).saturating_sub(most);
    let millionths = 1_000_000 - DRIFT + state.roll(Fault::ClockSkewed, 2 * DRIFT + 1);
    state.say(format!("its clock is {ahead} s ahead, and runs {millionths} s while a million pass"));
    let passed = move || {
        let micros = monotonic.passed().as_micros().saturating_mul(u128::from(millionths)) / 1_000_000;
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    };
    Clock::new(now.saturating_add(ahead), passed)
}

impl Operator {
    /// A process whose decisions these policies make. `seed`: of its nonces.
    #[must_use]
    pub fn new(world: &World, seed: u64, policies: Box<dyn Policies + Send + Sync>) -> Self {
        let wakes = Wakes::default();
        let (waking, drawn) = (wakes.clone(), AtomicU64::new(0));
        let process = Process::default();
        let now = world.lock().now;
        let ctx = Context {
            cluster: Arc::new(Server { world: world.clone(), process: process.clone() }),
            clock: Arc::new(clock(world)),
            settings: Settings { runner_image: "runner:1".into(), installation: "tanist".into() },
            cluster_domain: "cluster.local".into(),
            hints: Hints::default(),
            questions: Slots::new(16),
            commands: Slots::new(16),
            configurations: tokio::sync::Semaphore::new(tanist_cluster::observe::config::AT_ONCE),
            count: Arc::new(()),
            dice: Box::new(move || seed.wrapping_mul(1_000_003).wrapping_add(drawn.fetch_add(1, Ordering::Relaxed))),
            wake: Box::new(move |_, group| waking.of(group).notify_one()),
            closing: AtomicBool::new(false),
        };
        let health = PolicyHealth::Active("one policy".into());
        Operator {
            process,
            world: world.clone(),
            ctx: Arc::new(ctx),
            wakes,
            policies,
            health,
            began: now,
            watched: Watched::default(),
        }
    }

    /// Its watches show that change wrongly: the first one is 1.
    #[must_use]
    pub fn with_stale(mut self, change: u64, stale: Stale) -> Self {
        self.watched = Watched::wrong(change, stale);
        self
    }

    /// How many changes its watches have shown.
    #[must_use]
    pub fn watched(&self) -> Watched {
        self.watched.clone()
    }

    /// Runs rounds of all groups until the time is over.
    pub async fn run_all(&self, time: Duration) {
        let groups: Vec<String> = {
            let state = self.world.lock();
            state.groups.keys().chain(state.deleted_groups.keys()).cloned().collect()
        };
        futures::future::join_all(groups.iter().map(|group| self.run(group, time))).await;
    }

    /// Runs rounds of the group of that name until the time is over.
    pub async fn run(&self, group: &str, time: Duration) {
        let (wake, shown) = (self.wakes.of(group), AtomicU64::new(0));
        let until = Instant::now() + time;
        let mut next = Duration::ZERO;
        while Instant::now() < until {
            let due = tokio::time::sleep(next);
            tokio::select! {
                biased;
                () = wake.notified() => {}
                () = self.watch(&shown) => {}
                () = due => {}
                () = tokio::time::sleep_until(until) => return,
            }
            tokio::time::sleep(DEBOUNCE).await;
            next = match self.watched.group(&self.world, group) {
                Some(object) => self.round(&object).await,
                None => time,
            };
        }
    }

    /// Ends when a watch shows a change. As the operator's watch of pods does, it remembers how pods ended.
    async fn watch(&self, shown: &AtomicU64) {
        loop {
            let news = self.world.lock().news.clone();
            let told = news.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if self.watched.owes().await || self.look(shown) && self.watched.shows().await {
                return;
            }
            told.await;
            let lag = {
                let mut state = self.world.lock();
                state.happens(Fault::WatchLags, 10).then(|| Duration::from_millis(state.roll(Fault::WatchLags, 10_000)))
            };
            tokio::time::sleep(WATCH + lag.unwrap_or_default()).await;
            let mut state = self.world.lock();
            if state.happens(Fault::WatchMisses, 20) {
                shown.store(state.changes, Ordering::Relaxed);
            }
        }
    }

    /// Whether something changed since the last look, at which there were `shown` changes.
    fn look(&self, shown: &AtomicU64) -> bool {
        let state = self.world.lock();
        let since = self.began.saturating_sub(HANDED_OVER);
        for (_, pod) in state.ended.iter().filter(|(at, pod)| *at >= since && every_container_ended(pod)) {
            pod.metadata.uid.clone().into_iter().for_each(|uid| self.ctx.hints.end(uid));
        }
        shown.swap(state.changes, Ordering::Relaxed) != state.changes
    }

    async fn round(&self, group: &ReplicaGroup) -> Duration {
        let never = Duration::from_secs(u64::from(group.spec.resync_interval_seconds));
        match round(&self.ctx, group, self).await {
            Ok(done) => done.again.unwrap_or(never),
            Err(error) => {
                self.world.lock().say(format!("a round of {} ended early: {error}", group.name_any()));
                error.again().unwrap_or(never)
            }
        }
    }
}

/// Policies that fail.
struct Silent;

impl Policies for Silent {
    fn ask(&self, _: &Question) -> Result<Answered, Unanswered> {
        Err(Unanswered { policy: PolicyName::none(), kind: "trap", message: "it fails".into(), notes: Vec::new() })
    }
}

impl Decider for Operator {
    type Error = std::convert::Infallible;

    fn policies(&self) -> report::Policies<'_> {
        report::Policies { health: &self.health, status: &[] }
    }

    async fn decide(&self, observed: Observed) -> Result<(Observed, Plan), Self::Error> {
        let is_silent = self.world.lock().happens(Fault::PolicyFails, 10);
        let plan =
            if is_silent { decide(&observed.snapshot, &Silent) } else { decide(&observed.snapshot, &*self.policies) };
        Ok((observed, plan))
    }
}
