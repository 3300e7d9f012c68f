//! `tanist recover`: an administrator gives up a lost majority, and one member goes on alone (docs/rules.md, "Recovery"). What is known of each member and what will be lost is said
//! first; the annotation is written only if the group is still as it was shown.
mod told;

use super::find::find;
use super::output::{aside, note, print};
use super::overrides::read;
use super::trouble::failed;
use super::wait::{LOOK, look};
use super::{Session, kubectl, me};
use anyhow::{Context, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::io::{BufRead, IsTerminal};
use std::time::{Duration, Instant};
use tanist_api::validate::read_recovery;
use tanist_api::view::View;
use tanist_api::{ANNOTATION_RECOVER, LABEL_GROUP, ReplicaGroup, ReplicaGroupStatus};
use tanist_cluster::observe::convert;
use tanist_core::record::Stage;
use told::{Claims, Known, Told, tell};

/// How often a write is repeated when the group changed in between in a field that was not shown.
const TRIES: usize = 5;

/// The arguments of `tanist recover`.
#[derive(Debug, Clone, clap::Args)]
pub struct Recover {
    /// The name of the group, in the namespace of the command.
    pub group: String,
    /// The member that goes on alone, for instance db-1: all that it does not have is lost.
    #[arg(long, value_name = "MEMBER")]
    pub from: String,
    /// The UID of the member's claim, if it is another one than the one on which the member was started, for instance after a restore.
    #[arg(long, value_name = "UID")]
    pub claim: Option<String>,
    /// Do not ask for the member's name before it is done. Without a terminal nothing is done otherwise.
    #[arg(long, short)]
    pub yes: bool,
    /// How many seconds to wait for the end. The request stays in place afterwards.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub timeout: u64,
}

/// Says what is known and what will be lost, asks for the member's name, writes the request and waits for the end.
///
/// # Errors
/// Why it is refused, or what is still awaited after so many seconds.
pub async fn recover(session: &Session, asked: &Recover) -> anyhow::Result<()> {
    let stdin = std::io::stdin();
    recover_with(session, asked, || match stdin.is_terminal() {
        true => confirm(asked, Some(&mut stdin.lock())),
        false => confirm(asked, None),
    })
    .await
}

async fn recover_with(
    session: &Session,
    asked: &Recover,
    confirm: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let groups = session.groups();
    let group = find(&groups, &asked.group).await?;
    let known = Known {
        positions: read::positions(session, &group).await,
        claims: claims(session, &asked.group).await?,
        now: Timestamp::now(),
    };
    let told = tell(&group, asked, &known).map_err(anyhow::Error::msg)?;
    print(&told.text())?;
    ensure!(told.refusals.is_empty(), "nothing was written: {}", told.refusals.join("\n  also: "));
    // The operator must be able to read the annotation.
    read_recovery(&told.annotation).map_err(anyhow::Error::msg)?;
    confirm()?;
    let written = write(session, &groups, asked, &known, &told).await?;
    if written.spec.paused {
        return print(&format!("the request is written; nothing happens until: {} resume {}\n", me(), asked.group));
    }
    follow(&groups, asked, &told.annotation, written.status).await
}

/// The claims of the members, by member.
async fn claims(session: &Session, group: &str) -> anyhow::Result<Claims> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(session.client.clone(), &session.namespace);
    let labelled = ListParams::default().labels(&format!("{LABEL_GROUP}={group}"));
    let found = api.list(&labelled).await.map_err(|e| failed(&format!("list the claims of group {group}"), &e))?;
    let mut claims = Claims::new();
    for (member, claim) in
        found.items.iter().filter(|c| c.metadata.deletion_timestamp.is_none()).filter_map(|c| convert::claim(group, c))
    {
        claims.entry(member.to_string()).or_default().push(claim);
    }
    claims.values_mut().for_each(|claims| claims.sort_by(|a, b| a.name.cmp(&b.name)));
    Ok(claims)
}

/// Asks on the terminal for the name of the member.
fn confirm(asked: &Recover, terminal: Option<&mut dyn BufRead>) -> anyhow::Result<()> {
    if asked.yes {
        return Ok(());
    }
    let terminal =
        terminal.context("nothing was written: there is no terminal to ask on; to go on without being asked: --yes")?;
    aside("To go on, type the name of the member that goes on alone: ");
    let mut answer = String::new();
    terminal.read_line(&mut answer).context("failed to read the answer")?;
    ensure!(answer.trim() == asked.from, "nothing was written: it was not confirmed by the name {}", asked.from);
    Ok(())
}

/// Writes the annotation if the group is still as it was shown. Fields that change all the time, such as `awaiting`, may have changed.
async fn write(
    session: &Session,
    groups: &Api<ReplicaGroup>,
    asked: &Recover,
    known: &Known,
    shown: &Told,
) -> anyhow::Result<ReplicaGroup> {
    for _ in 0..TRIES {
        let group = find(groups, &asked.group).await?;
        // A member may have come back while the administrator was reading.
        let (claims, positions) = (claims(session, &asked.group).await?, read::positions(session, &group).await);
        let known = Known { claims, positions, now: known.now };
        let now = tell(&group, asked, &known).map_err(anyhow::Error::msg)?;
        ensure!(
            now.is_same_as(shown),
            "nothing was written: group {} has changed since it was shown; run the command again",
            asked.group
        );
        let patch = json!({"metadata": {
            "uid": group.metadata.uid,
            "resourceVersion": group.metadata.resource_version,
            "annotations": {ANNOTATION_RECOVER: shown.annotation},
        }});
        match groups.patch(&asked.group, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(written) => return Ok(written),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(failed(&format!("write the request to group {}", asked.group), &error)),
        }
    }
    bail!("nothing was written: group {} changes all the time; run the command again", asked.group)
}

/// The state of a request that was written.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// The member serves alone, in that term.
    Leads(u64),
    /// The operator waits for this.
    Waits(String),
    /// It will not be done.
    Refused(String),
}

fn progress(group: &ReplicaGroup, from: &str, annotation: &str, before: Option<&ReplicaGroupStatus>) -> Progress {
    let view = View::new(group);
    let wait = view.wait("RecoverPending").or_else(|| view.waits().first());
    let first = wait.map(|w| w.message.clone()).unwrap_or_default();
    let record = view.record().ok();
    let own = record.as_ref().and_then(|r| r.recovery.as_ref()).filter(|r| r.request == annotation);
    match own.map(|r| r.stage) {
        Some(Stage::Done) if view.primaries().contains(&from) => {
            return Progress::Leads(view.term().unwrap_or_default());
        }
        Some(Stage::Done) => return Progress::Waits(first),
        Some(Stage::Refused) => {
            let why = view.wait("RecoverInvalid").map(|w| w.message.clone());
            return Progress::Refused(format!(
                "the operator refuses it: {}",
                why.unwrap_or_else(|| "members serve".into())
            ));
        }
        Some(Stage::Accepted) | None => {}
    }
    if group.annotations().get(ANNOTATION_RECOVER).map(String::as_str) != Some(annotation) {
        return Progress::Refused("the request was replaced or removed by another user before it was done".into());
    }
    // A status from before the write says nothing about this request.
    if group.status.as_ref() == before {
        return Progress::Waits(String::new());
    }
    match view.wait("RecoverInvalid") {
        Some(wait) => Progress::Refused(format!("the operator refuses it: {}", wait.message)),
        None => Progress::Waits(first),
    }
}

/// Shows the progress until the member serves alone.
async fn follow(
    groups: &Api<ReplicaGroup>,
    asked: &Recover,
    annotation: &str,
    before: Option<ReplicaGroupStatus>,
) -> anyhow::Result<()> {
    let (began, name, from) = (Instant::now(), &asked.group, &asked.from);
    let space = groups.namespace().unwrap_or("default").to_owned();
    let removal = format!("{} annotate rg {name} -n {space} {ANNOTATION_RECOVER}-", kubectl());
    note("the request is written; waiting for the operator");
    let mut last = String::new();
    loop {
        if let Some(group) = look(groups, name).await? {
            match progress(&group, from, annotation, before.as_ref()) {
                Progress::Leads(term) => {
                    let seconds = began.elapsed().as_secs_f64();
                    print(&format!("{from} serves alone, in term {term}, after {seconds:.1} s\n"))?;
                    note(&format!("the others come back as new members; what keeps one out: {} explain {name}", me()));
                    note(&format!("to remove the annotation: {removal}"));
                    return Ok(());
                }
                Progress::Refused(why) => bail!("{why}; see: {} explain {name}", me()),
                Progress::Waits(why) if !why.is_empty() && why != last => {
                    note(&why);
                    last = why;
                }
                Progress::Waits(_) => {}
            }
        }
        if began.elapsed() >= Duration::from_secs(asked.timeout) {
            let awaited = if last.is_empty() { String::new() } else { format!(": {last}") };
            bail!(
                "{from} does not serve alone after {} s{awaited}; the request stays, see: {} explain {name}; to take it back before the command recover has begun: {removal}",
                asked.timeout,
                me()
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests;
