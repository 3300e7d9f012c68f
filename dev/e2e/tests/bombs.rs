//! Policies that were made to harm: they cost their own group its progress, and no other group anything.
use crate::takeover::{KILL, led, led_by_another};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Outcome, Source, component, condition, play, text};

/// The memory limit of the operator's pod, in MiB, as deploy/ has it.
const LIMIT: f64 = 512.0;

/// The built-in policy with a further core module of so many functions, each with this body.
fn with_functions(count: usize, body: &[u8]) -> Result<Vec<u8>> {
    let body = [&[0], body, &[0x0b]].concat();
    let code: Vec<u8> = (0..count).flat_map(|_| [leb(body.len()), body.clone()].concat()).collect();
    let section = |id: u8, bytes: Vec<u8>| [vec![id], leb(bytes.len()), bytes].concat();
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, vec![1, 0x60, 0, 0]),
        section(3, [leb(count), vec![0; count]].concat()),
        section(10, [leb(count), code].concat()),
    ];
    Ok([component("sequence")?, section(1, module.concat())].concat())
}

/// A number as WebAssembly writes it.
fn leb(mut number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while number > 127 {
        out.push(u8::try_from(number & 127).unwrap_or_default() | 128);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or_default());
    out
}

/// A component that instantiates the one inside twice, at each of so many levels: a few bytes that become 2 to the power of that.
fn doubling(levels: usize) -> Result<Vec<u8>> {
    let mut inner = "(component $c0)".to_owned();
    for level in 1..=levels {
        let below = level - 1;
        inner = format!(
            "(component $c{level} {inner} (instance (instantiate $c{below})) (instance (instantiate $c{below})))"
        );
    }
    wat::parse_str(inner).context("the bomb is malformed")
}

// H1, H19, H20, H24, P7: components made to take minutes or gigabytes to compile, one that costs as much as the caps allow, one that burns its budget at each
// question, and scripts without an end. Each one's group says what is wrong. Meanwhile the primary of another group dies and is replaced; the
// operator is not restarted, and its memory, with that of its compilations, stays below four fifths of its limit.
#[test]
fn bombs_cost_their_own_groups_alone() -> Outcome {
    play("bombs").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(120).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;

        let burning = json!({"do": "burn", "times": 2_000_000});
        let endless = "def seed(s):\n    for i in range(100000):\n        for j in range(100000):\n            pass\n";
        let bombs: [(&str, &str, Vec<u8>, Value, &str); 7] = [
            (
                "nested",
                "p.wasm",
                with_functions(1, &[[0x03, 0x40].repeat(90_000), [0x0b].repeat(90_000)].concat())?,
                json!({}),
                "NotLoaded",
            ),
            ("loops", "p.wasm", with_functions(1, &[0x03, 0x40, 0x0b].repeat(200_000))?, json!({}), "NotLoaded"),
            ("doubling", "p.wasm", doubling(30)?, json!({}), "NotLoaded"),
            ("dear", "p.wasm", with_functions(35, &[0x03, 0x40, 0x0b].repeat(500))?, json!({}), "Active"),
            ("burning", "p.wasm", component("hostile")?, burning, "Active"),
            ("endless", "p.star", endless.as_bytes().to_vec(), json!({}), "NotLoaded"),
            (
                "never-loaded",
                "p.star",
                format!("x = [0]\n{}", "x = x + x\n".repeat(60)).into_bytes(),
                json!({}),
                "NotLoaded",
            ),
        ];
        let mut hit = Vec::new();
        for (name, key, bytes, parameters, state) in bombs {
            stage.store(name, [(key, Source::Component(bytes))]).await?;
            let other = stage.group(name);
            let policies = json!([{"configMap": {"name": name, "key": key}, "parameters": parameters}]);
            other.create(json!({"replicas": 1, "policies": policies})).await?;
            hit.push((other, state));
        }
        group.member(0).exec(&KILL).await?;
        led_by_another(&group, 0, 60).await?;
        group.rows(3).await?;

        for (other, state) in &hit {
            // What the group lacks is said with the first question, which waits for its pod.
            let is_told = |seen: &Value| *state != "NotLoaded" || condition(seen, "Degraded").starts_with("True");
            let says = |seen: &Value| text(seen, "/status/policies/0/state") == *state && is_told(seen);
            let seen = other.until(state, 60, says).await?;
            if *state == "NotLoaded" {
                ensure!(!text(&seen, "/status/policies/0/message").is_empty(), "{}: no word why", other.name);
            }
        }
        ensure!(stage.operator.restarts().await? == 0, "the operator was restarted");
        let most = stage.operator.most_memory().await?;
        ensure!(most <= 0.8 * LIMIT, "{most:.0} MiB of {LIMIT:.0}");
        Ok(())
    })
}
