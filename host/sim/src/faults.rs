//! What goes wrong: with requests, with executions, with what runs. Each run draws which kinds happen at all.
use crate::world::State;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tanist_cluster::cluster::Error;

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
    /// A user deletes a pod at once (`--force`): its object is gone, and its node ends what runs when it hears of it.
    PodForced,
    /// A user takes the group's label from a pod.
    LabelLost,
    /// A user deletes a follower's pod and its claim: its volume is lost.
    VolumeLost,
    /// A user asks for another number of members.
    Resized,
    /// A user pauses the group, or lets it go on.
    Paused,
    /// Somebody removes the group's status, and with it the record.
    StatusLost,
    /// A node is cordoned, or no longer.
    Cordoned,
    /// A watch shows a change seconds later.
    WatchLags,
    /// The operator is killed, and another one begins.
    OperatorKilled,
    /// The operator is frozen, and goes on while another one works already.
    OperatorFrozen,
    /// A `status` does not answer.
    StatusHangs,
    /// A `status` fails, and says nothing about the role.
    StatusFails,
    /// A `sequence` fails.
    SequenceFails,
    /// A command of the application goes on past its deadline, and then has its effect.
    CommandSlow,
    /// A watch never shows a change.
    WatchMisses,
    /// The API server answers nobody for a while.
    ApiDown,
    /// The policies have no answer.
    PolicyFails,
    /// A user gives the StatefulSet fewer members, behind the operator's back.
    SetScaled,
    /// A user deletes one of the group's Services or its disruption budget.
    ServiceDeleted,
    /// A user wants another member to lead, or no longer.
    Preferred,
    /// Somebody writes the group without changing its spec.
    GroupTouched,
    /// Somebody writes a pod.
    PodTouched,
    /// A user takes the annotations from a claim, and with them its memory.
    ClaimUnmarked,
    /// A user gives a pod the label of a primary.
    RoleForged,
    /// A node leaves the cluster, with its machine or without: then its kubelet goes on. Later it comes back.
    NodeGone,
    /// Another process works beside the operator, as if it had the Lease, too.
    OperatorTwice,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Fault; 39] = [
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
        Fault::PodForced,
        Fault::LabelLost,
        Fault::VolumeLost,
        Fault::Resized,
        Fault::Paused,
        Fault::StatusLost,
        Fault::Cordoned,
        Fault::WatchLags,
        Fault::OperatorKilled,
        Fault::OperatorFrozen,
        Fault::StatusHangs,
        Fault::StatusFails,
        Fault::SequenceFails,
        Fault::CommandSlow,
        Fault::WatchMisses,
        Fault::ApiDown,
        Fault::PolicyFails,
        Fault::SetScaled,
        Fault::ServiceDeleted,
        Fault::Preferred,
        Fault::GroupTouched,
        Fault::PodTouched,
        Fault::ClaimUnmarked,
        Fault::RoleForged,
        Fault::NodeGone,
        Fault::OperatorTwice,
    ];
}

/// Which faults happen, and how often each did.
#[derive(Debug, Default)]
pub struct Faults {
    /// The kinds of this run; none after everything has healed.
    pub kinds: BTreeSet<Fault>,
    /// How often each happened.
    pub happened: BTreeMap<Fault, u64>,
    /// Until when the API server answers nobody, in seconds since 1970.
    pub api_down_until: i64,
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
        if self.now < self.faults.api_down_until {
            return Trouble::Lost;
        }
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
