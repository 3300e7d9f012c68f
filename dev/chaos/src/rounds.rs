//! A round: the primary is lost in one way, and may have something beside it.
use crate::background::now;
use crate::cluster::{GROUP, Pod, may_be_primary, primary_of};
use crate::faults::{Laggard, Target, Witness, find_operator, fix, lose, node_returns, strike};
use crate::judge::{new_pods, others_lead, told_to_lead, went_further};
use crate::kinds::{Kind, Loss};
use crate::play::Play;
use crate::steps::commands;
use anyhow::{Context, Result};
use std::time::Duration;
use tanist_e2e::until;
use tokio::time::sleep;

/// How long nobody may take over while nobody knows of the old primary.
const HOLD: Duration = Duration::from_secs(20);
/// How long writes may be away, in seconds.
const BACK: u64 = 240;

/// What is known of a round that is played.
pub struct Scene {
    /// What happens in it.
    pub kind: Kind,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// When the primary was lost.
    pub loss: u64,
    /// When an administrator, or the world, said something of it.
    pub told: Option<u64>,
    /// Who led before.
    pub from: String,
    /// Who leads afterwards.
    pub to: String,
    /// Where it ran.
    pub pod: Pod,
    /// Why nobody took over, as the group says it.
    pub why: String,
    /// The standbys that got nothing.
    pub lagging: Vec<Laggard>,
    /// Who watched the old server.
    pub witness: Witness,
    /// The machine's load when writes were back.
    pub load: f64,
    /// When all members had pods of the new template, where it changed.
    pub updated: Option<u64>,
}

impl Play {
    /// Plays a round, and judges it.
    ///
    /// # Errors
    /// When what has to happen does not, or cannot be seen.
    pub async fn play(&mut self, number: usize, kind: Kind) -> Result<()> {
        self.round = number.to_string();
        let mut scene = self.lost_primary(number, kind).await.with_context(|| format!("round {number} ({kind})"))?;
        let back = self.back(number, &mut scene).await;
        back.with_context(|| format!("round {number} ({kind})"))?;
        self.settle(number, scene).await.with_context(|| format!("round {number} ({kind})"))?;
        if kind.loss == Loss::Switchover { self.withdraw_preference().await } else { Ok(()) }
    }

    /// The primary is lost, with all that happens beside it.
    async fn lost_primary(&mut self, number: usize, kind: Kind) -> Result<Scene> {
        let from = self.cluster.primary()?;
        let pod = self.cluster.pod(&from)?;
        let began = now();
        let witness = self.witness(&pod).await?;
        let lagging = match kind.lag {
            Some(how) => self.lag(how, &from).await?,
            None => Vec::new(),
        };
        let target = match kind.disturbed {
            Some(_) => find_operator(&self.cluster).await?,
            None => Target::default(),
        };
        let loss = lose(&self.cluster, kind.loss, &from, &pod)?;
        // The operator's process and its pod by turns.
        self.disturb(kind.disturbed, &target, number.is_multiple_of(2)).await?;
        self.unlag(kind.loss, &lagging, &witness).await;
        let (to, why) = (String::new(), String::new());
        Ok(Scene { kind, began, loss, told: None, from, to, pod, why, lagging, witness, load: 0.0, updated: None })
    }

    /// What ends the wait, and then writes go on and the group is well.
    async fn back(&mut self, number: usize, scene: &mut Scene) -> Result<()> {
        let kind = scene.kind;
        if kind.loss.is_silent() {
            self.held(scene).await?;
            scene.told = Some(self.fixed(number, scene).await?);
        }
        if kind.loss == Loss::UpdateBroken {
            self.stuck(scene).await?;
            scene.told = Some(self.fixed(number, scene).await?);
        }
        // Of two members the other one alone acknowledges nothing.
        let pair = self.wanted.members == 2;
        let cluster = self.cluster.clone();
        if kind.loss == Loss::Node && pair {
            let other = async || Ok(![scene.from.as_str(), ""].contains(&cluster.primary()?.as_str()));
            until("another primary", BACK, other).await?;
            node_returns(&cluster, &scene.pod.node)?;
        }
        // With links cut the same primary leads on; and of those that wait for nobody, one that was stopped may come back.
        let moves = kind.loss != Loss::Partition && self.wanted.setting.name != "async-freshest";
        let since = scene.told.unwrap_or(scene.loss);
        let from = scene.from.clone();
        until("writes to come back", BACK, async || {
            let to = cluster.primary()?;
            Ok(!to.is_empty() && (to != from || !moves) && self.writes_go_on(since, Some(&to))?)
        })
        .await?;
        scene.load = load();
        if kind.loss == Loss::Node && !pair {
            node_returns(&cluster, &scene.pod.node)?;
        }
        cluster.ready(300).context("the group was not ready within 300 s")?;
        if kind.loss.is_update() {
            until("all members to be updated", BACK, async || cluster.updated()).await?;
            scene.updated = Some(now());
        }
        scene.to = cluster.primary()?;
        Ok(())
    }

    /// A template that cannot run takes one member, and not the primary; writes go on.
    async fn stuck(&mut self, scene: &Scene) -> Result<()> {
        let cluster = self.cluster.clone();
        until("a pod that waits for its image", 120, async || cluster.lacks_image()).await?;
        sleep(HOLD).await;
        let mut further = went_further(&new_pods(&self.recorded("pods")?, scene.loss));
        let led = told_to_lead(&commands(&self.operator_log(scene.loss)?, scene.loss));
        let since = now();
        let from = Some(scene.from.as_str());
        if until("writes to go on", 30, async || self.writes_go_on(since, from)).await.is_err() {
            further.push(format!("{} does not acknowledge writes while one member waits for its image", scene.from));
        }
        self.violated("told_to_lead", &led);
        self.violated("went_further", &further);
        Ok(())
    }

    /// Nobody leads, nobody takes over, and the group says why.
    async fn held(&mut self, scene: &mut Scene) -> Result<()> {
        let silent = self.silent_group().await;
        self.violated("silent_group", &silent);
        let others = others_lead(&self.journal()?, scene.loss, &scene.from);
        self.violated("others_lead", &others);
        let told = told_to_lead(&commands(&self.operator_log(scene.loss)?, scene.loss));
        self.violated("told_to_lead", &told);
        scene.why = self.cluster.group().ok().as_ref().and_then(may_be_primary).unwrap_or_default().to_owned();
        Ok(())
    }

    /// What the group does not say of why nobody takes over.
    async fn silent_group(&self) -> Vec<String> {
        let says_why = async || {
            let group = self.cluster.group()?;
            Ok(primary_of(&group).is_empty() && may_be_primary(&group).is_some())
        };
        if until("the reason", 60, says_why).await.is_err() {
            return vec!["the group does not say why nobody takes over".into()];
        }
        sleep(HOLD).await;
        let mut found = Vec::new();
        // A question that the API server did not answer says nothing of the group: it is asked again.
        if until("the reason", 5, says_why).await.is_err() {
            found.push("nothing was known of the old primary, and the group does not wait any more".into());
        }
        let explains = async || Ok(self.cluster.explain()?.contains("MayBePrimary"));
        if until("the explanation", 20, explains).await.is_err() {
            found.push("tanist explain does not say why nobody takes over".into());
        }
        found
    }

    /// Ends the wait, disturbed as the loss was; returns the moment. The return of a node takes its time, and is what has to be disturbed.
    async fn fixed(&mut self, number: usize, scene: &Scene) -> Result<u64> {
        let (kind, node, pod) = (scene.kind, scene.pod.node.as_str(), number.is_multiple_of(2));
        let Some(whom) = kind.disturbed else { return fix(&self.cluster, kind.loss, node) };
        let target = find_operator(&self.cluster).await?;
        if kind.loss != Loss::NodeBack {
            let told = fix(&self.cluster, kind.loss, node)?;
            self.disturb(kind.disturbed, &target, pod).await?;
            return Ok(told);
        }
        let cluster = &self.cluster;
        let (killed, told) = std::thread::scope(|scope| {
            let striking = scope.spawn(|| strike(cluster, whom, &target, pod));
            let told = fix(cluster, kind.loss, node);
            (striking.join(), told)
        });
        let Ok(killed) = killed else { anyhow::bail!("nobody was killed") };
        self.struck(killed?).await?;
        told
    }

    /// Removes the preferred primary, so that the next loss is not followed by a second switchover.
    async fn withdraw_preference(&self) -> Result<()> {
        let patch = r#"{"spec":{"preferredPrimary":null}}"#;
        self.cluster.kube(&["patch", "rg", GROUP, "--type", "merge", "-p", patch])?;
        sleep(Duration::from_secs(2)).await;
        self.cluster.ready(60).context("the group was not ready after the preferred primary was removed")
    }
}

/// The machine's load over the last minute.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}
