//! Every limit of the runner, with its reason. How much of a command's output is kept the operator knows too: [`tanist_protocol::frame`].
use std::time::Duration;

/// How long output is read after the command itself has ended: a daemon that keeps the pipe open must not delay the answer.
pub const AFTER_EXIT: Duration = Duration::from_millis(200);
/// The time between TERM and KILL at the deadline.
pub const TERM_TO_KILL: Duration = Duration::from_secs(2);
/// How long a killed process may take to be reaped before the answer goes out without it (it may hang in the kernel).
pub const AFTER_KILL: Duration = Duration::from_secs(1);
/// The pause between two checks whether a process group has ended.
pub const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Results that can be asked for again; of older tokens only a hash is stored (see `tokens`).
pub const TOKENS_KEPT: usize = 256;
/// Older tokens of which a hash of eight bytes is stored: 32 MiB at most, enough for one token every ten seconds for more than a year.
pub const RETIRED_KEPT: u64 = 4 * 1024 * 1024;
/// Bytes of a request. Most of it is an argv, of which Linux itself accepts about 2 MiB.
pub const REQUEST_BYTES: usize = 4 * 1024 * 1024;
/// How long a client may take to send its request.
pub const REQUEST_TIME: Duration = Duration::from_secs(5);
/// Clients served at once. Each one that waits for a token holds a thread until its peer is gone.
pub const CLIENTS: usize = 128;
/// The pause between two checks whether a waiting client is gone.
pub const CLIENT_CHECK: Duration = Duration::from_secs(1);

/// How long a client tries to reach a PID 1 that is just starting.
pub const CONNECT_TIME: Duration = Duration::from_secs(2);
/// How long a client waits after the deadline of its command before it answers `unknown:no-answer`.
pub const ANSWER_SLACK: Duration = Duration::from_secs(60);

/// How long a client waits for the status after a command.
pub const STATUS_AFTER: Duration = Duration::from_secs(2);

/// Failed polls in a row after which the current status is unknown.
pub const POLLS_FAILED: u32 = 3;

/// The polling interval is divided by this for the pause between two polls while orphaned processes end.
pub const STIRRED: u32 = 4;

/// Bytes within which the first line of the answer to an HTTP probe has to end.
pub const PROBE_BYTES: usize = 4096;

/// Concurrent HTTP connections: the kubelet needs one, users a few.
pub const HTTP_CONNECTIONS: usize = 16;
/// Bytes of an HTTP request that are read.
pub const HTTP_BYTES: usize = 4096;
/// Time for one HTTP exchange, below the kubelet's shortest probe timeout so that idle connections cannot starve it for long.
pub const HTTP_TIME: Duration = Duration::from_millis(900);

/// The longest duration of an option: a year, so that adding it to a time cannot overflow.
pub const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
