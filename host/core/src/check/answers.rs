//! Checks the form of an answer, whatever the question (wit/policy.wit, "WHAT IS DONE WITH AN ANSWER"; docs/safety.md, H9 to H11).
use super::{Held, Rule, broken, broken_by};
use crate::contract::{Answer, Care, Delay, MemberName, Ranking, Remedy, Treatment};
use crate::limits;
use crate::policy::{Question, Reply};
use std::collections::{BTreeMap, BTreeSet};

/// The members of a question, with the reason why each may not be chosen.
type Members<'a> = BTreeMap<&'a MemberName, Option<&'a str>>;

fn members(question: &Question) -> Members<'_> {
    question.snapshot.members.iter().map(|m| (&m.name, m.barred.as_deref())).collect()
}

/// Checks a reply against its question.
///
/// # Errors
/// The first rule that it breaks. An abstention breaks none.
pub fn reply(question: &Question, reply: &Reply) -> Held {
    match reply {
        Reply::Answer(Answer::Choose(chosen)) => check_ranking(question, chosen),
        Reply::Care(Care::Treat(all)) => check_treatments(question, all),
        Reply::Answer(Answer::Wait(until)) | Reply::Care(Care::Wait(until)) => check_delay(question, until),
        Reply::Answer(Answer::Refuse(_) | Answer::Abstain) | Reply::Care(Care::Refuse(_) | Care::Abstain) => Ok(()),
    }
}

/// Checks a ranking against its question (wit/policy.wit, "WHAT IS DONE WITH AN ANSWER").
///
/// # Errors
/// The first rule that it breaks.
fn check_ranking(question: &Question, ranking: &Ranking) -> Held {
    if ranking.candidates.is_empty() {
        return Err(broken(
            Rule::EmptyAnswer,
            "the policy returned a ranking without candidates; it has to answer wait or refuse instead",
        ));
    }
    let members = members(question);
    let mut seen = BTreeSet::new();
    for candidate in &ranking.candidates {
        may_be_chosen(&members, &candidate.member)?;
        if !seen.insert(&candidate.member) {
            return Err(broken_by(
                Rule::DuplicateMember,
                &candidate.member,
                format!("the policy chose {} twice", candidate.member),
            ));
        }
        reason_fits(&candidate.reason)?;
        if candidate.source.is_some() {
            let message = format!(
                "the policy asks to bring {} up to another member's data first, which this group cannot do",
                candidate.member
            );
            return Err(broken_by(Rule::SourceNotPossible, &candidate.member, message));
        }
    }
    for remark in &ranking.passed_over {
        is_member(&members, &remark.member)?;
        reason_fits(&remark.reason)?;
    }
    Ok(())
}

/// Checks treatments against their question.
///
/// # Errors
/// The first rule they break.
fn check_treatments(question: &Question, treatments: &[Treatment]) -> Held {
    let members = members(question);
    let mut seen = BTreeSet::new();
    for treatment in treatments {
        may_be_chosen(&members, &treatment.member)?;
        if !seen.insert(&treatment.member) {
            return Err(broken_by(
                Rule::DuplicateMember,
                &treatment.member,
                format!("the policy named {} twice", treatment.member),
            ));
        }
        reason_fits(&treatment.reason)?;
        if treatment.remedy == Remedy::Replace {
            let message =
                format!("the policy asks to replace {}, which this version does not support", treatment.member);
            return Err(broken_by(Rule::RemedyNotPossible, &treatment.member, message));
        }
    }
    Ok(())
}

/// Checks a delay against its question.
///
/// # Errors
/// When the delay does not end later than now.
fn check_delay(question: &Question, delay: &Delay) -> Held {
    reason_fits(&delay.reason)?;
    match delay.until {
        Some(until) if until <= question.snapshot.now => {
            Err(broken(Rule::DelayNotLater, "the policy asks to be called again at a time that is not later than now"))
        }
        _ => Ok(()),
    }
}

fn is_member(members: &Members<'_>, name: &MemberName) -> Held {
    match members.contains_key(name) {
        true => Ok(()),
        false => Err(broken_by(
            Rule::UnknownMember,
            name,
            format!("the policy named {name}, which is not a member of this group"),
        )),
    }
}

fn may_be_chosen(members: &Members<'_>, name: &MemberName) -> Held {
    is_member(members, name)?;
    match members.get(name).copied().flatten() {
        Some(why) => {
            Err(broken_by(Rule::BarredMember, name, format!("the policy chose {name}, which is barred: {why}")))
        }
        None => Ok(()),
    }
}

fn reason_fits(text: &str) -> Held {
    match text.len() <= limits::REASON_BYTES {
        true => Ok(()),
        false => Err(broken(
            Rule::ReasonTooLong,
            format!("the policy gave a reason of {} bytes; at most 256 are allowed", text.len()),
        )),
    }
}
