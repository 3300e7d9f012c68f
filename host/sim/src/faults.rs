//! What goes wrong: with requests, with executions, with what runs. Each run draws which kinds happen at all.
use crate::app::App;
use crate::controllers;
use crate::world::{State, World};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tanist_cluster::cluster::Error;
use tanist_core::contract::Role;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A request does not arrive.
    RequestLost,
    /// A write takes effect, and its answer is lost.
    AnswerLost,
    /// The API server answers 500, 429 or 503, and does nothing.
    Refused,
    /// A request, or its answer, takes seconds.
    RequestSlow,
    /// The stream of an execution breaks before anything starts.
    ExecLost,
    /// It breaks after the command has started, which goes on.
    StreamLost,
    /// The API server refuses an execution.
    ExecRefused,
    /// An execution arrives seconds later.
    ExecLate,
    /// A command of the application fails.
    CommandFails,
    /// The application dies in its container.
    AppDies,
    /// A container starts anew.
    ContainerRestarts,
    /// A user deletes a pod.
    PodDeleted,
    /// A node does not report any more; what runs on it goes on.
    NodeSilent,
    /// The operator is killed, and another one begins.
    OperatorKilled,
    /// The operator is frozen, and goes on while another one works already.
    OperatorFrozen,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Fault; 15] = [
        Fault::RequestLost,
        Fault::AnswerLost,
        Fault::Refused,
        Fault::RequestSlow,
        Fault::ExecLost,
        Fault::StreamLost,
        Fault::ExecRefused,
        Fault::ExecLate,
        Fault::CommandFails,
        Fault::AppDies,
        Fault::ContainerRestarts,
        Fault::PodDeleted,
        Fault::NodeSilent,
        Fault::OperatorKilled,
        Fault::OperatorFrozen,
    ];
}

/// Which faults happen, and how often each did.
#[derive(Debug, Default)]
pub struct Faults {
    /// The kinds of this run; none after everything has healed.
    pub kinds: BTreeSet<Fault>,
    /// How often each happened.
    pub happened: BTreeMap<Fault, u64>,
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// It does not arrive.
    Lost,
    /// It takes effect, and its answer is lost.
    AnswerLost,
    /// It is refused.
    Refused(Error),
    /// It arrives that much later.
    Late(Duration),
}

impl State {
    /// Whether that kind of fault happens now: one time in so many.
    pub fn happens(&mut self, kind: Fault, one_in: u64) -> bool {
        let happens = self.faults.kinds.contains(&kind) && self.dice(one_in) == 0;
        if happens {
            *self.faults.happened.entry(kind).or_default() += 1;
        }
        happens
    }

    /// What happens to a request of the operator.
    pub fn trouble(&mut self) -> Trouble {
        if self.happens(Fault::RequestLost, 40) {
            return Trouble::Lost;
        }
        if self.happens(Fault::AnswerLost, 20) {
            return Trouble::AnswerLost;
        }
        if self.happens(Fault::Refused, 30) {
            let (code, reason) = [(500, "InternalError"), (429, "TooManyRequests"), (503, "ServiceUnavailable")]
                .get(usize::try_from(self.dice(3)).unwrap_or(0))
                .copied()
                .unwrap_or((500, "InternalError"));
            let message = "not now".to_owned();
            return Trouble::Refused(Error::Answered { code, reason: reason.to_owned(), message });
        }
        if self.happens(Fault::RequestSlow, 30) {
            return Trouble::Late(Duration::from_millis(self.dice(8_000)));
        }
        Trouble::None
    }
}

/// How often something may happen to what runs.
const EVERY: Duration = Duration::from_secs(4);

/// Harms what runs, for ever.
pub async fn run(world: World) {
    loop {
        tokio::time::sleep(EVERY).await;
        strike(&mut world.lock());
    }
}

fn strike(state: &mut State) {
    let pods: Vec<String> = state.pods.keys().cloned().collect();
    let Some(pod) = pods.get(usize::try_from(state.dice(pods.len() as u64)).unwrap_or(0)).cloned() else { return };
    if state.happens(Fault::AppDies, 4) {
        change(state, &pod, "its application dies", |machine| machine.app = App::default());
    }
    if state.happens(Fault::ContainerRestarts, 6) {
        restart(state, &pod);
    }
    if state.happens(Fault::PodDeleted, 6) {
        controllers::delete(state, &pod);
    }
    let nodes: Vec<String> = state.nodes.keys().cloned().collect();
    for node in nodes {
        let is_up = state.is_up(&node);
        if is_up && state.happens(Fault::NodeSilent, 24) {
            state.set_node(&node, false);
        } else if !is_up && state.dice(5) == 0 {
            state.set_node(&node, true);
        }
    }
}

fn change(state: &mut State, pod: &str, what: &str, change: impl FnOnce(&mut crate::world::Machine)) {
    let uid = state.pods.get(pod).and_then(|pod| pod.metadata.uid.clone()).unwrap_or_default();
    let Some(machine) = state.machines.get_mut(&uid).filter(|machine| machine.ending.is_none()) else { return };
    let was = machine.app.role;
    change(machine);
    if was != Role::Stopped || machine.busy.is_none() {
        state.say(format!("{pod}: {what}"));
    }
}

/// A container ends and starts anew: what ran is interrupted, and the application is stopped.
fn restart(state: &mut State, pod: &str) {
    let container = state.birth("container");
    change(state, pod, "its container starts anew", |machine| {
        (machine.app, machine.busy, machine.expects_running) = (App::default(), None, false);
        machine.container = container;
    });
}

/// Nothing goes wrong any more, and what can come back does.
pub fn heal(state: &mut State) {
    state.faults.kinds.clear();
    let nodes: Vec<String> = state.nodes.keys().cloned().collect();
    for node in nodes {
        if !state.is_up(&node) {
            state.set_node(&node, true);
        }
    }
    state.say("everything heals");
}
