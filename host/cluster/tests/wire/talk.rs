//! One conversation as the server leads it: the bytes, where they end, and what a careful client may conclude from them.
use std::fmt::Write;

/// In place of the accept key, which depends on the client's key and has as many bytes.
pub const ACCEPT: &str = "<accept key of this client.>";

/// Bytes of output that the client keeps.
pub const KEPT: usize = 96 * 1024;

/// What some bytes mean once they have arrived whole.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Standard output.
    Stdout(Vec<u8>),
    /// Standard error.
    Stderr,
    /// The end of the execution, as the server tells it.
    Ended(Said),
    /// From here on nothing counts.
    Breaks,
}

/// How the server says that an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// It exited with this code.
    Exited(i32),
    /// It was not started.
    NotStarted,
    /// The program is missing, which is no explanation if it printed something.
    Missing,
    /// Nothing that proves anything.
    Unclear,
}

/// Some bytes of the server.
#[derive(Debug, Clone)]
pub struct Piece {
    /// What they are, for people.
    pub what: String,
    pub bytes: Vec<u8>,
    pub effect: Effect,
}

/// What the server does after its last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It ends the connection in order.
    Close,
    /// It resets the connection.
    Reset,
    /// It says nothing more until the client goes.
    Silence,
    /// It says the rest byte by byte, so slowly that the client's deadline comes before.
    Trickle,
}

/// A conversation.
#[derive(Debug, Clone)]
pub struct Talk {
    /// What goes wrong in it. Empty: nothing.
    pub faults: Vec<&'static str>,
    /// Nobody listens at the address.
    pub refused: bool,
    pub pieces: Vec<Piece>,
    /// How many bytes of the pieces are sent before the end.
    pub sent: usize,
    pub end: End,
    /// The most bytes that are written at a time.
    pub step: usize,
}

/// What the client has to conclude.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owed {
    /// That it is unknown.
    Unknown,
    /// That it exited with this code and printed this.
    Exited(i32, Vec<u8>),
    /// That it was not started.
    NotStarted,
}

impl Talk {
    /// The pieces, all of which are sent, and then the connection is closed.
    pub fn new(pieces: Vec<Piece>) -> Self {
        let sent = pieces.iter().map(|piece| piece.bytes.len()).sum();
        Talk { faults: Vec::new(), refused: false, pieces, sent, end: End::Close, step: usize::MAX }
    }

    /// All bytes, sent or not.
    pub fn bytes(&self) -> Vec<u8> {
        self.pieces.iter().flat_map(|piece| piece.bytes.iter().copied()).collect()
    }

    /// What the bytes that are sent prove. A trickle may bring all of them.
    pub fn owed(&self) -> Owed {
        let (mut at, mut stdout, mut printed) = (0, Vec::new(), false);
        for piece in &self.pieces {
            at += piece.bytes.len();
            if at > self.sent && self.end != End::Trickle || self.refused {
                break;
            }
            match &piece.effect {
                Effect::Nothing => {}
                Effect::Stdout(bytes) => stdout.extend_from_slice(bytes),
                Effect::Stderr => printed = true,
                Effect::Breaks | Effect::Ended(Said::Unclear) => break,
                Effect::Ended(Said::Exited(code)) => return Owed::Exited(*code, stdout),
                Effect::Ended(Said::Missing) if printed || !stdout.is_empty() => break,
                Effect::Ended(Said::NotStarted | Said::Missing) => return Owed::NotStarted,
            }
        }
        Owed::Unknown
    }

    /// Whether the client must conclude it. A reset may destroy what was sent before it.
    pub fn is_sure(&self) -> bool {
        !matches!(self.end, End::Reset | End::Trickle)
    }

    /// Whether the client needs its deadline to come to an end.
    pub fn is_slow(&self) -> bool {
        self.end == End::Trickle || self.end == End::Silence && self.owed() == Owed::Unknown
    }

    /// Who says what, for people.
    pub fn transcript(&self) -> String {
        let (mut text, mut left) = (String::new(), self.sent);
        if self.refused {
            text.push_str("  server: (nobody listens)\n");
        }
        for Piece { what, bytes, effect } in &self.pieces {
            let (now, later) = bytes.split_at(left.min(bytes.len()));
            left -= now.len();
            if !now.is_empty() {
                let _ = writeln!(text, "  server: {what}: {}", shown(now));
            }
            if !later.is_empty() {
                let meant = if matches!(effect, Effect::Nothing) { "" } else { ", which would count" };
                let _ = writeln!(text, "  server: (not sent{meant}: {what}: {})", shown(later));
            }
        }
        let _ =
            writeln!(text, "  server: (after {} bytes: {:?}; at most {} at a time)", self.sent, self.end, self.step);
        text
    }
}

/// Bytes as text, the middle of many left out.
fn shown(bytes: &[u8]) -> String {
    let (head, tail) = bytes.split_at(bytes.len().min(700));
    let more = if tail.is_empty() { String::new() } else { format!(" ... and {} bytes", tail.len()) };
    format!("{}{more}", head.escape_ascii())
}
