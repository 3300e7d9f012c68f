//! The arguments of the command line.
use crate::cli::policy::Verb;
use crate::cli::simulate::Simulate;
use crate::cli::{Ask, Reach, Shell};
use anyhow::ensure;
use clap::{Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Manages replicated applications on Kubernetes: starts them, lets members take over from lost primaries, and has sandboxed policies decide
/// which member is primary.
#[derive(Debug, Parser)]
#[command(name = "tanist", version)]
pub struct Args {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// The cluster and the namespace.
    #[command(flatten)]
    pub reach: Reach,
}

/// The commands of `tanist`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show groups, or change what is to be done with them.
    #[command(flatten)]
    Ask(Ask),
    /// Write, test and measure a policy on this machine, try it on a live group, and deploy it.
    #[command(subcommand)]
    Policy(Verb),
    /// Measure how often and how long a policy leaves a group without a primary, in many simulated groups with faults.
    ///
    /// The shipped rounds run against a cluster in memory, in virtual time: no cluster is needed. Each group is simulated twice, with the policy and with the built-in
    /// `sequence` alone. Exits with 1 when a promise was broken, or when more groups than with the built-in policy were not Ready at the end.
    Simulate(Simulate),
    /// Print a script that completes commands, groups and members: source <(tanist completion bash).
    ///
    /// For bash, elvish, fish, powershell and zsh it is a script to source. For kubectl it is a program: put it on your PATH under the name
    /// kubectl_complete-tanist, and make it executable.
    Completion {
        /// For which shell, or for kubectl.
        shell: Shell,
    },
    /// Run the operator.
    ///
    /// It takes the cluster of --kubeconfig and --context, else that of $KUBECONFIG or ~/.kube/config, else that of its pod. It watches the
    /// namespaces of --namespaces, or the one of --namespace, which goes first.
    Run(Box<Run>),
    /// Print the definition of the resource, for `kubectl apply --server-side -f -`.
    Crds,
}

/// The operator's settings.
#[derive(Debug, Clone, clap::Args)]
pub struct Run {
    /// Namespaces whose groups are managed, separated by commas. --namespace, for one, goes first.
    #[arg(long, env = "WATCH_NAMESPACES", value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// Image that contains /tanist-run, for the init container of members.
    #[arg(long, env = "TANIST_RUNNER_IMAGE")]
    pub runner_image: String,
    /// Name of this installation. A group that another installation manages is left alone.
    #[arg(long, env = "TANIST_INSTALLATION", default_value = "tanist")]
    pub installation: String,
    /// Name of this process in leader election: that of its pod.
    #[arg(long, env = "POD_NAME", default_value = "tanist-local")]
    pub identity: String,
    /// UID of its pod. Without it, another operator that takes over waits until the Lease expires, even if this pod is gone.
    #[arg(long, env = "POD_UID")]
    pub pod_uid: Option<String>,
    /// Namespace of the Lease for leader election: that of its pod.
    #[arg(long, env = "POD_NAMESPACE", default_value = "default")]
    pub lease_namespace: String,
    /// Act without a Lease. Only where no other operator of this installation can run.
    #[arg(long, env = "TANIST_NO_LEASE")]
    pub no_lease: bool,
    /// Directory with policies for `policies: [{file: NAME}]`. Changes in it take effect at once.
    #[arg(long, env = "TANIST_POLICY_DIR")]
    pub policy_dir: Option<PathBuf>,
    /// DNS domain of the Kubernetes cluster, for the names of peers.
    #[arg(long, env = "TANIST_CLUSTER_DOMAIN", default_value = "cluster.local")]
    pub cluster_domain: String,
    /// Address of health and metrics. [::] is every address, IPv4 and IPv6; 0.0.0.0 is IPv4 alone.
    #[arg(long, env = "TANIST_LISTEN", default_value = "[::]:8080")]
    pub listen: SocketAddr,
    /// How many short executions (`status`, `sequence`, the result of a command) run in members at a time, in all groups; one group gets a quarter.
    #[arg(long, env = "TANIST_EXECS", default_value_t = 64)]
    pub execs: usize,
    /// How many commands run in members at a time, in all groups; one group gets a quarter. One that has been running for 10 s no longer counts, for up to
    /// 16 times as many.
    #[arg(long, env = "TANIST_COMMANDS", default_value_t = 256)]
    pub commands: usize,
    /// How many seconds to wait for running commands after SIGTERM.
    #[arg(long, env = "TANIST_GRACE", default_value_t = 25)]
    pub grace: u64,
}

impl Run {
    /// These settings with the namespaces that are watched: the one of `--namespace`, else those of `--namespaces`. The namespace of a kubeconfig's
    /// context does not count, so that no namespace is watched by accident.
    ///
    /// # Errors
    /// When no namespace is named.
    pub fn watching(mut self, reach: &Reach) -> anyhow::Result<Self> {
        if let Some(one) = &reach.namespace {
            self.namespaces = vec![one.clone()];
        }
        self.namespaces.retain(|namespace| !namespace.is_empty());
        ensure!(
            !self.namespaces.is_empty(),
            "no namespace to watch; give --namespace or --namespaces, or set WATCH_NAMESPACES"
        );
        Ok(self)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    /// What `tanist run` is told by these words.
    fn run(words: &[&str]) -> (Run, Reach) {
        let all = ["tanist"].iter().chain(words).chain(&["--runner-image", "i"]);
        let args = Args::try_parse_from(all).unwrap();
        let Command::Run(run) = args.command else { panic!("the command is not run") };
        (*run, args.reach)
    }

    // 0.0.0.0 would be IPv4 alone: the kubelet of an IPv6-only cluster would get no answer about health, and end the operator again and again.
    #[test]
    fn health_is_served_at_every_address_unless_one_is_named() {
        let listen = |words: &[&str]| run(words).0.listen.to_string();
        assert_eq!(listen(&["run"]), "[::]:8080");
        assert_eq!(listen(&["run", "--listen", "127.0.0.1:9090"]), "127.0.0.1:9090");
    }

    // As kubectl: -n says which namespace a command is about, before and after the command's name.
    #[test]
    fn run_watches_the_namespace_that_was_named() {
        let watched = |words: &[&str]| {
            let (run, reach) = run(words);
            run.watching(&reach).map(|run| run.namespaces).map_err(|e| e.to_string())
        };
        let names = |all: &[&str]| Ok(all.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(watched(&["run", "--namespaces", "a,b"]), names(&["a", "b"]));
        assert_eq!(watched(&["run", "-n", "shop"]), names(&["shop"]));
        assert_eq!(watched(&["-n", "shop", "run", "--namespaces", "a,b"]), names(&["shop"]));
        assert!(watched(&["run"]).unwrap_err().contains("WATCH_NAMESPACES"));
        assert!(watched(&["run", "--namespaces", ""]).is_err(), "an empty list does not mean all namespaces");
        let (_, reach) = run(&["run", "-n", "shop", "--kubeconfig", "/k", "--context", "two"]);
        assert_eq!((reach.kubeconfig, reach.context.as_deref()), (Some("/k".into()), Some("two")));
    }

    #[test]
    fn a_mistyped_word_gets_a_suggestion() {
        let said = |words: &[&str]| Args::try_parse_from(words).unwrap_err().to_string();
        assert!(said(&["tanist", "stauts"]).contains("'status'"), "{}", said(&["tanist", "stauts"]));
        let flag = said(&["tanist", "status", "--all-namespace-s"]);
        assert!(flag.contains("'--all-namespaces'"), "{flag}");
    }
}
