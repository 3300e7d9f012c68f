//! The members of one zone lead whenever their data is the most recent.

use tanist_policy::{Answer, Candidate, Description, Fault, Parameters, Policy, Snapshot, export_policy};

struct Mine;

export_policy!(Mine);

impl Policy for Mine {
    fn describe() -> Description {
        Description::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), "The members of one zone lead whenever their data is the most recent.")
            .with_parameters(r#"{"type":"object","required":["zone"],"properties":{"zone":{"type":"string","minLength":1}}}"#)
    }

    fn seed(snapshot: &Snapshot) -> Result<Answer, Fault> {
        let zone = Parameters::of(snapshot).text("zone");
        // The host bars every member below the most recent data, and asks nobody while there are two histories.
        let recent = snapshot.eligible().map(|each| (each.term, each.number())).max();
        let here = snapshot.eligible().filter(|each| each.zone == zone && Some((each.term, each.number())) == recent);
        let ranked: Vec<_> = here.map(|each| Candidate::new(each, "in the preferred zone, and none is more recent")).collect();
        Ok(if ranked.is_empty() { Answer::Abstain } else { Answer::rank(ranked) })
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
    fn the_zone_decides_among_equals_only() {
        let parameters = r#"{"zone":"b"}"#;
        let equal = snapshot([member(0).at(9).in_zone("a"), member(1).at(9).in_zone("b")]).with_parameters(parameters);
        assert_eq!(Mine::seed(&equal).unwrap().chosen(), ["db-1"]);
        let behind = snapshot([member(0).at(9).in_zone("a"), member(1).at(8).in_zone("b")]).with_parameters(parameters);
        assert_eq!(Mine::seed(&behind).unwrap(), Answer::Abstain);
    }
}
