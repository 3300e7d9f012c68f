//! The kinds of faults by name, as users choose them.
use crate::faults::Fault;

impl Fault {
    /// The kind of that name.
    #[must_use]
    pub fn named(word: &str) -> Option<Fault> {
        Fault::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The name by which users choose the kind, for instance `node-silent`.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.words().0
    }

    /// What happens, in a few words.
    #[must_use]
    pub fn about(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Fault::RequestLost => ("request-lost", "a request to the API server does not arrive"),
            Fault::AnswerLost => ("answer-lost", "a write takes effect, and its answer is lost"),
            Fault::Refused => ("refused", "the API server answers 500, 429 or 503"),
            Fault::RequestSlow => ("request-slow", "a request takes seconds"),
            Fault::ExecLost => ("exec-lost", "the stream of an execution breaks before anything starts"),
            Fault::StreamLost => ("stream-lost", "the stream of an execution breaks, and the command goes on"),
            Fault::ExecRefused => ("exec-refused", "the API server refuses an execution"),
            Fault::ExecLate => ("exec-late", "an execution arrives up to 20 s later"),
            Fault::CommandFails => ("command-fails", "a command of the application fails"),
            Fault::AppDies => ("app-dies", "the application dies in its container"),
            Fault::ContainerRestarts => ("container-restarts", "a container starts anew"),
            Fault::PodDeleted => ("pod-deleted", "a user deletes a pod"),
            Fault::NodeSilent => ("node-silent", "a node does not report for a while; what runs on it goes on"),
            Fault::PodForced => ("pod-forced", "a user deletes a pod with --force"),
            Fault::LabelLost => ("label-lost", "a user takes the group's label from a pod"),
            Fault::VolumeLost => ("volume-lost", "a user deletes a secondary's pod and its claim"),
            Fault::Resized => ("resized", "a user asks for another number of members"),
            Fault::Paused => ("paused", "a user pauses the group, or lets it go on"),
            Fault::StatusLost => ("status-lost", "somebody removes the group's status"),
            Fault::Cordoned => ("cordoned", "a node is cordoned for a while"),
            Fault::WatchLags => ("watch-lags", "a watch shows a change seconds later"),
            Fault::OperatorKilled => ("operator-killed", "the operator is killed, and another one begins"),
            Fault::OperatorFrozen => ("operator-frozen", "the operator stands still, and goes on beside another one"),
            Fault::StatusHangs => ("status-hangs", "a `status` does not answer"),
            Fault::StatusFails => ("status-fails", "a `status` fails"),
            Fault::SequenceFails => ("sequence-fails", "a `sequence` fails"),
            Fault::CommandSlow => ("command-slow", "a command goes on past its deadline"),
            Fault::WatchMisses => ("watch-misses", "a watch never shows a change"),
            Fault::ApiDown => ("api-down", "the API server answers nobody for a while"),
            Fault::PolicyFails => ("policy-fails", "the policies have no answer"),
            Fault::SetScaled => ("set-scaled", "a user gives the StatefulSet fewer members"),
            Fault::ServiceDeleted => ("service-deleted", "a user deletes a Service or the disruption budget"),
            Fault::Preferred => ("preferred", "a user wants another member to lead, or no longer"),
            Fault::GroupTouched => ("group-touched", "somebody writes the group without changing its spec"),
            Fault::PodTouched => ("pod-touched", "somebody writes a pod"),
            Fault::ClaimUnmarked => ("claim-unmarked", "a user takes the annotations from a claim"),
            Fault::RoleForged => ("role-forged", "a user gives a pod the label of a primary"),
            Fault::NodeGone => ("node-gone", "a node leaves the cluster, and comes back later"),
            Fault::OperatorTwice => ("operator-twice", "another process works beside the operator"),
            Fault::SequenceGarbled => ("sequence-garbled", "a `sequence` prints what is no position"),
            Fault::OutputCut => ("output-cut", "the output of an execution is cut"),
            Fault::ClockSkewed => ("clock-skewed", "the clock of an operator is wrong, and runs faster or slower"),
            Fault::TemplateChanged => ("template-changed", "a user changes the pod template"),
            Fault::WriteRefused => ("write-refused", "a webhook refuses one kind of write until all heals"),
            Fault::VolumeRestored => ("volume-restored", "a user replaces a secondary's volume by an old copy"),
            Fault::ServiceChanged => ("service-changed", "a user changes a Service or the disruption budget"),
            Fault::LabelChanged => ("label-changed", "a user gives a pod the label of another group"),
            Fault::PrimariesChanged => ("primaries-changed", "a user asks for another number of primaries"),
            Fault::MemberFrozen => ("member-frozen", "what runs in a pod stands still for a while"),
            Fault::NodeAway => ("node-away", "a node does not report until all else has healed, or for ever"),
            Fault::GroupRecreated => ("group-recreated", "a user deletes the group and creates it again"),
            Fault::PrimaryByHand => ("primary-by-hand", "a user starts a second primary by hand"),
            Fault::MemberRemoved => ("member-removed", "a user wants a member to go, or takes that back"),
            Fault::KindChanged => ("kind-changed", "a user wants the other kind of members"),
            Fault::ZonesChanged => ("zones-changed", "a user names other zones for the members"),
            Fault::ImageWrong => ("image-wrong", "a user names an image that does not exist, or takes that back"),
            Fault::VolumeDamaged => ("volume-damaged", "a volume is damaged, and nothing starts on it"),
            Fault::VersionRaised => ("version-raised", "a user names a later version of the application"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The log of a life has the names of the code.
    #[test]
    fn each_kind_is_found_by_its_name_in_kebab_case() {
        for kind in Fault::ALL {
            let upper = |part: &str| {
                let (first, rest) = part.split_at(1);
                first.to_uppercase() + rest
            };
            let camel: String = kind.word().split('-').map(upper).collect();
            assert_eq!(camel, format!("{kind:?}"));
            assert_eq!(Fault::named(kind.word()), Some(kind));
            assert!(!kind.about().is_empty());
        }
        assert_eq!(Fault::named("sequence"), None);
    }
}
