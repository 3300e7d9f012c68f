//! Whether each check of the judge finds what it is there for, and nothing else: forged journals in which exactly one promise is broken. The tests and
//! every run begin with them.
use crate::journal::{Entry, entries};
use crate::judge::{
    Label, Routes, Way, missing, moved_again, new_pods, no_difference, not_once, others_lead, outage, silent_inside,
    told_to_lead, too_soon, two_acknowledge, two_writable, unproven, unseen, ways_of_rw, went_further, wrong_ro,
    wrong_rw,
};
use crate::steps::{Command, Steps};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;

/// A run in which nothing is wrong: a leads on timeline 1, then b on timeline 2.
const GOOD: &str = "\
100000 110000 rw insert rw 1 ok a 1
105000 115000 direct-0 insert direct-0 1 ok a 1
120000 130000 ro meet - standby ok b -
200000 201000 look-1 look 50 writable ok a 1
200000 201000 look-2 look 40 recovery ok b -
400000 410000 rw insert rw 2 ok b 2
402000 403000 look-2 look 60 writable ok b 2
420000 430000 ro meet - standby ok c -
3000000 3010000 rw insert rw 3 ok b 2
";

fn good() -> Vec<Entry> {
    entries(GOOD)
}

/// The good run, and these lines.
pub fn forged(lines: &str) -> Vec<Entry> {
    let all = entries(&format!("{GOOD}{lines}\n"));
    debug_assert!(all.len() > good().len(), "a forged line cannot be read: {lines}");
    all
}

fn expect(wanted: usize, check: &str, found: &[String]) -> Result<()> {
    ensure!(found.len() == wanted, "the judge sleeps: {check} says {found:?} where {wanted} violations were forged");
    Ok(())
}

fn labels() -> Vec<Label> {
    let all = [
        (1, "a", "primary"),
        (1, "b", "secondary"),
        (1, "c", "secondary"),
        (300, "b", ""),
        (401, "b", "primary"),
        (450, "a", ""),
    ];
    all.map(|(at, member, role)| Label { at, member: member.into(), role: role.into() }).to_vec()
}

/// Two primaries at a time.
pub fn sees_two_primaries() -> Result<()> {
    expect(0, "two_acknowledge", &two_acknowledge(&good()))?;
    for (wanted, line) in [
        (1, "411000 500000 direct-0 insert direct-0 2 ok a 1"),
        // Begun before anybody knew.
        (0, "405000 500000 direct-0 insert direct-0 2 ok a 1"),
        (1, "411000 500000 beside-1 append l1 x ok a 2"),
        // It hangs, for its standbys are gone.
        (0, "411000 500000 beside-1 write r1 x unknown - -"),
    ] {
        expect(wanted, "two_acknowledge", &two_acknowledge(&forged(line))).context(line)?;
    }
    expect(0, "two_writable", &two_writable(&good()))?;
    for (wanted, line) in [
        (1, "404000 405000 look-1 look 50 writable ok a 1"),
        // At the same time nobody knows.
        (0, "402500 405000 look-1 look 50 writable ok a 1"),
        (1, "404000 405000 look-1 look 50 writable ok a 2"),
        (0, "404000 405000 look-1 look 50 readonly ok a 1"),
    ] {
        expect(wanted, "two_writable", &two_writable(&forged(line))).context(line)?;
    }
    Ok(())
}

/// Somebody else leads while nobody knows of the old primary.
pub fn sees_others() -> Result<()> {
    expect(0, "others_lead", &others_lead(&good(), 450, "b"))?;
    expect(2, "others_lead", &others_lead(&good(), 300, "a"))?;
    let third = forged("404000 405000 look-3 look 50 writable ok c 3");
    expect(1, "others_lead", &others_lead(&third, 300, "b"))
}

/// As conntrack reports an entry.
fn tracked(moment: &str, what: &str, port: u32, address: &str) -> (u64, String) {
    let client = "src=10.0.0.9 dst=10.1.0.1 sport=40000 dport=5432";
    let server = format!("src={address} dst=10.0.0.9 sport=5432 dport={port}");
    (0, format!("[{moment}]     [{what}] tcp      6 120 SYN_SENT {client} [UNREPLIED] {server}"))
}

fn at(moments: &[(u64, &str)]) -> Vec<(u64, String)> {
    moments.iter().map(|(at, said)| (*at, (*said).to_owned())).collect()
}

/// What a connection through -rw to a member in recovery counts as.
fn expect_way(wanted: &str, line: &str, routes: &Routes) -> Result<()> {
    let journal = forged(line);
    let ways = ways_of_rw(&journal, routes);
    let [way] = &ways[..] else { anyhow::bail!("the judge sleeps: {} ways of one connection: {line}", ways.len()) };
    let found = match way {
        Way::Old(_) => "old",
        Way::Late(_) => "late",
        Way::Wrong(_) => "wrong",
    };
    ensure!(found == wanted, "the judge sleeps: a way that is {wanted} counts as {found}: {line}");
    expect(usize::from(wanted == "wrong"), "wrong_rw", &wrong_rw(&journal, routes))
}

/// -rw leads to a member in recovery, by an old entry of the kernel or by nothing that is proven.
pub fn sees_wrong_ways() -> Result<()> {
    let endpoints = at(&[(1, "c:true:10.0.0.3 x"), (200, "b:true:10.0.0.2 x")]);
    let old = tracked("0.100000", "NEW", 7, "10.0.0.3");
    let mut quiet = vec![old.clone(), tracked("9.500000", "NEW", 8, "10.0.0.3")];
    let mut first = vec![old];
    let routes = |quiet: &[(u64, String)], first: &[(u64, String)]| -> Result<Routes> {
        let nodes = [("node4".to_owned(), Routes::tracked(quiet)?), ("node1".to_owned(), Routes::tracked(first)?)];
        let (endpoints, labels) = (endpoints.clone(), labels());
        Ok(Routes { endpoints, tracked: nodes.into(), labels, kills: Vec::new(), quiet: "node4".into() })
    };
    let seen = routes(&quiet, &first)?;
    expect(0, "wrong_rw", &wrong_rw(&good(), &seen))?;
    for (wanted, line) in [
        ("wrong", "500000 510000 rw meet - standby ok c -"),
        // The entry may be its own.
        ("wrong", "500000 510000 rw-node1 meet 7 standby ok c -"),
        ("old", "9000000 9010000 rw meet 7 standby ok c -"),
        ("old", "9000000 9010000 rw-node1 meet 7 standby ok c -"),
        // No entry is known, nor on that node.
        ("wrong", "9000000 9010000 rw meet 6 standby ok c -"),
        ("wrong", "9000000 9010000 rw-node2 meet 7 standby ok c -"),
        // The rules led there, just now.
        ("wrong", "9490000 9510000 rw meet 8 standby ok c -"),
    ] {
        expect_way(wanted, line, &seen)?;
    }
    // The kernel had dropped it.
    first.push(tracked("8.000000", "DESTROY", 7, "10.0.0.3"));
    expect_way("wrong", "9000000 9010000 rw-node1 meet 7 standby ok c -", &routes(&quiet, &first)?)?;
    // At that time they should not.
    quiet.push(tracked("3.000000", "NEW", 7, "10.0.0.3"));
    expect_way("wrong", "9000000 9010000 rw meet 7 standby ok c -", &routes(&quiet, &first)?)
}

/// The API server is killed at 300: who was primary, b, loses the label at 600, and the endpoints follow at 20000.
pub fn sees_late_endpoints() -> Result<()> {
    let entries = [
        tracked("0.500000", "NEW", 4, "10.0.0.2"),
        tracked("5.000000", "NEW", 5, "10.0.0.2"),
        tracked("5.000000", "NEW", 6, "10.0.0.3"),
        tracked("20.000000", "NEW", 7, "10.0.0.2"),
    ];
    let labels = [(1, "primary"), (600, ""), (900, "secondary")];
    let mut routes = Routes {
        endpoints: at(&[(100, "b:true:10.0.0.2 x"), (20000, "c:true:10.0.0.3 x")]),
        tracked: [("node4".to_owned(), Routes::tracked(&entries)?)].into(),
        labels: labels.map(|(at, role)| Label { at, member: "b".into(), role: role.into() }).to_vec(),
        kills: vec![300],
        quiet: "node4".into(),
    };
    let late = "5000000 5010000 rw meet 5 standby ok b -";
    for (wanted, line) in [
        ("late", late),
        // It still has the label.
        ("wrong", "500000 510000 rw meet 4 standby ok b -"),
        // No entry is known.
        ("wrong", "5000000 5010000 rw meet 9 standby ok b -"),
        // The rules led elsewhere.
        ("wrong", "5000000 5010000 rw meet 6 standby ok b -"),
        // The endpoints have followed.
        ("wrong", "20000000 20010000 rw meet 7 standby ok b -"),
    ] {
        expect_way(wanted, line, &routes)?;
    }
    // The API server is killed later, or not at all.
    for kills in [vec![6000], Vec::new()] {
        routes.kills = kills;
        expect_way("wrong", late, &routes)?;
    }
    // It was listed again after the kill.
    routes.kills = vec![300];
    routes.endpoints.splice(1..1, at(&[(400, "x"), (450, "b:true:10.0.0.2 x")]));
    expect_way("wrong", late, &routes)
}

/// -ro leads to a primary although a secondary is there.
pub fn sees_wrong_readers() -> Result<()> {
    expect(0, "wrong_ro", &wrong_ro(&good(), &labels()))?;
    // 200 ms after it was hidden.
    let late = forged("500000 510000 ro meet - primary ok b -");
    expect(0, "wrong_ro", &wrong_ro(&late, &labels()))?;
    let wrong = forged("2000000 2010000 ro meet - primary ok b -");
    expect(1, "wrong_ro", &wrong_ro(&wrong, &labels()))?;
    // It leads, and is shown as a secondary.
    let shown = forged("200000 210000 ro meet - primary ok b -");
    expect(1, "wrong_ro", &wrong_ro(&shown, &labels()))?;
    let mut alone = labels();
    alone.iter_mut().filter(|label| label.role == "secondary").for_each(|label| label.role = "none".into());
    expect(0, "wrong_ro", &wrong_ro(&shown, &alone))
}

/// A promotion before the old primary is over.
pub fn sees_early_promotions() -> Result<()> {
    let steps = |promote, ended| Steps { promote, ended, ..Steps::default() };
    expect(0, "too_soon", &too_soon(&steps(Some(700), Some(650))))?;
    expect(1, "too_soon", &too_soon(&steps(Some(700), Some(750))))?;
    expect(1, "too_soon", &too_soon(&steps(Some(700), None)))?;
    expect(0, "too_soon", &too_soon(&steps(None, None)))?;
    let proven = |prove| Steps { prove: Some(prove), ..Steps::default() };
    expect(0, "unproven", &unproven(&proven(109_100), 110))?;
    expect(1, "unproven", &unproven(&proven(581), 110))?;
    let command = |verb: &str| [Command { verb: verb.into(), member: "b".into(), ..Command::default() }];
    expect(0, "told_to_lead", &told_to_lead(&command("follow")))?;
    expect(1, "told_to_lead", &told_to_lead(&command("failover")))?;
    expect(1, "told_to_lead", &told_to_lead(&command("seed")))
}

/// An update that gives a member no new pod or another one too many, or moves the lead twice.
pub fn sees_wrong_updates() -> Result<()> {
    let known = [(1, "a|primary|u1"), (1, "b|secondary|u2"), (300, "b||u2"), (310, "b|secondary|u3"), (320, "b||u3")];
    let mut pods = at(&known);
    expect(0, "went_further", &went_further(&new_pods(&pods, 200)))?;
    expect(1, "not_once", &not_once(&new_pods(&pods, 200), 0)).context("a has its pod of before")?;
    pods.extend(at(&[(400, "a|secondary|u4")]));
    expect(1, "went_further", &went_further(&new_pods(&pods, 200)))?;
    expect(0, "not_once", &not_once(&new_pods(&pods, 200), 0))?;
    expect(2, "not_once", &not_once(&new_pods(&pods, 500), 0)).context("all is of before")?;
    pods.extend(at(&[(500, "b|secondary|u5")]));
    expect(1, "not_once", &not_once(&new_pods(&pods, 200), 0)).context("a third pod for two members")?;
    expect(0, "not_once", &not_once(&new_pods(&pods, 200), 1))?;
    let led =
        |member: &str, well| Command { verb: "failover".into(), member: member.into(), well, ..Command::default() };
    expect(0, "moved_again", &moved_again(&[led("a", false), led("b", true)]))?;
    expect(1, "moved_again", &moved_again(&[led("a", true), led("b", true)]))
}

/// An acknowledged row that is not there; the time without an acknowledgement.
pub fn sees_lost_rows() -> Result<()> {
    let rows = ["rw|1", "direct-0|1", "rw|2", "rw|3", "rw|4"];
    let mut present: BTreeSet<String> = rows.map(str::to_owned).into();
    let lost = |present: &BTreeSet<String>| missing(&good(), present).into_iter().collect::<Vec<_>>();
    expect(0, "missing", &lost(&present))?;
    present.remove("rw|2");
    expect(1, "missing", &lost(&present))?;
    let found = outage(&good(), 200);
    ensure!(found == (2600, 2), "the judge sleeps: outage says {found:?}");
    Ok(())
}

/// The judge itself saw too little.
pub fn sees_its_own_blindness() -> Result<()> {
    let looks = entries("1000000 1010000 look-1 look 50 writable ok a 1\n8000000 8010000 look-1 look - none ok - -\n");
    expect(0, "unseen", &unseen(&looks, 0, 9000, "look-1"))?;
    expect(1, "unseen", &unseen(&looks, 0, 20_000, "look-1"))?;
    expect(1, "unseen", &unseen(&looks, 0, 9000, "look-2"))?;
    let tries = entries(
        "1000 1000 beside-1 write r1 1 begun - -\n1000 3000000 beside-1 write r1 1 unknown - -\n\
         4000000 6000000 beside-1 insert beside-1 2 unknown - -\n7000000 9000000 beside-1 append l1 3 unknown - -\n\
         7000000 9000000 rw-1 meet - none ok - -\n",
    );
    expect(0, "silent_inside", &silent_inside(&tries, 0, 9000, "beside-1"))?;
    expect(1, "silent_inside", &silent_inside(&tries, 2000, 9000, "beside-1"))?;
    expect(1, "silent_inside", &silent_inside(&tries, 0, 9000, "rw-1"))?;
    let mut positions = entries(
        "200000 201000 look-1 look 50 writable ok a 1\n1500000 1501000 look-1 look 70 writable ok a 1\n\
         1500000 1501000 look-2 look 40 recovery ok b -\n",
    );
    expect(0, "no_difference", &no_difference(&positions, 1800, "a", "b"))?;
    expect(1, "no_difference", &no_difference(&positions, 1800, "a", "c"))?;
    // Behind, by less than it takes to look.
    positions.extend(entries("1600000 1601000 look-2 look 60 recovery ok b -\n"));
    expect(1, "no_difference", &no_difference(&positions, 1800, "a", "b"))
}

/// A part of the judge, and what tries it.
type Part = (&'static str, fn() -> Result<()>);

/// All of them.
const PARTS: [Part; 9] = [
    ("two primaries", sees_two_primaries),
    ("others who lead", sees_others),
    ("wrong ways", sees_wrong_ways),
    ("late endpoints", sees_late_endpoints),
    ("wrong readers", sees_wrong_readers),
    ("early promotions", sees_early_promotions),
    ("wrong updates", sees_wrong_updates),
    ("lost rows", sees_lost_rows),
    ("its own blindness", sees_its_own_blindness),
];

/// Tries all of them.
///
/// # Errors
/// When a check does not find what was forged for it, or finds more.
pub fn judge_is_awake() -> Result<()> {
    PARTS.iter().try_for_each(|(what, tried)| tried().context(*what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_primaries_are_seen() {
        sees_two_primaries().unwrap();
    }

    #[test]
    fn others_who_lead_are_seen() {
        sees_others().unwrap();
    }

    #[test]
    fn a_wrong_way_is_seen_and_an_old_entry_is_proven() {
        sees_wrong_ways().unwrap();
    }

    #[test]
    fn a_late_endpoint_is_proven() {
        sees_late_endpoints().unwrap();
    }

    #[test]
    fn readers_who_meet_a_primary_are_seen() {
        sees_wrong_readers().unwrap();
    }

    #[test]
    fn an_early_promotion_is_seen() {
        sees_early_promotions().unwrap();
    }

    #[test]
    fn an_update_that_goes_wrong_is_seen() {
        sees_wrong_updates().unwrap();
    }

    #[test]
    fn a_lost_row_is_seen() {
        sees_lost_rows().unwrap();
    }

    #[test]
    fn what_the_judge_could_not_see_is_said() {
        sees_its_own_blindness().unwrap();
    }

    #[test]
    fn every_run_tries_all_of_them() {
        judge_is_awake().unwrap();
    }
}
