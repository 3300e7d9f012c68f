//! Major versions: the data is converted for a later version of the application, by one member while all are stopped, or by a primary that serves.
use crate::memory::wipe;
use crate::takeover::led;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Stage, condition, merge, play, text, waits};

/// Starts the register if the data is of the version of its programs, and of the one that it is told.
const START: &str = r#"
v=$(cat /data/version 2>/dev/null || echo "$PROGRAMS")
[ "$v" = "$PROGRAMS" ] || { echo "programs of version $PROGRAMS, data of version $v" >>/data/refused; exit 9; }
[ "$v" = "${TANIST_VERSION:-}" ] || { echo "told version ${TANIST_VERSION:-none}, data of version $v" >>/data/refused; exit 9; }
echo "$v" >/data/version
exec register "$0" "$@""#;

/// A secondary gives up the data that it has, and copies.
const COPY: &str = r#"register "$0" "$@" && echo "$PROGRAMS" >/data/version"#;

/// Converts the data, also what is converted already, and says which attempts there were. It does not end while it is held there.
const UPGRADE: &str = r#"
echo "$1 $2 $TANIST_VERSION" >>/data/upgrades
[ "$PROGRAMS" = "$2" ] || exit 8
while [ -e /data/hold ]; do sleep 1; done
echo "$2" >/data/version"#;

fn script(script: &str, name: &str, arguments: &[&str]) -> Value {
    let exec: Vec<&str> = ["sh", "-c", script, name].into_iter().chain(arguments.iter().copied()).collect();
    json!({"exec": exec, "timeoutSeconds": 60})
}

/// The containers with programs of that version, and perhaps another image.
fn containers(seen: &Value, version: &str, image: Option<&str>) -> Result<Value> {
    let mut all = seen.pointer("/spec/template/spec/containers").context("a group without containers")?.clone();
    let first = all.pointer_mut("/0").context("no container")?;
    first["env"] = json!([{"name": "PROGRAMS", "value": version}]);
    if let Some(image) = image {
        first["image"] = json!(image);
    }
    Ok(all)
}

async fn create(stage: &Stage, changes: Value) -> Result<Group> {
    let mut all = led();
    let commands = json!({
        "seed": script(START, "seed", &[]),
        "primary": script(START, "primary", &[]),
        "promote": script(START, "promote", &[]),
        "secondary": script(COPY, "secondary", &[]),
        "upgrade": script(UPGRADE, "upgrade", &["$(FROM)", "$(TO)"]),
    });
    let env = json!([{"name": "PROGRAMS", "value": "1"}]);
    merge(&mut all, json!({"version": "1", "commands": commands, "container_": {"env": env}}));
    merge(&mut all, changes);
    let group = stage.register(all).await?;
    group.ready(60).await?;
    group.member(0).write(3).await?;
    group.copied(3).await?;
    Ok(group)
}

/// The user names a version, with the programs of it.
async fn name_version(group: &Group, version: &str, image: Option<&str>) -> Result<()> {
    let containers = containers(&group.get().await?, version, image)?;
    group.change(json!({"version": version, "template": {"spec": {"containers": containers}}})).await
}

/// What is in that file of each member's volume, without the ends of lines.
async fn files(group: &Group, file: &str) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for member in group.members(3) {
        let printed = member.exec(&["sh", "-c", &format!("cat /data/{file} 2>/dev/null || true")]).await?;
        all.push(printed.text.trim().replace('\n', "; "));
    }
    Ok(all)
}

fn has_version(version: &'static str) -> impl Fn(&Value) -> bool {
    move |seen| text(seen, "/status/version") == version && condition(seen, "Ready").starts_with("True")
}

/// Every member has data of that version, nobody was started with other programs, and every row is there.
async fn is_whole(group: &Group, version: &str) -> Result<()> {
    ensure!(files(group, "version").await? == [version; 3], "{:?}", files(group, "version").await?);
    ensure!(files(group, "refused").await? == [""; 3], "{:?}", files(group, "refused").await?);
    group.rows(3).await?;
    group.had_one_primary_at_a_time().await
}

// Major versions: all stop, the member that led converts its data once, though the operator is killed meanwhile, and the others copy it. An earlier version is refused.
#[test]
fn one_member_converts_its_data_and_the_others_copy_it() -> Outcome {
    play("upgrade").run(async |stage| {
        let group = create(stage, json!({})).await?;
        group.member(0).exec(&["touch", "/data/hold"]).await?;
        name_version(&group, "2", None).await?;
        let runs = |seen: &Value| text(seen, "/status/record/intents/0/command") == "upgrade";
        let seen = group.until("the conversion", 120, runs).await?;
        ensure!(condition(&seen, "Degraded").starts_with("False"), "{}", condition(&seen, "Degraded"));
        stage.operator.kill(&stage.operator.pod().await?).await?;
        group.member(0).exec(&["rm", "/data/hold"]).await?;
        let seen = group.until("the group on the new version", 240, has_version("2")).await?;
        is_whole(&group, "2").await?;
        ensure!(files(&group, "upgrades").await? == ["1 2 1", "", ""], "{:?}", files(&group, "upgrades").await?);
        let history = seen.pointer("/status/record/history").cloned().unwrap_or_default().to_string();
        ensure!(history.contains("from version 1 to 2"), "{history}");
        let refused = group.change(json!({"version": "1"})).await;
        let why = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(why.contains("at least the version of the data"), "{why:?}");
        name_version(&group, "2.0.1", None).await?;
        group.until("the next version", 240, has_version("2.0.1")).await.map(drop)
    })
}

// The image of the new template is not there: one secondary waits, the primary serves, and after a while that is reported. Called off, the group goes on with its data.
#[test]
fn a_template_that_cannot_run_costs_one_member() -> Outcome {
    play("upgradeless").run(async |stage| {
        let group = create(stage, json!({"update": {"timeoutSeconds": 20}})).await?;
        let image = text(&group.get().await?, "/spec/template/spec/containers/0/image").to_owned();
        name_version(&group, "2", Some("registry.invalid/register:none")).await?;
        let says = |seen: &Value| waits(seen).contains("register-1 is secondary and is stopped next: register-2");
        group.until("the group to say for whom it waits", 90, says).await?;
        let stuck =
            |seen: &Value| waits(seen).contains("UpdateStuck") && condition(seen, "Degraded").starts_with("True");
        let seen = group.until("the group to be reported", 90, stuck).await?;
        ensure!(text(&seen, "/status/columns/primaries") == "register-0", "the primary goes on");
        group.member(0).write(2).await?;
        name_version(&group, "1", Some(&image)).await?;
        group.until("the group as it was", 120, has_version("1")).await?;
        ensure!(files(&group, "upgrades").await? == [""; 3], "{:?}", files(&group, "upgrades").await?);
        ensure!(files(&group, "version").await? == ["1"; 3], "{:?}", files(&group, "version").await?);
        group.rows(5).await
    })
}

// The status is removed while the command runs, and then its pod: nobody is started with other programs, and the data is converted all the same.
#[test]
fn a_conversion_goes_on_without_status_and_pod() -> Outcome {
    play("upgradelost").run(async |stage| {
        let group = create(stage, json!({})).await?;
        group.member(0).exec(&["touch", "/data/hold"]).await?;
        name_version(&group, "2", None).await?;
        let runs = |seen: &Value| text(seen, "/status/record/intents/0/command") == "upgrade";
        group.until("the conversion", 120, runs).await?;
        wipe(&group).await?;
        group.until("the command to be known again", 60, runs).await?;
        group.member(0).exec(&["rm", "/data/hold"]).await?;
        group.member(0).delete(None).await?;
        group.until("the group on the new version", 300, has_version("2")).await?;
        let upgrades = files(&group, "upgrades").await?;
        ensure!(upgrades[0].starts_with("1 2 1"), "{upgrades:?}");
        is_whole(&group, "2").await
    })
}

// On a primary: the template reaches the members as in any update, then the command runs once, on the primary, which serves meanwhile.
#[test]
fn a_primary_converts_the_data_while_it_serves() -> Outcome {
    play("upgradeled").run(async |stage| {
        let serves = r#"exec register "$0" "$@""#;
        let upgrade = r#"register status; [ $? = 8 ] || exit 7; echo "$1 $2 $PROGRAMS" >>/data/upgrades"#;
        let commands = json!({
            "seed": script(serves, "seed", &[]),
            "primary": script(serves, "primary", &[]),
            "promote": script(serves, "promote", &[]),
            "secondary": script(serves, "secondary", &[]),
            "upgrade": script(upgrade, "upgrade", &[]),
        });
        let group = create(stage, json!({"commands": commands, "update": {"upgradeOn": "Primary"}})).await?;
        name_version(&group, "1.5", None).await?;
        let seen = group.until("the group on the new version", 300, has_version("1.5")).await?;
        let all = files(&group, "upgrades").await?;
        let leads = text(&seen, "/status/columns/primaries").to_owned();
        ensure!(leads != "register-0", "the primary gave up the lead for its pod: {leads}");
        ensure!(all.iter().filter(|line| !line.is_empty()).collect::<Vec<_>>() == ["1 1.5 1.5"], "{all:?}");
        let own: usize = leads.trim_start_matches("register-").parse()?;
        ensure!(!all[own].is_empty(), "{leads} ran it: {all:?}");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}
