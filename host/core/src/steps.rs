//! The steps of a round, one file each, in the order in which they are walked.
pub mod ask;
pub mod begin;
pub mod demote;
pub mod failover;
pub mod follow;
pub mod handover;
pub mod join;
pub mod objects;
pub mod place;
pub mod positions;
pub mod remember;
pub mod route;
pub mod seed;
pub mod settle;
pub mod shrink;
pub mod treat;
pub mod unroute;
