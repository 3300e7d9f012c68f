//! Counts the types of a component.
//!
//! The parser of component types reads a type inside of a type by recursion without a bound, so it must not see one that is nested too deeply. Here the
//! nesting is followed with a list of what is still open; only what cannot nest is given to the parser.

use std::ops::Range;

use wasmparser::{
    BinaryReader, ComponentAlias, ComponentDefinedType, ComponentExternName, ComponentImport, ComponentType,
    ComponentTypeRef, CoreType,
};

use super::{StructureError, caps::Tally};

/// The first byte of a component type and of an instance type: both are lists of declarations.
const OF_DECLARATIONS: [u8; 2] = [0x41, 0x42];

/// Counts a section of types.
pub(super) fn read(bytes: &[u8], section: Range<usize>, tally: &mut Tally) -> Result<(), StructureError> {
    let start = section.start;
    let mut reader = BinaryReader::new(bytes.get(section).unwrap_or_default(), start);
    // How many types or declarations are still to be read at each level; the outermost level has types.
    let mut open = vec![reader.read_var_u32()?];
    while let Some(left) = open.last_mut() {
        if *left == 0 {
            open.pop();
            continue;
        }
        *left -= 1;
        let offset = reader.original_position();
        tally.types.add(1, offset)?;
        let is_type = open.len() == 1 || declares_type(&mut reader, tally)?;
        if is_type && let Some(declarations) = type_or_list(&mut reader, tally)? {
            open.push(declarations);
            tally.type_nesting.see(open.len() as u64 - 1, offset)?;
        }
    }
    Ok(())
}

/// Reads a declaration. True if it is a type, which follows.
fn declares_type(reader: &mut BinaryReader<'_>, tally: &mut Tally) -> Result<bool, StructureError> {
    let offset = reader.original_position();
    match reader.read_u8()? {
        0x00 => drop(reader.read::<CoreType<'_>>()?),
        0x01 => return Ok(true),
        0x02 => {
            reader.read::<ComponentAlias<'_>>()?;
            tally.aliases.add(1, offset)?;
        }
        0x03 => {
            let import = reader.read::<ComponentImport<'_>>()?;
            tally.name(import.name.name, offset)?;
        }
        0x04 => {
            let name = reader.read::<ComponentExternName<'_>>()?;
            tally.name(name.name, offset)?;
            reader.read::<ComponentTypeRef>()?;
        }
        other => {
            let message = format!("a declaration of a type begins with 0x{other:02x}");
            return Err(StructureError::Malformed { offset, message });
        }
    }
    Ok(false)
}

/// Reads a type that cannot nest, or how many declarations a type has that can.
fn type_or_list(reader: &mut BinaryReader<'_>, tally: &mut Tally) -> Result<Option<u32>, StructureError> {
    let mut ahead = reader.clone();
    if OF_DECLARATIONS.contains(&ahead.read_u8()?) {
        reader.read_u8()?;
        return Ok(Some(reader.read_var_u32()?));
    }
    let offset = reader.original_position();
    tally.types.add(parts(&reader.read::<ComponentType<'_>>()?) as u64, offset)?;
    Ok(None)
}

/// The fields, cases or parameters of a type.
fn parts(of: &ComponentType<'_>) -> usize {
    match of {
        ComponentType::Func(function) => function.params.len(),
        ComponentType::Defined(ComponentDefinedType::Record(fields)) => fields.len(),
        ComponentType::Defined(ComponentDefinedType::Variant(cases)) => cases.len(),
        ComponentType::Defined(ComponentDefinedType::Tuple(types)) => types.len(),
        ComponentType::Defined(ComponentDefinedType::Flags(names) | ComponentDefinedType::Enum(names)) => names.len(),
        _ => 1,
    }
}
