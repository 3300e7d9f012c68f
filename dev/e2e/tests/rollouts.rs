//! Real databases get other templates under a client, while pods, a node and the operator are taken away: `make e2e-rollouts`. One test at a time, on a cluster of four
//! nodes of its own. Operator and client are on node4, which nothing happens to.
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Instant;
use tanist_e2e::{
    AGREEING, Database, GALERA, Group, Outcome, POSTGRES, Restored, Stage, Writer, apart, condition, edition, editions,
    kubectl, machines, merge, node_of, play, text, until, waits, with_image,
};

/// An image that does not exist.
const IMAGE: &str = "registry.invalid/database:none";

/// A group of three under a client.
struct Scene<'a> {
    stage: &'a Stage,
    group: Group,
    writer: Writer<'a>,
}

// E5, E32 to E38, C74: a template that works, one whose image does not exist and its cure, one that fails on its first member and is taken back.
#[test]
fn postgres_gets_other_templates() -> Outcome {
    gets_other_templates(&POSTGRES)
}

#[test]
fn galera_gets_other_templates() -> Outcome {
    gets_other_templates(&GALERA)
}

#[test]
fn etcd_gets_other_templates() -> Outcome {
    gets_other_templates(&AGREEING)
}

fn gets_other_templates(database: &Database) -> Outcome {
    play(database.name).on("node4").run(async |stage| {
        let template = json!({"spec": {"affinity": apart(database.name)}});
        let changes =
            json!({"replicas": 3, "resyncIntervalSeconds": 10, "template": template, "update": {"timeoutSeconds": 30, "waitSeconds": 20}});
        let group = database.create(stage, changes).await?;
        group.ready(300).await?;
        let writer = Writer::begin(database, &group, "node4").await?;
        let scene = Scene { stage, group, writer };
        scene.acts("a template that works", Scene::updates_while_much_is_lost).await?;
        scene.acts("an image that does not exist, and its cure", Scene::is_cured).await?;
        scene.acts("a template that fails on its first member", Scene::goes_back).await?;
        scene.writer.lost_nothing(&scene.group, 3).await
    })
}

impl Scene<'_> {
    /// Plays an act, and says how long it and the longest pause between two acknowledged writes took.
    async fn acts(&self, what: &str, act: impl AsyncFnOnce(&Self) -> Result<()>) -> Result<()> {
        let (began, before) = (Instant::now(), self.writer.acknowledged()?);
        act(self).await.with_context(|| format!("in the act of {what}"))?;
        let (outage, writes) = (self.writer.outage(before)?, self.writer.acknowledged()? - before);
        let seconds = began.elapsed().as_secs_f64();
        println!("{}: {what}: {seconds:.1} s, {writes} writes, at most {outage} ms without one", self.group.name);
        self.writer.goes_on().await
    }

    /// Returns the name of the pod that was killed.
    async fn kills_the_operator(&self) -> Result<String> {
        let pod = self.stage.operator.pod().await?;
        self.stage.operator.kill(&pod).await?;
        Ok(pod)
    }

    async fn editions(&self) -> Result<Vec<String>> {
        editions(&self.group, 3).await
    }

    async fn all_have(&self, number: u32) -> Result<()> {
        let all = vec![number.to_string(); 3];
        until("every pod to have the template", 300, async || Ok(self.editions().await? == all)).await?;
        self.group.ready(180).await.map(drop)
    }

    /// The operator is killed when the first pod was replaced, and when that member is back the node of another one loses its power: nobody else is touched until it is back. Then a pod is deleted by somebody, and
    /// the operator is killed once more.
    async fn updates_while_much_is_lost(&self) -> Result<()> {
        self.group.change(edition(2)).await?;
        until("the first pod to be replaced", 120, async || Ok(self.editions().await?.contains(&"2".to_owned())))
            .await?;
        let killed = self.kills_the_operator().await?;
        // With two of three away nobody could write. Then there is a rest before the next one goes.
        let is_back = |seen: &Value| {
            seen.pointer("/status/updatedReplicas") == Some(&json!(1)) && text(seen, "/status/columns/members") == "3/3"
        };
        self.group.until("the first member to be back", 180, is_back).await?;
        let lost = self.next_to_lose().await?;
        let node = node_of(&self.group, lost).await?;
        let restored = Restored::Power(node.clone());
        machines(&["node-kill", &node])?;
        kubectl(&["wait", "--for=condition=Ready=Unknown", "--timeout=90s", &format!("node/{node}")])?;
        let others: Vec<u32> = (0..3).filter(|ordinal| *ordinal != lost).collect();
        let before = self.uids(&others).await?;
        self.stage.operator.rounds_after(&killed, 5.0, 180).await?;
        let now = self.uids(&others).await?;
        ensure!(now == before, "a pod was replaced while a member was away: {before:?} and now {now:?}");
        self.writer.goes_on().await?;
        drop(restored);

        until("two pods to be replaced", 300, async || {
            Ok(self.editions().await?.iter().filter(|own| *own == "2").count() >= 2)
        })
        .await?;
        self.group.member(lost).delete(None).await?;
        self.kills_the_operator().await?;
        self.all_have(2).await
    }

    /// A member that does not lead and has no new pod yet, if there is one.
    async fn next_to_lose(&self) -> Result<u32> {
        let (seen, editions) = (self.group.get().await?, self.editions().await?);
        let leads = text(&seen, "/status/columns/primaries");
        let is_primary = |ordinal: u32| leads == format!("{}-{ordinal}", self.group.name);
        let old = (0..).zip(&editions).filter(|(ordinal, own)| *own != "2" && !is_primary(*ordinal));
        Ok(old.map(|(ordinal, _)| ordinal).last().unwrap_or(1))
    }

    /// How many members have a pod with that image.
    async fn with_image(&self, image: &str) -> Result<usize> {
        let members = self.group.members(3);
        let pods = futures::future::try_join_all(members.iter().map(|member| member.pod())).await?;
        let images = pods.iter().map(|pod| pod.spec.iter().flat_map(|spec| &spec.containers).next()?.image.as_deref());
        Ok(images.filter(|own| *own == Some(image)).count())
    }

    async fn uids(&self, ordinals: &[u32]) -> Result<Vec<String>> {
        let members: Vec<_> = ordinals.iter().map(|ordinal| self.group.member(*ordinal)).collect();
        futures::future::try_join_all(members.iter().map(|member| member.uid())).await
    }

    /// One member waits for its image, and writes go on, also when the operator is killed. The next template is the cure.
    async fn is_cured(&self) -> Result<()> {
        let (mut cure, broken) = with_image(&self.group.get().await?, IMAGE)?;
        self.group.change(broken).await?;
        let is_said = |seen: &Value| waits(seen).contains("UpdateStuck") && waits(seen).contains("PodCannotStart");
        self.group.until("the update to be stuck, and why", 180, is_said).await?;
        let killed = self.kills_the_operator().await?;
        self.stage.operator.rounds_after(&killed, 5.0, 180).await?;
        let broken = self.with_image(IMAGE).await?;
        ensure!(broken == 1, "{broken} members have the image that does not exist");
        self.writer.goes_on().await?;
        merge(&mut cure, edition(3));
        self.group.change(cure).await?;
        self.all_have(3).await
    }

    /// The first member with the template is watched, and restarted by its probe. The operator is killed meanwhile; then the member goes back to the template before.
    async fn goes_back(&self) -> Result<()> {
        let update = json!({"canarySeconds": 60, "onFailure": "RollBack", "timeoutSeconds": 300, "waitSeconds": 0});
        self.group.change(json!({"update": update})).await?;
        let knows = |seen: &Value| seen.pointer("/status/record/fallback/good").is_some();
        self.group.until("the template that works to be known", 90, knows).await?;
        let mut containers =
            self.group.get().await?.pointer("/spec/template/spec/containers").cloned().context("no containers")?;
        let probe = json!({"exec": {"command": ["test", "-e", "/never"]}, "initialDelaySeconds": 20, "periodSeconds": 1, "failureThreshold": 1});
        merge(containers.pointer_mut("/0").context("no container")?, json!({"livenessProbe": probe}));
        let mut changes = edition(4);
        merge(&mut changes, json!({"template": {"spec": {"containers": containers}}}));
        self.group.change(changes).await?;
        let is_watched = |seen: &Value| matches!(text(seen, "/status/update/phase"), "Canary" | "Failed");
        self.group.until("the first member to be watched", 180, is_watched).await?;
        self.kills_the_operator().await?;
        let is_back = |seen: &Value| condition(seen, "Ready").starts_with("False RolledBack");
        self.group.until("the template to be taken back", 300, is_back).await?;
        let all = vec!["3".to_owned(); 3];
        until("its pod to be back, too", 180, async || Ok(self.editions().await? == all)).await?;
        let in_roles = |seen: &Value| text(seen, "/status/columns/members") == "3/3";
        self.group.until("every member to be in its role", 120, in_roles).await.map(drop)
    }
}
