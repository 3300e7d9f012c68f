//! Which lines of a script run, for `tanist policy test --coverage`. Nothing is noted unless [`watch`] was called, which the operator never does.

use std::{cell::RefCell, collections::BTreeSet};

use starlark::{codemap::FileSpanRef, syntax::AstModule};
use starlark_syntax::syntax::ast::{AstStmt, Expr, Stmt};

use crate::world::exports::tanist::starlark::tools::Lines;

thread_local! {
    static WATCHED: RefCell<Option<Watched>> = const { RefCell::new(None) };
}

/// A script whose lines are noted.
#[derive(Default)]
struct Watched {
    /// Its file and its text. `None`: it was not loaded yet.
    text: Option<(String, String)>,
    /// The first and the last line of each statement, counted from 0.
    statements: Vec<(usize, usize)>,
    /// Lines on which something began to run, counted from 0.
    began: BTreeSet<usize>,
}

/// From now on lines are noted.
pub fn watch() {
    WATCHED.set(Some(Watched::default()));
}

/// Whether lines are noted.
pub fn is_watching() -> bool {
    WATCHED.with_borrow(Option::is_some)
}

/// The file and the text of the script whose lines are noted.
pub fn watched() -> Option<(String, String)> {
    WATCHED.with_borrow(|watched| watched.as_ref()?.text.clone())
}

/// Keeps a script that is to be run again, with its statements.
pub fn loaded(file: &str, source: String, ast: &AstModule) {
    let mut statements = Vec::new();
    collect(ast.statement(), ast, &mut statements);
    WATCHED.with_borrow_mut(|watched| {
        if let Some(watched) = watched {
            watched.text = Some((file.to_owned(), source));
            watched.statements = statements;
        }
    });
}

/// A statement begins to run.
pub fn note(span: FileSpanRef<'_>) {
    let line = span.file.resolve_span(span.span).begin.line;
    WATCHED.with_borrow_mut(|watched| {
        if let Some(watched) = watched {
            watched.began.insert(line);
        }
    });
}

/// The lines of the script. The interpreter sees statements in parts, and some of them not at all (`if True:`), so a statement ran when anything on its lines
/// did, what is inside of it included.
pub fn ran() -> Lines {
    WATCHED.with_borrow(|watched| {
        let Some(Watched { statements, began, .. }) = watched else {
            return Lines { statements: Vec::new(), ran: Vec::new() };
        };
        let all: BTreeSet<_> = statements.iter().map(|(first, _)| number(*first)).collect();
        let ran = statements.iter().filter(|(first, last)| began.range(*first..=*last).next().is_some());
        let ran: BTreeSet<_> = ran.map(|(first, _)| number(*first)).collect();
        Lines { statements: all.into_iter().collect(), ran: ran.into_iter().collect() }
    })
}

/// A line counted from 1.
fn number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX).saturating_add(1)
}

/// Adds a statement, unless it does nothing, and those inside of it. Returns its last line, counted from 0.
fn collect(statement: &AstStmt, ast: &AstModule, found: &mut Vec<(usize, usize)>) -> usize {
    let place = ast.file_span(statement.span).resolve_span();
    let (first, end) = (place.begin.line, place.end);
    let (does_something, own_last) = match &statement.node {
        Stmt::Statements(_) => (false, first),
        Stmt::If(..) | Stmt::IfElse(..) | Stmt::For(..) | Stmt::Def(..) => (true, first),
        Stmt::Pass => (false, first),
        Stmt::Expression(text) if matches!(text.node, Expr::Literal(_)) => (false, first),
        // The end of a line may count as the begin of the next one.
        _ if end.column == 0 && end.line > first => (true, end.line - 1),
        _ => (true, end.line),
    };
    let mut last = own_last;
    statement.visit_stmt(|inner| last = last.max(collect(inner, ast, found)));
    if does_something {
        found.push((first, last));
    }
    last
}
