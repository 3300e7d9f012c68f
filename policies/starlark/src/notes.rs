//! What a script prints, for the notes of the decision.

use std::cell::RefCell;

use starlark::PrintHandler;

/// Notes of one question; the contract allows 32.
const NOTES: usize = 32;
/// Bytes of a note.
const BYTES: usize = 256;

thread_local! {
    static PRINTED: RefCell<(Vec<String>, usize)> = const { RefCell::new((Vec::new(), 0)) };
}

/// Keeps what is printed. The last note says how many were left out.
#[derive(Debug)]
pub struct Printer;

impl PrintHandler for Printer {
    fn println(&self, text: &str) -> starlark::Result<()> {
        PRINTED.with_borrow_mut(|(notes, left_out)| {
            if notes.len() < NOTES - 1 {
                notes.push(cut(text, BYTES));
            } else {
                *left_out += 1;
            }
        });
        Ok(())
    }
}

/// What was printed.
pub fn take() -> Vec<String> {
    PRINTED.with_borrow_mut(|(notes, left_out)| {
        if *left_out > 0 {
            notes.push(format!("{left_out} more, {} are kept", NOTES - 1));
            *left_out = 0;
        }
        std::mem::take(notes)
    })
}

/// The text, cut at the end of a character so that it has at most so many bytes.
pub fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut end = bytes.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut short = text.get(..end).unwrap_or_default().to_owned();
    short.push('…');
    short
}
