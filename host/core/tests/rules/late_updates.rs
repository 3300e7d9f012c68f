//! Updates beside new members: who waits for the template when all have it (E38), and what is said when a new member does not come (E35).
use super::super::support::policies::Natural;
use super::replace::arriving;
use super::zones::running;
use tanist_core::check;
use tanist_core::contract::{Phase, Role};
use tanist_core::decide::decide;
use tanist_core::plan::Reason;
use tanist_core::record::Updating;

// E38: when all have the template nobody is watched with it, so whoever is in a wrong zone would wait for ever.
#[test]
fn nobody_waits_to_move_for_a_template_that_all_have() {
    let mut s = running("b");
    (s.group.update.canary, s.group.update.template) = (60, "the template".into());
    assert_eq!(check::move_member(&s, &s.members[2]), Ok(()));
    let pod = s.members[1].pod.as_mut().unwrap();
    (pod.older_template, pod.outdated) = (true, true);
    assert!(check::move_member(&s, &s.members[2]).is_err(), "the others have it, and nobody was watched with it yet");
}

// E35: the last one with the older template is on its way out, so nobody else is next, and the new member in its place does not come.
#[test]
fn a_new_member_that_does_not_come_is_reported() {
    let mut s = arriving();
    for member in &mut s.members[..2] {
        let pod = member.pod.as_mut().unwrap();
        (pod.older_template, pod.outdated) = (false, false);
    }
    let new = &mut s.members[3];
    new.reading.role = Role::Unknown;
    let pod = new.pod.as_mut().unwrap();
    (pod.phase, pod.node) = (Phase::Pending, None);
    pod.containers.clear();
    let since = s.now - i64::from(s.group.update.timeout);
    s.record.updating = Some(Updating { left: 1, since });
    let plan = decide(&s, &Natural);
    let stuck = plan.waits.iter().find(|wait| wait.reason == Reason::UpdateStuck).map(|wait| wait.message.as_str());
    assert!(stuck.is_some_and(|why| why.contains("a new member comes in place of db-2")), "{:?}", plan.waits);
}
