//! Where a policy trapped: the names of the functions that were running.
//!
//! A component has them if its custom section `name` was kept. They are hostile text: of each at most so many bytes are read and written, and what is shown
//! is made printable by the caller.

use std::fmt::{self, Write};

use wasmtime::WasmBacktrace;

/// Bytes of a name as it stands in the component. A longer one is shown as it is, cut.
const MANGLED: usize = 2 << 10;

/// Bytes of a name that is shown.
const NAME: usize = 128;

/// Functions that are named, the innermost first.
const NAMED: usize = 3;

/// How the names begin that tell an author nothing: what Rust calls on the way from a panic to the trap, and what calls the policy.
const OF_THE_TOOLCHAIN: [&str; 12] = [
    "core::",
    "alloc::",
    "std::",
    "<core::",
    "<alloc::",
    "<std::",
    "__rust",
    "rust_",
    "abort",
    "cabi_",
    "tanist_policy::",
    "<tanist_policy::",
];

/// `: in pick, called by <Mine as Policy>::seed`. Empty: the component names no function.
pub(crate) fn place(error: &wasmtime::Error) -> String {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return String::new() };
    let names: Vec<_> = backtrace.frames().iter().filter_map(|frame| frame.func_name()).map(readable).collect();
    let own: Vec<_> = names.iter().filter(|name| !is_of_the_toolchain(name)).take(NAMED).map(String::as_str).collect();
    match own.as_slice() {
        [] => names.first().map(|name| format!(": in {name}")).unwrap_or_default(),
        own => format!(": in {}", own.join(", called by ")),
    }
}

fn is_of_the_toolchain(name: &str) -> bool {
    OF_THE_TOOLCHAIN.iter().any(|begin| name.starts_with(begin))
}

/// The name as its author wrote it, without the hash that Rust appends, and at most [`NAME`] bytes of it.
fn readable(name: &str) -> String {
    let mut out = Cut(String::new());
    let written =
        if name.len() <= MANGLED { write!(out, "{:#}", rustc_demangle::demangle(name)) } else { out.write_str(name) };
    if written.is_err() {
        out.0.push('…');
    }
    out.0
}

/// Takes [`NAME`] bytes and refuses the rest, so that a short name that stands for a long one ends early.
struct Cut(String);

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut fits = text.len().min(NAME.saturating_sub(self.0.len()));
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        self.0.push_str(text.get(..fits).unwrap_or_default());
        if fits < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_they_were_written() {
        assert_eq!(readable("_ZN4mine4pick17h05af221e174051e9E"), "mine::pick");
        assert_eq!(readable("_RNvC4mine4pick"), "mine::pick");
        assert_eq!(readable("pick"), "pick");
    }

    #[test]
    fn a_long_name_is_cut_at_the_end_of_a_character() {
        assert_eq!(readable(&"x".repeat(NAME)), "x".repeat(NAME));
        for long in [NAME + 1, MANGLED + 1] {
            assert_eq!(readable(&"x".repeat(long)), format!("{}…", "x".repeat(NAME)));
        }
        let cut = readable(&format!("x{}", "é".repeat(NAME)));
        assert!(cut.ends_with("é…") && cut.len() <= NAME + '…'.len_utf8(), "{cut}");
    }

    /// Each of these tuples names the one before it twice: some two hundred bytes that stand for 2^30 names.
    #[test]
    fn a_short_name_that_stands_for_a_long_one_ends_early() {
        let mut types = vec!["ThhE".to_owned()];
        let begin = "INvC1a1f";
        let mut last = begin.len();
        for _ in 0..30 {
            let place = last + types.last().unwrap().len();
            types.push(format!("T{0}{0}E", reference(last)));
            last = place;
        }
        let shown = readable(&format!("_R{begin}{}E", types.concat()));
        assert!(shown.starts_with("a::f::<(u8, u8), ((u8, u8), (u8, u8)), ") && shown.ends_with('…'), "{shown}");
        assert!(shown.len() <= NAME + '…'.len_utf8());
    }

    /// A reference to what stands at that place of a name.
    fn reference(place: usize) -> String {
        let (mut rest, mut digits) = (place - 1, Vec::new());
        loop {
            digits.push(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[rest % 62]);
            if rest < 62 {
                break;
            }
            rest /= 62;
        }
        digits.reverse();
        format!("B{}_", String::from_utf8(digits).unwrap())
    }
}
