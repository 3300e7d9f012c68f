//! What authors of scripts ask the interpreter beside questions: which lines ran, and whether two texts say the same.
//!
//! The interpreter has an interface of its own for this (policies/starlark/wit/tools.wit), which is no part of the contract. Rounds of groups never call
//! it, and an interpreter without it decides all the same.

use tanist_core::policy::{Point, Question};
use wasmtime::{
    Store,
    component::{Component, ComponentExportIndex, ComponentNamedList, ComponentType, Instance, Lift, Lower},
};

use crate::{
    bindings::exports::tanist::policy::{recovery, types as wit},
    convert,
    error::{LoadError, RunError},
    policy::{Policy, call},
    question::{Asked, Lists},
    sandbox::{self, Sandbox},
    script::Interpreter,
    stack::Layer,
};

/// The interface with its version.
const INTERFACE: &str = "tanist:starlark/tools@0.0.1";

/// What noting the lines of a question may cost, as a multiple of the question's fuel: the script is parsed and run twice, and each statement is noted.
const FUEL: u64 = 8;

/// Lines of a script, counted from 1, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct Lines {
    /// Those on which a statement begins that does something.
    pub statements: Vec<u32>,
    /// Those of them that ran.
    pub ran: Vec<u32>,
}

/// The functions of the interface.
#[derive(Clone, Copy)]
pub(crate) struct Tools {
    watch: ComponentExportIndex,
    ran: ComponentExportIndex,
    meaning: ComponentExportIndex,
}

impl Tools {
    /// Those that an interpreter exports. `None`: it lacks one of them.
    pub(crate) fn find(component: &Component) -> Option<Self> {
        let interface = component.get_export_index(None, INTERFACE)?;
        let function = |name| component.get_export_index(Some(&interface), name);
        Some(Self { watch: function("watch")?, ran: function("ran")?, meaning: function("meaning")? })
    }
}

impl Interpreter {
    /// What a script says, without how it is written: texts that differ in white space and comments alone have the same. It is not run.
    ///
    /// # Errors
    /// It is no script: what is wrong with its form, with file, line and column.
    pub fn meaning(&self, file: &str, text: &str) -> Result<String, LoadError> {
        let (engine, limits) = (self.engine(), self.engine().limits());
        let lacks = || LoadError::Type {
            interface: INTERFACE.to_owned(),
            message: "the interpreter does not have it".to_owned(),
        };
        let meaning = self.tools().map(|tools| tools.meaning).ok_or_else(lacks)?;
        if text.len() > limits.script_bytes {
            return Err(LoadError::Size { size: text.len(), limit: limits.script_bytes });
        }
        let _ticking = engine.ticking();
        let mut store = sandbox::store(engine.runtime(), limits, limits.fuel_base.saturating_mul(FUEL), limits.wall);
        let started = self.instantiate(&mut store);
        let instance = started.map_err(|error| LoadError::Start(sandbox::explain(&error, &store)))?;
        let said = value_of::<_, Result<String, wit::Fault>>(&mut store, &instance, &meaning, (file, text));
        let said = said.map_err(|error| LoadError::Start(sandbox::explain(&error, &store)))?;
        said.map_err(|fault| LoadError::Script(convert::fault(fault)))
    }
}

impl Layer {
    /// Asks a script once more, and says which of its lines ran: at its top and at this question. `None`: it is no script, or is not asked at this point.
    ///
    /// # Errors
    /// It exceeded a limit, so that its lines are not known. A fault is no error: what ran before it is known.
    pub fn lines(&self, question: &Question) -> Option<Result<Lines, RunError>> {
        let is_asked = self.points.as_ref().is_none_or(|points| points.contains(&question.point));
        if !is_asked || !self.policy.has(question.point) {
            return None;
        }
        let lists = Lists::of(&question.snapshot);
        let asked = Asked::new(&question.snapshot, &lists);
        let _ticking = self.policy.engine().ticking();
        let fuel = self.policy.fuel_of(asked.size()).saturating_mul(FUEL);
        let limits = self.policy.engine().limits();
        let mut store =
            sandbox::store(self.policy.engine().runtime(), limits, fuel, limits.wall_of(asked.size().members));
        watch(&self.policy, &mut store, Some((question.point, &asked.with(&self.parameters))))
    }
}

impl Policy {
    /// The lines of a script, none of which ran. `None`: it is no script.
    ///
    /// # Errors
    /// It exceeded a limit.
    pub fn lines(&self) -> Option<Result<Lines, RunError>> {
        let (engine, limits) = (self.engine(), self.engine().limits());
        let _ticking = engine.ticking();
        let mut store = sandbox::store(engine.runtime(), limits, limits.fuel_base.saturating_mul(FUEL), limits.wall);
        watch(self, &mut store, None)
    }
}

/// The lines of a script that is asked this in this store.
fn watch(
    policy: &Policy,
    store: &mut Store<Sandbox>,
    asked: Option<(Point, &wit::Snapshot<'_>)>,
) -> Option<Result<Lines, RunError>> {
    let script = policy.compiled.script.as_ref()?;
    let tools = script.tools?;
    let mut run = || {
        let instance = policy.compiled.pre.instantiate(&mut *store)?;
        nothing(store, &instance, &tools.watch)?;
        if let Err(error) = script.load(store, &instance, &policy.name().source) {
            return Ok(Err(error));
        }
        let function = asked.and_then(|(point, snapshot)| Some((point, snapshot, policy.compiled.points.get(point)?)));
        match function {
            Some((Point::Treat, snapshot, function)) => {
                drop(call::<Result<recovery::Care, wit::Fault>>(store, &instance, function, snapshot)?);
            }
            Some((_, snapshot, function)) => {
                drop(call::<Result<wit::Answer, wit::Fault>>(store, &instance, function, snapshot)?);
            }
            None => {}
        }
        Ok(Ok(value_of::<_, Lines>(store, &instance, &tools.ran, ())?))
    };
    let ran: wasmtime::Result<Result<Lines, RunError>> = run();
    Some(ran.unwrap_or_else(|error| Err(sandbox::explain(&error, store))))
}

/// Calls a function that returns one value.
fn value_of<A, R>(
    store: &mut Store<Sandbox>,
    instance: &Instance,
    function: &ComponentExportIndex,
    given: A,
) -> wasmtime::Result<R>
where
    A: ComponentNamedList + Lower,
    (R,): ComponentNamedList + Lift,
{
    let function = instance.get_typed_func::<A, (R,)>(&mut *store, function)?;
    let (returned,) = function.call(&mut *store, given)?;
    Ok(returned)
}

/// Calls a function that neither is given nor returns anything.
fn nothing(store: &mut Store<Sandbox>, instance: &Instance, function: &ComponentExportIndex) -> wasmtime::Result<()> {
    instance.get_typed_func::<(), ()>(&mut *store, function)?.call(&mut *store, ())
}
