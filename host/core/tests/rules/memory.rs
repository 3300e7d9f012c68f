//! What outlives the group's object: marks on claims, joined with the status (design 4, "Memory"; safety S7, S16, S18, S32).
use super::super::support::{db, sequence};
use tanist_core::memory::{claim_uids, mark, recall, replicas};
use tanist_core::record::{Mark, Record, Seeded};
use tanist_core::snapshot::{Claim, ClaimMark, Set};

fn marked(group: &str, term: u64, data: Option<&str>, primaries: &[u32]) -> Option<ClaimMark> {
    let primaries = primaries.iter().map(|o| db(*o)).collect();
    Some(ClaimMark { group: group.into(), term, sequence: data.map(sequence), primaries })
}

fn claim(name: &str, uid: &str, mark: Option<ClaimMark>) -> Claim {
    Claim { name: name.into(), uid: uid.into(), mark }
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
    let of = |o: u32| record.member(&db(o));
    assert_eq!((of(0).term, of(0).claim_uid, of(0).primary_term), (Some(3), Some("a".into()), Some(3)));
    assert_eq!((of(1).term, of(1).sequence), (Some(2), Some(sequence("90"))));
    // db-2 led in term 3, by what db-0 remembers, and its claim says nothing: it is another one.
    assert_eq!((of(2).term, of(2).claim_uid, of(2).primary_term), (None, None, Some(3)));
}

#[test]
fn claims_of_another_group_say_nothing() {
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

// S16: another UID of any claim is other data.
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
    let found = mark(&record, "db", &db(1)).unwrap();
    assert_eq!(found, marked("db", 4, Some("7"), &[0, 3]).unwrap());
    assert_eq!(mark(&record, "db", &db(2)).unwrap().primaries, [db(2)]);
    assert_eq!(mark(&record, "db", &db(9)), None);
}

// S18, S25, S26: the set never just gets a smaller number.
#[test]
fn the_set_never_gets_fewer_than_it_has_or_had() {
    let set = |replicas| Some(Set { uid: "s".into(), replicas });
    let had = |last| Record { last_replicas: last, ..Record::default() };
    assert_eq!(replicas(3, None, &had(0)), 3);
    assert_eq!(replicas(5, set(3).as_ref(), &had(3)), 5);
    assert_eq!(replicas(0, set(3).as_ref(), &had(0)), 3);
    assert_eq!(replicas(1, set(1).as_ref(), &had(4)), 4);
}
