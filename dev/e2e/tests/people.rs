//! Usual commands of Kubernetes have their usual meaning: kubectl wait, delete, scale, and what a disruption budget allows.
use crate::takeover::led;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Stage, condition, kubectl, play, text, until};

fn in_its_place(stage: &Stage, arguments: &[&str]) -> Result<String> {
    kubectl(&[&["-n", &stage.namespace], arguments].concat())
}

/// How many evictions the group's budget allows now.
fn allowed(stage: &Stage) -> Result<String> {
    in_its_place(stage, &["get", "pdb", "register", "-o", "jsonpath={.status.disruptionsAllowed}"])
}

fn wait(stage: &Stage, condition: &str) -> Result<String> {
    in_its_place(stage, &["wait", &format!("--for=condition={condition}"), "--timeout=90s", "rg/register"])
}

// A48, A52: Ready is True when all members are in their role, and False when one is not; a budget allows one eviction
// while all are there and none while one is missing; a member that was deleted comes back by itself.
#[test]
fn kubectl_behaves_as_users_expect() -> Outcome {
    play("people").run(async |stage| {
        let group = stage.register(led()).await?;
        wait(stage, "Ready")?;
        in_its_place(
            stage,
            &["wait", "--for=condition=Ready", "--timeout=1s", "pod", "-l", "tanist.dev/group=register"],
        )?;
        until("one eviction is allowed", 60, async || Ok(allowed(stage)? == "1")).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;

        // It cannot serve again before the test lets it.
        group.member(2).fault("secondary", "fail").await?;
        let old = group.member(2).uid().await?;
        in_its_place(stage, &["delete", "pod", "register-2", "--wait=false"])?;
        wait(stage, "Ready=false")?;
        group.member(2).replaced(&old, 60).await?;
        until("no eviction is allowed", 60, async || Ok(allowed(stage)? == "0")).await?;
        let seen = group.get().await?;
        ensure!(text(&seen, "/status/columns/primaries") == "register-0", "the primary is left alone: {seen}");
        group.member(2).fault("secondary", "clear").await?;
        wait(stage, "Ready")?;
        until("one eviction is allowed again", 60, async || Ok(allowed(stage)? == "1")).await?;
        logged(&stage.operator.log().await)?;
        group.rows(3).await
    })
}

fn service(stage: &Stage, path: &str) -> Result<String> {
    in_its_place(stage, &["get", "service", "register-rw", "-o", &format!("jsonpath={{{path}}}")])
}

// E12, E13: the Service of the primary becomes one that can be reached at each node, leads to the primary as before, and becomes what it was. What others set on it stays.
#[test]
fn a_service_is_opened_and_closed_again() -> Outcome {
    play("services").run(async |stage| {
        let group = stage.register(led()).await?;
        wait(stage, "Ready")?;
        in_its_place(
            stage,
            &["patch", "service", "register-rw", "-p", r#"{"spec": {"sessionAffinity": "ClientIP"}}"#],
        )?;
        let options =
            json!({"type": "NodePort", "labels": {"example.org/team": "a"}, "externalTrafficPolicy": "Local"});
        group.change(json!({"services": {"primary": options}})).await?;
        until("a port at each node", 30, async || Ok(!service(stage, ".spec.ports[0].nodePort")?.is_empty())).await?;
        let shown = service(stage, ".spec.type} {.spec.externalTrafficPolicy} {.metadata.labels.example\\.org/team")?;
        ensure!(shown == "NodePort Local a", "{shown}");
        let targets = "jsonpath={.items[*].endpoints[*].targetRef.name}";
        let label = "kubernetes.io/service-name=register-rw";
        until("the primary alone behind it", 60, async || {
            Ok(in_its_place(stage, &["get", "endpointslice", "-l", label, "-o", targets])? == "register-0")
        })
        .await?;

        let none = json!({"type": "ClusterIP", "labels": null, "externalTrafficPolicy": null});
        group.change(json!({"services": {"primary": none}})).await?;
        until("no port any more", 30, async || Ok(service(stage, ".spec.ports[0].nodePort")?.is_empty())).await?;
        let shown = service(stage, ".spec.type} {.spec.sessionAffinity} {.metadata.labels.example\\.org/team")?;
        ensure!(shown.trim() == "ClusterIP ClientIP", "{shown}");
        group.ready(60).await.map(drop)
    })
}

// Logs are JSON, one object a line, and say of which group, in which of its rounds and about which member.
fn logged(log: &str) -> Result<()> {
    let lines = log.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>().context("not JSON")?;
    let about = |message: &str| lines.iter().filter(|l| text(l, "/fields/message") == message).collect::<Vec<_>>();
    for message in ["command starts", "command ended well", "routed", "role changed"] {
        let lines = about(message);
        ensure!(!lines.is_empty(), "{message:?} was never logged");
        for line in lines {
            let round = line.pointer("/span/round").and_then(Value::as_u64).unwrap_or_default();
            let member = text(line, "/fields/member");
            ensure!(text(line, "/span/group") == "register" && round > 0 && member.starts_with("register-"), "{line}");
        }
    }
    Ok(())
}

fn waits_for(seen: &Value, reason: &str) -> Option<String> {
    let waits = seen.pointer("/status/awaiting")?.as_array()?;
    waits.iter().find(|w| text(w, "/reason") == reason).map(|w| text(w, "/message").to_owned())
}

async fn cannot_start(group: &Group, words: &str) -> Result<()> {
    let said = |seen: &Value| waits_for(seen, "PodCannotStart").is_some_and(|why| why.contains(words));
    let seen = group.until(words, 60, said).await?;
    ensure!(condition(&seen, "Degraded").starts_with("True PodCannotStart"), "{}", condition(&seen, "Degraded"));
    Ok(())
}

// Fewer members than primaries are refused, also through `kubectl scale`; a Secret that is missing is named, and the group
// forms when it is there; nothing is lost.
#[test]
fn what_cannot_be_is_said_in_a_sentence() -> Outcome {
    play("sentence").run(async |stage| {
        let secret = json!([{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "password", "key": "p"}}}]);
        let group = stage.register(json!({"primaries": 3, "container_": {"env": secret}})).await?;
        cannot_start(&group, "secret \"password\" not found").await?;
        in_its_place(stage, &["create", "secret", "generic", "password", "--from-literal=p=1"])?;
        group.ready(90).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;

        let refused = in_its_place(stage, &["scale", "rg/register", "--replicas=1"]);
        let said = refused.err().map(|e| format!("{e:#}")).unwrap_or_default();
        ensure!(said.contains("primaries has to be All, or a number from 1 up to replicas"), "{said}");
        ensure!(group.get().await?.pointer("/spec/replicas") == Some(&json!(3)));
        group.rows(3).await
    })
}

// S48: a second installation with the same namespace does not act on a group of the first, and reports whose it is.
#[test]
fn a_second_installation_leaves_a_managed_group_alone() -> Outcome {
    play("second").run(async |stage| {
        let group = stage.register(json!({})).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        let before = group.executions().await?.len();
        // The first installation ends, so that only the second could act; the group still belongs to the first.
        stage.operator.scale(0).await?;
        stage.operator.set("TANIST_INSTALLATION", "another")?;
        // The Lease of that name is not in its rights, and another installation has its own.
        stage.operator.set("TANIST_NO_LEASE", "true")?;
        stage.operator.scale(1).await?;
        stage.operator.said("manages this group", 60).await?;
        let deleted = group.member(2).uid().await?;
        group.member(2).delete(None).await?;
        group.member(2).replaced(&deleted, 60).await?;
        // It looks again every 5 s.
        let looks = async || stage.operator.log().await.matches("round ended early").count();
        let before_it = looks().await;
        until("two more looks", 60, async || Ok(looks().await >= before_it.saturating_add(2))).await?;
        let executions = group.executions().await?;
        ensure!(executions.len() <= before + 1, "it acted: {executions:?}");
        ensure!(executions.iter().skip(before).all(|e| e.command == "stop"), "only the pod's own end: {executions:?}");
        let told = stage.operator.log().await;
        ensure!(told.contains("remove the annotation tanist.dev/installation from its StatefulSet"), "{told}");

        stage.operator.set("TANIST_INSTALLATION", "tanist")?;
        group.ready(90).await?;
        group.rows(3).await
    })
}

// A50, B27: users replace the pods. After a change of the template `kubectl wait` succeeds no sooner than a pod runs it; the columns say what is awaited.
#[test]
fn a_changed_template_is_ready_when_a_pod_runs_it() -> Outcome {
    play("template").run(async |stage| {
        let mut changes = led();
        changes["resyncIntervalSeconds"] = json!(1);
        changes["update"] = json!({"batch": "None"});
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        let columns = in_its_place(stage, &["get", "rg", "register", "--no-headers"])?;
        let columns: Vec<_> = columns.split_whitespace().take(5).collect();
        ensure!(columns == ["register", "True", "AllMembersInRole", "register-0", "3/3"], "{columns:?}");

        group.change(json!({"template": {"metadata": {"labels": {"example.org/edition": "2"}}}})).await?;
        let generation = group.get().await?.pointer("/metadata/generation").cloned();
        let first = |seen: &Value| seen.pointer("/status/observedGeneration") == generation.as_ref();
        let seen = group.until("a status about the new template", 30, first).await?;
        ensure!(condition(&seen, "Ready").starts_with("False UpdatePending"), "{}", condition(&seen, "Ready"));
        // Ready would come too early once the StatefulSet has the new template, in a round after that.
        let revisions = "jsonpath={.status.currentRevision} {.status.updateRevision}";
        let has_both = async || {
            let said = in_its_place(stage, &["get", "statefulset", "register", "-o", revisions])?;
            Ok(said.split_once(' ').is_some_and(|(current, update)| current != update))
        };
        until("the StatefulSet has the new template", 30, has_both).await?;
        stage.operator.rounds(3.0, 60).await?;
        let early = in_its_place(stage, &["wait", "--for=condition=Ready", "--timeout=0s", "rg/register"]);
        ensure!(early.is_err(), "Ready, and no pod runs the new template");
        let columns = in_its_place(stage, &["get", "rg", "register", "--no-headers"])?;
        ensure!(columns.contains("False") && columns.contains("UpdatePending") && columns.contains("3/3"), "{columns}");

        let old = group.member(2).uid().await?;
        group.member(2).delete(None).await?;
        group.member(2).replaced(&old, 60).await?;
        let ready = group.ready(90).await?;
        let pending = condition(&ready, "UpdatePending");
        ensure!(pending.starts_with("True") && pending.contains("register-0, register-1:"), "{pending}");
        Ok(())
    })
}
