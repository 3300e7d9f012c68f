//! The sandbox of a policy: the engine's configuration, the limits of a store, and the meaning of its errors.

use std::time::Duration;

use wasmparser::WasmFeatures;
use wasmtime::{Config, OperatorCost, ResourceLimiter, Store, Trap};

use crate::{
    error::RunError,
    frames,
    limits::Limits,
    text::{MESSAGE, short},
    ticker,
};

/// The only features of WebAssembly that policies may use: those that compilers use by default. New features are off.
pub(crate) const FEATURES: WasmFeatures = WasmFeatures::COMPONENT_MODEL
    .union(WasmFeatures::MUTABLE_GLOBAL)
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::BULK_MEMORY_OPT)
    .union(WasmFeatures::CALL_INDIRECT_OVERLONG)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::FLOATS);

/// Bytes by which a memory can grow before it moves. Most policies begin with one page, so a memory takes 256 KiB of address space; what it has not grown
/// into is not resident. Above 512 KiB (it was 1 MiB and one page) the allocator takes a fresh piece for each question instead of the last one, which
/// costs some 4 % of a question (docs/decisions/0017-room-of-a-memory.md).
const GROWTH: u64 = 192 << 10;

/// How policies are compiled.
///
/// Features that can stop the host, differ between machines or have errors in the compiler are switched off unless the toolchains of policies need
/// them. Memory is reserved late and checked by explicit bounds, without signals or guard pages, because setting up a memory is most of the cost
/// of a question and policies are small (13 instead of 22 microseconds for five members, as first measured).
pub(crate) fn config(limits: &Limits) -> Config {
    let mut config = Config::new();
    config.wasm_features(WasmFeatures::all(), false).wasm_features(FEATURES, true).concurrency_support(false);

    // The same answer on every machine.
    config.cranelift_nan_canonicalization(true);

    config
        .signals_based_traps(false)
        .memory_init_cow(false)
        .memory_reservation(0)
        .memory_guard_size(0)
        .memory_reservation_for_growth(GROWTH);

    // Fuel is the limit of time: it stops the same question at the same place on every machine. Bulk instructions cost one unit for each byte.
    // Growing a memory costs fuel too, so that a policy cannot make the host search for memory without end.
    let mut cost = OperatorCost::default();
    cost.variable.memory_grow_per_page = u8::MAX;
    config.consume_fuel(true).operator_cost(cost).max_wasm_stack(limits.stack_bytes);

    // Beside it the wall, which only a busy machine reaches first (ticker.rs).
    config.epoch_interruption(true);
    config
}

/// How the interpreter of scripts is compiled: as every policy, except for its memory. Its memory is large and ready when it is built, so it is mapped
/// and copied by the page when it is written to, instead of as a whole for each question; and it never moves, because room for all that it may
/// grow to is reserved.
pub(crate) fn config_of_interpreter(limits: &Limits) -> Config {
    let mut config = config(limits);
    config.memory_init_cow(true).memory_reservation(limits.memory_bytes as u64).memory_reservation_for_growth(0);
    config
}

/// A store for one question, with every limit set. `wall`: the time that is left for it; somebody has to keep the epochs moving (ticker.rs).
pub(crate) fn store(engine: &wasmtime::Engine, limits: &Limits, fuel: u64, wall: Duration) -> Store<Sandbox> {
    let mut store = Store::new(engine, Sandbox { limits: *limits, fuel, memory: 0, elements: 0, refused: None });
    store.set_epoch_deadline(ticker::epochs(wall));
    store.limiter(|sandbox| sandbox);
    store.set_hostcall_fuel(limits.transfer_bytes);
    // This cannot fail, because fuel is configured. If it did, the policy would have no fuel and stop at once.
    let _ = store.set_fuel(fuel);
    store
}

/// What the instances of one question have used.
#[derive(Debug)]
pub(crate) struct Sandbox {
    limits: Limits,
    fuel: u64,
    memory: usize,
    elements: usize,
    /// The request that was refused last. A policy may go on without it; if it stops, this is the reason.
    refused: Option<String>,
}

impl Sandbox {
    /// Bytes of all memories of the question.
    pub(crate) const fn memory(&self) -> usize {
        self.memory
    }

    /// The fuel that errors name, when the store is given another budget.
    pub(crate) const fn allow(&mut self, fuel: u64) {
        self.fuel = fuel;
    }
}

impl ResourceLimiter for Sandbox {
    /// The limit is for all memories together.
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_add(desired.saturating_sub(current));
        let granted = total <= self.limits.memory_bytes;
        if granted {
            self.memory = total;
        } else {
            self.refused = Some(format!("{total} bytes, {} are allowed", self.limits.memory_bytes));
        }
        Ok(granted)
    }

    /// The limit is for all tables together.
    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.elements.saturating_add(desired.saturating_sub(current));
        let granted = total <= self.limits.table_elements;
        if granted {
            self.elements = total;
        } else {
            self.refused = Some(format!("{total} elements of tables, {} are allowed", self.limits.table_elements));
        }
        Ok(granted)
    }

    fn instances(&self) -> usize {
        self.limits.instances
    }

    fn tables(&self) -> usize {
        self.limits.tables
    }

    fn memories(&self) -> usize {
        self.limits.memories
    }
}

/// The meaning of an error of a running policy.
pub(crate) fn explain(error: &wasmtime::Error, store: &Store<Sandbox>) -> RunError {
    let Sandbox { fuel, refused, .. } = store.data();
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return RunError::Fuel(*fuel),
        Some(Trap::Interrupt) => return RunError::Wall,
        Some(Trap::StackOverflow) => return RunError::Stack,
        _ => {}
    }
    let message = short(&format!("{error:#}"), MESSAGE);
    match (refused, error.downcast_ref::<Trap>()) {
        (Some(refused), _) => RunError::Memory(refused.clone()),
        // The runtime has no types for these two.
        (None, None) if message.contains("resource limit exceeded") => RunError::Memory(message),
        (None, None) if message.contains("allocated for hostcalls has been exhausted") => {
            RunError::Output("more than one call may return".to_owned())
        }
        (None, Some(trap)) => RunError::Trap(short(&format!("{trap}{}", frames::place(error)), MESSAGE)),
        (None, None) => RunError::Malformed(message),
    }
}
