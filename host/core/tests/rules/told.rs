//! What a policy is told (wit/policy.wit, "WHAT THE HOST PROMISES ABOUT A SNAPSHOT").
use std::collections::BTreeMap;
use tanist_core::contract;
use tanist_core::examples::usual;
use tanist_core::policy::Point;
use tanist_core::question::question;
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
        s.record.note(s.now, "adopted", None, Some(n.to_string()));
    }
    assert_eq!(cut(&s).as_deref(), Some("labels"));
    s.record.note(s.now, "adopted", None, None);
    assert_eq!((cut(&s).as_deref(), told(&s).history.len()), (Some("history,labels"), 64));
}
