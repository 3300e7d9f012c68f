//! The types of what a component exports, compared with those of the contract when it is loaded.

use wasmtime::{
    Store,
    component::{Instance, InstancePre},
};

use crate::{
    bindings::exports::tanist::policy::{
        about, election, notes, placement, rebalance, recovery, rollout, scaling, switchover,
    },
    contract::{Interfaces as Names, PACKAGE},
    error::LoadError,
    sandbox::Sandbox,
    text::{MESSAGE, short},
};

/// The exported interfaces of a component.
pub(crate) struct Interfaces {
    about: about::GuestIndices,
    election: Option<election::GuestIndices>,
    placement: Option<placement::GuestIndices>,
    recovery: Option<recovery::GuestIndices>,
    switchover: Option<switchover::GuestIndices>,
    rebalance: Option<rebalance::GuestIndices>,
    rollout: Option<rollout::GuestIndices>,
    scaling: Option<scaling::GuestIndices>,
    notes: Option<notes::GuestIndices>,
}

impl Interfaces {
    /// Those that these names have, where their functions are those of the contract.
    ///
    /// # Errors
    /// A function is missing.
    pub(crate) fn find(pre: &InstancePre<Sandbox>, exports: &Names) -> Result<Self, LoadError> {
        let (election, placement, recovery) =
            (exports.has("election"), exports.has("placement"), exports.has("recovery"));
        let (switches, moves) = (exports.has("switchover"), exports.has("rebalance"));
        let wrong = |interface: &'static str| move |error: wasmtime::Error| wrong_type(interface, &error);
        Ok(Self {
            about: about::GuestIndices::new(pre).map_err(wrong("about"))?,
            election: election.then(|| election::GuestIndices::new(pre)).transpose().map_err(wrong("election"))?,
            placement: placement.then(|| placement::GuestIndices::new(pre)).transpose().map_err(wrong("placement"))?,
            recovery: recovery.then(|| recovery::GuestIndices::new(pre)).transpose().map_err(wrong("recovery"))?,
            switchover: switches
                .then(|| switchover::GuestIndices::new(pre))
                .transpose()
                .map_err(wrong("switchover"))?,
            rebalance: moves.then(|| rebalance::GuestIndices::new(pre)).transpose().map_err(wrong("rebalance"))?,
            rollout: exports
                .has("rollout")
                .then(|| rollout::GuestIndices::new(pre))
                .transpose()
                .map_err(wrong("rollout"))?,
            scaling: exports
                .has("scaling")
                .then(|| scaling::GuestIndices::new(pre))
                .transpose()
                .map_err(wrong("scaling"))?,
            notes: exports.has("notes").then(|| notes::GuestIndices::new(pre)).transpose().map_err(wrong("notes"))?,
        })
    }

    /// Compares the type of every function with the contract's.
    ///
    /// # Errors
    /// A function has another type.
    pub(crate) fn check(&self, store: &mut Store<Sandbox>, instance: &Instance) -> Result<about::Guest, LoadError> {
        let wrong = |interface: &'static str| move |error: wasmtime::Error| wrong_type(interface, &error);
        if let Some(election) = &self.election {
            election.load(&mut *store, instance).map_err(wrong("election"))?;
        }
        if let Some(placement) = &self.placement {
            placement.load(&mut *store, instance).map_err(wrong("placement"))?;
        }
        if let Some(recovery) = &self.recovery {
            recovery.load(&mut *store, instance).map_err(wrong("recovery"))?;
        }
        if let Some(switchover) = &self.switchover {
            switchover.load(&mut *store, instance).map_err(wrong("switchover"))?;
        }
        if let Some(rebalance) = &self.rebalance {
            rebalance.load(&mut *store, instance).map_err(wrong("rebalance"))?;
        }
        if let Some(rollout) = &self.rollout {
            rollout.load(&mut *store, instance).map_err(wrong("rollout"))?;
        }
        if let Some(scaling) = &self.scaling {
            scaling.load(&mut *store, instance).map_err(wrong("scaling"))?;
        }
        if let Some(notes) = &self.notes {
            notes.load(&mut *store, instance).map_err(wrong("notes"))?;
        }
        self.about.load(&mut *store, instance).map_err(wrong("about"))
    }
}

fn wrong_type(interface: &str, error: &wasmtime::Error) -> LoadError {
    LoadError::Type { interface: format!("{PACKAGE}/{interface}"), message: short(&format!("{error:#}"), MESSAGE) }
}
