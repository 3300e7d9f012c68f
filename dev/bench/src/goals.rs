//! Goals: what a figure has to be at least or at most, and whether it is.

use anyhow::ensure;
use serde::{Deserialize, Serialize};

/// The direction of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The figure has to reach it.
    AtLeast,
    /// The figure must not exceed it.
    AtMost,
}

/// A goal and what was measured. A goal that is missed is reported; it does not make the run fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// What is measured, in words.
    pub what: String,
    /// Whether the figure has to be at least or at most the limit.
    pub bound: Bound,
    /// The least or the most that the figure may be, in `unit`.
    pub limit: f64,
    /// What was measured.
    pub measured: f64,
    /// The unit of both, for instance `ms`; `times` for ratios.
    pub unit: String,
    /// Whether it is met.
    pub met: bool,
}

impl Goal {
    /// A figure that has to be at least `limit`.
    pub fn at_least(what: &str, limit: f64, measured: f64, unit: &str) -> Self {
        Self::new(what, Bound::AtLeast, limit, measured, unit)
    }

    /// A figure that has to be at most `limit`.
    pub fn at_most(what: &str, limit: f64, measured: f64, unit: &str) -> Self {
        Self::new(what, Bound::AtMost, limit, measured, unit)
    }

    fn new(what: &str, bound: Bound, limit: f64, measured: f64, unit: &str) -> Self {
        let met = match bound {
            Bound::AtLeast => measured >= limit,
            Bound::AtMost => measured <= limit,
        };
        Self { what: what.to_owned(), bound, limit, measured, unit: unit.to_owned(), met }
    }

    fn row(&self) -> String {
        let Self { what, limit, unit, .. } = self;
        // A difference that is nothing may be -0.0, and is nothing all the same.
        let measured = self.measured + 0.0;
        let bound = match self.bound {
            Bound::AtLeast => "at least",
            Bound::AtMost => "at most",
        };
        let verdict = if self.met { "met" } else { "**MISSED**" };
        // Ratios and small figures need digits; counts and milliseconds in thousands do not.
        let digits = if measured.fract() != 0.0 && measured.abs() < 100.0 { 2 } else { 0 };
        let space = if unit.is_empty() { "" } else { " " };
        format!("| {what} | {bound} {limit}{space}{unit} | {measured:.digits$}{space}{unit} | {verdict} |\n")
    }
}

/// The goals as a table; nothing when there is none.
pub fn table(goals: &[Goal]) -> String {
    if goals.is_empty() {
        return String::new();
    }
    let rows: String = goals.iter().map(Goal::row).collect();
    format!("\n| goal | limit | measured | |\n| --- | --- | --- | --- |\n{rows}")
}

/// How many times `of` is `by`.
///
/// # Errors
/// When `by` is zero: nothing is that fast, so nothing was measured.
pub fn ratio(of: f64, by: f64) -> anyhow::Result<f64> {
    ensure!(by > 0.0 && of.is_finite(), "{of} / {by} is no ratio: nothing was measured");
    Ok(of / by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_up_to_its_limit() {
        for (goal, met) in [
            (Goal::at_least("", 4.0, 4.0, ""), true),
            (Goal::at_least("", 4.0, 3.99, ""), false),
            (Goal::at_most("", 7.0, 7.0, ""), true),
            (Goal::at_most("", 7.0, 7.01, ""), false),
            (Goal::at_most("", 7.0, f64::NAN, ""), false),
            (Goal::at_least("", 7.0, f64::NAN, ""), false),
        ] {
            assert_eq!(goal.met, met, "{goal:?}");
        }
    }

    #[test]
    fn a_missed_goal_is_said_with_its_figure() {
        let said =
            table(&[Goal::at_most("native call", 7.0, 9.137, "times"), Goal::at_most("death", 3_000.0, 1_182.4, "ms")]);
        assert!(said.contains("| native call | at most 7 times | 9.14 times | **MISSED** |"), "{said}");
        assert!(said.contains("| death | at most 3000 ms | 1182 ms | met |"), "{said}");
        let count = table(&[Goal::at_most("objects that changed", 0.0, 2.0, "")]);
        assert!(count.contains("| objects that changed | at most 0 | 2 | **MISSED** |"), "{count}");
        let nothing = table(&[Goal::at_most("other executions", 0.0, -0.0, "")]);
        assert!(nothing.contains("| other executions | at most 0 | 0 | met |"), "{nothing}");
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn nothing_measured_has_no_ratio() {
        assert!(ratio(1.0, 0.0).is_err());
        assert!(ratio(f64::NAN, 1.0).is_err());
        assert_eq!(ratio(6.0, 3.0).ok(), Some(2.0));
    }
}
