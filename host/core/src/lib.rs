//! The ideas of Tanist, without any I/O.
//!
//! **The promise.** When the spec of a group stops changing and faults stop, the group reaches its spec in bounded time and stays there;
//! on the way at most `spec.primaries` members are primary on purpose, no member is seeded while another may be alive or fresher, and
//! whatever a policy answers can only cost availability.
//!
//! One round reads top to bottom: the operator observes and freezes a [`snapshot::Snapshot`]; [`decide::decide`] walks the
//! [`steps`], asks the [`policy::Policies`] where a question arises, holds each answer against the [`check`]s and returns a
//! [`plan::Plan`], which is finished data; the operator carries it out; [`status`] says to people what was seen and why.
//!
//! This crate has no clock, no dice and no hash order: time and nonce are fields of the snapshot, all maps are ordered.
pub mod check;
pub mod checked;
pub mod contract;
pub mod data;
pub mod decide;
pub mod limits;
pub mod memory;
pub mod over;
pub mod plan;
pub mod policy;
pub mod question;
pub mod record;
pub mod snapshot;
pub mod status;
pub mod steps;
