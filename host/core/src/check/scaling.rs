//! Who may be chosen where policies decide on the number of members (docs/rules.md, "Number of members"). What is done then has rules of its own: `membership`, `leave`.
use super::{Held, Rule, Violation, broken_by, can_take_command};
use crate::check;
use crate::contract::Role;
use crate::membership::{Agreed, Said, said};
use crate::over;
use crate::record::Verb;
use crate::snapshot::{Member, Snapshot};

/// The member comes or leaves when there are as many members as are asked for. `s` has the number that is asked for, `before` the one that counts.
///
/// # Errors
/// [`Rule::NotSurplus`]: it is one of the members before and after.
pub fn comes_or_leaves(s: &Snapshot, before: &Snapshot, member: &Member) -> Held {
    let is_there = !before.leaves(member);
    match is_there == s.leaves(member) {
        true => Ok(()),
        false => Err(broken_by(Rule::NotSurplus, &member.name, "it stays")),
    }
}

/// No command changes the members that the record does not have: it was begun before the status was removed, or replaced by an older one (D15).
pub(super) fn no_unrecorded_change(s: &Snapshot) -> Held {
    let changes = |m: &&Member| over::unrecorded(s, m).is_some_and(Verb::token_changes_members);
    match s.members.iter().find(changes) {
        Some(member) => {
            let name = &member.name;
            let message = format!(
                "a change of the members runs in {name}, and status.record does not have it (the status was removed or replaced?); its end is awaited"
            );
            Err(broken_by(Rule::ChangeOpen, name, message))
        }
        None => Ok(()),
    }
}

/// What is to be done with the member so that the members are those that are desired. `None`: nothing, or it is repaired. It says nothing about whether that may be done now.
///
/// `agreed`: the list on which the members of the application agree, if they do that.
#[must_use]
pub fn due_change(s: &Snapshot, agreed: Option<&Agreed>, member: &Member) -> Option<Verb> {
    if s.group.commands.membership.is_none() {
        let runs = member.pod.is_some() && s.role(member).0 != Role::Stopped;
        return (s.leaves(member) && runs).then_some(Verb::Remove);
    }
    match agreed?.list.entry(&s.group.name, &member.name) {
        Some(entry) => (s.leaves(member) && !entry.is_half_added()).then_some(Verb::MemberRemove),
        None => (!s.leaves(member) && s.reachable(member)).then_some(Verb::MemberAdd),
    }
}

/// The change that is due for the member may be made now.
///
/// # Errors
/// [`Rule::NotSurplus`] if none is due; otherwise the first rule that does not hold.
pub fn may_change(s: &Snapshot, member: &Member) -> Result<Verb, Violation> {
    let agreed = if let Said::Agreed(agreed) = said(s) { Some(agreed) } else { None };
    let name = &member.name;
    let Some(verb) = due_change(s, agreed.as_ref(), member) else {
        return Err(broken_by(Rule::NotSurplus, name, "nothing is to be changed about it"));
    };
    if verb == Verb::Remove {
        return check::remove_member(s, member).map(|()| verb);
    }
    let agreed = check::change_group(s)?;
    check::change_target(s, &agreed, verb, name)?;
    let executes = |m: &&Member| check::executes(s, &agreed, name, &m.name).is_ok() && can_take_command(s, m).is_ok();
    match s.members.iter().any(|m| executes(&m)) {
        true => Ok(verb),
        false => Err(broken_by(Rule::MemberBusy, name, "every member that could do it is busy")),
    }
}
