//! An example: one member is preferred among those with the most recent data; for everything else it abstains.

use tanist_policy::{Answer, Candidate, Description, Fault, Parameters, Policy, Snapshot, export_policy};

struct Prefer;

export_policy!(Prefer);

impl Policy for Prefer {
    fn describe() -> Description {
        Description::new("prefer", env!("CARGO_PKG_VERSION"), "One member leads whenever its data is the most recent.")
            .with_parameters(
                r#"{"type":"object","required":["member"],"properties":{"member":{"type":"string","minLength":1}}}"#,
            )
    }

    fn seed(snapshot: &Snapshot) -> Result<Answer, Fault> {
        let member = Parameters::of(snapshot).text("member").ok_or("no member is given")?;
        let most_recent = snapshot.eligible().map(|member| (member.term, member.number())).max();
        let preferred =
            snapshot.eligible().find(|each| each.name == member && Some((each.term, each.number())) == most_recent);
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
    use tanist_policy::testing::{member, snapshot};

    #[test]
    fn the_preferred_member_leads_only_with_the_most_recent_data() {
        let equal = snapshot([member(0).at(9), member(1).at(9)]).with_parameters(r#"{"member":"db-1"}"#);
        assert_eq!(Prefer::seed(&equal).unwrap().chosen(), ["db-1"]);
        let behind = snapshot([member(0).at(9), member(1).at(8)]).with_parameters(r#"{"member":"db-1"}"#);
        assert_eq!(Prefer::failover(&behind).unwrap(), Answer::Abstain);
    }
}
