//! Reads parameters: the values of a flat JSON object.
//!
//! The host has checked the parameters against the schema and gives them in one fixed form, so this parser explains no errors: a value that is
//! absent, or of another type than requested, is `None`. Any text is safe to read.

use crate::Snapshot;

/// The parameters of a policy.
#[derive(Debug, Clone, Copy)]
pub struct Parameters<'a>(&'a str);

impl<'a> Parameters<'a> {
    /// The parameters of a snapshot.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        Self(&snapshot.parameters)
    }

    /// A text. `None`: absent, or not a text.
    pub fn text(self, key: &str) -> Option<String> {
        self.find(key)?.string()
    }

    /// A list of texts; empty if it is absent.
    pub fn texts(self, key: &str) -> Vec<String> {
        let mut texts = Vec::new();
        if let Some(mut reader) = self.find(key)
            && reader.eat(b'[')
        {
            while let Some(text) = reader.string() {
                texts.push(text);
                if !reader.eat(b',') {
                    break;
                }
            }
        }
        texts
    }

    /// A whole number. `None`: absent, or not a whole number.
    pub fn integer(self, key: &str) -> Option<i64> {
        self.raw(key)?.parse().ok()
    }

    /// A boolean. `None`: absent, or not a boolean.
    pub fn flag(self, key: &str) -> Option<bool> {
        self.raw(key)?.parse().ok()
    }

    /// The JSON text of a value, for types that the other functions do not read.
    pub fn raw(self, key: &str) -> Option<&'a str> {
        let mut reader = self.find(key)?;
        let start = reader.at;
        reader.skip()?;
        self.0.get(start..reader.at)
    }

    /// The keys of the outermost object, in their order, with the JSON texts of their values.
    #[cfg(feature = "serde")]
    pub(crate) fn entries(self) -> Entries<'a> {
        Entries { text: self.0, reader: Reader { text: self.0, at: 0 } }
    }

    /// A reader at the value of a key of the outermost object.
    fn find(self, key: &str) -> Option<Reader<'a>> {
        let mut reader = Reader { text: self.0, at: 0 };
        if !reader.eat(b'{') {
            return None;
        }
        loop {
            let found = reader.string()?;
            if !reader.eat(b':') {
                return None;
            }
            reader.white();
            if found == key {
                return Some(reader);
            }
            reader.skip()?;
            if !reader.eat(b',') {
                return None;
            }
        }
    }
}

/// The iterator that [`Parameters::entries`] returns.
#[cfg(feature = "serde")]
pub(crate) struct Entries<'a> {
    text: &'a str,
    reader: Reader<'a>,
}

#[cfg(feature = "serde")]
impl<'a> Iterator for Entries<'a> {
    type Item = (String, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let reader = &mut self.reader;
        // The brace before the first key, and the comma before every other one.
        let before = if reader.at == 0 { b'{' } else { b',' };
        if !reader.eat(before) {
            return None;
        }
        let key = reader.string()?;
        if !reader.eat(b':') {
            return None;
        }
        reader.white();
        let start = reader.at;
        reader.skip()?;
        Some((key, self.text.get(start..reader.at)?))
    }
}

/// A place in a JSON text.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn white(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.white();
        let there = self.peek() == Some(byte);
        if there {
            self.at += 1;
        }
        there
    }

    /// Skips the value that begins here. It is not recursive, so that a deeply nested text needs no stack.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0_u32;
        loop {
            self.white();
            match self.peek()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => {
                    self.at += 1;
                    depth += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => self.at += 1,
                b',' | b':' => return None,
                _ => {
                    while self.peek().is_some_and(|byte| !b",:]}".contains(&byte) && !byte.is_ascii_whitespace()) {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        if !self.eat(b'"') {
            return None;
        }
        let mut out = String::new();
        loop {
            let start = self.at;
            while self.peek().is_some_and(|byte| byte != b'"' && byte != b'\\') {
                self.at += 1;
            }
            out.push_str(self.text.get(start..self.at)?);
            if self.next()? == b'"' {
                return Some(out);
            }
            out.push(match self.next()? {
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => self.escaped()?,
                other @ (b'"' | b'\\' | b'/') => char::from(other),
                _ => return None,
            });
        }
    }

    /// The character of a `\u` escape, or of two that are a surrogate pair.
    fn escaped(&mut self) -> Option<char> {
        let first = self.unit()?;
        if (0xd800..0xdc00).contains(&first) {
            if self.next()? != b'\\' || self.next()? != b'u' {
                return None;
            }
            let second = self.unit()?.checked_sub(0xdc00).filter(|second| *second < 0x400)?;
            return char::from_u32(0x10000 + ((first - 0xd800) << 10) + second);
        }
        char::from_u32(first)
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) { u32::from_str_radix(digits, 16).ok() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        r#"{"a":1,"b":[{"a":[2]},"]"],"flag":true,"list":["x","y\"z"],"n":-7,"t":"\u00e9\ud83d\ude00\n","z":null}"#;

    #[test]
    fn values_are_found_by_key_and_type() {
        let parameters = Parameters(TEXT);
        assert_eq!(parameters.integer("a"), Some(1));
        assert_eq!(parameters.integer("n"), Some(-7));
        assert_eq!(parameters.flag("flag"), Some(true));
        assert_eq!(parameters.texts("list"), ["x", "y\"z"]);
        assert_eq!(parameters.text("t").as_deref(), Some("é😀\n"));
        assert_eq!(parameters.raw("b"), Some(r#"[{"a":[2]},"]"]"#));
        assert_eq!(parameters.raw("z"), Some("null"));
    }

    #[test]
    fn what_is_absent_or_of_another_type_is_none() {
        let parameters = Parameters(TEXT);
        assert_eq!(parameters.text("a"), None);
        assert_eq!(parameters.text("nothing"), None);
        assert_eq!(parameters.flag("a"), None);
        assert_eq!(parameters.integer("flag"), None);
        assert!(parameters.texts("a").is_empty());
        assert_eq!(Parameters("{}").text("a"), None);
    }

    #[test]
    fn no_text_makes_it_panic() {
        for end in 0..=TEXT.len() {
            if let Some(text) = TEXT.get(..end) {
                Parameters(text).raw("z");
                Parameters(text).text("t");
                Parameters(text).texts("list");
            }
        }
        for text in [
            "",
            "[",
            "{",
            "{\"",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":}",
            "{\"a\":\"\\u12",
            "{\"a\":\"\\ud800\\u0000\"}",
            "{\"a\":]",
            "\u{e9}",
        ] {
            assert_eq!(Parameters(text).text("a"), None, "{text}");
            Parameters(text).raw("a");
        }
    }
}
