//! The readiness port: a hint for the kubelet, not evidence for the operator.
use crate::desk::Desk;
use crate::limits::{HTTP_BYTES, HTTP_CONNECTIONS, HTTP_TIME};
use crate::probe::Probe;
use crate::shutdown::Shutdown;
use crate::status::Poller;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tanist_protocol::call::Expect;
use tanist_protocol::place;

/// The sources of the answers.
#[derive(Debug)]
pub struct Readiness {
    /// Has the expected state, and whether a command runs.
    pub desk: Arc<Desk>,
    /// Has the current status.
    pub poller: Arc<Poller>,
    /// Says whether the shutdown has begun.
    pub shutdown: Arc<Shutdown>,
    /// The probe of the pod template. Absent: it has none.
    pub probe: Option<Arc<Probe>>,
}

/// Accepts connections forever; those beyond the limit wait in the backlog.
pub fn serve(listener: &TcpListener, readiness: &Arc<Readiness>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        if open.load(Ordering::SeqCst) >= HTTP_CONNECTIONS {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        let Ok((stream, _)) = listener.accept() else {
            // Most likely there are no file descriptors left, so other connections have to end first.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        open.fetch_add(1, Ordering::SeqCst);
        let (readiness, done) = (readiness.clone(), open.clone());
        let spawned = std::thread::Builder::new().name("http".into()).spawn(move || {
            let _ = exchange(stream, &readiness);
            done.fetch_sub(1, Ordering::SeqCst);
        });
        if spawned.is_err() {
            open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Answers one request, within a limit of bytes and one of time.
fn exchange(mut stream: TcpStream, readiness: &Readiness) -> std::io::Result<()> {
    let end = Instant::now() + HTTP_TIME;
    let mut request = Vec::new();
    let mut buffer = [0; 512];
    while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if request.len() >= HTTP_BYTES || left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        request.extend_from_slice(buffer.get(..length).unwrap_or_default());
    }
    let line = request.split(|b| *b == b'\r').next().unwrap_or_default();
    let mut words = line.split(|b| *b == b' ');
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some(b"GET"), Some(path)) if path == place::READY.as_bytes() => ready(readiness),
        (Some(b"GET"), Some(b"/status")) => ("200 OK", "application/json", status(readiness)),
        (Some(b"GET"), _) => ("404 Not Found", "text/plain", "only /ready and /status\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET\n".to_owned()),
    };
    stream.set_write_timeout(Some(HTTP_TIME))?;
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes())
}

fn ready(readiness: &Readiness) -> (&'static str, &'static str, String) {
    let board = readiness.desk.board();
    let standing = readiness.poller.standing();
    let probed = readiness.probe.as_ref().map(|probe| probe.is_good());
    let fits = probed != Some(false)
        && match (board.expect, standing.map(|standing| standing.code)) {
            (Expect::Running, Some(0 | 8)) | (Expect::Stopped, Some(7)) => true,
            (_, _) => false,
        };
    let ending = readiness.shutdown.began().is_some();
    let word = match (ending, board.changing, fits) {
        (true, _, _) => "shutting-down",
        (_, true, _) => "changing",
        (_, _, true) => "ready",
        _ => "not-ready",
    };
    let code = standing.map_or("unknown".to_owned(), |standing| standing.code.to_string());
    let age = standing.map_or("none".to_owned(), |standing| format!("{}s", standing.at.elapsed().as_secs()));
    let probe = probed.map_or("", |good| if good { " probe=good" } else { " probe=failing" });
    let body = format!("{word} code={code} expect={} age={age}{probe}\n", board.expect.word());
    (if word == "ready" { "200 OK" } else { "503 Service Unavailable" }, "text/plain", body)
}

fn status(readiness: &Readiness) -> String {
    let board = readiness.desk.board();
    let standing = readiness.poller.standing();
    let or_null = |number: Option<u64>| number.map_or("null".to_owned(), |number| number.to_string());
    format!(
        "{{\"code\":{},\"expect\":\"{}\",\"busy\":{},\"age\":{}}}\n",
        or_null(standing.map(|standing| standing.code.into())),
        board.expect.word(),
        board.busy,
        or_null(standing.map(|standing| standing.at.elapsed().as_secs())),
    )
}
