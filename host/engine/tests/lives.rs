//! Simulated lives of groups whose decisions the built-in policy makes, as a component in the shipped engine. What its documentation says is compared with each
//! of its answers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use common::{engine, layer, load};
use std::cmp::Reverse;
use std::sync::{Arc, Mutex};
use tanist_core::contract::{Answer, Care, Member, Position, Remedy, Role};
use tanist_core::policy::{Answered, Point, Policies, Question, Reply, Unanswered};
use tanist_engine::Stack;
use tanist_sim::life::live;

/// What was asked, and the questions that were answered in two ways.
#[derive(Default)]
struct Heard {
    questions: u64,
    differ: Vec<String>,
}

/// The built-in policy decides, and its answers are compared.
struct Both {
    shipped: Stack,
    heard: Arc<Mutex<Heard>>,
}

impl Policies for Both {
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let (answer, expected) = (self.shipped.ask(question), documented(question));
        let mut heard = self.heard.lock().unwrap();
        heard.questions += 1;
        if said(&answer) != expected {
            heard.differ.push(format!("{}: {:?}, expected {:?}", question.point, said(&answer), expected));
        }
        answer
    }
}

/// What the table in policies/sequence/src/lib.rs says, for a policy without parameters.
fn documented(question: &Question) -> Vec<String> {
    let data = |m: &Member| match &m.position {
        Position::Known(sequence) => (0, Reverse(Some((m.term, sequence.number)))),
        Position::Unknown(_) | Position::NotAsked => (1, Reverse(None)),
        Position::Empty => (2, Reverse(None)),
    };
    let point = question.point;
    let preferred = |m: &Member| Some(&m.name) == question.snapshot.group.preferred_primary.as_ref();
    let mut members: Vec<_> = question.snapshot.members.iter().filter(|m| m.barred.is_none()).collect();
    members.sort_by_key(|m| match point {
        Point::Treat => ((0, Reverse(None)), false, false, m.ordinal),
        Point::Place => (data(m), false, false, m.ordinal),
        point => (data(m), point == Point::Failover && m.role != Role::Secondary, !preferred(m), m.ordinal),
    });
    let top = members.first().map(|m| data(m));
    members.retain(|m| !matches!(point, Point::Seed | Point::Failover) || Some(data(m)) == top);
    if point == Point::Demote {
        members.reverse();
    }
    let stop_failed = |m: &Member| m.last_failure.as_ref().is_some_and(|failure| failure.command == "stop");
    let remedy = |m: &Member| if stop_failed(m) { Remedy::Recreate } else { Remedy::Stop };
    let text = |m: &&Member| match point {
        Point::Treat => format!("{} {:?}", m.name, remedy(m)),
        _ => m.name.to_string(),
    };
    members.iter().map(text).collect()
}

/// The answer without its reasons.
fn said(answer: &Result<Answered, Unanswered>) -> Vec<String> {
    match answer.as_ref().map(|answered| &answered.reply) {
        Ok(Reply::Answer(Answer::Choose(ranking))) => ranking.candidates.iter().map(|c| c.member.to_string()).collect(),
        Ok(Reply::Care(Care::Treat(all))) => all.iter().map(|t| format!("{} {:?}", t.member, t.remedy)).collect(),
        other => vec![format!("{other:?}")],
    }
}

/// One in 47 of so many lives; with `TANIST_SIM_SEEDS` one in 47 of those. No step that divides 19 or 4, so that there are long lives and second groups, too.
#[test]
fn the_built_in_policy_decides_in_simulated_lives() {
    let number =
        |variable: &str, usual: u64| std::env::var(variable).ok().and_then(|t| t.parse().ok()).unwrap_or(usual);
    let (first, count) = (number("TANIST_SIM_SEED", 1), number("TANIST_SIM_SEEDS", 300));
    let sequence = load(&engine(), "sequence");
    let heard = Arc::new(Mutex::new(Heard::default()));
    for seed in (first..first + count).step_by(47) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let both = || -> Box<dyn Policies + Send + Sync> {
            Box::new(Both { shipped: Stack::new(vec![layer(&sequence, "{}")]), heard: heard.clone() })
        };
        let life = runtime.block_on(live(seed, both));
        assert!(
            life.broken.is_empty() && life.unwell.is_empty(),
            "seed {seed}: {:?} {:?}\n{}",
            life.broken,
            life.unwell,
            life.log.join("\n")
        );
    }
    let heard = heard.lock().unwrap();
    assert!(
        heard.differ.is_empty(),
        "{} of {} differ:\n{}",
        heard.differ.len(),
        heard.questions,
        heard.differ.join("\n")
    );
    assert!(heard.questions > 20, "only {} questions", heard.questions);
}
