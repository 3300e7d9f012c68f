//! Describes errors between the operator and the API server in words: kube's own text for a refusal is a dump of its types.
use kube::Error;
use std::fmt::Write;

/// The answer as a sentence without its subject, for instance `forbidden (403): ...`.
#[must_use]
pub fn words(error: &Error) -> String {
    match error {
        Error::Api(status) => {
            let reason = apart(&status.reason);
            let reason = if reason.is_empty() { "error" } else { &reason };
            let message = if status.message.is_empty() { "it gave no reason" } else { &status.message };
            format!("{reason} ({}): {message}{}", status.code, advice(message))
        }
        Error::Service(source) => format!("no connection: {}", chain(source.as_ref())),
        Error::HyperError(source) => format!("no connection: {}", chain(source)),
        other => chain(other),
    }
}

/// What an administrator can do, where the API server's own words do not say it: with `failurePolicy: Fail` a webhook that does not answer blocks
/// every request that it is asked about.
fn advice(message: &str) -> &'static str {
    match message.contains("failed calling webhook") {
        true => "; repair that webhook, or remove its configuration",
        false => "",
    }
}

/// Whether the API server refused the request: repeating it is useless until something changes.
#[must_use]
pub fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Api(status) if (400..500).contains(&status.code) && !matches!(status.code, 408 | 429))
}

/// `InternalError` as `internal error`.
fn apart(reason: &str) -> String {
    let mut words = String::new();
    for c in reason.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

/// An error with its causes, each text once.
#[must_use]
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let said = source.to_string();
        if !text.contains(&said) {
            let _ = write!(text, ": {said}");
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use kube::core::Status;

    /// The error that kube makes of an answer of the API server.
    pub fn refused(code: u16, reason: &str, message: &str) -> Error {
        let mut status = Status::failure(message, reason);
        status.code = code;
        Error::Api(Box::new(status))
    }

    // Users read a sentence and not a dump of the program's types.
    #[test]
    fn a_refusal_is_described_in_words() {
        let message = "poddisruptionbudgets.policy is forbidden: User \"tanist\" cannot patch resource";
        let forbidden = refused(403, "Forbidden", message);
        assert_eq!(words(&forbidden), format!("forbidden (403): {message}"));
        let webhook = refused(500, "InternalError", "failed calling webhook \"w\": no endpoints");
        let said = "internal error (500): failed calling webhook \"w\": no endpoints; repair that webhook, or remove its configuration";
        assert_eq!(words(&webhook), said);
        assert_eq!(words(&refused(418, "", "")), "error (418): it gave no reason");
        let cut = Error::Service("connection refused".into());
        assert_eq!(words(&cut), "no connection: connection refused");
    }

    #[test]
    fn too_many_requests_is_no_refusal() {
        assert!(is_refusal(&refused(403, "Forbidden", "")) && is_refusal(&refused(422, "Invalid", "")));
        assert!(!is_refusal(&refused(429, "TooManyRequests", "")) && !is_refusal(&refused(503, "", "")));
        assert!(!is_refusal(&Error::Service("x".into())));
    }
}
