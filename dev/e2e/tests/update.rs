//! A changed template: the pods are replaced one after the other, the primary last, and clients lose nothing.
use crate::takeover::led;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Instant;
use tanist_e2e::{
    EtcdClient, Group, Outcome, batches, condition, counts, edition, editions, merge, play, tanist, text, until, waits,
    with_image,
};

pub async fn updated(group: &Group, members: u32, number: u32, seconds: u64) -> Result<Value> {
    let all = vec![number.to_string(); members as usize];
    until("every pod to have the template", seconds, async || Ok(editions(group, members).await? == all)).await?;
    let counts = |seen: &Value| seen.pointer("/status/updatedReplicas") == Some(&json!(members));
    group.until("the group to say so", 60, |seen| is_done(seen) && counts(seen)).await
}

/// The UIDs of three members' pods.
pub async fn uids(group: &Group) -> Result<Vec<String>> {
    let members = group.members(3);
    futures::future::try_join_all(members.iter().map(|member| member.uid())).await
}

fn is_done(seen: &Value) -> bool {
    condition(seen, "Ready").starts_with("True") && condition(seen, "UpdatePending").is_empty()
}

// B6, C74, E32, E33: the secondaries get new pods from the highest ordinal, then the primary gives up the lead and gets one; every row is there. The operator is killed meanwhile.
#[test]
fn a_changed_template_reaches_every_member() -> Outcome {
    play("update").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let began = Instant::now();
        group.change(edition(2)).await?;
        until("the first pod to be replaced", 60, async || Ok(editions(&group, 3).await?[2] == "2")).await?;
        let first = editions(&group, 3).await?;
        ensure!(first[0] == "-" && first[1] == "-", "one after the other, from the highest ordinal: {first:?}");
        stage.operator.kill(&stage.operator.pod().await?).await?;
        let seen = updated(&group, 3, 2, 180).await?;
        println!("three members have the template after {:.1} s", began.elapsed().as_secs_f64());
        let leads = text(&seen, "/status/columns/primaries").to_owned();
        ensure!(leads != "register-0", "the primary gave up the lead: {leads}");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await?;
        let history = seen.pointer("/status/record/history").cloned().unwrap_or_default().to_string();
        ensure!(history.matches("it has an older template than the group").count() == 3, "{history}");
        ensure!(history.contains("switched-over"), "{history}");

        let before = uids(&group).await?;
        let said = tanist(&stage.namespace, &["restart", "register", "--timeout", "240"])?;
        ensure!(said.contains("every member was restarted"), "{said}");
        let after = uids(&group).await?;
        ensure!(before.iter().all(|uid| !after.contains(uid)), "{before:?} and now {after:?}");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

// B27, batch All: the four secondaries get new pods together, then the primary gives up the lead; every row is there.
#[test]
fn all_secondaries_are_updated_together() -> Outcome {
    play("together").run(async |stage| {
        let mut changes = led();
        merge(&mut changes, json!({"replicas": 5, "update": {"batch": "All"}}));
        let group = stage.register(changes).await?;
        group.ready(120).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let began = Instant::now();
        group.change(edition(2)).await?;
        let seen = updated(&group, 5, 2, 240).await?;
        println!("five members have the template after {:.1} s", began.elapsed().as_secs_f64());
        let batches = batches(&seen);
        let first = ["register-4", "register-3", "register-2", "register-1"].map(str::to_owned).to_vec();
        ensure!(batches == [first, vec!["register-0".to_owned()]], "{batches:?}");
        ensure!(text(&seen, "/status/columns/primaries") != "register-0", "the primary gave up the lead");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

// E5, E36, E38: the image is there and lacks the program of the commands: `status` says nothing. The others go on serving, and the next template is the cure.
#[test]
fn a_template_without_the_program_is_cured_by_the_next_one() -> Outcome {
    play("lacking").run(async |stage| {
        let mut changes = led();
        changes["update"] = json!({"timeoutSeconds": 20});
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let (mut cure, broken) = with_image(&group.get().await?, "tanist.local/tanist:dev")?;
        group.change(broken).await?;
        let goes_on = |seen: &Value| text(seen, "/status/columns/primaries") == "register-0";
        let is_stuck = |seen: &Value| waits(seen).contains("UpdateStuck") && goes_on(seen);
        let stuck = group.until("the update to be stuck, and the primary to go on", 120, is_stuck).await?;
        println!("{}", waits(&stuck));
        group.member(0).write(2).await?;
        merge(&mut cure, edition(3));
        group.change(cure).await?;
        updated(&group, 3, 3, 240).await?;
        group.rows(5).await?;
        group.had_one_primary_at_a_time().await
    })
}

// E5, E35, E36, E38: a template whose image is not there stops at the first member, and the others go on serving; that is reported. The next template is the cure.
#[test]
fn a_broken_template_stops_and_is_cured_by_the_next_one() -> Outcome {
    play("cure").run(async |stage| {
        let mut changes = led();
        changes["update"] = json!({"timeoutSeconds": 15});
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let (mut cure, broken) = with_image(&group.get().await?, "registry.invalid/register:none")?;
        group.change(broken).await?;
        let is_said = |seen: &Value| {
            let waits = waits(seen);
            let is_reported = waits.contains("UpdateStuck") && waits.contains("PodCannotStart");
            is_reported
                && condition(seen, "Degraded").starts_with("True")
                && text(seen, "/status/columns/primaries") == "register-0"
        };
        group.until("the update to be stuck, and why, and the primary to go on", 120, is_said).await?;
        let two = (group.member(0).uid().await?, group.member(1).uid().await?);
        group.member(0).write(2).await?;

        merge(&mut cure, edition(3));
        group.change(cure).await?;
        updated(&group, 3, 3, 180).await?;
        ensure!(two != (group.member(0).uid().await?, group.member(1).uid().await?), "they were updated, too");
        group.rows(5).await?;
        group.had_one_primary_at_a_time().await
    })
}

// A3, E5: the group grows with an image that does not exist. The new member never starts, and whoever asked for it takes that back: it leaves, and the others go on meanwhile.
#[test]
fn a_member_that_never_started_leaves_again() -> Outcome {
    play("never").run(async |stage| {
        let mut changes = led();
        changes["update"] = json!({"paused": true});
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let (cure, mut broken) = with_image(&group.get().await?, "registry.invalid/register:none")?;
        merge(&mut broken, json!({"replicas": 4}));
        group.change(broken).await?;
        let never_starts = |seen: &Value| {
            let waits = waits(seen);
            waits.contains("PodCannotStart") && waits.contains("register-3")
        };
        group.until("the new member not to start", 90, never_starts).await?;
        group.change(json!({"replicas": 3})).await?;
        until("its pod to be gone", 60, async || Ok(group.member(3).pod().await.is_err())).await?;
        group.change(cure).await?;
        group.until("the group to be as before", 60, is_done).await?;
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

// S40, B6: a changed `status` reaches the members, whose runners go on with the one that they were started with, as a changed template does: one after the other, the primary last.
#[test]
fn a_changed_status_command_reaches_every_member() -> Outcome {
    play("status").run(async |stage| {
        let mut changes = led();
        changes["resyncIntervalSeconds"] = json!(5);
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let before = uids(&group).await?;
        let status = json!({"exec": ["sh", "-c", "exec register status"], "timeoutSeconds": 2});
        group.change(json!({"commands": {"status": status}})).await?;
        let replaced = async || {
            let now = uids(&group).await.unwrap_or_default();
            Ok(now.len() == 3 && before.iter().all(|uid| !now.contains(uid)))
        };
        until("every pod to be replaced", 240, replaced).await?;
        let seen = group.ready(60).await?;
        ensure!(text(&seen, "/status/columns/primaries") != "register-0", "the primary gave up the lead");
        let after = uids(&group).await?;
        stage.operator.rounds(5.0, 60).await?;
        ensure!(uids(&group).await? == after, "pods were replaced once more");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

// B27: `paused` stops an update where it is. Ten templates within seconds end with the last one.
#[test]
fn an_update_waits_for_people_and_the_last_template_wins() -> Outcome {
    play("waits").run(async |stage| {
        let mut changes = led();
        changes["update"] = json!({"paused": true});
        changes["resyncIntervalSeconds"] = json!(1);
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        for number in 2..=10 {
            group.change(edition(number)).await?;
        }
        let said = |seen: &Value| condition(seen, "UpdatePending").contains("spec.update.paused is false");
        group.until("the pause to be said", 60, said).await?;
        stage.operator.rounds(3.0, 60).await?;
        ensure!(editions(&group, 3).await? == ["-", "-", "-"], "{:?}", editions(&group, 3).await?);
        group.change(json!({"update": {"paused": false}})).await?;
        updated(&group, 3, 10, 180).await?;
        group.had_one_primary_at_a_time().await
    })
}

// C74: three members of etcd get new pods under a client, and each keeps its identity.
#[test]
fn members_that_agree_are_updated_under_a_client() -> Outcome {
    play("quorate").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3})).await?;
        let before = counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        let began = Instant::now();
        group.change(edition(2)).await?;
        updated(&group, 3, 2, 240).await?;
        println!("etcd's three members have the template after {:.1} s", began.elapsed().as_secs_f64());
        ensure!(counts(&group, 3).await? == before, "{before:?}");
        client.goes_on().await?;
        client.lost_nothing().await
    })
}

/// The revisions of a group as `tanist history` says: number, whether it is the present one, its members, its edition.
fn history(group: &Group) -> Result<Vec<(u64, bool, usize, String)>> {
    let said = tanist(&group.namespace, &["history", &group.name, "-o", "json"])?;
    let all: Vec<Value> = serde_json::from_str(&said).context("tanist history")?;
    let row = |revision: &Value| {
        let edition = revision.pointer("/template/metadata/labels/example.org~1edition").and_then(Value::as_str);
        let members = revision["members"].as_array().map_or(0, Vec::len);
        let present = revision["present"].as_bool().unwrap_or_default();
        (revision["revision"].as_u64().unwrap_or_default(), present, members, edition.unwrap_or("-").to_owned())
    };
    Ok(all.iter().map(row).collect())
}

// E3: each template is kept under a number and comes back by it, one member after the other; clients lose nothing. A new operator counts on, and what is too old goes.
#[test]
fn a_former_template_comes_back() -> Outcome {
    play("revisions").run(async |stage| {
        let mut changes = led();
        merge(&mut changes, json!({"update": {"revisionHistoryLimit": 1}}));
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let row = |number, present, members, edition: &str| (number, present, members, edition.to_owned());
        let becomes = async |what: &str, rows: Vec<(u64, bool, usize, String)>| {
            until(what, 60, async || Ok(history(&group)? == rows))
                .await
                .with_context(|| format!("{:?}", history(&group)))
        };
        becomes("the first template to be kept", vec![row(1, true, 3, "-")]).await?;
        group.change(edition(2)).await?;
        updated(&group, 3, 2, 180).await?;
        becomes("the second one", vec![row(1, false, 0, "-"), row(2, true, 3, "2")]).await?;

        let said = tanist(&stage.namespace, &["diff", &group.name])?;
        ensure!(
            said.contains("--- revision 1")
                && said.lines().any(|l| l.starts_with('+') && l.contains("example.org/edition")),
            "{said}"
        );
        let said = tanist(&stage.namespace, &["rollback", &group.name, "--dry-run"])?;
        ensure!(said.contains("+++ revision 1"), "{said}");
        ensure!(history(&group)?.len() == 2, "a dry run changes nothing");

        stage.operator.kill(&stage.operator.pod().await?).await?;
        let said = tanist(&stage.namespace, &["rollback", &group.name, "--timeout", "240"])?;
        ensure!(said.contains("every member has the template of revision 1 again"), "{said}");
        becomes("the first template to be kept under a new number", vec![row(2, false, 0, "2"), row(3, true, 3, "-")])
            .await?;
        group.change(edition(4)).await?;
        updated(&group, 3, 4, 180).await?;
        becomes("the oldest to go", vec![row(3, false, 0, "-"), row(4, true, 3, "4")]).await?;
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

// E35, E38: a template that does not work is given up in time, pods go back to the one before, and the spec stays. The operator is killed meanwhile; the next template is a new try.
#[test]
fn a_template_that_does_not_work_is_rolled_back() -> Outcome {
    play("rollback").run(async |stage| {
        let mut changes = led();
        merge(&mut changes, json!({"update": {"timeoutSeconds": 20, "onFailure": "RollBack"}}));
        let group = stage.register(changes).await?;
        let seen = group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let (_, broken) = with_image(&seen, "tanist.local/no-such-image:1")?;
        until("the template to be kept", 60, async || Ok(history(&group)?.len() == 1)).await?;
        let began = Instant::now();
        group.change(broken).await?;
        let is_given_up = |seen: &Value| waits(seen).contains("RolledBack");
        group.until("the template to be given up", 120, is_given_up).await?;
        stage.operator.kill(&stage.operator.pod().await?).await?;
        let is_back = |seen: &Value| condition(seen, "Ready").starts_with("False RolledBack");
        let seen = group.until("every member to be back in its role", 120, is_back).await?;
        println!("back after {:.1} s", began.elapsed().as_secs_f64());
        ensure!(
            seen.pointer("/status/updatedReplicas").and_then(Value::as_u64).unwrap_or(0) == 0,
            "no pod has spec.template"
        );
        let image = seen.pointer("/spec/template/spec/containers/0/image").cloned().unwrap_or_default();
        ensure!(image == "tanist.local/no-such-image:1", "the spec is the user's: {image}");
        let degraded = condition(&seen, "Degraded");
        ensure!(degraded.starts_with("True RolledBack") && degraded.contains("image"), "{degraded}");
        let rows: Vec<_> =
            history(&group)?.into_iter().map(|(number, present, members, _)| (number, present, members)).collect();
        ensure!(rows == [(2, true, 0), (3, false, 3)], "{rows:?}");
        group.rows(3).await?;

        // The same by hand: the spec gets the template that pods have, and nobody is replaced.
        let before = uids(&group).await?;
        let said = tanist(&stage.namespace, &["rollback", &group.name, "--timeout", "60"])?;
        ensure!(said.contains("every member has the template of revision 3 again"), "{said}");
        ensure!(uids(&group).await? == before, "the pods have it already");
        group.change(edition(2)).await?;
        updated(&group, 3, 2, 180).await?;
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}
