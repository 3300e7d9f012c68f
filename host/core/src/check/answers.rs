//! What an answer may say at all, whatever it means (wit/policy.wit, "WHAT IS DONE WITH AN ANSWER"; docs/safety.md, H9 to H11).
use super::{Held, Rule, broken, broken_by};
use crate::contract::{Answer, Care, Delay, MemberName, Ranking, Remedy, Treatment};
use crate::limits;
use crate::policy::{Question, Reply};
use std::collections::BTreeSet;

/// Holds whatever was answered against its question.
///
/// # Errors
/// The first rule it breaks. Who has no opinion breaks none.
pub fn reply(question: &Question, reply: &Reply) -> Held {
    match reply {
        Reply::Answer(Answer::Choose(chosen)) => ranking(question, chosen),
        Reply::Care(Care::Treat(all)) => treatments(question, all),
        Reply::Answer(Answer::Wait(until)) | Reply::Care(Care::Wait(until)) => delay(question, until),
        Reply::Answer(Answer::Refuse(_) | Answer::Abstain) | Reply::Care(Care::Refuse(_) | Care::Abstain) => Ok(()),
    }
}

/// Holds a ranking against its question (wit/policy.wit, "WHAT IS DONE WITH AN ANSWER").
///
/// # Errors
/// The first rule it breaks.
fn ranking(question: &Question, ranking: &Ranking) -> Held {
    if ranking.candidates.is_empty() {
        return Err(broken(
            Rule::EmptyAnswer,
            "the policy chose nobody; an answer without candidates has to be wait or refuse",
        ));
    }
    let mut seen = BTreeSet::new();
    for candidate in &ranking.candidates {
        chosen(question, &candidate.member)?;
        if !seen.insert(&candidate.member) {
            return Err(broken_by(
                Rule::DuplicateMember,
                &candidate.member,
                format!("the policy chose {} twice", candidate.member),
            ));
        }
        reason(&candidate.reason)?;
        if candidate.source.is_some() {
            let message = format!(
                "the policy wants {} brought up to another member's data first; this group cannot do that",
                candidate.member
            );
            return Err(broken_by(Rule::SourceNotPossible, &candidate.member, message));
        }
    }
    for remark in &ranking.passed_over {
        known(question, &remark.member)?;
        reason(&remark.reason)?;
    }
    Ok(())
}

/// Holds treatments against their question.
///
/// # Errors
/// The first rule they break.
fn treatments(question: &Question, treatments: &[Treatment]) -> Held {
    let mut seen = BTreeSet::new();
    for treatment in treatments {
        chosen(question, &treatment.member)?;
        if !seen.insert(&treatment.member) {
            return Err(broken_by(
                Rule::DuplicateMember,
                &treatment.member,
                format!("the policy treats {} twice", treatment.member),
            ));
        }
        reason(&treatment.reason)?;
        if treatment.remedy == Remedy::Replace {
            let message =
                format!("the policy wants {} replaced; that needs a group with spec.repair", treatment.member);
            return Err(broken_by(Rule::RemedyNotPossible, &treatment.member, message));
        }
    }
    Ok(())
}

/// Holds a delay against its question.
///
/// # Errors
/// When it does not end later than now.
fn delay(question: &Question, delay: &Delay) -> Held {
    reason(&delay.reason)?;
    match delay.until {
        Some(until) if until <= question.snapshot.now => {
            Err(broken(Rule::DelayNotLater, "the policy wants to be asked again at a time that is not later than now"))
        }
        _ => Ok(()),
    }
}

fn known(question: &Question, name: &MemberName) -> Held {
    match question.snapshot.members.iter().any(|m| &m.name == name) {
        true => Ok(()),
        false => Err(broken_by(
            Rule::UnknownMember,
            name,
            format!("the policy names {name}, which is no member of this group"),
        )),
    }
}

fn chosen(question: &Question, name: &MemberName) -> Held {
    known(question, name)?;
    match question.snapshot.members.iter().find(|m| &m.name == name).and_then(|m| m.barred.as_ref()) {
        Some(why) => {
            Err(broken_by(Rule::BarredMember, name, format!("the policy chose {name}, which is barred: {why}")))
        }
        None => Ok(()),
    }
}

fn reason(text: &str) -> Held {
    match text.len() <= limits::REASON_BYTES {
        true => Ok(()),
        false => Err(broken(
            Rule::ReasonTooLong,
            format!("the policy gave a reason of {} bytes; at most 256 are allowed", text.len()),
        )),
    }
}
