//! Loads a policy and asks one question in a new instance.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};
use tanist_core::{
    contract::{self, Description},
    policy::{Point, PolicyName, Reply},
};
use wasmtime::{
    Store,
    component::{Component, ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Linker},
};

use crate::{
    bindings::exports::tanist::policy::{recovery, types as wit},
    compiled,
    contract::{Interfaces as Names, PACKAGE, VERSION},
    convert::{self, Intake},
    error::{LoadError, ParametersError, RunError, SetupError},
    interfaces::Interfaces,
    limits::Limits,
    native,
    prepared::Shelf,
    question::Size,
    sandbox::{self, Sandbox},
    schema::{self, Samples, Schema},
    script::{Script, file_of},
    ticker::{Ticker, Ticking},
};

/// Compiles policies, each one once, and has the limits for them. Clones share one engine.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

struct Shared {
    engine: wasmtime::Engine,
    linker: Linker<Sandbox>,
    limits: Limits,
    ticker: Ticker,
    /// Compiled components in use, by digest. The same bytes are compiled once as long as a policy of them exists.
    compiled: Mutex<BTreeMap<String, Weak<Compiled>>>,
    /// The number of compilations in this process.
    compilations: AtomicU64,
    /// Instances that wait for a question.
    shelf: Shelf,
}

impl Engine {
    /// An engine with these limits for policies.
    ///
    /// # Errors
    /// The machine cannot run the generated code.
    pub fn new(limits: Limits) -> Result<Self, SetupError> {
        Self::configured(limits, &sandbox::config(&limits))
    }

    /// An engine with another configuration, which has to set every limit that the default one sets.
    pub(crate) fn configured(limits: Limits, config: &wasmtime::Config) -> Result<Self, SetupError> {
        let engine = wasmtime::Engine::new(config).map_err(|error| SetupError(format!("{error:#}")))?;
        let linker = Linker::new(&engine);
        let (ticker, compiled, compilations) = (Ticker::default(), Mutex::default(), AtomicU64::new(0));
        let shelf = Shelf::default();
        Ok(Self(Arc::new(Shared { engine, linker, limits, ticker, compiled, compilations, shelf })))
    }

    /// The limits for policies.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The wall limit of questions runs until the result is dropped.
    pub(crate) fn ticking(&self) -> Ticking {
        self.0.ticker.begin(&self.0.engine)
    }

    /// Instances that wait for a question.
    pub(crate) fn shelf(&self) -> &Shelf {
        &self.0.shelf
    }

    /// What runs the code.
    pub(crate) fn runtime(&self) -> &wasmtime::Engine {
        &self.0.engine
    }

    /// What is given to a component that imports nothing.
    pub(crate) fn linker(&self) -> &Linker<Sandbox> {
        &self.0.linker
    }

    fn known(&self, digest: &str) -> Option<Arc<Compiled>> {
        let compiled = self.0.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.get(digest).and_then(Weak::upgrade)
    }

    /// The number of components that this engine has compiled: the same bytes once, as long as a policy of them exists. What another process compiled
    /// is not counted.
    pub fn compilations(&self) -> u64 {
        self.0.compilations.load(Ordering::Relaxed)
    }

    fn compile(&self, bytes: &[u8], digest: String) -> Result<Arc<Compiled>, LoadError> {
        self.0.compilations.fetch_add(1, Ordering::Relaxed);
        compiled::admit(bytes)?;
        let component = Component::from_binary(&self.0.engine, bytes).map_err(|error| compiled::refused(&error))?;
        self.keep(component, digest)
    }

    /// Checks what was compiled, and keeps it for as long as a policy of it exists.
    fn keep(&self, component: Component, digest: String) -> Result<Arc<Compiled>, LoadError> {
        let compiled = Arc::new(Compiled::new(self, &component, digest)?);
        let mut cache = self.0.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        cache.retain(|_, entry| entry.strong_count() > 0);
        cache.insert(compiled.digest.clone(), Arc::downgrade(&compiled));
        Ok(compiled)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

/// A loaded policy: compiled, type-checked, asked for its description.
#[derive(Clone)]
pub struct Policy {
    engine: Engine,
    pub(crate) compiled: Arc<Compiled>,
    name: PolicyName,
}

/// A compiled component, or a script with the interpreter's.
pub(crate) struct Compiled {
    pub(crate) digest: String,
    pub(crate) pre: InstancePre<Sandbox>,
    pub(crate) points: Points,
    pub(crate) notes: Option<ComponentExportIndex>,
    pub(crate) description: Description,
    pub(crate) schema: Option<Schema>,
    /// Interfaces of later patch releases of the contract that it exports: this host never calls them.
    pub(crate) later: Vec<String>,
    /// What the interpreter runs. `None`: the component is the policy.
    pub(crate) script: Option<Script>,
}

/// How a policy dealt with a question.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// `None`: it abstains, or does not have the point.
    pub(crate) reply: Result<Option<Reply>, RunError>,
    /// The fuel that it used.
    pub(crate) fuel: u64,
    /// The fuel that it was given.
    pub(crate) budget: u64,
    /// Bytes of its memories at the end. Memories never shrink, so it had no more at any time.
    pub(crate) memory: usize,
    /// Where the time went.
    pub(crate) spent: Spent,
    /// What it noted for its author.
    pub(crate) notes: Vec<String>,
}

/// Where the time of a question went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Making the instance.
    pub instance: Duration,
    /// Giving the text of a script to the interpreter, which parses it. Zero for components, and, like the instance, where both were done before.
    pub load: Duration,
    /// The question itself, its snapshot and its answer included.
    pub run: Duration,
}

/// The export of each decision point; `None` for points that a policy does not have. They are found once at loading, because that includes a
/// comparison of types.
#[derive(Clone)]
pub(crate) struct Points([Option<ComponentExportIndex>; Point::ALL.len()]);

/// A function of an interface of the contract.
pub(crate) fn function(component: &Component, interface: &str, name: &str) -> Option<ComponentExportIndex> {
    let interface = component.get_export_index(None, format!("{PACKAGE}/{interface}@{VERSION}"))?;
    component.get_export_index(Some(&interface), name)
}

impl Points {
    pub(crate) fn find(component: &Component) -> Self {
        Self(Point::ALL.map(|point| function(component, point.interface(), point.as_str())))
    }

    /// Those of them that a script has.
    pub(crate) fn only(mut self, has: impl Fn(Point) -> bool) -> Self {
        for (point, function) in Point::ALL.into_iter().zip(&mut self.0) {
            if !has(point) {
                *function = None;
            }
        }
        self
    }

    pub(crate) fn get(&self, point: Point) -> Option<&ComponentExportIndex> {
        Point::ALL.iter().zip(&self.0).find(|(each, _)| **each == point)?.1.as_ref()
    }
}

impl Policy {
    /// Loads a policy and compiles it in this process, for as long as that takes: for tools and tests. A process that others depend on has it compiled
    /// elsewhere ([`compiled::compile`](crate::compile)) and takes what came out ([`Policy::from_compiled`]).
    ///
    /// # Guarantees
    /// The policy imports nothing but types, each of its points has the types of the contract, and it was started once under the limits.
    ///
    /// # Errors
    /// The reason why the bytes are not such a policy.
    pub fn load(engine: &Engine, source: &str, bytes: &[u8]) -> Result<Self, LoadError> {
        let limits = engine.limits();
        check_form(bytes, limits)?;
        let digest = digest(bytes);
        let compiled = match engine.known(&digest) {
            Some(compiled) => compiled,
            None => engine.compile(bytes, digest)?,
        };
        Ok(Self::of(engine, source, compiled))
    }

    /// Loads a policy of which another process of this program compiled the bytes ([`compile`](crate::compile)).
    ///
    /// `compiled` is native code, and is run as it is: it must come from a process that this one started itself, or from this program's own
    /// file, and never from a source of policies (docs/safety.md, H22).
    ///
    /// # Guarantees
    /// Those of [`Policy::load`].
    ///
    /// # Errors
    /// The reason why the bytes are not such a policy, or [`LoadError::Compiled`] when another version of the engine compiled them.
    pub fn from_compiled(engine: &Engine, source: &str, bytes: &[u8], compiled: &[u8]) -> Result<Self, LoadError> {
        check_form(bytes, engine.limits())?;
        let digest = digest(bytes);
        let compiled = match engine.known(&digest) {
            Some(compiled) => compiled,
            None => engine.keep(native::adopt(&engine.0.engine, compiled)?, digest)?,
        };
        Ok(Self::of(engine, source, compiled))
    }

    pub(crate) fn of(engine: &Engine, source: &str, compiled: Arc<Compiled>) -> Self {
        let name = PolicyName {
            name: compiled.description.name.clone(),
            version: compiled.description.version.clone(),
            source: source.to_owned(),
            digest: compiled.digest.clone(),
        };
        Self { engine: engine.clone(), compiled, name }
    }

    /// The same policy as it is named when it comes from another source. It is compiled once.
    #[must_use]
    pub fn from_source(&self, source: &str) -> Self {
        let name = PolicyName { source: source.to_owned(), ..self.name.clone() };
        Self { engine: self.engine.clone(), compiled: Arc::clone(&self.compiled), name }
    }

    /// Interfaces of later patch releases of the contract that it exports: this host never calls them.
    pub fn later_interfaces(&self) -> &[String] {
        &self.compiled.later
    }

    /// The engine that it runs in.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Name, version, source and digest of the policy.
    pub fn name(&self) -> &PolicyName {
        &self.name
    }

    /// Its description of itself.
    pub fn description(&self) -> &Description {
        &self.compiled.description
    }

    /// The decision points that it has. It may abstain at any of them.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        Point::ALL.into_iter().filter(|point| self.has(*point))
    }

    /// Whether it has a point.
    pub fn has(&self, point: Point) -> bool {
        self.compiled.points.get(point).is_some()
    }

    /// Checks parameters against the policy's schema and returns them in the form that the policy gets: keys sorted, no white space, defaults filled
    /// in.
    ///
    /// # Errors
    /// The place in the parameters and what is wrong there.
    pub fn validate(&self, parameters: &str) -> Result<String, ParametersError> {
        schema::validate(self.compiled.schema.as_ref(), parameters, self.engine.limits())
    }

    /// Parameters that its schema accepts, at most so many sets.
    pub(crate) fn samples(&self, most: usize) -> Samples {
        schema::samples(self.compiled.schema.as_ref(), self.engine.limits(), most)
    }

    /// The fuel of a question about a snapshot of that size.
    pub(crate) fn fuel_of(&self, size: Size) -> u64 {
        let limits = self.engine.limits();
        limits
            .fuel_per_member
            .saturating_mul(size.members)
            .saturating_add(limits.fuel_per_byte.saturating_mul(size.bytes))
            .saturating_add(limits.fuel_base)
    }

    /// Asks one question in an instance that was never asked. `wall`: the time that is left for the question.
    pub(crate) fn ask(&self, point: Point, snapshot: &wit::Snapshot<'_>, size: Size, wall: Duration) -> Outcome {
        let fuel = self.fuel_of(size);
        let (mut store, prepared) = match self.take_prepared(fuel, wall) {
            Some((store, instance)) => (store, Some(instance)),
            None => (sandbox::store(&self.engine.0.engine, self.engine.limits(), fuel, wall), None),
        };
        let (mut notes, mut spent) = (Vec::new(), Spent::default());
        let reply = self.ask_in(&mut store, prepared, point, snapshot, &mut notes, &mut spent);
        let used = fuel.saturating_sub(store.get_fuel().unwrap_or(0));
        Outcome { reply, fuel: used, budget: fuel, memory: store.data().memory(), spent, notes }
    }

    fn ask_in(
        &self,
        store: &mut Store<Sandbox>,
        prepared: Option<Instance>,
        point: Point,
        snapshot: &wit::Snapshot<'_>,
        notes: &mut Vec<String>,
        spent: &mut Spent,
    ) -> Result<Option<Reply>, RunError> {
        let Some(function) = self.compiled.points.get(point) else { return Ok(None) };
        let instance = match prepared {
            Some(instance) => instance,
            None => self.instance(store, spent)?,
        };
        let began = Instant::now();
        let returned = match point {
            Point::Treat => call(store, &instance, function, snapshot).map(Returned::Care),
            _ => call(store, &instance, function, snapshot).map(Returned::Answer),
        };
        spent.run = began.elapsed();
        let returned = returned.map_err(|error| sandbox::explain(&error, store))?;
        *notes = self.notes(store, &instance);
        let intake = Intake::new(self.engine.limits());
        match returned {
            Returned::Answer(Ok(answer)) => Ok(match intake.answer(answer)? {
                contract::Answer::Abstain => None,
                answer => Some(Reply::Answer(answer)),
            }),
            Returned::Care(Ok(care)) => Ok(match intake.care(care)? {
                contract::Care::Abstain => None,
                care => Some(Reply::Care(care)),
            }),
            Returned::Answer(Err(fault)) | Returned::Care(Err(fault)) => Err(RunError::Fault(convert::fault(fault))),
        }
    }

    /// A new instance, which has the text if it is a script's.
    fn instance(&self, store: &mut Store<Sandbox>, spent: &mut Spent) -> Result<Instance, RunError> {
        let began = Instant::now();
        let instance = self.compiled.pre.instantiate(&mut *store).map_err(|error| sandbox::explain(&error, store))?;
        spent.instance = began.elapsed();
        if let Some(script) = &self.compiled.script {
            let began = Instant::now();
            script.load(store, &instance, file_of(&self.name.source))?;
            spent.load = began.elapsed();
        }
        Ok(instance)
    }

    /// What the policy notes about the question that it was just asked. Notes are for its author: without them the answer is the same, so that an
    /// error here is none of the question.
    fn notes(&self, store: &mut Store<Sandbox>, instance: &Instance) -> Vec<String> {
        let Some(take) = &self.compiled.notes else { return Vec::new() };
        let noted =
            instance.get_typed_func::<(), (Vec<String>,)>(&mut *store, take).and_then(|take| take.call(store, ()));
        noted.map(|(notes,)| convert::notes(notes, self.engine.limits())).unwrap_or_default()
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Calls one function of an instance.
pub(crate) fn call<R>(
    store: &mut Store<Sandbox>,
    instance: &Instance,
    function: &ComponentExportIndex,
    snapshot: &wit::Snapshot<'_>,
) -> wasmtime::Result<R>
where
    (R,): ComponentNamedList + Lift,
{
    let function = instance.get_typed_func::<(&wit::Snapshot<'_>,), (R,)>(&mut *store, function)?;
    let (returned,) = function.call(&mut *store, (snapshot,))?;
    Ok(returned)
}

/// What a call returned, before it is checked.
enum Returned {
    Answer(Result<wit::Answer, wit::Fault>),
    Care(Result<recovery::Care, wit::Fault>),
}

impl Compiled {
    fn new(engine: &Engine, component: &Component, digest: String) -> Result<Self, LoadError> {
        let Shared { engine, linker, limits, ticker, .. } = &*engine.0;
        // Its names were read before it was compiled. An import of a function would fail here: nothing is linked.
        let pre = linker.instantiate_pre(component).map_err(|error| compiled::refused(&error))?;
        let ty = component.component_type();
        let exports = Names::of(ty.exports(engine).map(|(name, _)| name))?;
        let interfaces = Interfaces::find(&pre, &exports)?;
        let points = Points::find(component);
        let notes = function(component, "notes", "take");

        // It is started once, to check that it starts and that every point has the right type, and to get its description.
        let _ticking = ticker.begin(engine);
        let mut store = sandbox::store(engine, limits, limits.fuel_base, limits.wall);
        let start = |error, store: &Store<Sandbox>| LoadError::Start(sandbox::explain(&error, store));
        let instance = pre.instantiate(&mut store).map_err(|error| start(error, &store))?;
        let about = interfaces.check(&mut store, &instance)?;
        let description =
            about.call_describe(&mut store).map_err(|error| LoadError::Describe(sandbox::explain(&error, &store)))?;
        let description = convert::description(description).map_err(LoadError::Description)?;
        let schema = description.parameters.as_deref().map(|text| Schema::parse(text, limits));
        let schema = schema.transpose().map_err(LoadError::Schema)?;
        let later = exports.later().to_vec();
        Ok(Self { digest, pre, points, notes, description, schema, later, script: None })
    }
}

/// The checks that need no parsing.
pub(crate) fn check_form(bytes: &[u8], limits: &Limits) -> Result<(), LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    if bytes.len() > limits.component_bytes {
        return Err(LoadError::Size { size: bytes.len(), limit: limits.component_bytes });
    }
    match bytes {
        [0x1f, 0x8b, ..] => Err(LoadError::Gzip),
        [0, b'a', b's', b'm', _, _, 0, 0, ..] => Err(LoadError::CoreModule),
        [0, b'a', b's', b'm', ..] => Ok(()),
        _ => Err(LoadError::NotWebAssembly),
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    let hexadecimal = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("sha256:{hexadecimal}")
}
