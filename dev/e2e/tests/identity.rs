//! Members by identity (`spec.members.kind: Pods`): the operator makes pods and claims itself, and any member can go.
use crate::takeover::{behind, led};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{
    EtcdClient, Group, KILL, Outcome, Stage, condition, counts, counts_of, kubectl, merge, play, text, until, waits,
};

/// What there is of a kind in the stage's namespace and belongs to the group, sorted.
pub fn names(stage: &Stage, kind: &str) -> Result<Vec<String>> {
    let of_group = ["get", kind, "-n", &stage.namespace, "-l", "tanist.dev/group", "-o", "name"];
    let mut names: Vec<_> =
        kubectl(&of_group)?.lines().filter_map(|line| Some(line.split_once('/')?.1.to_owned())).collect();
    names.sort();
    Ok(names)
}

pub fn called(prefix: &str, numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(|number| format!("{prefix}-{number}")).collect()
}

/// Waits until the members are these, each in its role, with that many rows.
pub async fn members(stage: &Stage, group: &Group, numbers: &[u32], rows: u32) -> Result<Value> {
    let seen = group.ready(120).await?;
    until("the pods of the members", 60, async || Ok(names(stage, "pods")? == called("register", numbers))).await?;
    for number in numbers {
        let member = group.member(*number);
        until("every row", 60, async || Ok(member.count().await.is_ok_and(|count| count == rows))).await?;
    }
    Ok(seen)
}

fn primary(seen: &Value) -> u32 {
    let name = text(seen, "/status/columns/primaries");
    name.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(99)
}

// B4, D23: without the right to create pods that is said, and nothing is made. With it the members are as those of a StatefulSet: names, DNS, Services, claims; a pod that is deleted comes back on its volume,
// and one in the middle goes when another one has joined in its place. Numbers are not used again, and all come back after 0.
#[test]
fn any_member_can_go() -> Outcome {
    play("identity").run(async |stage| {
        let mut changes = led();
        merge(&mut changes, json!({"members": {"kind": "Pods"}, "resyncIntervalSeconds": 2}));
        let group = stage.register(changes).await?;
        let is_said = |seen: &Value| waits(seen).contains("refused to create PersistentVolumeClaim data-register-");
        group.until("the missing right is said", 60, is_said).await?;
        ensure!(names(stage, "pods")?.is_empty(), "{:?}", names(stage, "pods")?);

        stage.operator.grant("deploy/rbac/members").await?;
        members(stage, &group, &[0, 1, 2], 0).await?;
        ensure!(names(stage, "statefulsets")?.is_empty(), "{:?}", names(stage, "statefulsets")?);
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let first = async || Ok(behind(stage, "register-rw").await? == "register-0");
        until("the Service leads to the first one", 60, first).await?;

        let (pod, claim) = (group.member(1).uid().await?, uid(stage, "pvc", "data-register-1")?);
        group.member(1).delete(None).await?;
        group.member(1).replaced(&pod, 60).await?;
        members(stage, &group, &[0, 1, 2], 3).await?;
        ensure!(uid(stage, "pvc", "data-register-1")? == claim, "it has another volume");

        group.change(json!({"members": {"remove": ["register-1"]}})).await?;
        until("another one in its place", 90, async || Ok(names(stage, "pods")?.contains(&"register-3".to_owned())))
            .await?;
        let seen = members(stage, &group, &[0, 2, 3], 3).await?;
        ensure!(primary(&seen) == 0, "the lead moved for nothing: {}", primary(&seen));
        ensure!(names(stage, "pvc")?.contains(&"data-register-1".to_owned()), "its volume went with it");

        // The primary, at the same time as the last one is not desired any more.
        group.change(json!({"members": {"remove": ["register-1", "register-0"]}, "replicas": 2})).await?;
        let seen = members(stage, &group, &[2, 3], 3).await?;
        let led = group.member(primary(&seen));
        led.write(2).await?;
        members(stage, &group, &[2, 3], 5).await?;

        group.change(json!({"members": {"remove": []}, "replicas": 0})).await?;
        group.until("nobody to run", 90, |seen| condition(seen, "Ready").starts_with("True Stopped")).await?;
        until("all pods to go", 60, async || Ok(names(stage, "pods")?.is_empty())).await?;
        group.change(json!({"replicas": 3})).await?;
        let seen = members(stage, &group, &[2, 3, 4], 5).await?;

        // The operator is killed, and the pods go at once with their node's consent; it makes them again.
        stage.operator.kill(&stage.operator.pod().await?).await?;
        group.member(primary(&seen)).delete(None).await?;
        members(stage, &group, &[2, 3, 4], 5).await?;
        Ok(())
    })
}

/// The UID of each pod, the kind of its controller, and how often its containers were restarted.
fn pods(stage: &Stage) -> Result<Vec<String>> {
    let columns = "jsonpath={range .items[*]}{.metadata.uid} {.metadata.ownerReferences[?(@.controller==true)].kind} \
                   {.status.containerStatuses[*].restartCount}{\"\\n\"}{end}";
    let text = kubectl(&["get", "pods", "-n", &stage.namespace, "-l", "tanist.dev/group", "-o", columns])?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Changes `members.kind`, and waits until every pod of before belongs to that kind.
async fn moved(stage: &Stage, group: &Group, kind: &str, owner: &str) -> Result<()> {
    let before: Vec<_> = pods(stage)?.iter().map(|pod| pod.split(' ').next().unwrap_or_default().to_owned()).collect();
    group.change(json!({"members": {"kind": kind}})).await?;
    let after: Vec<_> = before.iter().map(|uid| format!("{uid} {owner} 0")).collect();
    until("every pod to change its owner", 120, async || Ok(pods(stage)? == after)).await?;
    let sets = usize::from(kind == "StatefulSet");
    until("the StatefulSet", 60, async || Ok(names(stage, "statefulsets")?.len() == sets)).await?;
    group.until("the end of the move", 60, |seen| !waits(seen).contains("members.kind")).await?;
    ensure!(pods(stage)? == after, "{before:?} and now {:?}", pods(stage)?);
    Ok(())
}

// D23: a group that runs goes from a StatefulSet to pods of its own, while its operator is killed again and again, and back, and no pod is lost. What comes later is as in groups that began so.
#[test]
fn a_group_moves_from_one_kind_to_the_other_and_loses_no_pod() -> Outcome {
    let points = ["write:adopt:register-1", "write:adopt:register-2", "write:drop"];
    play("moving").with("TANIST_CRASH", &points.join(",")).run(async |stage| {
        let mut changes = led();
        merge(&mut changes, json!({"resyncIntervalSeconds": 2}));
        let group = stage.register(changes).await?;
        members(stage, &group, &[0, 1, 2], 0).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        stage.operator.grant("deploy/rbac/members").await?;

        moved(stage, &group, "Pods", "ReplicaGroup").await?;
        stage.operator.restarted(3, 60).await?;
        let revisions = names(stage, "controllerrevisions")?;
        ensure!(revisions.is_empty(), "revisions of the StatefulSet stayed: {revisions:?}");
        members(stage, &group, &[0, 1, 2], 3).await?;

        moved(stage, &group, "StatefulSet", "StatefulSet").await?;
        let (pod, claim) = (group.member(2).uid().await?, uid(stage, "pvc", "data-register-2")?);
        group.member(2).delete(None).await?;
        group.member(2).replaced(&pod, 60).await?;
        members(stage, &group, &[0, 1, 2], 3).await?;
        ensure!(uid(stage, "pvc", "data-register-2")? == claim, "it has another volume");

        moved(stage, &group, "Pods", "ReplicaGroup").await?;
        group.change(json!({"members": {"remove": ["register-1"]}})).await?;
        members(stage, &group, &[0, 2, 3], 3).await?;
        // With these numbers there is no way back, and that is said; the group goes on.
        group.change(json!({"members": {"kind": "StatefulSet", "remove": []}})).await?;
        let says = |seen: &Value| waits(seen).contains("the members are register-0, register-2, register-3");
        group.until("why it does not move", 60, says).await?;
        group.member(0).write(2).await?;
        members(stage, &group, &[0, 2, 3], 5).await?;
        ensure!(names(stage, "statefulsets")?.is_empty(), "{:?}", names(stage, "statefulsets")?);
        Ok(())
    })
}

// D23: etcd moves, and no member is another one afterwards, nor is any client held up for it.
#[test]
fn etcd_moves_to_pods_of_its_own_under_a_client() -> Outcome {
    play("etcd-moves").run(async |stage| {
        stage.operator.grant("deploy/rbac/members").await?;
        let group = stage.etcd(json!({"replicas": 3})).await?;
        let before = counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        moved(stage, &group, "Pods", "ReplicaGroup").await?;
        let after = counts(&group, 3).await?;
        ensure!(before == after, "{before:?} and now {after:?}");
        client.goes_on().await?;
        group.change(json!({"members": {"remove": ["etcd-0"]}})).await?;
        counts_of(&group, &[1, 2, 3]).await?;
        client.lost_nothing().await
    })
}

fn uid(stage: &Stage, kind: &str, name: &str) -> Result<String> {
    kubectl(&["get", kind, name, "-n", &stage.namespace, "-o", "jsonpath={.metadata.uid}"])
}

// D25: one whose start fails again and again gets a successor, which joins first; its volume stays. What happens to all is the fault of none: nobody is replaced.
#[test]
fn a_member_that_fails_again_and_again_gets_a_successor() -> Outcome {
    play("failing").run(async |stage| {
        stage.operator.grant("deploy/rbac/members").await?;
        let mut changes = led();
        let kind = json!({"kind": "Pods", "replaceAfterFailures": 2});
        merge(&mut changes, json!({"members": kind, "resyncIntervalSeconds": 2}));
        let group = stage.register(changes).await?;
        members(stage, &group, &[0, 1, 2], 0).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;

        group.member(1).fault("secondary", "fail").await?;
        group.member(1).exec(&KILL).await?;
        let is_said = |seen: &Value| waits(seen).contains("a new member comes in place of register-1");
        group.until("that it is replaced, and why", 90, is_said).await?;
        let seen = members(stage, &group, &[0, 2, 3], 3).await?;
        ensure!(primary(&seen) == 0, "the lead moved for nothing: {}", primary(&seen));
        ensure!(deletions(&seen).is_empty(), "pods were deleted before they left: {:?}", deletions(&seen));
        ensure!(names(stage, "pvc")?.contains(&"data-register-1".to_owned()), "its volume went with it");
        ensure!(condition(&seen, "Degraded").starts_with("False"), "{}", condition(&seen, "Degraded"));

        // Both fail before anybody may be replaced for that, and are cured when nobody is any more.
        let replace_after = async |failures: u32| {
            group.change(json!({"members": {"kind": "Pods", "replaceAfterFailures": failures}})).await
        };
        replace_after(0).await?;
        for number in [2, 3] {
            group.member(number).fault("secondary", "fail").await?;
            group.member(number).exec(&KILL).await?;
        }
        let have_failed = |seen: &Value, often: u64| [2, 3].iter().all(|number| failures(seen, *number) >= often);
        group.until("both to fail", 60, |seen| have_failed(seen, 1)).await?;
        replace_after(2).await?;
        let is_held = |seen: &Value| have_failed(seen, 3) && waits(seen).contains("is to be replaced");
        group.until("both to fail more often than allowed, and why nobody is replaced", 120, is_held).await?;
        ensure!(names(stage, "pods")? == called("register", &[0, 2, 3]), "{:?}", names(stage, "pods")?);
        replace_after(0).await?;
        for number in [2, 3] {
            group.member(number).fault("secondary", "clear").await?;
        }
        members(stage, &group, &[0, 2, 3], 3).await?;
        Ok(())
    })
}

/// How many commands in a row failed in a member.
fn failures(group: &Value, number: u32) -> u64 {
    let path = format!("/status/record/members/register-{number}/failures");
    group.pointer(&path).and_then(Value::as_u64).unwrap_or(0)
}

// D16, D20, D23: etcd under a client; the member in the middle goes after another one has joined, a lost one is repaired, and a group that got smaller grows again beside the claims that were kept.
#[test]
fn any_member_of_etcd_can_go() -> Outcome {
    play("identities").run(async |stage| {
        stage.operator.grant("deploy/rbac/members").await?;
        let group = stage.etcd(json!({"replicas": 3, "members": {"kind": "Pods"}})).await?;
        let first = counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;

        group.change(json!({"members": {"remove": ["etcd-1"]}})).await?;
        let second = counts_of(&group, &[0, 2, 3]).await?;
        for name in ["etcd-0", "etcd-2"] {
            ensure!(first.get(name) == second.get(name), "{name} has another identity: {first:?} {second:?}");
        }
        client.goes_on().await?;

        for (kind, name) in [("pvc", "data-etcd-2"), ("pod", "etcd-2")] {
            kubectl(&["delete", kind, name, "-n", &stage.namespace, "--wait=false"])?;
        }
        until("another identity on the new volume", 150, async || {
            let now = tanist_e2e::listed(&group, 0).await?;
            Ok(now.len() == 3 && now.get("etcd-2").is_some_and(|own| second.get("etcd-2") != Some(own) && own.1))
        })
        .await?;
        counts_of(&group, &[0, 2, 3]).await?;

        group.change(json!({"replicas": 1})).await?;
        counts_of(&group, &[0]).await?;
        // A StatefulSet would come back with the volumes of identities that are over.
        group.change(json!({"replicas": 3})).await?;
        counts_of(&group, &[0, 4, 5]).await?;
        client.lost_nothing().await
    })
}

/// A change of the template that every pod shows.
pub fn image_stays(note: &str) -> Value {
    json!({"template": {"metadata": {"annotations": {"example.org/note": note}}}})
}

// B7, B8, B9, B10: with `Replace` a changed template brings a new member in the place of each, one at a time, the primary last; no pod is deleted before its successor works, and every row is there. A node selector
// calls for new members with `Recreate`, too; with a limit of 0 they wait, and no pod is deleted either. A template that is taken back keeps those who have not left.
#[test]
fn an_update_gives_each_member_a_successor() -> Outcome {
    play("successors").run(async |stage| {
        stage.operator.grant("deploy/rbac/members").await?;
        let mut changes = led();
        let update = json!({"strategy": "Replace"});
        merge(&mut changes, json!({"members": {"kind": "Pods"}, "resyncIntervalSeconds": 2, "update": update}));
        let group = stage.register(changes).await?;
        members(stage, &group, &[0, 1, 2], 0).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;

        group.change(image_stays("one")).await?;
        let seen = until_updated(stage, &group, &[3, 4, 5]).await?;
        members(stage, &group, &[3, 4, 5], 3).await?;
        let begun = replaced(&seen);
        ensure!(begun.len() == 3 && begun.last().is_some_and(|last| last == "register-0"), "{begun:?}");
        ensure!(deletions(&seen).is_empty(), "pods were deleted for the update: {:?}", deletions(&seen));

        // Nobody is replaced, and nobody gets a new pod.
        let update = json!({"strategy": "Recreate", "maxConcurrentReplacements": 0, "timeoutSeconds": 5});
        group.change(json!({"update": update})).await?;
        let selector = json!({"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}});
        group.change(selector).await?;
        let says = |seen: &Value| waits(seen).contains("spec.update.maxConcurrentReplacements is 0");
        group.until("why nobody is replaced", 60, says).await?;
        group.until("the update is reported", 60, |seen| condition(seen, "Degraded").contains("UpdateStuck")).await?;
        ensure!(names(stage, "pods")? == called("register", &[3, 4, 5]), "{:?}", names(stage, "pods")?);

        group.change(json!({"update": {"maxConcurrentReplacements": 1, "timeoutSeconds": 600}})).await?;
        until_updated(stage, &group, &[6, 7, 8]).await?;
        let seen = members(stage, &group, &[6, 7, 8], 3).await?;
        group.member(primary(&seen)).write(2).await?;

        // No node has that label, so the first new member waits for one; the template is taken back.
        let nowhere = json!({"template": {"spec": {"nodeSelector": {"example.org/nowhere": "true"}}}});
        group.change(nowhere).await?;
        until("the new member", 60, async || Ok(names(stage, "pods")?.contains(&"register-9".to_owned()))).await?;
        group.change(json!({"template": {"spec": {"nodeSelector": {"example.org/nowhere": null}}}})).await?;
        let seen = members(stage, &group, &[6, 7, 8], 5).await?;
        ensure!(deletions(&seen).iter().all(|pod| pod == "register-9"), "{:?}", deletions(&seen));
        Ok(())
    })
}

/// Waits until the pods are those of these members.
async fn until_updated(stage: &Stage, group: &Group, numbers: &[u32]) -> Result<Value> {
    until("new members in place of all", 240, async || Ok(names(stage, "pods")? == called("register", numbers)))
        .await?;
    group.ready(120).await
}

/// In whose place new members came, in their order.
fn replaced(group: &Value) -> Vec<String> {
    noted(group, "replacement-begun")
}

/// Whose pods were deleted although they had not left.
pub fn deletions(group: &Value) -> Vec<String> {
    noted(group, "pod-deleted")
}

fn noted(group: &Value, what: &str) -> Vec<String> {
    let history = group.pointer("/status/record/history").and_then(Value::as_array);
    let of_kind = history.into_iter().flatten().filter(|past| text(past, "/what") == what);
    of_kind.map(|past| text(past, "/member").to_owned()).collect()
}

// B8, D16, D19: etcd under a client: each new member is added and serves before the former one is removed, so the identities are others afterwards, and no acknowledged write is lost.
#[test]
fn an_update_gives_each_member_of_etcd_a_successor() -> Outcome {
    play("etcd-successors").run(async |stage| {
        stage.operator.grant("deploy/rbac/members").await?;
        let update = json!({"strategy": "Replace"});
        let group = stage.etcd(json!({"replicas": 3, "members": {"kind": "Pods"}, "update": update})).await?;
        let before = counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        group.change(image_stays("one")).await?;
        until("new members in place of all", 300, async || Ok(names(stage, "pods")? == called("etcd", &[3, 4, 5])))
            .await?;
        let after = counts_of(&group, &[3, 4, 5]).await?;
        ensure!(after.values().all(|own| !before.values().any(|other| other == own)), "{before:?} and now {after:?}");
        client.goes_on().await?;
        client.lost_nothing().await
    })
}
