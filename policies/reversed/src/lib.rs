//! A policy for tests: at every point it gives the reverse of the built-in policy's answer.
//!
//! With it the outcome changes at every decision point, which shows that the host decides nothing that a policy could decide.

use tanist_policy::{
    Answer, Candidate, Care, Description, Fault, Policy, Position, Remedy, Role, Snapshot, Treatment, export_policy,
};

struct Reversed;

export_policy!(Reversed);

impl Policy for Reversed {
    fn describe() -> Description {
        Description {
            declares: vec!["chooses-lower-sequence".to_owned(), "prefers-high-ordinals".to_owned()],
            ..Description::new("reversed", env!("CARGO_PKG_VERSION"), "The reverse of what is sensible; for tests.")
        }
    }

    fn seed(snapshot: &Snapshot) -> Result<Answer, Fault> {
        Ok(worst_first(snapshot))
    }

    fn failover(snapshot: &Snapshot) -> Result<Answer, Fault> {
        Ok(worst_first(snapshot))
    }

    fn join(snapshot: &Snapshot) -> Result<Answer, Fault> {
        Ok(worst_first(snapshot))
    }

    fn demote(snapshot: &Snapshot) -> Result<Answer, Fault> {
        Ok(ranked(snapshot, true))
    }

    fn place(snapshot: &Snapshot) -> Result<Answer, Fault> {
        Ok(worst_first(snapshot))
    }

    fn treat(snapshot: &Snapshot) -> Result<Care, Fault> {
        let failed = snapshot.eligible().filter(|member| member.role == Role::Failed);
        let treatments = failed.map(|member| {
            let stop_failed = member.last_failure.as_ref().is_some_and(|failure| failure.command == "stop");
            let remedy = if stop_failed { Remedy::Stop } else { Remedy::Recreate };
            Treatment::new(member, remedy, "reversed")
        });
        let mut treatments: Vec<_> = treatments.collect();
        treatments.reverse();
        Ok(Care::Treat(treatments))
    }
}

fn worst_first(snapshot: &Snapshot) -> Answer {
    ranked(snapshot, false)
}

/// Least recent first. Numbers are compared inside one history only; the histories of one term stand one behind the other, so that the order is total.
fn ranked(snapshot: &Snapshot, best_first: bool) -> Answer {
    let mut members: Vec<_> = snapshot.eligible().collect();
    members.sort_by_key(|member| {
        let (class, data) = match &member.position {
            Position::Empty => (0, None),
            Position::Unknown(_) | Position::NotAsked => (1, None),
            Position::Known(sequence) => (2, Some((member.term, sequence.history.as_deref(), sequence.number))),
        };
        (class, data, std::cmp::Reverse(member.ordinal))
    });
    if best_first {
        members.reverse();
    }
    Answer::rank(members.into_iter().map(|member| Candidate::new(member, "reversed")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanist_policy::testing::{member, snapshot};

    #[test]
    fn numbers_are_compared_inside_one_history_only() {
        let at = |ordinal, history, number| member(ordinal).at_history(history, number);
        let story = snapshot([at(0, "x", 5), at(1, "y", 1), at(2, "x", 9), at(3, "y", 7)]);
        assert_eq!(Reversed::join(&story).unwrap().chosen(), ["db-0", "db-2", "db-1", "db-3"]);
        assert_eq!(Reversed::demote(&story).unwrap().chosen(), ["db-3", "db-1", "db-2", "db-0"]);
    }
}
