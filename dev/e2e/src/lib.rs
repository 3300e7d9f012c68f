//! What the end-to-end tests share. Each test gets namespaces and an installation of the operator of its own, from the image and the manifests
//! that users get. Tests do not sleep; each wait names a condition and a limit. When a test fails, all that is known about it is printed, and its
//! namespaces stay in the cluster; when it passes, they are removed.
//!
//! `KUBECONFIG` names the cluster, `CLUSTER` says how images get there (see dev/README.md).
mod cluster;
mod database;
mod edition;
mod etcd;
mod group;
mod journal;
mod lead;
mod member;
mod nodes;
mod operator;
mod play;
mod policies;

pub use cluster::{cache, kubectl, kubectl_given, machines, root, run, run_given, tanist, tanist_ended};
pub use database::{AGREEING, Database, GALERA, POSTGRES, Writer};
pub use edition::{edition, editions, with_image};
pub use etcd::{EtcdClient, Members, counts, counts_of, listed};
pub use group::{Group, WEB, batches, condition, merge, term, text, waits};
pub use journal::{Entry, Execution, Lead, executions, leads, starts, two_at_once};
pub use lead::{KILL, led_by_another};
pub use member::{Inside, Member, Output};
pub use nodes::{Restored, apart, node_of};
pub use operator::{Frozen, Operator, until};
pub use play::{Outcome, Play, Stage, play};
pub use policies::{Source, component};
