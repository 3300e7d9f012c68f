//! What the end-to-end tests share. Each test gets namespaces and an installation of the operator of its own, from the image and the manifests
//! that users get, and says what it waits for and how long: nothing sleeps. What fails is printed with everything that is known about it, and
//! stays in the cluster; what passes is removed.
//!
//! `KUBECONFIG` names the cluster, `CLUSTER` says how images get there (see dev/README.md).
mod cluster;
mod group;
mod journal;
mod member;
mod operator;
mod play;

pub use cluster::{kubectl, machines, root, tanist};
pub use group::{Group, condition, merge, text};
pub use journal::{Entry, Execution, executions, starts};
pub use member::{Member, Output};
pub use operator::{Operator, until};
pub use play::{Outcome, Play, Stage, play};
