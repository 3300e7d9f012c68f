//! Single rules, one test each.
mod answers;
mod checks;
mod examples;
mod memory;
mod numbers;
mod objects;
mod second_look;
mod status;
mod time;
mod told;
