//! What a policy returned, as the core has it, field by field; `question.rs` is the other way.
//!
//! Every record is destructured by name and every variant matched without `_`, so that a change of the contract does not compile before it is
//! handled here. Values from a policy are hostile until they were converted: lengths are limited, texts are made printable. Which members an
//! answer names is checked elsewhere, by the group's rules.

use tanist_core::contract;

use crate::{
    bindings::exports::tanist::policy::{recovery, types as wit},
    error::RunError,
    limits::Limits,
    text::{MESSAGE, fit, has_unfit, printable, short},
};

/// Converts what a policy returned, and checks the limits.
pub(crate) struct Intake<'a> {
    limits: &'a Limits,
    left: usize,
}

impl<'a> Intake<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Self {
        Self { limits, left: limits.answer_bytes }
    }

    pub(crate) fn answer(mut self, answer: wit::Answer) -> Result<contract::Answer, RunError> {
        Ok(match answer {
            wit::Answer::Choose(ranking) => contract::Answer::Choose(self.ranking(ranking)?),
            wit::Answer::Wait(delay) => contract::Answer::Wait(self.delay(delay)?),
            wit::Answer::Refuse(why) => contract::Answer::Refuse(self.reason(why)?),
            wit::Answer::Abstain => contract::Answer::Abstain,
        })
    }

    pub(crate) fn care(mut self, care: recovery::Care) -> Result<contract::Care, RunError> {
        Ok(match care {
            recovery::Care::Treat(treatments) => {
                contract::Care::Treat(self.list(treatments, "treatments", Self::treatment)?)
            }
            recovery::Care::Wait(delay) => contract::Care::Wait(self.delay(delay)?),
            recovery::Care::Refuse(why) => contract::Care::Refuse(self.reason(why)?),
            recovery::Care::Abstain => contract::Care::Abstain,
        })
    }

    fn ranking(&mut self, ranking: wit::Ranking) -> Result<contract::Ranking, RunError> {
        let wit::Ranking { candidates, passed_over } = ranking;
        Ok(contract::Ranking {
            candidates: self.list(candidates, "candidates", Self::candidate)?,
            passed_over: self.list(passed_over, "members passed over", Self::remark)?,
        })
    }

    fn candidate(&mut self, candidate: wit::Candidate) -> Result<contract::Candidate, RunError> {
        let wit::Candidate { member, reason, source } = candidate;
        Ok(contract::Candidate {
            member: self.name(member)?,
            reason: self.reason(reason)?,
            source: source.map(|source| self.name(source)).transpose()?,
        })
    }

    fn remark(&mut self, remark: wit::Remark) -> Result<contract::Remark, RunError> {
        let wit::Remark { member, reason } = remark;
        Ok(contract::Remark { member: self.name(member)?, reason: self.reason(reason)? })
    }

    fn treatment(&mut self, treatment: recovery::Treatment) -> Result<contract::Treatment, RunError> {
        let recovery::Treatment { member, remedy, reason } = treatment;
        let remedy = match remedy {
            recovery::Remedy::Leave => contract::Remedy::Leave,
            recovery::Remedy::Stop => contract::Remedy::Stop,
            recovery::Remedy::Recreate => contract::Remedy::Recreate,
            recovery::Remedy::Replace => contract::Remedy::Replace,
        };
        Ok(contract::Treatment { member: self.name(member)?, remedy, reason: self.reason(reason)? })
    }

    fn delay(&mut self, delay: wit::Delay) -> Result<contract::Delay, RunError> {
        let wit::Delay { reason, until } = delay;
        Ok(contract::Delay { reason: self.reason(reason)?, until })
    }

    fn list<T, U>(
        &mut self,
        list: Vec<T>,
        what: &str,
        take: fn(&mut Self, T) -> Result<U, RunError>,
    ) -> Result<Vec<U>, RunError> {
        let (count, limit) = (list.len(), self.limits.answer_members);
        if count > limit {
            return Err(RunError::Output(format!("{count} {what}, {limit} are allowed")));
        }
        list.into_iter().map(|item| take(self, item)).collect()
    }

    /// A member's name is used for look-ups, so it is refused instead of changed if it is not printable.
    fn name(&mut self, name: String) -> Result<contract::MemberName, RunError> {
        self.count(&name, "the name of a member")?;
        if has_unfit(&name) {
            return Err(RunError::Malformed("the name of a member has control characters".to_owned()));
        }
        Ok(contract::MemberName(name))
    }

    /// Escaping makes a text longer; the limit also holds for the escaped text.
    fn reason(&mut self, text: String) -> Result<String, RunError> {
        self.count(&text, "a reason")?;
        Ok(fit(text, self.limits.reason_bytes))
    }

    fn count(&mut self, text: &str, what: &str) -> Result<(), RunError> {
        let (bytes, limit) = (text.len(), self.limits.reason_bytes);
        if bytes > limit {
            return Err(RunError::Output(format!("{what} has {bytes} bytes, {limit} are allowed")));
        }
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            RunError::Output(format!("the whole answer has more than {} bytes", self.limits.answer_bytes))
        })?;
        Ok(())
    }
}

/// The fault of a policy, cut to a length that can be shown.
pub(crate) fn fault(fault: wit::Fault) -> contract::Fault {
    let wit::Fault { message, location } = fault;
    contract::Fault {
        message: short(&message, MESSAGE),
        location: location.map(|wit::Location { file, line, column }| contract::Location {
            file: short(&file, 256),
            line,
            column,
        }),
    }
}

/// The notes of a policy, as many and as long as the contract allows.
pub(crate) fn notes(notes: Vec<String>, limits: &Limits) -> Vec<String> {
    notes.into_iter().take(limits.notes).map(|note| fit(note, limits.reason_bytes)).collect()
}

/// The description of a policy. Its schema is not changed, because it is parsed and not shown.
pub(crate) fn description(description: wit::Description) -> Result<contract::Description, String> {
    let wit::Description { name, version, summary, parameters, declares } = description;
    within("its name", &name, 1..=64)?;
    within("its version", &version, 1..=64)?;
    within("its summary", &summary, 0..=256)?;
    if !is_semver(&version) {
        return Err(format!("its version `{}` is not a semantic version such as 1.0.0", printable(&version)));
    }
    if declares.len() > 32 {
        return Err(format!("it declares {} things, 32 are allowed", declares.len()));
    }
    for word in &declares {
        within("what it declares", word, 1..=64)?;
    }
    Ok(contract::Description { name, version, summary, parameters, declares })
}

fn within(what: &str, text: &str, bytes: std::ops::RangeInclusive<usize>) -> Result<(), String> {
    if !bytes.contains(&text.len()) {
        return Err(format!("{what} has {} bytes, {} to {} are allowed", text.len(), bytes.start(), bytes.end()));
    }
    if has_unfit(text) {
        return Err(format!("{what} has control characters"));
    }
    Ok(())
}

fn is_semver(version: &str) -> bool {
    let core_end = version.find(['-', '+']).unwrap_or(version.len());
    let (core, rest) = version.split_at(core_end);
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    core.split('.').count() == 3
        && core.split('.').all(number)
        && rest.len() != 1
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_control_characters_are_refused() {
        let limits = Limits::default();
        let named = |name: &str| Intake::new(&limits).name(name.to_owned());
        for bad in ["db-\u{1b}[2J", "db-0\n", "\u{202e}db-0", "é\u{7}"] {
            assert!(matches!(named(bad), Err(RunError::Malformed(_))), "{bad:?}");
        }
        for good in ["db-0", "é-0", ""] {
            assert_eq!(named(good).ok(), Some(good.into()));
        }
    }

    // P17: what the host keeps of notes, whatever a policy gives.
    #[test]
    fn notes_are_as_many_and_as_long_as_allowed_and_printable() {
        let limits = Limits::default();
        let noted = notes(vec!["x".repeat(300); 40], &limits);
        assert_eq!((noted.len(), noted.iter().all(|note| note.len() <= 256)), (32, true));
        assert_eq!(notes(vec!["a\u{1b}b".to_owned()], &limits), ["a\\u{1b}b"]);
    }

    #[test]
    fn versions_are_semantic() {
        for good in ["0.1.0", "1.2.3-rc.1+build", "10.0.0+x"] {
            assert!(is_semver(good), "{good}");
        }
        for bad in ["", "1", "1.0", "1.0.x", "1.0.0-", "v1.0.0", "1.0.0 "] {
            assert!(!is_semver(bad), "{bad}");
        }
    }
}
