//! The decisions of Tanist, without any I/O.
//!
//! **The promise.** When the spec of a group stops changing and faults stop, the group reaches its spec in bounded time and stays there;
//! on the way at most `spec.primaries` members are primary on purpose, no member is seeded while another may be alive or have more recent
//! data, and a wrong answer of a policy can only cost availability.
//!
//! One round reads top to bottom: the operator observes and freezes a [`snapshot::Snapshot`]; [`decide::decide`] walks the
//! [`steps`], asks the [`policy::Policies`] where a question arises, checks each answer ([`check`]) and returns a [`plan::Plan`] that leaves
//! nothing to choose; the operator carries it out; [`status`] reports to users what was seen and why.
//!
//! This crate uses no clock, no randomness and no unordered maps: time and nonce are fields of the snapshot.
pub mod check;
pub mod checked;
pub mod contract;
pub mod data;
pub mod decide;
pub mod due;
pub mod evidence;
pub mod examples;
pub mod freshness;
pub mod limits;
pub mod membership;
pub mod memory;
pub mod order;
pub mod over;
pub mod plan;
pub mod policy;
pub mod question;
pub mod record;
pub mod roster;
pub mod snapshot;
pub mod state;
pub mod status;
pub mod steps;
pub mod version;
mod words;
