//! Properties, each with an oracle that does not use the core's rules.
mod agreement;
mod arithmetic;
mod chaos;
mod recover;
mod truth;
