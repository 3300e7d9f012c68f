//! A session of psql that lives on.
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// How long psql may take for each line of an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// What psql prints after each answer.
const END: &str = ".";

/// How psql connects, for every session. Refusals by standbys are what is asked for here, ten a second: nothing for their logs.
const SETTINGS: [(&str, &str); 6] = [
    ("PGOPTIONS", "-c log_min_messages=panic"),
    ("PGUSER", "postgres"),
    ("PGDATABASE", "postgres"),
    ("PGSSLMODE", "require"),
    ("PGCONNECT_TIMEOUT", "2"),
    ("LC_ALL", "C"),
];

/// A session. It has ended when an answer did not come.
pub struct Session {
    open: Option<Open>,
    /// Nothing was answered yet, so an error may be that of the connection.
    fresh: bool,
}

struct Open {
    process: Child,
    to: ChildStdin,
    from: BufReader<Receiver>,
}

/// What psql said to a question.
pub struct Answer {
    /// All lines that came in time, without their ends.
    pub text: String,
    /// It is whole. Otherwise the session is of no use any more.
    pub whole: bool,
    /// It was the first of its session.
    pub fresh: bool,
}

impl Session {
    /// Begins a session, from inside the network of that process where one is given. That nobody can be reached shows with the first question.
    pub fn connect(tools: &Path, host: &str, network: Option<u32>) -> Self {
        Session { open: open(tools, host, network).ok(), fresh: true }
    }

    /// Asks a question of one line.
    pub async fn ask(&mut self, sql: &str) -> Answer {
        let fresh = self.fresh;
        let mut text = String::new();
        let whole = match &mut self.open {
            Some(open) => open.ask(sql, &mut text).await,
            None => false,
        };
        if whole {
            self.fresh = false;
        } else {
            self.end().await;
        }
        Answer { text, whole, fresh }
    }

    /// Whether it may still be asked.
    pub fn lives(&self) -> bool {
        self.open.is_some()
    }

    /// Ends it, with whatever it waits for.
    pub async fn end(&mut self) {
        if let Some(mut open) = self.open.take() {
            let _ = open.process.kill().await;
        }
    }
}

impl Open {
    async fn ask(&mut self, sql: &str, text: &mut String) -> bool {
        let question = format!("{sql};\n\\echo {END}\n");
        if self.to.write_all(question.as_bytes()).await.is_err() {
            // It has ended, and said why before.
            return self.rest(text).await;
        }
        loop {
            let mut line = String::new();
            match timeout(PATIENCE, self.from.read_line(&mut line)).await {
                Ok(Ok(read)) if read > 0 => {}
                _ => return false,
            }
            match line.trim_end_matches('\n') {
                END => return true,
                line => text.push_str(line),
            }
        }
    }

    async fn rest(&mut self, text: &mut String) -> bool {
        let mut line = String::new();
        while matches!(timeout(PATIENCE, self.from.read_line(&mut line)).await, Ok(Ok(read)) if read > 0) {
            text.push_str(line.trim_end_matches('\n'));
            line.clear();
        }
        false
    }
}

fn open(tools: &Path, host: &str, network: Option<u32>) -> std::io::Result<Open> {
    let mut command = match network {
        Some(process) => {
            let mut enter = Command::new("nsenter");
            enter.args(["-t", &process.to_string(), "-n", "chroot"]);
            enter
        }
        None => Command::new("chroot"),
    };
    // Errors and answers in the order in which they came.
    let (from, out) = std::io::pipe()?;
    command.arg(tools).args(["/usr/lib/postgresql/15/bin/psql", "-X", "-w", "-q", "-A", "-t"]);
    command.arg(format!("host={host}")).envs(SETTINGS);
    command.stdin(Stdio::piped()).stdout(out.try_clone()?).stderr(out).kill_on_drop(true);
    let mut process = command.spawn()?;
    let to = process.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    // The command holds the other end, which would never be closed.
    drop(command);
    Ok(Open { process, to, from: BufReader::new(Receiver::from_owned_fd(from.into())?) })
}
