//! The first member with a changed template is watched, and keeps what fails on it from the others.
use crate::takeover::led;
use crate::update::updated;
use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Stage, condition, edition, editions, merge, play, text, until, waits};

async fn create(stage: &Stage, update: Value) -> Result<Group> {
    create_with(stage, json!({"update": update})).await
}

async fn create_with(stage: &Stage, more: Value) -> Result<Group> {
    let mut changes = led();
    merge(&mut changes, more);
    let group = stage.register(changes).await?;
    group.ready(60).await?;
    group.member(0).write(3).await?;
    group.copied(3).await?;
    Ok(group)
}

fn phase(seen: &Value) -> (&str, &str) {
    (text(seen, "/status/update/phase"), text(seen, "/status/update/canary"))
}

/// A template whose containers are restarted once they have run for a while.
async fn restarting(group: &Group, number: u32) -> Result<Value> {
    let probe = json!({"exec": {"command": ["test", "-e", "/never"]}, "initialDelaySeconds": 14, "periodSeconds": 1, "failureThreshold": 1});
    with_probe(group, number, probe).await
}

async fn with_probe(group: &Group, number: u32, probe: Value) -> Result<Value> {
    let mut containers = group.get().await?.pointer("/spec/template/spec/containers").cloned().unwrap_or_default();
    if let Some(container) = containers.pointer_mut("/0") {
        merge(container, json!({"livenessProbe": probe}));
    }
    let mut changes = edition(number);
    merge(&mut changes, json!({"template": {"spec": {"containers": containers}}}));
    Ok(changes)
}

// E30, E32, E34: the secondary with the highest ordinal gets the template, and is watched while the operator is killed; then the others get it.
#[test]
fn the_first_member_is_watched() -> Outcome {
    play("canary").run(async |stage| {
        let group = create(stage, json!({"canarySeconds": 30})).await?;
        ensure!(phase(&group.get().await?) == ("Done", ""), "{:?}", phase(&group.get().await?));
        group.change(edition(2)).await?;
        let is_watched = |seen: &Value| phase(seen) == ("Canary", "register-2") && waits(seen).contains("is watched");
        group.until("the first one to be watched", 90, is_watched).await?;
        stage.operator.kill(&stage.operator.pod().await?).await?;
        ensure!(editions(&group, 3).await? == ["-", "-", "2"], "{:?}", editions(&group, 3).await?);
        let seen = updated(&group, 3, 2, 240).await?;
        ensure!(phase(&seen) == ("Done", ""), "{:?}", phase(&seen));
        let history = seen.pointer("/status/record/history").and_then(Value::as_array).cloned().unwrap_or_default();
        let at = |what: &str, member: &str| {
            let found = history.iter().find(|e| text(e, "/what") == what && text(e, "/member") == member);
            found.and_then(|e| e.pointer("/at")?.as_i64())
        };
        let (began, passed) = (at("became-secondary", "register-2"), at("canary-passed", "register-2"));
        let next = at("pod-deleted", "register-1");
        ensure!(passed >= began.map(|at| at + 28) && next >= passed, "{began:?} {passed:?} {next:?}");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

// E34, E38: a container that is restarted while it is watched ends the update there: the others keep their pods, and nothing is tried any more until the next template.
#[test]
fn what_fails_on_the_first_member_goes_no_further() -> Outcome {
    play("canary-failed").run(async |stage| {
        let group = create(stage, json!({"canarySeconds": 60})).await?;
        group.change(restarting(&group, 2).await?).await?;
        let has_failed = |seen: &Value| phase(seen) == ("Failed", "register-2") && waits(seen).contains("CanaryFailed");
        let seen = group.until("the template to fail", 120, has_failed).await?;
        ensure!(waits(&seen).contains("its container was restarted"), "{}", waits(&seen));
        ensure!(condition(&seen, "Degraded").starts_with("True"), "{}", condition(&seen, "Degraded"));
        stage.operator.rounds(5.0, 150).await?;
        ensure!(editions(&group, 3).await? == ["-", "-", "2"], "{:?}", editions(&group, 3).await?);
        ensure!(text(&group.get().await?, "/status/columns/primaries") == "register-0", "the primary was disturbed");

        let mut cure = with_probe(&group, 3, Value::Null).await?;
        merge(&mut cure, json!({"update": {"canarySeconds": 5}}));
        group.change(cure).await?;
        updated(&group, 3, 3, 240).await?;
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

// E38: a pod that is lost after that comes back with the template that works everywhere, also the one on which the other failed, and none gets that again.
fn what_failed_is_in_no_later_pod(namespace: &'static str, kind: &'static str) -> Outcome {
    play(namespace).run(async |stage| {
        stage.operator.grant("deploy/rbac/members").await?;
        let group = create_with(stage, json!({"members": {"kind": kind}, "update": {"canarySeconds": 60}})).await?;
        group.change(restarting(&group, 2).await?).await?;
        let has_failed = |seen: &Value| phase(seen) == ("Failed", "register-2") && waits(seen).contains("CanaryFailed");
        group.until("the template to fail", 120, has_failed).await?;
        for (ordinal, expected) in [(1, ["-", "-", "2"]), (2, ["-", "-", "-"])] {
            let old = group.member(ordinal).uid().await?;
            group.member(ordinal).delete(None).await?;
            group.member(ordinal).replaced(&old, 90).await?;
            ensure!(editions(&group, 3).await? == expected, "{:?}", editions(&group, 3).await?);
        }
        let is_well = |seen: &Value| {
            condition(seen, "Ready")
                .starts_with("False CanaryFailed: 1 of 1 primaries serve, 3 of 3 members are in their role")
        };
        group.until("all to work with the former template", 90, is_well).await?;
        let old = stage.operator.pod().await?;
        stage.operator.kill(&old).await?;
        stage.operator.rounds_after(&old, 5.0, 150).await?;
        let seen = group.get().await?;
        ensure!(has_failed(&seen) && is_well(&seen), "{} {:?}", condition(&seen, "Ready"), phase(&seen));
        ensure!(editions(&group, 3).await? == ["-", "-", "-"], "{:?}", editions(&group, 3).await?);

        group.change(with_probe(&group, 3, Value::Null).await?).await?;
        group.change(json!({"update": {"canarySeconds": 5}})).await?;
        updated(&group, 3, 3, 240).await?;
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

#[test]
fn what_failed_on_the_first_member_is_in_no_later_pod() -> Outcome {
    what_failed_is_in_no_later_pod("canary-later", "StatefulSet")
}

#[test]
fn what_failed_on_the_first_member_is_in_no_later_pod_that_the_operator_makes() -> Outcome {
    what_failed_is_in_no_later_pod("canary-pods", "Pods")
}

// E34, E38: `check` runs on the first member alone, while it is watched and at the end. When it does not exit 0 the others keep their pods; the next template for which it does reaches all.
#[test]
fn a_check_says_whether_the_first_member_is_well() -> Outcome {
    play("canary-check").run(async |stage| {
        let group = create(stage, json!({"canarySeconds": 25})).await?;
        let check = "date +%s >> /data/checks; test ! -e /data/bad || exit 5";
        let mut changes = edition(2);
        let check = json!({"check": {"exec": ["sh", "-c", check]}});
        merge(&mut changes, json!({"commands": check, "resyncIntervalSeconds": 10}));
        group.member(2).exec(&["touch", "/data/bad"]).await?;
        group.change(changes).await?;
        let has_failed = |seen: &Value| phase(seen) == ("Failed", "register-2") && waits(seen).contains("CanaryFailed");
        let seen = group.until("the template to fail", 120, has_failed).await?;
        ensure!(waits(&seen).contains("check exited 5"), "{}", waits(&seen));
        stage.operator.rounds(5.0, 150).await?;
        ensure!(editions(&group, 3).await? == ["-", "-", "2"], "{:?}", editions(&group, 3).await?);

        group.member(2).exec(&["rm", "/data/bad", "/data/checks"]).await?;
        group.change(edition(3)).await?;
        let is_watched = |seen: &Value| phase(seen) == ("Canary", "register-2");
        group.until("the first one to be watched", 120, is_watched).await?;
        stage.operator.kill(&stage.operator.pod().await?).await?;
        updated(&group, 3, 3, 240).await?;
        let mut checks = Vec::new();
        for ordinal in 0..3 {
            let seen = group.member(ordinal).exec(&["sh", "-c", "cat /data/checks 2>/dev/null || true"]).await?;
            checks.push(seen.text.lines().map(str::parse::<u64>).collect::<Result<Vec<_>, _>>()?);
        }
        // While it is watched, 10 s after the one before, and at the end: not in every round. The watch begins anew with another operator, and when the member is not seen in its role or Ready for a moment.
        let [nobody, none, times] = checks.as_slice() else { bail!("{checks:?}") };
        let span = times.last().zip(times.first()).map_or(0, |(last, first)| last.saturating_sub(*first));
        let log = stage.operator.log().await;
        let unknown = |line: &&str| line.contains("\"to\":\"unknown\"") && line.contains("register-2");
        let moments = log.lines().filter(unknown).count();
        let allowed = 3 + usize::try_from(span / 5)? + 2 * moments;
        let is_fine = nobody.is_empty() && none.is_empty() && (3..=allowed).contains(&times.len());
        ensure!(
            is_fine,
            "{checks:?}, of the last one {allowed} at most; moments in which its role was not known: {moments}"
        );
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

// E35, E38: with `onFailure: RollBack` the first member goes back as soon as the template failed on it.
#[test]
fn what_fails_on_the_first_member_is_rolled_back() -> Outcome {
    play("canary-back").run(async |stage| {
        let group = create(stage, json!({"canarySeconds": 60, "onFailure": "RollBack"})).await?;
        let knows = |seen: &Value| seen.pointer("/status/record/fallback/good").is_some();
        group.until("the template that works to be known", 60, knows).await?;
        group.change(restarting(&group, 2).await?).await?;
        let is_back = |seen: &Value| {
            waits(seen).contains("RolledBack") && condition(seen, "Ready").starts_with("False RolledBack")
        };
        let seen = group.until("the pods to be back", 180, is_back).await?;
        ensure!(waits(&seen).contains("register-2: its container was restarted"), "{}", waits(&seen));
        ensure!(phase(&seen).0 == "Failed", "{:?}", phase(&seen));
        until("its pod to be back, too", 120, async || Ok(editions(&group, 3).await? == ["-", "-", "-"])).await?;
        group
            .until("every member to be in its role", 60, |seen| text(seen, "/status/columns/members") == "3/3")
            .await?;
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}
