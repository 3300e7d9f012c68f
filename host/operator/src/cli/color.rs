//! Colours: only on a terminal, and not where the user has disabled them.
use anstyle::{AnsiColor, Style};
use std::io::IsTerminal;

/// Whether standard output gets colours: it is a terminal, and neither NO_COLOR, nor CLICOLOR=0, nor TERM=dumb says otherwise.
/// CLICOLOR_FORCE enables them everywhere.
pub fn is_on() -> bool {
    is_enabled(|name| std::env::var(name).ok(), std::io::stdout().is_terminal())
}

fn is_enabled(variable: impl Fn(&str) -> Option<String>, terminal: bool) -> bool {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if set("NO_COLOR").is_some() {
        return false;
    }
    if set("CLICOLOR_FORCE").is_some_and(|v| v != "0") {
        return true;
    }
    terminal && set("CLICOLOR").is_none_or(|v| v != "0") && set("TERM").is_none_or(|v| v != "dumb")
}

/// The colour of a good state.
pub fn good() -> Style {
    AnsiColor::Green.on_default()
}

/// The colour of something under way or unknown.
pub fn open() -> Style {
    AnsiColor::Yellow.on_default()
}

/// The colour of a problem.
pub fn bad() -> Style {
    AnsiColor::Red.on_default()
}

/// The colour of a role.
pub fn role(role: &str) -> Style {
    match role.to_ascii_lowercase().as_str() {
        "primary" => good().bold(),
        "secondary" => good(),
        "failed" => bad(),
        "starting" | "unknown" => open(),
        _ => Style::new(),
    }
}

/// The colour of a condition that should be True.
pub fn truth(status: &str) -> Style {
    match status {
        "True" => good(),
        "False" => bad(),
        "Unknown" => open(),
        _ => Style::new(),
    }
}

/// The text in that colour.
pub fn paint(text: &str, style: Style, colors: bool) -> String {
    match colors && !style.is_plain() {
        true => format!("{}{text}{}", style.render(), style.render_reset()),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set: &[(&str, &str)], terminal: bool) -> bool {
        is_enabled(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()), terminal)
    }

    // no-color.org, and the convention of CLICOLOR.
    #[test]
    fn colours_are_for_terminals_where_they_are_not_disabled() {
        assert!(with(&[], true) && !with(&[], false));
        assert!(!with(&[("NO_COLOR", "1")], true));
        assert!(with(&[("NO_COLOR", "")], true), "an empty one does not count");
        assert!(!with(&[("CLICOLOR", "0")], true) && with(&[("CLICOLOR", "1")], true));
        assert!(!with(&[("TERM", "dumb")], true));
        assert!(with(&[("CLICOLOR_FORCE", "1")], false) && !with(&[("CLICOLOR_FORCE", "0")], false));
        assert!(!with(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], true));
    }

    #[test]
    fn nothing_is_added_without_colours() {
        assert_eq!(paint("True", good(), false), "True");
        assert_eq!(paint("True", good(), true), "\u{1b}[32mTrue\u{1b}[0m");
        assert_eq!(paint("-", Style::new(), true), "-");
    }
}
