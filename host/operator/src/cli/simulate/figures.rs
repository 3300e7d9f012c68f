//! The figures of many lives, for programs: the fields are described in docs/policies.md.
use super::lives::{Lives, Pair};
use super::names;
use kube::ResourceExt;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;
use tanist_api::spec::Primaries;
use tanist_engine::Stack;
use tanist_sim::trial::{Measured, Outage};

/// How many of the worst lives are named.
const WORST: usize = 3;

/// What came of all lives.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulated {
    /// The group that lived.
    pub group: Shape,
    /// The kinds of faults of every life. Absent: each life drew its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<Vec<&'static str>>,
    /// The seed of the first life.
    pub first_seed: u64,
    /// Why the operator would not let the policy begin to decide. Absent: it would, or the policies are the group's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exam: Option<String>,
    /// With the policy.
    pub yours: Figures,
    /// With the built-in policy alone.
    pub built_in: Figures,
    /// The lives with the longest outages under the policy, the longest first.
    pub worst: Vec<Worst>,
    /// What happened in the only life. Absent: it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<Vec<String>>,
}

/// The group that lived.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shape {
    /// The name of the group.
    pub name: String,
    /// The number of its members.
    pub replicas: u32,
    /// How many of them are primary: a number, or `All`.
    pub primaries: Primaries,
}

/// The figures of one stack of policies.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// The policies, in the order in which they were asked.
    pub policies: Vec<String>,
    /// How many lives there were.
    pub lives: u64,
    /// For how many seconds the group wanted a primary.
    pub wanted_seconds: f64,
    /// For how many of these seconds none served.
    pub without_primary_seconds: f64,
    /// The same as a share, from 0 to 1.
    pub without_primary_share: f64,
    /// How many outages there were.
    pub outages: u64,
    /// Half of the outages were at most so long. 0: there was none.
    pub outage_p50_seconds: f64,
    /// 99 of 100 outages were at most so long.
    pub outage_p99_seconds: f64,
    /// The longest outage.
    pub longest_outage_seconds: f64,
    /// Takeovers that were begun.
    pub failovers: u64,
    /// Switchovers after which another member led.
    pub switchovers: u64,
    /// Answers that the host dropped.
    pub refused_answers: u64,
    /// Questions that a policy failed to answer.
    pub failed_decisions: u64,
    /// Groups that were not well at the end, and do not ask an administrator about what they cannot know.
    pub unwell: u64,
    /// The seeds of the lives with such groups, in ascending order.
    pub unwell_seeds: Vec<u64>,
    /// Promises that were broken.
    pub broken: Vec<Broken>,
}

/// A promise that was broken.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Broken {
    /// The seed of the life.
    pub seed: u64,
    /// Which promise was broken, and how.
    pub what: String,
}

/// A life with a long outage.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Worst {
    /// The seed of the life, with which it can be simulated again.
    pub seed: u64,
    /// At which second of the life its longest outage began.
    pub from_second: f64,
    /// How long it was.
    pub seconds: f64,
}

impl Simulated {
    /// Whether no promise was broken, and no more groups than with the built-in policy were not well at the end.
    pub fn is_well(&self) -> bool {
        !self.has_broken() && self.yours.unwell <= self.built_in.unwell
    }

    /// Whether a promise was broken, by whichever policy.
    pub fn has_broken(&self) -> bool {
        !self.yours.broken.is_empty() || !self.built_in.broken.is_empty()
    }
}

/// The figures of these lives.
pub fn simulated(lives: &Lives<'_>, [yours, built_in]: &[Stack; 2], all: &BTreeMap<u64, Pair>) -> Simulated {
    let of = |stack: &Stack, place: usize| {
        let measured = all.iter().filter_map(|(seed, pair)| Some((*seed, pair.get(place)?)));
        Figures { policies: names(stack.layers()), ..figures(&measured.collect::<Vec<_>>()) }
    };
    let spec = &lives.trial.group.spec;
    let log = |[yours, _]: &Pair| yours.lived.log.clone();
    Simulated {
        group: Shape { name: lives.trial.group.name_any(), replicas: spec.replicas, primaries: spec.primaries },
        faults: lives.trial.faults.as_ref().map(|kinds| kinds.iter().map(|kind| kind.word()).collect()),
        first_seed: lives.first,
        exam: None,
        yours: of(yours, 0),
        built_in: of(built_in, 1),
        worst: worst(all),
        transcript: lives.keep_log.then(|| all.values().flat_map(log).collect()),
    }
}

fn figures(lives: &[(u64, &Measured)]) -> Figures {
    let sum = |of: fn(&Measured) -> u64| lives.iter().map(|(_, life)| of(life)).sum::<u64>();
    let wanted: Duration = lives.iter().map(|(_, life)| life.wanted).sum();
    let mut lengths: Vec<_> = lives.iter().flat_map(|(_, life)| &life.outages).map(|outage| outage.length).collect();
    lengths.sort_unstable();
    let without: Duration = lengths.iter().sum();
    let unwell_seeds: Vec<u64> =
        lives.iter().filter(|(_, life)| !life.lived.unwell.is_empty()).map(|(seed, _)| *seed).collect();
    let broken = |(seed, life): &(u64, &Measured)| {
        let seed = *seed;
        life.lived.broken.iter().map(move |what| Broken { seed, what: what.clone() }).collect::<Vec<_>>()
    };
    Figures {
        policies: Vec::new(),
        lives: lives.len() as u64,
        wanted_seconds: seconds(wanted),
        without_primary_seconds: seconds(without),
        without_primary_share: share(without, wanted),
        outages: lengths.len() as u64,
        outage_p50_seconds: seconds(percentile(&lengths, 50)),
        outage_p99_seconds: seconds(percentile(&lengths, 99)),
        longest_outage_seconds: seconds(percentile(&lengths, 100)),
        failovers: sum(|life| life.failovers),
        switchovers: sum(|life| life.switchovers),
        refused_answers: sum(|life| life.refused),
        failed_decisions: sum(|life| life.failed),
        unwell: unwell_seeds.len() as u64,
        unwell_seeds,
        broken: lives.iter().flat_map(broken).collect(),
    }
}

/// The lives with the longest outages, one entry each.
fn worst(all: &BTreeMap<u64, Pair>) -> Vec<Worst> {
    let longest = |life: &Measured| life.outages.iter().copied().max_by_key(|o| (o.length, Reverse(o.from)));
    let mut worst: Vec<(u64, Outage)> =
        all.iter().filter_map(|(seed, [yours, _])| Some((*seed, longest(yours)?))).collect();
    worst.sort_by_key(|(seed, outage)| (Reverse(outage.length), *seed));
    let entry = |(seed, outage): &(u64, Outage)| Worst {
        seed: *seed,
        from_second: seconds(outage.from),
        seconds: seconds(outage.length),
    };
    worst.iter().take(WORST).map(entry).collect()
}

/// The smallest of the sorted times that so many of 100 do not exceed; zero of none.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Seconds to one decimal: what was measured is no more exact.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

/// A share of a time to six decimals; 0 of none.
fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() {
        return 0.0;
    }
    (part.as_secs_f64() / whole.as_secs_f64() * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A life of 100 s with outages of these seconds, each at the second ten times its place.
    fn life(outages: &[u64]) -> Measured {
        let outage = |(at, length): (u64, &u64)| Outage {
            from: Duration::from_secs(10 * at),
            length: Duration::from_secs(*length),
        };
        let mut measured = Measured { wanted: Duration::from_secs(100), ..Measured::default() };
        measured.outages = (0..).zip(outages).map(outage).collect();
        measured
    }

    #[test]
    fn figures_are_those_of_all_lives() {
        let mut unwell = life(&[1, 9]);
        unwell.lived.unwell.push("db".into());
        unwell.lived.broken.push("2 primaries".into());
        unwell.failovers = 2;
        let well = life(&[2]);
        let figures = figures(&[(4, &unwell), (5, &well)]);
        assert_eq!((figures.lives, figures.outages, figures.failovers, figures.unwell), (2, 3, 2, 1));
        assert_eq!((figures.wanted_seconds, figures.without_primary_seconds), (200.0, 12.0));
        assert_eq!(figures.without_primary_share, 0.06);
        assert_eq!((figures.outage_p50_seconds, figures.outage_p99_seconds), (2.0, 9.0));
        assert_eq!(figures.longest_outage_seconds, 9.0);
        assert_eq!(figures.unwell_seeds, [4]);
        assert_eq!(figures.broken, [Broken { seed: 4, what: "2 primaries".into() }]);
    }

    #[test]
    fn the_worst_lives_are_named_once_each() {
        let all: BTreeMap<u64, Pair> =
            [(7, life(&[3, 5, 5])), (8, life(&[9])), (9, life(&[5])), (10, life(&[])), (11, life(&[1]))]
                .into_iter()
                .map(|(seed, life)| (seed, [life, Measured::default()]))
                .collect();
        let worst = worst(&all);
        let found: Vec<_> = worst.iter().map(|each| (each.seed, each.from_second, each.seconds)).collect();
        assert_eq!(found, [(8, 0.0, 9.0), (7, 10.0, 5.0), (9, 0.0, 5.0)]);
    }

    #[test]
    fn no_lives_have_figures_too() {
        assert_eq!(figures(&[]), Figures::default());
    }
}
