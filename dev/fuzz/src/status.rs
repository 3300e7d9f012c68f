//! The status frame with which the API server ends an execution.
use crate::sentence;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;
use tanist_cluster::exec::judge;
use tanist_core::evidence::{Ended, Output};

/// The bytes as the JSON of a status, with and without output.
pub fn run(bytes: &[u8]) {
    let Ok(raw) = serde_json::from_slice::<Value>(bytes) else { return };
    let Ok(status) = serde_json::from_value::<Status>(raw.clone()) else { return };
    let printed = |text: &[u8]| Output { stdout: text.to_vec(), cut: false };
    for (output, complaint) in [(&b""[..], &b""[..]), (b"x", b""), (b"", b"y")] {
        match judge(&status, printed(output), &printed(complaint)) {
            Ended::Exited(code, kept) => {
                assert_eq!(kept, printed(output));
                assert!(says(&raw, code), "exit code {code} was not said: {raw}");
            }
            Ended::NotStarted(why) => {
                assert!(output.is_empty(), "what printed something was started");
                sentence::check(&why, 256, bytes);
            }
            Ended::Unknown(why) => sentence::check(&why, 256, bytes),
        }
    }
}

/// Whether the frame says this code in the one form that counts. Read by the names of the fields, and not by the types.
fn says(raw: &Value, code: i32) -> bool {
    let text = |name| raw.get(name).and_then(Value::as_str);
    if text("status") == Some("Success") {
        return code == 0;
    }
    let causes = raw.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten();
    let said = causes.filter(|cause| cause.get("reason").and_then(Value::as_str) == Some("ExitCode"));
    let said = said.map(|cause| cause.get("message").and_then(Value::as_str)).next().flatten();
    text("reason") == Some("NonZeroExitCode") && code != 0 && said == Some(code.to_string().as_str())
}
