//! The form of scripts: `tanist policy fmt`.
//!
//! Only white space between tokens changes, never a text or a comment, and never what a line belongs to. That is not only meant: the interpreter says what the
//! script means before and after ([`tanist_engine::Interpreter::meaning`]), and where that is not the same, nothing comes out. The rules are those that
//! `buildifier` and `black` have in common; how long a line is and where it is broken stays the author's choice.

mod lines;
mod tokens;

use std::path::Path;

use tanist_engine::LoadError;

use self::{
    lines::{Line, lines, space},
    tokens::{Kind, tokens},
};
use crate::{
    error::Error,
    tools::{Tools, is_script, not_text},
};

/// Blank lines between two statements at most: at the top of the script, and inside of a function or of brackets.
const BLANK_LINES: (usize, usize) = (2, 1);

/// The script in its usual form.
///
/// # Errors
/// It is no script: its name does not end with `.star`, it is no text, or the parser refuses it, with line and column.
pub fn format(tools: &Tools, path: &Path, bytes: &[u8]) -> Result<String, Error> {
    let file = path.display().to_string();
    if !is_script(path) {
        return Err(Error::Usage(format!("{file} is no script: the name of one ends with .star")));
    }
    let failed = |error: LoadError| Error::Load { file: file.clone(), error };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let text = std::str::from_utf8(bytes).map_err(|error| failed(LoadError::Script(not_text(&name, bytes, error))))?;
    if text.trim().is_empty() {
        return Ok(String::new());
    }
    let interpreter = tools.interpreter().map_err(failed)?;
    let readable = readable(text);
    let formed = formed(&readable);
    // A mark at the begin of the file and tabs are all that is replaced of what the parser refuses.
    let meant = interpreter.meaning(&name, text).or_else(|refused| {
        interpreter.meaning(&name, &readable).map_err(|error| if text == readable { refused } else { error })
    });
    let meant = meant.map_err(failed)?;
    let means = interpreter.meaning(&name, &formed);
    if means.as_ref().ok() != Some(&meant) || comments(&readable) != comments(&formed) {
        let message = format!(
            "{file}: the formatter would change what this script means, so it is left as it is; please report it"
        );
        return Err(Error::Usage(message));
    }
    Ok(formed)
}

/// The text as the parser can read it: without a byte order mark, with line feeds alone, and without tabs outside of texts.
fn readable(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    if !text.contains('\t') {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for (index, line) in lines(&text).iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        line.write(&mut out);
    }
    out.push('\n');
    out
}

/// The comments of a text.
fn comments(text: &str) -> Vec<&str> {
    let comments = tokens(text).into_iter().filter(|token| token.kind == Kind::Comment);
    comments.map(|token| token.text.trim_end()).collect()
}

/// The usual form of a text whose lines end with line feeds.
fn formed(text: &str) -> String {
    let mut all = lines(text);
    space(&mut all);
    let mut out = String::with_capacity(text.len());
    let mut blank = 0;
    let mut before: Option<&Line<'_>> = None;
    // Whether the statement before belongs to a function at the top of the script.
    let mut in_function = false;
    for (index, line) in all.iter().enumerate() {
        if line.is_blank() {
            blank += 1;
            continue;
        }
        let rest = all.get(index..).unwrap_or_default();
        let at_top = is_at_top(rest);
        let least = usize::from(at_top && (in_function || begins_function(rest)) && !belongs_to_comment(before, blank));
        let most = if at_top { BLANK_LINES.0 } else { BLANK_LINES.1 };
        if before.is_some() {
            out.push_str(&"\n".repeat(blank.clamp(least, most)));
        }
        line.write(&mut out);
        out.push('\n');
        if at_top {
            in_function = begins_function(rest);
        }
        (blank, before) = (0, Some(line));
    }
    out
}

/// Whether a line begins a statement at the top of the script. A comment belongs to the next statement.
fn is_at_top(rest: &[Line<'_>]) -> bool {
    let Some(line) = rest.first() else { return false };
    let is_one = |line: &Line<'_>| line.indent == 0 && !line.is_continued;
    is_one(line) && statement(rest).is_none_or(is_one)
}

/// Whether the statement that a line begins, or that its comment belongs to, is a function.
fn begins_function(rest: &[Line<'_>]) -> bool {
    let comments = rest.iter().take_while(|line| line.is_comment()).count();
    // A comment with a blank line below it is a paragraph of its own.
    rest.get(comments).is_some_and(Line::is_def)
}

/// The next statement, behind comments and blank lines.
fn statement<'l, 'a>(rest: &'l [Line<'a>]) -> Option<&'l Line<'a>> {
    rest.iter().find(|line| !line.is_blank() && !line.is_comment())
}

/// Whether the line before is a comment that belongs to this line.
fn belongs_to_comment(before: Option<&Line<'_>>, blank: usize) -> bool {
    blank == 0 && before.is_some_and(|before| before.is_comment() && before.indent == 0)
}
