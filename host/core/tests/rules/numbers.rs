//! Numbers and texts: sequences, back-offs, limits, and the stored form of the record.
use super::super::support::policies::Natural;
use super::super::support::world::{START, World};
use super::super::support::{db, sequence};
use tanist_core::contract::{Failure, Outcome, Position, Role};
use tanist_core::data::{read_sequence, show_position};
use tanist_core::decide::decide;
use tanist_core::limits;
use tanist_core::plan::Action;
use tanist_core::record::{Event, MemberRecord, Record, backoff, cut};

// A5, reading 3: exactly one line, EMPTY or [HISTORY:]NUMBER.
#[test]
fn a_sequence_is_one_line() {
    let known = |text: &str| Ok(Position::Known(sequence(text)));
    for good in ["7", " 7\n", "18446744073709551615", "a1b2-c3:42\n", "x:y:7", "00"] {
        assert_eq!(read_sequence(good.as_bytes()), known(good.trim()), "{good:?}");
    }
    assert_eq!(read_sequence(b" EMPTY\r\n"), Ok(Position::Empty));
}

// A5, S11: everything else is unknown, never a number, never 0 and never the highest; and the sentence does not repeat it (S46).
#[test]
fn what_is_no_sequence_is_unknown() {
    let bad = [
        "",
        "\n",
        "-1",
        "+1",
        "7 8",
        "abc",
        "18446744073709551616",
        "1e30",
        "NaN",
        "0x10",
        "7\n8",
        "7\0",
        "\0 7",
        ":7",
        "a:",
        "a:-1",
        "a b:7",
        "empty",
        "EMPTY 7",
        "1,000",
        "7.0",
        "٧",
        "７",
        "\u{feff}7",
        "a\u{85}b:7",
    ];
    for text in bad {
        let why = read_sequence(text.as_bytes()).unwrap_err();
        assert!(text.trim().is_empty() || text.len() < 3 || !why.contains(text.trim()), "{why}");
    }
    let utf16: Vec<u8> = "7".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(read_sequence(&utf16).is_err());
    assert!(read_sequence(&[0xff, b'7']).is_err());
    assert!(read_sequence(&vec![b'7'; 10_000_000]).unwrap_err().contains("10000000 bytes"));
    assert!(read_sequence(&[b' '; limits::SEQUENCE_BYTES + 1]).is_err());
}

// The contract bounds what policies are given.
#[test]
fn a_history_has_at_most_255_bytes() {
    let of = |bytes: usize| read_sequence(format!("{}:18446744073709551615\n", "h".repeat(bytes)).as_bytes());
    assert!(matches!(of(255), Ok(Position::Known(_))));
    assert!(of(256).unwrap_err().contains("a history of 256 bytes"));
}

#[test]
fn positions_are_shown_as_users_write_them() {
    assert_eq!(show_position(&Position::Known(sequence("a:7"))), "a:7");
    assert_eq!(show_position(&Position::Empty), "EMPTY");
    assert_eq!(show_position(&Position::Unknown("exit 1".into())), "unknown: exit 1");
    assert_eq!(show_position(&Position::NotAsked), "not asked");
}

// docs/rules.md, "Commands": the back-off is exponential, 10 s to 5 min, and success resets it.
#[test]
fn failures_wait_longer_each_time_up_to_five_minutes() {
    assert_eq!((1..=7).map(backoff).collect::<Vec<_>>(), [10, 20, 40, 80, 160, 300, 300]);
    assert_eq!((backoff(0), backoff(u32::MAX)), (10, 300));
    let mut member = MemberRecord::default();
    for (n, wait) in [(1, 10), (2, 20), (3, 40)] {
        member.record_failure(Failure { command: "seed".into(), outcome: Outcome::Exited(1), at: 1000 });
        assert_eq!((member.failures, member.retry_at), (n, Some(1000 + wait)));
    }
    member.record_success();
    assert_eq!(member, MemberRecord::default());
}

// A26: a stop and a new pod have no back-off; later treatments have one of at most five minutes. Success resets it.
#[test]
fn treatments_slow_down_after_the_second() {
    let mut world = World::new(2, 1);
    world.remember(0, 1, "5");
    world.remember(1, 1, "5");
    world.serve(0, Role::Primary);
    let mut at = Vec::new();
    for _ in 0..1000 {
        world.serve(1, Role::Failed);
        let before = world.record.member(&db(1)).treated;
        world.round(&Natural);
        if world.record.member(&db(1)).treated > before {
            at.push(world.now - START);
        }
        world.now += 1;
    }
    let pauses: Vec<_> = at.windows(2).map(|w| w[1] - w[0]).collect();
    // A stop without effect is noticed after `CONFIRM_SECONDS`; a new pod is failed at once.
    assert!(pauses[0] <= limits::CONFIRM_SECONDS + 1, "{pauses:?}");
    assert!(pauses[1..].windows(2).all(|w| w[0] <= w[1]) && pauses.last() >= Some(&160), "{pauses:?}");
    assert!(pauses.iter().all(|p| *p <= limits::BACKOFF_LONGEST_SECONDS + limits::CONFIRM_SECONDS), "{pauses:?}");
}

#[test]
fn texts_for_users_are_short_and_without_control_characters() {
    assert_eq!(cut("a\nb\u{7}c"), "a b c");
    assert_eq!(cut(&"é".repeat(200)).len(), 256);
    let mut record = Record::default();
    for n in 0..100 {
        record.note(n, Event::Stopped, None, Some("x".repeat(1000)));
    }
    assert_eq!((record.history.len(), record.history[0].at), (limits::HISTORY, 36));
    assert!(record.history.iter().all(|t| t.detail.as_ref().is_some_and(|d| d.len() == 256)));
}

// S37, S32: a field of a newer version is not ignored.
#[test]
fn an_unknown_field_of_the_record_blocks() {
    let mut world = World::new(3, 2);
    world.behaviours.push((db(1), "primary".into(), super::super::support::app::Behaviour::Hangs, false));
    world.play(&Natural, 5);
    let json = serde_json::to_value(&world.record).unwrap();
    assert_eq!(serde_json::from_value::<Record>(json.clone()).unwrap(), world.record);
    for path in ["", "/intents/0", "/members/db-0", "/lastPrimaries/0", "/everSeeded"] {
        let mut newer = json.clone();
        newer.pointer_mut(path).unwrap().as_object_mut().unwrap().insert("fromTheFuture".into(), 1.into());
        assert!(serde_json::from_value::<Record>(newer).is_err(), "{path}");
    }
}

// A9, A12: which command is run, and with which arguments.
#[test]
fn peers_stand_where_they_are_asked_for() {
    let argv = |exec: &[&str], running: u32| {
        let mut world = World::new(3, 3);
        world.group.commands.primary.exec = exec.iter().map(|a| (*a).to_owned()).collect();
        for ordinal in 0..3 {
            world.remember(ordinal, 1, "5");
        }
        (0..running).for_each(|o| world.serve(o, Role::Primary));
        world.round(&Natural);
        let plan = decide(&world.observe(), &Natural);
        plan.actions
            .iter()
            .find_map(|a| if let Action::Run { argv, .. } = a { Some(argv.join(" ")) } else { None })
            .unwrap()
    };
    let (zero, one) = ("db-0.db.ns.svc.cluster.local", "db-1.db.ns.svc.cluster.local");
    assert_eq!(argv(&["start", "$(PEERS)", "-x"], 2), format!("start {zero} {one} -x"));
    assert_eq!(argv(&["start", "-x"], 2), format!("start -x {zero} {one}"));
    assert_eq!(argv(&["start", "$(PEERS)", "$(PEERS)"], 1), format!("start {zero} {zero}"));
    assert_eq!(
        argv(&["start", "--peers=$(PEERS)"], 1),
        format!("start --peers=$(PEERS) {zero}"),
        "S45: one item stays one item"
    );
    assert_eq!(argv(&["start", "$(PEERS)", "-x"], 0), "start -x", "a seed has none");
    assert_eq!(argv(&["start"], 0), "start");
}
