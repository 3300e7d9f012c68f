//! Properties, each with an oracle that does not know how the core works.
mod arithmetic;
mod chaos;
