//! What a `sequence` command prints, and the order of data.
use crate::sentence;
use std::cmp::Ordering;
use tanist_core::contract::{Position, Sequence};
use tanist_core::data::{ahead, compare, has_reached, read_sequence, show_position};
use tanist_core::limits::{HISTORY_BYTES, REASON_BYTES, SEQUENCE_BYTES};
use tanist_protocol::outcome::Outcome;
use tanist_protocol::token::position_fits;

/// The bytes as one output, and as several between zeros.
pub fn run(bytes: &[u8]) {
    read(bytes);
    let positions = bytes.split(|byte| *byte == 0).take(3).filter_map(read);
    let known: Vec<Sequence> =
        positions.filter_map(|p| if let Position::Known(s) = p { Some(s) } else { None }).collect();
    for a in &known {
        for b in &known {
            order(a, b);
            known.iter().for_each(|c| transitive(a, b, c));
        }
    }
}

/// Reads an output, and checks that it is printed as it was read, and that the runner takes it for the same position.
fn read(bytes: &[u8]) -> Option<Position> {
    let fits = |expected: &str| position_fits(&Outcome::Exited(0), bytes, false, expected).is_ok();
    match read_sequence(bytes) {
        Ok(position) => {
            assert!(bytes.len() <= SEQUENCE_BYTES);
            let printed = show_position(&position);
            assert_eq!(read_sequence(printed.as_bytes()).as_ref(), Ok(&position), "it is not read back: {printed}");
            let line = std::str::from_utf8(bytes).map(str::trim).unwrap_or_default();
            assert_eq!(printed, without_zeros(line), "it is printed as another one");
            assert!(fits(&printed), "the runner takes it for another position: {printed}");
            if let Position::Known(Sequence { history: Some(history), .. }) = &position {
                assert!((1..=HISTORY_BYTES).contains(&history.len()), "a history of {} bytes", history.len());
            }
            Some(position)
        }
        Err(why) => {
            sentence::check(&why, REASON_BYTES, bytes);
            // The runner compares what the operator has read before, so it need not count the bytes.
            let is_long = bytes.len() > SEQUENCE_BYTES;
            assert!(is_long || !fits("EMPTY") && !fits("0"), "the runner takes what is no position for one");
            let said = std::str::from_utf8(bytes).map(str::trim).unwrap_or_default();
            assert!(said.len() < 20 || !why.contains(said), "what was printed is repeated: {why}");
            None
        }
    }
}

/// The number without leading zeros.
fn without_zeros(line: &str) -> String {
    let (history, number) = line.rsplit_once(':').map_or(("", line), |(history, number)| (history, number));
    let bare = match number.trim_start_matches('0') {
        "" => "0",
        bare => bare,
    };
    let colon = if history.is_empty() { "" } else { ":" };
    if line == "EMPTY" { line.to_owned() } else { format!("{history}{colon}{bare}") }
}

/// Within one history the order is total and all ways to compare agree; between histories there is none in one term.
fn order(a: &Sequence, b: &Sequence) {
    let (first, second) = (compare((1, a), (1, b)), compare((1, b), (1, a)));
    assert_eq!(first, second.map(Ordering::reverse));
    assert_eq!(first.is_some(), a.history == b.history);
    assert_eq!(first == Some(Ordering::Equal), a == b);
    assert_eq!(has_reached(&Position::Known(a.clone()), b), matches!(first, Some(Ordering::Equal | Ordering::Greater)));
    assert_eq!(ahead(a, b).map(|by| by > 0), first.map(|order| order == Ordering::Greater));
    assert_eq!(compare((2, a), (1, b)), Some(Ordering::Greater), "the term comes first");
}

fn transitive(a: &Sequence, b: &Sequence, c: &Sequence) {
    let not_above = |a, b| matches!(compare((1, a), (1, b)), Some(Ordering::Less | Ordering::Equal));
    assert!(!(not_above(a, b) && not_above(b, c)) || not_above(a, c), "{a} {b} {c}");
}
