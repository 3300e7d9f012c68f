//! A failing life made shorter: kinds of faults, and then single happenings, are left out as long as it goes on failing in the same way.
use crate::faults::Fault;
use crate::life::{Drawn, Lived};

/// The most lives that are lived for one failure.
const MOST: u32 = 600;

/// A life that still fails, with the faults that it needs.
#[derive(Debug)]
pub struct Shrunk {
    /// The kinds of faults that are left, and the single faults that are left out.
    pub drawn: Drawn,
    /// What came of the life with these faults.
    pub lived: Lived,
    /// How many lives that took.
    pub tried: u32,
}

/// Looks for the few faults that a failure needs. `drawn`, `lived`: the life that failed. `live`: lives it again with other faults.
pub fn shrink(drawn: Drawn, lived: Lived, live: impl FnMut(&Drawn) -> Lived) -> Shrunk {
    let failure = lived.failure();
    let mut search = Search { live, failure, best: Shrunk { drawn, lived, tried: 0 } };
    while search.without_a_kind() {}
    while search.without_happenings() {}
    search.best
}

struct Search<L> {
    live: L,
    /// How the life failed.
    failure: Option<String>,
    best: Shrunk,
}

impl<L: FnMut(&Drawn) -> Lived> Search<L> {
    /// Whether the life fails in the same way with these faults. Then they are the best so far.
    fn holds(&mut self, drawn: Drawn) -> bool {
        if self.best.tried >= MOST {
            return false;
        }
        self.best.tried += 1;
        let lived = (self.live)(&drawn);
        let holds = lived.failure() == self.failure;
        if holds {
            (self.best.drawn, self.best.lived) = (drawn, lived);
        }
        holds
    }

    /// Leaves out each kind once. Whether one could be.
    fn without_a_kind(&mut self) -> bool {
        let mut any = false;
        for kind in self.best.drawn.kinds.clone() {
            let mut drawn = self.best.drawn.clone();
            drawn.kinds.remove(&kind);
            any |= self.holds(drawn);
        }
        any
    }

    /// The happenings of the best life so far, without those that are left out.
    fn happenings(&self) -> Vec<(Fault, u64)> {
        let Shrunk { drawn, lived, .. } = &self.best;
        let mut all = Vec::new();
        for (kind, times) in &lived.happened {
            let spared = drawn.spared.iter().filter(|(other, _)| other == kind).count() as u64;
            // Those that were left out came up, too. The last ones may not have: leaving them out changes nothing.
            let numbers = 1..=times.saturating_add(spared);
            all.extend(numbers.map(|number| (*kind, number)).filter(|one| !drawn.spared.contains(one)));
        }
        all
    }

    /// Leaves out parts of the happenings, from halves to single ones. Whether any could be.
    fn without_happenings(&mut self) -> bool {
        let all = self.happenings();
        let (mut any, mut size) = (false, all.len().div_ceil(2));
        while size > 0 {
            for part in all.chunks(size) {
                let mut drawn = self.best.drawn.clone();
                let before = drawn.spared.len();
                drawn.spared.extend(part);
                any |= drawn.spared.len() > before && self.holds(drawn);
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A life with three kinds, each of which happens five times. It fails if the second lost request and the fourth death happen.
    fn live(drawn: &Drawn) -> Lived {
        let happens = |kind, number| drawn.kinds.contains(&kind) && !drawn.spared.contains(&(kind, number));
        let count = |kind| (kind, (1..=5).filter(|number| happens(kind, *number)).count() as u64);
        let fails = happens(Fault::RequestLost, 2) && happens(Fault::AppDies, 4);
        let broken = if fails { vec!["S15 S24: lost".into()] } else { vec![] };
        Lived { broken, happened: drawn.kinds.iter().copied().map(count).collect(), ..Lived::default() }
    }

    #[test]
    fn what_a_failure_does_not_need_is_left_out() {
        let kinds = [Fault::RequestLost, Fault::AppDies, Fault::NodeGone].into();
        let drawn = Drawn { kinds, ..Drawn::default() };
        let shrunk = shrink(drawn.clone(), live(&drawn), live);
        assert_eq!(shrunk.lived.broken, ["S15 S24: lost"]);
        assert_eq!(shrunk.lived.happened, BTreeMap::from([(Fault::RequestLost, 1), (Fault::AppDies, 1)]));
        assert!(shrunk.tried < 60, "{}", shrunk.tried);
    }

    #[test]
    fn another_failure_is_not_the_same() {
        let drawn = Drawn { kinds: [Fault::RequestLost, Fault::AppDies].into(), ..Drawn::default() };
        let other = |drawn: &Drawn| Lived {
            broken: vec![if drawn.kinds.len() == 2 { "S1: a" } else { "S2: a" }.into()],
            ..Lived::default()
        };
        assert_eq!(shrink(drawn.clone(), other(&drawn), other).drawn, drawn);
    }
}
