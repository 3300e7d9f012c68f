//! Memory that outlives the group's object: annotations of claims, joined with the status (docs/rules.md, "Memory"; docs/safety.md, S7, S16, S18, S32).
use super::super::support::app::Data;
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::super::support::{db, sequence};
use super::checks::intent;
use super::membership::agreeing;
use tanist_core::contract::{MemberName, Position, Role};
use tanist_core::decide::decide;
use tanist_core::limits;
use tanist_core::memory::{claim_mark, claim_uids, recall, start_note, surplus};
use tanist_core::plan::{Action, Plan};
use tanist_core::record::{Intent, LastPrimary, Listed, Mark, Membership, Record, Seeded, Started, Verb};
use tanist_core::snapshot::{Claim, ClaimMark};

pub fn marked(group: &str, term: u64, data: Option<&str>, primaries: &[u32]) -> Option<ClaimMark> {
    let primaries = primaries.iter().map(|o| db(*o)).collect();
    Some(ClaimMark {
        group: group.into(),
        term,
        sequence: data.map(sequence),
        primaries,
        ran: Vec::new(),
        membership: None,
        version: None,
    })
}

pub fn claim(name: &str, uid: &str, mark: Option<ClaimMark>) -> Claim {
    Claim { name: name.into(), uid: uid.into(), version: "1".into(), mark, start: None, room: None }
}

#[test]
fn a_recreated_group_knows_its_data() {
    let claims = [
        (db(0), claim("data-db-0", "a", marked("db", 3, Some("9"), &[0, 2]))),
        (db(1), claim("data-db-1", "b", marked("db", 2, Some("90"), &[1]))),
        (db(2), claim("data-db-2", "c", None)),
    ];
    let record = recall(Record::default(), "db", claims.iter().map(|(m, c)| (m, c)));
    assert_eq!(record.term, 3);
    assert!(record.ever_seeded.as_ref().is_some_and(|e| e.confirmed));
    assert_eq!(record.high_water, Some(Mark { term: 3, sequence: sequence("9") }));
    let of = |o: u32| record.member(&db(o)).clone();
    assert_eq!((of(0).term, of(0).claim_uid, of(0).primary_term), (Some(3), Some("a".into()), Some(3)));
    assert_eq!((of(1).term, of(1).sequence), (Some(2), Some(sequence("90"))));
    // db-2 led in term 3, by what db-0 remembers, and its claim says nothing: it is another one.
    assert_eq!((of(2).term, of(2).claim_uid, of(2).primary_term), (None, None, Some(3)));
}

#[test]
fn claims_of_another_group_do_not_count() {
    let claims = [(db(0), claim("data-db-0", "a", marked("other", 3, Some("9"), &[0])))];
    assert_eq!(recall(Record::default(), "db", claims.iter().map(|(m, c)| (m, c))), Record::default());
}

#[test]
fn the_maximum_of_both_memories_counts() {
    let mut known =
        Record { term: 5, ever_seeded: Some(Seeded { member: db(1), confirmed: false }), ..Record::default() };
    known.high_water = Some(Mark { term: 5, sequence: sequence("2") });
    known.member_mut(&db(0)).term = Some(5);
    known.member_mut(&db(0)).claim_uid = Some("before".into());
    let claims = [(db(0), claim("data-db-0", "a", marked("db", 3, Some("9"), &[0])))];
    let record = recall(known, "db", claims.iter().map(|(m, c)| (m, c)));
    assert_eq!((record.term, record.member(&db(0)).term), (5, Some(5)));
    assert_eq!(record.high_water, Some(Mark { term: 5, sequence: sequence("2") }));
    assert_eq!(
        record.ever_seeded,
        Some(Seeded { member: db(1), confirmed: true }),
        "a mark is written when a role is confirmed"
    );
    assert_eq!(record.member(&db(0)).claim_uid, Some("before".into()), "another claim does not make itself known");
}

// S16: another UID of any claim means another volume.
#[test]
fn every_claim_of_a_member_counts() {
    let claims = [claim("data-db-0", "a", None), claim("logs-db-0", "b", None)];
    assert_eq!(claim_uids(&claims), Some("a b".into()));
    assert_eq!(claim_uids(&[]), None);
    let both = [
        (db(0), claim("logs-db-0", "b", marked("db", 1, None, &[]))),
        (db(0), claim("data-db-0", "a", marked("db", 1, None, &[]))),
    ];
    let record = recall(Record::default(), "db", both.iter().map(|(m, c)| (m, c)));
    assert_eq!(record.member(&db(0)).claim_uid, claim_uids(&claims));
}

#[test]
fn a_claim_is_marked_with_the_term_of_its_member() {
    let mut record = Record { term: 4, ..Record::default() };
    for (ordinal, term, led) in [(0, 4, Some(4)), (1, 4, None), (2, 3, Some(3)), (3, 4, Some(4))] {
        let known = record.member_mut(&db(ordinal));
        (known.term, known.primary_term) = (Some(term), led);
    }
    record.member_mut(&db(1)).sequence = Some(sequence("7"));
    let found = claim_mark(&record, "db", &db(1)).unwrap();
    assert_eq!(found, marked("db", 4, Some("7"), &[0, 3]).unwrap());
    assert_eq!(claim_mark(&record, "db", &db(2)).unwrap().primaries, [db(2)]);
    assert_eq!(claim_mark(&record, "db", &db(9)), None);
}

fn entry(ordinal: u32, pod: &str) -> LastPrimary {
    let (pod_uid, node) = (pod.to_owned(), Some("node".to_owned()));
    LastPrimary { pod_uid, container_id: format!("c-{pod}"), node, ..LastPrimary::by_name(db(ordinal)) }
}

fn marked_with(term: u64, primaries: &[u32], ran: Vec<LastPrimary>) -> Option<ClaimMark> {
    marked("db", term, None, primaries).map(|mark| ClaimMark { ran, ..mark })
}

/// Pods of the last primaries after the claims were read, `?` for those of which only the name is known.
fn recalled(record: Record, marks: &[Option<ClaimMark>]) -> Vec<String> {
    let claims: Vec<_> = (0..)
        .zip(marks)
        .map(|(o, mark)| (db(o), claim(&format!("data-db-{o}"), &format!("u{o}"), mark.clone())))
        .collect();
    let record = recall(record, "db", claims.iter().map(|(m, c)| (m, c)));
    let shown = |l: &LastPrimary| format!("{}:{}", l.member, if l.is_by_name() { "?" } else { &l.pod_uid });
    record.last_primaries.iter().map(shown).collect()
}

// S32: claims that disagree are joined; primaries without a known place block; older terms do not count.
#[test]
fn without_a_record_the_primaries_of_the_highest_term_come_back() {
    let marks = [
        marked_with(3, &[0, 1], vec![entry(0, "a"), entry(1, "b")]),
        marked_with(3, &[0, 1, 2], vec![entry(0, "a2")]),
        marked_with(2, &[3], vec![entry(3, "d")]),
    ];
    assert_eq!(recalled(Record::default(), &marks), ["db-0:a", "db-1:b", "db-0:a2", "db-2:?"]);
}

// D13, S32: where members agree, a claim names a primary that was removed since, and nobody knows where it ran. The list says that it is no member: nobody waits for it.
#[test]
fn a_removed_member_is_no_lost_primary() {
    let listed = |ordinal| Listed {
        member: Some(db(ordinal)),
        id: format!("m{ordinal}"),
        started: true,
        voter: true,
        volume: None,
    };
    let list = |of: &[u32]| {
        let members = of.iter().map(|ordinal| listed(*ordinal)).collect();
        Some(Membership { cluster: "c1".into(), revision: 4, members })
    };
    let marks = |of: &[u32]| {
        let mark = marked_with(1, &[0, 1, 3], vec![entry(0, "a"), entry(1, "b")]);
        [mark.map(|mark| ClaimMark { membership: list(of), ..mark })]
    };
    assert_eq!(recalled(Record::default(), &marks(&[0, 1])), ["db-0:a", "db-1:b"]);
    assert_eq!(recalled(Record::default(), &marks(&[0, 1, 3])), ["db-0:a", "db-1:b", "db-3:?"]);
    assert_eq!(recalled(Record::default(), &marks(&[0])), ["db-0:a", "db-1:b"], "where that one ran is known");
}

// S32: a primary that the record dropped was proven over; a claim that still names it is older.
#[test]
fn a_record_that_knows_the_term_is_believed() {
    let marks = [marked_with(3, &[0], vec![entry(0, "a")])];
    assert!(recalled(Record { term: 3, ..Record::default() }, &marks).is_empty());
    assert!(recalled(Record { term: 4, ..Record::default() }, &marks).is_empty());
}

// S32: an outdated record takes the primaries from newer claims once, and nothing else.
#[test]
fn claims_ahead_of_the_record_lend_their_primaries_once() {
    let marks = [marked_with(3, &[0, 1], vec![entry(0, "a")])];
    let mut old = Record { term: 2, ..Record::default() };
    old.member_mut(&db(0)).claim_uid = Some("u0".into());
    assert_eq!(recalled(old.clone(), &marks), ["db-0:a", "db-1:?"]);
    assert!(recalled(Record { recalled: Some(3), ..old.clone() }, &marks).is_empty(), "proven over since");
    let claims = [(db(0), claim("data-db-0", "u0", marks[0].clone()))];
    let record = recall(old.clone(), "db", claims.iter().map(|(m, c)| (m, c)));
    assert_eq!((record.term, record.recalled, record.member(&db(0)).term), (2, Some(3), None));
    old.member_mut(&db(0)).claim_uid = Some("before".into());
    assert!(recalled(old, &marks).is_empty(), "a claim from elsewhere does not count");
    let past = Record { term: 4, recalled: Some(3), ..Record::default() };
    assert_eq!(
        recall(past, "db", claims.iter().map(|(m, c)| (m, c))).recalled,
        None,
        "no older operator knows the field"
    );
}

#[test]
fn a_claim_names_a_bounded_number_of_places_its_own_first() {
    let mut record = Record { term: 1, ..Record::default() };
    record.member_mut(&db(20)).term = Some(1);
    record.last_primaries = (0..=20).map(|o| LastPrimary { gone: Some(7), ..entry(o, &format!("p{o}")) }).collect();
    record.last_primaries.push(LastPrimary::by_name(db(20)));
    let ran = claim_mark(&record, "db", &db(20)).unwrap().ran;
    assert_eq!(ran.len(), limits::MARKED_PRIMARIES);
    assert_eq!((ran[0].pod_uid.as_str(), ran[1].pod_uid.as_str()), ("p20", "p0"));
    assert!(ran.iter().all(|l| l.gone.is_none()), "it would be written anew for nothing");
}

// S18, S26, S32: a member that an orderly scale-down removed is expected to leave claims, unless a claim has a later term than the record.
#[test]
fn a_claim_is_surplus_unless_its_member_is_expected_or_left_in_order() {
    let claims: Vec<_> = [(0, 2), (1, 2), (2, 2), (3, 9)]
        .map(|(o, term)| (db(o), claim(&format!("data-db-{o}"), "u", marked("db", term, None, &[]))))
        .into();
    let record = Record { term: 2, retired: [db(1), db(3)].into(), ..Record::default() };
    let found = surplus(&record, "db", &[db(0)], claims.iter().map(|(m, c)| (m, c)));
    assert_eq!(found, ["data-db-2", "data-db-3"]);
    assert!(surplus(&record, "other", &[], claims.iter().map(|(m, c)| (m, c))).is_empty());
}

// S37: after a roll-back an older operator can read the record, unless the record needs a field that it does not know.
#[test]
fn new_fields_are_left_out_where_nothing_needs_them() {
    let text = serde_json::to_string(&Record { term: 2, ..Record::default() }).unwrap();
    assert!(!text.contains("recalled"), "{text}");
    let mut world = super::super::support::world::World::new(3, 1);
    world.group.commands.secondary = Some(super::super::support::world::command("secondary"));
    for (ordinal, term) in [(0, 2), (1, 1), (2, 2)] {
        world.remember(ordinal, term, "5");
    }
    world.serve(0, tanist_core::contract::Role::Primary);
    world.serve(1, tanist_core::contract::Role::Secondary);
    let plan = tanist_core::decide::decide(&world.observe(), &super::super::support::policies::Natural);
    let text = serde_json::to_string(&plan.record).unwrap();
    assert!(text.contains(r#""verb":"follow""#) && !text.contains("hadRole"), "{text}");
}

// A member whose role could not be read when a primary stopped may be a secondary that has to be told again. Once it says that it is stopped, the note
// goes, and with it the field that an older operator could not read after a roll-back.
#[test]
fn a_stopped_member_has_nobody_to_follow() {
    let text = |world: &super::super::support::world::World| serde_json::to_string(&world.record).unwrap();
    let mut world = super::super::support::world::World::new(3, 2);
    for ordinal in 0..3 {
        world.remember(ordinal, 1, "5");
    }
    world.serve(0, tanist_core::contract::Role::Primary);
    world.serve(1, tanist_core::contract::Role::Primary);
    world.play(&super::super::support::policies::Natural, 0);
    world.body(2).app.probe = Some(tanist_core::contract::Role::Unknown);
    world.serve(0, tanist_core::contract::Role::Stopped);
    world.play(&super::super::support::policies::Natural, 0);
    assert!(text(&world).contains("followAgain"), "{}", text(&world));
    world.body(2).app.probe = None;
    world.play(&super::super::support::policies::Natural, 0);
    assert!(!text(&world).contains("followAgain"), "{}", text(&world));
}

// S16: until a role is confirmed no volume is recorded by an operator of before, so the target of the first seed may be seeded again by this one.
#[test]
fn the_target_of_a_first_seed_without_a_recorded_volume_is_seeded_again() {
    let mut world = World::new(2, 1);
    world.record.term = 1;
    world.record.ever_seeded = Some(Seeded { member: db(0), confirmed: false });
    let started = Started { term: 1, target: true, before: Position::Empty, followed: false, peer_stopped: false };
    world.record.member_mut(&db(0)).started = Some(started);
    world.volumes.get_mut(&0).unwrap().data = Data::Known(sequence("1"));
    let (_, plan) = world.play(&Natural, 60);
    assert!(world.started.contains(&"primary db-0".to_owned()), "{:?} {:?}", world.started, plan.waits);
}

/// The claim of a member on which that start was noted.
pub fn noted(ordinal: u32, verb: Verb, term: u64, counter: u64, mark: Option<ClaimMark>) -> (MemberName, Claim) {
    let mut world = World::new(3, 1);
    let snapshot = world.observe();
    let pod = snapshot.member(&db(ordinal)).unwrap().pod.clone().unwrap();
    let token = verb.token(counter, "0");
    let intent = Intent {
        token,
        verb,
        command: "primary".into(),
        member: db(ordinal),
        target: None,
        pod_uid: pod.uid.clone(),
        container: "db".into(),
        container_id: "c".into(),
        generation: 1,
        started: 0,
        timeout: 60,
        term,
        again: false,
        exited: None,
        version: None,
        had_role: false,
    };
    let mut record = Record { term, counter, ..Record::default() };
    let (target, before) = (verb.opens_term(), Position::Empty);
    record.member_mut(&db(ordinal)).started =
        Some(Started { term, target, before, followed: false, peer_stopped: false });
    let start = start_note(&snapshot, &record, &intent);
    (db(ordinal), Claim { start, ..claim(&format!("data-db-{ordinal}"), "u", mark) })
}

/// The members of open commands by that record and these claims.
fn open(record: Record, claims: &[(MemberName, Claim)]) -> Vec<MemberName> {
    let recalled = recall(record, "db", claims.iter().map(|(m, c)| (m, c)));
    recalled.intents.into_iter().map(|intent| intent.member).collect()
}

// S32, A32 (simulator, seed 138000136): the record was lost, the start that the claim remembers never began, and a later one ran that could not be noted. Nothing is known of any member, so what
// runs is adopted as without any memory. Where anything else is known it is not.
#[test]
fn what_runs_is_adopted_while_nothing_is_known_of_any_member() {
    let adopted = |change: &dyn Fn(&mut Record)| {
        let mut world = World::new(2, 1);
        world.serve(0, Role::Primary);
        world.record.term = 3;
        world.record.ever_seeded = Some(Seeded { member: db(0), confirmed: false });
        change(&mut world.record);
        let record = decide(&world.observe(), &Natural).record;
        (record.member(&db(0)).term, record.ever_seeded.is_some_and(|seeded| seeded.confirmed))
    };
    assert_eq!(adopted(&|_| ()), (Some(3), true));
    let begun = Started { term: 3, target: true, before: Position::Empty, followed: false, peer_stopped: false };
    let known: [&dyn Fn(&mut Record); 5] = [
        &|record| record.membership = Some(Membership::alone(&db(1), None)),
        &|record| record.ever_seeded.iter_mut().for_each(|seeded| seeded.confirmed = true),
        &|record| record.high_water = Some(Mark { term: 2, sequence: sequence("7") }),
        &|record| record.member_mut(&db(1)).started = Some(begun.clone()),
        &|record| record.member_mut(&db(1)).term = Some(2),
    ];
    for (number, change) in known.into_iter().enumerate() {
        assert_eq!(adopted(change).0, None, "case {number}");
    }
}

// A49: a process may end after each write. With a mark on the claim of a secondary and nothing in the record, the next one would know a group, and not adopt its primary.
#[test]
fn what_is_adopted_is_in_the_record_before_a_claim_says_so() {
    let mut world = World::new(2, 1);
    world.serve(0, Role::Secondary);
    world.serve(1, Role::Primary);
    world.record = Record::default();
    let marks = |plan: &Plan| plan.actions.iter().filter(|a| matches!(a, Action::MarkClaim { .. })).count();
    let mut s = world.observe();
    let first = decide(&s, &Natural);
    assert_eq!((first.record.member(&db(1)).term, marks(&first)), (Some(1), 0));
    s.record = first.record;
    assert_ne!(marks(&decide(&s, &Natural)), 0);
}

// S2, S32: the record was lost while a command was on its way that makes a primary. Its claim opens it again, so that it is settled before another member is started.
#[test]
fn a_start_outlives_the_record() {
    let claims = [noted(0, Verb::Seed, 1, 1, None), noted(1, Verb::Seed, 2, 2, None)];
    let record = recall(Record::default(), "db", claims.iter().map(|(m, c)| (m, c)));
    let tokens: Vec<_> = record.intents.iter().map(|i| i.token.as_str()).collect();
    assert_eq!(tokens, ["seed-2-0"], "the first one was settled before the second one began");
    assert_eq!((record.term, record.counter), (2, 2));
    assert_eq!(record.ever_seeded, Some(Seeded { member: db(1), confirmed: false }));
    assert_eq!(record.last_primaries.iter().map(|l| l.member.clone()).collect::<Vec<_>>(), [db(1)]);
    assert_eq!(record.member(&db(1)).started.as_ref().map(|s| (s.term, s.target)), Some((2, true)));
    // Of two starts in a term the later one is open.
    assert_eq!(
        open(Record::default(), &[noted(1, Verb::Join, 1, 10, None), noted(0, Verb::Seed, 1, 9, None)]),
        [db(1)]
    );
}

// S20, S32, D20 (simulator, seed 500004092): where members agree several are started at a time. Without the record each of them may run where it was started, and no start is opened again.
#[test]
fn where_members_agree_claims_know_where_each_was_started() {
    let listed = |ordinal| Listed {
        id: format!("m{ordinal}"),
        member: Some(db(ordinal)),
        started: true,
        voter: true,
        volume: None,
    };
    let list = || Membership { cluster: "c".into(), revision: 1, members: vec![listed(0), listed(1)] };
    let mark = |membership| marked("db", 1, None, &[]).map(|mark| ClaimMark { membership, ..mark });
    let rejoin = |ordinal, membership| {
        let mut world = agreeing(3);
        let s = world.observe();
        let intent = Intent { token: "t".into(), ..intent(&s, Verb::Rejoin, ordinal) };
        let mut record = s.record.clone();
        record.member_mut(&db(ordinal)).started =
            Some(Started { term: 1, target: false, before: Position::Empty, followed: false, peer_stopped: false });
        let start = start_note(&s, &record, &intent);
        assert!(start.is_some());
        (db(ordinal), Claim { start, ..claim(&format!("data-db-{ordinal}"), "u", mark(membership)) })
    };
    let ran = |record: Record, membership: Option<Membership>| {
        let claims = [rejoin(0, membership.clone()), rejoin(1, membership)];
        let recalled = recall(record, "db", claims.iter().map(|(m, c)| (m, c)));
        assert!(recalled.intents.is_empty());
        [0, 1].map(|ordinal| recalled.member(&db(ordinal)).ran.as_ref().map(|last| last.pod_uid.clone()))
    };
    let pods = [0, 1].map(|ordinal| agreeing(3).observe().members[ordinal].pod.as_ref().map(|pod| pod.uid.clone()));
    assert_eq!(ran(Record::default(), Some(list())), pods);
    assert_eq!(ran(Record::default(), None), [None, None], "they do not agree");
    let known = Record { term: 1, ever_seeded: Some(Seeded { member: db(0), confirmed: true }), ..Record::default() };
    assert_eq!(ran(known, Some(list())), [None, None], "the record knows where they ran");
    let copied = rejoin(0, Some(list()));
    let places = |group: &str, member: MemberName| {
        recall(Record::default(), group, [(&member, &copied.1)]).member(&member).ran.is_some()
    };
    assert!(places("db", db(0)));
    assert!(!places("db", db(1)), "a note that was copied to another member");
    assert!(!places("other", db(0)), "a note of another group");
    // A later start of that kind does not hide one that made a primary.
    let claims = [noted(1, Verb::Join, 1, 10, None), rejoin(0, None)];
    assert_eq!(open(Record::default(), &claims), [db(1)]);
}

#[test]
fn a_start_is_not_opened_again_where_it_was_settled() {
    let led = || marked("db", 2, None, &[1]);
    let failover =
        |mark| [noted(0, Verb::Seed, 1, 1, marked("db", 1, None, &[0])), noted(1, Verb::Failover, 2, 2, mark)];
    assert_eq!(open(Record::default(), &failover(None)), [db(1)]);
    assert!(open(Record::default(), &failover(led())).is_empty(), "its member led");
    let with =
        |term| Record { term, ever_seeded: Some(Seeded { member: db(0), confirmed: true }), ..Record::default() };
    assert!(open(with(2), &failover(None)).is_empty(), "the record knows what became of it");
    assert_eq!(open(with(1), &failover(None)), [db(1)], "the record is an older one");
    let ahead = [noted(0, Verb::Seed, 3, 1, None), (db(1), claim("data-db-1", "u", marked("db", 2, None, &[1])))];
    assert!(open(with(1), &ahead).is_empty(), "an administrator compares record and claims");
    // Later terms were confirmed elsewhere.
    let later = [noted(0, Verb::Seed, 1, 1, None), (db(1), claim("data-db-1", "u", marked("db", 2, None, &[1])))];
    assert!(open(Record::default(), &later).is_empty());
}

#[test]
fn only_an_own_start_counts() {
    let (member, start) = noted(1, Verb::Seed, 1, 1, None);
    let other = [(db(2), start.clone())];
    assert!(open(Record::default(), &other).is_empty(), "a note that was copied to another member");
    let elsewhere = recall(Record::default(), "other", [(&member, &start)]);
    assert!(elsewhere.intents.is_empty(), "a note of another group");
    let mut known = Record::default();
    known.member_mut(&member).claim_uid = Some("before".into());
    assert!(open(known, &[(member, start)]).is_empty(), "a claim from elsewhere");
}
