//! Errors of the command line: one sentence with what failed, why, and what to do.
use kube::Error;
use tanist_cluster::api_error;

/// An error for what failed, with the API server's words and advice.
pub fn failed(what: &str, error: &Error) -> anyhow::Error {
    let advice = advice(error).map(|a| format!("; {a}")).unwrap_or_default();
    anyhow::anyhow!("failed to {what}: {}{advice}", api_error::words(error))
}

fn advice(error: &Error) -> Option<&'static str> {
    match error {
        Error::Api(status) => match status.code {
            401 => Some("log in, or choose another user of the kubeconfig with --context"),
            403 => Some("ask an administrator for this right, or choose another user with --context"),
            404 => Some("does this cluster have the resource? Install it: kubectl apply --server-side -k deploy/crd"),
            409 => Some("it was changed by another client in between; run the command again"),
            _ => None,
        },
        Error::Service(_) | Error::HyperError(_) => Some("is the cluster reachable, and is it the right --context?"),
        _ => None,
    }
}

/// An error with its causes. Many errors repeat the text of their cause, so each text is shown once.
pub fn words(error: &(dyn std::error::Error + 'static)) -> String {
    api_error::chain(error)
}

/// Whether the reader of our output has closed the pipe, as `head` does. That is no failure.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let closed = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(closed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanist_mock::refused;

    #[test]
    fn an_error_says_what_failed_and_what_to_do() {
        let said = |code, reason| failed("list groups", &refused(code, reason, "no")).to_string();
        assert_eq!(
            said(403, "Forbidden"),
            "failed to list groups: forbidden (403): no; ask an administrator for this right, or choose another user with --context"
        );
        assert!(said(404, "NotFound").ends_with("Install it: kubectl apply --server-side -k deploy/crd"));
        assert_eq!(said(500, "InternalError"), "failed to list groups: internal error (500): no");
    }

    #[test]
    fn each_cause_is_shown_once() {
        let error = anyhow::anyhow!("no such file").context("no kubeconfig: no such file").context("failed to connect");
        assert_eq!(words(error.as_ref()), "failed to connect: no kubeconfig: no such file");
    }

    #[test]
    fn a_closed_pipe_is_told_from_other_errors() {
        let of = |kind: std::io::ErrorKind| anyhow::Error::from(std::io::Error::from(kind)).context("failed to print");
        assert!(is_closed_pipe(&of(std::io::ErrorKind::BrokenPipe)));
        assert!(!is_closed_pipe(&of(std::io::ErrorKind::NotFound)));
    }
}
