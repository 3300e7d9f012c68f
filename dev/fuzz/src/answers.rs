//! What a policy answers, and what of it a decision may use.
use crate::sentence;
use arbitrary::{Result, Unstructured};
use std::collections::BTreeSet;
use std::sync::LazyLock;
use tanist_core::check;
use tanist_core::contract::{Answer, Candidate, Care, Delay, MemberName, Ranking, Remark, Remedy, Treatment};
use tanist_core::examples::usual;
use tanist_core::limits::REASON_BYTES;
use tanist_core::policy::{Point, Question, Reply};
use tanist_engine::{Limits, fuzz};

/// Bytes of what is said about a bad answer: a name, a reason why a member is barred, and some words.
const SAID: usize = 1 << 10;

/// The usual question of each point.
static QUESTIONS: LazyLock<Vec<Question>> =
    LazyLock::new(|| Point::ALL.into_iter().filter_map(|point| usual(point).0.question(point)).collect());

/// The bytes as the values of which an answer to one of the usual questions is made.
pub fn run(bytes: &[u8]) {
    let mut values = Unstructured::new(bytes);
    let Ok(question) = values.choose(&QUESTIONS) else { return };
    let Ok(said) = reply(&mut values, question) else { return };
    let limits = Limits::default();
    let taken = match fuzz::take(said, &limits) {
        Ok(Some(taken)) => taken,
        Ok(None) => return,
        Err(why) => return sentence::check(&why.to_string(), SAID, bytes),
    };
    texts(&taken).iter().for_each(|text| is_fit(text));
    assert_eq!(fuzz::take(taken.clone(), &limits), Ok(Some(taken.clone())), "what was taken is taken as it is");
    match check::reply(question, &taken) {
        Ok(()) => is_sound(question, &taken),
        Err(why) => sentence::check(&why.message, SAID, bytes),
    }
}

/// The reasons in a reply.
fn texts(reply: &Reply) -> Vec<&str> {
    match reply {
        Reply::Answer(Answer::Choose(ranking)) => {
            let candidates = ranking.candidates.iter().map(|candidate| candidate.reason.as_str());
            candidates.chain(ranking.passed_over.iter().map(|remark| remark.reason.as_str())).collect()
        }
        Reply::Care(Care::Treat(all)) => all.iter().map(|treatment| treatment.reason.as_str()).collect(),
        Reply::Answer(Answer::Wait(delay)) | Reply::Care(Care::Wait(delay)) => vec![&delay.reason],
        Reply::Answer(Answer::Refuse(why)) | Reply::Care(Care::Refuse(why)) => vec![why],
        Reply::Answer(Answer::Abstain) | Reply::Care(Care::Abstain) => Vec::new(),
    }
}

fn is_fit(text: &str) {
    assert!(text.len() <= REASON_BYTES, "a reason of {} bytes", text.len());
    assert!(!text.chars().any(char::is_control), "a reason with control characters: {text:?}");
}

/// H10 to H12: whom an accepted answer names may be chosen, each once.
fn is_sound(question: &Question, reply: &Reply) {
    let chosen: Vec<&MemberName> = match reply {
        Reply::Answer(Answer::Choose(ranking)) => {
            assert!(!ranking.candidates.is_empty());
            ranking.candidates.iter().map(|candidate| &candidate.member).collect()
        }
        Reply::Care(Care::Treat(all)) => all.iter().map(|treatment| &treatment.member).collect(),
        _ => return,
    };
    for name in &chosen {
        let member = question.snapshot.members.iter().find(|member| member.name == **name);
        assert!(member.is_some_and(|member| member.barred.is_none()), "{name} may not be chosen");
    }
    assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), chosen.len(), "a member is chosen twice");
}

fn reply(values: &mut Unstructured<'_>, question: &Question) -> Result<Reply> {
    let kind = values.int_in_range(0..=3)?;
    if question.point == Point::Treat {
        return Ok(Reply::Care(match kind {
            0 => Care::Treat(list(values, question, treatment)?),
            1 => Care::Wait(delay(values)?),
            2 => Care::Refuse(values.arbitrary()?),
            _ => Care::Abstain,
        }));
    }
    Ok(Reply::Answer(match kind {
        0 => {
            let candidates = list(values, question, candidate)?;
            Answer::Choose(Ranking { candidates, passed_over: list(values, question, remark)? })
        }
        1 => Answer::Wait(delay(values)?),
        2 => Answer::Refuse(values.arbitrary()?),
        _ => Answer::Abstain,
    }))
}

/// A list of a few; now and then of more than are allowed.
fn list<T: Clone>(
    values: &mut Unstructured<'_>,
    question: &Question,
    one: fn(&mut Unstructured<'_>, &Question) -> Result<T>,
) -> Result<Vec<T>> {
    let count = values.int_in_range(0..=6)?;
    let items = (0..count).map(|_| one(values, question)).collect::<Result<Vec<T>>>()?;
    let times = if values.ratio(1, 64)? { 400 } else { 1 };
    Ok(items.iter().cloned().cycle().take(items.len() * times).collect())
}

/// The name of a member, or any text.
fn name(values: &mut Unstructured<'_>, question: &Question) -> Result<MemberName> {
    if values.ratio(1, 8)? {
        return Ok(MemberName(values.arbitrary()?));
    }
    values.choose(&question.snapshot.members).map(|member| member.name.clone())
}

fn candidate(values: &mut Unstructured<'_>, question: &Question) -> Result<Candidate> {
    let source = if values.ratio(1, 16)? { Some(name(values, question)?) } else { None };
    Ok(Candidate { member: name(values, question)?, reason: values.arbitrary()?, source })
}

fn remark(values: &mut Unstructured<'_>, question: &Question) -> Result<Remark> {
    Ok(Remark { member: name(values, question)?, reason: values.arbitrary()? })
}

fn treatment(values: &mut Unstructured<'_>, question: &Question) -> Result<Treatment> {
    let remedy = *values.choose(&[Remedy::Leave, Remedy::Stop, Remedy::Recreate, Remedy::Replace])?;
    Ok(Treatment { member: name(values, question)?, remedy, reason: values.arbitrary()? })
}

fn delay(values: &mut Unstructured<'_>) -> Result<Delay> {
    Ok(Delay { reason: values.arbitrary()?, until: values.arbitrary()? })
}
