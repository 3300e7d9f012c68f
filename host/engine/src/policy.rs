//! Loads a policy and asks one question in a new instance.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use tanist_core::{
    contract::{self, Description},
    policy::{Point, PolicyName, Reply},
};
use wasmtime::{
    Store,
    component::{
        Component, ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Linker, types::ComponentItem,
    },
};

use crate::{
    bindings::exports::tanist::policy::{about, election, placement, recovery, types as wit},
    convert::{self, Intake},
    error::{LoadError, ParametersError, RunError, SetupError},
    limits::Limits,
    question::Size,
    sandbox::{self, Sandbox},
    schema::{self, Schema},
    text::{MESSAGE, short},
    ticker::{Ticker, Ticking},
};

/// The contract that is served: the package, and the part of its version that patch releases do not change.
const PACKAGE: &str = "tanist:policy";
const VERSION: &str = "0.1.0";
const SERIES: &str = "0.1.";
/// The interfaces of the package. The last two are accepted and not called.
const INTERFACES: [&str; 7] = ["types", "about", "election", "placement", "recovery", "notes", "interpreter"];

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
    /// The number of compilations. The lock is held during one, because a compilation takes tens of MiB and many groups may appear at once.
    compiling: Mutex<u64>,
}

impl Engine {
    /// An engine with these limits for policies.
    ///
    /// # Errors
    /// The machine cannot run the generated code.
    pub fn new(limits: Limits) -> Result<Self, SetupError> {
        let engine =
            wasmtime::Engine::new(&sandbox::config(&limits)).map_err(|error| SetupError(format!("{error:#}")))?;
        let linker = Linker::new(&engine);
        let (ticker, compiled, compiling) = (Ticker::default(), Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(Shared { engine, linker, limits, ticker, compiled, compiling })))
    }

    /// The limits for policies.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The wall limit of questions runs until the result is dropped.
    pub(crate) fn ticking(&self) -> Ticking {
        self.0.ticker.begin(&self.0.engine)
    }

    fn known(&self, digest: &str) -> Option<Arc<Compiled>> {
        let compiled = self.0.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.get(digest).and_then(Weak::upgrade)
    }

    /// The number of components that this engine has compiled. It compiles one at a time, and the same bytes once as long as a policy of them exists.
    pub fn compilations(&self) -> u64 {
        *self.0.compiling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compile(&self, bytes: &[u8], digest: String) -> Result<Arc<Compiled>, LoadError> {
        let mut compilations = self.0.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have compiled the same bytes meanwhile.
        if let Some(compiled) = self.known(&digest) {
            return Ok(compiled);
        }
        *compilations += 1;
        let compiled = Arc::new(Compiled::new(self, bytes, digest)?);
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
    compiled: Arc<Compiled>,
    name: PolicyName,
}

/// A compiled component.
struct Compiled {
    digest: String,
    pre: InstancePre<Sandbox>,
    points: Points,
    description: Description,
    schema: Option<Schema>,
}

/// The export of each decision point; `None` for points that a policy does not have. They are found once at loading, because that includes a
/// comparison of types.
struct Points([Option<ComponentExportIndex>; Point::ALL.len()]);

impl Points {
    fn find(component: &Component) -> Self {
        Self(Point::ALL.map(|point| {
            let interface = component.get_export_index(None, format!("{PACKAGE}/{}@{VERSION}", point.interface()))?;
            component.get_export_index(Some(&interface), point.as_str())
        }))
    }

    fn get(&self, point: Point) -> Option<&ComponentExportIndex> {
        Point::ALL.iter().zip(&self.0).find(|(each, _)| **each == point)?.1.as_ref()
    }
}

/// The exported interfaces of a component.
struct Interfaces {
    about: about::GuestIndices,
    election: Option<election::GuestIndices>,
    placement: Option<placement::GuestIndices>,
    recovery: Option<recovery::GuestIndices>,
}

impl Policy {
    /// Loads a policy.
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
        let name = PolicyName {
            name: compiled.description.name.clone(),
            version: compiled.description.version.clone(),
            source: source.to_owned(),
            digest: compiled.digest.clone(),
        };
        Ok(Self { engine: engine.clone(), compiled, name })
    }

    /// The same policy as it is named when it comes from another source. It is compiled once.
    #[must_use]
    pub fn from_source(&self, source: &str) -> Self {
        let name = PolicyName { source: source.to_owned(), ..self.name.clone() };
        Self { engine: self.engine.clone(), compiled: Arc::clone(&self.compiled), name }
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

    /// Asks one question in a new instance, and returns the reply with the fuel that was used. `None`: it abstains, or does not have the point.
    /// `wall`: the time that is left for the question.
    pub(crate) fn ask(
        &self,
        point: Point,
        snapshot: &wit::Snapshot<'_>,
        size: Size,
        wall: Duration,
    ) -> (Result<Option<Reply>, RunError>, u64) {
        let limits = self.engine.limits();
        let fuel = limits
            .fuel_per_member
            .saturating_mul(size.members)
            .saturating_add(limits.fuel_per_byte.saturating_mul(size.bytes))
            .saturating_add(limits.fuel_base);
        let mut store = sandbox::store(&self.engine.0.engine, limits, fuel, wall);
        let reply = self.ask_in(&mut store, point, snapshot);
        let used = fuel.saturating_sub(store.get_fuel().unwrap_or(0));
        (reply, used)
    }

    fn ask_in(
        &self,
        store: &mut Store<Sandbox>,
        point: Point,
        snapshot: &wit::Snapshot<'_>,
    ) -> Result<Option<Reply>, RunError> {
        let Compiled { pre, points, .. } = &*self.compiled;
        let Some(function) = points.get(point) else { return Ok(None) };
        let instance = pre.instantiate(&mut *store).map_err(|error| sandbox::explain(&error, store))?;
        let returned = match point {
            Point::Treat => call(store, &instance, function, snapshot).map(Returned::Care),
            _ => call(store, &instance, function, snapshot).map(Returned::Answer),
        };
        let intake = Intake::new(self.engine.limits());
        match returned.map_err(|error| sandbox::explain(&error, store))? {
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
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Calls one function of an instance.
fn call<R>(
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
    fn new(engine: &Engine, bytes: &[u8], digest: String) -> Result<Self, LoadError> {
        let Shared { engine, linker, limits, ticker, .. } = &*engine.0;
        let compile = |error: wasmtime::Error| LoadError::Compile(short(&format!("{error:#}"), MESSAGE));
        let component = Component::from_binary(engine, bytes).map_err(compile)?;
        check_imports(engine, &component)?;
        let exports = served_exports(engine, &component)?;
        let pre = linker.instantiate_pre(&component).map_err(compile)?;
        let interfaces = Interfaces::find(&pre, &exports)?;
        let points = Points::find(&component);

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
        Ok(Self { digest, pre, points, description, schema })
    }
}

impl Interfaces {
    fn find(pre: &InstancePre<Sandbox>, exports: &[String]) -> Result<Self, LoadError> {
        let has = |interface: &str| exports.iter().any(|export| export == interface);
        if !has("about") {
            return Err(LoadError::LacksAbout);
        }
        let (election, placement, recovery) = (has("election"), has("placement"), has("recovery"));
        if !(election || placement || recovery) {
            return Err(LoadError::LacksPoints);
        }
        let wrong = |interface: &'static str| move |error: wasmtime::Error| wrong_type(interface, &error);
        Ok(Self {
            about: about::GuestIndices::new(pre).map_err(wrong("about"))?,
            election: election.then(|| election::GuestIndices::new(pre)).transpose().map_err(wrong("election"))?,
            placement: placement.then(|| placement::GuestIndices::new(pre)).transpose().map_err(wrong("placement"))?,
            recovery: recovery.then(|| recovery::GuestIndices::new(pre)).transpose().map_err(wrong("recovery"))?,
        })
    }

    /// Compares the type of every function with the contract's.
    fn check(&self, store: &mut Store<Sandbox>, instance: &Instance) -> Result<about::Guest, LoadError> {
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
        self.about.load(&mut *store, instance).map_err(wrong("about"))
    }
}

fn wrong_type(interface: &str, error: &wasmtime::Error) -> LoadError {
    LoadError::Type { interface: format!("{PACKAGE}/{interface}"), message: short(&format!("{error:#}"), MESSAGE) }
}

/// The checks that need no parsing.
fn check_form(bytes: &[u8], limits: &Limits) -> Result<(), LoadError> {
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

fn digest(bytes: &[u8]) -> String {
    let hexadecimal = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("sha256:{hexadecimal}")
}

/// Checks that only types are imported, so that an answer is a function of the snapshot.
fn check_imports(engine: &wasmtime::Engine, component: &Component) -> Result<(), LoadError> {
    for (name, import) in component.component_type().imports(engine) {
        check_version(name)?;
        let types_only = match import.ty {
            ComponentItem::ComponentInstance(instance) => {
                instance.exports(engine).all(|(_, export)| matches!(export.ty, ComponentItem::Type(_)))
            }
            _ => false,
        };
        if !types_only {
            return Err(LoadError::Import(short(name, 256)));
        }
    }
    Ok(())
}

/// The interfaces of the contract that a component exports, without package and version. Exports of other packages are ignored.
fn served_exports(engine: &wasmtime::Engine, component: &Component) -> Result<Vec<String>, LoadError> {
    let mut served = Vec::new();
    for (name, _) in component.component_type().exports(engine) {
        served.extend(check_version(name)?);
    }
    Ok(served)
}

/// The interface of the contract that a name means; `None` if it is not one of the contract.
fn check_version(name: &str) -> Result<Option<String>, LoadError> {
    if !name.starts_with("tanist:") {
        return Ok(None);
    }
    let parts = name.split_once('@').and_then(|(path, version)| Some((path.split_once('/')?, version)));
    match parts {
        Some(((PACKAGE, interface), version))
            if INTERFACES.contains(&interface)
                && version.strip_prefix(SERIES).is_some_and(|patch| patch.parse::<u32>().is_ok()) =>
        {
            Ok(Some(interface.to_owned()))
        }
        _ => Err(LoadError::Unserved { name: short(name, 256), served: format!("{PACKAGE}@{VERSION}") }),
    }
}
