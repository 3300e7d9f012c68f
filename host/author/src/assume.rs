//! What would have to happen in a group so that a question arises: a healthy group is asked nothing, and its author wants to know what a policy would answer.
//!
//! The change is the smallest one that an author would name, and it is said. Whether the question arises then is for the core to decide.

use tanist_core::{
    check,
    contract::{MemberName, Phase, Position, Role, Sequence},
    data, limits,
    policy::Point,
    record::{Canary, GroupSize},
    snapshot::{Member, Mode, Reading, Snapshot, Update},
};

/// A snapshot in which a question may arise, and what was assumed for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumed {
    /// The snapshot with the assumed change in it.
    pub snapshot: Snapshot,
    /// What was assumed, as a part of a sentence behind "if".
    pub what: String,
}

/// Assumes what a question needs.
///
/// # Errors
/// Why nothing simple leads to that question.
pub fn assume(snapshot: &Snapshot, point: Point) -> Result<Assumed, String> {
    let mut s = snapshot.clone();
    let mut what = match point {
        Point::Seed => all_stop(&mut s)?,
        Point::Failover => primaries_are_lost(&mut s)?,
        Point::Join => one_more_is_desired(&mut s)?,
        Point::Demote => one_fewer_is_desired(&mut s)?,
        Point::Place => one_secondary_stops(&mut s)?,
        Point::Treat => one_fails(&mut s)?,
        Point::Switchover => a_drain_begins(&mut s)?,
        Point::Rebalance => an_hour_passes(&mut s)?,
        Point::Update | Point::Judge => the_template_changes(&mut s, point)?,
        Point::Admit => one_more_is_asked_for(&mut s),
        Point::Order => one_fewer_stays(&mut s)?,
    };
    if s.group.paused {
        s.group.paused = false;
        what.push_str(", and the group were not paused");
    }
    Ok(Assumed { snapshot: s, what })
}

fn names(all: &[MemberName]) -> String {
    all.iter().map(MemberName::as_str).collect::<Vec<_>>().join(" and ")
}

fn with_role(s: &Snapshot, role: Role) -> Vec<MemberName> {
    s.members.iter().filter(|m| s.role(m).0 == role).map(|m| m.name.clone()).collect()
}

/// Every member of the group's term that is in its role has the most recent data that is known, because it follows a primary that has it.
fn catch_up(s: &mut Snapshot) {
    let has_role = |s: &Snapshot, m: &Member| s.confirmed(m, Role::Secondary) || s.serves(m);
    let current: Vec<_> = s.members.iter().filter(|m| has_role(s, m)).map(|m| m.name.clone()).collect();
    let of_mark = s.record.high_water.as_ref().filter(|mark| mark.term == s.record.term).map(|mark| &mark.sequence);
    let known = s.members.iter().filter(|m| current.contains(&m.name)).filter_map(|m| match &m.position {
        Position::Known(sequence) => Some(sequence),
        _ => None,
    });
    let higher = |best: Option<Sequence>, next: &Sequence| match best {
        Some(best) if data::compare((0, next), (0, &best)) != Some(std::cmp::Ordering::Greater) => Some(best),
        _ => Some(next.clone()),
    };
    let Some(newest) = of_mark.into_iter().chain(known).fold(None, higher) else { return };
    let now = s.now;
    for member in s.members.iter_mut().filter(|m| current.contains(&m.name)) {
        member.position = Position::Known(newest.clone());
        (member.position_at, member.position_stale) = (now, false);
    }
}

/// The member's application is stopped, in its pod.
fn stop(s: &mut Snapshot, name: &MemberName) {
    let now = s.now;
    let led = s.member(name).is_some_and(|m| s.role(m).0 == Role::Primary);
    let Some(member) = s.members.iter_mut().find(|m| &m.name == name) else { return };
    member.reading = Reading { role: Role::Stopped, since: now, processes: Some(0), ..Reading::default() };
    if let Some(pod) = &mut member.pod {
        (pod.ready, pod.gate) = (false, Some(false));
    }
    forget(s, name, led);
}

/// Nothing runs on the member any more, and no command is open on it.
fn forget(s: &mut Snapshot, name: &MemberName, led: bool) {
    let now = s.now;
    s.record.intents.retain(|intent| &intent.member != name);
    s.record.last_primaries.retain(|last| &last.member != name);
    if led {
        s.record.member_mut(name).last_primary = Some(now);
    }
}

fn all_stop(s: &mut Snapshot) -> Result<String, String> {
    catch_up(s);
    let running: Vec<_> = s.members.iter().filter(|m| m.pod.is_some()).map(|m| m.name.clone()).collect();
    if running.is_empty() {
        return Err("no member has a pod".to_owned());
    }
    running.iter().for_each(|name| stop(s, name));
    Ok("every member were stopped".to_owned())
}

fn primaries_are_lost(s: &mut Snapshot) -> Result<String, String> {
    let mut lost = with_role(s, Role::Primary);
    // Those that are not proven over are what the failover waits for.
    for last in &s.record.last_primaries {
        if !lost.contains(&last.member) {
            lost.push(last.member.clone());
        }
    }
    if with_role(s, Role::Secondary).is_empty() {
        return Err("no secondary runs that could take over".to_owned());
    }
    if lost.is_empty() {
        return Err("no primary serves that could be lost".to_owned());
    }
    catch_up(s);
    let now = s.now;
    for name in &lost {
        if let Some(member) = s.members.iter_mut().find(|m| &m.name == name) {
            (member.pod, member.position) = (None, Position::NotAsked);
            member.reading = Reading { since: now, ..Reading::default() };
        }
        forget(s, name, true);
    }
    Ok(format!("{} were lost, with its pod", names(&lost)))
}

fn one_more_is_desired(s: &mut Snapshot) -> Result<String, String> {
    let serving = s.serving().len();
    let free = s.members.iter().any(|m| s.reachable(m) && matches!(s.role(m).0, Role::Stopped | Role::Secondary));
    let count = |members: usize| u32::try_from(members).unwrap_or(u32::MAX);
    match serving {
        0 => Err("no primary serves that another one could join".to_owned()),
        _ if free => {
            s.group.primaries = count(serving.saturating_add(1));
            Ok(format!("{} primaries were desired", s.group.primaries))
        }
        1 => Err("no member is left that could become a primary".to_owned()),
        _ => {
            let Some(last) = s.serving().last().map(|m| m.name.clone()) else {
                return Err("no primary serves".to_owned());
            };
            catch_up(s);
            s.group.primaries = count(serving);
            stop(s, &last);
            Ok(format!("{last} were stopped"))
        }
    }
}

fn one_fewer_is_desired(s: &mut Snapshot) -> Result<String, String> {
    let fewer = s.serving().len().saturating_sub(1);
    if fewer == 0 {
        return Err("fewer than two primaries serve, so none is too many".to_owned());
    }
    s.group.primaries = u32::try_from(fewer).unwrap_or(u32::MAX);
    Ok(format!("{} were desired", if fewer == 1 { "one primary".to_owned() } else { format!("{fewer} primaries") }))
}

fn one_secondary_stops(s: &mut Snapshot) -> Result<String, String> {
    let Some(last) = with_role(s, Role::Secondary).pop() else { return Err("no secondary runs".to_owned()) };
    catch_up(s);
    stop(s, &last);
    Ok(format!("{last} were stopped"))
}

fn one_fails(s: &mut Snapshot) -> Result<String, String> {
    let reached = |role_is_primary: bool| {
        let all = s.members.iter().filter(|m| s.reachable(m) && (s.role(m).0 == Role::Primary) == role_is_primary);
        all.map(|m| m.name.clone()).next_back()
    };
    let Some(name) = reached(false).or_else(|| reached(true)) else {
        return Err("no member can be reached".to_owned());
    };
    let now = s.now;
    forget(s, &name, false);
    if let Some(member) = s.members.iter_mut().find(|m| m.name == name) {
        let detail = Some("its status says failed".to_owned());
        member.reading = Reading { role: Role::Failed, detail, since: now, ..Reading::default() };
        if let Some(pod) = &mut member.pod {
            (pod.ready, pod.phase) = (false, Phase::Running);
        }
    }
    Ok(format!("{name} were failed"))
}

/// The primary's node is to be drained: then it is asked in any case who is to lead instead.
fn a_drain_begins(s: &mut Snapshot) -> Result<String, String> {
    let Some(primary) = check::sole_primary(s) else {
        return Err("not exactly one primary serves of one that is desired".to_owned());
    };
    let (name, node) = (primary.name.clone(), primary.pod.as_ref().and_then(|pod| pod.node.clone()));
    let found = node.and_then(|node| s.nodes.as_mut()?.get_mut(&node));
    let Some(node) = found else { return Err(format!("the node of {name} is not known")) };
    node.cordoned = true;
    Ok(format!("the node of {name} were to be drained"))
}

/// Every pod has been Ready for so long that its member may be moved.
fn an_hour_passes(s: &mut Snapshot) -> Result<String, String> {
    if with_role(s, Role::Secondary).is_empty() {
        return Err("no secondary runs".to_owned());
    }
    let began = s.now.saturating_sub(limits::MOVE_SECONDS);
    s.members.iter_mut().filter_map(|m| m.pod.as_mut()).for_each(|pod| pod.phase_since = pod.phase_since.min(began));
    s.record.history.iter_mut().for_each(|past| past.at = past.at.min(began));
    Ok("every pod had been Ready for an hour".to_owned())
}

/// `spec.replicas` asks for one more member than policies let in.
fn one_more_is_asked_for(s: &mut Snapshot) -> String {
    let there = s.group.replicas;
    s.record.admitted = Some(GroupSize { replicas: there, primaries: s.group.primaries });
    s.group.requested.replicas = there.saturating_add(1);
    format!("{} members were asked for in place of {there}", s.group.requested.replicas)
}

/// The last member is not desired any more.
fn one_fewer_stays(s: &mut Snapshot) -> Result<String, String> {
    if s.group.commands.membership.is_some() {
        return Err(
            "which member is next depends on what the members say of each other; a case has no list of them".to_owned()
        );
    }
    if s.group.replicas < 2 {
        return Err("there is one member alone".to_owned());
    }
    let fewer = s.group.replicas.saturating_sub(1);
    s.group.primaries = s.group.primaries.min(fewer);
    s.group.replicas = fewer;
    s.group.requested = GroupSize { replicas: fewer, primaries: s.group.primaries };
    Ok(format!("{fewer} members were desired"))
}

/// `spec.template` changed, and nobody has it yet; or the last member has it, and is watched.
fn the_template_changes(s: &mut Snapshot, point: Point) -> Result<String, String> {
    let first = s.members.iter().filter(|m| !s.leaves(m)).max_by_key(|m| m.ordinal).filter(|_| point == Point::Judge);
    let first = first.map(|m| m.name.clone());
    let template = "changed".to_owned();
    for member in s.members.iter_mut().filter(|m| Some(&m.name) != first.as_ref()) {
        member.pod.iter_mut().for_each(|pod| (pod.outdated, pod.older_template) = (true, true));
    }
    s.group.update = Update { mode: Mode::ByOperator, template: template.clone(), ..s.group.update.clone() };
    let Some(name) = first else { return Ok("spec.template had changed".to_owned()) };
    let Some((member, pod)) = s.member(&name).and_then(|member| Some((member.clone(), member.pod.clone()?))) else {
        return Err(format!("{name} has no pod"));
    };
    if s.group.update.canary == 0 {
        s.group.update.canary = 300;
    }
    s.record.canary = Some(Canary {
        template,
        member: name.clone(),
        pod_uid: pod.uid.clone(),
        container: pod.containers.get(&s.group.commands.status.container).and_then(|container| container.id.clone()),
        begun: member.reading.since,
        since: Some(member.reading.since),
        unjudged: None,
        verdict: None,
    });
    Ok(format!("spec.template had changed, and {name} were watched with it"))
}
