//! The parts of a frame as they stand in the bytes. Everything that reads frames begins here.
use crate::feature::Features;
use crate::frame::{END, VERSION};
use crate::number;
use crate::outcome::Outcome;
use std::time::Duration;

/// The parts of one frame.
#[derive(Debug)]
pub(crate) struct Parts<'b> {
    /// The token; may be empty.
    pub token: &'b str,
    /// What is known of the command.
    pub outcome: Outcome,
    /// The beginning of stdout.
    pub stdout: &'b [u8],
    /// The beginning of stderr.
    pub stderr: &'b [u8],
    /// Whether the output was cut.
    pub cut: bool,
    /// The number of processes. Absent: it was not said, or is no number.
    pub processes: Option<u32>,
    /// The time from the start of the client to the request. Absent: it was not said, or is no number.
    pub after: Option<Duration>,
    /// The token of the command that ran. Absent: none ran, or it was not said.
    pub running: Option<&'b str>,
    /// The features. Empty: none were said.
    pub features: Features,
}

/// Reads the first frame and returns what follows it. Fields may be missing, in any order, and more than this version knows, because versions of
/// runners differ. `None`: the frame is incomplete or none.
pub(crate) fn first(bytes: &[u8]) -> Option<(Parts<'_>, &[u8])> {
    let end = bytes.iter().position(|b| *b == b'\n')?;
    let (head, body) = bytes.split_at_checked(end)?;
    let mut words = std::str::from_utf8(head).ok()?.split(' ');
    if words.next()? != VERSION {
        return None;
    }
    let token = words.next()?;
    let outcome = Outcome::read(words.next()?)?;
    let (mut out, mut err, mut cut, mut processes, mut after) = (0_usize, 0_usize, false, None, None);
    let (mut running, mut features) = (None, Features::default());
    for word in words {
        let (key, value) = word.split_once('=')?;
        match key {
            "stdout" => out = number(value)?,
            "stderr" => err = number(value)?,
            "cut" => cut = value != "0",
            "processes" => processes = number(value),
            "after" => after = number(value).map(Duration::from_millis),
            "running" => running = Some(value).filter(|token| !token.is_empty()),
            "features" => features = Features::said(value),
            // A field of a later runner.
            _ => {}
        }
    }
    let (stdout, rest) = body.get(1..)?.split_at_checked(out)?;
    let (stderr, rest) = rest.split_at_checked(err)?;
    let rest = rest.strip_prefix(format!("\n{END} {token}\n").as_bytes())?;
    Some((Parts { token, outcome, stdout, stderr, cut, processes, after, running, features }, rest))
}
