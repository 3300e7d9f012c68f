//! One primary and two secondaries: which member takes over, and when.
use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};
use tanist_e2e::{Group, Outcome, Stage, condition, kubectl, merge, play, starts, tanist, text, until};
pub use tanist_e2e::{KILL, led_by_another};

/// One primary, the others follow it.
pub fn led() -> Value {
    let command = |name: &str| json!({"exec": ["register", name], "timeoutSeconds": 60});
    let commands =
        json!({"secondary": command("secondary"), "promote": command("promote"), "follow": command("follow")});
    json!({"primaries": 1, "commands": commands})
}

/// The addresses behind a Service that are ready.
pub async fn behind(stage: &Stage, service: &str) -> Result<String> {
    let selector = format!("kubernetes.io/service-name={service}");
    let path = "jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.targetRef.name} {end}";
    let said = kubectl(&["get", "endpointslices", "-n", &stage.namespace, "-l", &selector, "-o", path])?;
    let mut names: Vec<_> = said.split_whitespace().map(str::to_owned).collect();
    names.sort();
    Ok(names.join(" "))
}

// A15, A16: the application dies in its container, then its pod goes with its grace, then without: each time a
// secondary with all data takes over, the others follow it, the old one becomes a secondary, and the Services lead to members in their role.
#[test]
fn a_secondary_takes_over_with_every_row() -> Outcome {
    play("takeover").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let first = async || Ok(behind(stage, "register-rw").await? == "register-0");
        until("the Service leads to the first one", 60, first).await?;

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

        // Without grace nothing shows that the old processes ended: the node has to stay Ready (docs/rules.md, "Over").
        group.member(third).delete(Some(0)).await?;
        let fourth = led_by_another(&group, third, 180).await?;
        group.rows(7).await?;
        let leads = format!("register-{fourth}");
        until("the Services follow", 60, async || Ok(behind(stage, "register-rw").await? == leads)).await?;
        let others: Vec<_> = (0..3).filter(|o| *o != fourth).map(|o| format!("register-{o}")).collect();
        until("the secondaries are shown", 60, async || Ok(behind(stage, "register-ro").await? == others.join(" ")))
            .await?;
        let term = group.get().await?.pointer("/status/record/term").and_then(Value::as_u64);
        ensure!(term == Some(4), "one term for the seed and for each of three takeovers: {term:?}");
        let seeds = group.executions().await?.iter().filter(|e| e.command == "seed").count();
        ensure!(seeds == 1, "{seeds} seeds");
        Ok(())
    })
}

// S5, docs/rules.md, "Over": a container that ended and was started again in the same pod proves nothing about that pod later: after a forced
// deletion the node has to stay Ready for 90 s and the pod's grace.
#[test]
fn a_restarted_container_is_no_proof_for_ever() -> Outcome {
    play("restarted").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        // The signal goes to PID 1: the container ends, and its kubelet starts it again in the same pod.
        let uid = group.member(0).uid().await?;
        group.member(0).exec(&["sh", "-c", "kill -TERM 1"]).await?;
        led_by_another(&group, 0, 90).await?;
        group.change(json!({"preferredPrimary": "register-0"})).await?;
        let back = |seen: &Value| {
            text(seen, "/status/columns/primaries") == "register-0"
                && condition(seen, "Ready").starts_with("True AllMembers")
        };
        group.until("the switchover back", 60, back).await?;
        ensure!(group.member(0).uid().await? == uid, "it is another pod");
        group.change(json!({"preferredPrimary": null})).await?;
        // All of it is on one machine: one clock.
        let deleted = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        group.member(0).delete(Some(0)).await?;
        led_by_another(&group, 0, 180).await?;
        let promoted = last_promotion(&group).await?;
        // Unless the old container itself said that it was stopped, while its kubelet ended it.
        let proofs = proofs_since(&group.get().await?, "register-0", deleted.as_secs());
        let least = deleted + Duration::from_secs(90 + 5);
        ensure!(promoted >= least || proofs == ["its status says stopped"], "promoted after {proofs:?}");
        group.rows(3).await
    })
}

// S1, docs/rules.md, "Over": the primary's pod ends and is removed while no operator runs. The next one reads from the API server's changes how
// it ended, and does not wait for its node.
#[test]
fn a_pod_that_ended_while_no_operator_ran_is_over() -> Outcome {
    play("unseen").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let uid = group.member(0).uid().await?;
        stage.operator.scale(0).await?;
        until("the end of the operator", 60, async || Ok(stage.operator.pods().await?.is_empty())).await?;
        group.member(0).delete(None).await?;
        until("another pod", 60, async || Ok(group.member(0).uid().await? != uid)).await?;
        stage.operator.scale(1).await?;
        led_by_another(&group, 0, 90).await?;
        let proofs = proofs_since(&group.get().await?, "register-0", 0);
        ensure!(proofs == ["its containers ended before its pod was gone"], "{proofs:?}");
        group.rows(3).await
    })
}

// docs/decisions/0013: a readiness probe of the user's own that always succeeds hides no death, though the group is looked at once in ten minutes: the
// runner answers for both.
#[test]
fn a_probe_of_the_users_own_hides_no_death() -> Outcome {
    play("probe").run(async |stage| {
        let mut changes = led();
        let probe = json!({"exec": {"command": ["true"]}, "periodSeconds": 60});
        merge(&mut changes, json!({"resyncIntervalSeconds": 600, "container_": {"readinessProbe": probe}}));
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        group.member(0).exec(&KILL).await?;
        led_by_another(&group, 0, 60).await?;
        group.rows(3).await
    })
}

/// What proved, from that second on, that a member was over as a primary.
fn proofs_since(group: &Value, member: &str, second: u64) -> Vec<String> {
    let history = group.pointer("/status/record/history").and_then(Value::as_array);
    let of_member = |t: &&Value| text(t, "/what") == "primary-over" && text(t, "/member") == member;
    let later = |t: &&Value| t["at"].as_u64() >= Some(second);
    history.into_iter().flatten().filter(of_member).filter(later).map(|t| text(t, "/detail").to_owned()).collect()
}

/// When the last promotion began, since 1970.
async fn last_promotion(group: &Group) -> Result<Duration> {
    let all = group.executions().await?;
    let began = all.iter().filter(|e| e.command == "promote").map(|e| e.began).max();
    began.map(Duration::from_millis).context("no member was promoted")
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
        until("seven rows on register-2", 60, async || Ok(group.member(2).count().await? == 7)).await?;
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

// An administrator requests another primary, and gets it; a successor that lags is waited for, and nothing is stopped meanwhile.
#[test]
fn a_switchover_loses_nothing() -> Outcome {
    play("switchover").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        group.change(json!({"preferredPrimary": "register-2"})).await?;
        ensure!(led_by_another(&group, 0, 60).await? == 2);
        group.rows(3).await?;

        group.member(1).fault("pull", "fail").await?;
        group.member(2).write(4).await?;
        until("seven rows on register-0", 60, async || Ok(group.member(0).count().await? == 7)).await?;
        group.change(json!({"preferredPrimary": "register-1"})).await?;
        let lags = |seen: &Value| {
            seen.pointer("/status/awaiting").is_some_and(|w| w.to_string().contains("SwitchoverPending"))
                && text(seen, "/status/columns/primaries") == "register-2"
        };
        let seen = group.until("the lag", 30, lags).await?;
        let said = seen.pointer("/status/awaiting").context("the group waits for nothing")?.to_string();
        ensure!(said.contains("register-1 has") && said.contains("register-2 had"), "{said}");
        group.member(1).fault("pull", "clear").await?;
        ensure!(led_by_another(&group, 2, 60).await? == 1);
        group.rows(7).await?;

        // The same by the command line, with its messages.
        let refused = tanist(&stage.namespace, &["switchover", "register", "--to", "register-7"]);
        let said = refused.err().map(|e| format!("{e:#}")).unwrap_or_default();
        ensure!(said.contains("no member register-7 in group"), "{said}");
        let said = tanist(&stage.namespace, &["switchover", "register", "--to", "register-0", "--timeout", "60"])?;
        ensure!(said.contains("register-0 leads, after"), "{said}");
        until("its explanation", 60, async || {
            let said = tanist(&stage.namespace, &["explain", "register"])?;
            let why = "register-0 is the requested primary and has the same data";
            Ok(said.contains("primary register-0") && said.contains(why))
        })
        .await?;
        let said = tanist(&stage.namespace, &["status"])?;
        let row = said.lines().nth(1).unwrap_or_default();
        ensure!(row.starts_with("register ") && row.contains("register-0"), "{said}");
        let said = tanist(&stage.namespace, &["status", "--output", "json"])?;
        let groups: Value = serde_json::from_str(&said)?;
        ensure!(text(&groups, "/items/0/metadata/name") == "register", "{said}");
        let said = tanist(&stage.namespace, &["status", "regsiter"]).err().map(|e| format!("{e:#}"));
        ensure!(said.as_ref().is_some_and(|s| s.contains("did you mean register?")), "{said:?}");
        tanist(&stage.namespace, &["pause", "register"])?;
        group.until("the pause", 30, |seen| condition(seen, "Ready").starts_with("Unknown Paused")).await?;
        tanist(&stage.namespace, &["resume", "register"])?;
        group.ready(30).await.map(drop)
    })
}

// A31, S25, S26: kubectl scale: the primary's ordinal leaves after a switchover; then to 0 and back with every row.
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
        let two = |seen: &Value| {
            condition(seen, "Ready").starts_with("True") && text(seen, "/status/columns/members") == "2/2"
        };
        let seen = group.until("two members", 90, two).await?;
        ensure!(text(&seen, "/status/columns/primaries") != "register-2", "{seen}");
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
