//! Report: writes to the status what was observed and why nothing more is done. The status is written only when it has changed.
use crate::act::Error;
use crate::cluster::{self, Object, Write};
use crate::context::Context;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tanist_api::{ReplicaGroup, ReplicaGroupStatus, status as api};
use tanist_core::contract::{Phase, Role};
use tanist_core::plan::{DecidedBy, Decision, Plan, Standing};
use tanist_core::record::Record;
use tanist_core::snapshot::{Amount, Snapshot};
use tanist_core::status::{self, Failed, Finding, Kind, PolicyHealth, Report, Trouble, Truth};

/// The status without the record and the times.
pub struct Derived {
    report: Report,
    policies: Vec<api::PolicyStatus>,
    now: i64,
    phases: Vec<(bool, bool)>,
    replicas: u32,
    desired: u32,
    selector: String,
    volumes: BTreeMap<String, api::VolumeStatus>,
}

impl Derived {
    /// The conditions that the status is to show, without their times.
    #[must_use]
    pub fn conditions(&self) -> &[status::Condition] {
        &self.report.conditions
    }
}

/// The group's policies, as the status shows them.
#[derive(Debug, Clone, Copy)]
pub struct Policies<'a> {
    /// Whether all are loaded, for the conditions.
    pub health: &'a PolicyHealth,
    /// Each of them, in the order in which they are asked.
    pub status: &'a [api::PolicyStatus],
}

/// Computes the status. `errors`: why actions were not done.
#[must_use]
pub fn derive(snapshot: &Snapshot, plan: &Plan, policies: Policies<'_>, errors: &[Error]) -> Derived {
    let mut report = status::report(snapshot, plan, policies.health, trouble(errors).as_ref());
    if let Some(error) = errors.iter().find(|error| error.reason() == Failed::TemplateRejected) {
        report.conditions.push(status::Condition {
            kind: Kind::TemplateRejected,
            status: Truth::True,
            reason: Finding::RefusedByTheApiServer.into(),
            message: error.to_string(),
        });
    }
    let pods = snapshot.members.iter().map(|m| m.pod.as_ref());
    Derived {
        report,
        policies: policies.status.to_vec(),
        now: snapshot.now,
        phases: pods.map(|p| p.map_or((false, false), |p| (p.ready, p.routed.is_some()))).collect(),
        replicas: u32::try_from(snapshot.members.iter().filter(|m| m.pod.is_some()).count()).unwrap_or(u32::MAX),
        desired: snapshot.group.replicas,
        selector: format!("{}={}", tanist_api::LABEL_GROUP, snapshot.group.name),
        volumes: volumes(snapshot),
    }
}

/// For each template of claims the most that is requested, and the least that there is.
fn volumes(snapshot: &Snapshot) -> BTreeMap<String, api::VolumeStatus> {
    let mut found: BTreeMap<String, (&Amount, &Amount)> = BTreeMap::new();
    for room in snapshot.members.iter().flat_map(|m| &m.claims).filter_map(|claim| claim.room.as_ref()) {
        let (most, least) = found.entry(room.volume.clone()).or_insert((&room.requested, &room.capacity));
        *most = if room.requested.bytes > most.bytes { &room.requested } else { most };
        *least = if room.capacity.bytes < least.bytes { &room.capacity } else { least };
    }
    let text = |amount: &Amount| amount.text.clone();
    let status = |(most, least)| api::VolumeStatus { requested: text(most), capacity: text(least) };
    found.into_iter().map(|(name, amounts)| (name, status(amounts))).collect()
}

/// Merges all errors: the first gives the reason, and each its sentence. That somebody else changed an object first is no trouble: the next round, a tenth of a second
/// later, sees that change.
fn trouble(errors: &[Error]) -> Option<Trouble> {
    let errors = || errors.iter().filter(|error| error.reason() != Failed::Outdated);
    let reason = errors().next()?.reason();
    let texts: BTreeSet<String> = errors().map(ToString::to_string).collect();
    Some(Trouble { reason, message: texts.into_iter().collect::<Vec<_>>().join("; ") })
}

/// Writes record and status against the resource version that was read. An unchanged status is not written.
///
/// # Errors
/// [`Error::Outdated`] when the group was changed in between.
pub async fn write(
    ctx: &Context,
    object: &Arc<ReplicaGroup>,
    plan: &Plan,
    derived: &Derived,
) -> Result<Arc<ReplicaGroup>, Error> {
    let old = object.status.clone().unwrap_or_default();
    let written = write_status(ctx, object, build(object, plan, derived, &old)).await?;
    let uid = written.uid().unwrap_or_default();
    ctx.hints.with_group(&uid, |hints| hints.readings.wrote_record(written.record()));
    Ok(written)
}

async fn write_status(
    ctx: &Context,
    object: &Arc<ReplicaGroup>,
    status: ReplicaGroupStatus,
) -> Result<Arc<ReplicaGroup>, Error> {
    if object.status.as_ref() == Some(&status) {
        return Ok(object.clone());
    }
    let mut desired = ReplicaGroup::clone(object);
    desired.status = Some(status);
    desired.metadata.managed_fields = None;
    let write = ctx.cluster.write(Write::Status(Box::new(desired)));
    match tokio::time::timeout(Duration::from_secs(20), write).await {
        Ok(Ok(Some(Object::Group(written)))) => Ok(written),
        Ok(Err(error)) if matches!(error.code(), Some(404 | 409)) => Err(Error::Outdated),
        Ok(Err(error)) => Err(Error::Write("write the status".into(), error)),
        Ok(Ok(_)) => {
            Err(Error::Write("write the status".into(), cluster::Error::Unreachable("the answer is no group".into())))
        }
        Err(_) => Err(Error::Silent("write the status".into())),
    }
}

fn build(object: &ReplicaGroup, plan: &Plan, derived: &Derived, old: &ReplicaGroupStatus) -> ReplicaGroupStatus {
    let generation = object.metadata.generation;
    let rows = derived.report.members.iter().zip(&derived.phases);
    ReplicaGroupStatus {
        observed_generation: generation,
        conditions: conditions(&derived.report.conditions, &old.conditions, generation, derived.now),
        replicas: derived.replicas,
        selector: Some(derived.selector.clone()),
        ready_replicas: derived.report.settled,
        updated_replicas: derived.report.updated,
        primaries: derived.report.primaries.iter().map(ToString::to_string).collect(),
        columns: columns(derived),
        members: rows.map(|(row, (ready, routed))| member(row, *ready, *routed)).collect(),
        update: Some(api::UpdateStatus {
            phase: derived.report.update.0.as_str().to_owned(),
            canary: derived.report.update.1.as_ref().map(ToString::to_string),
        }),
        volumes: derived.volumes.clone(),
        policies: derived.policies.clone(),
        awaiting: plan.waits.iter().take(16).map(awaited).collect(),
        decisions: decisions(plan, old),
        lost_primary: plan.record.lost_primary.as_ref().map(|lost| api::LostPrimary {
            member: lost.member.to_string(),
            node: lost.node.clone(),
            zone: lost.zone.clone(),
        }),
        version: plan.record.version.clone(),
        record: serde_json::to_value(Record { lost_primary: None, ..plan.record.clone() }).ok(),
    }
}

fn columns(derived: &Derived) -> api::Columns {
    api::Columns {
        primaries: join(derived.report.primaries.iter().map(ToString::to_string)),
        members: Some(format!("{}/{}", derived.report.settled, derived.desired)),
        policies: join(derived.policies.iter().map(|p| p.name.clone().unwrap_or_else(|| p.source.clone()))),
    }
}

/// The word of the API for the state of a pod.
fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Missing => "Missing",
        Phase::Pending => "Pending",
        Phase::Running => "Running",
        Phase::Terminating => "Terminating",
        Phase::Ended => "Ended",
        Phase::Unreachable => "Unreachable",
    }
}

/// The word of the API for what the application says.
fn role_word(role: Role) -> &'static str {
    match role {
        Role::Unknown => "Unknown",
        Role::Stopped => "Stopped",
        Role::Starting => "Starting",
        Role::Secondary => "Secondary",
        Role::Primary => "Primary",
        Role::Failed => "Failed",
    }
}

/// The word of the API for what the application's list says.
fn membership_word(membership: status::Membership) -> &'static str {
    match membership {
        status::Membership::Voter => "Voter",
        status::Membership::Learner => "Learner",
        status::Membership::Added => "Added",
        status::Membership::NotListed => "NotListed",
    }
}

fn join(words: impl Iterator<Item = String>) -> Option<String> {
    let words: Vec<_> = words.collect();
    (!words.is_empty()).then(|| words.join(","))
}

fn member(row: &status::Row, ready: bool, routed: bool) -> api::MemberStatus {
    api::MemberStatus {
        name: row.name.to_string(),
        ordinal: row.ordinal,
        phase: phase_word(row.phase).to_owned(),
        role: role_word(row.role).to_owned(),
        role_detail: row.detail.clone(),
        sequence: row.sequence.as_ref().map(ToString::to_string),
        term: row.term,
        pod_uid: row.pod_uid.clone(),
        node: row.node.clone(),
        revision: row.revision,
        ready,
        routed,
        membership: row.membership.map(|m| membership_word(m).to_owned()),
        waits_for: row.waits_for.clone(),
        failures: row.failures,
    }
}

fn awaited(wait: &tanist_core::plan::Wait) -> api::Awaited {
    api::Awaited {
        reason: wait.reason.as_str().to_owned(),
        message: wait.message.chars().take(512).collect(),
        member: wait.member.as_ref().map(ToString::to_string),
    }
}

/// Notes of a decision in the status, so that a policy that notes much does not fill it.
const NOTES: usize = 8;

/// Members of a decision in the status. With all of a group of hundreds the status could grow beyond what the API server stores, and then nothing could be recorded any more.
const CONSIDERED: usize = 64;

/// The members of a decision that are shown, the chosen one among them, and how many are not.
fn shown(decision: &Decision) -> (Vec<api::Considered>, usize) {
    let is_chosen =
        |at: usize| decision.candidates.get(at).is_some_and(|c| decision.chosen.as_ref() == Some(&c.member));
    let chosen = (CONSIDERED..decision.candidates.len()).find(|at| is_chosen(*at));
    let room = if chosen.is_some() { CONSIDERED - 1 } else { CONSIDERED };
    let first = decision.candidates.iter().take(room).chain(chosen.and_then(|at| decision.candidates.get(at)));
    let members: Vec<_> = first.map(considered).collect();
    let left = decision.candidates.len() - members.len();
    (members, left)
}

/// The latest answer to each question, in the order of the points.
fn decisions(plan: &Plan, old: &ReplicaGroupStatus) -> Vec<api::Decision> {
    let mut latest = old.decisions.clone();
    for new in &plan.decisions {
        let new = decision(new, old);
        latest.retain(|d| d.point != new.point);
        latest.push(new);
    }
    latest.sort_by_key(|d| d.point);
    latest
}

/// Converts a decision. One that only repeats the last one has the time of the last one, so that it causes no write.
fn decision(decision: &Decision, old: &ReplicaGroupStatus) -> api::Decision {
    let (members, left) = shown(decision);
    let more = (left > 0).then(|| format!("{left} more members were considered"));
    let mut new = api::Decision {
        at: time(decision.at),
        point: decision.point,
        policy: match &decision.by {
            DecidedBy::NoCandidate => None,
            by => Some(by.to_string()),
        },
        term: decision.term,
        chosen: decision.chosen.as_ref().map(ToString::to_string),
        reason: decision.reason.clone(),
        members,
        notes: decision.notes.iter().take(NOTES).cloned().chain(more).collect(),
    };
    if let Some(old) = old.decisions.iter().find(|d| d.point == new.point) {
        // A note may differ each time, for instance if it tells the time.
        let same = api::Decision { at: new.at.clone(), notes: new.notes.clone(), ..old.clone() } == new;
        if same || (new.chosen.is_none() && old.chosen.is_none() && old.point == new.point) {
            (new.at, new.notes) = (old.at.clone(), old.notes.clone());
        }
    }
    new
}

fn considered(considered: &tanist_core::plan::Considered) -> api::Considered {
    api::Considered {
        member: considered.member.to_string(),
        result: match considered.result {
            Standing::Chosen => api::Standing::Chosen,
            Standing::Fallback => api::Standing::Fallback,
            Standing::PassedOver => api::Standing::PassedOver,
            Standing::Barred => api::Standing::Barred,
        },
        reason: considered.reason.clone(),
        sequence: considered.sequence.as_ref().map(ToString::to_string),
    }
}

fn time(seconds: i64) -> Time {
    Time(jiff::Timestamp::from_second(seconds).unwrap_or_default())
}

fn conditions(new: &[status::Condition], old: &[Condition], generation: Option<i64>, now: i64) -> Vec<Condition> {
    let one = |c: &status::Condition| {
        let status = c.status.as_str();
        let since = old
            .iter()
            .find(|o| o.type_ == c.kind.as_str() && o.status == status)
            .map(|o| o.last_transition_time.clone());
        Condition {
            type_: c.kind.as_str().to_owned(),
            status: status.to_owned(),
            reason: c.reason.as_str().to_owned(),
            message: c.message.clone(),
            observed_generation: generation,
            last_transition_time: since.unwrap_or_else(|| time(now)),
        }
    };
    new.iter().map(one).collect()
}

/// Reports that the group could not be observed: every condition that depends on that is Unknown. The record stays as it is.
///
/// # Errors
/// As [`write`].
pub async fn unobserved(
    ctx: &Context,
    object: &ReplicaGroup,
    reason: Failed,
    message: &str,
    health: &PolicyHealth,
) -> Result<(), Error> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let read = ctx.cluster.get::<ReplicaGroup>(&namespace, &name);
    let Ok(Ok(Some(live))) = tokio::time::timeout(Duration::from_secs(20), read).await else { return Ok(()) };
    let old = live.status.clone().unwrap_or_default();
    let trouble = Trouble { reason, message: message.to_owned() };
    let said = status::unobserved(&trouble, health);
    ctx.count.conditions(object, &said);
    let generation = live.metadata.generation;
    let conditions = conditions(&said, &old.conditions, generation, ctx.clock.now());
    write_status(ctx, &live, ReplicaGroupStatus { observed_generation: generation, conditions, ..old }).await.map(drop)
}

#[cfg(test)]
mod tests;
