//! What a round does with a cluster: it observes, acts and reports, all behind one narrow trait ([`cluster::Cluster`]), so that a simulated cluster serves it
//! as well as a real one.
//!
//! [`round`] is the loop. [`observe`] is the only reader of what a decision rests on, [`act`] the only writer of a group's objects, [`report`] of its status. What they share is a
//! [`context::Context`]. What an answer is worth, what an end of an execution proves, and what may be written in which order is the core's.
pub mod act;
#[cfg(feature = "client")]
pub mod api_error;
pub mod clock;
pub mod cluster;
pub mod context;
pub mod count;
pub mod crash;
#[cfg(feature = "client")]
pub mod exec;
pub mod hints;
pub mod member;
pub mod objects;
pub mod observe;
pub mod report;
pub mod round;
pub mod slots;
#[cfg(test)]
mod stub;
