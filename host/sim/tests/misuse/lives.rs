//! A group in the simulator whose spec is changed, and changed back.
use super::policies::Natural;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{set_hook, take_hook};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::thread::{available_parallelism, scope};
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_cluster::cluster::Kind;
use tanist_sim::life::{HEALING, all_last_words, unwell};
use tanist_sim::operator::Operator;
use tanist_sim::strikes::edit;
use tanist_sim::world::World;
use tanist_sim::{clients, controllers};

/// How long a group forms.
const FORMS: Duration = Duration::from_secs(40);

/// How long a group has the bad value.
const BAD: Duration = Duration::from_secs(150);

/// How often it is looked whether it is well.
const LOOK: Duration = Duration::from_secs(5);

/// How long a group settles before it is compared with another one.
const SETTLES: Duration = Duration::from_secs(240);

thread_local! {
    /// Panics of this thread. A task that panics ends, and whoever spawned it need not notice.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Does something with each item, on all processors, and returns the faults in the order of the items.
pub fn find_faults<T: Sync>(items: &[T], what: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            PANICS.with_borrow_mut(|panics| panics.push(info.to_string()));
            usual(info);
        }));
    });
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((number, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, items.get(n)?)))
        {
            PANICS.take();
            let mut fault = what(item);
            if let Some(panic) = PANICS.take().into_iter().next() {
                fault = Some(format!("it panicked: {panic}"));
            }
            faults.lock().unwrap().extend(fault.map(|fault| (number, fault)));
        }
    };
    scope(|threads| (0..available_parallelism().map_or(1, usize::from)).for_each(|_| drop(threads.spawn(work))));
    let mut faults = faults.into_inner().unwrap();
    faults.sort();
    faults.into_iter().map(|(_, fault)| fault).collect()
}

fn told<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(story)
}

/// A cluster with that group at work, and its operator.
async fn formed(group: &ReplicaGroup) -> (World, Operator) {
    let world = World::new(4, 1);
    world.create(group.clone());
    drop(tokio::spawn(controllers::run(world.clone())));
    drop(tokio::spawn(clients::run(world.clone())));
    let operator = Operator::new(&world, 1, Box::new(Natural));
    operator.run_all(FORMS).await;
    (world, operator)
}

fn change(world: &World, to: &ReplicaGroup, what: &str) {
    edit(&mut world.lock(), &to.name_any(), what, |group| group.spec = to.spec.clone());
}

/// A group has the bad spec for a while, and the good one again: no promise is broken, and it is well within three resync intervals.
pub fn lived(good: &ReplicaGroup, bad: &ReplicaGroup) -> Result<(), String> {
    told(async {
        let (world, operator) = formed(good).await;
        let early = unwell(&world);
        change(&world, bad, "it gets the bad value");
        operator.run_all(BAD).await;
        change(&world, good, "it gets the good value");
        let mut waited = Duration::ZERO;
        while waited < HEALING && !unwell(&world).is_empty() {
            operator.run_all(LOOK).await;
            waited += LOOK;
        }
        verdict(&world, early)
    })
}

fn verdict(world: &World, early: Vec<String>) -> Result<(), String> {
    let (late, words) = (unwell(world), all_last_words(world));
    let state = world.lock();
    if state.broken.is_empty() && early.is_empty() && late.is_empty() {
        return Ok(());
    }
    let log = state.log.iter().rev().take(40).rev().cloned().chain(words).collect::<Vec<_>>().join("\n");
    Err(format!("broken {:?}, not formed {early:?}, not healed {late:?}\n{log}", state.broken))
}

/// A group that is created with a spec, and one that is changed to it, are the same in the end. Whether a group forms with that spec at all: if not, nothing is
/// compared.
pub fn two_ways(from: &ReplicaGroup, to: &ReplicaGroup) -> Result<bool, String> {
    let (mut from, mut to) = (from.clone(), to.clone());
    // The preferred primary may be one of those that move when the zones change: another member comes in its place, and nobody is preferred.
    if from.spec.zones != to.spec.zones {
        from.spec.preferred_primary = None;
        to.spec.preferred_primary = None;
    }
    let (from, to) = (&from, &to);
    let at_once = told(async {
        let (world, operator) = formed(to).await;
        operator.run_all(SETTLES).await;
        unwell(&world).is_empty().then(|| end(&world))
    });
    let Some(at_once) = at_once else { return Ok(false) };
    let by_change = told(async {
        let (world, operator) = formed(from).await;
        change(&world, to, "it gets another value");
        operator.run_all(SETTLES).await;
        end(&world)
    });
    let (at_once, by_change) = (format!("{at_once:#}"), format!("{by_change:#}"));
    let only = |one: &str, other: &str| one.lines().filter(|line| !other.contains(line)).collect::<Vec<_>>().join("\n");
    let differ =
        || format!("created with it:\n{}\nchanged to it:\n{}", only(&at_once, &by_change), only(&by_change, &at_once));
    if at_once == by_change { Ok(true) } else { Err(differ()) }
}

/// The objects of a group and what its status says, without times and the way there: how many members are in each role, and not which.
fn end(world: &World) -> Value {
    let state = world.lock();
    let sets = state.sets.values().map(|set| json!({"spec": set.spec}));
    // A ConfigMap of the cluster state outlives its name in the spec, and says whether the group was ever formed: both are a matter of the way.
    let plain = state
        .plain
        .iter()
        .filter(|((kind, _), _)| *kind != Kind::ConfigMap)
        .map(|((kind, name), object)| json!({"kind": kind.word(), "name": name, "data": object.data}));
    let groups = state.groups.values().filter_map(|group| {
        let status = group.status.as_ref()?;
        // Pods that were made before a change say so until they are deleted.
        let lasting = status.conditions.iter().filter(|c| c.type_ != "UpdatePending");
        let conditions = lasting.map(|c| format!("{} {} {}", c.type_, c.status, c.reason));
        let members = status.members.iter().map(|m| format!("{} {} {}", m.phase, m.role, m.ready));
        let members: BTreeMap<String, usize> = members.fold(BTreeMap::new(), |mut all, member| {
            *all.entry(member).or_default() += 1;
            all
        });
        let awaiting = status.awaiting.iter().map(|wait| wait.reason.clone());
        Some(json!({
            "conditions": conditions.collect::<Vec<_>>(), "members": members, "awaiting": awaiting.collect::<Vec<_>>(),
            "primaries": status.primaries.len(), "replicas": status.replicas, "ready": status.ready_replicas,
        }))
    });
    json!({"sets": sets.collect::<Vec<_>>(), "plain": plain.collect::<Vec<_>>(), "groups": groups.collect::<Vec<_>>(), "broken": state.broken})
}
