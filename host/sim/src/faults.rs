//! What goes wrong: with requests, with executions, with what runs. Each run draws which kinds happen at all, and each kind has dice of its own: one that is left
//! out does not change when the others happen, only what they meet.
use crate::world::State;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
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
    /// A `sequence` prints something that is no position.
    SequenceGarbled,
    /// The output of an execution is cut, and its end says that it went well.
    OutputCut,
    /// The clock of a process of the operator is not that of the API server, and runs faster or slower.
    ClockSkewed,
    /// A user changes the pod template.
    TemplateChanged,
    /// An admission webhook refuses one kind of write, until everything heals.
    WriteRefused,
    /// A user replaces a follower's volume by an old copy of it.
    VolumeRestored,
    /// A user changes the selector of a Service or of the disruption budget, or takes its labels.
    ServiceChanged,
    /// A user gives a pod the label of another group.
    LabelChanged,
    /// A user asks for another number of primaries.
    PrimariesChanged,
    /// What runs in a pod stands still for a while: the application, its runner and the command that runs.
    MemberFrozen,
    /// A node does not report any more until everything else has healed; then it comes back, or an administrator takes it out of service.
    NodeAway,
    /// A user deletes the group and creates it again under its name. The garbage collector deletes what belonged to the first one.
    GroupRecreated,
    /// A user starts a second primary by hand.
    PrimaryByHand,
    /// A user wants a member to go, or takes that back, in a group whose pods the operator makes.
    MemberRemoved,
    /// A user wants the other kind of members.
    KindChanged,
    /// A user names other zones, in a group whose pods the operator makes.
    ZonesChanged,
    /// A user gives the pods an image that does not exist, or takes that back.
    ImageWrong,
    /// A user names a later version of the application, in a group that has the command which converts its data.
    VersionRaised,
    /// A volume is damaged: the application on it dies, and every start on it fails.
    VolumeDamaged,
}

impl Fault {
    /// All kinds of faults that a life may have.
    pub const ALL: [Fault; 58] = [
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
        Fault::SequenceGarbled,
        Fault::OutputCut,
        Fault::ClockSkewed,
        Fault::TemplateChanged,
        Fault::WriteRefused,
        Fault::VolumeRestored,
        Fault::ServiceChanged,
        Fault::LabelChanged,
        Fault::PrimariesChanged,
        Fault::MemberFrozen,
        Fault::NodeAway,
        Fault::GroupRecreated,
        Fault::PrimaryByHand,
        Fault::MemberRemoved,
        Fault::KindChanged,
        Fault::ZonesChanged,
        Fault::ImageWrong,
        Fault::VersionRaised,
        Fault::VolumeDamaged,
    ];

    /// Kinds that no life draws by itself yet; `tanist simulate --faults` has them. After a user started a second primary by hand a group may ask an administrator about
    /// data that went with it, and the model does not know each of these questions (seeds 149977512, 149977906, 149978137 with it). Users who change the kind of members: each life that failed with it was understood, but the campaign with all corrections
    /// was not made yet.
    pub const NOT_YET: [Fault; 2] = [Fault::PrimaryByHand, Fault::KindChanged];
}

/// Which faults happen, and how often each did.
#[derive(Debug, Default)]
pub struct Faults {
    /// The kinds of this run; none after everything has healed.
    pub kinds: BTreeSet<Fault>,
    /// Single happenings that are left out, by kind and number from 1.
    pub spared: BTreeSet<(Fault, u64)>,
    /// How often each happened.
    pub happened: BTreeMap<Fault, u64>,
    /// Since when and until when the API server answers nobody, in seconds since 1970; the latest such time.
    pub away: Option<(i64, i64)>,
    seed: u64,
    dice: BTreeMap<Fault, Dice>,
}

/// The dice of one kind of fault.
#[derive(Debug)]
struct Dice {
    /// Whether it happens.
    whether: SmallRng,
    /// How: anew for each happening, so that one that is left out changes nothing in the next one.
    how: SmallRng,
    /// How often it came up, with the happenings that were left out.
    met: u64,
}

/// Dice of that seed and kind. `number`: of the happening; 0 for whether there is one.
fn dice(seed: u64, kind: Fault, number: u64) -> SmallRng {
    let kind = (kind as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    SmallRng::seed_from_u64(seed ^ kind ^ number.wrapping_mul(0xD1B5_4A32_D192_ED03))
}

impl Faults {
    /// None yet. `seed`: of all their dice.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Faults { seed, ..Faults::default() }
    }

    /// The number of the happening that begins now, if one does and is not left out.
    fn meet(&mut self, kind: Fault, one_in: u64) -> Option<u64> {
        if !self.kinds.contains(&kind) {
            return None;
        }
        let seed = self.seed;
        let new = || Dice { whether: dice(seed, kind, 0), how: dice(seed, kind, 0), met: 0 };
        let own = self.dice.entry(kind).or_insert_with(new);
        if own.whether.random_range(0..one_in.max(1)) != 0 {
            return None;
        }
        own.met += 1;
        own.how = dice(seed, kind, own.met);
        let number = own.met;
        if self.spared.contains(&(kind, number)) {
            return None;
        }
        *self.happened.entry(kind).or_default() += 1;
        Some(number)
    }
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing goes wrong: the request arrives and is answered.
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
        let number = self.faults.meet(kind, one_in);
        if let Some(number) = number {
            self.say(format!("fault {kind:?} {number}"));
        }
        number.is_some()
    }

    /// A random number below `sides` about the present happening of that kind; 0 if `sides` is 0.
    pub fn roll(&mut self, kind: Fault, sides: u64) -> u64 {
        self.faults.dice.get_mut(&kind).map_or(0, |own| own.how.random_range(0..sides.max(1)))
    }

    /// Whether the API server answers nobody now.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.faults.away.is_some_and(|(_, until)| self.now < until)
    }

    /// What happens to a request of the operator.
    pub fn trouble(&mut self) -> Trouble {
        if self.is_away() {
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
                .get(usize::try_from(self.roll(Fault::Refused, 3)).unwrap_or(0))
                .copied()
                .unwrap_or((500, "InternalError"));
            let message = "not now".to_owned();
            return Trouble::Refused(Error::Answered { code, reason: reason.to_owned(), message });
        }
        if self.happens(Fault::RequestSlow, 30) {
            return Trouble::Late(Duration::from_millis(self.roll(Fault::RequestSlow, 8_000)));
        }
        Trouble::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;

    /// Which of a hundred times each of two kinds happens, and a detail of each happening. `spared`: a happening of the first kind.
    fn happenings(kinds: &[Fault], spared: Option<u64>) -> Vec<(usize, Fault, u64)> {
        let world = World::new(1, 7);
        let mut state = world.lock();
        state.faults.kinds = kinds.iter().copied().collect();
        state.faults.spared = spared.map(|number| (Fault::RequestLost, number)).into_iter().collect();
        let mut all = Vec::new();
        for time in 0..100 {
            for kind in [Fault::RequestLost, Fault::AppDies] {
                if state.happens(kind, 9) {
                    all.push((time, kind, state.roll(kind, 1_000_000)));
                }
            }
        }
        all
    }

    #[tokio::test]
    async fn what_is_left_out_moves_nothing_else() {
        let whole = happenings(&[Fault::RequestLost, Fault::AppDies], None);
        let of = |kind| whole.iter().copied().filter(|(_, k, _)| *k == kind).collect::<Vec<_>>();
        assert!(of(Fault::RequestLost).len() > 3 && of(Fault::AppDies).len() > 3, "{whole:?}");
        assert_eq!(happenings(&[Fault::AppDies], None), of(Fault::AppDies));
        let mut without = whole.clone();
        without.retain(|happening| *happening != of(Fault::RequestLost)[1]);
        assert_eq!(happenings(&[Fault::RequestLost, Fault::AppDies], Some(2)), without);
    }
}
