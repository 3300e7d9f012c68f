//! An example: one member is preferred among those with the most recent data; for everything else it abstains.

use tanist_policy::{
    Answer, Candidate, Description, Fault, Parameters, Policy, Snapshot, export_policy,
    schema::{object, required, text},
};

struct Prefer;

export_policy!(Prefer);

impl Policy for Prefer {
    fn describe() -> Description {
        Description::new("prefer", env!("CARGO_PKG_VERSION"), "One member leads whenever its data is the most recent.")
            .with_schema(&object([required("member", text().min_length(1).describe("The name of the member."))]))
    }

    fn seed(snapshot: &Snapshot) -> Result<Answer, Fault> {
        let member = Parameters::of(snapshot).text("member").ok_or("no member is given")?;
        let preferred = snapshot.most_recent().into_iter().find(|each| each.name == member);
        Ok(preferred.map_or(Answer::Abstain, |member| {
            Answer::rank([Candidate::new(member, "preferred, and none is more recent")])
        }))
    }

    fn failover(snapshot: &Snapshot) -> Result<Answer, Fault> {
        Self::seed(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanist_policy::{
        Role,
        testing::{Point, member, snapshot},
    };

    #[test]
    fn the_preferred_member_leads_only_with_the_most_recent_data() {
        let parameters = r#"{"member":"db-1"}"#;
        let equal = snapshot([member(0).at(9), member(1).at(9)]).with_parameters(parameters).asked(Point::Seed);
        assert_eq!(Prefer::seed(&equal).unwrap().chosen(), ["db-1"]);
        let secondary = |ordinal| member(ordinal).role(Role::Secondary);
        let behind = snapshot([secondary(0).at(9), secondary(1).at(8)]).with_parameters(parameters);
        assert_eq!(Prefer::failover(&behind.asked(Point::Failover)).unwrap(), Answer::Abstain);
        let first = snapshot([member(0).empty(), member(1).empty()]).with_parameters(parameters).asked(Point::Seed);
        assert_eq!(Prefer::seed(&first).unwrap().chosen(), ["db-1"]);
    }

    // P49: the example leaves to the next policy what cannot be compared.
    #[test]
    fn numbers_of_two_histories_are_not_compared() {
        let story = snapshot([member(0).at_history("x", 8), member(1).at_history("y", 9)]);
        let story = story.with_parameters(r#"{"member":"db-1"}"#);
        assert_eq!(Prefer::seed(&story).unwrap(), Answer::Abstain);
        assert!(story.ask(Point::Seed).is_err(), "the host asks no policy about them");
    }
}
