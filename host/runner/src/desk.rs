//! Answers requests: one command at a time, each token once.
use crate::children::{Children, Purpose, read_exit};
use crate::command::{self, Order};
use crate::limits::CLIENT_CHECK;
use crate::shutdown::Shutdown;
use crate::status::{Poller, Quiet};
use crate::tokens::{Record, Tokens, Writer};
use crate::wire::{Exec, IfSequence, Request};
use crate::{lock, log, wait_until};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;
use tanist_protocol::call::Expect;
use tanist_protocol::frame::{Frame, NO_TOKEN};
use tanist_protocol::outcome::Outcome;
use tanist_protocol::token::{self, Answer, Now, Settled, Start, Store, Stored, Turn};
use tanist_protocol::why::Word;

/// Answers the requests of clients.
#[derive(Debug)]
pub struct Desk {
    writer: Writer,
    tokens: Tokens,
    children: Arc<Children>,
    poller: Arc<Poller>,
    shutdown: Arc<Shutdown>,
    /// Also held during access to the durable store, so that no request comes between "the token is unknown" and "the token is void".
    slot: Mutex<Slot>,
    freed: Condvar,
    /// Never held during slow operations, so that readiness answers even if a disk hangs.
    board: Mutex<Board>,
}

#[derive(Debug, Default)]
struct Slot {
    current: Option<(String, Arc<Done>)>,
    /// Results that could not be written to the disk.
    unsaved: BTreeMap<String, Frame>,
}

/// A result that others may wait for.
#[derive(Debug, Default)]
struct Done {
    frame: Mutex<Option<Frame>>,
    set: Condvar,
}

/// What readiness needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    /// The expected state of the application.
    pub expect: Expect,
    /// Whether a command runs.
    pub busy: bool,
    /// Whether that command will change the expectation.
    pub changing: bool,
}

impl Desk {
    /// A desk without a command. A new incarnation expects a stopped application, because its processes ended with the last incarnation.
    pub fn new(
        writer: Writer,
        tokens: Tokens,
        children: Arc<Children>,
        poller: Arc<Poller>,
        shutdown: Arc<Shutdown>,
    ) -> Desk {
        Desk {
            writer,
            tokens,
            children,
            poller,
            shutdown,
            slot: Mutex::default(),
            freed: Condvar::new(),
            board: Mutex::new(Board { expect: Expect::Stopped, busy: false, changing: false }),
        }
    }

    /// Answers one request; `None` if the client is gone meanwhile.
    pub fn answer(self: &Arc<Self>, request: Request, gone: &dyn Fn() -> bool) -> Option<Frame> {
        match request {
            Request::Exec(exec) => self.exec(exec, gone),
            Request::Settle { token, uid } => Some(self.settle(&token, &uid)),
            Request::Status { uid } if uid != self.writer.uid => {
                Some(self.bare(NO_TOKEN, Outcome::NotStarted(Word::WrongUid.into())))
            }
            Request::Status { .. } => {
                // A command that ends while the poll runs may take effect after the poll has looked.
                let before = self.running();
                let status = self.poller.fresh(None, gone)?;
                Some(Frame { running: before.or_else(|| self.running()), ..status })
            }
        }
    }

    /// The token of the command that runs, or is about to.
    fn running(&self) -> Option<String> {
        lock(&self.slot).current.as_ref().map(|(token, _)| token.clone())
    }

    /// What readiness needs to know.
    pub fn board(&self) -> Board {
        *lock(&self.board)
    }

    /// Waits until the running command has ended. No new one starts, because the shutdown has begun.
    pub fn close(&self, until: Instant) {
        // `claim` checks the shutdown under this lock, so a command that was claimed before is seen here.
        let mut slot = lock(&self.slot);
        while slot.current.is_some() && Instant::now() < until {
            slot = wait_until(&self.freed, slot, until);
        }
        lock(&self.board).busy = true;
    }

    fn exec(self: &Arc<Self>, exec: Exec, gone: &dyn Fn() -> bool) -> Option<Frame> {
        let accepted = Instant::now();
        let token = exec.token.clone();
        let (done, mine) = match self.claim(&exec) {
            Ok(claimed) => claimed,
            Err(frame) => return Some(*frame),
        };
        if mine {
            // The command has a thread of its own, so that it goes on if the client goes away.
            let desk = self.clone();
            let result = done.clone();
            let worker = std::thread::Builder::new().name("command".into());
            if worker.spawn(move || desk.carry_out(&exec, accepted, &result)).is_err() {
                let frame = self.refusal(&token, Word::NoResources);
                self.release();
                done.set(&frame);
            }
        }
        done.wait(gone)
    }

    /// The run of this token to wait for, and whether the caller has to carry it out.
    ///
    /// # Errors
    /// The answer, if nothing has to be run.
    fn claim(&self, exec: &Exec) -> Result<(Arc<Done>, bool), Box<Frame>> {
        let token = exec.token.as_str();
        let mut slot = lock(&self.slot);
        let start = Start {
            token,
            uid: &exec.uid,
            has_program: !exec.argv.is_empty(),
            lacks_status: exec.if_status.is_some() && !self.poller.can_poll(),
        };
        let turn = self.now(&slot, &self.stored(&slot)).start(&start);
        match (turn, &slot.current) {
            (Turn::Run, None) => {}
            (Turn::Join, Some((_, done))) => return Ok((done.clone(), false)),
            (Turn::Answer(answer), _) => {
                if answer == Answer::Outcome(Outcome::NotStarted(Word::TokensFull.into())) {
                    log("no room for further tokens: the pod has to be replaced");
                }
                return Err(Box::new(answer.into_frame(token, || self.count(None))));
            }
            // The rules say neither; beside a command that runs nothing may start.
            (Turn::Run, Some(_)) | (Turn::Join, None) => return Err(Box::new(self.refusal(token, Word::Busy))),
        }
        let done = Arc::new(Done::default());
        slot.current = Some((token.to_owned(), done.clone()));
        lock(&self.board).busy = true;
        Ok((done, true))
    }

    fn stored<'a>(&'a self, slot: &'a Slot) -> Shelf<'a> {
        Shelf { unsaved: &slot.unsaved, tokens: &self.tokens, incarnation: &self.writer.incarnation }
    }

    fn now<'a>(&'a self, slot: &'a Slot, store: &'a Shelf<'a>) -> Now<'a, Shelf<'a>> {
        let running = slot.current.as_ref().map(|(token, _)| token.as_str());
        Now { uid: &self.writer.uid, running, ending: self.shutdown.began().is_some(), store }
    }

    fn carry_out(&self, exec: &Exec, accepted: Instant, done: &Done) {
        let deadline = accepted + exec.deadline;
        let quiet = match self.admit(exec, deadline, done) {
            Ok(quiet) => quiet,
            Err(frame) => {
                self.release();
                return done.set(&frame);
            }
        };
        let order = Order {
            argv: &exec.argv,
            env: &exec.env,
            purpose: Purpose::Command,
            deadline,
            shutdown: Some(&self.shutdown),
            to_log: false,
        };
        let ran = command::run(&self.children, &order);
        let frame = Frame {
            token: exec.token.clone(),
            outcome: ran.outcome,
            stdout: ran.stdout.kept,
            stderr: ran.stderr.kept,
            cut: ran.stdout.cut || ran.stderr.cut,
            processes: self.count(ran.group),
            running: None,
        };
        command::carry_to_log(ran.held);
        if self.tokens.finish(&exec.token, &self.writer, exec.argv.len(), &frame).is_err() {
            log("a result could not be stored; it is kept in memory");
            lock(&self.slot).unsaved.insert(exec.token.clone(), frame.clone());
        }
        log(&format!("token {}: {}", exec.token, frame.outcome));
        if let Some(exit) = ran.unreaped {
            // The answer does not wait for the kernel, but the next command does.
            done.set(&frame);
            read_exit(&exit);
        }
        drop(quiet);
        // A command of unknown outcome may have worked, so its expectation is set, and `status` decides.
        if let (Some(expect), Outcome::Exited(0) | Outcome::Unknown(_)) = (exec.expect, &frame.outcome) {
            lock(&self.board).expect = expect;
        }
        self.release();
        self.poller.hurry();
        done.set(&frame);
    }

    /// Checks everything that has to hold before argv starts, and records the token last, so that a refusal leaves the token unused. No other
    /// command can start between these checks and argv.
    fn admit(&self, exec: &Exec, deadline: Instant, done: &Done) -> Result<Option<Quiet<'_>>, Box<Frame>> {
        // No poll runs beside a sequence command, even without `--quiet-status`.
        let mut quiet = (exec.quiet || exec.if_sequence.is_some()).then(|| self.poller.quiet());
        if let Some(codes) = &exec.if_status {
            self.check_status(&exec.token, codes, quiet.as_ref(), deadline)?;
        }
        let late = || Instant::now() >= deadline;
        if quiet.as_ref().is_some_and(|quiet| !quiet.begins(deadline)) || late() {
            return Err(Box::new(self.refusal(&exec.token, Word::Deadline)));
        }
        if let Some(look) = &exec.if_sequence {
            self.check_sequence(exec, look, deadline, done)?;
        }
        if !exec.quiet {
            quiet = None;
        }
        lock(&self.board).changing = exec.expect.is_some();
        if self.tokens.start(&exec.token, &self.writer, exec.argv.len()).is_err() {
            return Err(Box::new(self.refusal(&exec.token, Word::Storage)));
        }
        Ok(quiet)
    }

    /// A poll that begins from now on has to exit with one of these codes; in a quiet time no other poll follows it.
    fn check_status(
        &self,
        token: &str,
        codes: &[u8],
        quiet: Option<&Quiet<'_>>,
        deadline: Instant,
    ) -> Result<(), Box<Frame>> {
        let ending = || self.shutdown.began().is_some();
        let status = self.poller.fresh(quiet, &|| Instant::now() >= deadline || ending());
        if ending() {
            return Err(Box::new(self.refusal(token, Word::ShuttingDown)));
        }
        let Some(status) = status else { return Err(Box::new(self.refusal(token, Word::Deadline))) };
        token::status_fits(&status.outcome, codes).map_err(|unfit| Box::new(unfit.into_frame(token, self.count(None))))
    }

    /// The sequence command, run now, has to print the expected position.
    fn check_sequence(&self, exec: &Exec, look: &IfSequence, deadline: Instant, done: &Done) -> Result<(), Box<Frame>> {
        let token = exec.token.as_str();
        let order = Order {
            argv: &look.argv,
            env: &exec.env,
            purpose: Purpose::Command,
            deadline: deadline.min(Instant::now() + look.deadline),
            shutdown: Some(&self.shutdown),
            to_log: false,
        };
        let ran = command::run(&self.children, &order);
        command::carry_to_log(ran.held);
        if self.shutdown.began().is_some() {
            return Err(Box::new(self.refusal(token, Word::ShuttingDown)));
        }
        let stdout = ran.stdout;
        let frame = match token::position_fits(&ran.outcome, &stdout.kept, stdout.cut, &look.expected) {
            _ if Instant::now() >= deadline => self.refusal(token, Word::Deadline),
            Ok(()) => return Ok(()),
            Err(unfit) => unfit.into_frame(token, self.count(None)),
        };
        if let Some(exit) = ran.unreaped {
            // As after a command: the answer does not wait for the kernel, but the next command does.
            done.set(&frame);
            read_exit(&exit);
        }
        Err(Box::new(frame))
    }

    /// Allows the next command. This comes before the answer, so that a client that has the answer is not refused as busy.
    fn release(&self) {
        lock(&self.slot).current = None;
        let mut board = lock(&self.board);
        board.busy = false;
        board.changing = false;
        self.freed.notify_all();
    }

    fn settle(&self, token: &str, uid: &str) -> Frame {
        // The lock is held until the token is void on the disk, so no exec of it can come in between.
        let slot = lock(&self.slot);
        let answer = match self.now(&slot, &self.stored(&slot)).settle(token, uid) {
            Settled::Answer(answer) => answer,
            Settled::MakeVoid => Answer::Outcome(match self.tokens.void(token, &self.writer) {
                Ok(()) => Outcome::Void,
                Err(_) => Outcome::Unknown(Word::Storage.into()),
            }),
        };
        answer.into_frame(token, || self.count(None))
    }

    fn refusal(&self, token: &str, why: Word) -> Frame {
        self.bare(token, Outcome::NotStarted(why.into()))
    }

    fn bare(&self, token: &str, outcome: Outcome) -> Frame {
        Frame::bare(token, outcome, self.count(None))
    }

    fn count(&self, group: Option<i32>) -> u32 {
        self.children.count_others(group)
    }
}

/// What is stored of tokens that do not run now, by this or an earlier incarnation.
struct Shelf<'a> {
    unsaved: &'a BTreeMap<String, Frame>,
    tokens: &'a Tokens,
    incarnation: &'a str,
}

impl Store for Shelf<'_> {
    fn look_up(&self, token: &str) -> Stored {
        if let Some(frame) = self.unsaved.get(token) {
            return Stored::Ended(frame.clone());
        }
        match self.tokens.look_up(token) {
            Ok(None) => Stored::Nothing,
            Ok(Some(Record::Result(frame))) => Stored::Ended(frame),
            Ok(Some(Record::Void)) => Stored::Void,
            Ok(Some(Record::Started(incarnation))) => Stored::Started { here: incarnation == self.incarnation },
            Ok(Some(Record::Used)) => Stored::Used,
            Err(_) => Stored::Unreadable,
        }
    }

    fn has_room(&self) -> Option<bool> {
        self.tokens.is_full().ok().map(|full| !full)
    }
}

impl Done {
    fn set(&self, frame: &Frame) {
        *lock(&self.frame) = Some(frame.clone());
        self.set.notify_all();
    }

    /// The result; `None` if the client is gone.
    fn wait(&self, gone: &dyn Fn() -> bool) -> Option<Frame> {
        let mut frame = lock(&self.frame);
        loop {
            if frame.is_some() {
                return frame.clone();
            }
            if gone() {
                return None;
            }
            frame = wait_until(&self.set, frame, Instant::now() + CLIENT_CHECK);
        }
    }
}
