//! Describes errors between the operator and the API server in words: kube's own text for a refusal is a dump of its types.
use crate::cluster;
use kube::Error;
use std::fmt::Write;

/// The answer as a sentence without its subject, for instance `forbidden (403): ...`.
#[must_use]
pub fn words(error: &Error) -> String {
    cluster::Error::from(error).words()
}

/// What the API server answered, or why there was no answer.
impl From<&Error> for cluster::Error {
    fn from(error: &Error) -> Self {
        match error {
            Error::Api(status) => cluster::Error::Answered {
                code: status.code,
                reason: status.reason.clone(),
                message: status.message.clone(),
            },
            Error::Service(source) => cluster::Error::Unreachable(format!("no connection: {}", chain(source.as_ref()))),
            Error::HyperError(source) => cluster::Error::Unreachable(format!("no connection: {}", chain(source))),
            other => cluster::Error::Unreachable(chain(other)),
        }
    }
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
mod tests {
    use super::*;
    use tanist_mock::refused;

    #[test]
    fn a_connection_that_fails_is_told_with_its_cause() {
        assert_eq!(words(&Error::Service("connection refused".into())), "no connection: connection refused");
        assert_eq!(words(&refused(418, "", "")), "error (418): it gave no reason");
    }
}
