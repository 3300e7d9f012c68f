//! What the operator and the runner (`tanist-run`) say to each other, written once.
//!
//! The operator executes the runner's client in a container ([`call`], by the names in [`options`] and the places in [`place`]). The client asks
//! process 1 and prints a frame ([`frame`]), to which it may add words that only clients print ([`printed`]).
//!
//! # Promises
//! 1. **What is written is read.** Both directions of every form are in this crate, and tests write and read.
//! 2. **An answer that was cut is no answer.** Lengths and an end mark show it: no prefix of a frame is a frame.
//! 3. **A token starts at most once.** The rules of that ([`token`]) are those of the runner and of the simulator.
//! 4. **Versions differ.** The runner of a pod never changes, so an operator meets earlier and later ones (decision 0013). It passes over fields
//!    and features that it does not know, and a reason that it does not know stays a text.
//!
//! The bytes are those of the released version: a changed form would make an operator and a runner of different versions misunderstand each
//! other. How process 1 stores tokens, and what its socket speaks, is its own matter and not here.
pub mod call;
pub mod feature;
pub mod frame;
pub mod options;
pub mod outcome;
mod parts;
pub mod place;
pub mod printed;
pub mod token;
pub mod why;

/// Reads a number that consists of digits only; `parse` alone would also accept `+7`. `None`: it is none, or too large for its type.
#[must_use]
pub fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_digits_only() {
        assert_eq!(["0", "7", "255"].map(number::<u8>), [Some(0), Some(7), Some(255)]);
        for wrong in ["", "+7", "-7", " 7", "7 ", "0x7", "256", "seven"] {
            assert_eq!(number::<u8>(wrong), None, "{wrong:?}");
        }
    }
}
