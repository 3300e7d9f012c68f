//! What every text for users has to be, whatever it is about.

/// What only a debug dump of Rust's has.
const DUMPS: [&str; 12] = [
    "Some(",
    "Ok(",
    "Err(",
    "Error(",
    "Error {",
    "Utf8Error",
    "String(",
    "Object {",
    "Number(",
    "PoisonError",
    "{:?}",
    "}, ",
];

/// How many bytes a byte of the input has at most where it is quoted: `\u{7f}` for one.
pub const ESCAPED: usize = 6;

/// The text is a sentence of at most so many bytes, on one line, without a dump of the program's types. `given`: the input, which a text may quote.
pub fn check(text: &str, longest: usize, given: &[u8]) {
    assert!(!text.trim().is_empty(), "a refusal says nothing");
    assert!(text.len() <= longest, "a text of {} bytes, {longest} are allowed: {:.400}", text.len(), text);
    let odd = text.chars().find(|c| c.is_control());
    assert!(odd.is_none(), "a text has the control character {odd:?}: {text:?}");
    for dump in DUMPS {
        let is_quoted = given.windows(dump.len()).any(|window| window == dump.as_bytes());
        assert!(is_quoted || !text.contains(dump), "a text has {dump:?}: {text}");
    }
}

/// What a condition of a group makes of a text: it has no control characters.
#[must_use]
pub fn shown(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// An error with all its causes, as users see it.
#[must_use]
pub fn whole(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}
