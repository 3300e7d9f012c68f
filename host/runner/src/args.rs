//! Parses the command line. No parser crate is used: there are few options, and values may begin with a dash.
use crate::limits::LONGEST;
use crate::probe::{Check, Plan};
use crate::wire::{Exec, IfSequence, Request, read_codes};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;
use tanist_protocol::call::Expect;
use tanist_protocol::{number, options as o, place, token};

/// The command of the command line.
#[derive(Debug)]
pub enum Command {
    /// Copy this executable to the path.
    Install(PathBuf),
    /// Run as PID 1.
    Serve(Box<ServeArgs>),
    /// Send a request to PID 1.
    Ask(Box<AskArgs>),
}

/// Options of `serve`.
#[derive(Debug)]
pub struct ServeArgs {
    /// The directory of socket and tokens.
    pub state: PathBuf,
    /// The address of the readiness port. Absent: readiness is not served.
    pub listen: Option<SocketAddr>,
    /// The UID of the pod.
    pub uid: String,
    /// The pause between two status polls.
    pub status_interval: Duration,
    /// How long a status poll may run.
    pub status_timeout: Duration,
    /// The argv of `status`.
    pub status: Vec<OsString>,
    /// How long `stop` may run.
    pub stop_timeout: Duration,
    /// The argv of `stop`.
    pub stop: Vec<OsString>,
    /// The time from SIGTERM to the end of this process.
    pub grace: Duration,
    /// The readiness probe of the pod template. Absent: it has none.
    pub probe: Option<Plan>,
}

/// A request and where to send it.
#[derive(Debug)]
pub struct AskArgs {
    /// The directory of the socket.
    pub state: PathBuf,
    /// The request that is sent to process 1.
    pub request: Request,
}

/// The text that explains the command line.
pub const USAGE: &str = "\
usage: tanist-run install DEST
       tanist-run serve --state DIR [--listen ADDR:PORT] [--uid UID | env TANIST_POD_UID]
           [--status-interval SECS=2] [--status-timeout SECS=5] [--status-arg ARG]...
           [--stop-timeout SECS=600] [--stop-arg ARG]... [--grace SECS=600]
           [--probe-exec-arg ARG... | --probe-tcp-port PORT | --probe-http-port PORT --probe-http-path PATH [--probe-http-header LINE]...]
           [--probe-delay SECS=0] [--probe-period SECS=10] [--probe-timeout SECS=1] [--probe-success N=1] [--probe-failure N=3]
       tanist-run exec --state DIR --token T --uid U --deadline SECS
           [--expect running|stopped] [--quiet-status] [--if-status CODE[,CODE]...]
           [--if-sequence EXPECTED --sequence-deadline SECS --sequence-args N]
           [--env KEY=VALUE]... -- [N WORDS OF THE SEQUENCE COMMAND] ARGV...
       tanist-run settle --state DIR --token T --uid U
       tanist-run status --state DIR --uid U
";

type Parsed<T> = Result<T, String>;

/// Parses the command line after the program's name, and the options from the environment.
pub fn parse(
    mut items: impl Iterator<Item = OsString>,
    pod_uid: Option<String>,
    more: Option<&str>,
) -> Parsed<Command> {
    let verb = items.next().ok_or("a command is missing")?;
    match verb.to_str().unwrap_or_default() {
        o::INSTALL => match (items.next(), items.next()) {
            (Some(destination), None) => Ok(Command::Install(destination.into())),
            _ => Err("install takes one destination".into()),
        },
        o::SERVE => {
            let more = more.into_iter().flat_map(o::words).map(OsString::from);
            parse_serve(Options::new(items.chain(more)), pod_uid)
        }
        o::EXEC => parse_exec(Options::new(items)),
        o::SETTLE => {
            let mut options = Options::new(items);
            options.read(&[o::STATE, o::TOKEN, o::UID])?;
            let request = Request::Settle { token: options.token()?, uid: options.text(o::UID)? };
            Ok(Command::Ask(Box::new(AskArgs { state: options.state()?, request })))
        }
        o::STATUS => {
            let mut options = Options::new(items);
            options.read(&[o::STATE, o::UID])?;
            let request = Request::Status { uid: options.text(o::UID)? };
            Ok(Command::Ask(Box::new(AskArgs { state: options.state()?, request })))
        }
        _ => Err(format!("no such command: {}", verb.display())),
    }
}

fn parse_serve(mut options: Options<impl Iterator<Item = OsString>>, pod_uid: Option<String>) -> Parsed<Command> {
    options.read(&[
        o::STATE,
        o::LISTEN,
        o::UID,
        o::STATUS_INTERVAL,
        o::STATUS_TIMEOUT,
        o::STATUS_ARG,
        o::STOP_TIMEOUT,
        o::STOP_ARG,
        o::GRACE,
        o::PROBE_EXEC_ARG,
        o::PROBE_TCP_PORT,
        o::PROBE_HTTP_PORT,
        o::PROBE_HTTP_PATH,
        o::PROBE_HTTP_HEADER,
        o::PROBE_DELAY,
        o::PROBE_PERIOD,
        o::PROBE_TIMEOUT,
        o::PROBE_SUCCESS,
        o::PROBE_FAILURE,
    ])?;
    let uid = match options.find(o::UID) {
        Some(_) => options.text(o::UID)?,
        None => pod_uid.unwrap_or_default(),
    };
    if uid.is_empty() || uid.contains(char::is_whitespace) {
        return Err("--uid or TANIST_POD_UID must be one word".into());
    }
    let listen = match options.find(o::LISTEN) {
        Some(_) => Some(options.text(o::LISTEN)?.parse().map_err(|_| "--listen takes ADDR:PORT")?),
        None => None,
    };
    Ok(Command::Serve(Box::new(ServeArgs {
        state: options.state()?,
        listen,
        uid,
        // There is always a pause, so that a status command that ends at once does not keep a processor busy.
        status_interval: options.seconds(o::STATUS_INTERVAL, Some(2))?.max(Duration::from_millis(50)),
        status_timeout: options.seconds(o::STATUS_TIMEOUT, Some(5))?,
        status: options.values(o::STATUS_ARG),
        stop_timeout: options.seconds(o::STOP_TIMEOUT, Some(600))?,
        stop: options.values(o::STOP_ARG),
        grace: options.seconds(o::GRACE, Some(600))?,
        probe: parse_probe(&options)?,
    })))
}

fn parse_probe(options: &Options<impl Iterator<Item = OsString>>) -> Parsed<Option<Plan>> {
    let given = |name| options.find(name).is_some();
    let check = match (given(o::PROBE_EXEC_ARG), given(o::PROBE_TCP_PORT), given(o::PROBE_HTTP_PORT)) {
        (false, false, false) => return Ok(None),
        (true, false, false) => Check::Exec(options.values(o::PROBE_EXEC_ARG)),
        (false, true, false) => Check::Tcp(options.number(o::PROBE_TCP_PORT, 0)?),
        (false, false, true) => Check::Http {
            port: options.number(o::PROBE_HTTP_PORT, 0)?,
            path: options.text(o::PROBE_HTTP_PATH)?,
            headers: options.texts(o::PROBE_HTTP_HEADER)?,
        },
        _ => return Err("only one probe is allowed: --probe-exec-arg, --probe-tcp-port or --probe-http-port".into()),
    };
    if let Check::Http { path, headers, .. } = &check
        && (!path.starts_with('/') || headers.iter().chain([path]).any(|line| line.contains(char::is_control)))
    {
        return Err(
            "--probe-http-path has to begin with a slash, and neither it nor a header may have control characters"
                .into(),
        );
    }
    Ok(Some(Plan {
        check,
        delay: options.seconds(o::PROBE_DELAY, Some(0))?,
        period: options.seconds(o::PROBE_PERIOD, Some(10))?.max(Duration::from_millis(50)),
        timeout: options.seconds(o::PROBE_TIMEOUT, Some(1))?.max(Duration::from_millis(50)),
        success: options.number(o::PROBE_SUCCESS, 1)?,
        failure: options.number(o::PROBE_FAILURE, 3)?,
        address: std::env::var(place::POD_IP).ok().and_then(|text| text.parse().ok()),
    }))
}

fn parse_exec(mut options: Options<impl Iterator<Item = OsString>>) -> Parsed<Command> {
    options.flags = &[o::QUIET_STATUS];
    let argv = options.read(&[
        o::STATE,
        o::TOKEN,
        o::UID,
        o::DEADLINE,
        o::EXPECT,
        o::IF_STATUS,
        o::IF_SEQUENCE,
        o::SEQUENCE_DEADLINE,
        o::SEQUENCE_ARGS,
        o::ENV,
    ])?;
    let mut argv = argv.filter(|argv| !argv.is_empty()).ok_or("exec needs -- and an argv")?;
    let if_sequence = parse_sequence(&options, &mut argv)?;
    let expect = match options.find(o::EXPECT) {
        Some(word) => Some(Expect::parse(word.as_bytes()).ok_or("--expect takes running or stopped")?),
        None => None,
    };
    let if_status = match options.find(o::IF_STATUS) {
        Some(_) => Some(read_codes(&options.text(o::IF_STATUS)?).ok_or("--if-status takes CODE[,CODE]...")?),
        None => None,
    };
    let exec = Exec {
        token: options.token()?,
        uid: options.text(o::UID)?,
        deadline: options.seconds(o::DEADLINE, None)?,
        expect,
        quiet: options.find(o::QUIET_STATUS).is_some(),
        if_status,
        if_sequence,
        env: parse_env(&options)?,
        argv,
    };
    Ok(Command::Ask(Box::new(AskArgs { state: options.state()?, request: Request::Exec(exec) })))
}

/// The environment variables of the command.
fn parse_env(options: &Options<impl Iterator<Item = OsString>>) -> Parsed<Vec<OsString>> {
    let env = options.values(o::ENV);
    let is_variable = |word: &OsString| word.as_bytes().iter().position(|byte| *byte == b'=').is_some_and(|at| at > 0);
    if env.iter().all(is_variable) { Ok(env) } else { Err("--env takes KEY=VALUE".into()) }
}

/// The condition on the sequence. The argv of the sequence command comes before that of the command.
fn parse_sequence(
    options: &Options<impl Iterator<Item = OsString>>,
    argv: &mut Vec<OsString>,
) -> Parsed<Option<IfSequence>> {
    let names = [o::IF_SEQUENCE, o::SEQUENCE_DEADLINE, o::SEQUENCE_ARGS];
    if names.iter().all(|name| options.find(name).is_none()) {
        return Ok(None);
    }
    let count: usize = options.number(o::SEQUENCE_ARGS, 0)?;
    if count == 0 || count >= argv.len() {
        return Err(
            "--sequence-args takes the number of words of the sequence command, which the command has to follow".into(),
        );
    }
    let command = argv.split_off(count);
    let expected = options.text(o::IF_SEQUENCE)?;
    let deadline = options.seconds(o::SEQUENCE_DEADLINE, None)?;
    Ok(Some(IfSequence { expected, deadline, argv: std::mem::replace(argv, command) }))
}

/// The options of the command line: names and values.
struct Options<I> {
    items: I,
    flags: &'static [&'static str],
    found: Vec<(&'static str, OsString)>,
}

impl<I: Iterator<Item = OsString>> Options<I> {
    fn new(items: I) -> Options<I> {
        Options { items, flags: &[], found: Vec::new() }
    }

    /// Reads all options; returns the words after `--`.
    fn read(&mut self, known: &[&'static str]) -> Parsed<Option<Vec<OsString>>> {
        while let Some(item) = self.items.next() {
            if item == o::ARGV {
                return Ok(Some(self.items.by_ref().collect()));
            }
            if let Some(flag) = self.flags.iter().find(|flag| item == **flag) {
                self.found.push((flag, OsString::new()));
            } else if let Some(name) = known.iter().find(|name| item == **name) {
                let value = self.items.next().ok_or_else(|| format!("{name} needs a value"))?;
                self.found.push((name, value));
            } else {
                return Err(format!("no such option: {}", item.display()));
            }
        }
        Ok(None)
    }

    fn find(&self, name: &str) -> Option<&OsString> {
        self.found.iter().rev().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    fn values(&self, name: &str) -> Vec<OsString> {
        self.found.iter().filter(|(found, _)| *found == name).map(|(_, value)| value.clone()).collect()
    }

    fn text(&self, name: &str) -> Parsed<String> {
        let value = self.find(name).ok_or_else(|| format!("{name} is missing"))?;
        value.to_str().map(str::to_owned).ok_or_else(|| format!("{name} is not UTF-8"))
    }

    fn texts(&self, name: &str) -> Parsed<Vec<String>> {
        self.values(name)
            .into_iter()
            .map(|value| value.into_string().map_err(|_| format!("{name} is not UTF-8")))
            .collect()
    }

    /// A number above 0.
    fn number<T: std::str::FromStr + Default + PartialEq>(&self, name: &str, default: T) -> Parsed<T> {
        let found = match self.find(name) {
            None => Some(default),
            Some(value) => value.to_str().and_then(number),
        };
        found.filter(|found| *found != T::default()).ok_or_else(|| format!("{name} takes a number above 0"))
    }

    fn state(&self) -> Parsed<PathBuf> {
        self.find(o::STATE).map(PathBuf::from).ok_or_else(|| "--state is missing".into())
    }

    fn token(&self) -> Parsed<String> {
        let token = self.text(o::TOKEN)?;
        if token::is_valid(&token) { Ok(token) } else { Err("--token takes 1 to 128 of A-Z a-z 0-9 . _ -".into()) }
    }

    /// Seconds, with an optional decimal fraction.
    fn seconds(&self, name: &str, default: Option<u64>) -> Parsed<Duration> {
        if let (None, Some(default)) = (self.find(name), default) {
            return Ok(Duration::from_secs(default));
        }
        let wrong = || format!("{name} takes seconds");
        let text = self.text(name)?;
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, "0"));
        let digits = |text: &str| !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) {
            return Err(wrong());
        }
        let seconds = Duration::from_secs(whole.parse().map_err(|_| wrong())?);
        let nanos = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
        Ok((seconds + Duration::from_nanos(nanos)).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanist_protocol::call::{self, Ask, Call};

    fn parse_words(words: &[&str]) -> Parsed<Command> {
        parse(words.iter().map(OsString::from), Some("pod".into()), None)
    }

    #[test]
    fn values_and_argv_are_taken_as_they_stand() {
        let words = ["exec", "--state", "/s", "--token", "-rf", "--uid", "u", "--deadline", "1.5", "--", "--", "-x"];
        let Ok(Command::Ask(ask)) = parse_words(&words) else { panic!("not understood") };
        let Request::Exec(exec) = ask.request else { panic!("no exec") };
        assert_eq!((exec.token.as_str(), exec.deadline), ("-rf", Duration::from_millis(1500)));
        assert_eq!(exec.argv, ["--", "-x"]);
    }

    fn asked(call: &Call<'_>) -> AskArgs {
        let Ok(Command::Ask(ask)) = parse(call.to_args().into_iter().skip(1).map(OsString::from), None, None) else {
            panic!("not understood: {call:?}")
        };
        *ask
    }

    // Decision 0027: the operator writes command lines with the other half of the protocol.
    #[test]
    fn every_question_of_the_operator_is_understood() {
        let words = ["--", "-x", "", "a b"].map(str::to_owned);
        let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
        let look = call::IfSequence { expected: "h:7", deadline: 10, argv: &words };
        let read_look = IfSequence { expected: "h:7".into(), deadline: Duration::from_secs(10), argv: argv.clone() };
        let env = ["A=x y".to_owned(), "B=".to_owned()];
        for choice in 0..32 {
            let on = |bit: u32| choice & (1 << bit) != 0;
            let expect = on(0).then_some(Expect::Stopped);
            let (quiet, if_status) = (on(1), on(2).then_some(8));
            let exec = call::Exec {
                token: "t",
                deadline: 60,
                expect,
                quiet,
                if_status,
                if_sequence: on(3).then_some(look),
                env: if on(4) { &env } else { &[] },
                argv: &words,
            };
            let read = Exec {
                token: "t".into(),
                uid: "u".into(),
                deadline: Duration::from_secs(60),
                expect,
                quiet,
                if_status: if_status.map(|code| vec![code]),
                if_sequence: on(3).then(|| read_look.clone()),
                env: env.iter().filter(|_| on(4)).map(OsString::from).collect(),
                argv: argv.clone(),
            };
            let ask = asked(&Call { container: "db", uid: "u", ask: Ask::Exec(exec) });
            assert_eq!((ask.state, ask.request), (PathBuf::from("/tanist/db"), Request::Exec(read)));
        }
        let (token, uid) = ("t".to_owned(), "u".to_owned());
        let settle = asked(&Call { container: "db", uid: "u", ask: Ask::Settle("t") });
        assert_eq!(settle.request, Request::Settle { token, uid: uid.clone() });
        let status = asked(&Call { container: "db", uid: "u", ask: Ask::Status });
        assert_eq!((status.state, status.request), (PathBuf::from("/tanist/db"), Request::Status { uid }));
    }

    #[test]
    fn the_pods_uid_may_come_from_the_environment() {
        let Ok(Command::Serve(args)) = parse_words(&["serve", "--state", "/s", "--stop-arg", "--grace"]) else {
            panic!("not understood")
        };
        assert_eq!((args.uid.as_str(), args.stop), ("pod", vec![OsString::from("--grace")]));
    }

    #[test]
    fn further_options_come_from_the_environment() {
        let probe = [o::PROBE_EXEC_ARG, "sh", o::PROBE_EXEC_ARG, "-c", o::PROBE_EXEC_ARG, "echo 'a\nb' \\n"];
        let more = o::lines(probe.into_iter().chain([o::PROBE_PERIOD, "7"]));
        let words = ["serve", "--state", "/s"].map(OsString::from);
        let Ok(Command::Serve(args)) = parse(words.into_iter(), Some("pod".into()), Some(&more)) else {
            panic!("not understood")
        };
        let plan = args.probe.unwrap();
        assert_eq!(plan.check, Check::Exec(["sh", "-c", "echo 'a\nb' \\n"].map(OsString::from).to_vec()));
        assert_eq!((plan.period, plan.failure), (Duration::from_secs(7), 3));
    }

    #[test]
    fn mistakes_are_named() {
        for words in [
            &[][..],
            &["dance"],
            &["serve"],
            &["serve", "--state"],
            &["serve", "--state", "/s", "--grace", "-1"],
            &["serve", "--state", "/s", "--grace", "1e9"],
            &["exec", "--state", "/s", "--token", "t", "--uid", "u", "--deadline", "1"],
            &["exec", "--state", "/s", "--token", "t", "--uid", "u", "--deadline", "1", "--if-status", "", "--", "x"],
            &[
                "exec",
                "--state",
                "/s",
                "--token",
                "t",
                "--uid",
                "u",
                "--deadline",
                "1",
                "--if-status",
                "7;0",
                "--",
                "x",
            ],
            &["exec", "--state", "/s", "--token", "t", "--uid", "u", "--deadline", "1", "--if-status", "--", "x"],
            &["exec", "--state", "/s", "--token", "a/b", "--uid", "u", "--deadline", "1", "--", "x"],
            &["exec", "--state", "/s", "--token", "t", "--uid", "u", "--deadline", "1", "--env", "A", "--", "x"],
            &["exec", "--state", "/s", "--token", "t", "--uid", "u", "--deadline", "1", "--env", "=a", "--", "x"],
            &["settle", "--state", "/s", "--token", "..", "--uid", "u"],
            &["status", "--state", "/s", "--uid", "u", "more"],
        ] {
            assert!(parse_words(words).is_err(), "{words:?}");
        }
    }
}
