//! What an exam found at some of the points: a group may ask a policy at fewer points than it has.

use std::collections::{BTreeMap, BTreeSet};

use tanist_core::policy::Point;

use super::{Exam, Finding};

/// What was asked and found at each point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The cases that were asked.
    pub cases: BTreeSet<(Point, &'static str)>,
    /// The number of different questions.
    pub questions: BTreeMap<Point, usize>,
    /// Each kind once for each point, in the order in which they were seen, and whether the policy declares it.
    pub findings: Vec<(bool, Finding)>,
    /// Points that were not asked any more after the policy failed there.
    pub closed: BTreeSet<Point>,
}

impl Record {
    /// Adds a finding, or counts it when its kind was seen at its point before.
    pub fn find(&mut self, is_declared: bool, finding: Finding) {
        let same = |(declared, seen): &&mut (bool, Finding)| {
            *declared == is_declared && seen.kind == finding.kind && seen.point == finding.point
        };
        match self.findings.iter_mut().find(same) {
            Some((_, seen)) => seen.count += 1,
            None => self.findings.push((is_declared, finding)),
        }
    }

    /// The findings at these points, each kind once, that are declared or are not.
    fn at(&self, points: &[Point], is_declared: bool) -> Vec<Finding> {
        let mut merged: Vec<Finding> = Vec::new();
        let here =
            self.findings.iter().filter(|(declared, each)| *declared == is_declared && points.contains(&each.point));
        for (_, each) in here {
            match merged.iter_mut().find(|seen| seen.kind == each.kind) {
                Some(seen) => {
                    seen.count += each.count;
                    seen.points.push(each.point);
                }
                None => merged.push(each.clone()),
            }
        }
        merged
    }
}

impl Exam {
    /// The part of the exam that concerns these points: what a group that asks the policy at them alone goes by. What was found at the others is no
    /// finding then.
    #[must_use]
    pub fn at(&self, points: &[Point]) -> Self {
        let mut part = self.clone();
        let (asked, left): (Vec<Point>, Vec<Point>) =
            self.examined.points.iter().partition(|point| points.contains(point));
        part.examined.points = asked;
        part.examined.usage.retain(|usage| points.contains(&usage.point));
        part.not_asked_at.extend(left);
        part.count();
        part
    }

    /// Whether what was found at the points that are not asked would fail the exam.
    pub(super) fn fails_elsewhere(&self) -> Vec<Point> {
        let fails =
            |point: &Point| self.record.findings.iter().any(|(declared, each)| !declared && each.point == *point);
        self.not_asked_at.iter().copied().filter(fails).collect()
    }

    /// Takes findings and numbers of the points that are examined from the record.
    pub(super) fn count(&mut self) {
        let points = &self.examined.points;
        self.findings = self.record.at(points, false);
        self.declared = self.record.at(points, true);
        let here = self.record.cases.iter().filter(|(point, _)| points.contains(point));
        self.examined.cases = here.map(|(_, case)| case).collect::<BTreeSet<_>>().len();
        let questions = self.record.questions.iter().filter(|(point, _)| points.contains(point));
        self.examined.questions = questions.map(|(_, questions)| questions).sum();
        let elsewhere: Vec<_> =
            self.record.closed.iter().filter(|point| !points.contains(point)).map(|point| closed(*point)).collect();
        self.not_examined.retain(|what| !elsewhere.contains(what));
    }
}

/// What is said of a point that was not asked any more.
pub(super) fn closed(point: Point) -> String {
    format!("the other questions of {point}, after it failed there")
}
