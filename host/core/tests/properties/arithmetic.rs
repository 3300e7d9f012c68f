//! Which members may seed, compared with an independent computation of a few lines.
use super::super::support::policies::{Natural, Reversed, Says, answered};
use super::super::support::world::World;
use super::super::support::{app::Data, db, sequence};
use proptest::prelude::*;
use tanist_core::contract::{Answer, Candidate, MemberName, Position, Ranking, Sequence};
use tanist_core::data::{compare, read_sequence};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Plan};
use tanist_core::policy::{Answered, Policies, Question, Reply, Unanswered};
use tanist_core::record::Verb;
use tanist_core::snapshot::Snapshot;

/// A stopped member: the term of its data and what `sequence` says.
type Given = (u64, Option<Data>);

fn data() -> impl Strategy<Value = Option<Data>> {
    let number = prop_oneof![0..4u64, Just(u64::MAX), Just(u64::MAX - 1)];
    let history = prop_oneof![4 => Just(None), 1 => Just(Some("a")), 1 => Just(Some("b"))];
    let known = (number, history)
        .prop_map(|(number, history)| Data::Known(Sequence { history: history.map(str::to_owned), number }));
    prop_oneof![12 => known.prop_map(Some), 1 => Just(Some(Data::Empty)), 1 => Just(None)]
}

fn members() -> impl Strategy<Value = Vec<Given>> {
    prop::collection::vec((1..3u64, data()), 1..13)
}

/// A group that runs nowhere, with all positions read.
fn stopped(given: &[Given]) -> Snapshot {
    let replicas = u32::try_from(given.len()).unwrap();
    let mut world = World::new(replicas, 1);
    for (ordinal, (term, data)) in (0..).zip(given) {
        world.remember(ordinal, *term, "1");
        world.volumes.get_mut(&ordinal).unwrap().data = data.clone().unwrap_or(Data::Unreadable(sequence("7")));
    }
    let mut snapshot = world.observe();
    for member in &mut snapshot.members {
        member.position = world.volumes[&member.ordinal].position();
    }
    snapshot
}

/// The members that may seed by docs/rules.md alone. Empty: none, because something blocks.
fn may_seed(given: &[Given]) -> Vec<usize> {
    let highest = given.iter().map(|(term, _)| *term).max().unwrap();
    let of_it: Vec<_> = given.iter().enumerate().filter(|(_, (term, _))| *term == highest).collect();
    let mut best: Option<&Sequence> = None;
    for (_, (_, data)) in &of_it {
        match data {
            None => return Vec::new(),
            Some(Data::Known(s)) if best.is_some_and(|b| b.history != s.history) => return Vec::new(),
            Some(Data::Known(s)) if best.is_none_or(|b| s.number > b.number) => best = Some(s),
            _ => {}
        }
    }
    of_it
        .iter()
        .filter(|(_, (_, d))| matches!((d, best), (Some(Data::Known(s)), Some(b)) if s == b))
        .map(|(at, _)| *at)
        .collect()
}

fn seeded(plan: &Plan) -> Option<MemberName> {
    plan.actions.iter().find_map(|a| match a {
        Action::Run { intent, .. } if intent.verb == Verb::Seed => Some(intent.member.clone()),
        _ => None,
    })
}

/// A policy that always chooses one member.
struct Wants(MemberName);

impl Policies for Wants {
    fn ask(&self, _: &Question) -> Result<Answered, Unanswered> {
        let candidate = Candidate { member: self.0.clone(), reason: String::new(), source: None };
        let ranking = Ranking { candidates: vec![candidate], passed_over: Vec::new() };
        answered("wants", Reply::Answer(Answer::Choose(ranking)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // A6, A7, A19, A20, S10, S13, S14: never below the highest known data, unknown blocks, histories are not compared.
    #[test]
    fn a_seed_has_the_highest_data_of_the_highest_term(given in members()) {
        let snapshot = stopped(&given);
        let allowed = may_seed(&given);
        let lowest = allowed.first().map(|at| snapshot.members[*at].name.clone());
        let last = allowed.last().map(|at| snapshot.members[*at].name.clone());
        prop_assert_eq!(seeded(&decide(&snapshot, &Natural)), lowest);
        // The reversed policy chooses the last of the same candidates: a policy changes the order, not who may be chosen.
        prop_assert_eq!(seeded(&decide(&snapshot, &Reversed)), last);
    }

    // S34, H12, P19: the member that a policy chooses is seeded if and only if it may seed.
    #[test]
    fn only_members_that_may_seed_do(given in members(), wanted in 0..12usize) {
        let snapshot = stopped(&given);
        let name = db(u32::try_from(wanted).unwrap());
        let plan = decide(&snapshot, &Wants(name.clone()));
        prop_assert_eq!(seeded(&plan), may_seed(&given).contains(&wanted).then_some(name));
    }

    // A8: the order in which members come does not matter, for the plan, the question and the table.
    #[test]
    fn the_order_of_members_does_not_matter(given in members(), swaps in prop::collection::vec((0..12usize, 0..12usize), 0..12)) {
        let snapshot = stopped(&given);
        let mut shuffled = snapshot.clone();
        for (a, b) in swaps {
            let n = shuffled.members.len();
            shuffled.members.swap(a % n, b % n);
        }
        let says = || Says::new(Reply::Answer(Answer::Refuse(String::new())));
        let (here, there) = (says(), says());
        prop_assert_eq!(decide(&snapshot, &here), decide(&shuffled, &there));
        prop_assert_eq!(here.asked, there.asked);
        prop_assert_eq!(decide(&snapshot, &Natural), decide(&shuffled, &Natural));
    }

    // Total order: inside one history data compares as (term, number) does; across histories of one term it does not compare.
    #[test]
    fn data_compares_as_term_and_number(a in (0..3u64, any::<u64>(), 0..2u8), b in (0..3u64, any::<u64>(), 0..2u8)) {
        let of = |(_, number, history): (u64, u64, u8)| Sequence { history: (history == 1).then(|| "h".to_owned()), number };
        let comparable = a.0 != b.0 || a.2 == b.2;
        let expected = if a.0 == b.0 { a.1.cmp(&b.1) } else { a.0.cmp(&b.0) };
        prop_assert_eq!(compare((a.0, &of(a)), (b.0, &of(b))), comparable.then_some(expected));
    }

    // A5, S11: every number survives being written and read; nothing that is not exactly one is read as one.
    #[test]
    fn sequences_are_read_back(number in any::<u64>(), history in proptest::option::of("[a-zA-Z0-9:._-]{0,30}[a-zA-Z0-9]")) {
        let sequence = Sequence { history, number };
        prop_assert_eq!(read_sequence(format!(" {sequence}\r\n").as_bytes()), Ok(Position::Known(sequence)));
    }

    #[test]
    fn junk_is_never_a_sequence(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        let text = std::str::from_utf8(&bytes).map(|t| t.trim_matches([' ', '\t', '\r', '\n']).to_owned());
        let plain = text.is_ok_and(|t| t == "EMPTY" || t.rsplit_once(':').map_or(digits(&t), |(_, n)| digits(n)));
        prop_assert!(plain || read_sequence(&bytes).is_err());
    }
}
