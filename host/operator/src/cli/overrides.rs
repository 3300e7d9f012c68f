//! `tanist override`: an administrator chooses who leads against the order of data (docs/rules.md, "Override"). What would be lost is shown first;
//! the annotation is written only if the group is still as it was shown.
mod assess;
pub mod read;

use super::find::find;
use super::output::{aside, note, print};
use super::trouble::failed;
use super::wait::{self, LOOK, look, until_final};
use super::{Session, color, kubectl, me};
use anyhow::{Context, anyhow, bail, ensure};
use assess::{Assessment, Positions, assess};
use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::io::{BufRead, IsTerminal};
use std::time::Duration;
use tanist_api::validate::read_override;
use tanist_api::view::View;
use tanist_api::{ANNOTATION_OVERRIDE, ReplicaGroup, ReplicaGroupStatus};
use tanist_core::data::read_sequence;
use tokio::time::Instant;

/// How often a write is repeated when the group changed in between in a field that was not shown.
const TRIES: usize = 5;

/// The arguments of `tanist override`.
#[derive(Debug, Clone, clap::Args)]
pub struct Override {
    /// The name of the group, in the namespace of the command.
    pub group: String,
    /// The member that is to lead, for instance db-1.
    pub member: String,
    /// What the member's `sequence` command says: EMPTY or [HISTORY:]NUMBER. Without it the member is asked.
    #[arg(long)]
    pub sequence: Option<String>,
    /// Do not ask before it is done. Without a terminal nothing is done otherwise.
    #[arg(long, short)]
    pub yes: bool,
    /// How many seconds to wait for the end. The override stays in place afterwards.
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    pub timeout: u64,
}

/// Shows the consequences, asks for confirmation, writes the override and waits for the end.
///
/// # Errors
/// Why it is refused, or what is still awaited after so many seconds.
pub async fn choose(session: &Session, asked: &Override) -> anyhow::Result<()> {
    let stdin = std::io::stdin();
    override_with(session, asked, || match stdin.is_terminal() {
        true => confirm(asked.yes, Some(&mut stdin.lock())),
        false => confirm(asked.yes, None),
    })
    .await
}

async fn override_with(
    session: &Session,
    asked: &Override,
    confirm: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (groups, end) = (session.groups(), wait::end(asked.timeout));
    let group = find(&groups, &asked.group).await?;
    ensure!(
        !group.spec.commands.is_active_passive(),
        "{} is an active/passive group, whose members have no data to lose: set spec.preferredPrimary to say who is active",
        asked.group
    );
    let mut positions = read::positions(session, &group).await;
    if let Some(text) = &asked.sequence {
        let position = read_sequence(text.as_bytes())
            .map_err(|_| anyhow!("--sequence {text} is not understood; write EMPTY or [HISTORY:]NUMBER"))?;
        positions.insert(asked.member.clone(), position);
    }
    let assessed = until_final(&groups, &asked.group, end, |group| {
        let now = assess(group, &asked.member, &positions, Timestamp::now()).map_err(anyhow::Error::msg)?;
        let may_change = now.may_pass && !now.refusals.is_empty();
        Ok((now, may_change))
    })
    .await?;
    print(&assessed.text(color::is_on()))?;
    refuse(&assessed)?;
    confirm()?;
    let written = write(&groups, asked, &positions, &assessed).await?;
    if written.spec.paused {
        return print(&format!("the override is written; nothing happens until: {} resume {}\n", me(), asked.group));
    }
    follow(&groups, asked, &assessed.annotation, written.status).await
}

fn refuse(assessed: &Assessment) -> anyhow::Result<()> {
    ensure!(assessed.refusals.is_empty(), "nothing was written: {}", assessed.refusals.join("\n  also: "));
    // The operator must be able to read the annotation.
    read_override(&assessed.annotation).map(drop).map_err(anyhow::Error::msg)
}

/// Asks for confirmation on the terminal.
fn confirm(yes: bool, terminal: Option<&mut dyn BufRead>) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    let terminal =
        terminal.context("nothing was written: there is no terminal to ask on; to go on without being asked: --yes")?;
    aside("Continue? (y/N): ");
    let mut answer = String::new();
    terminal.read_line(&mut answer).context("failed to read the answer")?;
    ensure!(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"), "nothing was written: it was not confirmed");
    Ok(())
}

/// Writes the annotation if the group is still as it was shown. Fields that change all the time, such as `awaiting`, may have changed.
async fn write(
    groups: &Api<ReplicaGroup>,
    asked: &Override,
    positions: &Positions,
    shown: &Assessment,
) -> anyhow::Result<ReplicaGroup> {
    let end = wait::end(asked.timeout);
    for _ in 0..TRIES {
        let (group, is_same) = until_final(groups, &asked.group, end, |group| {
            let now = assess(group, &asked.member, positions, Timestamp::now()).map_err(anyhow::Error::msg)?;
            let is_same = now.is_same_as(shown);
            Ok(((group.clone(), is_same), !is_same && now.may_pass))
        })
        .await?;
        ensure!(
            is_same,
            "nothing was written: group {} has changed since it was shown; run the command again",
            asked.group
        );
        let patch = json!({"metadata": {
            "uid": group.metadata.uid,
            "resourceVersion": group.metadata.resource_version,
            "annotations": {ANNOTATION_OVERRIDE: shown.annotation},
        }});
        match groups.patch(&asked.group, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(written) => return Ok(written),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(failed(&format!("write the override of group {}", asked.group), &error)),
        }
    }
    bail!("nothing was written: group {} changes all the time; run the command again", asked.group)
}

/// The state of an override that was written.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// The member is primary, in that term.
    Leads(u64),
    /// The operator has used it, and waits for this.
    Used(String),
    /// The operator has not used it yet, for this reason.
    Waits(String),
    /// It will not be used.
    Refused(String),
}

fn progress(group: &ReplicaGroup, member: &str, annotation: &str, before: Option<&ReplicaGroupStatus>) -> Progress {
    let view = View::new(group);
    let first = view.waits().first().map(|w| w.message.clone()).unwrap_or_default();
    let used = view.record().ok().and_then(|r| r.used_override).as_deref() == Some(annotation);
    if used && view.primaries().contains(&member) {
        return Progress::Leads(view.term().unwrap_or_default());
    }
    if used {
        return Progress::Used(first);
    }
    let there = group.metadata.annotations.as_ref().and_then(|a| a.get(ANNOTATION_OVERRIDE));
    if there.map(String::as_str) != Some(annotation) {
        return Progress::Refused("the override was replaced or removed by another user before it was used".into());
    }
    // A status from before the write says nothing about this override.
    if group.status.as_ref() == before {
        return Progress::Waits(String::new());
    }
    match view.wait("OverrideInvalid") {
        Some(wait) => Progress::Refused(format!("the operator refuses the override: {}", wait.message)),
        None => Progress::Waits(first),
    }
}

/// Shows the progress until the member is primary.
async fn follow(
    groups: &Api<ReplicaGroup>,
    asked: &Override,
    annotation: &str,
    before: Option<ReplicaGroupStatus>,
) -> anyhow::Result<()> {
    let (began, name, member) = (Instant::now(), &asked.group, &asked.member);
    note("the override is written; waiting for the operator");
    let (mut last, mut used) = (String::new(), false);
    loop {
        if let Some(group) = look(groups, name).await? {
            let said = match progress(&group, member, annotation, before.as_ref()) {
                Progress::Leads(term) => {
                    let seconds = began.elapsed().as_secs_f64();
                    print(&format!("{member} leads, in term {term}, after {seconds:.1} s\n"))?;
                    note(&format!("to remove the annotation: {}", removal(name, space(groups))));
                    return Ok(());
                }
                Progress::Refused(why) => bail!("{why}; see: {} explain {name}", me()),
                Progress::Used(why) => {
                    if !std::mem::replace(&mut used, true) {
                        note(&format!("the operator has accepted it: {member} is being started as primary"));
                    }
                    why
                }
                Progress::Waits(why) => why,
            };
            if !said.is_empty() && said != last {
                note(&said);
                last = said;
            }
        }
        if began.elapsed() >= Duration::from_secs(asked.timeout) {
            bail!("{}", unfinished(used, asked, &last, space(groups)));
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn unfinished(used: bool, asked: &Override, last: &str, namespace: &str) -> String {
    let (name, member, seconds) = (&asked.group, &asked.member, asked.timeout);
    let awaited = if last.is_empty() { String::new() } else { format!(": {last}") };
    let explain = format!("{} explain {name}", me());
    if used {
        return format!("{member} was chosen and is not primary after {seconds} s{awaited}; see: {explain}");
    }
    format!(
        "the override is not used after {seconds} s{awaited}; it stays until it fits, see: {explain}; to take it back: {}",
        removal(name, namespace)
    )
}

/// The command that removes the annotation.
fn removal(name: &str, namespace: &str) -> String {
    format!("{} annotate rg {name} -n {namespace} {ANNOTATION_OVERRIDE}-", kubectl())
}

fn space(groups: &Api<ReplicaGroup>) -> &str {
    groups.namespace().unwrap_or("default")
}

#[cfg(test)]
#[path = "overrides/tests.rs"]
mod tests;
