//! Groups that have nothing to do with each other.
use anyhow::ensure;
use serde_json::{Value, json};
use tanist_e2e::{Outcome, condition, play};

// S38, A35: every exec of one group hangs until its deadline, in more members than there are slots; another group forms meanwhile as if it were alone.
#[test]
fn a_group_that_hangs_holds_up_no_other() -> Outcome {
    play("apart").with("TANIST_EXECS", "4").run(async |stage| {
        let hanging = stage.group("hanging");
        let env = json!([
            {"name": "REGISTER_FAULT_status", "value": "hang"},
            {"name": "REGISTER_FAULT_sequence", "value": "hang"}
        ]);
        let commands = json!({"status": {"timeoutSeconds": 300}, "sequence": {"timeoutSeconds": 300}});
        let none = json!({"runner": "None", "replicas": 5, "commands": commands, "container_": {"env": env, "command": ["sleep", "infinity"]}});
        hanging.create(none).await?;
        let asked = async || {
            let mut hang = 0;
            for member in hanging.members(5) {
                let asked = member.exec(&["grep", "-c", "begin", "/data/log.status"]).await?;
                hang += usize::from(asked.code == 0);
            }
            // The others wait for a slot.
            Ok(hang >= 2)
        };
        tanist_e2e::until("statuses that hang", 90, asked).await?;
        let group = stage.register(json!({})).await?;
        group.ready(60).await?;
        let seen = hanging.get().await?;
        ensure!(!condition(&seen, "Ready").starts_with("True"), "{}", condition(&seen, "Ready"));
        ensure!(seen.pointer("/status/record/intents").and_then(Value::as_array).is_none_or(Vec::is_empty));
        Ok(())
    })
}
