//! How a server says how an execution ended: `Status` objects on channel 3, and answers in place of the upgrade.
use super::dice::Dice;
use super::talk::{ACCEPT, Effect, Piece, Said};
use serde_json::{Value, json};

/// The refusals of the API server itself. Nothing was started.
const OWN: [(u16, &str); 6] = [
    (400, "BadRequest"),
    (401, "Unauthorized"),
    (403, "Forbidden"),
    (404, "NotFound"),
    (405, "MethodNotAllowed"),
    (422, "Invalid"),
];

/// Codes that may come from behind the API server, with the reason that a `Status` has for them.
const OTHERS: [(u16, &str); 9] = [
    (408, "Timeout"),
    (409, "Conflict"),
    (410, "Gone"),
    (413, "RequestEntityTooLarge"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
    (502, "BadGateway"),
    (503, "ServiceUnavailable"),
    (504, "Timeout"),
];

/// A `Status` and what it says.
pub struct Told {
    pub what: &'static str,
    pub bytes: Vec<u8>,
    pub said: Said,
    /// Whether a kubelet says this in good order.
    pub is_fault: bool,
}

fn told(what: &'static str, said: Said, status: &Value) -> Told {
    Told { what, bytes: status.to_string().into_bytes(), said, is_fault: said == Said::Unclear }
}

/// The success of a command.
pub fn success() -> Told {
    told("success", Said::Exited(0), &json!({"metadata": {}, "status": "Success"}))
}

/// An exit code as kubelets tell it.
pub fn exit(code: i32) -> Told {
    let said = if code == 0 { Said::Unclear } else { Said::Exited(code) };
    told("exit code", said, &non_zero(&json!([{"reason": "ExitCode", "message": code.to_string()}])))
}

fn non_zero(causes: &Value) -> Value {
    json!({
        "metadata": {}, "status": "Failure", "message": "command terminated with non-zero exit code",
        "reason": "NonZeroExitCode", "details": {"causes": causes}
    })
}

fn internal(message: &str) -> Value {
    json!({
        "metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500,
        "details": {"causes": [{"message": message}]}
    })
}

/// Why a runtime could not execute the program.
pub fn missing(dice: &mut Dice) -> Told {
    let head = "Internal error occurred: error executing command in container: failed to exec in container: failed to start exec \"0a\": \
        OCI runtime exec failed: exec failed: unable to start container process: exec: ";
    let why = dice.of(&[
        "\"nope\": executable file not found in $PATH: unknown",
        "\"/nope\": stat /nope: no such file or directory: unknown",
        "\"/etc\": permission denied: unknown",
    ]);
    told("missing program", Said::Missing, &internal(&format!("{head}{why}")))
}

/// The status of an execution that really exited with that code, or none that can be trusted.
pub fn status(dice: &mut Dice, code: i32) -> Told {
    match dice.below(20) {
        0..=12 if code == 0 => success(),
        0..=12 => exit(code),
        13 | 14 => missing(dice),
        15 | 16 => {
            let message = dice.of(&[
                "Internal error occurred: error dialing backend: dial tcp 10.0.0.7:10250: connect: connection refused",
                "Internal error occurred: error executing command in container: container not found (\"db\")",
                "Internal error occurred: error executing command in container: failed to exec in container: context deadline exceeded",
                "Internal error occurred: error executing command in container: failed to create exec task: permission denied",
                "Internal error occurred: dial unix /run/containerd/s/1: connect: no such file or directory",
                "command terminated with exit code 0",
            ]);
            told("an error of the kubelet", Said::Unclear, &internal(message))
        }
        17 => garbage(dice),
        _ => contradiction(dice),
    }
}

/// Bytes that are no `Status`.
fn garbage(dice: &mut Dice) -> Told {
    let mut whole = success().bytes;
    let (cut, length) = (dice.below(whole.len()), dice.below(40));
    let bytes = match dice.below(6) {
        0 => whole[..cut].to_vec(),
        1 => {
            whole.extend_from_slice(b"}");
            whole
        }
        2 => [&whole[..cut], b"\xff", &whole[cut..]].concat(),
        3 => {
            dice.of(&[&b"null"[..], b"[]", b"\"Success\"", b"true", b"Success", b"{\"status\":[\"Success\"]}"]).to_vec()
        }
        4 => b"command terminated with non-zero exit code: exit status 7".to_vec(),
        _ => dice.bytes(length.max(1)),
    };
    Told { what: "no status at all", bytes, said: Said::Unclear, is_fault: true }
}

/// A `Status` that says two things at once, or nothing. No kubelet writes it, so nothing in it can be trusted.
fn contradiction(dice: &mut Dice) -> Told {
    let cause = |message: &str| json!({"reason": "ExitCode", "message": message});
    let number = dice.of(&["0", "00", "+7", "-1", " 7", "7 ", "256", "4294967303", "seven", ""]);
    let absent = "unable to start container process: exec: \"x\": executable file not found in $PATH";
    let status = dice.of(&[
        json!({}),
        json!({"status": "success"}),
        json!({"status": "Success", "reason": "NonZeroExitCode", "details": {"causes": [cause("7")]}}),
        json!({"status": "Success", "details": {"causes": [cause("7")]}}),
        json!({"status": "Success", "reason": "InternalError", "message": "error dialing backend", "code": 500}),
        json!({"kind": "Pod", "apiVersion": "v1", "status": "Success"}),
        json!({"reason": "NonZeroExitCode", "details": {"causes": [cause("7")]}}),
        json!({"status": "Failure", "reason": "InternalError", "details": {"causes": [cause("7")]}}),
        json!({"status": "Failure", "reason": "NonZeroExitCode", "message": absent}),
        json!({"status": "Failure", "reason": "Unknown", "message": absent}),
        json!({"message": absent}),
        non_zero(&json!([])),
        non_zero(&json!([{"reason": "ExitCode"}])),
        non_zero(&json!([cause("1"), cause("7")])),
        non_zero(&json!([cause(number)])),
        non_zero(&json!([cause(number)])),
    ]);
    told("a status that contradicts itself", Said::Unclear, &status)
}

/// An answer in place of the upgrade, and whether it ends with the connection only.
pub fn instead(dice: &mut Dice) -> (Vec<Piece>, &'static str, bool) {
    let (code, reason) = if dice.one_in(2) { dice.of(&OWN) } else { dice.of(&OTHERS) };
    let refusal = |code: u16, reason: &str| {
        let message = format!("pods \"db-0\" is forbidden: {reason}");
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code})
    };
    let is_own = OWN.contains(&(code, reason));
    let length = dice.below(60);
    let (what, body, said) = match dice.below(10) {
        0..=4 if is_own => {
            ("a refusal by the API server", refusal(code, reason).to_string().into_bytes(), Said::NotStarted)
        }
        0..=4 => ("an error that may be temporary", refusal(code, reason).to_string().into_bytes(), Said::Unclear),
        5 => {
            let (_, other) = dice.of(&[(0, "Conflict"), (0, ""), (0, "InternalError"), (0, "Unknown")]);
            ("a refusal with another's reason", refusal(code, other).to_string().into_bytes(), Said::Unclear)
        }
        6 => (
            "a refusal in plain text",
            b"Forbidden (user=tanist, verb=create, resource=nodes)\n".to_vec(),
            Said::Unclear,
        ),
        7 => ("a proxy's page", b"<html><body>502 Bad Gateway</body></html>".to_vec(), Said::Unclear),
        8 => ("a body of any bytes", dice.bytes(length), Said::Unclear),
        _ => ("an empty refusal", dice.of(&[&b""[..], b"{}", b"null"]).to_vec(), Said::Unclear),
    };
    let (pieces, by_end) = body_of(dice, code, &body, said);
    (pieces, what, by_end)
}

/// The answer with its length, in chunks, or up to the end of the connection.
fn body_of(dice: &mut Dice, code: u16, body: &[u8], said: Said) -> (Vec<Piece>, bool) {
    let form = dice.below(3);
    let framing = match form {
        0 => format!("Content-Length: {}\r\n", body.len()),
        1 => "Transfer-Encoding: chunked\r\n".to_owned(),
        _ => String::new(),
    };
    let head =
        format!("HTTP/1.1 {code} Answer\r\nContent-Type: application/json\r\nConnection: close\r\n{framing}\r\n");
    let mut pieces = vec![piece("head", head.into_bytes(), Effect::Nothing)];
    let end = Effect::Ended(said);
    if form == 1 {
        for chunk in body.chunks(1 + dice.below(80)) {
            let bytes = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
            pieces.push(piece("chunk", bytes, Effect::Nothing));
        }
        pieces.push(piece("last chunk", b"0\r\n\r\n".to_vec(), end));
    } else {
        pieces.push(piece("body", body.to_vec(), end));
    }
    (pieces, form > 1)
}

/// A refusal by the API server itself.
pub fn refusal() -> Vec<Piece> {
    let status =
        json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403}).to_string();
    let head = format!("HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", status.len());
    let end = Effect::Ended(Said::NotStarted);
    vec![piece("head", head.into_bytes(), Effect::Nothing), piece("body", status.into_bytes(), end)]
}

/// The answer that switches to that protocol.
pub fn upgrade(protocol: &str) -> Piece {
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {ACCEPT}\r\n\
         Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
    );
    piece("upgrade", head.into_bytes(), Effect::Nothing)
}

/// The same with something wrong in it, and what.
pub fn bad_upgrade(dice: &mut Dice) -> (Piece, &'static str) {
    let good = String::from_utf8(upgrade("v4.channel.k8s.io").bytes).unwrap();
    let (what, from, to) = dice.of(&[
        ("no subprotocol", "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n", ""),
        ("an older subprotocol", "v4.channel", "v3.channel"),
        ("an unnamed subprotocol", "v4.channel.k8s.io", ""),
        ("two subprotocols", "v4.channel.k8s.io", "v4.channel.k8s.io, v5.channel.k8s.io"),
        ("another's subprotocol", "v4.channel.k8s.io", "base64.channel.k8s.io"),
        ("a wrong accept key", ACCEPT, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        ("no accept key", "Sec-WebSocket-Accept", "Sec-WebSocket-Refuse"),
        ("no upgrade", "Upgrade: websocket\r\n", ""),
        ("an upgrade to something else", "Upgrade: websocket", "Upgrade: SPDY/3.1"),
        ("no upgraded connection", "Connection: Upgrade\r\n", ""),
        ("200 in place of 101", "101 Switching Protocols", "200 OK"),
        ("204 in place of 101", "101 Switching Protocols", "204 No Content"),
        ("a redirect", "101 Switching Protocols", "307 Temporary Redirect"),
        ("no HTTP at all", "HTTP/1.1", "SSH-2.0"),
    ]);
    (piece(what, good.replacen(from, to, 1).into_bytes(), Effect::Breaks), what)
}

/// Some bytes.
pub fn piece(what: &str, bytes: Vec<u8>, effect: Effect) -> Piece {
    Piece { what: what.to_owned(), bytes, effect }
}
