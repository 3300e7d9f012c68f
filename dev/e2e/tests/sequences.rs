//! Sequences that cannot be read.
use anyhow::ensure;
use serde_json::{Value, json};
use tanist_e2e::{Outcome, condition, play, starts};

// A5, A6, S10, S11, S39: each unreadable output blocks the seed and is reported; none counts as a number; once it can be read the group goes on.
#[test]
fn an_unreadable_sequence_blocks_the_seed() -> Outcome {
    play("sequences").run(async |stage| {
        let env = json!([{"name": "REGISTER_FAULT_sequence", "value": "register-1:output -1"}]);
        let group = stage.register(json!({"replicas": 2, "container_": {"env": env}})).await?;
        for (fault, sentence) in [
            ("", "not an unsigned decimal number"),
            ("output 7 8", "more than one word"),
            ("output 18446744073709551616", "a number above 18446744073709551615"),
            ("flood 10000000", "sequence printed"),
            ("output ", "sequence printed nothing"),
            ("fail 3", "sequence exited 3"),
        ] {
            if !fault.is_empty() {
                group.member(1).fault("sequence", fault).await?;
            }
            let says = |seen: &Value| {
                let waits = seen.pointer("/status/awaiting").map(Value::to_string).unwrap_or_default();
                waits.contains("PositionUnknown") && waits.contains(sentence) && waits.contains("register-1")
            };
            let seen = group.until(&format!("{sentence:?}"), 60, says).await?;
            let degraded = condition(&seen, "Degraded");
            ensure!(
                degraded.starts_with("True PositionUnknown") && degraded.contains("may be the most recent"),
                "{degraded}"
            );
        }
        let journal = [group.member(0).journal().await?, group.member(1).journal().await?].concat();
        let started = starts(&tanist_e2e::executions(&journal));
        ensure!(started.is_empty(), "{started:?}");
        group.member(1).fault("sequence", "clear").await?;
        group.ready(60).await.map(drop)
    })
}
