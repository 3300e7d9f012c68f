//! What is looked at in a script before it runs: the form of the text, and which points it defines.

use starlark::{
    codemap::{CodeMap, FileSpan, Pos, Span},
    syntax::AstModule,
};
use starlark_syntax::{
    lexer::{Lexer, Token},
    syntax::ast::{AssignTarget, AstAssignIdent, AstExpr, AstLiteral, AstStmt, Expr, Stmt},
};

use crate::{fault, script::DIALECT, words::POINTS, world::exports::tanist::policy::types::Fault};

/// Brackets inside brackets, blocks inside blocks, operators after operators. The parser calls itself for each, and the stack is limited.
const DEPTH: usize = 48;

/// Checks the text before it is parsed.
pub fn text(file: &str, source: &str) -> Result<(), Fault> {
    let at = |begin: usize, end: usize, message: String| {
        let span = Span::new(Pos::new(begin as u32), Pos::new(end as u32));
        Err(fault::at(&CodeMap::new(file.to_owned(), source.to_owned()).file_span(span), message))
    };
    if source.starts_with('\u{feff}') {
        return at(0, 0, "the text begins with a byte order mark; save it as UTF-8 without one".to_owned());
    }
    // Most scripts are plainly harmless; the tokens of the others are looked at.
    if !source.contains("*=") && is_flat(source) {
        return Ok(());
    }
    let (mut brackets, mut blocks, mut operators) = (0_usize, 0_usize, 0_usize);
    for token in Lexer::new(source, &DIALECT, CodeMap::new(file.to_owned(), source.to_owned())) {
        // What is no token is an error of the parser, which says it better.
        let Ok((begin, token, end)) = token else { return Ok(()) };
        match token {
            Token::OpeningRound | Token::OpeningSquare | Token::OpeningCurly => brackets += 1,
            Token::ClosingRound | Token::ClosingSquare | Token::ClosingCurly => brackets = brackets.saturating_sub(1),
            Token::Indent => blocks += 1,
            Token::Dedent => blocks = blocks.saturating_sub(1),
            Token::Newline => operators = 0,
            Token::Minus | Token::Plus | Token::Tilde | Token::Not | Token::Lambda | Token::If => operators += 1,
            Token::StarEqual => return at(begin, end, "`*=` is not supported; write x = x * y".to_owned()),
            _ => {}
        }
        for (found, what) in [(brackets, "brackets"), (blocks, "blocks"), (operators, "operators of one line")] {
            if found > DEPTH {
                return at(begin, end, format!("{what} are nested more than {DEPTH} deep"));
            }
        }
    }
    Ok(())
}

/// Where the first tab is.
pub fn first_tab(file: &str, source: &str) -> Option<FileSpan> {
    let at = Pos::new(source.find('\t')? as u32);
    Some(CodeMap::new(file.to_owned(), source.to_owned()).file_span(Span::new(at, at)))
}

/// Whether nothing in a text can be nested deep. It needs no tokens, and says no more often than necessary.
fn is_flat(source: &str) -> bool {
    let mut brackets = 0_usize;
    source.split('\n').all(|line| {
        for byte in line.bytes() {
            match byte {
                b'(' | b'[' | b'{' => brackets += 1,
                b')' | b']' | b'}' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
        }
        brackets <= DEPTH && line.len() <= 160 && line.len() - line.trim_start().len() <= DEPTH
    })
}

/// A point that a script defines.
#[derive(Debug)]
pub struct Defined {
    /// The place in [`POINTS`].
    pub point: usize,
    /// Where its name is.
    pub place: FileSpan,
}

/// The points that are defined at the top of a script, by `def` or by an assignment.
///
/// # Errors
/// A name that looks like a misspelt point: nothing uses it, and it is that of a point but for two letters.
pub fn points(ast: &AstModule) -> Result<Vec<Defined>, Fault> {
    let mut defined: Vec<Defined> = Vec::new();
    for name in names(ast.statement()) {
        let place = ast.file_span(name.span);
        let name = name.node.ident.as_str();
        if let Some(point) = POINTS.iter().position(|(point, _)| *point == name) {
            defined.retain(|each| each.point != point);
            defined.push(Defined { point, place });
        } else if let Some((point, _)) = POINTS.iter().find(|(point, _)| is_like(point, name))
            && !is_used(ast.statement(), name)
        {
            return Err(fault::at(
                &place,
                format!("no point has the name {name}, and nothing uses it; was {point} meant?"),
            ));
        }
    }
    Ok(defined)
}

/// The text in front of everything, which says what a script does.
pub fn docstring(ast: &AstModule) -> Option<&str> {
    let first = match &ast.statement().node {
        Stmt::Statements(all) => all.first()?,
        _ => ast.statement(),
    };
    match &first.node {
        Stmt::Expression(AstExpr { node: Expr::Literal(AstLiteral::String(text)), .. }) => Some(&text.node),
        _ => None,
    }
}

/// The names of functions and values at the top of a script.
fn names(statement: &AstStmt) -> Vec<&AstAssignIdent> {
    match &statement.node {
        Stmt::Statements(all) => all.iter().flat_map(names).collect(),
        Stmt::Def(def) => vec![&def.name],
        Stmt::Assign(assign) => match &assign.lhs.node {
            AssignTarget::Identifier(name) => vec![name],
            _ => vec![],
        },
        _ => vec![],
    }
}

/// Whether a name is used as a value anywhere.
fn is_used(statement: &AstStmt, name: &str) -> bool {
    fn in_expression(expression: &AstExpr, name: &str, used: &mut bool) {
        if let Expr::Identifier(identifier) = &expression.node {
            *used |= identifier.node.ident == name;
        }
        expression.visit_expr(|inner| in_expression(inner, name, used));
    }
    let mut used = false;
    statement.visit_expr(|expression| in_expression(expression, name, &mut used));
    used
}

/// Whether two names differ by at most two letters, or by two neighbours that changed places.
fn is_like(point: &str, name: &str) -> bool {
    if point.len().abs_diff(name.len()) > 2 || point == name {
        return false;
    }
    let (left, right): (Vec<_>, Vec<_>) = (point.bytes().collect(), name.bytes().collect());
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, letter) in left.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, other) in right.iter().enumerate() {
            let changed = above.get(column).copied().unwrap_or(0) + usize::from(letter != other);
            let removed = above.get(column + 1).copied().unwrap_or(0) + 1;
            let added = line.last().copied().unwrap_or(0) + 1;
            line.push(changed.min(removed).min(added));
        }
        above = line;
    }
    above.last().is_some_and(|distance| *distance <= 2)
}
