//! What an outcome that a runner reports means to the operator: as evidence, and as a clause of a message.
use tanist_core::snapshot::Evidence;
use tanist_protocol::outcome::Outcome;
use tanist_protocol::why::Word;

/// The outcome as evidence of how a command ended.
#[must_use]
pub fn evidence(outcome: &Outcome) -> Evidence {
    match outcome {
        Outcome::Exited(code) => Evidence::Exited((*code).into()),
        Outcome::NotStarted(why) => Evidence::NotStarted(why.to_string()),
        Outcome::Void => Evidence::NotStarted(Word::Void.as_str().to_owned()),
        Outcome::Unknown(why) => Evidence::Unknown(why.to_string()),
        Outcome::Running => Evidence::Running,
        Outcome::Interrupted => Evidence::Interrupted,
    }
}

/// A clause for messages, for instance "it exited 1".
#[must_use]
pub fn clause(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited(code) => format!("it exited {code}"),
        Outcome::NotStarted(why) => format!("it was not started: {why}"),
        Outcome::Unknown(why) => format!("its end is not known: {why}"),
        Outcome::Running => "it is running".into(),
        Outcome::Interrupted => "a restart of the container interrupted it".into(),
        Outcome::Void => "it never ran".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Users read these clauses in the status of a group.
    #[test]
    fn each_outcome_is_evidence_and_a_clause() {
        for (said, is, reads) in [
            ("exited:3", Evidence::Exited(3), "it exited 3"),
            ("not-started:busy", Evidence::NotStarted("busy".into()), "it was not started: busy"),
            ("not-started:too-hot", Evidence::NotStarted("too-hot".into()), "it was not started: too-hot"),
            ("unknown:storage", Evidence::Unknown("storage".into()), "its end is not known: storage"),
            ("running", Evidence::Running, "it is running"),
            ("interrupted", Evidence::Interrupted, "a restart of the container interrupted it"),
            ("void", Evidence::NotStarted("void".into()), "it never ran"),
        ] {
            let outcome = Outcome::read(said).unwrap();
            assert_eq!((evidence(&outcome), clause(&outcome).as_str()), (is, reads));
        }
    }
}
