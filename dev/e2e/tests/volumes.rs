//! Volumes become larger while the application runs, and never smaller.
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Stage, condition, kubectl, merge, play, text, until, waits};

/// The templates of claims with that size and class.
fn claims(class: &str, size: &str) -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": size}}});
    json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}]})
}

async fn create(stage: &Stage, class: &str) -> Result<Group> {
    let mut spec = claims(class, "16Mi");
    merge(&mut spec, json!({"replicas": 2}));
    stage.register(spec).await
}

/// What the claims of the group have, by their names.
fn capacities(stage: &Stage) -> Result<Vec<String>> {
    let columns = "jsonpath={range .items[*]}{.metadata.name}={.status.capacity.storage} {end}";
    let found = kubectl(&["-n", &stage.namespace, "get", "pvc", "-o", columns])?;
    Ok(found.split_whitespace().map(str::to_owned).collect())
}

async fn uids(group: &Group, count: u32) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for member in group.members(count) {
        found.push(member.uid().await?);
    }
    Ok(found)
}

// docs/rules.md, "Volumes": a larger size reaches the claims of all members, also of those that come later, and no pod is made anew for it. A smaller one
// is refused with a sentence.
#[test]
fn volumes_grow_under_the_application() -> Outcome {
    play("growing").run(async |stage| {
        let group = create(stage, "growing").await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        let pods = uids(&group, 2).await?;

        group.change(claims("growing", "48Mi")).await?;
        let both = ["data-register-0=48Mi", "data-register-1=48Mi"];
        until("both volumes are larger", 60, async || Ok(capacities(stage)? == both)).await?;
        let is_told =
            |seen: &Value| text(seen, "/status/volumes/data/capacity") == "48Mi" && !waits(seen).contains("Volume");
        group.until("the status says it", 30, is_told).await?;
        ensure!(uids(&group, 2).await? == pods, "a pod was made anew");
        // Events are written beside the round.
        let grows = ["-n", &stage.namespace, "get", "events", "--field-selector=reason=VolumeGrows", "-o", "name"];
        until("an event for each volume", 60, async || Ok(kubectl(&grows)?.lines().count() == 2)).await?;

        let smaller = group.change(claims("growing", "32Mi")).await.expect_err("a smaller size was admitted");
        ensure!(format!("{smaller:#}").contains("no volume can be made smaller"), "{smaller:#}");

        let mut grown = claims("growing", "48Mi");
        merge(&mut grown, json!({"replicas": 3}));
        group.change(grown).await?;
        let all = ["data-register-0=48Mi", "data-register-1=48Mi", "data-register-2=48Mi"];
        until("the new member has a larger volume, too", 90, async || Ok(capacities(stage)? == all)).await?;
        group.ready(60).await?;
        group.rows(3).await
    })
}

// docs/rules.md, "Volumes": where the storage class does not allow growth the group says so in the API server's words, goes on, and the size can be set back.
#[test]
fn growth_that_the_class_does_not_allow_is_taken_back() -> Outcome {
    play("rigid").run(async |stage| {
        let group = create(stage, "standard").await?;
        group.ready(60).await?;
        group.change(claims("standard", "48Mi")).await?;
        let is_refused = |seen: &Value| {
            let said = condition(seen, "Degraded");
            said.starts_with("True")
                && said.contains("grow the claim data-register-")
                && said.contains("must support resize")
        };
        group.until("the refusal is shown", 60, is_refused).await?;
        let pod = group.member(1).uid().await?;
        kubectl(&["-n", &stage.namespace, "delete", "pod", "register-1", "--wait=false"])?;
        group.member(1).replaced(&pod, 60).await?;
        let seen = group.ready(60).await?;
        ensure!(is_refused(&seen), "the refusal is not shown any more");

        group.change(claims("standard", "16Mi")).await?;
        group.ready(60).await?;
        group
            .until("nothing is wrong any more", 60, |seen| condition(seen, "Degraded").starts_with("False"))
            .await
            .map(drop)
    })
}
