//! The shipped round against a cluster in memory, in virtual time.
//!
//! [`world`] is the truth: objects with versions and UIDs, nodes, volumes, processes. [`server`] is the API server in front of it, as a round sees
//! it. [`controllers`] does what the controller of StatefulSets, the scheduler and the kubelets do. In each member [`runner`] answers with real frames, and
//! [`app`] is a replicated register, or [`agree`] an application whose members agree on who they are. [`operator`] runs rounds of the groups, as a process of its own. [`life`] has faults at random, [`points`] stops
//! a process at each point of a story, [`transcript`] writes down how it went, and [`stale`] has its watches show each change wrongly. [`trial`] measures how long a group was without a primary. Nothing
//! here decides: that is what is tried, and [`oracles`] judge it by what really happened. [`shrink`] looks for the few faults that a failure needs.
pub mod agree;
pub mod app;
pub mod clients;
pub mod controllers;
pub mod faults;
pub mod kinds;
pub mod kubelet;
pub mod life;
pub mod operator;
pub mod oracles;
pub mod points;
pub mod runner;
pub mod server;
mod shared;
pub mod shrink;
pub mod stale;
pub mod strikes;
pub mod transcript;
pub mod trial;
pub mod world;
