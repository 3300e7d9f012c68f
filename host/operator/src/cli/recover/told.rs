//! Says what a recovery means: what is known of each member, what will be lost, and why the operator would refuse it. Without I/O.
use super::Recover;
use crate::cli::find::recorded;
use crate::cli::me;
use crate::cli::output::printable;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;
use tanist_api::explain::command;
use tanist_api::status::MemberStatus;
use tanist_api::view::{View, is};
use tanist_api::{ANNOTATION_RECOVER, ReplicaGroup};
use tanist_core::contract::{MemberName, Position};
use tanist_core::data::{compare, show_position};
use tanist_core::memory::claim_uids;
use tanist_core::record::{Record, Verb};
use tanist_core::snapshot::Claim;

/// The claims of members, by member, each in the order of their names.
pub type Claims = BTreeMap<String, Vec<Claim>>;

/// What was found out beside the group's object.
#[derive(Debug, Clone)]
pub struct Known {
    /// What each member holds. A member that could not be asked is unknown, with the reason.
    pub positions: BTreeMap<String, Position>,
    /// The members' claims.
    pub claims: Claims,
    /// When the administrator asks.
    pub now: Timestamp,
}

/// A recovery and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What is going to happen.
    head: String,
    /// What is known of each member, by ordinal.
    members: Vec<String>,
    /// What will be lost.
    losses: Vec<String>,
    /// What delays it, and other facts for the administrator.
    notes: Vec<String>,
    /// Why the operator would refuse it. If there is a reason, nothing is written.
    pub refusals: Vec<String>,
    /// The annotation's value, in the form that the operator reads.
    pub annotation: String,
}

/// Says what it means that the named member goes on alone.
///
/// # Errors
/// When nothing can be said at all: no operator has looked at the group, its record cannot be read, or there is no such member.
pub fn tell(group: &ReplicaGroup, asked: &Recover, known: &Known) -> Result<Told, String> {
    let view = View::new(group);
    let name = &asked.from;
    let record = recorded(&view, name)?;
    let (cluster, list) =
        record.membership.as_ref().map_or((String::new(), 0), |list| (list.cluster.clone(), list.revision));
    let mut request = json!({
        "member": name, "group": group.uid().unwrap_or_default(), "claim": uids(known, name).unwrap_or_default(),
        "cluster": cluster, "list": list, "asked": known.now.to_string(),
    });
    if let Some(request) = request.as_object_mut().filter(|_| asked.claim.is_some()) {
        request.insert("restored".into(), true.into());
    }
    let voters = record.membership.as_ref().map_or(0, tanist_core::record::Membership::voters);
    let of =
        if voters > 0 { format!(" of {voters} voters (list {list} of the cluster {cluster})") } else { String::new() };
    Ok(Told {
        head: format!("{}: {name} is to go on alone{of}, with the data that it has.", view.name()),
        members: view.members().iter().map(|member| about(&record, member, known)).collect(),
        losses: losses(&view, asked, known),
        notes: notes(&view, &record, asked),
        refusals: refusals(&view, &record, asked, known),
        annotation: request.to_string(),
    })
}

fn uids(known: &Known, member: &str) -> Option<String> {
    claim_uids(known.claims.get(member)?)
}

/// A sentence about a member: whether it runs, what it holds, and whether its volume is there.
fn about(record: &Record, member: &MemberStatus, known: &Known) -> String {
    let name = &member.name;
    let remembered = record.members.get(&MemberName::from(name.as_str()));
    let runs = match member.phase.to_ascii_lowercase().as_str() {
        "running" if is(&member.role, "stopped") => "it is stopped".to_owned(),
        "running" => format!("it runs, its role is {}", member.role.to_ascii_lowercase()),
        "unreachable" => "its node does not report, so it may run".to_owned(),
        phase => format!("its pod is {phase}"),
    };
    let last =
        remembered.and_then(|m| m.sequence.as_ref()).map(|last| format!("; when it was last read it held {last}"));
    let holds = match known.positions.get(name).unwrap_or(&Position::NotAsked) {
        position @ Position::Known(_) => format!("it holds {}", show_position(position)),
        Position::Empty => "it holds no data".to_owned(),
        Position::Unknown(why) => format!("what it holds is not known ({why}){}", last.unwrap_or_default()),
        Position::NotAsked => format!("what it holds is not known{}", last.unwrap_or_default()),
    };
    format!("{name}: {runs}; {holds}; {}.", volume(record, name, known))
}

/// Whether the member has the volume on which it was started.
fn volume(record: &Record, name: &str, known: &Known) -> String {
    let before = record.members.get(&MemberName::from(name)).and_then(|m| m.claim_uid.clone());
    let names: Vec<_> = known.claims.get(name).into_iter().flatten().map(|c| c.name.as_str()).collect();
    let (now, names) = (uids(known, name), names.join(", "));
    match (before, now) {
        (None, None) => "it has no claim".to_owned(),
        (None, Some(_)) => format!("on which volume it was started is not known (now: {names})"),
        (Some(_), None) => "its claim is gone, and its volume is lost".to_owned(),
        (Some(before), Some(now)) if before == now => {
            format!("its volume is the one on which it was started ({names})")
        }
        (Some(_), Some(_)) => format!("its volume is another one ({names}); the one on which it was started is lost"),
    }
}

fn losses(view: &View<'_>, asked: &Recover, known: &Known) -> Vec<String> {
    let name = &asked.from;
    let mut all = vec![format!(
        "Lost is all that {name} does not have. Nobody can say more precisely what that is: the others may have agreed on writes that {name} never received."
    )];
    let own = known.positions.get(name);
    let others: Vec<&str> = view.members().iter().map(|m| m.name.as_str()).filter(|other| other != name).collect();
    for other in &others {
        if let (Some(Position::Known(own)), Some(Position::Known(its))) = (own, known.positions.get(*other)) {
            match compare((0, own), (0, its)) {
                Some(Ordering::Less) => all.push(format!(
                    "{other} holds {its}, which is {} ahead of {name}: that is lost.",
                    its.number.saturating_sub(own.number)
                )),
                None => all.push(format!("{other} holds {its}, which cannot be compared with {own}: that is lost.")),
                Some(_) => {}
            }
        }
    }
    if !others.is_empty() {
        let claims: Vec<_> =
            others.iter().filter_map(|other| known.claims.get(*other)).flatten().map(|c| c.name.as_str()).collect();
        let stay =
            if claims.is_empty() { String::new() } else { format!(" Their claims stay: {}.", claims.join(", ")) };
        all.push(format!(
            "{} lose their identities and never come back as who they were.{stay} One with data keeps its member out until you delete it (docs/runbook.md, KeptData): save first what you may need.",
            others.join(", ")
        ));
    }
    all
}

/// Why the operator would refuse the request, or has nothing to do.
fn refusals(view: &View<'_>, record: &Record, asked: &Recover, known: &Known) -> Vec<String> {
    let (mut all, name) = (Vec::new(), &asked.from);
    let commands = &view.group.spec.commands;
    if commands.recover.is_none() {
        all.push("spec.commands.recover is not there: only the means of the application itself can help".into());
    }
    if view.replicas() == 0 {
        all.push("spec.replicas is 0, so no member is started".into());
    }
    let apart = ["SplitBrain", "ListsDiffer"].into_iter().any(|reason| view.wait(reason).is_some());
    let serves = view.members().iter().filter(|m| is(&m.role, "primary") || is(&m.role, "secondary"));
    let serving: Vec<_> = serves.filter(|_| !apart).map(|m| m.name.as_str()).collect();
    if !serving.is_empty() {
        all.push(format!("members serve ({}), so there is nothing to recover", serving.join(", ")));
    }
    if let Some(intent) = record.intents.iter().find(|intent| intent.verb == Verb::Recover) {
        all.push(format!("{}; wait for its end", command(intent, known.now)));
    }
    all.extend(wrong_claim(record, asked, known));
    if known.positions.get(name) == Some(&Position::Empty) {
        all.push(format!("{name} holds no data, so there is nothing to go on with"));
    }
    let formed = record.membership.is_some() || record.ever_seeded.as_ref().is_some_and(|seeded| seeded.confirmed);
    if !formed && asked.claim.is_none() {
        all.push("the application's cluster was never formed, as far as the group remembers; after a restore name the claim: --claim".into());
    }
    all
}

/// Why the member's claim is not one with which it can go on.
fn wrong_claim(record: &Record, asked: &Recover, known: &Known) -> Option<String> {
    let name = &asked.from;
    let Some(now) = uids(known, name) else { return Some(format!("{name} has no claim")) };
    let before = record.members.get(&MemberName::from(name.as_str())).and_then(|m| m.claim_uid.clone());
    match &asked.claim {
        Some(claim) => (*claim != now).then(|| format!("the claim of {name} has the UID {now}, and not {claim}")),
        None if before.as_ref() == Some(&now) => None,
        None => Some(format!(
            "{name} does not have the claim on which it was started; if you restored it and mean to go on with it: --claim {now:?}"
        )),
    }
}

/// What has to happen before the operator does it, and other facts for the administrator.
fn notes(view: &View<'_>, record: &Record, asked: &Recover) -> Vec<String> {
    let mut all = Vec::new();
    if view.group.spec.paused {
        all.push(format!("the group is paused: nothing happens until {} resume {}", me(), view.short_name()));
    }
    let known = record.recovery.as_ref();
    if let Some(old) = view.group.annotations().get(ANNOTATION_RECOVER)
        && known.is_none_or(|known| known.request != *old || known.is_begun())
    {
        all.push(format!("a request that is not done yet is replaced: {old}"));
    }
    for member in view.members().iter().filter(|m| !is(&m.phase, "missing")) {
        let name = &member.name;
        match member.phase.to_ascii_lowercase().as_str() {
            "unreachable" => all.push(format!(
                "{name} is on a node that does not report; nothing is started until it is proven that it runs there no more (docs/runbook.md, MayBePrimary)"
            )),
            "running" if !is(&member.role, "stopped") => all.push(format!("{name} is stopped first")),
            _ => {}
        }
    }
    for last in record.ran().filter(|last| {
        view.member(last.member.as_str()).is_none_or(|m| m.pod_uid.as_deref() != Some(last.pod_uid.as_str()))
    }) {
        let text = format!("an earlier pod of {} has to be proven over first", last.member);
        if !all.contains(&text) {
            all.push(text);
        }
    }
    if asked.claim.is_some() {
        all.push(format!("{} goes on with a claim on which it was not started, because you name it", asked.from));
    }
    all
}

impl Told {
    /// Whether both agree in everything that was shown but the notes, which change all the time.
    pub fn is_same_as(&self, other: &Told) -> bool {
        let matters = |told: &Told| (told.annotation.clone(), told.members.clone(), told.losses.clone());
        matters(self) == matters(other) && self.refusals == other.refusals
    }

    /// The text that the administrator reads before confirming.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n\n", self.head);
        for line in &self.members {
            let _ = writeln!(out, "{}", printable(line));
        }
        out.push('\n');
        for line in &self.losses {
            let _ = writeln!(out, "{}", printable(line));
        }
        for note in &self.notes {
            let _ = writeln!(out, "Note: {}.", printable(note));
        }
        out
    }
}
