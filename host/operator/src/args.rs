//! The command line.
use crate::cli::{Ask, Reach};
use clap::{Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Keeps replicated applications alive on Kubernetes; sandboxed policies decide who leads.
#[derive(Debug, Parser)]
#[command(name = "tanist", version, about)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Which cluster and namespace.
    #[command(flatten)]
    pub reach: Reach,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show a group, or change what it wishes.
    #[command(flatten)]
    Ask(Ask),
    /// Print what a shell needs to complete our words: source <(tanist completion bash).
    Completion {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Run the operator.
    Run(Box<Run>),
    /// Print the definition of the resource, for `kubectl apply`.
    Crds,
}

/// The operator's settings.
#[derive(Debug, Clone, clap::Args)]
pub struct Run {
    /// Namespaces whose groups are kept, separated by commas.
    #[arg(long, env = "WATCH_NAMESPACES", value_delimiter = ',', required = true)]
    pub namespaces: Vec<String>,
    /// Image that holds /tanist-run, for the init container of members.
    #[arg(long, env = "TANIST_RUNNER_IMAGE")]
    pub runner_image: String,
    /// Names this installation; a group that another installation owns is left alone.
    #[arg(long, env = "TANIST_INSTALLATION", default_value = "tanist")]
    pub installation: String,
    /// Who this process is, for leader election; its pod's name.
    #[arg(long, env = "POD_NAME", default_value = "tanist-local")]
    pub identity: String,
    /// Where the Lease for leader election lives; its pod's namespace.
    #[arg(long, env = "POD_NAMESPACE", default_value = "default")]
    pub lease_namespace: String,
    /// Act without a Lease. Only when nobody else can run.
    #[arg(long, env = "TANIST_NO_LEASE")]
    pub no_lease: bool,
    /// A directory with policies for `policies: [{file: NAME}]`; changes in it are seen at once.
    #[arg(long, env = "TANIST_POLICY_DIR")]
    pub policy_dir: Option<PathBuf>,
    /// DNS domain of the Kubernetes cluster, for the names of peers.
    #[arg(long, env = "TANIST_CLUSTER_DOMAIN", default_value = "cluster.local")]
    pub cluster_domain: String,
    /// Where health and metrics are served. [::] is every address, IPv4 and IPv6; 0.0.0.0 is IPv4 alone.
    #[arg(long, env = "TANIST_LISTEN", default_value = "[::]:8080")]
    pub listen: SocketAddr,
    /// How many members are asked at a time (`status`, `sequence`, the result of a command), over all groups; one group gets a quarter.
    #[arg(long, env = "TANIST_EXECS", default_value_t = 64)]
    pub execs: usize,
    /// How many commands run in members at a time, over all groups; one group gets a quarter.
    #[arg(long, env = "TANIST_COMMANDS", default_value_t = 256)]
    pub commands: usize,
    /// Seconds that running commands are waited for after SIGTERM.
    #[arg(long, env = "TANIST_GRACE", default_value_t = 25)]
    pub grace: u64,
}
