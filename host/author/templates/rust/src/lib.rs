//! The members of one zone lead whenever their data is the most recent.

use tanist_policy::{
    Answer, Candidate, Description, Fault, Parameters, Policy, Snapshot, export_policy,
    schema::{object, required, text},
};

struct Mine;

export_policy!(Mine);

impl Policy for Mine {
    fn describe() -> Description {
        let summary = "The members of one zone lead whenever their data is the most recent.";
        let zone = text()
            .min_length(1)
            .describe("The zone whose members lead.");
        Description::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), summary)
            .with_schema(&object([required("zone", zone)]))
    }

    fn seed(snapshot: &Snapshot) -> Result<Answer, Fault> {
        let zone = Parameters::of(snapshot)
            .text("zone")
            .ok_or("no zone is given")?;
        let here = snapshot
            .most_recent()
            .into_iter()
            .filter(|each| each.zone.as_deref() == Some(zone.as_str()));
        let ranked: Vec<_> = here
            .map(|each| Candidate::new(each, "in the preferred zone, and none is more recent"))
            .collect();
        // Without an opinion the next policy of the group is asked.
        Ok(if ranked.is_empty() {
            Answer::Abstain
        } else {
            Answer::rank(ranked)
        })
    }

    fn failover(snapshot: &Snapshot) -> Result<Answer, Fault> {
        Self::seed(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanist_policy::testing::{Point, member, snapshot};

    #[test]
    fn the_zone_decides_among_equals_only() {
        let parameters = r#"{"zone":"b"}"#;
        let in_a = member(0).at(9).in_zone("a");
        let equal =
            snapshot([in_a.clone(), member(1).at(9).in_zone("b")]).with_parameters(parameters);
        assert_eq!(
            Mine::seed(&equal.asked(Point::Seed)).unwrap().chosen(),
            ["db-1"]
        );

        // The host bars who is behind, for the reason that a cluster would report.
        let behind = snapshot([in_a, member(1).at(8).in_zone("b")])
            .with_parameters(parameters)
            .asked(Point::Seed);
        assert_eq!(
            behind.bar_of("db-1"),
            Some("its data (8) is behind the highest known (9)")
        );
        assert_eq!(Mine::seed(&behind).unwrap(), Answer::Abstain);
    }
}
