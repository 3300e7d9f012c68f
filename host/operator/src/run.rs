//! Connects watches to rounds. Watches only say when to look; a round reads everything itself.
use crate::args::Run;
use crate::cli::Reach;
use crate::context::Context;
use crate::controller::{error_policy, round};
use crate::handover;
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::news;
use crate::nodes;
use crate::policies;
use crate::readable::{Stored, readable};
use crate::telemetry;
use anyhow::Context as _;
use futures::channel::{mpsc, oneshot};
use futures::{StreamExt, TryStreamExt, future};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::controller::{self, Controller};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tanist_api::{self as api, ReplicaGroup};
use tanist_cluster::crash;
use tanist_cluster::observe::{config, every_container_ended};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tracing::{info, warn};

/// How many rounds of different groups run at the same time.
const ROUNDS: u16 = 32;

/// The time in which events of one group coalesce into one round. Each takeover waits for it twice: for the event, and for the position that was
/// read.
const DEBOUNCE: Duration = Duration::from_millis(5);

/// How many objects a watch reads at a time when it begins. Users may store a quarter of a megabyte in the metadata of each, and all namespaces begin at the same moment.
const PAGE: u32 = 50;

/// Runs the operator until SIGTERM, or until leadership is lost.
///
/// # Errors
/// When it cannot start, or lost its Lease: the process then ends and Kubernetes starts it anew.
pub async fn run(settings: Run, reach: &Reach) -> anyhow::Result<()> {
    // First of all: the kernel drops a SIGTERM for process 1 that nobody listens for. The process would then lead until its pod's grace is over, be
    // killed, and leave the Lease behind.
    let mut terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    telemetry::logs();
    crash::start().await;
    let config = reach.config().await?;
    let engine =
        tanist_engine::Engine::new(tanist_engine::Limits::default()).context("failed to start the policy engine")?;
    let (wake, woken) = mpsc::unbounded();
    let metrics = Metrics::default();
    let (queue, outbox) = news::Queue::new(metrics.clone());
    let ctx = Context::new(config, settings, engine, metrics, wake, queue).context("failed to connect")?;
    let ctx = Arc::new(ctx);
    // They are ready before the first round, because every group's stack ends with one.
    ctx.policies.load_builtins().await.context("failed to load a built-in policy")?;
    tokio::spawn(news::deliver(outbox, ctx.client.clone(), ctx.settings.identity.clone(), ctx.metrics.clone()));
    let serving = tokio::spawn(telemetry::serve(ctx.clone(), ctx.settings.listen));
    let mut lease = Leadership::new(
        ctx.client.clone(),
        &ctx.settings.lease_namespace,
        &ctx.settings.installation,
        &ctx.settings.identity,
        ctx.seen.clone(),
    )
    .in_pod(ctx.settings.pod_uid.clone());
    if !ctx.settings.no_lease {
        tokio::select! {
            () = lease.acquire() => info!(identity = ctx.settings.identity, "leading"),
            _ = terminate.recv() => return Ok(()),
        }
    }
    ctx.metrics.leader.set(1);
    let loader = ctx.clone();
    tokio::spawn(async move { loader.policies.run().await });
    let reader = ctx.clone();
    tokio::spawn(async move { handover::read_on(&reader).await });
    let (ended, is_over) = oneshot::channel();
    let holding = tokio::spawn(hold(lease, ctx.settings.no_lease, is_over));
    lead(&ctx, holding, ended, &mut terminate, serving, woken).await
}

/// Holds the Lease until it is lost, which is returned, or until the process has done its last work, and then gives it up. A task of its own: nothing else that this process does can keep it from renewing.
async fn hold(mut lease: Leadership, no_lease: bool, is_over: oneshot::Receiver<()>) -> Option<String> {
    if no_lease {
        // It ends with the process.
        let _ = is_over.await;
        return None;
    }
    tokio::select! {
        why = lease.hold() => {
            crash::lost().await;
            Some(why)
        }
        // Where the process ends for another reason it is not given up: commands may still run.
        Ok(()) = is_over => {
            lease.release().await;
            None
        }
    }
}

/// Leads until the process is told to end, and then until no command runs any more.
///
/// # Errors
/// Why it cannot lead any more.
async fn lead(
    ctx: &Arc<Context>,
    mut holding: JoinHandle<Option<String>>,
    ended: oneshot::Sender<()>,
    terminate: &mut Signal,
    serving: JoinHandle<std::io::Result<()>>,
    woken: mpsc::UnboundedReceiver<ObjectRef<ReplicaGroup>>,
) -> anyhow::Result<()> {
    let why = |held: Result<Option<String>, JoinError>| match held {
        Ok(why) => why.unwrap_or_default(),
        Err(error) => error.to_string(),
    };
    tokio::select! {
        held = &mut holding => anyhow::bail!("leadership is lost: {}", why(held)),
        _ = terminate.recv() => {}
        served = serving => anyhow::bail!("failed to serve health and metrics on {}{}", ctx.settings.listen, cause(served)),
        () = watch_all(ctx.clone(), woken) => anyhow::bail!("every watch ended"),
    }
    // Until the last command has ended no other process may lead: only this one hears how it ends.
    tokio::select! {
        held = &mut holding => anyhow::bail!("leadership is lost while commands end: {}", why(held)),
        () = close(ctx) => {}
    }
    // Nobody listens if it was lost in this moment.
    let _ = ended.send(());
    holding.await.map(drop).context("failed to give up the Lease")
}

/// Why a task ended that should run for ever.
fn cause<E: std::fmt::Display>(ended: Result<Result<(), E>, tokio::task::JoinError>) -> String {
    match ended {
        Ok(Ok(())) => String::new(),
        Ok(Err(error)) => format!(": {error:#}"),
        Err(error) => format!(": {error}"),
    }
}

/// After SIGTERM nothing new starts. The Lease is held until running commands have ended or the grace is over (docs/rules.md, "Commands").
async fn close(ctx: &Context) {
    ctx.rounds.closing.store(true, Ordering::SeqCst);
    let until = tokio::time::Instant::now() + Duration::from_secs(ctx.settings.grace);
    while ctx.rounds.hints.running() > 0 && tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    info!(running = ctx.rounds.hints.running(), "ending");
}

async fn watch_all(ctx: Arc<Context>, woken: mpsc::UnboundedReceiver<ObjectRef<ReplicaGroup>>) {
    // Each namespace has its own controller, so each wake is passed to the controller of its namespace. Each is a task: one that is busy holds up no other.
    let mut controllers = JoinSet::new();
    let mut routes = Vec::new();
    let mut groups = Vec::new();
    for namespace in &ctx.settings.namespaces {
        let (sender, receiver) = mpsc::unbounded();
        let (store, writer) = reflector::store();
        routes.push((namespace.clone(), sender));
        groups.push(store.clone());
        controllers.spawn(watch_namespace(ctx.clone(), namespace.clone(), receiver, store, writer));
    }
    let hand_out = woken.for_each(|group| {
        let route = routes.iter().find(|(ns, _)| Some(ns) == group.namespace.as_ref());
        if let Some((_, sender)) = route {
            let _ = sender.unbounded_send(group);
        }
        future::ready(())
    });
    tokio::select! {
        _ = controllers.join_all() => {}
        () = hand_out => {}
        () = nodes::watch(&ctx, &groups) => {}
        () = watch_directory(&ctx) => {}
    }
}

async fn watch_namespace(
    ctx: Arc<Context>,
    namespace: String,
    woken: mpsc::UnboundedReceiver<ObjectRef<ReplicaGroup>>,
    store: Store<ReplicaGroup>,
    writer: Writer<ReplicaGroup>,
) {
    // Watches restart by themselves; see [`Context::exec_client`].
    let client = ctx.exec_client.clone();
    let all = watcher::Config::default().page_size(PAGE);
    let ours = all.clone().labels(api::LABEL_GROUP);
    let groups: Api<Stored> = Api::namespaced(client.clone(), &namespace);
    let (forget, tell) = (ctx.clone(), ctx.clone());
    let events = readable(watcher(groups, all), move |group, why| news::unreadable(&tell, group, why));
    let changes = reflector::reflector(writer, events)
        .default_backoff()
        .inspect_ok(move |event| {
            if let Event::Delete(group) = event {
                forget.forget(group);
            }
        })
        .applied_objects()
        .predicate_filter(round_trigger, Default::default());
    // An error of any of its streams pauses all that starts rounds; so it gets none.
    let of = namespace.clone();
    let changes = changes.filter_map(move |change| {
        let read = change
            .inspect_err(|error| warn!(namespace = of, %error, "the watch of groups failed; it is started again"));
        future::ready(read.ok().map(Ok))
    });
    let controller = Controller::for_stream(changes, store.clone())
        .with_config(controller::Config::default().concurrency(ROUNDS).debounce(DEBOUNCE))
        .reconcile_on(woken);
    let sets = watch_sets(ctx.clone(), client.clone(), namespace.clone(), ours.clone());
    let config_maps = watch_config_maps(ctx.clone(), client.clone(), namespace.clone());
    let configuration = watch_configuration(ctx.clone(), client.clone(), namespace.clone(), store.clone());
    let pods = watch_pods(ctx.clone(), client, namespace.clone(), ours);
    let of = namespace.clone();
    let rounds = controller.run(round, error_policy, ctx).for_each(move |done| {
        match done {
            // `error_policy` has told the first, and the second is a group that went meanwhile.
            Ok(_) | Err(controller::Error::ReconcilerFailed(..) | controller::Error::ObjectNotFound(_)) => {}
            Err(error) => warn!(namespace = of, %error, "a round could not be started"),
        }
        future::ready(())
    });
    tokio::select! {
        () = rounds => warn!(namespace, "the watch of groups ended"),
        () = config_maps => warn!(namespace, "the watch of policies ended"),
        () = configuration => warn!(namespace, "the watch of ConfigMaps ended"),
        () = pods => warn!(namespace, "the watch of pods ended"),
        () = sets => warn!(namespace, "the watch of StatefulSets ended"),
    }
}

/// A hash that changes when a change of the group should start a round: of the spec, labels or annotations, or a record that was removed. Our own
/// status writes do not change it.
fn round_trigger(group: &ReplicaGroup) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let meta = &group.metadata;
    let remembers = group.status.as_ref().is_some_and(|s| s.record.is_some());
    (meta.uid.as_ref(), meta.generation, &meta.annotations, &meta.labels, remembers).hash(&mut hasher);
    Some(hasher.finish())
}

/// Watches pods: a changed pod starts a round of its group. If its last status shows that its containers ended, that is remembered.
async fn watch_pods(ctx: Arc<Context>, client: Client, namespace: String, selector: watcher::Config) {
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let events = watcher(pods, selector).default_backoff();
    events
        .for_each(|event| {
            match event {
                Ok(Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod)) => {
                    pod_changed(&ctx, &namespace, &pod)
                }
                Ok(Event::Init | Event::InitDone) => {}
                Err(error) => warn!(namespace, %error, "the watch of pods failed; it is started again"),
            }
            future::ready(())
        })
        .await;
}

/// Watches StatefulSets: one that changed starts a round of its group. What changed the round finds out.
async fn watch_sets(ctx: Arc<Context>, client: Client, namespace: String, selector: watcher::Config) {
    let sets: Api<PartialObjectMeta<StatefulSet>> = Api::namespaced(client, &namespace);
    let events = watcher(sets, selector).default_backoff();
    events
        .for_each(|event| {
            match event {
                Ok(Event::Apply(set) | Event::InitApply(set) | Event::Delete(set)) => {
                    let group = set.labels().get(api::LABEL_GROUP);
                    group.into_iter().for_each(|group| ctx.rounds.wake_named(&namespace, group));
                }
                Ok(Event::Init | Event::InitDone) => {}
                Err(error) => warn!(namespace, %error, "the watch of StatefulSets failed; it is started again"),
            }
            future::ready(())
        })
        .await;
}

/// A pod is as it says, or was when it was removed: the end of its containers is remembered, and its group is looked at.
pub fn pod_changed(ctx: &Context, namespace: &str, pod: &Pod) {
    let Some(group) = pod.labels().get(api::LABEL_GROUP) else { return };
    if every_container_ended(pod) {
        pod.uid().into_iter().for_each(|uid| ctx.rounds.hints.end(uid));
    }
    ctx.rounds.wake_named(namespace, group);
}

/// Caches the labelled `ConfigMap`s. After an edit the store loads what changed, and wakes exactly the groups that use it.
async fn watch_config_maps(ctx: Arc<Context>, client: Client, namespace: String) {
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let (store, writer) = reflector::store();
    ctx.policies.add_config_maps(&namespace, store);
    let labelled = format!("{}=true", api::LABEL_POLICY);
    let selector = watcher::Config::default().labels(&labelled).page_size(policies::room::PAGE);
    let (of, room) = (namespace.clone(), ctx.clone());
    let fitting = watcher(maps, selector).map_ok(move |event| room.policies.fit(&of, event));
    let events = reflector::reflector(writer, fitting).default_backoff();
    events
        .for_each(|event| {
            match event {
                Ok(Event::Apply(map) | Event::Delete(map)) => ctx.policies.config_map_changed(&map),
                // Only now it is certain what there is.
                Ok(Event::InitDone) => ctx.policies.config_maps_known(&namespace),
                Ok(Event::Init | Event::InitApply(_)) => {}
                Err(error) => warn!(namespace, %error, "the watch of policies failed; it is started again"),
            }
            future::ready(())
        })
        .await;
}

/// Watches the metadata of ConfigMaps: a change starts a round of the groups that follow it (E2). What changed the round finds out.
async fn watch_configuration(ctx: Arc<Context>, client: Client, namespace: String, groups: Store<ReplicaGroup>) {
    let maps: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(client, &namespace);
    let events = watcher(maps, watcher::Config::default().page_size(PAGE)).default_backoff();
    events
        .for_each(|event| {
            match event {
                Ok(Event::Apply(map) | Event::Delete(map)) => {
                    let name = map.name_any();
                    let following = groups.state().into_iter().filter(|group| config::follows(group, &name));
                    following.for_each(|group| ctx.rounds.wake(&group));
                }
                Ok(Event::Init | Event::InitApply(_) | Event::InitDone) => {}
                Err(error) => warn!(namespace, %error, "the watch of ConfigMaps failed; it is started again"),
            }
            future::ready(())
        })
        .await;
}

/// Watches the policy directory: after a change the store reads the files that groups use.
async fn watch_directory(ctx: &Context) {
    let Some(directory) = ctx.settings.policy_dir.clone() else { return future::pending().await };
    let (_watcher, changes) = match policies::directory::watch(&directory) {
        Ok(watching) => watching,
        Err(error) => {
            warn!(%error, "the policy directory cannot be watched; its files are read every 30 s");
            return future::pending().await;
        }
    };
    changes
        .for_each(|()| {
            ctx.policies.directory_changed();
            future::ready(())
        })
        .await;
    future::pending().await
}
