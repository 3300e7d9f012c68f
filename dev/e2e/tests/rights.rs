//! Rights, secrets, and operators that come and go.
use crate::outage::make_most_recent;
use anyhow::ensure;
use kube::ResourceExt;
use serde_json::{Value, json};
use tanist_e2e::{Outcome, condition, kubectl, play, starts, until};

// S48: a right that is missing is a condition that says so; nothing crashes, and giving it back heals.
#[test]
fn a_missing_right_is_a_condition() -> Outcome {
    play("rights").run(async |stage| {
        let operator = &stage.operator;
        let rules = operator.deny("statefulsets", &["create", "patch"]).await?;
        let group = stage.register(json!({"resyncIntervalSeconds": 1})).await?;
        let forbidden = |what: &'static str| {
            move |seen: &Value| {
                ["Degraded", "Progressing", "Ready"].iter().any(|kind| {
                    let condition = condition(seen, kind);
                    condition.contains("Forbidden") && condition.contains(what)
                })
            }
        };
        group.until("a missing right on statefulsets", 30, forbidden("apply StatefulSet")).await?;
        operator.allow(rules).await?;
        group.ready(60).await?;
        let rules = operator.deny("pods", &["list"]).await?;
        group.until("a missing right on pods", 30, forbidden("read pods")).await?;
        operator.allow(rules).await?;
        group.ready(60).await?;
        let rules = operator.deny("pods/exec", &["get", "create"]).await?;
        let unknown = |seen: &Value| text_of(seen, "/status/members").contains("forbidden (403)");
        let seen = group.until("a missing right on pods/exec", 30, unknown).await?;
        ensure!(!condition(&seen, "Ready").starts_with("True"), "{}", condition(&seen, "Ready"));
        let pods = group.members(3);
        let before = futures::future::try_join_all(pods.iter().map(|m| m.uid())).await?;
        operator.allow(rules).await?;
        group.ready(60).await?;
        // Members that cannot be asked are not members that failed (S19).
        let after = futures::future::try_join_all(pods.iter().map(|m| m.uid())).await?;
        ensure!(before == after, "pods were replaced");
        ensure!(starts(&group.executions().await?) == ["seed 0", "primary 1", "primary 2"]);
        ensure!(operator.restarts().await? == 0, "the operator crashed");
        Ok(())
    })
}

fn text_of(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).map(Value::to_string).unwrap_or_default()
}

// S46: what commands print is nowhere to be found; also where they fail, and where a sequence is refused.
#[test]
fn what_commands_print_is_not_repeated() -> Outcome {
    play("secrets").run(async |stage| {
        let secret = "hunter2-hunter2";
        let tell = format!("echo {secret}; echo {secret} >&2;");
        let shell = |command: &str| json!({"exec": ["sh", "-c", format!("{tell} register {command} \"$@\""), "register"]});
        let failing = json!([
            {"name": "REGISTER_FAULT_primary", "value": "register-1:fail x1"},
            {"name": "REGISTER_FAULT_sequence", "value": format!("register-2:output {secret} x1")}
        ]);
        let commands = json!({"seed": shell("seed"), "primary": shell("primary"), "stop": shell("stop"), "status": shell("status")});
        let group = stage.register(json!({"commands": commands, "container_": {"env": failing}})).await?;
        let ready = group.ready(90).await?;
        ensure!(text_of(&ready, "/status").contains("command-failed"), "no command failed: the test shows nothing");
        // The spec has it, as do its copies in the StatefulSet and the pods: the user wrote it there.
        for (kind, text) in [
            ("status", text_of(&ready, "/status")),
            ("events", kubectl(&["get", "events", "-n", &stage.namespace, "-o", "json"])?),
            ("log", stage.operator.log().await),
        ] {
            ensure!(!text.contains(secret), "the {kind} repeat what a command printed");
        }
        Ok(())
    })
}

// A53: without the operator the groups serve on. A51, S5: of two operators one acts; when it is killed, the other takes over.
#[test]
fn one_operator_of_two_acts_and_groups_outlive_both() -> Outcome {
    play("operators").run(async |stage| {
        let operator = &stage.operator;
        operator.scale(2).await?;
        until("two operators", 30, async || {
            let pods = operator.pods().await?;
            let up = pods.iter().filter(|p| p.status.as_ref().is_some_and(|s| s.phase.as_deref() == Some("Running")));
            Ok(up.count() == 2)
        })
        .await?;
        let group = stage.register(json!({})).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let mut leaders = Vec::new();
        for pod in operator.pods().await? {
            if operator.metric(&pod.name_any(), "tanist_leader").await? > 0.0 {
                leaders.push(pod.name_any());
            } else {
                let rounds = operator.metric(&pod.name_any(), "tanist_round_seconds_count").await?;
                ensure!(rounds == 0.0, "{} acts without leading: {rounds} rounds", pod.name_any());
            }
        }
        let [leader] = leaders.as_slice() else { anyhow::bail!("{leaders:?} lead") };
        make_most_recent(&group, 2, 2).await?;
        operator.kill(leader).await?;
        let old = group.delete_pods(None).await?;
        group.recovered(&old, 90).await?;
        group.rows(5).await?;
        operator.uninstall().await?;
        until("the end of the operators", 60, async || Ok(operator.pods().await?.is_empty())).await?;
        for member in group.members(3) {
            ensure!(member.exec(&["register", "status"]).await?.code == 8, "{} does not serve any more", member.name);
        }
        group.rows(5).await?;
        let seeds: Vec<_> = starts(&group.executions().await?).into_iter().filter(|s| s.starts_with("seed")).collect();
        ensure!(seeds == ["seed 0", "seed 2"], "{seeds:?}");
        Ok(())
    })
}

// S5, S50: two operators that both act, as after a lost Lease: the writes of one are refused, its tokens are unknown; nothing happens twice.
#[test]
fn two_operators_that_both_act_do_nothing_twice() -> Outcome {
    play("both-act").with("TANIST_NO_LEASE", "true").run(async |stage| {
        let operator = &stage.operator;
        operator.scale(2).await?;
        until("two operators that act", 40, async || {
            let mut leading = 0.0;
            for pod in operator.pods().await? {
                leading += operator.metric(&pod.name_any(), "tanist_leader").await?;
            }
            Ok(leading >= 2.0)
        })
        .await?;
        let group = stage.register(json!({})).await?;
        group.ready(90).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        make_most_recent(&group, 2, 2).await?;
        let old = group.delete_pods(None).await?;
        group.recovered(&old, 120).await?;
        group.rows(5).await?;
        let all = group.executions().await?;
        let seeds: Vec<_> = starts(&all).into_iter().filter(|s| s.starts_with("seed")).collect();
        ensure!(seeds == ["seed 0", "seed 2"], "{seeds:?}");
        let starts: Vec<_> = all.iter().filter(|e| matches!(e.command.as_str(), "seed" | "primary")).collect();
        for pair in starts.windows(2) {
            let [earlier, later] = pair else { continue };
            ensure!(earlier.ended.is_some_and(|end| end <= later.began), "two starts overlap: {earlier:?} {later:?}");
        }
        Ok(())
    })
}
