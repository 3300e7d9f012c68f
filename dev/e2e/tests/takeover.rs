//! One primary and two secondaries: who takes over, and when.
use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Stage, condition, kubectl, play, starts, tanist, text, until};

/// One primary, the others follow it.
pub fn led() -> Value {
    let command = |name: &str| json!({"exec": ["register", name], "timeoutSeconds": 60});
    let commands =
        json!({"secondary": command("secondary"), "promote": command("promote"), "follow": command("follow")});
    json!({"primaries": 1, "commands": commands})
}

/// Kills what serves in a member, nothing else.
const KILL: [&str; 3] = ["sh", "-c", "kill -9 $(cut -d' ' -f1 /run/register/server)"];

/// Waits until another member leads and everyone is in their role; returns the new primary's number.
pub async fn led_by_another(group: &Group, old: u32, seconds: u64) -> Result<u32> {
    let before = format!("{}-{old}", group.name);
    let other = |seen: &Value| {
        let leads = text(seen, "/status/primary");
        !leads.is_empty() && leads != before && condition(seen, "Ready").starts_with("True AllMembersInRole")
    };
    let seen = group.until("another primary", seconds, other).await?;
    let name = text(&seen, "/status/primary");
    Ok(name.rsplit('-').next().context("no primary")?.parse()?)
}

/// The addresses behind a Service that are ready.
async fn behind(stage: &Stage, service: &str) -> Result<String> {
    let selector = format!("kubernetes.io/service-name={service}");
    let path = "jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.targetRef.name} {end}";
    let said = kubectl(&["get", "endpointslices", "-n", &stage.namespace, "-l", &selector, "-o", path])?;
    let mut names: Vec<_> = said.split_whitespace().map(str::to_owned).collect();
    names.sort();
    Ok(names.join(" "))
}

// A15, A16: the application dies in its container, then its pod goes with its grace, then without: each time a
// secondary with everything takes over, the others follow it, the old one comes back behind it, and the Services lead to who is in the role.
#[test]
fn a_secondary_takes_over_with_every_row() -> Outcome {
    play("takeover").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        ensure!(behind(stage, "register-rw").await? == "register-0", "{}", behind(stage, "register-rw").await?);

        group.member(0).exec(&KILL).await?;
        let second = led_by_another(&group, 0, 60).await?;
        group.rows(3).await?;
        group.member(second).write(2).await?;
        group.copied(5).await?;

        group.member(second).delete(None).await?;
        let third = led_by_another(&group, second, 90).await?;
        group.rows(5).await?;
        group.member(third).write(2).await?;
        group.copied(7).await?;

        // With no grace nothing says that the old processes ended: the node's word is waited for (docs/rules.md, "Over").
        group.member(third).delete(Some(0)).await?;
        let fourth = led_by_another(&group, third, 120).await?;
        group.rows(7).await?;
        let leads = format!("register-{fourth}");
        until("the Services follow", 20, async || Ok(behind(stage, "register-rw").await? == leads)).await?;
        let others: Vec<_> = (0..3).filter(|o| *o != fourth).map(|o| format!("register-{o}")).collect();
        until("the secondaries are shown", 20, async || Ok(behind(stage, "register-ro").await? == others.join(" ")))
            .await?;
        let term = group.get().await?.pointer("/status/record/term").and_then(Value::as_u64);
        ensure!(term == Some(4), "one term for the seed and for each of three takeovers: {term:?}");
        let seeds = group.executions().await?.iter().filter(|e| e.command == "seed").count();
        ensure!(seeds == 1, "{seeds} seeds");
        Ok(())
    })
}

// S5, docs/rules.md, "Over": a container that ended and was started again in the same pod proves nothing about that pod later: after a forced
// deletion the node's word is waited for, 30 s and the pod's grace.
#[test]
fn a_restarted_container_is_no_proof_for_ever() -> Outcome {
    play("restarted").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        // To PID 1: the container ends, and its kubelet starts it anew in the same pod.
        let uid = group.member(0).uid().await?;
        group.member(0).exec(&["sh", "-c", "kill -TERM 1"]).await?;
        led_by_another(&group, 0, 90).await?;
        group.change(json!({"preferredPrimary": "register-0"})).await?;
        let back = |seen: &Value| {
            text(seen, "/status/primary") == "register-0" && condition(seen, "Ready").starts_with("True AllMembers")
        };
        group.until("the hand-over back", 60, back).await?;
        ensure!(group.member(0).uid().await? == uid, "it is another pod");
        group.change(json!({"preferredPrimary": null})).await?;
        let before = promotions(&group).await?;
        group.member(0).delete(Some(0)).await?;
        tokio::time::sleep(std::time::Duration::from_secs(25)).await;
        ensure!(
            promotions(&group).await? == before,
            "somebody took over although nothing proves that the old one ended"
        );
        led_by_another(&group, 0, 90).await?;
        group.rows(3).await
    })
}

async fn promotions(group: &Group) -> Result<usize> {
    Ok(group.executions().await?.iter().filter(|e| e.command == "promote").count())
}

// S13, S24: the secondary with fewer rows does not lead, whatever its ordinal; and the decision says why.
#[test]
fn a_secondary_that_lags_does_not_lead() -> Outcome {
    play("lagging").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        group.member(1).fault("pull", "fail").await?;
        group.member(0).write(4).await?;
        until("seven rows on register-2", 20, async || Ok(group.member(2).count().await? == 7)).await?;
        group.member(0).delete(None).await?;
        ensure!(led_by_another(&group, 0, 90).await? == 2);
        let seen = group.get().await?;
        let decisions = seen.pointer("/status/decisions").and_then(Value::as_array).context("no decisions")?;
        let failover = decisions.iter().find(|d| text(d, "/point") == "failover").context("no failover")?;
        let said = failover.to_string();
        ensure!(said.contains("is behind the highest known"), "{said}");
        Ok(())
    })
}

// S1 with failover: the operator is killed between the intent and the promotion: one takes over, all rows are there.
#[test]
fn killed_while_a_secondary_takes_over() -> Outcome {
    play("promoting").with("TANIST_CRASH", "recorded:promote").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        group.member(0).exec(&KILL).await?;
        led_by_another(&group, 0, 120).await?;
        group.rows(3).await?;
        let promotions = starts(&group.executions().await?).into_iter().filter(|s| s.starts_with("promote")).count();
        ensure!(promotions == 1, "{promotions} promotions");
        Ok(())
    })
}

// A person wishes another primary, and gets it; one that lags is waited for and nothing is stopped meanwhile.
#[test]
fn a_person_hands_over_and_nothing_is_lost() -> Outcome {
    play("handover").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        group.change(json!({"preferredPrimary": "register-2"})).await?;
        ensure!(led_by_another(&group, 0, 60).await? == 2);
        group.rows(3).await?;

        group.member(1).fault("pull", "fail").await?;
        group.member(2).write(4).await?;
        until("seven rows on register-0", 20, async || Ok(group.member(0).count().await? == 7)).await?;
        group.change(json!({"preferredPrimary": "register-1"})).await?;
        let lags = |seen: &Value| {
            seen.pointer("/status/waiting").is_some_and(|w| w.to_string().contains("SwitchoverPending"))
                && text(seen, "/status/primary") == "register-2"
        };
        let seen = group.until("the lag", 30, lags).await?;
        let said = seen.pointer("/status/waiting").context("nothing is awaited")?.to_string();
        ensure!(said.contains("register-1 holds") && said.contains("register-2 held"), "{said}");
        group.member(1).fault("pull", "clear").await?;
        ensure!(led_by_another(&group, 2, 60).await? == 1);
        group.rows(7).await?;

        // The same by hand, with what the command says.
        let refused = tanist(&stage.namespace, &["switchover", "register", "--to", "register-7"]);
        let said = refused.err().map(|e| format!("{e:#}")).unwrap_or_default();
        ensure!(said.contains("register-7 is no member of this group"), "{said}");
        let said = tanist(&stage.namespace, &["switchover", "register", "--to", "register-0", "--timeout", "60"])?;
        ensure!(said.contains("register-0 leads, after"), "{said}");
        let said = tanist(&stage.namespace, &["explain", "register"])?;
        ensure!(
            said.contains("primary register-0") && said.contains("register-0 is to lead, and has the same data"),
            "{said}"
        );
        let said = tanist(&stage.namespace, &["status", "--output", "json"])?;
        let groups: Value = serde_json::from_str(&said)?;
        ensure!(text(&groups, "/0/primary") == "register-0", "{said}");
        tanist(&stage.namespace, &["pause", "register"])?;
        group.until("the pause", 30, |seen| condition(seen, "Ready").starts_with("Unknown Paused")).await?;
        tanist(&stage.namespace, &["resume", "register"])?;
        group.ready(30).await.map(drop)
    })
}

// A31, S25, S26: kubectl scale: the primary's ordinal leaves: it hands over; then to 0 and back with every row.
#[test]
fn members_leave_in_order_and_come_back_with_their_data() -> Outcome {
    play("scale").run(async |stage| {
        let group = stage.register(led()).await?;
        let scale = |replicas: u32| {
            let replicas = format!("--replicas={replicas}");
            kubectl(&["scale", "-n", &stage.namespace, "replicagroup/register", &replicas])
        };
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        group.change(json!({"preferredPrimary": "register-2"})).await?;
        ensure!(led_by_another(&group, 0, 60).await? == 2);

        group.change(json!({"preferredPrimary": null})).await?;
        scale(2)?;
        let two = |seen: &Value| condition(seen, "Ready").starts_with("True") && text(seen, "/status/serving") == "2/2";
        let seen = group.until("two members", 90, two).await?;
        ensure!(text(&seen, "/status/primary") != "register-2", "{seen}");
        for ordinal in [0, 1] {
            ensure!(group.member(ordinal).count().await? == 3);
        }

        scale(0)?;
        group.until("nobody", 90, |seen| condition(seen, "Ready").starts_with("True Stopped")).await?;
        until("no pods", 60, async || {
            Ok(kubectl(&["get", "pods", "-n", &stage.namespace, "-l", "tanist.dev/group=register", "-o", "name"])?
                .is_empty())
        })
        .await?;

        scale(3)?;
        group.ready(120).await?;
        group.rows(3).await?;
        let history = group.get().await?.pointer("/status/record/retired").cloned();
        ensure!(history.is_none(), "{history:?}");
        let pod = group.member(2).pod().await?;
        ensure!(pod.labels().contains_key("tanist.dev/role"), "{:?}", pod.labels());
        Ok(())
    })
}
