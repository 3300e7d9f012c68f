//! What the stories ask of the members: what was executed in them, their rows, the open intents, their pods.
use crate::shop::Shop;
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use kube::ResourceExt;
use serde_json::Value;
use tanist_e2e::{text, until};

/// The register is a primary.
const PRIMARY: i32 = 8;

/// A member's start that takes its time.
pub struct SlowStart {
    ordinal: u32,
    /// How often it had been started before.
    before: usize,
    /// The name of this execution.
    pub token: String,
}

impl Shop {
    /// Waits until each member has that many rows.
    pub async fn rows_everywhere(&self, wanted: u32) -> Result<()> {
        let members = self.group.members(3);
        until(&format!("{wanted} rows everywhere"), 30, async || {
            let counts = try_join_all(members.iter().map(|member| member.count())).await?;
            Ok(counts.iter().all(|count| *count == wanted))
        })
        .await
    }

    /// The members' pods, and how often their containers were restarted: the same as long as nothing disturbed them.
    pub async fn pods(&self) -> Result<Vec<(Option<String>, i32)>> {
        let members = self.group.members(3);
        let pods = try_join_all(members.iter().map(|member| member.pod())).await?;
        let restarts = |pod: &k8s_openapi::api::core::v1::Pod| {
            let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
            statuses.into_iter().flatten().map(|status| status.restart_count).sum()
        };
        Ok(pods.iter().map(|pod| (pod.uid(), restarts(pod))).collect())
    }

    /// Checks that members run in the pods of before.
    pub async fn undisturbed(&self, before: &[(Option<String>, i32)]) -> Result<()> {
        let now = self.pods().await?;
        ensure!(now == before, "pods were replaced or restarted: {before:?} became {now:?}");
        Ok(())
    }

    /// Whether each member is a primary.
    pub async fn serves(&self) -> Result<bool> {
        let members = self.group.members(3);
        let asked = try_join_all(members.iter().map(|member| member.exec(&["register", "status"]))).await?;
        Ok(asked.iter().all(|answer| answer.code == PRIMARY))
    }

    /// The tokens of the open intents of a member.
    pub async fn intents(&self, ordinal: u32) -> Result<Vec<String>> {
        let group = self.group.get().await?;
        let name = self.group.member(ordinal).name;
        let all = group.pointer("/status/record/intents").and_then(Value::as_array);
        let of_member = all.into_iter().flatten().filter(|intent| text(intent, "/member") == name);
        Ok(of_member.map(|intent| text(intent, "/token").to_owned()).collect())
    }

    /// Replaces a member's pod; its start then takes that many seconds, and has begun.
    pub async fn begin_slow_start(&self, ordinal: u32, seconds: u32) -> Result<SlowStart> {
        self.group.ready(120).await?;
        let member = self.group.member(ordinal);
        let before = self.group.executions_of("primary", ordinal).await?;
        member.fault("primary", &format!("slow {seconds} x1")).await?;
        let old = member.uid().await?;
        member.delete(None).await?;
        member.replaced(&old, 60).await?;
        let more = async || Ok(self.group.executions_of("primary", ordinal).await? > before);
        until(&format!("the start of {}", member.name), 60, more).await?;
        let mut open = self.intents(ordinal).await?;
        ensure!(open.len() == 1, "one open intent was expected, there are: {open:?}");
        Ok(SlowStart { ordinal, before, token: open.pop().context("no intent")? })
    }

    /// Ends what makes the start take its time: it goes on to its work.
    pub async fn end_sleep(&self, slow: &SlowStart) -> Result<()> {
        let ended = self.group.member(slow.ordinal).exec(&["sh", "-c", "kill $(pidof sleep)"]).await?;
        ensure!(ended.code == 0, "the slow start does not sleep: {ended:?}");
        Ok(())
    }

    /// Checks that the start is still open.
    pub async fn is_open(&self, slow: &SlowStart) -> Result<()> {
        let open = self.intents(slow.ordinal).await?;
        ensure!(open.contains(&slow.token), "the intent {} was to be open, there are: {open:?}", slow.token);
        Ok(())
    }

    /// How often that member was started with success since the slow start.
    pub async fn ended_well(&self, slow: &SlowStart) -> Result<usize> {
        let journal = self.group.member(slow.ordinal).journal().await?;
        let ends = journal.iter().filter(|e| e.edge == "end" && e.command == "primary");
        Ok(ends.filter(|e| e.rest.iter().any(|word| word == "code=0")).count().saturating_sub(slow.before))
    }

    /// Waits until the group is well, and checks that the start was executed once and ended well, and that no other member was affected.
    pub async fn started_once(&self, slow: &SlowStart, pods: &[(Option<String>, i32)]) -> Result<()> {
        self.group.ready(180).await?;
        let (ordinal, open) = (slow.ordinal, self.intents(slow.ordinal).await?);
        ensure!(open.is_empty(), "register-{ordinal} still has the intent {open:?}");
        let begun = self.group.executions_of("primary", ordinal).await?.saturating_sub(slow.before);
        ensure!(begun == 1, "primary was begun {begun} times on register-{ordinal}");
        let well = self.ended_well(slow).await?;
        ensure!(well == 1, "primary ended well {well} times on register-{ordinal}");
        self.undisturbed(pods).await?;
        let seeds = self.group.journal().await?.iter().filter(|e| e.edge == "begin" && e.command == "seed").count();
        ensure!(seeds == 1, "there were {seeds} seeds");
        ensure!(self.serves().await?, "not every member serves");
        Ok(())
    }
}
