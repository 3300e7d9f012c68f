//! Members that agree: etcd counts its members itself, decides by a majority, and elects its leader. It grows, shrinks and is repaired under a client that checks each
//! write.
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::time::Instant;
use tanist_e2e::{
    EtcdClient, Group, Outcome, Stage, condition, counts, kubectl, listed, merge, play, tanist, tanist_ended, text,
    until, waits,
};

fn delete(group: &Group, kind: &str, name: &str) -> Result<()> {
    kubectl(&["delete", "-n", &group.namespace, kind, name, "--wait=false"]).map(drop)
}

/// The claims of a group's members.
fn claims(group: &Group) -> Result<Vec<String>> {
    let names = kubectl(&["get", "pvc", "-n", &group.namespace, "-o", "jsonpath={.items[*].metadata.name}"])?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

// D1, D7, D16, D20, D25: 1 -> 3 -> 5 -> 3 -> 1 under a client, by the spec and by `kubectl scale`. A member that was removed keeps its volume, and does not
// come back with it: that is shown, until somebody deletes its claim.
#[test]
fn etcd_grows_and_shrinks_under_a_client() -> Outcome {
    play("grow").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 1})).await?;
        let first = counts(&group, 1).await?;
        let client = EtcdClient::begin(stage, None).await?;
        for members in [3_usize, 5, 3, 1] {
            let began = Instant::now();
            match members {
                5 => kubectl(&["scale", "-n", &group.namespace, "rg/etcd", "--replicas", "5"]).map(drop)?,
                _ => group.change(json!({"replicas": members})).await?,
            }
            counts(&group, members).await?;
            println!("etcd has {members} members after {:.1} s", began.elapsed().as_secs_f64());
            client.goes_on().await?;
        }
        let last = counts(&group, 1).await?;
        ensure!(last.get("etcd-0") == first.get("etcd-0"), "{first:?} {last:?}");
        client.lost_nothing().await?;

        group.change(json!({"replicas": 2, "scaling": {"deadlineSeconds": 10}})).await?;
        let is_said = |seen: &Value| waits(seen).contains("KeptData") && waits(seen).contains("ResizeOverdue");
        let seen = group.until("the kept volume to be reported", 60, is_said).await?;
        ensure!(waits(&seen).contains("delete its claim"), "{}", waits(&seen));
        ensure!(listed(&group, 0).await?.len() == 1, "{:?}", listed(&group, 0).await?);
        delete(&group, "pvc", "data-etcd-1")?;
        delete(&group, "pod", "etcd-1")?;
        counts(&group, 2).await?;
        client.lost_nothing().await
    })
}

// D20: 3 -> 1 -> 3 with `scaling.volumes: Wipe`: the claims stay, and members come back as new ones without anybody's help. On the way to 0 all data stays.
#[test]
fn volumes_of_removed_members_are_emptied() -> Outcome {
    play("wiped").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3, "scaling": {"volumes": "Wipe"}})).await?;
        let first = counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        let kept = uids(&group)?;
        group.change(json!({"replicas": 1})).await?;
        counts(&group, 1).await?;
        let seen = group.ready(60).await?;
        let history = seen.pointer("/status/record/history").map(Value::to_string).unwrap_or_default();
        ensure!(history.matches("\"wiped\"").count() == 2, "{history}");
        ensure!(uids(&group)? == kept, "a claim was replaced: {kept} {}", uids(&group)?);

        group.change(json!({"replicas": 3})).await?;
        let back = counts(&group, 3).await?;
        ensure!(uids(&group)? == kept, "a claim was replaced: {kept} {}", uids(&group)?);
        ensure!(
            back.get("etcd-0") == first.get("etcd-0") && back.get("etcd-1") != first.get("etcd-1"),
            "{first:?} {back:?}"
        );
        client.lost_nothing().await?;
        group.change(json!({"replicas": 0})).await?;
        group.until("nobody to run", 90, |seen| condition(seen, "Ready").starts_with("True Stopped")).await?;
        group.change(json!({"replicas": 3})).await?;
        ensure!(counts(&group, 3).await? == back, "{back:?} {:?}", listed(&group, 0).await?);
        client.lost_nothing().await
    })
}

/// The claims of the group with their UIDs.
fn uids(group: &Group) -> Result<String> {
    let columns = "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{\"\\n\"}{end}";
    kubectl(&["get", "pvc", "-n", &group.namespace, "-l", "tanist.dev/group=etcd", "-o", columns])
}

// D20: 3 -> 1 -> 3 with `scaling.volumes: Delete`. Without the right to delete claims the group says what is missing; with it the claims of removed members go, and those of the others stay
// also on the way to 0 and back.
#[test]
fn volumes_of_removed_members_are_deleted() -> Outcome {
    play("volumes").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3, "scaling": {"volumes": "Delete"}})).await?;
        counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        group.change(json!({"replicas": 1})).await?;
        group.until("the missing right to be reported", 120, |seen| seen.to_string().contains("delete claim")).await?;
        ensure!(claims(&group)?.len() == 3, "{:?}", claims(&group)?);
        stage.operator.grant("deploy/rbac/volumes").await?;
        until("the claims to go", 120, async || Ok(claims(&group)? == ["data-etcd-0"])).await?;
        group.change(json!({"replicas": 3})).await?;
        let back = counts(&group, 3).await?;
        client.lost_nothing().await?;
        group.change(json!({"replicas": 0})).await?;
        group.until("nobody to run", 90, |seen| condition(seen, "Ready").starts_with("True Stopped")).await?;
        ensure!(claims(&group)?.len() == 3, "{:?}", claims(&group)?);
        group.change(json!({"replicas": 3})).await?;
        ensure!(counts(&group, 3).await? == back, "{back:?} {:?}", listed(&group, 0).await?);
        client.lost_nothing().await
    })
}

// D21: pod and claim of each member are deleted, and it comes back under another identity. Then all stop and come back, and all pods are killed at once.
#[test]
fn etcd_is_repaired() -> Outcome {
    play("repair").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3})).await?;
        let mut before = counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        for ordinal in [2, 1, 0] {
            let name = format!("etcd-{ordinal}");
            let uid = group.member(ordinal).uid().await?;
            delete(&group, "pvc", &format!("data-{name}"))?;
            delete(&group, "pod", &name)?;
            group.recovered(&[uid], 150).await?;
            let after = counts(&group, 3).await?;
            let changed: Vec<_> = after.iter().filter(|(name, now)| before.get(*name) != Some(now)).collect();
            ensure!(changed.iter().all(|(changed, _)| **changed == name), "{before:?} {after:?}");
            ensure!(changed.len() == 1, "{before:?} {after:?}");
            before = after;
        }
        client.lost_nothing().await?;
        group.change(json!({"replicas": 0})).await?;
        group.until("nobody to run", 90, |seen| condition(seen, "Ready").starts_with("True Stopped")).await?;
        group.change(json!({"replicas": 3})).await?;
        ensure!(counts(&group, 3).await? == before, "{before:?} {:?}", listed(&group, 0).await?);
        client.lost_nothing().await?;
        let old = group.delete_pods(Some(0)).await?;
        group.recovered(&old, 150).await?;
        ensure!(counts(&group, 3).await? == before, "{before:?} {:?}", listed(&group, 0).await?);
        client.lost_nothing().await
    })
}

// D12, A51: the operator is killed while a member is half added, and that is withdrawn: what was added is removed again.
#[test]
fn a_growth_of_etcd_is_cancelled() -> Outcome {
    play("cancel").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3})).await?;
        let before = counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        group.change(json!({"replicas": 5})).await?;
        let half = |seen: &Value| {
            let rows = seen.pointer("/status/members").and_then(Value::as_array).cloned().unwrap_or_default();
            rows.iter().any(|row| matches!(text(row, "/membership"), "Added" | "Learner"))
        };
        group.until("a member that is half added", 90, half).await?;
        stage.operator.kill(&stage.operator.pod().await?).await?;
        group.change(json!({"replicas": 3})).await?;
        ensure!(counts(&group, 3).await? == before, "{before:?} {:?}", listed(&group, 0).await?);
        until("the pods to go", 60, async || Ok(group.member(3).pod().await.is_err())).await?;
        client.lost_nothing().await
    })
}

// D8: pods and claims of two of three members are lost. Nobody is seeded, added or removed: the group says what is missing, and what is left stays as it is.
#[test]
fn a_lost_majority_of_etcd_is_left_to_people() -> Outcome {
    play("majority").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3, "resyncIntervalSeconds": 5})).await?;
        counts(&group, 3).await?;
        let wrote = group.member(0).exec(&["etcd-member", "ctl", "put", "greeting", "hello"]).await?;
        ensure!(wrote.code == 0, "{wrote:?}");
        for ordinal in [1, 2] {
            delete(&group, "pvc", &format!("data-etcd-{ordinal}"))?;
            delete(&group, "pod", &format!("etcd-{ordinal}"))?;
        }
        let is_said = |seen: &Value| {
            condition(seen, "Ready").starts_with("False")
                && waits(seen).matches("it was started on another volume").count() == 2
        };
        group.until("the lost volumes to be reported", 120, is_said).await?;
        let operator = stage.operator.pod().await?;
        stage.operator.rounds(6.0, 60).await?;
        ensure!(stage.operator.pod().await? == operator, "another operator");
        for ordinal in [1, 2] {
            let position = group.member(ordinal).exec(&["etcd-member", "sequence"]).await?;
            ensure!(position.text == "EMPTY", "etcd-{ordinal} was started: {position:?}");
        }
        let left = ["etcd-member", "ctl", "get", "--consistency=s", "--print-value-only", "greeting"];
        let left = group.member(0).exec(&left).await?;
        ensure!(left.text == "hello", "{left:?}");
        Ok(())
    })
}

/// Writes so many keys by one member.
async fn write(group: &Group, by: u32, from: u32, to: u32) -> Result<()> {
    for key in from..=to {
        let wrote =
            group.member(by).exec(&["etcd-member", "ctl", "put", &format!("kept{key}"), &key.to_string()]).await?;
        ensure!(wrote.code == 0, "{key}: {wrote:?}");
    }
    Ok(())
}

/// How many of these keys that member has.
async fn kept(group: &Group, by: u32) -> Result<usize> {
    let read = ["etcd-member", "ctl", "get", "--prefix", "--keys-only", "kept"];
    let read = group.member(by).exec(&read).await?;
    ensure!(read.code == 0, "{read:?}");
    Ok(read.text.lines().filter(|line| line.starts_with("kept")).count())
}

fn refused(stage: &Stage, words: &[&str], expected: &str) -> Result<()> {
    let (code, said, errors) = tanist_ended(&stage.namespace, words)?;
    ensure!(code == 1 && errors.contains(expected), "{words:?}: {code} {said} {errors}");
    Ok(())
}

// D8, A51: pods and claims of two of three members are lost at once, and nothing happens by itself. People name the one that is left: it serves with every key, also when the operator is killed
// meanwhile, and the others come back as new members. The request stays on the group and is not done again when all pods are killed.
#[test]
fn a_lost_majority_of_etcd_is_recovered_by_name() -> Outcome {
    is_recovered_by_name("recover", json!({}))
}

// D23: the same with pods that the operator makes itself.
#[test]
fn a_lost_majority_of_pods_of_etcd_is_recovered_by_name() -> Outcome {
    is_recovered_by_name("recover-pods", json!({"members": {"kind": "Pods"}}))
}

fn is_recovered_by_name(name: &str, mut spec: Value) -> Outcome {
    play(name).run(async |stage| {
        stage.operator.grant("deploy/rbac/members").await?;
        merge(&mut spec, json!({"replicas": 3, "resyncIntervalSeconds": 5}));
        let group = stage.etcd(spec).await?;
        let before = counts(&group, 3).await?;
        write(&group, 0, 1, 40).await?;
        let recover = ["recover", "etcd", "--from", "etcd-0", "--yes"];
        refused(stage, &recover, "there is nothing to recover")?;
        for ordinal in [1, 2] {
            delete(&group, "pvc", &format!("data-etcd-{ordinal}"))?;
            delete(&group, "pod", &format!("etcd-{ordinal}"))?;
        }
        let is_said = |seen: &Value| waits(seen).matches("it was started on another volume").count() == 2;
        group.until("the lost volumes to be reported", 120, is_said).await?;
        group.until("no primary", 30, |seen| condition(seen, "Ready").starts_with("False NoPrimary")).await?;
        refused(stage, &["recover", "etcd", "--from", "etcd-0"], "to go on without being asked: --yes")?;
        refused(stage, &["recover", "etcd", "--from", "etcd-1", "--yes"], "etcd-1 holds no data")?;
        let seen = group.get().await?;
        ensure!(text(&seen, "/metadata/annotations/tanist.dev~1recover").is_empty(), "it was written: {seen}");

        // On a busy machine its status may have no answer in time, now and then.
        group
            .until("etcd-0 to wait for the others", 60, |seen| text(seen, "/status/members/0/role") == "Starting")
            .await?;
        let (_, said, _) = tanist_ended(&stage.namespace, &[&recover[..], &["--timeout", "2"]].concat())?;
        ensure!(said.contains("etcd-0: it runs, its role is starting"), "{said}");
        ensure!(said.contains("Lost is all that etcd-0 does not have."), "{said}");
        stage.operator.kill(&stage.operator.pod().await?).await?;
        let history = |seen: &Value| seen.pointer("/status/record/history").map(Value::to_string).unwrap_or_default();
        group.until("etcd-0 to be recovered", 150, |seen| history(seen).contains("\"recovered\"")).await?;
        ensure!(kept(&group, 0).await? == 40, "{}", kept(&group, 0).await?);
        let after = counts(&group, 3).await?;
        ensure!(after.get("etcd-0") == before.get("etcd-0"), "{before:?} {after:?}");
        ensure!(after.get("etcd-1") != before.get("etcd-1"), "{before:?} {after:?}");
        write(&group, 1, 41, 50).await?;

        let old = group.delete_pods(Some(0)).await?;
        group.recovered(&old, 150).await?;
        ensure!(counts(&group, 3).await? == after, "{after:?} {:?}", listed(&group, 0).await?);
        for ordinal in 0..3 {
            let keys = kept(&group, ordinal).await?;
            ensure!(keys == 50, "etcd-{ordinal} has {keys} of 50 keys");
        }
        let done = history(&group.get().await?).matches("\"recovered\"").count();
        ensure!(done == 1, "it was recovered {done} times");
        Ok(())
    })
}

// D8, D20: three of five members are lost, one whose volume is still there is given up: it stays out until its claim is deleted.
#[test]
fn who_was_given_up_comes_back_on_a_new_volume() -> Outcome {
    play("given-up").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 5, "resyncIntervalSeconds": 5})).await?;
        counts(&group, 5).await?;
        write(&group, 0, 1, 20).await?;
        for ordinal in [2, 3, 4] {
            delete(&group, "pvc", &format!("data-etcd-{ordinal}"))?;
            delete(&group, "pod", &format!("etcd-{ordinal}"))?;
        }
        let is_said = |seen: &Value| waits(seen).matches("it was started on another volume").count() == 3;
        group.until("the lost volumes to be reported", 120, is_said).await?;
        group.until("no primary", 30, |seen| condition(seen, "Ready").starts_with("False NoPrimary")).await?;
        let said = tanist(&stage.namespace, &["recover", "etcd", "--from", "etcd-1", "--yes", "--timeout", "150"])?;
        ensure!(said.contains("etcd-1 serves alone, in term 2"), "{said}");
        ensure!(kept(&group, 1).await? == 20, "{}", kept(&group, 1).await?);
        let is_kept = |seen: &Value| waits(seen).contains("KeptData") && waits(seen).contains("etcd-0");
        group.until("the volume of etcd-0 to keep it out", 150, is_kept).await?;
        delete(&group, "pvc", "data-etcd-0")?;
        delete(&group, "pod", "etcd-0")?;
        counts(&group, 5).await?;
        for ordinal in 0..5 {
            let keys = kept(&group, ordinal).await?;
            ensure!(keys == 20, "etcd-{ordinal} has {keys} of 20 keys");
        }
        Ok(())
    })
}
