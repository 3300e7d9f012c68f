//! Executes one command in a container, through API server and kubelet. The outcome has three values: exited, not started and unknown.
//!
//! Every await has a deadline of its own, nothing below retries, the output is bounded. `Success` and exit codes are taken only from an
//! explicit status frame; a stream that just ends is unknown (docs/rules.md, "Execution through the API server").
use crate::api_error;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause};
use kube::Api;
use kube::api::{AttachParams, AttachedProcess};
use std::time::{Duration, Instant};
use tanist_core::evidence::{Ended, Output};
use tanist_protocol::frame::{STDERR_KEPT, STDOUT_KEPT};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of output that are stored; the rest is read and dropped (docs/safety.md, S39).
const KEPT_BYTES: usize = 96 * 1024;

// The runner's largest answer has room: the output of a command, and the first and last lines of two frames.
const _: () = assert!(STDOUT_KEPT + STDERR_KEPT + 4096 <= KEPT_BYTES);

/// How long output is still read after the status frame.
const AFTER_STATUS: Duration = Duration::from_millis(500);

/// How long to wait for the status frame after the end of the output.
const AFTER_OUTPUT: Duration = Duration::from_secs(5);

/// Characters of the API server's reason that are repeated: enough for the name of a webhook, its address and its error.
const SAID: usize = 400;

/// Executes argv in a container of a pod.
pub async fn exec(pods: &Api<Pod>, pod: &str, container: &str, argv: &[String], deadline: Duration) -> Ended {
    let params = AttachParams::default().container(container).stdin(false).stdout(true).stderr(true);
    let started = Instant::now();
    let ended = match tokio::time::timeout(deadline, attached(pods, pod, argv, &params)).await {
        Ok(ended) => ended,
        Err(_) => Ended::Unknown(format!("no answer within {} s", deadline.as_secs())),
    };
    tracing::debug!(pod, argv = argv.join(" "), ms = started.elapsed().as_secs_f64() * 1000.0, "executed");
    ended
}

#[expect(clippy::disallowed_methods, reason = "`exec` has the deadline")]
async fn attached(pods: &Api<Pod>, pod: &str, argv: &[String], params: &AttachParams) -> Ended {
    let mut process = match pods.exec(pod, argv, params).await {
        Ok(process) => process,
        Err(error) => return refused(&error),
    };
    let (Some(status), Some(stdout), Some(stderr)) = (process.take_status(), process.stdout(), process.stderr()) else {
        return Ended::Unknown("the stream could not be read".into());
    };
    let mut output = Output::default();
    let mut complaint = Output::default();
    // After an error of the stream, kube's readers may never reach their end. So the status frame decides when to stop reading.
    let (status, whole) = {
        let reading = async { tokio::join!(drain(stdout, &mut output), drain(stderr, &mut complaint)) };
        tokio::pin!(reading, status);
        tokio::select! {
            status = &mut status => {
                // What was printed before the status frame is already in the pipes. Without one nothing that was printed counts.
                let read = status.is_some() && tokio::time::timeout(AFTER_STATUS, &mut reading).await.is_ok();
                (status, read)
            }
            _ = &mut reading => (tokio::time::timeout(AFTER_OUTPUT, &mut status).await.unwrap_or_default(), true),
        }
    };
    // Another process still holds the output open, so what was read may be incomplete.
    output.cut |= !whole;
    finish(process);
    match status {
        Some(status) => judge(&status, output, &complaint),
        None => Ended::Unknown("the stream ended without a status".into()),
    }
}

/// Dropping aborts the task behind the stream; `join` could wait for ever.
fn finish(process: AttachedProcess) {
    drop(process);
}

async fn drain(mut from: impl AsyncRead + Unpin, into: &mut Output) {
    let mut chunk = vec![0_u8; 16 * 1024];
    while let Ok(n) = from.read(&mut chunk).await {
        let Some(bytes) = chunk.get(..n).filter(|b| !b.is_empty()) else { return };
        let room = KEPT_BYTES.saturating_sub(into.stdout.len());
        into.cut |= bytes.len() > room;
        into.stdout.extend(bytes.iter().take(room));
    }
}

/// The refusals that the API server decides alone, before it speaks with a kubelet: code and reason of a `Status` of its own.
///
/// Not in this list: 408, 409, 429 and 5xx, which may be temporary or come from behind the API server; and every answer without a `Status`,
/// because kubelets and proxies answer in plain text, and what they did before is unknown.
const REFUSALS: [(u16, &str); 6] = [
    (400, "BadRequest"),
    (401, "Unauthorized"),
    (403, "Forbidden"),
    (404, "NotFound"),
    (405, "MethodNotAllowed"),
    (422, "Invalid"),
];

/// The reason that kube gives when the body is no `Status`.
const NO_STATUS: &str = "Failed to parse error data";

/// The outcome of a request that failed: not started if the API server itself refused it, else unknown.
fn refused(error: &kube::Error) -> Ended {
    match error {
        kube::Error::Api(status) => {
            let said = match status.reason.as_str() {
                "" | NO_STATUS => format!("the answer was {}", status.code),
                _ => format!("the API server answered {}", bounded(&api_error::words(error))),
            };
            match REFUSALS.contains(&(status.code, status.reason.as_str())) {
                true => Ended::NotStarted(said),
                false => Ended::Unknown(said),
            }
        }
        other => Ended::Unknown(format!("the connection failed: {}", first_line(&other.to_string()))),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(160).collect()
}

/// The beginning of what the API server said, for statuses and logs. It says nothing that a command has printed: the request failed before.
fn bounded(text: &str) -> String {
    text.chars().take(SAID).collect()
}

/// Reads the status frame by its structure. One that says something else as well, or less than kubelets say, is unknown. `complaint`: what the program printed as
/// errors.
#[must_use]
pub fn judge(status: &Status, output: Output, complaint: &Output) -> Ended {
    let causes = status.details.as_ref().and_then(|details| details.causes.as_deref()).unwrap_or_default();
    let reason = status.reason.as_deref().unwrap_or_default();
    match (status.status.as_deref(), reason) {
        (Some("Success"), "") if causes.is_empty() => Ended::Exited(0, output),
        (Some("Failure"), "NonZeroExitCode") => match exit_code(causes) {
            Some(code) => Ended::Exited(code, output),
            None => Ended::Unknown("the exit code could not be read".into()),
        },
        // A program that printed something did run.
        (Some("Failure"), "InternalError")
            if status.message.as_deref().is_some_and(is_missing)
                && output.stdout.is_empty()
                && complaint.stdout.is_empty() =>
        {
            Ended::NotStarted("the program could not be executed in the container".into())
        }
        _ => {
            let messages = if complaint.stdout.is_empty() { "" } else { ", with messages" };
            Ended::Unknown(format!("the kubelet reported an error of its own{messages}"))
        }
    }
}

/// The exit code among the causes of a status that says that it is not 0, in the one form in which kubelets write it. `None`: there is none, more than one, one
/// in another form, or one that no process exits with.
fn exit_code(causes: &[StatusCause]) -> Option<i32> {
    let mut codes = causes.iter().filter(|cause| cause.reason.as_deref() == Some("ExitCode"));
    let (Some(code), None) = (codes.next(), codes.next()) else { return None };
    let text = code.message.as_deref()?;
    let code: u8 = text.parse().ok()?;
    (code != 0 && code.to_string() == text).then_some(i32::from(code))
}

/// Whether the runtime reports that it could not execute the program. The failing call has to be named, because a runtime that loses its own
/// files while the program runs reports "no such file or directory" too.
fn is_missing(message: &str) -> bool {
    let from_exec = message.split_once("unable to start container process: exec: ").map(|(_, rest)| rest);
    message.contains("executable file not found in $PATH")
        || from_exec
            .is_some_and(|rest| ["no such file or directory", "permission denied"].iter().any(|w| rest.contains(w)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails;
    use std::collections::BTreeMap;

    fn failure(reason: &str, code: Option<&str>, message: &str) -> Status {
        let causes =
            code.map(|c| vec![StatusCause { reason: Some("ExitCode".into()), message: Some(c.into()), field: None }]);
        Status {
            status: Some("Failure".into()),
            reason: Some(reason.into()),
            message: Some(message.into()),
            details: Some(StatusDetails { causes, ..Default::default() }),
            ..Default::default()
        }
    }

    // A36, docs/requirements.md, reading 20: a broken exec is unknown, never an exit code.
    #[test]
    fn only_an_explicit_frame_is_an_exit_code() {
        let out = Output::default;
        let success = Status { status: Some("Success".into()), ..Default::default() };
        assert_eq!(judge(&success, out(), &out()), Ended::Exited(0, out()));
        assert_eq!(judge(&failure("NonZeroExitCode", Some("7"), ""), out(), &out()), Ended::Exited(7, out()));
        for odd in [
            failure("NonZeroExitCode", Some("seven"), ""),
            failure("NonZeroExitCode", Some("0"), ""),
            failure("NonZeroExitCode", Some("+7"), ""),
            failure("NonZeroExitCode", Some("07"), ""),
            failure("NonZeroExitCode", Some("2147483648"), ""),
            failure("NonZeroExitCode", None, "command terminated with exit code 7"),
            failure("InternalError", Some("7"), "error dialing backend: connection reset"),
            Status::default(),
        ] {
            assert!(matches!(judge(&odd, out(), &out()), Ended::Unknown(_)), "{odd:?}");
        }
    }

    #[test]
    fn a_missing_program_was_not_started() {
        let said =
            |message: &str| judge(&failure("InternalError", None, message), Output::default(), &Output::default());
        for missing in [
            "OCI runtime exec failed: exec: \"nope\": executable file not found in $PATH",
            "OCI runtime exec failed: exec failed: unable to start container process: exec: \"/nope\": stat /nope: no such file or directory",
            "OCI runtime exec failed: exec failed: unable to start container process: exec: \"/etc\": permission denied",
        ] {
            assert!(matches!(said(missing), Ended::NotStarted(_)), "{missing}");
        }
        // These messages may be about a program that runs, or come from behind the API server.
        for odd in [
            "error dialing backend: dial unix /run/containerd/s/1: connect: no such file or directory",
            "failed to create exec task: permission denied",
            "unable to upgrade connection: container not found (\"db\")",
        ] {
            assert!(matches!(said(odd), Ended::Unknown(_)), "{odd}");
        }
        let printed = Output { stdout: b"x".to_vec(), cut: false };
        let status = failure("InternalError", None, "executable file not found in $PATH");
        assert!(matches!(judge(&status, printed, &Output::default()), Ended::Unknown(_)), "it printed something");
    }

    // The reason tells a missing right, a webhook that is down and a kubelet that cannot be reached apart: users need to know which one.
    #[test]
    fn a_request_that_failed_is_told_in_the_api_servers_words() {
        let failed = |code: u16, reason: &str, message: &str| match refused(&kube::Error::Api(
            kube::core::Status::failure(message, reason).with_code(code).boxed(),
        )) {
            Ended::NotStarted(why) | Ended::Unknown(why) => why,
            other => panic!("{other:?}"),
        };
        let webhook = "Internal error occurred: failed calling webhook \"w.example.org\": no endpoints available for service \"w\"";
        assert_eq!(
            failed(500, "InternalError", webhook),
            format!(
                "the API server answered internal error (500): {webhook}; repair that webhook, or remove its configuration"
            )
        );
        let forbidden = "pods \"db-0\" is forbidden: User \"tanist\" cannot create resource \"pods/exec\"";
        assert_eq!(
            failed(403, "Forbidden", forbidden),
            format!("the API server answered forbidden (403): {forbidden}")
        );
        assert_eq!(failed(502, NO_STATUS, "<html>"), "the answer was 502", "a proxy's page is not repeated");
        assert!(failed(500, "InternalError", &"x".repeat(9_999)).len() < 500);
    }

    // For every code: only a refusal by the API server itself, in a `Status`, proves that nothing ran.
    #[test]
    fn a_refusal_proves_something_only_where_the_api_server_decides_alone() {
        let answer = |code: u16, reason: &str| {
            refused(&kube::Error::Api(kube::core::Status::failure("no", reason).with_code(code).boxed()))
        };
        let own = BTreeMap::from([
            (400, "BadRequest"),
            (401, "Unauthorized"),
            (403, "Forbidden"),
            (404, "NotFound"),
            (405, "MethodNotAllowed"),
            (422, "Invalid"),
        ]);
        for code in 0..600 {
            let proven = |reason| matches!(answer(code, reason), Ended::NotStarted(_));
            let reason = own.get(&code).copied();
            assert_eq!(proven(reason.unwrap_or("Conflict")), reason.is_some(), "{code}");
            // How kube presents a body that is no `Status`: the answer of a kubelet or a proxy.
            assert!(!proven(NO_STATUS), "{code}");
            assert!(!proven(""), "{code}");
            let http = http::StatusCode::from_u16(code);
            let switch =
                http.map(|c| kube::Error::UpgradeConnection(kube::client::UpgradeConnectionError::ProtocolSwitch(c)));
            assert!(switch.iter().all(|e| matches!(refused(e), Ended::Unknown(_))), "{code}");
        }
    }
}
