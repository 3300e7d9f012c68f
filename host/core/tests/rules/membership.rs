//! Members that agree: how a list is read, when it counts, and what is remembered of it.
use super::super::support::agreement::Lie;
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::setting;
use super::super::support::world::World;
use super::checks::stopped;
use std::time::Duration;
use tanist_core::contract::{MemberName, Role};
use tanist_core::decide::decide;
use tanist_core::freshness::{Moment, Readings};
use tanist_core::limits;
use tanist_core::membership::{Agreed, Heard, List, Said, Vote, quorum, read_list, said};
use tanist_core::memory;
use tanist_core::plan::Action;
use tanist_core::record::{Membership, Record};
use tanist_core::roster::ordinal;
use tanist_core::snapshot::Snapshot;

fn read(text: &str) -> Result<List, String> {
    read_list(text.as_bytes())
}

/// A group of three that serve and whose lists were read.
pub fn agreeing(primaries: u32) -> World {
    agreeing_of(3, primaries)
}

/// The same with that many members.
pub fn agreeing_of(members: u32, primaries: u32) -> World {
    let mut world = World::new(members, primaries);
    world.group.commands.seed = Some(setting::command("seed"));
    world.group.commands.membership = Some(setting::members(false));
    for ordinal in 0..members {
        world.remember(ordinal, 1, "9");
        let leads = ordinal < primaries;
        if leads {
            world.record.member_mut(&db(ordinal)).primary_term = Some(1);
        } else {
            world.group.commands.secondary = Some(setting::command("secondary"));
        }
        world.serve(ordinal, if leads { Role::Primary } else { Role::Secondary });
    }
    world.form(0..members);
    world.play(&Natural, 0);
    world
}

fn agreed(s: &Snapshot) -> Agreed {
    match said(s) {
        Said::Agreed(agreed) => agreed,
        other => panic!("{other:?}"),
    }
}

// A8: a number in a name is read one way only.
#[test]
fn a_member_has_a_number_that_is_written_in_one_way() {
    assert_eq!(ordinal("db", "db-10"), Some(10));
    for other in ["db-", "db-01", "db-x", "dbx-1", "db-1-2", "other-1", "db-+1"] {
        assert_eq!(ordinal("db", other), None, "{other}");
    }
}

// D2: each line is a member; whoever was never started is known by its address.
#[test]
fn a_list_has_a_line_for_each_member() {
    let text = "cluster c1\n\ndb-1 b voter healthy http://db-1.db.shop:2380\n- a learner unhealthy https://db-2.db.shop.svc:2380/x\n\
                other c voter healthy 10.0.0.7:2380\n";
    let list = read(text).unwrap();
    assert_eq!((list.cluster.as_str(), list.entries.len(), list.voters()), ("c1", 3, 2));
    let members: Vec<_> = list.entries.iter().map(|e| e.member("db").map(|m| m.0)).collect();
    assert_eq!(members, [Some("db-2".to_owned()), Some("db-1".to_owned()), None], "by identity");
    let added = list.entry("db", &db(2)).unwrap();
    assert!(!added.is_started() && added.vote == Vote::Learner && !added.healthy);
    assert!(list.entry("db", &db(1)).unwrap().is_started());
    assert_eq!(list.entry("db", &db(0)), None);
}

// D27, D21: what is not understood is no list, and never a shorter one.
#[test]
fn what_is_not_understood_is_no_list() {
    let member = "db-0 a voter healthy http://db-0";
    for (text, says) in [
        (String::new(), "printed nothing"),
        ("cluster c".into(), "no member"),
        (member.into(), "first line"),
        ("cluster".into(), "first line"),
        (format!("cluster c d\n{member}"), "first line"),
        (format!("cluster c\n{member} more"), "line 2"),
        (format!("cluster c\n{member}\ndb-1 b voter"), "line 3"),
        ("cluster c\ndb-0 a observer healthy x".into(), "line 2"),
        ("cluster c\ndb-0 a voter well x".into(), "line 2"),
        (format!("cluster c\n{member}\ndb-1 a voter healthy x"), "one identity twice"),
        (format!("cluster c\n{member}\ndb-0 b voter healthy x"), "one name twice"),
        (format!("cluster c\ndb-0 {} voter healthy x", "a".repeat(257)), "too long|more than 256"),
        (format!("cluster {}\n{member}", "a".repeat(257)), "too long"),
    ] {
        let error = read(&text).unwrap_err();
        assert!(says.split('|').any(|part| error.contains(part)), "{text:?}: {error}");
    }
    let entry = |n: usize| format!("- id{n} voter healthy http://db-{n}.db\n");
    let list = |members: usize| format!("cluster c\n{}", (0..members).map(entry).collect::<String>());
    assert_eq!(read(&list(limits::LIST_MEMBERS)).unwrap().entries.len(), limits::LIST_MEMBERS);
    assert!(read(&list(limits::LIST_MEMBERS + 1)).unwrap_err().contains("more than 64 members"));
    assert!(read(&" ".repeat(limits::LIST_BYTES + 1)).unwrap_err().contains("bytes"));
    assert!(read_list(b"cluster \xff").unwrap_err().contains("UTF-8"));
}

// D25: more than half.
#[test]
fn a_quorum_is_more_than_half() {
    assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(quorum), [1, 1, 2, 2, 3, 3, 4, 4]);
}

// D3, D8, D27: a list counts once a majority of its voters said it, and not while two of them disagree.
#[test]
fn a_list_counts_once_a_majority_said_it() {
    let mut world = agreeing(3);
    let s = world.observe();
    assert!(agreed(&s).is_confirmed("db") && agreed(&s).silent.is_empty());
    let heard = |s: &Snapshot, keep: &[u32]| {
        let lists = s.lists.clone().into_iter().filter(|(m, _)| keep.iter().any(|o| *m == db(*o)));
        Snapshot { lists: lists.collect(), ..s.clone() }
    };
    assert!(agreed(&heard(&s, &[0, 2])).is_confirmed("db"));
    let alone = agreed(&heard(&s, &[1]));
    assert!(!alone.is_confirmed("db"));
    assert_eq!((alone.by.len(), alone.silent.len()), (1, 2));
    assert_eq!(said(&heard(&s, &[])), Said::Nothing(None));
    // What a member said before it stopped says nothing.
    world.serve(1, Role::Stopped);
    assert_eq!(agreed(&world.observe()).by, [db(0), db(2)].into());
    // Who has no vote does not make a majority.
    world.serve(1, Role::Primary);
    let mut s = world.observe();
    for heard in s.lists.values_mut() {
        let entries = &mut heard.list.as_mut().unwrap().entries;
        entries.iter_mut().filter(|e| e.name != Some(db(0))).for_each(|e| e.vote = Vote::Learner);
    }
    assert!(!agreed(&heard(&s, &[1, 2])).is_confirmed("db"));
    assert!(agreed(&heard(&s, &[0])).is_confirmed("db"));
}

// D8: whoever is unhealthy for one, or does not answer, does not count for a quorum.
#[test]
fn only_voters_that_everybody_reaches_count() {
    let s = agreeing(3).observe();
    assert_eq!(agreed(&s).healthy_voters("db").len(), 3);
    for by in [0, 1] {
        let mut ill = s.clone();
        let list = ill.lists.get_mut(&db(by)).unwrap().list.as_mut().unwrap();
        list.entries.iter_mut().filter(|e| e.name == Some(db(2))).for_each(|e| e.healthy = false);
        assert_eq!(agreed(&ill).healthy_voters("db"), [db(0), db(1)].into(), "db-{by} does not reach db-2");
    }
    let mut silent = s.clone();
    silent.lists.get_mut(&db(1)).unwrap().list = Err("exited 1".into());
    assert_eq!(agreed(&silent).healthy_voters("db"), [db(0), db(2)].into());
}

// D2, D27: the last list that a majority said is remembered, with the number of its changes; a minority changes nothing.
#[test]
fn what_a_majority_said_is_remembered() {
    let mut world = agreeing(3);
    let known = world.record.membership.clone().unwrap();
    assert_eq!((known.cluster.as_str(), known.revision, known.voters()), ("c1", 1, 3));
    assert!(known.members.iter().all(|m| m.started && m.voter));
    world.agreement.members.pop_last();
    for ordinal in 1..3 {
        world.agreement.lies.insert(ordinal, Lie::Fails);
    }
    world.now += 60;
    world.play(&Natural, 0);
    assert_eq!(world.record.membership, Some(known), "one of two voters said it");
    world.agreement.lies.clear();
    world.play(&Natural, 10);
    let later = world.record.membership.clone().unwrap();
    assert_eq!((later.revision, later.voters(), later.of(&db(2))), (2, 2, None));
}

// S7, S32: claims remember the list, so a group that was removed and created again knows its members. Of several the latest counts, and a claim from elsewhere
// says nothing.
#[test]
fn claims_remember_the_list() {
    let world = agreeing(3);
    let marks: Vec<_> = world.volumes.iter().map(|(o, v)| (db(*o), v.claim(*o))).collect();
    assert!(marks.iter().all(|(_, claim)| claim.mark.as_ref().unwrap().membership == world.record.membership));
    let recalled = |record: &Record, marks: &[(MemberName, tanist_core::snapshot::Claim)]| {
        memory::recall(record.clone(), "db", marks.iter().map(|(m, c)| (m, c))).membership
    };
    assert_eq!(recalled(&Record::default(), &marks), world.record.membership);
    let mut older = marks.clone();
    for (_, claim) in older.iter_mut().skip(1) {
        let list = claim.mark.as_mut().unwrap().membership.as_mut().unwrap();
        (list.revision, list.members) = (0, Vec::new());
    }
    assert_eq!(recalled(&Record::default(), &older), world.record.membership, "the latest");
    older.reverse();
    assert_eq!(recalled(&Record::default(), &older), world.record.membership, "in whichever order");
    let mut foreign = marks;
    for (_, claim) in &mut foreign {
        claim.uid = "another".into();
        claim.mark.as_mut().unwrap().membership.as_mut().unwrap().revision = 9;
    }
    assert_eq!(recalled(&world.record, &foreign), world.record.membership, "from elsewhere");
}

// S32, D20: a list that only claims remember may be older than the first start of a member, which then starts on a volume with data and on no other.
#[test]
fn whoever_the_claims_list_may_have_been_started_since() {
    let mut world = agreeing(3);
    world.record.membership.as_mut().unwrap().members.iter_mut().for_each(|listed| listed.started = false);
    let marks: Vec<_> = world.volumes.iter().map(|(o, v)| (db(*o), v.claim(*o))).collect();
    let marks: Vec<_> = marks
        .into_iter()
        .map(|(member, mut claim)| {
            claim.mark.as_mut().unwrap().membership.clone_from(&world.record.membership);
            (member, claim)
        })
        .collect();
    let started = |record: &Record| {
        let list = memory::recall(record.clone(), "db", marks.iter().map(|(m, c)| (m, c))).membership.unwrap();
        list.members.iter().filter(|listed| listed.started).count()
    };
    assert_eq!((started(&Record::default()), started(&world.record)), (3, 0));
}

/// Who is asked for its list.
fn asked(s: &Snapshot) -> Vec<MemberName> {
    let actions = decide(s, &Natural).actions;
    actions
        .iter()
        .filter_map(|a| if let Action::List { member, .. } = a { Some(member.clone()) } else { None })
        .collect()
}

// Promise 4: members that agree are left alone for half a minute; one whose list could not be read is asked again soon, and who is stopped is not asked.
#[test]
fn members_that_agree_are_left_alone_for_a_while() {
    let mut world = agreeing(3);
    assert_eq!(asked(&world.observe()), []);
    world.now += limits::LIST_SECONDS - 1;
    assert_eq!(asked(&world.observe()), []);
    world.now += 1;
    assert_eq!(asked(&world.observe()), [db(0), db(1), db(2)]);
    world.play(&Natural, 0);
    let mut s = world.observe();
    s.lists.get_mut(&db(1)).unwrap().list = Err("exited 1".into());
    s.now += limits::LIST_AGAIN_SECONDS;
    assert_eq!(asked(&s), [db(1)]);
    s.members[1].asked = true;
    assert_eq!(asked(&s), [], "it is being asked");
    let mut paused = s.clone();
    (paused.group.paused, paused.members[1].asked) = (true, false);
    assert_eq!(asked(&paused), []);
    let mut stopped = stopped();
    stopped.group.commands.membership = Some(setting::members(false));
    assert_eq!(asked(&stopped.observe()), []);
}

// D2: a list from another container, from before a change of the members, or from before another process wrote, says nothing about now.
#[test]
fn a_list_from_before_a_change_does_not_count() {
    let members = agreeing(3).observe().members;
    let pod = members[0].pod.clone().unwrap();
    let at = |seconds| Moment::after_start(Duration::from_secs(seconds));
    let heard = || Heard { list: Err("exited 1".into()), at: 7 };
    let mut readings = Readings::default();
    assert!(readings.begin_reading(&pod.uid));
    readings.remember_list(&pod, "db", at(10), heard());
    assert_eq!(readings.under_way(), 0);
    assert_eq!(readings.lists(&members, "db"), [(db(0), heard())].into());
    let mut moved = members.clone();
    moved[0].pod.as_mut().unwrap().containers.get_mut("db").unwrap().id = Some("another".into());
    assert_eq!(readings.lists(&moved, "db"), [].into());
    readings.change_members(at(20));
    assert_eq!(readings.lists(&members, "db"), [].into());
    readings.remember_list(&pod, "db", at(19), heard());
    assert_eq!(readings.lists(&members, "db"), [].into(), "it was under way");
    readings.remember_list(&pod, "db", at(20), heard());
    assert_eq!(readings.lists(&members, "db").len(), 1);
    readings.note_record(None, at(30));
    readings.note_record(Some(&serde_json::json!({})), at(30));
    assert_eq!(readings.lists(&members, "db"), [].into(), "another process wrote");
    readings.remember_list(&pod, "db", at(31), heard());
    let others: Vec<_> = members.iter().skip(1).cloned().collect();
    assert_eq!(readings.lists(&others, "db"), [].into());
    assert_eq!(readings.lists(&members, "db"), [].into(), "its pod was gone");
}

// D8, D27: which cluster the members are in after a recovery, the one that goes on says.
#[test]
fn after_a_recovery_the_cluster_may_be_another_one() {
    let mut s = agreeing(3).observe();
    s.record.membership.as_mut().unwrap().cluster = "c9".into();
    assert!(matches!(said(&s), Said::Split(_)), "{:?}", said(&s));
    s.record.membership = Some(Membership::alone(&db(0), s.record.membership.as_ref()));
    assert!(matches!(said(&s), Said::Agreed(_)), "{:?}", said(&s));
}
