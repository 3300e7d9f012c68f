//! Single rules, one test each.
mod answers;
mod behind;
mod checks;
mod due;
mod examples;
mod freshness;
mod lead;
mod memory;
mod next_container;
mod numbers;
mod objects;
mod order;
mod rebalance;
mod second_look;
mod status;
mod time;
mod told;
