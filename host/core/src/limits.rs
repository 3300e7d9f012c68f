//! Every number of the core in one place, each with its reason.

/// Seconds a node has to stay Ready after a pod vanished before the pod's processes count as over (docs/rules.md, "Over"): three times the
/// kubelet's housekeeping period, within which it kills what the API no longer knows.
pub const NODE_PROOF_SECONDS: i64 = 30;

/// Seconds within which `status` has to agree after a start command exited 0. A daemon needs a moment until it answers; longer than this
/// and the command has not done what it said (docs/safety.md, S4).
pub const CONFIRM_SECONDS: i64 = 15;

/// The longest pause between two looks at a member that is on its way, in seconds; the first is one second. A long synchronisation is not
/// asked about every second, and its end is seen soon enough.
pub const CONFIRM_PAUSE_SECONDS: i64 = 10;

/// The first back-off after a failed command, in seconds; it doubles with each failure.
pub const BACKOFF_FIRST_SECONDS: i64 = 10;

/// The longest back-off, in seconds.
pub const BACKOFF_LONGEST_SECONDS: i64 = 300;

/// Seconds from the decision of a command that its runner did not even try until the question is asked anew: a runner that stays busy is
/// asked a few times a minute, not as fast as rounds follow each other.
pub const AGAIN_SECONDS: i64 = 3;

/// Treatments of one member before they are slowed down: one stop and one deletion are given at once (rows A25, A26).
pub const FREE_TREATMENTS: u32 = 2;

/// Unknown answers of `status` in a row before they count as evidence of failure (docs/requirements.md, reading 17).
pub const UNKNOWN_STREAK: u32 = 3;

/// Transitions kept in the record: what a policy may look back on.
pub const HISTORY: usize = 64;

/// Bytes of a reason shown to people; longer texts are cut.
pub const REASON_BYTES: usize = 256;

/// Primaries that a claim names with the pod and the node they run on, some 300 bytes each: all of every group of usual size, and its member's own
/// always. Of those beyond only the name is remembered.
pub const MARKED_PRIMARIES: usize = 8;

/// Members that one question may carry (contract).
pub const MEMBERS: usize = 1000;

/// Bytes of one line of `sequence` output: a history of 255 bytes, a colon, 20 digits and white space.
pub const SEQUENCE_BYTES: usize = 320;

/// Seconds after which a position is read again when a question needs it: data moves on while a member serves, and a stopped one may have run in
/// between without anybody seeing it.
pub const POSITION_SECONDS: i64 = 30;

/// Seconds after which a sequence that could not be read is asked for again.
pub const UNKNOWN_POSITION_SECONDS: i64 = 10;

/// Seconds for which a policy may say "not now" and nothing else before people are told that the group is stuck (docs/safety.md, S36): as long as the
/// longest back-off, after which a failed member would be tried again too.
pub const PATIENCE_SECONDS: i64 = 300;

/// Seconds for which a pod is missing before the `StatefulSet`'s controller is told to try again: it makes a pod within a second or two when
/// nothing hinders it.
pub const MISSING_SECONDS: i64 = 10;

/// Seconds between two such notes: what hindered a pod is over for so long, at most, before the pod is made. Left alone, that controller tries
/// again after up to 1,000 seconds.
pub const NUDGE_SECONDS: i64 = 20;
