//! The names of the runner's commands and options, and how options stand in an environment variable.
//!
//! An option that a runner does not know makes it refuse the whole command line. So what is new is either announced first
//! ([`crate::feature::Feature`]) or passed in [`crate::place::OPTIONS`].

/// Copies the runner to a path.
pub const INSTALL: &str = "install";
/// Runs as process 1.
pub const SERVE: &str = "serve";
/// Runs a command once.
pub const EXEC: &str = "exec";
/// Asks how a command ended; one that was never started is void from then on.
pub const SETTLE: &str = "settle";
/// Runs `status` anew.
pub const STATUS: &str = "status";

/// The folder of socket and tokens: [`crate::place::state`].
pub const STATE: &str = "--state";
/// The UID of the pod that is meant.
pub const UID: &str = "--uid";
/// The name of the execution: 1 to 128 of `A-Z a-z 0-9 . _ -`.
pub const TOKEN: &str = "--token";
/// How long the command may run, in seconds.
pub const DEADLINE: &str = "--deadline";
/// The state of the application after a success: [`crate::call::Expect`].
pub const EXPECT: &str = "--expect";
/// No status poll runs beside the command. It has no value.
pub const QUIET_STATUS: &str = "--quiet-status";
/// The exit codes of `status`, separated by commas, with one of which the command starts.
pub const IF_STATUS: &str = "--if-status";
/// What `sequence` has to print so that the command starts. Only runners with [`crate::feature::Feature::IfSequence`] know it and the next two.
pub const IF_SEQUENCE: &str = "--if-sequence";
/// How long `sequence` may run, in seconds.
pub const SEQUENCE_DEADLINE: &str = "--sequence-deadline";
/// The number of words of the `sequence` command, which stand before those of the command.
pub const SEQUENCE_ARGS: &str = "--sequence-args";
/// An environment variable of the command, as `KEY=VALUE`; once for each. Only runners with [`crate::feature::Feature::Env`] know it.
pub const ENV: &str = "--env";
/// After it come only the words of commands.
pub const ARGV: &str = "--";

/// The address of the readiness port.
pub const LISTEN: &str = "--listen";
/// The pause between two status polls, in seconds.
pub const STATUS_INTERVAL: &str = "--status-interval";
/// How long a status poll may run, in seconds.
pub const STATUS_TIMEOUT: &str = "--status-timeout";
/// A word of the `status` command; once for each.
pub const STATUS_ARG: &str = "--status-arg";
/// How long `stop` may run, in seconds.
pub const STOP_TIMEOUT: &str = "--stop-timeout";
/// A word of the `stop` command; once for each.
pub const STOP_ARG: &str = "--stop-arg";
/// The time from SIGTERM to the end of the runner, in seconds.
pub const GRACE: &str = "--grace";

/// A word of the command that probes; once for each.
pub const PROBE_EXEC_ARG: &str = "--probe-exec-arg";
/// The port that a connection probes.
pub const PROBE_TCP_PORT: &str = "--probe-tcp-port";
/// The port that a GET request probes.
pub const PROBE_HTTP_PORT: &str = "--probe-http-port";
/// The path of that request, from the slash.
pub const PROBE_HTTP_PATH: &str = "--probe-http-path";
/// A header of that request, as `Name: value`; once for each.
pub const PROBE_HTTP_HEADER: &str = "--probe-http-header";
/// The time from the start of the runner to the first check, in seconds.
pub const PROBE_DELAY: &str = "--probe-delay";
/// The time from the beginning of a check to that of the next one, in seconds.
pub const PROBE_PERIOD: &str = "--probe-period";
/// How long a check may take, in seconds.
pub const PROBE_TIMEOUT: &str = "--probe-timeout";
/// Successes in a row after which the probe is good.
pub const PROBE_SUCCESS: &str = "--probe-success";
/// Failures in a row after which the probe is failing.
pub const PROBE_FAILURE: &str = "--probe-failure";

/// Words as the value of [`crate::place::OPTIONS`]: one on each line; in a word `\n` stands for the end of a line and `\\` for a backslash.
///
/// Limits: [`words`] does not read back a carriage return at the end of a word, nor an empty word at the end of all.
#[must_use]
pub fn lines<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let escaped = words.into_iter().map(|word| word.replace('\\', "\\\\").replace('\n', "\\n"));
    escaped.collect::<Vec<_>>().join("\n")
}

/// The words in a value of [`crate::place::OPTIONS`].
pub fn words(lines: &str) -> impl Iterator<Item = String> {
    lines.lines().map(|line| {
        let mut word = String::new();
        let mut characters = line.chars();
        while let Some(character) = characters.next() {
            word.push(match character {
                '\\' => match characters.next() {
                    Some('n') => '\n',
                    Some(other) => other,
                    None => '\\',
                },
                other => other,
            });
        }
        word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_a_line() {
        let all = ["--probe-exec-arg", "echo 'a\nb' \\n", "", "--probe-delay", "0"];
        let text = "--probe-exec-arg\necho 'a\\nb' \\\\n\n\n--probe-delay\n0";
        assert_eq!(lines(all), text);
        assert_eq!(words(text).collect::<Vec<_>>(), all);
    }

    // Runners that were released before read the variable in this way too.
    #[test]
    fn what_no_operator_writes_is_read_all_the_same() {
        for (line, word) in [("\\", "\\"), ("\\x", "x"), ("a\r\n", "a")] {
            assert_eq!(words(line).collect::<Vec<_>>(), [word], "{line:?}");
        }
        assert_eq!(words("").count(), 0);
    }
}
