//! The questions of the operator, as the argv of the runner's client in a container.
use crate::options as o;
use crate::place;

/// The expected state of the application after a command has succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It runs as primary or secondary.
    Running,
    /// It is stopped.
    Stopped,
}

impl Expect {
    /// The word on the command line and in answers.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Expect::Running => "running",
            Expect::Stopped => "stopped",
        }
    }

    /// Reads the word. `None`: it is another one.
    #[must_use]
    pub fn parse(word: &[u8]) -> Option<Expect> {
        [Expect::Running, Expect::Stopped].into_iter().find(|expect| expect.word().as_bytes() == word)
    }
}

/// The condition that the data has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IfSequence<'a> {
    /// The position that the `sequence` command has to print.
    pub expected: &'a str,
    /// How long the `sequence` command may run, in seconds.
    pub deadline: u32,
    /// The argv of the `sequence` command; not empty.
    pub argv: &'a [String],
}

/// A command to run once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exec<'a> {
    /// Its name; a token is never used again.
    pub token: &'a str,
    /// How long it may run, in seconds from the moment in which process 1 accepts it.
    pub deadline: u32,
    /// The expected state after its success. Absent: it does not change.
    pub expect: Option<Expect>,
    /// Whether no status poll may run beside it.
    pub quiet: bool,
    /// It starts only if a new status poll exits with this code. Absent: no condition.
    pub if_status: Option<u8>,
    /// It starts only if the data has not changed. Absent: no condition. Only runners with [`crate::feature::Feature::IfSequence`] understand it;
    /// others end without an answer.
    pub if_sequence: Option<IfSequence<'a>>,
    /// Environment variables of the command, `KEY=VALUE`, beside those of its container. Only runners with [`crate::feature::Feature::Env`] understand them; others end without
    /// an answer.
    pub env: &'a [String],
    /// The program and its arguments; not empty.
    pub argv: &'a [String],
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<'a> {
    /// Run a command once.
    Exec(Exec<'a>),
    /// Report what is known of this token, and make it void if it was never started.
    Settle(&'a str),
    /// Run a new status poll.
    Status,
}

/// One question to the runner of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The name of the container.
    pub container: &'a str,
    /// The UID of the pod that is meant; the runner of another one refuses.
    pub uid: &'a str,
    /// What is asked.
    pub ask: Ask<'a>,
}

impl Call<'_> {
    /// The whole argv, with the path of the runner.
    #[must_use]
    pub fn to_args(&self) -> Vec<String> {
        let verb = match self.ask {
            Ask::Exec(_) => o::EXEC,
            Ask::Settle(_) => o::SETTLE,
            Ask::Status => o::STATUS,
        };
        let state = place::state(self.container);
        let mut args = [place::PROGRAM, verb, o::STATE, &state, o::UID, self.uid].map(str::to_owned).to_vec();
        match &self.ask {
            Ask::Exec(exec) => exec.add_to(&mut args),
            Ask::Settle(token) => args.extend([o::TOKEN, token].map(str::to_owned)),
            Ask::Status => {}
        }
        args
    }
}

impl Exec<'_> {
    fn add_to(&self, args: &mut Vec<String>) {
        let mut add = |option: &str, value: &str| args.extend([option, value].map(str::to_owned));
        add(o::TOKEN, self.token);
        add(o::DEADLINE, &self.deadline.to_string());
        if let Some(expect) = self.expect {
            add(o::EXPECT, expect.word());
        }
        if let Some(code) = self.if_status {
            add(o::IF_STATUS, &code.to_string());
        }
        if let Some(look) = &self.if_sequence {
            add(o::IF_SEQUENCE, look.expected);
            add(o::SEQUENCE_DEADLINE, &look.deadline.to_string());
            add(o::SEQUENCE_ARGS, &look.argv.len().to_string());
        }
        for variable in self.env {
            add(o::ENV, variable);
        }
        if self.quiet {
            args.push(o::QUIET_STATUS.to_owned());
        }
        args.push(o::ARGV.to_owned());
        args.extend(self.if_sequence.iter().flat_map(|look| look.argv).chain(self.argv).cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(ask: Ask<'_>) -> String {
        Call { container: "db", uid: "u", ask }.to_args().join(" ")
    }

    // The runners of the released version understand these command lines.
    #[test]
    fn each_question_has_the_command_line_of_the_released_version() {
        assert_eq!(args(Ask::Status), "/tanist/tanist-run status --state /tanist/db --uid u");
        assert_eq!(args(Ask::Settle("t")), "/tanist/tanist-run settle --state /tanist/db --uid u --token t");
        let sequence = ["/db/sequence".to_owned(), "--".to_owned()];
        let argv = ["/db/start".to_owned(), "primary".to_owned()];
        let exec = Exec {
            token: "t",
            deadline: 60,
            expect: None,
            quiet: true,
            if_status: None,
            if_sequence: None,
            env: &[],
            argv: &sequence,
        };
        let head = "/tanist/tanist-run exec --state /tanist/db --uid u --token t --deadline";
        assert_eq!(args(Ask::Exec(exec)), format!("{head} 60 --quiet-status -- /db/sequence --"));
        let look = IfSequence { expected: "h:7", deadline: 10, argv: &sequence };
        let (expect, if_sequence) = (Some(Expect::Running), Some(look));
        let start = Exec { expect, quiet: false, if_status: Some(7), if_sequence, argv: &argv, ..exec };
        assert_eq!(
            args(Ask::Exec(start)),
            format!(
                "{head} 60 --expect running --if-status 7 --if-sequence h:7 --sequence-deadline 10 --sequence-args 2 \
                 -- /db/sequence -- /db/start primary"
            )
        );
    }

    // D6: each variable is a word of its own, and no shell reads it.
    #[test]
    fn variables_are_options_before_the_command() {
        let (argv, env) = (["/db/start".to_owned()], ["A=x y".to_owned(), "B=--".to_owned()]);
        let exec = Exec {
            token: "t",
            deadline: 60,
            expect: None,
            quiet: false,
            if_status: None,
            if_sequence: None,
            env: &env,
            argv: &argv,
        };
        let args = Call { container: "db", uid: "u", ask: Ask::Exec(exec) }.to_args();
        assert_eq!(
            args.get(10..),
            Some(&["--env", "A=x y", "--env", "B=--", "--", "/db/start"].map(str::to_owned)[..])
        );
    }

    #[test]
    fn an_expectation_is_one_of_two_words() {
        for expect in [Expect::Running, Expect::Stopped] {
            assert_eq!(Expect::parse(expect.word().as_bytes()), Some(expect));
        }
        assert_eq!([&b"-"[..], b"", b"Running"].map(Expect::parse), [None; 3]);
    }
}
