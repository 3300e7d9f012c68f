//! How long a group is without a primary when its primary's process dies: until the API says it, until another member is told to take over, and
//! what a client of the `-rw` Service sees of it.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::PostParams,
    runtime::watcher::{self, Event, watcher},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tanist_e2e::{Group, Stage, condition, play, until};

use crate::{
    figures::{Figures, cell},
    goals::Goal,
    machine::Busy,
    record::{About, Conditions, Record, Shown},
    seen,
};

/// What is measured. The operator's image is that of `TANIST_IMAGE`, or that of the end-to-end tests.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How often; twenty times, or four times in a quick run, when it is not given.
    #[arg(long)]
    repetitions: Option<u32>,
    /// Where the figures go as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the operator's log goes.
    #[arg(long)]
    log: Option<PathBuf>,
    #[command(flatten)]
    conditions: Conditions,
}

/// The goals, in milliseconds: from the death of the process to the promotion, p50 and most; and from the event in the API to it, p50.
const GOALS: [f64; 3] = [3_000.0, 5_000.0, 500.0];

/// Deaths of a primary's process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Takeovers {
    /// Those that came to their end, in order.
    pub takeovers: Vec<Takeover>,
    /// From the death of the process to the promotion. Milliseconds, like the next two.
    promotion: Figures,
    /// From the event in the API to the promotion.
    after_event: Figures,
    /// The longest time between two answers that the client got.
    outage: Figures,
}

/// One loss. Milliseconds since the death of the process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Takeover {
    /// When a watch saw that the pod's containers are not ready.
    pub event: f64,
    /// When the promotion's command began.
    pub promotion: f64,
    /// The longest time between two answers that the client got.
    pub outage: f64,
}

/// # Errors
/// When a takeover did not come to its end; those before it are written and shown.
pub fn run(args: &Args) -> anyhow::Result<()> {
    play("takeovers")
        .with("RUST_LOG", "info,kube=warn,tanist=debug")
        .run(async |stage| measure(args, stage).await)
        .map_err(|error| anyhow!(error))
}

async fn measure(args: &Args, stage: &Stage) -> anyhow::Result<()> {
    let repetitions = args.repetitions.unwrap_or(if args.conditions.quick { 4 } else { 20 });
    let group = formed(stage).await?;
    client(stage).await?;
    let unready: Unready = Arc::default();
    let watch = tokio::spawn(watch_readiness(stage.client.clone(), stage.namespace.clone(), unready.clone()));
    let before = Busy::now(&[]);
    let (mut takeovers, mut failures) = (Vec::new(), Vec::new());
    for repetition in 1..=repetitions {
        // The kubelet asks each second: every death comes in another part of it, or all would wait as long as the first does.
        tokio::time::sleep(Duration::from_secs(1) * repetition / repetitions).await;
        match takeover(stage, &group, &unready).await {
            Ok(one) => {
                let Takeover { event, promotion, outage } = one;
                eprintln!(
                    "takeover {repetition} of {repetitions}: in the API after {event:.0} ms, promotion after {promotion:.0}, no answer for {outage:.0}"
                );
                takeovers.push(one);
            }
            // What was measured before is shown. The group is not in a state to go on with.
            Err(error) => {
                failures.push(format!("takeover {repetition} of {repetitions}: {error:#}"));
                break;
            }
        }
    }
    watch.abort();
    if let Some(path) = &args.log {
        fs::write(path, stage.operator.log().await)?;
    }
    let load = before.until(Busy::now(&[]));
    ensure!(!takeovers.is_empty(), "{}", failures.join("; "));
    let figures = Takeovers::of(takeovers)?;
    let goals = figures.goals();
    Record::new(About::now(&args.conditions), load, figures, goals, failures).finish(args.json.as_deref())
}

/// Three register members with data, one of them primary.
pub async fn formed(stage: &Stage) -> anyhow::Result<Group> {
    let command = |name: &str| json!({"exec": ["register", name], "timeoutSeconds": 60});
    let commands =
        json!({"secondary": command("secondary"), "promote": command("promote"), "follow": command("follow")});
    let ports = json!([{"name": "rows", "containerPort": 8080}]);
    let group = stage.register(json!({"primaries": 1, "commands": commands, "container_": {"ports": ports}})).await?;
    group.ready(180).await?;
    group.member(0).write(20).await?;
    group.copied(20).await?;
    Ok(group)
}

async fn takeover(stage: &Stage, group: &Group, unready: &Unready) -> anyhow::Result<Takeover> {
    let status = group.get().await?;
    let leads = seen::primary(&status).to_owned();
    let ordinal: u32 = leads.rsplit('-').next().context("nobody leads")?.parse()?;
    let member = group.member(ordinal);
    let uid = member.uid().await?;
    let promotions = promotions(group).await?.len();
    // Server and its httpd: the whole application. The clock is read by the shell that kills, in the same breath.
    let kill = "kill -9 $(cut -d' ' -f1,3 /run/register/server) && echo $EPOCHREALTIME";
    let died = milliseconds(&member.exec(&["sh", "-c", kill]).await?.text)?;
    let other = |seen: &Value| {
        let now = seen::primary(seen);
        !now.is_empty() && now != leads && condition(seen, "Ready").starts_with("True AllMembersInRole")
    };
    group.until("another primary", 120, other).await?;
    let event = {
        let unready = unready.lock().unwrap_or_else(PoisonError::into_inner);
        let events = unready.iter().filter(|(pod, at)| *pod == uid && *at >= died).map(|(_, at)| *at);
        events.reduce(f64::min).context("the API never said that the primary is not ready")?
    };
    let all = self::promotions(group).await?;
    ensure!(all.len() == promotions + 1, "{} promotions instead of one", all.len().saturating_sub(promotions));
    let promotion = all.into_iter().reduce(f64::max).context("nobody was promoted")?;
    // The client goes on until it has had answers for a while.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let outage = gap(stage, died).await?;
    Ok(Takeover { event: event - died, promotion: promotion - died, outage })
}

/// When each promotion began, by the members' own log.
pub async fn promotions(group: &Group) -> anyhow::Result<Vec<f64>> {
    let executions = group.executions().await?;
    Ok(executions.iter().filter(|e| e.command == "promote").map(|e| e.began as f64).collect())
}

fn milliseconds(seconds: &str) -> anyhow::Result<f64> {
    let seconds: f64 = seconds.trim().parse().with_context(|| format!("no time: {seconds:?}"))?;
    Ok(seconds * 1000.0)
}

/// Asks the `-rw` Service for the rows, some 20 times a second, each time with a new connection, and notes when it got them.
async fn client(stage: &Stage) -> anyhow::Result<()> {
    let script = "while :; do timeout 1 wget -q -Y off -O /dev/null http://register-rw:8080/register 2>/dev/null && \
        echo $EPOCHREALTIME >>/tmp/answers; sleep 0.05; done";
    let restricted = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "client"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "client", "image": "tanist.local/register:1", "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", script], "securityContext": restricted}]
        }
    }))?;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), &stage.namespace);
    pods.create(&PostParams::default(), &pod).await.context("failed to start the client")?;
    until("the client's first answers", 60, async || Ok(answers(stage).await.is_ok_and(|a| a.len() > 20))).await
}

async fn answers(stage: &Stage) -> anyhow::Result<Vec<f64>> {
    let arguments = ["exec", "-n", &stage.namespace, "client", "--", "tail", "-n", "2000", "/tmp/answers"];
    tanist_e2e::kubectl(&arguments)?.lines().map(milliseconds).collect()
}

/// The longest time between two answers since then.
async fn gap(stage: &Stage, since: f64) -> anyhow::Result<f64> {
    let answers = answers(stage).await?;
    let around = answers.windows(2).filter_map(|pair| {
        let [before, after] = pair else { return None };
        (*after >= since).then_some(after - before)
    });
    around.reduce(f64::max).context("the client got no answer")
}

/// When pods were seen to be Ready no more, by UID.
type Unready = Arc<Mutex<Vec<(String, f64)>>>;

async fn watch_readiness(client: kube::Client, namespace: String, unready: Unready) {
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let mut ready = BTreeMap::new();
    watcher(pods, watcher::Config::default())
        .for_each(|event| {
            if let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event {
                let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
                let is = conditions.into_iter().any(|c| c.type_ == "ContainersReady" && c.status == "True");
                let uid = pod.uid().unwrap_or_default();
                if ready.insert(uid.clone(), is) == Some(true) && !is {
                    let at = jiff::Timestamp::now().as_microsecond() as f64 / 1000.0;
                    unready.lock().unwrap_or_else(PoisonError::into_inner).push((uid, at));
                }
            }
            std::future::ready(())
        })
        .await;
}

impl Takeovers {
    fn of(takeovers: Vec<Takeover>) -> anyhow::Result<Self> {
        let figures = |part: &dyn Fn(&Takeover) -> f64| Figures::of(takeovers.iter().map(part));
        let promotion = figures(&|takeover| takeover.promotion)?;
        let after_event = figures(&|takeover| takeover.promotion - takeover.event)?;
        let outage = figures(&|takeover| takeover.outage)?;
        Ok(Self { takeovers, promotion, after_event, outage })
    }

    fn goals(&self) -> Vec<Goal> {
        let [p50, most, after_event] = GOALS;
        vec![
            Goal::at_most("death to promotion, p50", p50, self.promotion.p50, "ms"),
            Goal::at_most("death to promotion, most", most, self.promotion.max, "ms"),
            Goal::at_most("event to promotion, p50", after_event, self.after_event.p50, "ms"),
        ]
    }
}

impl Shown for Takeovers {
    const NAME: &'static str = "takeovers";

    fn tables(&self) -> String {
        let row = |name: &str, f: &Figures| format!("| {name} | {:.0} | {} | {:.0} |\n", f.p50, cell(f.p90, 0), f.max);
        format!(
            "{} deaths. Milliseconds.\n\n| | p50 | p90 | most |\n| --- | --- | --- | --- |\n{}{}{}",
            self.takeovers.len(),
            row("death to promotion", &self.promotion),
            row("of that after the event reached the API", &self.after_event),
            row("without an answer from `-rw`", &self.outage),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takeovers(count: u32) -> Takeovers {
        let one = |n| {
            let death = f64::from(n) * 100.0;
            Takeover { event: 700.0, promotion: 1_000.0 + death, outage: 2_000.0 + death }
        };
        Takeovers::of((1..=count).map(one).collect()).unwrap()
    }

    #[test]
    fn twenty_takeovers_have_no_p99() {
        let text = takeovers(20).tables();
        assert!(!text.contains("p99"), "{text}");
        assert!(text.contains("20 deaths."), "{text}");
        assert!(text.contains("| death to promotion | 2000 | 2800 | 3000 |"), "{text}");
        assert!(text.contains("| of that after the event reached the API | 1300 | 2100 | 2300 |"), "{text}");
        assert!(takeovers(4).tables().contains("| death to promotion | 1200 | - | 1400 |"));
    }

    #[test]
    fn the_worst_takeover_counts() {
        let met: Vec<_> = takeovers(42).goals().iter().map(|goal| goal.met).collect();
        // p50 3100 of 3000, most 5200 of 5000, p50 after the event 2400 of 500.
        assert_eq!(met, [false, false, false]);
        let met: Vec<_> = takeovers(2).goals().iter().map(|goal| goal.met).collect();
        assert_eq!(met, [true, true, true]);
    }
}
