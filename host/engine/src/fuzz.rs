//! Doors for the fuzz targets (dev/fuzz): the gates without the compiler behind them, and what a policy returned without one that returns it.

use tanist_core::{
    contract::{Answer, Candidate, Care, Delay, Remark, Remedy, Treatment},
    policy::Reply,
};

use crate::{
    bindings::exports::tanist::policy::{recovery, types as wit},
    compiled,
    convert::Intake,
    error::{LoadError, RunError},
    limits::Limits,
    policy::check_form,
};

/// The gates before the compiler: size, first bytes, caps, imports, and the names of the interfaces.
///
/// # Errors
/// The reason why the bytes are no policy, as far as that can be said without compiling them.
pub fn admit(bytes: &[u8]) -> Result<(), LoadError> {
    check_form(bytes, &Limits::default())?;
    compiled::admit(bytes)
}

/// Takes a reply whose texts are what a policy wrote, unchecked. `None`: it abstains.
///
/// # Errors
/// It has too much of something, or a name that is none.
pub fn take(reply: Reply, limits: &Limits) -> Result<Option<Reply>, RunError> {
    let intake = Intake::new(limits);
    Ok(match reply {
        Reply::Answer(said) => match intake.answer(answer(said))? {
            Answer::Abstain => None,
            taken => Some(Reply::Answer(taken)),
        },
        Reply::Care(said) => match intake.care(care(said))? {
            Care::Abstain => None,
            taken => Some(Reply::Care(taken)),
        },
    })
}

fn answer(said: Answer) -> wit::Answer {
    match said {
        Answer::Choose(ranking) => wit::Answer::Choose(wit::Ranking {
            candidates: ranking.candidates.into_iter().map(candidate).collect(),
            passed_over: ranking.passed_over.into_iter().map(remark).collect(),
        }),
        Answer::Wait(until) => wit::Answer::Wait(delay(until)),
        Answer::Refuse(why) => wit::Answer::Refuse(why),
        Answer::Abstain => wit::Answer::Abstain,
    }
}

fn care(said: Care) -> recovery::Care {
    match said {
        Care::Treat(treatments) => recovery::Care::Treat(treatments.into_iter().map(treatment).collect()),
        Care::Wait(until) => recovery::Care::Wait(delay(until)),
        Care::Refuse(why) => recovery::Care::Refuse(why),
        Care::Abstain => recovery::Care::Abstain,
    }
}

fn candidate(said: Candidate) -> wit::Candidate {
    wit::Candidate { member: said.member.0, reason: said.reason, source: said.source.map(|member| member.0) }
}

fn remark(said: Remark) -> wit::Remark {
    wit::Remark { member: said.member.0, reason: said.reason }
}

fn treatment(said: Treatment) -> recovery::Treatment {
    let remedy = match said.remedy {
        Remedy::Leave => recovery::Remedy::Leave,
        Remedy::Stop => recovery::Remedy::Stop,
        Remedy::Recreate => recovery::Remedy::Recreate,
        Remedy::Replace => recovery::Remedy::Replace,
    };
    recovery::Treatment { member: said.member.0, remedy, reason: said.reason }
}

fn delay(said: Delay) -> wit::Delay {
    wit::Delay { reason: said.reason, until: said.until }
}
