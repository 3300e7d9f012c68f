//! Whether a group can go from one kind of members to the other (`spec.members.kind`): no pod is lost on the way.
use crate::record::Record;
use crate::roster::Roster;
use crate::snapshot::{Group, Snapshot};
use std::collections::BTreeSet;

/// Whether a `StatefulSet` can have exactly the members of a group whose pods this operator makes: numbers from 0 up without a gap, and nobody comes or leaves.
///
/// # Errors
/// Why not, and what helps.
pub fn fits_set(group: &Group, record: &Record) -> Result<(), String> {
    if group.is_stopped() {
        return Err("the group is stopped: it moves when it has members".into());
    }
    let seats = Roster::new(group, None, record).own();
    let gapless: BTreeSet<u32> = (0..group.replicas).collect();
    if seats.numbers == gapless {
        return Ok(());
    }
    let names: Vec<String> = seats.numbers.iter().map(|number| format!("{}-{number}", group.name)).collect();
    Err(format!(
        "a StatefulSet of {} members has {} to {}, and the members are {}: members with other numbers have to leave first, or members.kind stays Pods",
        group.replicas,
        format_args!("{}-0", group.name),
        format_args!("{}-{}", group.name, group.replicas.saturating_sub(1)),
        names.join(", ")
    ))
}

/// Whether the pods of a group with a `StatefulSet` can become its own: nobody comes or leaves, and all objects are as desired.
///
/// # Errors
/// What is awaited.
pub fn can_leave_set(s: &Snapshot) -> Result<(), String> {
    if s.group.is_stopped() {
        return Err("the group is stopped: it moves when it has members".into());
    }
    let set = s.set.as_ref().ok_or("there is no StatefulSet yet")?;
    if s.roster().size() != s.group.replicas || set.replicas != s.group.replicas {
        return Err("members come or leave".into());
    }
    if let Some(object) = s.objects.iter().find(|object| !object.current) {
        return Err(format!("{} {} is being applied", object.kind, object.name));
    }
    is_rolled_forward(s)?;
    // A StatefulSet would give it its number again.
    super::claims::no_leader_left(s).map_err(|left| left.message)?;
    match set.unseen {
        true => Err("the controller of the StatefulSet has not seen it yet".into()),
        false => Ok(()),
    }
}

/// Whether pods are made from the present template, and not from the one before.
///
/// # Errors
/// What is awaited.
pub fn is_rolled_forward(s: &Snapshot) -> Result<(), String> {
    let update = &s.group.update;
    match s.record.fallback(update) {
        Some(_) if s.record.is_rolled_back(update) => {
            Err("pods went back to the template before; change the template".into())
        }
        Some(_) => Err("the template failed on its first member; change the template".into()),
        None => Ok(()),
    }
}
