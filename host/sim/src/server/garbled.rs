//! What a `sequence` prints that is no position (docs/safety.md, S11).

/// How many kinds of it there are.
pub const KINDS: u64 = 12;

/// What is printed. `kind`: below [`KINDS`].
pub fn sequence(kind: u64) -> Vec<u8> {
    match kind {
        0 => Vec::new(),
        1 => b"\n".to_vec(),
        2 => b"-1\n".to_vec(),
        3 => b"h:1.5\n".to_vec(),
        4 => b"18446744073709551616\n".to_vec(),
        5 => b"h:7\nh:8\n".to_vec(),
        6 => b"h:7\0\n".to_vec(),
        7 => b"the log is locked\n".to_vec(),
        8 => b":7\n".to_vec(),
        9 => b"\xff\xfe7\x000\x00".to_vec(),
        10 => vec![b'9'; 70_000],
        _ => b"h:0x1f\n".to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanist_core::data::read_sequence;

    #[test]
    fn none_of_it_is_a_position() {
        for kind in 0..KINDS {
            assert!(read_sequence(&sequence(kind)).is_err(), "{kind}");
        }
        assert!(read_sequence(b"h:7\n").is_ok());
    }
}
