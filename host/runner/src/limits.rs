//! Every bound of the runner, and why this number.
use std::time::Duration;

/// Kept of a command's stdout; the rest is drained. Answers are one line, so this is room for a person's diagnosis.
pub const STDOUT_KEPT: usize = 64 * 1024;
/// Kept of a command's stderr.
pub const STDERR_KEPT: usize = 16 * 1024;
/// How long output is still awaited once the command itself has ended: a daemon that keeps the pipe must not hold up the answer.
pub const AFTER_EXIT: Duration = Duration::from_millis(200);
/// Between TERM and KILL at the deadline.
pub const TERM_TO_KILL: Duration = Duration::from_secs(2);
/// How long a killed process may take to be reaped before the answer goes out without it (it may hang in the kernel).
pub const AFTER_KILL: Duration = Duration::from_secs(1);
/// How often a dying process group is looked at.
pub const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Results kept for asking again; older ones leave only their name behind (see `tokens`).
pub const TOKENS_KEPT: usize = 256;
/// Older tokens whose use is remembered, in eight bytes each: 32 MiB at most, and one token every ten seconds for more than a year.
pub const RETIRED_KEPT: u64 = 4 * 1024 * 1024;
/// The longest token.
pub const TOKEN_BYTES: usize = 128;
/// A request is an argv: Linux itself refuses more than about 2 MiB of it.
pub const REQUEST_BYTES: usize = 4 * 1024 * 1024;
/// How long a client may take to say what it wants.
pub const REQUEST_TIME: Duration = Duration::from_secs(5);
/// Clients served at once. Those that wait for one token hold a thread each until their peer is gone.
pub const CLIENTS: usize = 128;
/// How often a waiting client is checked for having gone.
pub const CLIENT_CHECK: Duration = Duration::from_secs(1);

/// How long a client tries to reach a PID 1 that is just starting.
pub const CONNECT_TIME: Duration = Duration::from_secs(2);
/// What a client waits beyond the deadline of its command before it says `unknown:no-answer`.
pub const ANSWER_SLACK: Duration = Duration::from_secs(60);

/// What a client waits for the status after a command.
pub const STATUS_AFTER: Duration = Duration::from_secs(2);

/// Failed polls in a row after which the standing status is unknown.
pub const POLLS_FAILED: u32 = 3;

/// Part of the polling interval that lies between two polls when processes end that nobody waits for.
pub const STIRRED: u32 = 4;

/// Bytes in which the first line of an answer to an HTTP probe has to come.
pub const PROBE_BYTES: usize = 4096;

/// Concurrent HTTP connections: the kubelet needs one, people a few.
pub const HTTP_CONNECTIONS: usize = 16;
/// Bytes of an HTTP request that are read.
pub const HTTP_BYTES: usize = 4096;
/// Time for one HTTP exchange, below the kubelet's shortest probe timeout so that idle connections cannot starve it for long.
pub const HTTP_TIME: Duration = Duration::from_millis(900);

/// The longest duration an option may give: a year, so that adding it to a clock can never overflow.
pub const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
