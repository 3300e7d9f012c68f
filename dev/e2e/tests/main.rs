//! Tests on a real Kubernetes, with the operator inside, from its image, with its rights: `make e2e`. Each cites the rows of
//! docs/requirements.md and docs/safety.md that it shows.
mod apart;
mod author;
mod bombs;
mod candidates;
mod data;
mod evidence;
mod forms;
mod frozen;
mod hung;
mod input;
mod killed;
mod late;
mod memory;
mod outage;
mod overrides;
mod people;
mod policies;
mod rights;
mod scripts;
mod sequences;
mod steady;
mod surplus;
mod takeover;
mod webhooks;
