//! Grow: `spec.volumeClaimTemplates` asks for larger volumes than the claims of the members. Their requests are raised; the storage does the rest while the
//! application runs. A request is never lowered, and no pod is restarted for it. The `StatefulSet` goes on to make claims of its first size, because
//! its templates of claims cannot be changed: those of new members are raised as well.
use crate::limits;
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::record::cut;
use crate::snapshot::{Claim, Member, Room, Snapshot};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    for member in &s.members {
        for (claim, room) in member.claims.iter().filter_map(|claim| Some((claim, claim.room.as_ref()?))) {
            grow(s, plan, member, claim, room);
        }
    }
}

fn grow(s: &Snapshot, plan: &mut Plan, member: &Member, claim: &Claim, room: &Room) {
    if room.requested.bytes < room.desired.bytes {
        plan.actions.push(Action::GrowClaim {
            member: member.name.clone(),
            claim: claim.name.clone(),
            uid: claim.uid.clone(),
            version: claim.version.clone(),
            size: room.desired.text.clone(),
        });
    }
    if room.capacity.bytes >= room.desired.bytes {
        return;
    }
    let (name, of) = (&claim.name, &member.name);
    let note = room.note.as_ref().map(|note| format!(": {}", cut(note))).unwrap_or_default();
    let message = format!("the volume {name} of {of} has {} of {}{note}", room.capacity.text, room.desired.text);
    let reason = if room.is_refused { Reason::VolumeNotGrown } else { Reason::VolumesGrowing };
    // Nothing tells that the storage is done.
    plan.wait_until(reason, Some(of), message, Some(s.now.saturating_add(limits::VOLUME_AGAIN_SECONDS)));
}
