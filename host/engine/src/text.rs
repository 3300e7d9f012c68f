//! Makes texts of policies safe to show.

use std::fmt::Write;

/// Bytes of a message: what a policy or the compiler says in an error.
pub(crate) const MESSAGE: usize = 1 << 10;

/// The text with control characters and those that change the direction of writing escaped.
pub(crate) fn printable(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unfit(character) {
            // Writing to a string does not fail.
            let _ = write!(out, "{}", character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// A printable text of at most so many bytes, cut at the end of a character.
pub(crate) fn short(text: &str, bytes: usize) -> String {
    let mut out = printable(text);
    if out.len() > bytes {
        let mut end = bytes.saturating_sub('…'.len_utf8());
        while !out.is_char_boundary(end) {
            end -= 1;
        }
        out.truncate(end);
        out.push('…');
    }
    out
}

/// As [`short`], for a text that most often needs no change: then it is not copied.
pub(crate) fn fit(text: String, bytes: usize) -> String {
    if text.len() <= bytes && is_plain(&text) { text } else { short(&text, bytes) }
}

/// Most texts are printable ASCII, which every terminal shows as it is.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Whether a text has characters that must not reach a terminal or a status as they are.
pub(crate) fn has_unfit(text: &str) -> bool {
    !is_plain(text) && text.chars().any(is_unfit)
}

/// Whether a character must not reach a terminal or a status as it is: a control character, or one that changes the direction of writing.
#[must_use]
pub fn is_unfit(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_move_a_cursor_is_escaped() {
        assert_eq!(printable("a\u{1b}[2J\n\u{202e}é"), "a\\u{1b}[2J\\u{a}\\u{202e}é");
    }

    #[test]
    fn long_texts_are_cut_at_the_end_of_a_character() {
        assert_eq!(short("abc", 3), "abc");
        assert_eq!(short("ééé", 5), "é…");
    }

    #[test]
    fn a_text_that_is_kept_as_it_is_is_no_exception() {
        for text in ["plain", "longer than ten bytes", "a\u{1b}b", "é\u{202e}é", ""] {
            assert_eq!(fit(text.to_owned(), 10), short(text, 10), "{text:?}");
        }
    }

    #[test]
    fn what_would_be_escaped_is_unfit() {
        for text in ["plain", "é", "a\u{1b}b", "\u{202e}", "\n", ""] {
            assert_eq!(has_unfit(text), printable(text) != text, "{text:?}");
        }
    }
}
