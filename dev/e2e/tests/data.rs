//! Volumes that were replaced, came from elsewhere or claim to be newer: nothing is seeded from the wrong data, and an administrator decides.
use crate::outage::make_most_recent;
use crate::takeover::led;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Stage, condition, kubectl, play, term, until, waits};

async fn seeds(group: &Group) -> Result<usize> {
    Ok(group.executions().await?.iter().filter(|e| e.command == "seed").count())
}

/// An administrator's decision, as the runbook has it.
async fn choose(group: &Group, member: &str, sequence: &str, term: u64) -> Result<()> {
    let text = json!({"member": member, "sequence": sequence, "term": term}).to_string();
    group.annotate("tanist.dev/override", &text).await
}

/// What the member's `sequence` prints now.
async fn position(group: &Group, ordinal: u32) -> Result<String> {
    Ok(group.member(ordinal).register("sequence").await?.trim().to_owned())
}

// S24, S15: the volume with the most recent data is lost with its pod while nobody runs. The others are not seeded from older data: the group says
// what is missing. An override that names other data changes nothing; the right one seeds, and says what it was.
#[test]
fn a_lost_volume_is_waited_for_until_an_administrator_decides() -> Outcome {
    play("lostvolume").run(async |stage| {
        let group = stage.register(json!({"resyncIntervalSeconds": 1})).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        make_most_recent(&group, 1, 4).await?;
        let old = stage.operator.pod().await?;
        kubectl(&["delete", "pvc", "data-register-1", "-n", &stage.namespace, "--wait=false"])?;
        group.delete_pods(None).await?;
        let waiting =
            |seen: &Value| waits(seen).contains("ClaimChanged") && condition(seen, "Ready").starts_with("False");
        let seen = group.until("the lost volume is reported", 90, waiting).await?;
        stage.operator.rounds(5.0, 60).await?;
        ensure!(seeds(&group).await? == 1, "a member was seeded from older data");
        ensure!(stage.operator.pod().await? == old, "another operator");

        let known = position(&group, 0).await?;
        ensure!(known.ends_with(":3"), "the position of register-0 is {known}");
        let wrong = known.replace(":3", ":9");
        choose(&group, "register-0", &wrong, term(&seen)).await?;
        group.until("the wrong override is explained", 30, |seen| waits(seen).contains("but the member has")).await?;
        ensure!(seeds(&group).await? == 1, "a wrong override seeded");
        choose(&group, "register-0", &known, term(&seen)).await?;
        let healed = group.ready(90).await?;
        ensure!(term(&healed) > term(&seen), "no new term");
        let history = healed.pointer("/status/record/history").map(Value::to_string).unwrap_or_default();
        ensure!(history.contains("override-used"), "{history}");
        ensure!(seeds(&group).await? == 2, "{} seeds", seeds(&group).await?);
        for member in group.members(3) {
            ensure!(member.count().await? == 3, "register-{} has other rows", member.ordinal);
        }
        Ok(())
    })
}

/// Whatever Tanist noted on the claims is gone, as after a copy of the volumes by a tool that does not copy annotations.
fn forget(stage: &Stage) -> Result<()> {
    let notes = ["term", "sequence", "primaries", "last-primaries"].map(|note| format!("tanist.dev/{note}-"));
    let mut words = vec!["annotate", "pvc", "-n", &stage.namespace, "--all"];
    words.extend(notes.iter().map(String::as_str));
    kubectl(&words).map(drop)
}

// S7, S32: stopped members hold data of which neither the record nor a claim says anything. Nobody is seeded, the condition NeedsAdoption says so,
// and an override decides.
#[test]
fn data_without_memory_needs_an_administrator() -> Outcome {
    play("adoption").run(async |stage| {
        let group = stage.register(json!({"resyncIntervalSeconds": 1})).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        group.delete().await?;
        for member in group.members(3) {
            until("the end of the pods", 60, async || Ok(member.pods.get_opt(&member.name).await?.is_none())).await?;
        }
        forget(stage)?;
        group.create(json!({"resyncIntervalSeconds": 1})).await?;
        let adopt = |seen: &Value| condition(seen, "NeedsAdoption").starts_with("True DataWithoutMemory");
        let seen = group.until("the data without memory", 90, adopt).await?;
        stage.operator.rounds(5.0, 60).await?;
        ensure!(seeds(&group).await? == 1, "a member was seeded from unknown data");
        let known = position(&group, 2).await?;
        choose(&group, "register-2", &known, term(&seen)).await?;
        let healed = group.ready(90).await?;
        ensure!(condition(&healed, "NeedsAdoption").is_empty(), "{}", condition(&healed, "NeedsAdoption"));
        group.rows(3).await
    })
}

// S15, S32: the annotations of a claim say a later term than the record, as after a restore of etcd. Who serves goes on serving, behind its Service;
// the group says which claim it is; without the annotation all is well.
#[test]
fn a_claim_of_a_later_term_takes_nobody_out_of_service() -> Outcome {
    play("laterclaim").run(async |stage| {
        let mut changes = led();
        changes["resyncIntervalSeconds"] = json!(1);
        let group = stage.register(changes).await?;
        let formed = group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let annotate = |value: &str| {
            let note = format!("tanist.dev/term{value}");
            kubectl(&["annotate", "pvc", "data-register-1", "-n", &stage.namespace, "--overwrite", &note])
        };
        let later = format!("={}", term(&formed) + 5);
        annotate(&later)?;
        let seen = group.until("the later term is reported", 30, |seen| waits(seen).contains("ClaimChanged")).await?;
        ensure!(waits(&seen).contains("register-1"), "{}", waits(&seen));
        stage.operator.rounds(5.0, 60).await?;
        let role = |member: u32| {
            let path = "jsonpath={.metadata.labels.tanist\\.dev/role}";
            kubectl(&["get", "pod", "-n", &stage.namespace, &format!("register-{member}"), "-o", path])
        };
        ensure!(role(0)? == "primary", "the primary is {:?}", role(0)?);
        ensure!(role(2)? == "secondary", "register-2 is {:?}", role(2)?);
        ensure!(group.member(0).write(1).await? == 4);
        let now = group.get().await?;
        ensure!(term(&now) == term(&formed), "term {} became {}", term(&formed), term(&now));
        annotate("-")?;
        group.until("the end of the report", 30, |seen| !waits(seen).contains("ClaimChanged")).await?;
        group.ready(60).await?;
        group.copied(4).await
    })
}
