//! What a policy is told (wit/policy.wit, "WHAT THE HOST PROMISES ABOUT A SNAPSHOT").
use super::super::support::app::App;
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::super::support::{db, sequence};
use std::collections::{BTreeMap, BTreeSet};
use tanist_core::contract::{self, Condition, Position, Role};
use tanist_core::examples::usual;
use tanist_core::policy::Point;
use tanist_core::question::question;
use tanist_core::record::{Event, Mark};
use tanist_core::snapshot::Snapshot;

fn observed() -> Snapshot {
    usual(Point::Failover).0.observed().clone()
}

fn told(s: &Snapshot) -> contract::Snapshot {
    question(s, Point::Failover, &BTreeMap::new()).snapshot
}

fn labels(of: std::ops::Range<u32>) -> Vec<(String, String)> {
    of.rev().map(|n| (format!("key-{n:02}"), n.to_string())).collect()
}

fn cut(s: &Snapshot) -> Option<String> {
    told(s).group.facts.into_iter().find(|(key, _)| key == "cut").map(|(_, lists)| lists)
}

// P19: order, and each key once.
#[test]
fn members_are_sorted_by_ordinal_and_labels_by_key() {
    let mut s = observed();
    s.members.reverse();
    s.group.labels = labels(0..3);
    s.group.labels.push(("key-01".into(), "again".into()));
    for member in &mut s.members {
        member.pod.iter_mut().for_each(|pod| pod.labels = labels(0..12));
    }
    let told = told(&s);
    assert!(told.members.is_sorted_by_key(|m| (m.ordinal, m.name.0.clone())));
    let keys: Vec<_> = told.group.labels.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["key-00", "key-01", "key-02"], "sorted, each once");
    assert!(told.members.iter().all(|m| m.labels.is_sorted()));
    assert!(told.members.iter().any(|m| m.labels.len() == 12));
}

// P19: clocks that differ are cut off.
#[test]
fn no_time_is_later_than_now() {
    let mut s = observed();
    let later = s.now + 3600;
    for member in &mut s.members {
        (member.reading.since, member.position_at) = (later, later);
        member.pod.iter_mut().for_each(|pod| pod.phase_since = later);
        s.record.member_mut(&member.name).last_primary = Some(later);
    }
    let told = told(&s);
    for m in &told.members {
        assert!(m.phase_since <= s.now && m.role_since <= s.now && m.last_primary <= Some(s.now), "{}", m.name);
    }
}

// P19: a list that is cut is named.
#[test]
fn lists_that_were_cut_are_named() {
    let mut s = observed();
    s.record.history.clear();
    s.group.labels = labels(0..32);
    assert_eq!((cut(&s), told(&s).group.labels.len()), (None, 32));
    s.group.labels = labels(0..33);
    assert_eq!((cut(&s).as_deref(), told(&s).group.labels.len()), (Some("labels"), 32));

    s.group.labels.clear();
    let pod = s.members.iter_mut().find_map(|m| m.pod.as_mut()).unwrap();
    pod.labels = labels(0..33);
    assert_eq!(cut(&s).as_deref(), Some("labels"), "of a member");
    assert_eq!(told(&s).members.iter().map(|m| m.labels.len()).max(), Some(32));

    for n in 0..63 {
        s.record.note(s.now, Event::Adopted, None, Some(n.to_string()));
    }
    assert_eq!(cut(&s).as_deref(), Some("labels"));
    s.record.note(s.now, Event::Adopted, None, None);
    assert_eq!((cut(&s).as_deref(), told(&s).history.len()), (Some("history,labels"), 64));
}

/// The facts of the group, and of each member.
fn facts(s: &Snapshot) -> (Vec<String>, Vec<Vec<String>>) {
    let shown = |facts: &[(String, String)]| facts.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let told = told(s);
    assert!(told.group.facts.is_sorted() && told.members.iter().all(|m| m.facts.is_sorted()));
    (shown(&told.group.facts), told.members.iter().map(|m| shown(&m.facts)).collect())
}

fn group_fact(s: &Snapshot, word: &str) -> Option<String> {
    told(s).group.facts.into_iter().find(|(key, _)| key == word).map(|(_, value)| value)
}

// P21: a distance is one inside a term and a history, from the members' data and the high-water mark; what is not known has none.
#[test]
fn how_far_a_member_is_behind_is_told() {
    let mut s = observed();
    let behind = |s: &Snapshot| facts(s).1.iter().map(|f| f.first().cloned().unwrap_or_default()).collect::<Vec<_>>();
    // db-0 is gone; db-4 is of an older term, in which it has the highest number.
    assert_eq!(behind(&s), ["", "behind=0", "behind=0", "behind=3", "behind=0"]);
    s.record.high_water = Some(Mark { term: 3, sequence: sequence("a:25") });
    assert_eq!(behind(&s), ["", "behind=5", "behind=5", "behind=8", "behind=0"]);
    s.members[1].position = Position::Known(sequence("b:7"));
    s.members[2].position = Position::Unknown("exited 3".into());
    s.members[4].position = Position::Empty;
    assert_eq!(behind(&s), ["", "behind=0", "", "behind=8", ""]);
}

// P21: what the spec allows is told.
#[test]
fn what_a_takeover_may_lose_is_told() {
    let mut s = observed();
    assert_eq!(group_fact(&s, "max-behind"), None);
    s.group.failover.max_behind = Some(7);
    assert_eq!(group_fact(&s, "max-behind").as_deref(), Some("7"));
}

// P21: the last contact is told of a member that gives no role now, and of no other.
#[test]
fn when_a_silent_member_last_answered_is_told() {
    let mut s = observed();
    for member in &mut s.members {
        member.reading.contact = Some(s.now - 30);
    }
    s.members[1].reading.role = Role::Unknown;
    let at = format!("last-contact={}", s.now - 30);
    let told = facts(&s).1;
    let silent: Vec<_> = (0..5).filter(|n| told[*n].contains(&at)).collect();
    assert_eq!(silent, [0, 1], "db-0 has no pod, db-1 does not answer");
    s.members[1].reading.contact = Some(s.now + 30);
    assert!(facts(&s).1[1].contains(&format!("last-contact={}", s.now)), "never later than now");
}

// P21: where the last primary was is remembered while none leads, also when its node is gone; and forgotten when one leads.
#[test]
fn where_the_last_primary_was_is_told() {
    let mut world = super::checks::served();
    world.group.primaries = 1;
    world.nodes.get_mut("node-0").unwrap().zone = Some("a".into());
    let of = |world: &mut World, record| {
        let s = Snapshot { record, ..world.observe() };
        ["last-primary", "last-primary-node", "last-primary-zone"].map(|word| group_fact(&s, word))
    };
    let full = [Some("db-0"), Some("node-0"), Some("a")].map(|text| text.map(str::to_owned));
    let (_, plan, _) = world.round(&Natural);
    assert_eq!(of(&mut world, plan.record.clone()), full, "it leads");
    assert_eq!(plan.record.lost_primary, None, "an older operator can read the record");

    world.respawn = false;
    world.forget(0);
    let (_, plan, _) = world.round(&Natural);
    assert_eq!(of(&mut world, plan.record.clone()), full, "its pod is gone");
    world.delete_node("node-0");
    let (_, plan, _) = world.round(&Natural);
    assert_eq!(of(&mut world, plan.record.clone()), full, "its node is gone");
    let lost = plan.record.lost_primary.clone();
    assert_eq!(lost.map(|lost| lost.member), Some(db(0)));

    let (_, plan) = world.play(&Natural, 120);
    assert_eq!(plan.record.lost_primary, None, "another one leads");
    assert_eq!(of(&mut world, plan.record)[0].as_deref(), Some("db-2"));
}

// A group of 0 members has nobody to choose, so nothing is remembered for that.
#[test]
fn a_group_of_no_members_remembers_no_last_primary() {
    let mut world = super::checks::served();
    world.group.primaries = 1;
    world.round(&Natural);
    (world.group.replicas, world.group.primaries) = (0, 0);
    let (_, plan) = world.play(&Natural, 60);
    assert_eq!(plan.record.lost_primary, None);
}

// P21: of primaries that began at the same moment none is the last one.
#[test]
fn one_of_several_is_not_called_the_last_primary() {
    let mut s = observed();
    assert_eq!(group_fact(&s, "last-primary").as_deref(), Some("db-0"));
    let first = s.record.member(&db(0)).clone();
    let second = s.record.member_mut(&db(1));
    (second.primary_term, second.last_primary) = (first.primary_term, first.last_primary);
    assert_eq!(group_fact(&s, "last-primary"), None);
}

// P19, P21: conditions keep to what holds of all lists.
#[test]
fn conditions_are_sorted_and_no_later_than_now() {
    let mut s = observed();
    let condition = |name: &str, since| Condition { name: name.into(), since, detail: Some("x".repeat(300)) };
    s.members[1].conditions = vec![condition("update-pending", s.now - 5), condition("node-draining", s.now + 5)];
    let told = &told(&s).members[1].conditions;
    let shown: Vec<_> = told.iter().map(|c| (c.name.as_str(), c.since)).collect();
    assert_eq!(shown, [("node-draining", s.now), ("update-pending", s.now - 5)]);
    assert!(told.iter().all(|c| c.detail.as_ref().is_some_and(|text| text.len() <= 256)));
}

// P19: equal groups give equal bytes.
#[test]
fn equal_snapshots_give_equal_questions() {
    let mut s = observed();
    let first = serde_json::to_string(&told(&s)).unwrap();
    for member in &mut s.members {
        member.conditions.reverse();
        member.pod.iter_mut().for_each(|pod| pod.labels.reverse());
    }
    s.members.reverse();
    assert_eq!(serde_json::to_string(&told(&s)).unwrap(), first);
}

// `last-primary` is when a member was last seen as primary: now, while it is one; afterwards the moment at which it was seen to be none.
#[test]
fn when_a_member_was_last_seen_as_primary_is_told() {
    let mut world = super::checks::served();
    world.group.primaries = 1;
    world.round(&Natural);
    world.now += 500;
    let (s, _, _) = world.round(&Natural);
    assert_eq!(told(&s).members[0].last_primary, Some(s.now));
    world.pods.get_mut(&0).unwrap().app = App::stopped();
    world.now += 500;
    let (lost, plan, _) = world.round(&Natural);
    assert_eq!(plan.record.member(&db(0)).last_primary, Some(lost.now));
}

// P19: in bytes, at the end of a character.
#[test]
fn long_texts_are_cut() {
    let mut s = observed();
    s.members[1].reading.role = Role::Unknown;
    s.members[1].reading.detail = Some("é".repeat(300));
    s.members[2].position = Position::Unknown("é".repeat(300));
    let told = told(&s);
    assert_eq!(told.members[1].role_detail.as_ref().map(String::len), Some(256));
    assert_eq!(told.members[2].position, Position::Unknown("é".repeat(128)));
}

// docs/transitions.md has every word of the history.
#[test]
fn every_word_of_the_history_is_documented() {
    let document = include_str!("../../../../docs/transitions.md");
    let words: BTreeSet<&str> =
        document.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(words, Event::ALL.iter().map(|event| event.word()).collect());
}
