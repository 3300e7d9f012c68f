//! Where the runner is in a member's pod: paths, port, environment. Pods outlive operators, so none of these ever changes.

/// Where the volume with the runner and its state is mounted in a container.
pub const MOUNT: &str = "/tanist";

/// The path of the runner in a container.
pub const PROGRAM: &str = "/tanist/tanist-run";

/// The path of the runner in its image, from which `install` copies it.
pub const PROGRAM_IN_IMAGE: &str = "/tanist-run";

/// The port on which the runner in the container of `status` answers the kubelet's probe.
pub const PORT: u16 = 8099;

/// The path at which it answers whether the member is ready.
pub const READY: &str = "/ready";

/// The environment variable with the UID of the pod.
pub const POD_UID: &str = "TANIST_POD_UID";

/// The environment variable with the pod's address, at which a kubelet would probe.
pub const POD_IP: &str = "TANIST_POD_IP";

/// The environment variable with further options of `serve`, in the form of [`crate::options::lines`]. They are no arguments, because an older
/// runner would not start with arguments that it does not know; it ignores variables that it does not know.
pub const OPTIONS: &str = "TANIST_RUN_OPTIONS";

/// The folder in which the runner of a container stores its state: its `--state`.
#[must_use]
pub fn state(container: &str) -> String {
    format!("{MOUNT}/{container}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_below_the_mount() {
        assert!(PROGRAM.strip_prefix(MOUNT).is_some_and(|rest| rest == PROGRAM_IN_IMAGE));
        assert_eq!(state("db"), "/tanist/db");
    }
}
