//! The API server is away for a minute: its process is gone, or frozen with its connections open. No other test could run meanwhile, so these are
//! part of `make e2e-nodes`.
use crate::spread_as;
use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use std::time::{Duration, SystemTime};
use tanist_e2e::{Group, Inside, Outcome, Stage, condition, kubectl, machines, play, starts, term, text, until};
use tokio::time::Instant;

/// Longer than the operator tries to renew its Lease, and than a node may be silent.
const AWAY: Duration = Duration::from_secs(60);

/// Seconds until an operator leads again: a pause of 2 s between attempts of 10 s each, and the kubelet's pause before the restart.
const LEADS: u64 = 60;

/// From when the API server and every node with a member are back, and an operator leads, to the promotion: a round after an error. Nodes were seen to
/// be NotReady for up to 68 s after the API server was back; while one is, its members are not asked (S20).
const TAKEOVER: Duration = Duration::from_secs(30);

/// Seconds for that minute and what follows.
const WHOLE: u64 = 180;

// What `status` says by its exit code.
const SECONDARY: i32 = 0;
const STOPPED: i32 = 7;
const PRIMARY: i32 = 8;

/// How the API server is taken away.
#[derive(Clone, Copy)]
enum Outage {
    /// Connections are refused.
    Gone,
    /// Connections stay open, and nothing answers. What was sent meanwhile is read when it goes on.
    Frozen,
}

/// An API server that is away, until this value is dropped.
struct Away(Outage);

impl Away {
    fn begin(outage: Outage) -> Result<Self> {
        let verb = match outage {
            Outage::Gone => "stop",
            Outage::Frozen => "freeze",
        };
        let away = Away(outage);
        machines(&[verb, "control-plane", "kube-apiserver"])?;
        Ok(away)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let verb = match self.0 {
            Outage::Gone => "start",
            Outage::Frozen => "thaw",
        };
        let _ = machines(&[verb, "control-plane", "kube-apiserver"]);
    }
}

/// What must not change by an outage alone: the UID of each pod and how often its containers were restarted.
async fn pods(group: &Group) -> Result<Vec<(Option<String>, i32)>> {
    let mut found = Vec::new();
    for member in group.members(3) {
        let pod = member.pod().await?;
        let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        found.push((pod.uid(), containers.map(|c| c.restart_count).sum()));
    }
    Ok(found)
}

/// Since when, since 1970, every node with a member of the group has been Ready. Another node may still be late: nobody waits for it.
async fn nodes_ready_since(stage: &Stage, group: &Group) -> Result<Duration> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let mut last = Duration::ZERO;
    for member in group.members(3) {
        let name = member.pod().await?.spec.and_then(|spec| spec.node_name).context("a member without a node")?;
        let conditions = nodes.get(&name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        let ready = conditions.into_iter().find(|c| c.type_ == "Ready" && c.status == "True");
        let since = ready.and_then(|c| c.last_transition_time).with_context(|| format!("{name} is not Ready"))?;
        last = last.max(Duration::from_secs(since.0.as_second().try_into()?));
    }
    Ok(last)
}

async fn inside(group: &Group) -> Result<Vec<Inside>> {
    let members = group.members(3);
    futures::future::try_join_all(members.iter().map(|m| m.inside())).await
}

/// The exit code of `status` in each member, asked on its node.
fn roles(members: &[Inside]) -> Result<Vec<i32>> {
    members.iter().map(role).collect()
}

fn role(member: &Inside) -> Result<i32> {
    // containerd's client may end before it has copied what a short command printed. Asking again changes nothing.
    for _ in 0..5 {
        if let Ok(code) = member.run("register status; echo $?")?.parse() {
            return Ok(code);
        }
    }
    bail!("status printed nothing on member {}", member.ordinal)
}

/// Takes the API server away. Meanwhile the primary of `lost` dies, and `kept` takes a write.
async fn outage(outage: Outage, lost: &Group, kept: &Group) -> Result<()> {
    let (lost, kept) = (inside(lost).await?, inside(kept).await?);
    let away = Away::begin(outage)?;
    let end = Instant::now() + AWAY;
    let first = |members: &[Inside], script: &str| members.first().context("no member")?.run(script);
    first(&lost, "kill -9 $(cut -d' ' -f1 /run/register/server)")?;
    first(&kept, "register write 2")?;
    while Instant::now() < end {
        let roles = (roles(&lost)?, roles(&kept)?);
        ensure!(roles == (vec![STOPPED, SECONDARY, SECONDARY], vec![PRIMARY, SECONDARY, SECONDARY]), "{roles:?}");
    }
    drop(away);
    let answers = async || Ok(kubectl(&["get", "--raw", "/readyz", "--request-timeout=2s"]).is_ok());
    until("the API server", 60, answers).await
}

async fn a_minute_away(stage: &Stage, how: Outage) -> Result<()> {
    let (lost, kept) = (spread_as(stage, "register").await?, spread_as(stage, "bystander").await?);
    let before = (pods(&lost).await?, pods(&kept).await?);
    let (started, terms) = (kept.executions().await?, (term(&lost.get().await?), term(&kept.get().await?)));
    outage(how, &lost, &kept).await?;

    let back = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let operator = stage.operator.pod().await?;
    let leads = async || Ok(stage.operator.metric(&operator, "tanist_leader").await? > 0.0);
    until("an operator that leads", LEADS, leads).await?;
    let led = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let other = |seen: &serde_json::Value| {
        let leads = text(seen, "/status/columns/primaries");
        !leads.is_empty() && leads != "register-0" && condition(seen, "Ready").starts_with("True AllMembersInRole")
    };
    let seen = lost.until("another primary", WHOLE, other).await?;
    ensure!(term(&seen) == terms.0 + 1, "term {} after term {}", term(&seen), terms.0);
    let seen = kept.ready(WHOLE).await?;
    ensure!(term(&seen) == terms.1 && text(&seen, "/status/columns/primaries") == "bystander-0", "{seen}");

    let promotions: Vec<_> = lost.executions().await?.into_iter().filter(|e| e.command == "promote").collect();
    let [promotion] = promotions.as_slice() else { bail!("not one promotion: {promotions:?}") };
    let after = |moment: Duration| Duration::from_millis(promotion.began).saturating_sub(moment);
    let nodes = nodes_ready_since(stage, &lost).await?;
    println!("promotion {:?} after the API server was back, {:?} after its nodes were", after(back), after(nodes));
    let after = after(back.max(nodes).max(led));
    ensure!(
        after < TAKEOVER,
        "the takeover came {after:?} after the API server, the group's nodes and an operator were back"
    );
    let now = kept.executions().await?;
    ensure!(now == started, "executed without need: {:?}", starts(now.get(started.len()..).unwrap_or_default()));
    let after = (pods(&lost).await?, pods(&kept).await?);
    ensure!(after == before, "pods were replaced or restarted: {before:?} and now {after:?}");
    // It gives up its Lease once, and then waits for the API server within one process. Its kubelet reports that late.
    stage.operator.restarted(1, 60).await?;
    let restarts = stage.operator.restarts().await?;
    ensure!(stage.operator.pod().await? == operator && restarts == 1, "the operator was restarted {restarts} times");
    lost.had_one_primary_at_a_time().await?;
    kept.had_one_primary_at_a_time().await?;
    lost.rows(3).await?;
    kept.rows(5).await
}

// S28, A51, A53: the process of the API server is gone for a minute, and a primary's server dies meanwhile. Members serve on, nobody is promoted
// and no pod restarts. Afterwards one operator leads again, one secondary takes over once, and the other group is as it was.
#[test]
fn a_primary_that_dies_without_an_api_server_is_replaced_once() -> Outcome {
    play("gone").on("node4").run(async |stage| a_minute_away(stage, Outage::Gone).await)
}

// S28, S5: the same while every connection hangs. What an operator sent before it gave up is read a minute later, and does nothing twice.
#[test]
fn a_primary_that_dies_while_the_api_server_hangs_is_replaced_once() -> Outcome {
    play("frozen").on("node4").run(async |stage| a_minute_away(stage, Outage::Frozen).await)
}
