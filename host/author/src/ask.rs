//! Asks a stack of policies about a case, as a round of the operator does, and keeps what each of them said.
//!
//! The round is the core's own ([`tanist_core::decide`]): whether the question arises, who is barred and whether the answer is accepted is decided there. The
//! policies are asked one by one, so that each can be shown.

use std::{cell::RefCell, time::Duration};

use serde::Serialize;
use tanist_core::{
    check,
    contract::{Answer, Care, Delay, Remedy, Timestamp},
    data::show_position,
    decide::decide,
    over::role_word,
    policy::{ABSTAINED_ALL, Answered, Point, Policies, PolicyName, Question, Reply, Unanswered},
    question::add_missing,
};
use tanist_engine::{Alone, Layer, RunError};

use crate::{
    arise::{Arises, arises, nobody, not_asked},
    case::{Case, remedy_word},
    error::chain,
    world,
};

/// How often a policy is asked whose time was over before its fuel.
const ATTEMPTS: usize = 10;

/// What came of a case.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ran {
    /// The decision point at which the policies were asked.
    pub point: Point,
    /// What the policies said, in the order in which they are asked.
    pub layers: Vec<LayerRan>,
    /// What the host makes of it.
    pub verdict: Verdict,
    /// Every member, by ordinal.
    pub members: Vec<MemberRan>,
}

/// What one policy said.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerRan {
    /// The name of the policy.
    pub policy: PolicyName,
    /// Whether its answer is the one that counts. A policy below it is asked here to be shown, and is not asked in a cluster.
    pub decides: bool,
    /// Its answer. Absent: it does not have the point, or the group does not ask it there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Verdict>,
    /// What it noted for its author.
    pub notes: Vec<String>,
    /// What that cost. Absent: it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// What a question cost one policy.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// The fuel that it used: about one unit for each instruction.
    pub fuel: u64,
    /// The fuel that it was given.
    pub budget: u64,
    /// Bytes of its memories.
    pub memory: usize,
    /// Microseconds in all, on this machine.
    pub micros: u64,
}

/// An answer, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum Verdict {
    /// These members are chosen.
    #[serde(rename_all = "camelCase")]
    Choose {
        /// The chosen members with their reasons, best first.
        ranking: Vec<Named>,
        /// Members that the policy passes over.
        passed_over: Vec<Named>,
    },
    /// These members are treated.
    Treat {
        /// In this order.
        treatments: Vec<Treated>,
    },
    /// Nothing is done for now.
    Wait {
        /// Why the policy waits.
        reason: String,
        /// Until when at most. Absent: until something changes.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// Not before an administrator changes something.
    Refuse {
        /// What the administrator has to change, in the words of the policy.
        reason: String,
    },
    /// The policy has no opinion; the next policy of the stack is asked.
    Abstain,
    /// A policy failed, or the host dropped its answer: nothing is done.
    Fail {
        /// One word: that of the engine, or `dropped`.
        kind: String,
        /// The whole message.
        reason: String,
    },
    /// The host bars every member, so that no policy is asked.
    Nobody {
        /// Why no member may be chosen.
        reason: String,
    },
}

/// A member with a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// The name of the member.
    pub member: String,
    /// Why the policy chooses it or passes over it.
    pub reason: String,
}

/// What is done with a failed member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Treated {
    /// The name of the failed member.
    pub member: String,
    /// What is done with it.
    pub remedy: Remedy,
    /// Why the policy chooses this remedy.
    pub reason: String,
}

/// One member in a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberRan {
    /// The name of the member.
    pub member: String,
    /// The role of the member by its `status` command, as one word.
    pub role: String,
    /// Its data, with the term.
    pub data: String,
    /// `chosen`, `next`, `passed over`, `barred`, a remedy, or `-`.
    pub result: String,
    /// Why it has this result, in the words of the policy or the host. Empty: no reason.
    pub reason: String,
}

/// Why a question was not asked: the host does not come to it with this snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the host does not ask {point} about this snapshot: {why}")]
pub struct NotAsked {
    /// The decision point that does not arise.
    pub point: Point,
    /// What it does instead.
    pub why: String,
}

/// Asks about a case.
///
/// # Errors
/// The host would not ask this question about this snapshot.
pub fn ask(case: &Case, layers: &[Layer]) -> Result<Ran, NotAsked> {
    let snapshot = world::snapshot(case);
    let point = case.point.value;
    let traced = Traced { case, layers, seen: RefCell::default() };
    let plan = decide(&snapshot, &traced);
    let seen = traced.seen.into_inner();
    if let Some(seen) = seen.iter().find(|seen| seen.question.point == point) {
        let verdict = verdict(seen);
        let members = rows(&seen.question, &verdict);
        return Ok(Ran { point, layers: seen.layers.clone(), verdict, members });
    }
    let asked: Vec<_> = seen.iter().map(|seen| seen.question.point).collect();
    match nobody(&snapshot, &plan, point) {
        Some(Arises::Nobody { question, reason }) => {
            let verdict = Verdict::Nobody { reason };
            Ok(Ran { point, layers: Vec::new(), members: rows(&question, &verdict), verdict })
        }
        _ => Err(not_asked(&snapshot, point, &plan, &asked)),
    }
}

/// The question that the host asks about a case, without asking anybody.
///
/// # Errors
/// The host would not ask this question about this snapshot, or bars every member.
pub fn question(case: &Case) -> Result<Question, NotAsked> {
    let point = case.point.value;
    match arises(&world::snapshot(case), point)? {
        Arises::Asked(question) => Ok(with_facts(case, &question)),
        Arises::Nobody { reason, .. } => Err(NotAsked { point, why: reason }),
    }
}

/// Asks policies one by one.
struct Traced<'a> {
    case: &'a Case,
    layers: &'a [Layer],
    seen: RefCell<Vec<Seen>>,
}

/// One question that was asked.
struct Seen {
    question: Question,
    layers: Vec<LayerRan>,
    /// The reply that counts, or the failure that ends the question. Absent: every policy abstains.
    ended: Option<Result<Reply, Unanswered>>,
}

impl Policies for Traced<'_> {
    /// An optional question is asked only where the case is about it: it could change what comes after it.
    fn has(&self, point: Point) -> bool {
        !point.is_optional() || point == self.case.point.value
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let question = with_facts(self.case, question);
        let mut seen = Seen { question, layers: Vec::new(), ended: None };
        let mut policy = None;
        for layer in self.layers {
            let name = layer.policy.name();
            let Some(alone) = ask_calmly(layer, &seen.question) else {
                let (decides, notes) = (false, Vec::new());
                seen.layers.push(LayerRan { policy: name.clone(), decides, answer: None, notes, cost: None });
                continue;
            };
            let decides = seen.ended.is_none() && !matches!(alone.reply, Ok(None));
            seen.layers.push(layer_ran(name, &alone, decides));
            if decides {
                policy = Some(name.clone());
                seen.ended = match alone.reply {
                    Ok(reply) => reply.map(Ok),
                    Err(error) => Some(Err(Unanswered {
                        policy: name.clone(),
                        kind: error.kind(),
                        message: chain(&error),
                        notes: alone.notes,
                    })),
                };
            }
        }
        let answer = match (&seen.ended, policy) {
            (Some(Ok(reply)), Some(policy)) => {
                Ok(Answered { policy, reply: reply.clone(), fuel: 0, notes: Vec::new() })
            }
            (Some(Err(error)), _) => Err(error.clone()),
            _ => Err(abstained(seen.question.point)),
        };
        self.seen.borrow_mut().push(seen);
        answer
    }
}

/// Asks a policy again when its time was over before its fuel: that tells of the machine's load and not of the policy, as in a cluster.
fn ask_calmly(layer: &Layer, question: &Question) -> Option<Alone> {
    let mut alone = layer.ask(question)?;
    for _ in 1..ATTEMPTS {
        if !matches!(alone.reply, Err(RunError::Wall)) {
            break;
        }
        alone = layer.ask(question)?;
    }
    Some(alone)
}

fn layer_ran(policy: &PolicyName, alone: &Alone, decides: bool) -> LayerRan {
    let answer = match &alone.reply {
        Ok(Some(reply)) => of_reply(reply),
        Ok(None) => Verdict::Abstain,
        Err(error) => Verdict::Fail { kind: error.kind().to_owned(), reason: chain(error) },
    };
    let spent = [alone.spent.instance, alone.spent.load, alone.spent.run].iter().sum::<Duration>();
    let cost = Cost {
        fuel: alone.fuel,
        budget: alone.budget,
        memory: alone.memory,
        micros: u64::try_from(spent.as_micros()).unwrap_or(u64::MAX),
    };
    LayerRan { policy: policy.clone(), decides, answer: Some(answer), notes: alone.notes.clone(), cost: Some(cost) }
}

fn abstained(point: Point) -> Unanswered {
    let message = format!("every policy abstained from `{point}`");
    Unanswered { policy: PolicyName::none(), kind: ABSTAINED_ALL, message, notes: Vec::new() }
}

/// Adds the facts of the case; they go before those of the host (docs/facts.md).
fn with_facts(case: &Case, question: &Question) -> Question {
    let mut question = question.clone();
    let said = |facts: &std::collections::BTreeMap<String, String>, own: &mut Vec<(String, String)>| {
        let mut all = facts.iter().map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>();
        add_missing(&mut all, own);
        *own = all;
    };
    // Why the lead would move follows from the group.
    let mut told = case.group.facts.clone();
    told.remove("switchover");
    said(&told, &mut question.snapshot.group.facts);
    for (index, name) in case.names().iter().enumerate() {
        let member = question.snapshot.members.iter_mut().find(|member| member.name.as_str() == name);
        member.into_iter().for_each(|member| said(&case.members.case(index).facts, &mut member.facts));
    }
    question
}

/// What the host makes of what the policies said.
fn verdict(seen: &Seen) -> Verdict {
    match &seen.ended {
        None => Verdict::Abstain,
        Some(Err(error)) => Verdict::Fail { kind: error.kind.to_owned(), reason: error.message.clone() },
        Some(Ok(reply)) => match check::reply(&seen.question, reply) {
            Ok(()) => of_reply(reply),
            Err(violation) => Verdict::Fail {
                kind: "dropped".to_owned(),
                reason: format!("the host drops the whole answer: {}", violation.message),
            },
        },
    }
}

fn of_reply(reply: &Reply) -> Verdict {
    match reply {
        Reply::Answer(Answer::Choose(ranking)) => Verdict::Choose {
            ranking: ranking
                .candidates
                .iter()
                .map(|each| Named { member: each.member.to_string(), reason: each.reason.clone() })
                .collect(),
            passed_over: ranking
                .passed_over
                .iter()
                .map(|each| Named { member: each.member.to_string(), reason: each.reason.clone() })
                .collect(),
        },
        Reply::Care(Care::Treat(all)) => Verdict::Treat {
            treatments: all
                .iter()
                .map(|each| Treated {
                    member: each.member.to_string(),
                    remedy: each.remedy,
                    reason: each.reason.clone(),
                })
                .collect(),
        },
        Reply::Answer(Answer::Wait(Delay { reason, until })) | Reply::Care(Care::Wait(Delay { reason, until })) => {
            Verdict::Wait { reason: reason.clone(), until: *until }
        }
        Reply::Answer(Answer::Refuse(reason)) | Reply::Care(Care::Refuse(reason)) => {
            Verdict::Refuse { reason: reason.clone() }
        }
        Reply::Answer(Answer::Abstain) | Reply::Care(Care::Abstain) => Verdict::Abstain,
    }
}

/// Every member with what the verdict means for it.
fn rows(question: &Question, verdict: &Verdict) -> Vec<MemberRan> {
    let row = |member: &tanist_core::contract::Member| {
        let (result, reason) = match (&member.barred, standing(verdict, member.name.as_str())) {
            (Some(barred), _) => ("barred".to_owned(), barred.clone()),
            (None, Some(standing)) => standing,
            (None, None) => ("-".to_owned(), String::new()),
        };
        let term = member.term.map(|term| format!(" of term {term}")).unwrap_or_default();
        MemberRan {
            member: member.name.to_string(),
            role: role_word(member.role).to_owned(),
            data: format!("{}{term}", show_position(&member.position)),
            result,
            reason,
        }
    };
    question.snapshot.members.iter().map(row).collect()
}

fn standing(verdict: &Verdict, member: &str) -> Option<(String, String)> {
    match verdict {
        Verdict::Choose { ranking, passed_over } => {
            let ranked = ranking.iter().enumerate().find(|(_, each)| each.member == member);
            let ranked =
                ranked.map(|(at, each)| (if at == 0 { "chosen" } else { "next" }.to_owned(), each.reason.clone()));
            let passed = || {
                let remark = passed_over.iter().find(|each| each.member == member);
                let reason = remark.map_or("the policy gave no reason", |each| &each.reason);
                ("passed over".to_owned(), reason.to_owned())
            };
            Some(ranked.unwrap_or_else(passed))
        }
        Verdict::Treat { treatments } => {
            let found = treatments.iter().find(|each| each.member == member)?;
            Some((remedy_word(found.remedy).to_owned(), found.reason.clone()))
        }
        _ => None,
    }
}
