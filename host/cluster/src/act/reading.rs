//! Asks members what changes nothing: how recent their data is, who the members are, whether a changed template is well, and whether pods may be deleted for it. No round waits for the answers; each starts the next round.
use crate::context::Context;
use crate::member::Target;
use crate::observe::{self, Observed};
use std::sync::Arc;
use tanist_core::contract::MemberName;
use tanist_core::snapshot::{Member, Query};
use tanist_core::state;
use tracing::Instrument;

/// The member and how it is reached, if nothing else is being asked of it. From then on it counts as being asked.
fn begin(ctx: &Context, observed: &Observed, member: &MemberName, pod_uid: &str) -> Option<(Member, Target)> {
    let s = &observed.snapshot;
    let found = s.member(member)?;
    let target = observe::target(&s.group, found).filter(|t| t.uid == pod_uid)?;
    let first = ctx.hints.with_group(&s.group.uid, |h| h.readings.begin_reading(pod_uid));
    first.then(|| (found.clone(), target.with_env(ctx, state::environment(s))))
}

/// Reads a sequence in the background.
pub(super) fn sequence(ctx: &Arc<Context>, observed: &Observed, member: &MemberName, pod_uid: &str) {
    let s = &observed.snapshot;
    let Some((member, target)) = begin(ctx, observed, member, pod_uid) else { return };
    let (ctx, group, object) = (ctx.clone(), s.group.clone(), observed.object.clone());
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
    let Some(command) = s.group.commands.membership.as_ref().map(|commands| commands.list.clone()) else { return };
    let Some((member, target)) = begin(ctx, observed, member, pod_uid) else { return };
    let (ctx, group, object) = (ctx.clone(), s.group.clone(), observed.object.clone());
    let token = format!("list-{}-{}", member.ordinal, s.nonce);
    tokio::spawn(
        async move {
            observe::read_list(&ctx, &group, &member, target, command, token).await;
            ctx.wake(&object);
        }
        .in_current_span(),
    );
}

/// Asks a member in the background what is answered by yes or no.
pub(super) fn query(ctx: &Arc<Context>, observed: &Observed, query: Query, member: &MemberName, pod_uid: &str) {
    let s = &observed.snapshot;
    let Some(command) = s.group.commands.query(query).cloned() else { return };
    let Some((member, target)) = begin(ctx, observed, member, pod_uid) else { return };
    let (ctx, group, object) = (ctx.clone(), s.group.clone(), observed.object.clone());
    let token = format!("{}-{}-{}", query.word(), member.ordinal, s.nonce);
    tokio::spawn(
        async move {
            observe::read_answer(&ctx, &group, &member, (query, command), target, token).await;
            ctx.wake(&object);
        }
        .in_current_span(),
    );
}
