//! A running `tanist-run serve` and the questions that the stories ask it.
//!
//! The frame is read here by hand, not with the runner's own parser: the two must agree on the wire, not on a mistake.
#![allow(dead_code, missing_docs, reason = "each test file uses its part of this module")]
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

pub const BIN: &str = env!("CARGO_BIN_EXE_tanist-run");
pub const UID: &str = "pod-uid-1";

static NEXT: AtomicU32 = AtomicU32::new(0);

#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Frame {
    pub token: String,
    pub outcome: String,
    pub stdout: String,
    pub stderr: String,
    pub cut: bool,
    pub processes: u32,
    /// Milliseconds; only a status that came of a command says them.
    pub after: Option<u64>,
    /// Only a status says it, and only while a command runs.
    pub running: Option<String>,
    /// Only a status says them.
    pub features: Option<String>,
}

pub fn parse(bytes: &[u8]) -> Frame {
    let (frame, rest) = first(bytes);
    assert!(rest.is_empty(), "more than one frame: {:?}", String::from_utf8_lossy(rest));
    frame
}

/// The first frame, and what follows it.
pub fn first(bytes: &[u8]) -> (Frame, &[u8]) {
    let newline = bytes.iter().position(|b| *b == b'\n').unwrap_or_else(|| panic!("no frame: {bytes:?}"));
    let header = std::str::from_utf8(&bytes[..newline]).unwrap();
    let words: Vec<&str> = header.split(' ').collect();
    assert!(words.len() >= 7 && words[0] == "tanist-run/1", "{header}");
    let more = |name: &str| words[7..].iter().find_map(|word| word.strip_prefix(name));
    let value = |word: &str, name: &str| word.strip_prefix(name).unwrap().parse::<usize>().unwrap();
    let (n, m) = (value(words[3], "stdout="), value(words[4], "stderr="));
    let body = &bytes[newline + 1..];
    let rest = body[n + m..].strip_prefix(format!("\ntanist-end {}\n", words[1]).as_bytes());
    let frame = Frame {
        token: words[1].into(),
        outcome: words[2].into(),
        stdout: String::from_utf8_lossy(&body[..n]).into(),
        stderr: String::from_utf8_lossy(&body[n..n + m]).into(),
        cut: value(words[5], "cut=") == 1,
        processes: u32::try_from(value(words[6], "processes=")).unwrap(),
        after: more("after=").map(|text| text.parse().unwrap()),
        running: more("running=").map(str::to_owned),
        features: more("features=").map(str::to_owned),
    };
    (frame, rest.unwrap_or_else(|| panic!("no end mark: {header}")))
}

/// The answer, without the status that may follow it.
pub fn frame_of(output: Output) -> Frame {
    assert!(output.status.success(), "{output:?}");
    let (frame, rest) = first(&output.stdout);
    assert!(rest.is_empty() || parse(rest).token == "-", "{output:?}");
    frame
}

/// The code of the status that followed the answer.
pub fn status_after(output: &Output) -> Option<String> {
    following(output).map(|frame| frame.outcome)
}

/// The status that followed the answer.
pub fn following(output: &Output) -> Option<Frame> {
    let (answer, rest) = first(&output.stdout);
    assert_eq!((answer.after, &answer.features), (None, &None));
    (!rest.is_empty()).then(|| parse(rest))
}

/// A member: its directory lives as long as this, its runner may be restarted.
pub struct Member {
    pub dir: PathBuf,
    options: Vec<String>,
    runner: Option<Child>,
    lines: Option<Mutex<Receiver<String>>>,
    pub port: u16,
}

impl Member {
    pub fn start(options: &[&str]) -> Member {
        let n = NEXT.fetch_add(1, Ordering::SeqCst);
        let dir = std::env::temp_dir().join(format!("tanist-run-test-{}-{n}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let options = options.iter().map(|option| option.replace("DIR", dir.to_str().unwrap())).collect();
        let mut member = Member { dir, options, runner: None, lines: None, port: 0 };
        member.begin();
        member
    }

    /// A status command that exits with what the file `code` says, fast polls, readiness on a free port.
    pub fn with_status(options: &[&str]) -> Member {
        let mut all = vec!["--listen", "127.0.0.1:0", "--status-interval", "0.1", "--status-timeout", "10"];
        for argument in ["sh", "-c", "exit $(cat DIR/code)"] {
            all.extend(["--status-arg", argument]);
        }
        all.extend(options);
        let member = Member::start(&all);
        member.says(7);
        member
    }

    pub fn says(&self, code: u8) {
        fs::write(self.path("code.new"), code.to_string()).unwrap();
        fs::rename(self.path("code.new"), self.path("code")).unwrap();
    }

    pub fn serve_command(&self) -> Command {
        let mut command = Command::new(BIN);
        command.arg("serve").arg("--state").arg(self.path("state")).args(["--uid", UID]).args(&self.options);
        command
    }

    /// Starts the runner and waits until it answers.
    pub fn begin(&mut self) {
        let mut command = self.serve_command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut runner = command.spawn().unwrap();
        let (tell, lines) = channel();
        for pipe in
            [Box::new(runner.stdout.take().unwrap()) as Box<dyn Read + Send>, Box::new(runner.stderr.take().unwrap())]
        {
            let tell = tell.clone();
            spawn(move || BufReader::new(pipe).lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        }
        self.runner = Some(runner);
        self.lines = Some(Mutex::new(lines));
        if self.options.iter().any(|option| option == "--listen") {
            let line = self.log_line("listening on ");
            self.port = line.rsplit(':').next().unwrap().parse().unwrap();
        }
        eventually("the socket", || std::os::unix::net::UnixStream::connect(self.path("state/socket")).is_ok());
    }

    /// The next line of the container's log that holds this text.
    pub fn log_line(&self, text: &str) -> String {
        let end = Instant::now() + Duration::from_secs(30);
        let lines = self.lines.as_ref().unwrap().lock().unwrap();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = lines.recv_timeout(left).unwrap_or_else(|_| panic!("not logged: {text}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn pid(&self) -> u32 {
        self.runner.as_ref().unwrap().id()
    }

    pub fn ask(&self, verb: &str, options: &[&str], argv: &[&str]) -> Command {
        let mut command = Command::new(BIN);
        command.arg(verb).arg("--state").arg(self.path("state")).args(options);
        if verb == "exec" {
            command.arg("--").args(argv);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn exec_with(&self, token: &str, options: &[&str], argv: &[&str]) -> Frame {
        let all = [&["--token", token, "--uid", UID, "--deadline", "20"], options].concat();
        frame_of(self.ask("exec", &all, argv).output().unwrap())
    }

    /// Runs a script; `DIR` in it is the member's directory.
    pub fn sh(&self, token: &str, script: &str) -> Frame {
        self.exec_with(token, &[], &["sh", "-c", &self.script(script)])
    }

    pub fn script(&self, script: &str) -> String {
        script.replace("DIR", self.dir.to_str().unwrap())
    }

    /// Starts an exec and returns its client without waiting.
    pub fn begin_sh(&self, token: &str, options: &[&str], script: &str) -> Child {
        let all = [&["--token", token, "--uid", UID, "--deadline", "20"], options].concat();
        let client = self.ask("exec", &all, &["sh", "-c", &self.script(script)]).spawn().unwrap();
        // Its record says that it began; to settle before that would void it.
        eventually("the command starts", || self.path(&format!("state/tokens/{token}")).exists());
        client
    }

    /// Voids what it does not know.
    pub fn settle(&self, token: &str) -> Frame {
        frame_of(self.ask("settle", &["--token", token, "--uid", UID], &[]).output().unwrap())
    }

    pub fn status(&self) -> Frame {
        frame_of(self.ask("status", &["--uid", UID], &[]).output().unwrap())
    }

    /// The answer to a request over HTTP. A connection has 0.9 s for its request; if a slow machine spends them before that is written, there is no answer,
    /// and the request is sent again.
    pub fn http(&self, request: &str) -> String {
        let mut text = String::new();
        eventually("an answer", || {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
            text.clear();
            // A connection that was closed too early may also be an error here: no answer either.
            let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut text));
            !text.is_empty()
        });
        text
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        let text = self.http(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub fn ready(&self) -> u16 {
        self.get("/ready").0
    }

    pub fn lines_of(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.path(name)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// As a container that is killed, but its processes stay: there is no PID namespace here.
    pub fn kill(&mut self) {
        let mut runner = self.runner.take().unwrap();
        runner.kill().unwrap();
        runner.wait().unwrap();
    }

    pub fn terminate(&self) {
        signal(self.pid(), "TERM");
    }

    /// Waits for the runner's end; its exit code and how long it took.
    pub fn ended(&mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        let mut runner = self.runner.take().unwrap();
        (runner.wait().unwrap().code(), began.elapsed())
    }

    pub fn memory_kb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut runner) = self.runner.take() {
            // Its own end takes its daemons along; a runner that does not end is a failure of another test.
            signal(runner.id(), "TERM");
            let end = Instant::now() + Duration::from_secs(10);
            while Instant::now() < end && runner.try_wait().unwrap().is_none() {
                sleep(Duration::from_millis(20));
            }
            let _ = runner.kill();
            let _ = runner.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

pub fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

/// Alive, and not only as a zombie.
pub fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with('Z'))
}

/// Waits for an event, for as long as a machine under load may need.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "never came true: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Holds at every look for a while.
pub fn stays(what: &str, time: Duration, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        assert!(holds(), "did not stay true: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// What the children of a process were called with, whichever of its threads made them; a zombie has no words left.
pub fn children_of(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let words = |child: &str| {
        let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.replace('\0', " ").trim().to_owned()
    };
    lists.flat_map(|list| list.split_whitespace().map(words).collect::<Vec<_>>()).collect()
}

/// How many threads of a process have this name.
pub fn threads(pid: u32, name: &str) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks.filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)).count()
}
