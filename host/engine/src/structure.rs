//! Reads a component before anything of it is compiled, and refuses what would be too expensive to compile.
//!
//! Cranelift promises nothing about the time and memory that it takes: 33 KB of nested loops take a second, 300 KB a minute and gigabytes
//! (docs/safety.md, H19). So each quantity that such components exaggerate has a cap, and a component within all [`Caps`] is compiled in a
//! few seconds and some 100 MiB. The text is read from the beginning to the end once, without recursion that its nesting could deepen.

mod caps;
mod code;
mod components;
mod modules;
mod types;

use wasmparser::{
    FuncValidatorAllocations, Parser, Payload, ValidPayload, Validator,
    component_types::{ComponentAnyTypeId, ComponentEntityType, ComponentInstanceTypeId},
    types::Types,
};

pub use caps::Caps;

use crate::{
    sandbox::FEATURES,
    text::{MESSAGE, short},
};
use caps::Tally;
use components::Levels;

/// What a component consists of. All counts are of the whole component, nested ones included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Structure {
    /// The names of its imports that are not instances of types alone. A policy must have none.
    pub functional_imports: Vec<String>,
    /// The names of all its imports.
    pub imports: Vec<String>,
    /// The names of its exports.
    pub exports: Vec<String>,
    /// The counts that [`Caps`] bound, with what each is called there.
    pub counts: Vec<(&'static str, u64)>,
}

/// Why a component is not compiled. Offsets are bytes from its beginning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StructureError {
    /// It is malformed, or uses a feature that is switched off.
    #[error("{message} (at byte {offset})")]
    Malformed {
        /// The byte at which the parser failed.
        offset: usize,
        /// What the parser says.
        message: String,
    },
    /// It has more of something than a cap allows.
    #[error("{what}: {found} counted up to byte {offset}, {cap} are allowed; {advice}")]
    Above {
        /// What there is too much of, and in which function.
        what: String,
        /// Where it was counted.
        offset: usize,
        /// How many there are up to there.
        found: u64,
        /// How many are allowed.
        cap: u64,
        /// What an author can do.
        advice: &'static str,
    },
    /// A function gives or takes texts in another encoding than UTF-8.
    #[error(
        "a function uses {encoding} for texts (at byte {offset}), and only UTF-8 is supported; choose UTF-8 where the component is encoded"
    )]
    Encoding {
        /// The name of the encoding, for instance `UTF-16`.
        encoding: &'static str,
        /// The byte at which the function is declared.
        offset: usize,
    },
    /// Components are handed from one to another, so that what is instantiated cannot be counted.
    #[error(
        "a nested component gets another component from outside (at byte {offset}), which is not supported; nest it where it is used"
    )]
    HandedOver {
        /// The byte at which the component is imported or taken from an instance.
        offset: usize,
    },
}

impl From<wasmparser::Error> for StructureError {
    fn from(error: wasmparser::Error) -> Self {
        Self::Malformed { offset: error.offset(), message: short(error.message(), MESSAGE) }
    }
}

/// Reads a component and compares it with the caps. It compiles nothing, and takes at most some tens of milliseconds and a few MiB.
///
/// # Errors
/// It is malformed, uses a feature that is switched off, or exceeds a cap.
pub fn examine(bytes: &[u8], caps: &Caps) -> Result<Structure, StructureError> {
    let mut tally = Tally::new(caps);
    let mut levels = Levels::default();
    let mut validator = Validator::new_with_features(FEATURES);
    let mut allocations = FuncValidatorAllocations::default();
    let mut known = None;
    let mut parser = Parser::new(0);
    parser.set_features(FEATURES);
    for payload in parser.parse_all(bytes) {
        let payload = payload?;
        // Caps come first: the validator itself takes time and memory for what they bound, and recurses into nested types.
        count(&payload, bytes, &mut tally, &mut levels)?;
        match validator.payload(&payload)? {
            ValidPayload::Func(function, body) => allocations = code::read(function, &body, allocations, &mut tally)?,
            ValidPayload::End(types) => known = Some(types),
            ValidPayload::Ok | ValidPayload::Parser(_) => {}
        }
    }
    let mut structure = Structure { counts: tally.counts(), ..Structure::default() };
    if let Some(types) = known {
        name(&types, levels, &mut structure);
    }
    Ok(structure)
}

/// Counts what a section has.
fn count(payload: &Payload<'_>, bytes: &[u8], tally: &mut Tally, levels: &mut Levels) -> Result<(), StructureError> {
    match payload {
        Payload::ComponentTypeSection(section) => types::read(bytes, section.range(), tally),
        Payload::CoreTypeSection(section) => tally.types.add(section.count().into(), section.range().start),
        Payload::ComponentSection { .. }
        | Payload::ModuleSection { .. }
        | Payload::InstanceSection(_)
        | Payload::ComponentInstanceSection(_)
        | Payload::ComponentAliasSection(_)
        | Payload::ComponentCanonicalSection(_)
        | Payload::ComponentImportSection(_)
        | Payload::ComponentExportSection(_)
        | Payload::End(_) => levels.read(payload, tally),
        _ => modules::read(payload, tally),
    }
}

/// Names what the outermost component imports and exports.
fn name(types: &Types, levels: Levels, structure: &mut Structure) {
    let (imports, exports) = levels.names();
    let of_types = |name: &String| match types.as_ref().component_item_for_import(name).map(|item| item.ty) {
        Some(ComponentEntityType::Instance(instance)) => holds_types_alone(types, instance),
        _ => false,
    };
    structure.functional_imports = imports.iter().filter(|name| !of_types(name)).cloned().collect();
    structure.imports = imports;
    structure.exports = exports;
}

fn holds_types_alone(types: &Types, instance: ComponentInstanceTypeId) -> bool {
    types.as_ref().get(instance).is_some_and(|instance| {
        instance.exports.values().all(|export| match export.ty {
            // A resource has functions, such as the one that drops it.
            ComponentEntityType::Type { created, .. } => !matches!(created, ComponentAnyTypeId::Resource(_)),
            _ => false,
        })
    })
}
