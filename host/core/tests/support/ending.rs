//! How a story ends: deciding again right afterwards does nothing (host/README.md, invariant 8). A story that ends while its group waits says for what, and why.
use super::world::World;
use tanist_core::decide::decide;
use tanist_core::plan::{Plan, Wait};
use tanist_core::policy::Policies;

/// What the author of a story says about its end.
#[derive(Default)]
pub enum Ending {
    /// Nothing: then the group waits for nothing either.
    #[default]
    Calm,
    /// `> ends waiting for MayBePrimary FollowPending: WHY`.
    Waiting(Vec<String>),
}

impl Ending {
    pub fn read(words: &str) -> Self {
        let (reasons, why) =
            words.strip_prefix("waiting for ").and_then(|rest| rest.split_once(": ")).unwrap_or_default();
        assert!(!reasons.is_empty() && !why.is_empty(), "`> ends waiting for REASON...: WHY`, and not {words:?}");
        Ending::Waiting(reasons.split(' ').map(str::to_owned).collect())
    }

    pub const fn is_open(&self) -> bool {
        matches!(self, Ending::Calm)
    }

    /// Decides again. `last`: the plan of the last round. What the transcript says of it.
    pub fn reached(&self, world: &mut World, policies: &dyn Policies, last: &Plan) -> String {
        let snapshot = world.observe();
        let again = decide(&snapshot, policies);
        assert!(again.actions.is_empty(), "at the end it was planned again: {:#?}", again.actions);
        assert_eq!(again.record, world.record, "at the end it was remembered again");
        assert_eq!(
            waits(&again.waits),
            waits(&last.waits),
            "at the end it waits for something else than in the last round"
        );
        let reasons: Vec<_> = again.waits.iter().map(|wait| wait.reason.as_str()).collect();
        match self {
            Ending::Calm if reasons.is_empty() => {
                assert!(world.record.intents.is_empty(), "at the end nothing is awaited, and a command is open");
                "decide again: nothing".to_owned()
            }
            Ending::Calm => panic!(
                "the story ends waiting; say so: `> ends waiting for {}: WHY`\n{:#?}",
                reasons.join(" "),
                again.waits
            ),
            Ending::Waiting(said) => {
                assert_eq!(*said, reasons, "for what it waits at the end");
                "decide again: nothing, and the same waits".to_owned()
            }
        }
    }
}

/// With the time: it is the same one.
fn waits(all: &[Wait]) -> Vec<(&'static str, &str, Option<i64>)> {
    all.iter().map(|wait| (wait.reason.as_str(), wait.message.as_str(), wait.until)).collect()
}
