//! PID 1: creates the parts, starts the threads and listens.
use crate::args::ServeArgs;
use crate::children::Children;
use crate::desk::Desk;
use crate::http::{self, Readiness};
use crate::limits::{CLIENTS, REQUEST_TIME};
use crate::listen;
use crate::log;
use crate::probe::Probe;
use crate::shutdown::{self, Shutdown, Stop};
use crate::status::Poller;
use crate::tokens::{Tokens, Writer};
use crate::wire::read_request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGWINCH};
use signal_hook::iterator::Signals;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

/// The socket below the state directory.
pub const SOCKET: &str = "socket";

/// Serves until SIGTERM and then ends the process.
///
/// # Errors
/// It could not begin.
pub fn serve(args: ServeArgs) -> io::Result<()> {
    // This comes first: the kernel drops signals to PID 1 without a handler, and the kubelet sends TERM only once.
    let mut signals = Signals::new([SIGCHLD].iter().chain(stop_signals()))?;
    // PID 1 adopts orphans anyway; in tests this process does by this call.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));

    DirBuilder::new().recursive(true).mode(0o700).create(&args.state)?;
    let _lock = lock_state(&args.state)?;
    let writer = Writer { uid: args.uid, incarnation: incarnation() };
    log(&format!("incarnation {} of pod {}", writer.incarnation, writer.uid));
    let tokens = Tokens::open(&args.state)?;
    let children = Arc::new(Children::default());
    let shutdown = Arc::new(Shutdown::new(args.grace)?);
    let poller = Arc::new(Poller::new(args.status, args.status_interval, args.status_timeout, children.clone()));
    let desk = Arc::new(Desk::new(writer, tokens, children.clone(), poller.clone(), shutdown.clone()));
    let served = Arc::new(AtomicUsize::new(0));

    if let Some(address) = args.listen {
        let listener = listen::on(address)?;
        log(&format!("listening on {}", listener.local_addr()?));
        let probe = args.probe.map(|plan| Arc::new(Probe::new(plan, children.clone())));
        if let Some(probe) = probe.clone() {
            Builder::new().name("probe".into()).spawn(move || probe.run())?;
        }
        let (desk, poller, shutdown) = (desk.clone(), poller.clone(), shutdown.clone());
        let readiness = Arc::new(Readiness { desk, poller, shutdown, probe });
        Builder::new().name("ready".into()).spawn(move || http::serve(&listener, &readiness))?;
    }
    let polls = poller.clone();
    Builder::new().name("status".into()).spawn(move || polls.run())?;
    // This thread is started now, so that the shutdown works even when no thread can be created any more.
    let stop = Stop { argv: args.stop, timeout: args.stop_timeout };
    let (ending, closing, left) = (shutdown.clone(), desk.clone(), served.clone());
    let reaped = children.clone();
    Builder::new().name("shutdown".into()).spawn(move || {
        ending.wait();
        shutdown::carry_out(&ending, &closing, &reaped, &stop);
        // Clients that were just answered get a moment to print the answer.
        let limit = Instant::now() + Duration::from_millis(500);
        while left.load(Ordering::SeqCst) > 0 && Instant::now() < limit {
            sleep(Duration::from_millis(10));
        }
        log("ended");
        std::process::exit(0);
    })?;
    let listener = listen_for_clients(&args.state)?;
    Builder::new().name("clients".into()).spawn(move || accept(&listener, &desk, &served))?;

    children.reap();
    for signal in signals.forever() {
        match signal {
            SIGCHLD if children.reap() => poller.stir(),
            SIGCHLD => {}
            _ => shutdown.begin(),
        }
    }
    Ok(())
}

/// The signals that begin the shutdown. The kubelet sends the STOPSIGNAL of the image, which can be any: INT (postgres), QUIT (nginx), USR1
/// (haproxy), WINCH (httpd; not with a terminal, where it means that a window was resized), RTMIN+3 (systemd).
fn stop_signals() -> &'static [i32] {
    let signals = &[SIGTERM, SIGINT, SIGQUIT, SIGUSR1, 37, SIGWINCH];
    if io::stdin().is_terminal() { signals.split_last().map_or(&[], |(_, rest)| rest) } else { signals }
}

/// Locks the state directory: two containers must not share one, because each would believe that the tokens are its own.
fn lock_state(state: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(state.join("lock"))?;
    file.try_lock().map_err(|_| io::Error::other("another tanist-run serves this state directory"))?;
    Ok(file)
}

fn listen_for_clients(state: &Path) -> io::Result<UnixListener> {
    let path = state.join(SOCKET);
    // The directory is locked, so an existing socket was left by an earlier incarnation.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    // Only this process's user may send commands: an application that dropped its rights must not get them back this way.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn incarnation() -> String {
    match fs::read_to_string("/proc/sys/kernel/random/uuid") {
        Ok(uuid) => uuid.trim().to_owned(),
        Err(_) => format!("{}-{:?}", std::process::id(), std::time::SystemTime::now()).replace([' ', '\n'], ""),
    }
}

fn accept(listener: &UnixListener, desk: &Arc<Desk>, served: &Arc<AtomicUsize>) {
    loop {
        let Ok((stream, _)) = listener.accept() else {
            sleep(Duration::from_millis(100));
            continue;
        };
        if served.fetch_add(1, Ordering::SeqCst) >= CLIENTS {
            // The client gets no answer and reports unknown.
            served.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (desk, done) = (desk.clone(), served.clone());
        let spawned = Builder::new().name("client".into()).spawn(move || {
            let _ = attend(stream, &desk);
            done.fetch_sub(1, Ordering::SeqCst);
        });
        if spawned.is_err() {
            served.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn attend(mut stream: UnixStream, desk: &Arc<Desk>) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_TIME))?;
    stream.set_write_timeout(Some(REQUEST_TIME))?;
    let request = read_request(&mut stream)?;
    match desk.answer(request, &|| gone(&stream)) {
        Some(frame) => stream.write_all(&frame.to_bytes()),
        None => Ok(()),
    }
}

/// Whether the client closed its end. Clients never close only one direction.
fn gone(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
