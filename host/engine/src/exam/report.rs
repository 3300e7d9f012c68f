//! An exam in words: a sentence for a status, and the whole for an author.

use std::fmt;

use tanist_core::policy::Point;

use super::{Exam, Finding, Usage, Verdict, rules::percent};
use crate::text::short;

/// Bytes of a sentence in a status.
const SENTENCE: usize = 256;

/// Bytes of parameters in a sentence.
const PARAMETERS: usize = 48;

impl Exam {
    /// What no exam examines. It is said in every whole report.
    pub const NEVER_EXAMINED: [&str; 6] = [
        "groups that differ from the examples; the host checks every answer all the same",
        "two histories of data within one term at join, demote and place; numbers of two histories cannot be compared",
        "values of parameters between their bounds, several changed at a time, and long texts where the schema has no maxLength",
        "labels and facts with other words than the examples have, and facts or conditions of more than 6 members",
        "whether a policy moves the lead or a member back and forth; the host allows one move in 300 s, and one of the same secondary in an hour",
        "policies of the same group that are asked before or after this one",
    ];

    /// The exam in one sentence of at most 256 bytes.
    #[must_use]
    pub fn sentence(&self) -> String {
        match (self.verdict(), self.findings.first()) {
            (Verdict::Failed, Some(first)) => self.failure(first),
            (Verdict::NotFinished, _) => {
                let why = self.unfinished.as_deref().unwrap_or_default();
                short(&format!("not finished: {why}; it is tried again"), SENTENCE)
            }
            _ if self.examined.points.is_empty() && !self.not_asked_at.is_empty() => {
                "nothing examined: it has none of the questions that it is asked".to_owned()
            }
            _ if self.examined.questions == 0 => {
                let why = self.not_examined.first().map_or("there is no question for it", String::as_str);
                short(&format!("nothing examined: {why}"), SENTENCE)
            }
            _ => self.success(),
        }
    }

    fn success(&self) -> String {
        let examined = &self.examined;
        let largest = examined.usage.iter().map(|usage| usage.members).max().unwrap_or(0);
        let of_largest = examined.usage.iter().filter(|usage| usage.members == largest);
        let share = of_largest.map(|usage| percent(usage.fuel, usage.limit)).max().unwrap_or(0);
        let at = match self.not_asked_at.is_empty() {
            true => String::new(),
            false => format!(" at {}", list(&examined.points)),
        };
        let mut text = format!(
            "passed{at}: {} questions of {} cases, {largest} members use {share} % of the fuel",
            examined.questions, examined.cases
        );
        let elsewhere = self.fails_elsewhere();
        if !elsewhere.is_empty() {
            text = format!("{text}; it fails at {}, which it is not asked", list(&elsewhere));
        }
        if !self.declared.is_empty() {
            let words: Vec<_> = self.declared.iter().map(|finding| finding.kind).collect();
            text = format!("{text}; as declared: {}", words.join(", "));
        }
        if let Some(first) = self.not_examined.first() {
            let more = self.not_examined.len() - 1;
            text = format!("{text}; not examined: {first}");
            if more > 0 {
                text = format!("{text} ({more} more)");
            }
        }
        short(&text, SENTENCE)
    }

    fn failure(&self, first: &Finding) -> String {
        let with = match first.parameters.as_str() {
            "{}" => String::new(),
            parameters => format!(" with parameters {}", short(parameters, PARAMETERS)),
        };
        let more = match self.findings.len() - 1 {
            0 => String::new(),
            1 => " (1 more finding)".to_owned(),
            more => format!(" ({more} more findings)"),
        };
        let end = format!(", at {} of case {}{with}{more}", first.point, first.case);
        let found = short(&first.found, SENTENCE.saturating_sub("failed: ".len() + end.len()));
        format!("failed: {found}{end}")
    }
}

/// The whole report, several lines.
impl fmt::Display for Exam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.policy)?;
        writeln!(f, "{}", self.sentence())?;
        for finding in &self.findings {
            write_finding(f, "finding", finding)?;
        }
        for finding in &self.declared {
            write_finding(f, "declared", finding)?;
        }
        if !self.examined.usage.is_empty() {
            write_usage(f, &self.examined.usage)?;
        }
        writeln!(f, "\nparameters:")?;
        for parameters in &self.examined.parameters {
            writeln!(f, "  {}", short(parameters, SENTENCE))?;
        }
        writeln!(f, "\nnot examined:")?;
        let never = Self::NEVER_EXAMINED.into_iter();
        for what in self.not_examined.iter().map(String::as_str).chain(never) {
            writeln!(f, "  {what}")?;
        }
        Ok(())
    }
}

/// Points in a sentence.
fn list(points: &[Point]) -> String {
    points.iter().map(|point| point.as_str()).collect::<Vec<_>>().join(", ")
}

fn write_finding(f: &mut fmt::Formatter<'_>, what: &str, finding: &Finding) -> fmt::Result {
    let Finding { kind, case, about, point, members, parameters, expected, found, advice, count, points } = finding;
    writeln!(f, "\n{what} {kind}: {point} of case {case} ({about}; members: {members})")?;
    writeln!(f, "  expected: {expected}")?;
    writeln!(f, "  found:    {found}")?;
    writeln!(f, "  do:       {advice}")?;
    if parameters != "{}" {
        writeln!(f, "  with:     parameters {parameters}")?;
    }
    if *count > 1 {
        writeln!(f, "  seen at:  {count} questions ({})", list(points))?;
    }
    Ok(())
}

/// A table: the share of the fuel that was used, by point and members.
fn write_usage(f: &mut fmt::Formatter<'_>, usage: &[Usage]) -> fmt::Result {
    writeln!(f, "\nfuel used, of what a question has (at most 50 %):")?;
    for point in Point::ALL {
        let of_point = usage.iter().filter(|each| each.point == point);
        let cells = of_point.map(|each| format!("{} members {} %", each.members, percent(each.fuel, each.limit)));
        let cells: Vec<_> = cells.collect();
        if !cells.is_empty() {
            writeln!(f, "  {point:<9} {}", cells.join(", "))?;
        }
    }
    Ok(())
}
