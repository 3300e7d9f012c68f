//! An author of a policy and a live group: put, try, record, by the command line.
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::PathBuf;
use tanist_e2e::{Group, Outcome, Stage, condition, play, starts, tanist_ended, text};

/// The example: one member leads whenever its data is the most recent.
const PREFER: &str = include_str!("../../../examples/policies/prefer.star");

/// A folder of the author, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(of: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(of);
        std::fs::create_dir_all(&path).context("failed to make a folder")?;
        Ok(Folder(path))
    }

    fn write(&self, name: &str, content: &str) -> Result<String> {
        let path = self.0.join(name);
        std::fs::write(&path, content).context("failed to write a file")?;
        Ok(path.display().to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the temporary folder of the machine.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command and expects that exit code. Returns what it printed.
fn ended(stage: &Stage, code: i32, arguments: &[&str]) -> Result<String> {
    let (found, out, error) = tanist_ended(&stage.namespace, arguments)?;
    ensure!(found == code, "{arguments:?} ended with {found}, not {code}:\n{out}\n{error}");
    Ok(out)
}

/// Ends all members at once and returns who was seeded then.
async fn outage(group: &Group) -> Result<String> {
    let old = group.delete_pods(None).await?;
    group.recovered(&old, 60).await?;
    let seeds: Vec<_> = starts(&group.executions().await?).into_iter().filter(|s| s.starts_with("seed")).collect();
    seeds.last().cloned().context("nobody was seeded")
}

/// Who was chosen by the last seed that the group reports.
fn seeded(seen: &Value) -> Option<&str> {
    let all = seen.pointer("/status/decisions")?.as_array()?;
    all.iter().find(|decision| text(decision, "/point") == "seed").map(|decision| text(decision, "/chosen"))
}

fn mine(member: &str) -> Value {
    json!({"policies": [{"configMap": {"name": "rules", "key": "mine.star"}, "parameters": {"member": member}}]})
}

// S33, P45, P47, P48: a script is put under a running group, which follows; what `try` says is what the group decided; a recorded case gives the same answer without the
// cluster. A script that is refused is not put; one that the group refuses ends with 1 and the last good one decides; a repaired one heals it.
#[test]
fn an_author_puts_tries_and_records() -> Outcome {
    play("author").run(async |stage| {
        let folder = Folder::new(&stage.namespace)?;
        let script = folder.write("mine.star", PREFER)?;
        let group = stage.register(json!({})).await?;
        group.ready(120).await?;
        let out = ended(stage, 0, &["policy", "put", "rules", &script])?;
        ensure!(out.contains(r#"{"configMap": {"name": "rules", "key": "mine.star"}}"#), "{out}");
        group.change(mine("register-1")).await?;
        let out = ended(stage, 0, &["policy", "put", "rules", &script, "--timeout", "30s"])?;
        ensure!(out.contains("/register follows"), "{out}");
        ensure!(outage(&group).await? == "seed 1", "the script did not decide");

        let live = group.get().await?;
        let tried = ended(stage, 0, &["policy", "try", "register", &script, "--question", "seed", "-o", "json"])?;
        let tried: Value = serde_json::from_str(&tried).context("not JSON")?;
        let (with, present) = (
            text(&tried, "/cases/0/with/verdict/ranking/0/member"),
            text(&tried, "/cases/0/present/verdict/ranking/0/member"),
        );
        ensure!(seeded(&live) == Some(with) && with == "register-1" && present == with, "{tried:#}");
        let (other, parameters) = (folder.write("other.star", PREFER)?, r#"{"member": "register-2"}"#);
        let tried =
            ended(stage, 0, &["policy", "try", "register", &other, "--parameters", parameters, "--question", "seed"])?;
        ensure!(tried.contains("seed: choose register-2") && tried.contains("now: choose register-1"), "{tried}");
        ensure!(group.get().await?.pointer("/spec") == live.pointer("/spec"), "try changed the group");

        let recorded = ended(stage, 0, &["policy", "snapshot", "register", "--question", "seed"])?;
        let cases = folder.write("mine.cases.yaml", &recorded)?;
        let ran = ended(stage, 0, &["policy", "run", &script, "--snapshot", &cases])?;
        ensure!(ran.contains("seed: choose register-1"), "{ran}");

        // What the gates refuse does not reach the cluster.
        let typo = folder.write("typo.star", &PREFER.replace("choose(", "chose("))?;
        ended(stage, 1, &["policy", "put", "rules", &typo, "--key", "mine.star"])?;
        ensure!(condition(&group.get().await?, "PolicyActive").starts_with("True"), "a typo reached the group");
        // The gates do not know the group's parameters.
        let strict = folder.write(
            "strict.star",
            &PREFER
                .replace("\"required\": [\"member\"]", "\"required\": [\"member\", \"zone\"]")
                .replace("\"properties\": {", "\"properties\": {\"zone\": {\"type\": \"string\"}, "),
        )?;
        let out = ended(stage, 1, &["policy", "put", "rules", &strict, "--key", "mine.star", "--timeout", "30s"])?;
        ensure!(out.contains("/register keeps what it had") && out.contains("parameters do not fit"), "{out}");
        ensure!(outage(&group).await? == "seed 1", "the last good script did not decide");

        let out = ended(stage, 0, &["policy", "put", "rules", &script, "--timeout", "60s"])?;
        ensure!(out.contains("/register follows"), "{out}");
        let healed = |seen: &Value| condition(seen, "PolicyActive").starts_with("True");
        group.until("the repaired script", 10, healed).await?;
        ensure!(stage.operator.restarts().await? == 0, "the operator was restarted");
        Ok(())
    })
}
