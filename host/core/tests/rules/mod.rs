//! Single rules, one test each.
mod answers;
mod checks;
mod memory;
mod numbers;
mod status;
mod time;
