//! Counts the sections of core modules; their functions are read in `code.rs`.

use wasmparser::{CompositeInnerType, Element, ElementItems, Payload, TableType};

use super::{StructureError, caps::Tally};

/// Bytes of a page of memory.
const PAGE: u64 = 64 << 10;

/// Counts what a section of a core module has. Sections without a cap are as large as they are.
pub(super) fn read(payload: &Payload<'_>, tally: &mut Tally) -> Result<(), StructureError> {
    match payload {
        Payload::TypeSection(section) => {
            tally.types.add(section.count().into(), section.range().start)?;
            for item in section.clone().into_iter_with_offsets() {
                let (offset, group) = item?;
                for of in group.types() {
                    if let CompositeInnerType::Func(function) = &of.composite_type.inner {
                        tally.parameters.see(function.params().len() as u64, offset)?;
                        tally.results.see(function.results().len() as u64, offset)?;
                    }
                }
            }
        }
        Payload::ImportSection(section) => {
            for import in section.clone().into_imports_with_offsets() {
                let (offset, import) = import?;
                tally.name(import.module, offset)?;
                tally.name(import.name, offset)?;
            }
        }
        Payload::FunctionSection(section) => tally.functions.add(section.count().into(), section.range().start)?,
        Payload::TableSection(section) => {
            for item in section.clone().into_iter_with_offsets() {
                let (offset, table) = item?;
                count_table(&table.ty, offset, tally)?;
            }
        }
        Payload::MemorySection(section) => {
            for item in section.clone().into_iter_with_offsets() {
                let (offset, memory) = item?;
                tally.memories.add(1, offset)?;
                tally.memory_bytes.add(memory.initial.saturating_mul(PAGE), offset)?;
            }
        }
        Payload::GlobalSection(section) => tally.globals.add(section.count().into(), section.range().start)?,
        Payload::ExportSection(section) => {
            for item in section.clone().into_iter_with_offsets() {
                let (offset, export) = item?;
                tally.name(export.name, offset)?;
            }
        }
        Payload::ElementSection(section) => {
            for item in section.clone().into_iter_with_offsets() {
                let (offset, element) = item?;
                tally.segments.add(1, offset)?;
                tally.elements.add(elements(&element), offset)?;
            }
        }
        Payload::DataSection(section) => tally.segments.add(section.count().into(), section.range().start)?,
        _ => {}
    }
    Ok(())
}

fn count_table(table: &TableType, offset: usize, tally: &mut Tally) -> Result<(), StructureError> {
    tally.tables.add(1, offset)?;
    tally.elements.add(table.initial, offset)
}

fn elements(element: &Element<'_>) -> u64 {
    match &element.items {
        ElementItems::Functions(items) => items.count().into(),
        ElementItems::Expressions(_, items) => items.count().into(),
    }
}
