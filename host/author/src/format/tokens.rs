//! The tokens of a script, as far as its form is concerned. Every byte of the text is in exactly one token, so that they can be put together again.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Blanks and tabs.
    Space,
    /// The end of a line.
    Newline,
    /// A backslash at the end of a line, with that end.
    Continued,
    /// From `#` to the end of the line.
    Comment,
    /// A text with its prefix and its quotes.
    Text,
    /// A name, a number or a word of the language.
    Word,
    /// `(`, `[` or `{`.
    Open,
    /// `)`, `]` or `}`.
    Close,
    /// A comma, between items, arguments or parameters.
    Comma,
    /// A colon, before a block, a type or the value of a key.
    Colon,
    /// A semicolon, between two statements on one line.
    Semicolon,
    /// `.`, between a value and the name of a part of it.
    Dot,
    /// Any other sign: `+`, `==`, `->` and so on.
    Operator,
}

/// A part of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// As it is written.
    pub text: &'a str,
}

/// Operators of more than one sign, longest first.
const LONG: [&str; 20] = [
    "//=", ">>=", "<<=", "**", "//", ">>", "<<", "==", "!=", "<=", ">=", "->", "+=", "-=", "*=", "/=", "%=", "&=",
    "|=", "^=",
];

/// The tokens of a text whose lines end with a line feed alone.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = next(rest, first);
        // A token has at least one character, and ends at the end of one.
        let (own, after) = rest.split_at_checked(length.max(first.len_utf8())).unwrap_or((rest, ""));
        found.push(Token { kind, text: own });
        rest = after;
    }
    found
}

/// The kind and the length of the first token.
fn next(rest: &str, first: char) -> (Kind, usize) {
    let while_in = |fits: fn(char) -> bool| rest.find(|c| !fits(c)).unwrap_or(rest.len());
    if let Some(length) = text(rest) {
        return (Kind::Text, length);
    }
    match first {
        ' ' | '\t' => (Kind::Space, while_in(|c| matches!(c, ' ' | '\t'))),
        '\n' => (Kind::Newline, 1),
        '\\' if rest.starts_with("\\\n") => (Kind::Continued, 2),
        '#' => (Kind::Comment, rest.find('\n').unwrap_or(rest.len())),
        '(' | '[' | '{' => (Kind::Open, 1),
        ')' | ']' | '}' => (Kind::Close, 1),
        ',' => (Kind::Comma, 1),
        ':' => (Kind::Colon, 1),
        ';' => (Kind::Semicolon, 1),
        '.' if rest.starts_with("...") => (Kind::Word, 3),
        '.' if rest.get(1..).is_some_and(|after| after.starts_with(|c: char| c.is_ascii_digit())) => {
            (Kind::Word, number(rest))
        }
        '.' => (Kind::Dot, 1),
        _ if first.is_ascii_digit() => (Kind::Word, number(rest)),
        _ if first.is_alphabetic() || first == '_' => (Kind::Word, while_in(|c| c.is_alphanumeric() || c == '_')),
        _ => {
            let long = LONG.iter().find(|operator| rest.starts_with(**operator));
            (Kind::Operator, long.map_or(first.len_utf8(), |operator| operator.len()))
        }
    }
}

/// The length of a number: digits, letters and points, and the sign of an exponent.
fn number(rest: &str) -> usize {
    let is_hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
    let mut before = ' ';
    let ends = |c: char| {
        let is_sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E') && !is_hexadecimal;
        before = c;
        !(c.is_ascii_alphanumeric() || c == '.' || c == '_' || is_sign)
    };
    rest.find(ends).unwrap_or(rest.len())
}

/// The length of a text with its prefix, if there is one here. One that does not end goes to the end of its line, or of everything: the parser reports it.
fn text(rest: &str) -> Option<usize> {
    let prefix = ["rb", "br", "r", "b", "f"]
        .into_iter()
        .find(|prefix| rest.strip_prefix(prefix).is_some_and(|after| after.starts_with(['"', '\''])));
    let begin = prefix.map_or(0, str::len);
    let after = rest.get(begin..)?;
    let quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quotes| after.starts_with(quotes))?;
    let mut at = begin + quotes.len();
    loop {
        let here = rest.get(at..)?;
        if here.starts_with(quotes) {
            return Some(at + quotes.len());
        }
        let Some(next) = here.chars().next() else { return Some(rest.len()) };
        if next == '\n' && quotes.len() == 1 {
            return Some(at);
        }
        at += next.len_utf8();
        // What is behind a backslash does not end the text, in a raw one neither.
        if next == '\\' {
            at += here.chars().nth(1).map_or(0, char::len_utf8);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str)> {
        tokens(text)
            .into_iter()
            .filter(|token| token.kind != Kind::Space)
            .map(|token| (token.kind, token.text))
            .collect()
    }

    #[test]
    fn texts_are_whole_whatever_is_in_them() {
        for one in [
            "'a # b'",
            r#""a \" b""#,
            r"r'\'",
            "'''a\n'b'' \\''' c'''",
            "\"\"\"\"a\" \n\n # \"\"\"",
            "f'{x}'",
            "rb'x'",
            "''",
            "''''''",
            "'a\\\nb'",
        ] {
            let text = if one == r"r'\'" { r"r'\' '" } else { one };
            assert_eq!(kinds(text), [(Kind::Text, text)], "{one}");
        }
        // A text that does not end ends with its line.
        assert_eq!(kinds("'a\nb").len(), 3);
    }

    #[test]
    fn every_byte_is_in_one_token() {
        for text in ["x=[1,-2.5e-3]#y\n\\\n\tif a//b:'é'", "0xE+1", "a.b...c;d->e", "\u{feff}ü\r\n!?$", "'''\\"] {
            assert_eq!(tokens(text).iter().map(|token| token.text).collect::<String>(), text);
        }
        assert_eq!(kinds("0xE+1").len(), 3);
        assert_eq!(kinds("1e+5").len(), 1);
        assert_eq!(kinds(".5").len(), 1);
    }
}
