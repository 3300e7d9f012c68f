//! Why a cluster did not do what it was asked for, in words.

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub enum Error {
    /// The API server answered with an error.
    Answered {
        /// The HTTP code, for instance 409.
        code: u16,
        /// The reason of its `Status` in one word, for instance `Conflict`. Empty if it gave none.
        reason: String,
        /// What it said.
        message: String,
    },
    /// There was no answer, or none that could be read: why, as a sentence without its end. Whether a write took effect is unknown.
    Unreachable(String),
}

impl Error {
    /// The error as a sentence without its subject, for instance `forbidden (403): ...`.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Error::Answered { code, reason, message } => {
                let reason = apart(reason);
                let reason = if reason.is_empty() { "error" } else { &reason };
                let said = if message.is_empty() { "it gave no reason" } else { message };
                format!("{reason} ({code}): {said}{}", advice(said))
            }
            Error::Unreachable(why) => why.clone(),
        }
    }

    /// The code of the API server's answer. `None`: there was no answer.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Answered { code, .. } => Some(*code),
            Error::Unreachable(_) => None,
        }
    }

    /// Whether the API server refused the request: repeating it is useless until something changes.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.code().is_some_and(|code| (400..500).contains(&code) && !matches!(code, 408 | 429))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, reason: &str, message: &str) -> Error {
        Error::Answered { code, reason: reason.into(), message: message.into() }
    }

    // Users read a sentence and not a dump of the program's types.
    #[test]
    fn a_refusal_is_described_in_words() {
        let message = "poddisruptionbudgets.policy is forbidden: User \"tanist\" cannot patch resource";
        assert_eq!(answered(403, "Forbidden", message).words(), format!("forbidden (403): {message}"));
        let webhook = answered(500, "InternalError", "failed calling webhook \"w\": no endpoints");
        let said = "internal error (500): failed calling webhook \"w\": no endpoints; repair that webhook, or remove its configuration";
        assert_eq!(webhook.words(), said);
        assert_eq!(answered(418, "", "").words(), "error (418): it gave no reason");
    }

    #[test]
    fn too_many_requests_is_no_refusal() {
        assert!(answered(403, "Forbidden", "").is_refusal() && answered(422, "Invalid", "").is_refusal());
        assert!(!answered(429, "TooManyRequests", "").is_refusal() && !answered(503, "", "").is_refusal());
        assert!(!Error::Unreachable("x".into()).is_refusal());
    }
}
