//! The lines of a script, and the white space between the tokens of a line.

use super::tokens::{Kind, Token, tokens};

/// Words of the language that are no values: an operator behind one of them has nothing on its left, and a bracket opens no call.
const NO_VALUES: [&str; 17] = [
    "and", "or", "not", "in", "if", "elif", "else", "for", "return", "lambda", "def", "pass", "break", "continue",
    "load", "while", "is",
];

/// A tab stands for so many blanks.
const TAB: usize = 4;

/// One line. A text of several lines is in the line in which it begins.
#[derive(Debug, Default)]
pub struct Line<'a> {
    /// Blanks before the first token.
    pub indent: usize,
    /// Each with the number of blanks before it; 0 for the first.
    pub tokens: Vec<(usize, Token<'a>)>,
    /// Whether it ends with a backslash.
    pub goes_on: bool,
    /// Whether it belongs to the statement of the line before: a bracket is open, or that line ends with a backslash.
    pub is_continued: bool,
}

impl<'a> Line<'a> {
    /// The first token.
    pub fn first(&self) -> Option<Token<'a>> {
        self.tokens.first().map(|(_, token)| *token)
    }

    /// Whether there is nothing on it.
    pub fn is_blank(&self) -> bool {
        self.tokens.is_empty() && !self.goes_on
    }

    /// Whether there is only a comment on it.
    pub fn is_comment(&self) -> bool {
        self.first().is_some_and(|token| token.kind == Kind::Comment)
    }

    /// Whether a function begins on it.
    pub fn is_def(&self) -> bool {
        !self.is_continued && self.first().is_some_and(|token| token.text == "def")
    }

    /// The line as it is written, without its end.
    pub fn write(&self, out: &mut String) {
        if self.is_blank() {
            return;
        }
        out.push_str(&" ".repeat(self.indent));
        for (gap, token) in &self.tokens {
            out.push_str(&" ".repeat(*gap));
            out.push_str(token.text);
        }
        if self.goes_on {
            out.push_str(if self.tokens.is_empty() { "\\" } else { " \\" });
        }
    }
}

/// The lines of a text, whose tokens keep the blanks that they have: tabs at the begin of a line are replaced, and the others, which the language does not
/// allow, are blanks.
pub fn lines(text: &str) -> Vec<Line<'_>> {
    let mut all = Vec::new();
    let (mut line, mut gap, mut depth) = (Line::default(), 0, 0_usize);
    for token in tokens(text) {
        match token.kind {
            Kind::Space if line.tokens.is_empty() => line.indent = columns(token.text),
            Kind::Space => gap = columns(token.text),
            Kind::Newline | Kind::Continued => {
                let goes_on = token.kind == Kind::Continued;
                line.goes_on = goes_on;
                let next = Line { is_continued: goes_on || depth > 0, ..Line::default() };
                all.push(std::mem::replace(&mut line, next));
                gap = 0;
            }
            _ => {
                match token.kind {
                    Kind::Open => depth += 1,
                    Kind::Close => depth = depth.saturating_sub(1),
                    _ => {}
                }
                let trimmed = match token.kind {
                    Kind::Comment => Token { text: token.text.trim_end(), ..token },
                    _ => token,
                };
                line.tokens.push((gap, trimmed));
                gap = 0;
            }
        }
    }
    if !line.tokens.is_empty() {
        all.push(line);
    }
    all
}

/// The width of white space.
fn columns(space: &str) -> usize {
    space.chars().fold(0, |at, c| if c == '\t' { (at / TAB + 1) * TAB } else { at + 1 })
}

/// A bracket that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bracket {
    /// What is inside is an index or a range, whose colons may be written with blanks or without.
    Subscript,
    Other,
}

/// What a token is to its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A value, or the end of one.
    Value,
    /// A word of the language that is no value.
    Keyword,
    /// An operator between two values.
    Between,
    /// An operator before one value.
    Before,
    /// Anything else, by its kind.
    Sign(Kind),
}

/// Puts the usual blanks between the tokens of each line.
pub fn space(lines: &mut [Line<'_>]) {
    let mut brackets: Vec<Bracket> = Vec::new();
    // Of the whole text: a line inside of brackets goes on with what the one before ends with.
    let mut before = Role::Sign(Kind::Newline);
    for line in lines {
        if !line.is_continued {
            before = Role::Sign(Kind::Newline);
        }
        let mut is_first = true;
        let mut previous: Option<(Role, Token<'_>)> = None;
        for (gap, token) in &mut line.tokens {
            let role = role(*token, before);
            let inside = brackets.last().copied();
            match token.kind {
                Kind::Open if token.text == "[" && before == Role::Value => brackets.push(Bracket::Subscript),
                Kind::Open => brackets.push(Bracket::Other),
                Kind::Close => drop(brackets.pop()),
                _ => {}
            }
            *gap = match previous {
                Some(previous) if !is_first => between(previous, (role, *token), inside, *gap),
                _ => 0,
            };
            is_first = false;
            previous = Some((role, *token));
            if token.kind != Kind::Comment {
                before = role;
            }
        }
    }
}

fn role(token: Token<'_>, before: Role) -> Role {
    match token.kind {
        Kind::Text | Kind::Close => Role::Value,
        Kind::Word if NO_VALUES.contains(&token.text) => Role::Keyword,
        Kind::Word => Role::Value,
        Kind::Operator if !is_known(token.text) => Role::Sign(Kind::Operator),
        Kind::Operator if before == Role::Value => Role::Between,
        Kind::Operator => Role::Before,
        other => Role::Sign(other),
    }
}

/// Whether it is an operator of the language. What is none is left as it is, for the parser to report.
fn is_known(operator: &str) -> bool {
    !operator.chars().any(|c| matches!(c, '!' | '?' | '$' | '@' | '\\' | '`') || c.is_control() || !c.is_ascii())
        || operator == "!="
}

/// The number of blanks between two tokens of a line that had so many.
fn between(left: (Role, Token<'_>), right: (Role, Token<'_>), inside: Option<Bracket>, had: usize) -> usize {
    let as_it_is = had.min(1);
    let is_number = |token: Token<'_>| token.text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    match (left.0, right.0) {
        // Comments below each other may be in one column.
        (_, Role::Sign(Kind::Comment)) => had.max(2),
        (Role::Sign(Kind::Open), _) => 0,
        (_, _) if right.1.kind == Kind::Close => 0,
        (_, Role::Sign(Kind::Comma | Kind::Semicolon)) => 0,
        (Role::Sign(Kind::Comma | Kind::Semicolon), _) => 1,
        // `1 .real` is not `1.real`.
        (_, Role::Sign(Kind::Dot)) if is_number(left.1) => as_it_is,
        (_, Role::Sign(Kind::Dot)) | (Role::Sign(Kind::Dot), _) => 0,
        (_, Role::Sign(Kind::Colon)) | (Role::Sign(Kind::Colon), _) if inside == Some(Bracket::Subscript) => as_it_is,
        (_, Role::Sign(Kind::Colon)) => 0,
        (Role::Sign(Kind::Colon), _) => 1,
        (Role::Between, _) | (_, Role::Between) => 1,
        (Role::Before, Role::Before) => as_it_is,
        (Role::Before, _) => 0,
        (Role::Value, Role::Sign(Kind::Open)) => 0,
        (Role::Keyword, _) | (_, Role::Keyword) => 1,
        _ => as_it_is,
    }
}
