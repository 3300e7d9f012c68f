//! Errors of a script as faults of the contract: one sentence, the place, and the call stack.

use starlark::{
    ErrorKind,
    codemap::{FileSpan, ResolvedPos},
    eval::CallStack,
};

use crate::{
    budget,
    notes::cut,
    world::exports::tanist::policy::types::{Fault, Location},
};

/// Bytes of the sentence, without the call stack.
const SENTENCE: usize = 480;
/// Calls that are shown at each end of a call stack.
const CALLS: usize = 4;

/// The fault that an error is.
pub fn of(error: &starlark::Error) -> Fault {
    let mut message = cut(sentence(error).trim(), SENTENCE);
    if let Some(stack) = stack(error.call_stack()) {
        message.push_str("; ");
        message.push_str(&stack);
    }
    Fault { message, location: error.span().map(location) }
}

/// A fault of the script at a place of it.
pub fn at(span: &FileSpan, message: String) -> Fault {
    Fault { message, location: Some(location(span)) }
}

/// The sentence of an error, in one line.
fn sentence(error: &starlark::Error) -> String {
    let text = match error.kind() {
        ErrorKind::StackOverflow(_) => format!("calls are nested more than {} deep", budget::CALLS),
        _ => budget::said().unwrap_or_else(|| error.without_diagnostic().to_string()),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Who called whom, innermost first: `in best, called from seed (3:12)`. `None`: it happened in no function.
fn stack(stack: &CallStack) -> Option<String> {
    let frames: Vec<_> = stack.frames.iter().rev().collect();
    let mut text = String::new();
    // A frame knows where it was called, which is a place in the next one.
    let mut called_at = None;
    for (index, frame) in frames.iter().enumerate() {
        if index < CALLS || index + CALLS >= frames.len() {
            text.push_str(if index == 0 { "in " } else { ", called from " });
            text.push_str(&cut(&frame.name, 64));
            if let Some(ResolvedPos { line, column }) = called_at {
                text.push_str(&format!(" ({}:{})", line + 1, column + 1));
            }
        } else if index == CALLS {
            text.push_str(&format!(", {} more calls", frames.len() - 2 * CALLS));
        }
        called_at = frame.location.as_ref().map(|from| from.resolve_span().begin);
    }
    (!text.is_empty()).then_some(text)
}

fn location(span: &FileSpan) -> Location {
    let ResolvedPos { line, column } = span.resolve_span().begin;
    let number = |zero_based: usize| u32::try_from(zero_based).unwrap_or(u32::MAX).saturating_add(1);
    Location { file: span.filename().to_owned(), line: number(line), column: number(column) }
}
