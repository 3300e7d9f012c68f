//! Every number of the core in one place, each with its reason.

/// Seconds that a kubelet is given to hear that the API server no longer knows a pod, before the pod's grace begins: three times the period in which it compares (docs/rules.md, "Over").
pub const KUBELET_SECONDS: i64 = 30;

/// Seconds after which a node that is shown as Ready has reported in between (docs/rules.md, "Over"). Kubernetes shows one as Ready for up to 55 s although it does not report: 50 s since
/// 1.32, and it looks every 5 s.
pub const READY_LAG_SECONDS: i64 = 60;

/// Seconds within which `status` has to show the intended role after a command exited 0. A daemon needs a moment until it answers; after this
/// time the command counts as failed (docs/safety.md, S4).
pub const CONFIRM_SECONDS: i64 = 15;

/// The longest pause between two calls of `status` on a member that is starting, in seconds; the first pause is one second. A long
/// synchronisation needs no call every second.
pub const CONFIRM_PAUSE_SECONDS: i64 = 10;

/// The first back-off after a failed command, in seconds; it doubles with each failure.
pub const BACKOFF_FIRST_SECONDS: i64 = 10;

/// The longest back-off, in seconds.
pub const BACKOFF_LONGEST_SECONDS: i64 = 300;

/// Seconds from the decision of a command that its runner refused to start until the question is asked again. A runner that stays busy is
/// asked some 20 times a minute instead of in every round.
pub const AGAIN_SECONDS: i64 = 3;

/// Treatments of one member without a back-off: one stop and one deletion follow each other at once (A25, A26).
pub const FREE_TREATMENTS: u32 = 2;

/// Unknown answers of `status` in a row before they count as evidence of failure (docs/requirements.md, reading 17).
pub const UNKNOWN_STREAK: u32 = 3;

/// Transitions in the record's history, which policies see.
pub const HISTORY: usize = 64;

/// Members whose last removal stays in the history, however much happens after it, and likewise their last stop (B29).
pub const LAST_ENDS: usize = 8;

/// Bytes of a reason that users see; longer texts are cut.
pub const REASON_BYTES: usize = 256;

/// Primaries that a claim records with pod and node, some 300 bytes each. That is enough for all primaries of a usual group; the entry of the
/// claim's own member always fits. Of further primaries only the name is recorded.
pub const MARKED_PRIMARIES: usize = 8;

/// Members in one question (wit/policy.wit).
pub const MEMBERS: usize = 1000;

/// Labels of a member or a group in one question (wit/policy.wit).
pub const LABELS: usize = 32;

/// Conditions of a member in one question (wit/policy.wit).
pub const CONDITIONS: usize = 32;

/// Bytes of one line of `sequence` output: a history of 255 bytes, a colon, 20 digits and white space.
pub const SEQUENCE_BYTES: usize = 320;

/// Bytes of a history. Policies are given it as a text, of which none is longer than 256 bytes (wit/policy.wit).
pub const HISTORY_BYTES: usize = 255;

/// Bytes of what `memberList` prints: some 60 members with long addresses.
pub const LIST_BYTES: usize = 16 * 1024;

/// Bytes of all values of `spec.clusterState` together, some 500 members with their addresses. They are a part of each command line: Linux takes 128 KiB in one word.
pub const STATE_BYTES: usize = 32 * 1024;

/// Members in a list, and so the most that a group may have whose members agree. Applications that agree on every write have few.
pub const LIST_MEMBERS: usize = 64;

/// Bytes of one word of a list.
pub const LIST_WORD_BYTES: usize = 256;

/// Seconds for which a member that was started waits for others that agree before its pod is replaced because of an older template.
pub const OTHERS_SECONDS: i64 = 60;

/// Seconds for which a leader that gave up the lead is not started again while the others have not elected another one.
pub const ELECTION_SECONDS: i64 = 30;

/// Seconds between two looks at members that elect who leads: nothing but their `status` shows that they elected another one.
pub const ELECTED_SECONDS: u32 = 5;

/// Seconds after which a list is asked for again while nothing changes: the members of an application that is left alone stay the same.
pub const LIST_SECONDS: i64 = 30;

/// Seconds after which it is asked for again while members are being changed, lists differ, or one could not be read.
pub const LIST_AGAIN_SECONDS: i64 = 2;

/// Seconds after which `check` is run again on a member that is watched with a changed template, and `prepared` on one that said no.
pub const CHECK_SECONDS: i64 = 10;

/// The age in seconds up to which the answer of `prepared` counts, beyond the time in which all members can be asked: as long as a round with its second look takes.
pub const PREPARED_SECONDS: i64 = 30;

/// How many members are asked at a time whether they are prepared: half of what a group may execute of such commands by default, so that `status` goes on.
pub const PREPARED_AT_A_TIME: usize = 8;

/// Seconds for which a member of which nothing is known may be starting before that is reported: longer than a start takes that needs nobody.
pub const ALONE_SECONDS: i64 = 60;

/// Seconds after which a volume that is to be larger is looked at again: nothing tells when the storage is done.
pub const VOLUME_AGAIN_SECONDS: i64 = 10;

/// The age in seconds up to which a list counts when a change of the members is decided: as long as it takes to ask all members and a slow one.
pub const LIST_CHANGE_SECONDS: i64 = 5;

/// The same just before the change starts: other commands of the same round may have taken a while.
pub const LIST_FRESH_SECONDS: i64 = 15;

/// Of how many members by identity that are gone, with their claims, the record knows anything: the latest ones, for a look at what became of them.
pub const GONE_MEMBERS: usize = 64;

/// How often the removal of a member's data is tried before the member leaves with it: otherwise one that cannot be done, for instance on a damaged volume, would hold up the group.
pub const WIPE_TRIES: u32 = 5;

/// Seconds that may pass from the decision for a command to its start: two looks (20 s each) and the write of the record (20 s) at a slow API server. For so long at least its outcome may be unknown after its deadline, whatever `spec.unknownGraceSeconds` says,
/// because its own deadline counts from its start.
pub const BEGIN_SECONDS: i64 = 60;

/// Seconds after which a position is read again when a question needs it: the data of a serving member changes, and a stopped member may have run
/// in between unnoticed.
pub const POSITION_SECONDS: i64 = 30;

/// Seconds after which a sequence that could not be read is asked for again.
pub const UNKNOWN_POSITION_SECONDS: i64 = 10;

/// Seconds after a change of the primary before a policy may move the lead without a cause of the host's own. Each switchover is an interruption for
/// clients, so two policies of different opinion, or one that follows a value that goes up and down, cost one each 5 minutes at most: as long as
/// the longest back-off.
pub const LEAD_SECONDS: i64 = 300;

/// The first pause after a switchover off a member that leaves or whose node is to be drained, and that leads again, in seconds; it doubles with each
/// try. Each try is an interruption for clients, and most obstacles, a secondary that lags or a command that did not run, are over within a minute.
pub const SWITCHOVER_PAUSE_FIRST_SECONDS: i64 = 60;
/// The longest pause between two such tries, in seconds.
pub const SWITCHOVER_PAUSE_LONGEST_SECONDS: i64 = 3600;
/// Seconds for which every pod of a group has been Ready before a policy may have a secondary stopped and started again. A member that was moved has
/// copied what it missed by then, or is seen not to, before the next one goes; so one policy costs a group one such restart each 5 minutes at most,
/// as long as the longest back-off.
pub const REBALANCE_REST_SECONDS: i64 = 300;

/// The same for the pod of the very member that is moved. A policy that always wants the same member elsewhere, although Kubernetes puts it back to
/// where it was, costs it one orderly restart an hour.
pub const MOVE_SECONDS: i64 = 3600;

/// Seconds for which a policy may answer nothing but "wait" before the group is reported as stalled (docs/safety.md, S36): as long as the longest
/// back-off.
pub const PATIENCE_SECONDS: i64 = 300;

/// Seconds for which a pod has to be missing before the `StatefulSet`'s controller is told to try again. Normally it creates a pod within two
/// seconds.
pub const MISSING_SECONDS: i64 = 10;

/// Seconds after which a pod that Kubernetes refused is looked for again, where the operator makes the pods. The pause between two attempts grows beyond that.
pub const CREATE_AGAIN_SECONDS: i64 = 5;

/// Seconds after which a pod that has ended is replaced, where the operator makes the pods: a node may refuse it again and again.
pub const ENDED_SECONDS: i64 = 5;

/// Seconds between two such notes, and so the longest time from the end of an obstacle to the creation of the pod. Without a note that controller
/// tries again after up to 1,000 seconds.
pub const NUDGE_SECONDS: i64 = 20;
