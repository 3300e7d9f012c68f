//! Asks members what changes nothing: how recent their data is, and who the members are. No round waits for the answers; each starts the next round.
use crate::context::Context;
use crate::observe::{self, Observed};
use std::sync::Arc;
use tanist_core::contract::MemberName;
use tracing::Instrument;

/// Reads a sequence in the background.
pub(super) fn sequence(ctx: &Arc<Context>, observed: &Observed, member: &MemberName, pod_uid: &str) {
    let s = &observed.snapshot;
    let Some(found) = s.member(member) else { return };
    let Some(target) = observe::target(&s.group, found).filter(|t| t.uid == pod_uid) else { return };
    let first = ctx.hints.with_group(&s.group.uid, |h| h.readings.begin_reading(pod_uid));
    if !first {
        return;
    }
    let (ctx, group, member, object) = (ctx.clone(), s.group.clone(), found.clone(), observed.object.clone());
    let token = format!("sequence-{}-{}", member.ordinal, s.nonce);
    let led = !s.may_be_primary().is_empty();
    tokio::spawn(
        async move {
            observe::read_position(&ctx, &group, &member, target, token, led).await;
            ctx.wake(&object);
        }
        .in_current_span(),
    );
}

/// Asks a member for its list of members in the background.
pub(super) fn list(ctx: &Arc<Context>, observed: &Observed, member: &MemberName, pod_uid: &str) {
    let s = &observed.snapshot;
    let Some((found, commands)) = s.member(member).zip(s.group.commands.membership.as_ref()) else { return };
    let Some(target) = observe::target(&s.group, found).filter(|t| t.uid == pod_uid) else { return };
    let first = ctx.hints.with_group(&s.group.uid, |h| h.readings.begin_reading(pod_uid));
    if !first {
        return;
    }
    let (ctx, group, member, object) = (ctx.clone(), s.group.clone(), found.clone(), observed.object.clone());
    let (command, token) = (commands.list.clone(), format!("list-{}-{}", member.ordinal, s.nonce));
    tokio::spawn(
        async move {
            observe::read_list(&ctx, &group, &member, target, command, token).await;
            ctx.wake(&object);
        }
        .in_current_span(),
    );
}
