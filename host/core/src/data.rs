//! How recent data is: parsing the output of `sequence` and comparing positions.
use crate::contract::{Position, Sequence};
use crate::limits;
use std::cmp::Ordering;

/// Parses the output of the `sequence` command (A5; docs/requirements.md, reading 3; docs/safety.md, S11): exactly one line, `EMPTY` or
/// `[HISTORY:]NUMBER`, with white space around it dropped. Everything else is an error, never a number.
///
/// # Errors
/// A sentence that says what is wrong with the output. It never repeats the output, which may hold secrets.
pub fn read_sequence(stdout: &[u8]) -> Result<Position, String> {
    if stdout.len() > limits::SEQUENCE_BYTES {
        return Err(format!(
            "sequence printed {} bytes; one line of at most {} is read",
            stdout.len(),
            limits::SEQUENCE_BYTES
        ));
    }
    let text = std::str::from_utf8(stdout).map_err(|_| "sequence printed bytes that are not UTF-8".to_owned())?;
    let line = text.trim_matches([' ', '\t', '\r', '\n']);
    if line.is_empty() {
        return Err("sequence printed nothing; print EMPTY for a member without data".to_owned());
    }
    if line.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("sequence printed more than one word; print EMPTY or [HISTORY:]NUMBER alone".to_owned());
    }
    if line == "EMPTY" {
        return Ok(Position::Empty);
    }
    let (history, digits) = match line.rsplit_once(':') {
        Some(("", _)) => return Err("sequence printed an empty history before the colon".to_owned()),
        Some((history, _)) if history.len() > limits::HISTORY_BYTES => {
            return Err(format!(
                "sequence printed a history of {} bytes before the colon; at most {} are read",
                history.len(),
                limits::HISTORY_BYTES
            ));
        }
        Some((history, digits)) => (Some(history.to_owned()), digits),
        None => (None, line),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("sequence printed something that is not an unsigned decimal number".to_owned());
    }
    let number = digits.parse().map_err(|_| "sequence printed a number above 18446744073709551615".to_owned())?;
    Ok(Position::Known(Sequence { history, number }))
}

/// Compares two points of data: term first, then numbers, but only within one history. `None`: they cannot be compared.
#[must_use]
pub fn compare(a: (u64, &Sequence), b: (u64, &Sequence)) -> Option<Ordering> {
    match a.0.cmp(&b.0) {
        Ordering::Equal if a.1.history == b.1.history => Some(a.1.number.cmp(&b.1.number)),
        Ordering::Equal => None,
        other => Some(other),
    }
}

/// How far the first is above the second, in the units of `sequence`; 0 if it is below or equal. `None`: their histories differ.
#[must_use]
pub fn ahead(top: &Sequence, own: &Sequence) -> Option<u64> {
    (top.history == own.history).then(|| top.number.saturating_sub(own.number))
}

/// The text of a position as users see it.
#[must_use]
pub fn show_position(position: &Position) -> String {
    match position {
        Position::Known(sequence) => sequence.to_string(),
        Position::Empty => "EMPTY".into(),
        Position::Unknown(why) => format!("unknown: {why}"),
        Position::NotAsked => "not asked".into(),
    }
}

/// Whether data of that position has everything up to that sequence of the same term.
#[must_use]
pub fn has_reached(position: &Position, floor: &Sequence) -> bool {
    let Position::Known(own) = position else { return false };
    matches!(compare((0, own), (0, floor)), Some(Ordering::Equal | Ordering::Greater))
}
