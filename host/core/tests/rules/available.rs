//! The condition Available: whether clients are served (D26; docs/runbook.md, "Conditions").
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::membership::agreeing;
use super::resize::ill;
use tanist_core::contract::{Phase, Role};
use tanist_core::decide::decide;
use tanist_core::snapshot::Snapshot;
use tanist_core::status::{Kind, PolicyHealth, report};

/// Status and reason of the condition, and its message.
fn available(s: &Snapshot) -> (String, String) {
    let report = report(s, &decide(s, &Natural), &PolicyHealth::Active(String::new()), None);
    let condition = report.conditions.into_iter().find(|c| c.kind == Kind::Available).unwrap();
    (format!("{} {}", condition.status.as_str(), condition.reason.as_str()), condition.message)
}

fn of(s: &Snapshot) -> String {
    available(s).0
}

#[test]
fn clients_are_served_whatever_else_is_missing() {
    let well = World::settled(10_000).observe();
    assert_eq!(of(&well), "True PrimariesServe");
    let with = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = well.clone();
        change(&mut s);
        of(&s)
    };
    let others_are_down = |s: &mut Snapshot| s.members[1..].iter_mut().for_each(|m| m.reading.role = Role::Stopped);
    assert_eq!(with(&others_are_down), "True PrimariesServe");
    assert_eq!(with(&|s| s.group.paused = true), "True PrimariesServe", "clients go on");
    assert_eq!(with(&|s| s.members[0].pod.as_mut().unwrap().ready = false), "False PodsNotReady");
    assert_eq!(with(&|s| s.members[0].pod.as_mut().unwrap().routed = None), "False PodsNotReady");
    assert_eq!(with(&|s| s.members[0].reading.role = Role::Stopped), "False NoPrimary");
    assert_eq!(with(&|s| s.members[0].reading.role = Role::Unknown), "Unknown RolesUnknown");
    let all_stop = |s: &mut Snapshot| {
        s.group.replicas = 0;
        s.members.iter_mut().for_each(|m| m.reading.role = Role::Stopped);
    };
    assert_eq!(with(&all_stop), "False Stopped");
    let paused = |s: &mut Snapshot| {
        s.group.paused = true;
        s.members.iter_mut().for_each(|m| m.reading.role = Role::Unknown);
    };
    assert_eq!(with(&paused), "Unknown Paused", "nobody is asked");
    let never_starts = |s: &mut Snapshot| {
        for member in &mut s.members {
            member.reading.role = Role::Unknown;
            member.pod.as_mut().unwrap().containers.values_mut().for_each(|container| container.running = false);
        }
    };
    assert_eq!(with(&never_starts), "False NoPrimary");
    // On the way to 0 somebody may serve still.
    assert_eq!(with(&|s| s.group.replicas = 0), "True PrimariesServe");
}

#[test]
fn of_members_that_agree_it_says_how_many_are_healthy() {
    let well = agreeing(3).observe();
    assert_eq!(
        available(&well),
        ("True QuorumHealthy".into(), "3 of 3 primaries serve, 3 of 3 voters are healthy".into())
    );
    let mut weak = well.clone();
    ill(&mut weak, 2);
    assert_eq!(
        available(&weak),
        ("True QuorumAvailable".into(), "3 of 3 primaries serve, 2 of 3 voters are healthy".into())
    );
    ill(&mut weak, 1);
    let (reason, message) = available(&weak);
    assert_eq!(reason, "Unknown QuorumLost");
    assert!(message.ends_with("only 1 of 3 voters are known to be healthy"), "{message}");
    // The others are asked at this moment.
    let mut asked = well.clone();
    asked.lists.retain(|member, _| member.as_str() == "db-0");
    assert_eq!(of(&asked), "True PrimariesServe");
    // Two of three are down; the third one notices, and waits.
    let mut lost = well.clone();
    for (member, role) in lost.members.iter_mut().zip([Role::Starting, Role::Stopped, Role::Stopped]) {
        (member.reading.role, member.reading.since) = (role, lost.now);
    }
    lost.lists.clear();
    let (reason, message) = available(&lost);
    assert_eq!(reason, "False QuorumLost");
    assert!(message.ends_with("0 of 3 voters are in a role, and 2 have to agree"), "{message}");
    lost.members[0].pod.as_mut().unwrap().phase = Phase::Unreachable;
    assert_eq!(of(&lost), "Unknown RolesUnknown", "its node is silent");
    // One of them is to lead, and nobody does at the moment.
    let mut vacant = agreeing(1).observe();
    vacant.members[0].reading.role = Role::Stopped;
    vacant.lists.clear();
    assert_eq!(of(&vacant), "False NoPrimary");
}
