//! The steps of a round, one file each; [`crate::decide`] has their order.
pub mod ask;
pub mod begin;
pub mod demote;
pub mod failover;
pub mod follow;
pub mod join;
pub mod objects;
pub mod place;
pub mod positions;
pub mod remember;
pub mod route;
pub mod seed;
pub mod settle;
pub mod shrink;
pub mod switchover;
pub mod treat;
pub mod unroute;
