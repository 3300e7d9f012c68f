//! The client: sends a request to PID 1 and prints its frame; after a command it prints a second frame with the status. It has no state that could be
//! lost with it.
use crate::args::AskArgs;
use crate::limits::{ANSWER_SLACK, CONNECT_TIME, STATUS_AFTER};
use crate::processes;
use crate::serve::SOCKET;
use crate::tokens::Tokens;
use crate::wire::Request;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tanist_protocol::frame::{Frame, NO_TOKEN};
use tanist_protocol::outcome::Outcome;
use tanist_protocol::why::Word;

/// Sends the request and prints the answer.
///
/// # Errors
/// No frame was printed.
pub fn ask(args: &AskArgs) -> io::Result<()> {
    let began = Instant::now();
    let frame = match connect(&args.state) {
        Ok(stream) => exchange(stream, &args.request),
        Err(_) => unreachable_runner(args),
    };
    let mut stdout = io::stdout().lock();
    stdout.write_all(&match &args.request {
        Request::Status { .. } => frame.to_bytes_of_status(),
        Request::Exec(_) | Request::Settle { .. } => frame.to_bytes(),
    })?;
    stdout.flush()?;
    match &args.request {
        Request::Exec(exec) if was_tried(&frame.outcome) => print_status(args, &exec.uid, began, &mut stdout),
        _ => Ok(()),
    }
}

fn was_tried(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Exited(_) | Outcome::Unknown(_))
}

/// Prints the result of a status poll that begins after the command ended. If that takes too long nothing is printed, and the operator asks again.
fn print_status(args: &AskArgs, uid: &str, began: Instant, to: &mut impl Write) -> io::Result<()> {
    let request = Request::Status { uid: uid.to_owned() };
    let after = began.elapsed();
    let frame = connect(&args.state).ok().and_then(|stream| exchange_within(stream, &request, STATUS_AFTER));
    if let Some(frame) = frame.filter(|frame| matches!(frame.outcome, Outcome::Exited(_))) {
        to.write_all(&frame.to_bytes_after(after))?;
    }
    to.flush()
}

fn connect(state: &Path) -> io::Result<UnixStream> {
    let limit = Instant::now() + CONNECT_TIME;
    loop {
        match UnixStream::connect(state.join(SOCKET)) {
            Err(_) if Instant::now() < limit => sleep(Duration::from_millis(100)),
            result => return result,
        }
    }
}

fn exchange(stream: UnixStream, request: &Request) -> Frame {
    let patience = match request {
        Request::Exec(exec) => exec.deadline + ANSWER_SLACK,
        Request::Settle { .. } | Request::Status { .. } => ANSWER_SLACK * 2,
    };
    // PID 1 ended, or closed the connection without a complete answer: the request may have been carried out.
    exchange_within(stream, request, patience)
        .unwrap_or_else(|| local(request, Outcome::Unknown(Word::NoAnswer.into())))
}

fn exchange_within(mut stream: UnixStream, request: &Request, patience: Duration) -> Option<Frame> {
    let mut bytes = Vec::new();
    // Errors are ignored, because the frame itself shows whether it is complete.
    let _ = stream
        .set_read_timeout(Some(patience))
        .and_then(|()| stream.write_all(&request.encode()))
        .and_then(|()| stream.read_to_end(&mut bytes));
    Frame::parse(&bytes)
}

/// The answer when no runner listens. This request started nothing, but an earlier one with the same token may have.
fn unreachable_runner(args: &AskArgs) -> Frame {
    let never_used = |token: &str| matches!(Tokens::at(&args.state).look_up(token), Ok(None));
    let outcome = match &args.request {
        Request::Exec(exec) if never_used(&exec.token) => Outcome::NotStarted(Word::NoRunner.into()),
        Request::Status { .. } => Outcome::NotStarted(Word::NoRunner.into()),
        _ => Outcome::Unknown(Word::NoRunner.into()),
    };
    local(&args.request, outcome)
}

fn local(request: &Request, outcome: Outcome) -> Frame {
    let token = match request {
        Request::Exec(exec) => exec.token.as_str(),
        Request::Settle { token, .. } => token.as_str(),
        Request::Status { .. } => NO_TOKEN,
    };
    Frame::bare(token, outcome, processes::count(Vec::new))
}

/// Copies this executable, completely or not at all.
pub fn install(destination: &Path) -> io::Result<()> {
    let mut name = destination.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let scratch = destination.with_file_name(name);
    let mut from = fs::File::open("/proc/self/exe")?;
    let mut to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&scratch)?;
    io::copy(&mut from, &mut to)?;
    // The mode at creation was changed by the umask.
    to.set_permissions(Permissions::from_mode(0o755))?;
    to.sync_all()?;
    drop(to);
    fs::rename(&scratch, destination)
}
