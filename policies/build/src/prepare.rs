//! Runs the start of a module once, and makes its memory as it is afterwards the memory that it begins with (`wasmtime-wizer`).

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use anyhow::{Error, Result, bail};
use wasmtime::{Config, Engine, Instance, Module, OptLevel, Store, Val};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};

/// The export that is called and then removed.
const PREPARE: &str = "prepare";

/// The module as it is after its function `prepare` has run.
pub fn run(module: &[u8]) -> Result<Vec<u8>> {
    let mut wizer = Wizer::new();
    wizer.init_func(PREPARE);
    let (context, instrumented) = wizer.instrument(module).map_err(chain)?;

    // It runs once, so that good code would take longer than it saves.
    let mut config = Config::new();
    config.cranelift_opt_level(OptLevel::None);
    let engine = Engine::new(&config).map_err(chain)?;
    let module = Module::new(&engine, instrumented).map_err(chain)?;
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &module, &[]).map_err(chain)?;
    let prepare = instance.get_typed_func::<(), ()>(&mut store, PREPARE).map_err(chain)?;
    prepare.call(&mut store, ()).map_err(chain)?;

    let mut prepared = Prepared { store, instance };
    ready(wizer.snapshot(&context, &mut prepared))?.map_err(chain)
}

fn chain(error: wasmtime::Error) -> Error {
    Error::msg(format!("{error:#}"))
}

/// The value of a future that never waits: everything that is read is in this process.
fn ready<T>(future: impl Future<Output = T>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => bail!("the snapshot waits for something"),
    }
}

/// The instance that ran.
struct Prepared {
    store: Store<()>,
    instance: Instance,
}

// The library asks only for exports that it added itself, and these have the types that it asks for. Its interface has no errors.
#[allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a tool that is run by hand; the library cannot be told of an error"
)]
impl InstanceState for Prepared {
    async fn global_get(&mut self, name: &str, _: ValType) -> SnapshotVal {
        let global = self.instance.get_global(&mut self.store, name).expect("the library exported this global");
        match global.get(&mut self.store) {
            Val::I32(value) => SnapshotVal::I32(value),
            Val::I64(value) => SnapshotVal::I64(value),
            Val::F32(bits) => SnapshotVal::F32(bits),
            Val::F64(bits) => SnapshotVal::F64(bits),
            _ => panic!("the global {name} is no number"),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        let memory = self.instance.get_memory(&mut self.store, name).expect("the library exported this memory");
        contents(memory.data(&self.store));
    }
}
