//! Counts what components are made of: nested components, instances, aliases, and functions at their borders.

use wasmparser::{
    CanonicalFunction, CanonicalOption, ComponentAlias, ComponentExternalKind, ComponentInstance,
    ComponentOuterAliasKind, ComponentTypeRef, Instance, Payload,
};

use super::{StructureError, caps::Tally};

/// The components and modules that are open, the innermost last.
#[derive(Default)]
pub(super) struct Levels {
    open: Vec<Level>,
    /// Imports and exports of the outermost component.
    imports: Vec<String>,
    exports: Vec<String>,
}

/// One component or module that is being read.
#[derive(Default)]
struct Level {
    is_module: bool,
    /// What one instance of each component costs that it can instantiate, by index.
    components: Vec<Cost>,
    /// What one instance of this component costs.
    cost: Cost,
}

/// What is made when a component is instantiated once.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    instances: u64,
    adapters: u64,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.instances = self.instances.saturating_add(other.instances);
        self.adapters = self.adapters.saturating_add(other.adapters);
    }
}

impl Levels {
    /// Names of imports and exports of the outermost component.
    pub(super) fn names(self) -> (Vec<String>, Vec<String>) {
        (self.imports, self.exports)
    }

    /// Counts what a section has. The first section opens the outermost component.
    pub(super) fn read(&mut self, payload: &Payload<'_>, tally: &mut Tally) -> Result<(), StructureError> {
        if self.open.is_empty() {
            self.open.push(Level::default());
        }
        match payload {
            Payload::ComponentSection { unchecked_range, .. } => self.enter(false, unchecked_range.start, tally)?,
            Payload::ModuleSection { unchecked_range, .. } => {
                tally.modules.add(1, unchecked_range.start)?;
                self.enter(true, unchecked_range.start, tally)?;
            }
            Payload::End(offset) => self.leave(*offset, tally)?,
            Payload::InstanceSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, instance) = item?;
                    self.core_instance(&instance, offset, tally)?;
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, instance) = item?;
                    self.instance(&instance, offset, tally)?;
                }
            }
            Payload::ComponentAliasSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, alias) = item?;
                    self.alias(&alias, offset, tally)?;
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, function) = item?;
                    self.function(&function, offset, tally)?;
                }
            }
            Payload::ComponentImportSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, import) = item?;
                    tally.name(import.name.name, offset)?;
                    self.import(import.name.name, import.ty, offset)?;
                }
            }
            Payload::ComponentExportSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, export) = item?;
                    tally.name(export.name.name, offset)?;
                    self.export(export.name.name, export.kind, export.index);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn enter(&mut self, is_module: bool, offset: usize, tally: &mut Tally) -> Result<(), StructureError> {
        self.open.push(Level { is_module, ..Level::default() });
        tally.nesting.see(self.open.len() as u64 - 1, offset)
    }

    /// A component or module ends. Where its instances cost too much, it is refused when one is made.
    fn leave(&mut self, offset: usize, tally: &mut Tally) -> Result<(), StructureError> {
        let Some(ended) = self.open.pop() else { return Ok(()) };
        match self.open.last_mut() {
            Some(outer) if !ended.is_module => outer.components.push(ended.cost),
            Some(_) => {}
            None => {
                tally.instances.see(ended.cost.instances, offset)?;
                tally.adapters.see(ended.cost.adapters, offset)?;
            }
        }
        Ok(())
    }

    /// Adds to what one instance of the innermost component costs. More than the caps allow costs too much even if it is never made.
    fn spend(&mut self, cost: Cost, offset: usize, tally: &mut Tally) -> Result<(), StructureError> {
        let Some(level) = self.open.last_mut() else { return Ok(()) };
        level.cost.add(cost);
        tally.instances.see(level.cost.instances, offset)?;
        tally.adapters.see(level.cost.adapters, offset)
    }

    fn core_instance(
        &mut self,
        instance: &Instance<'_>,
        offset: usize,
        tally: &mut Tally,
    ) -> Result<(), StructureError> {
        match instance {
            Instance::Instantiate { args, .. } => {
                tally.externals.add(args.len() as u64, offset)?;
                self.spend(Cost { instances: 1, adapters: 0 }, offset, tally)
            }
            Instance::FromExports(exports) => tally.externals.add(exports.len() as u64, offset),
        }
    }

    fn instance(
        &mut self,
        instance: &ComponentInstance<'_>,
        offset: usize,
        tally: &mut Tally,
    ) -> Result<(), StructureError> {
        match instance {
            ComponentInstance::Instantiate { component_index, args } => {
                tally.externals.add(args.len() as u64, offset)?;
                // An index that does not exist is refused by the validator, which comes next.
                let known = self.open.last().and_then(|level| level.components.get(*component_index as usize)).copied();
                let mut cost = known.unwrap_or_default();
                cost.add(Cost { instances: 1, adapters: 0 });
                self.spend(cost, offset, tally)
            }
            ComponentInstance::FromExports(exports) => tally.externals.add(exports.len() as u64, offset),
        }
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>, offset: usize, tally: &mut Tally) -> Result<(), StructureError> {
        tally.aliases.add(1, offset)?;
        match alias {
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                let level = self.open.len().checked_sub(1 + *count as usize);
                let found = level.and_then(|level| self.open.get(level)?.components.get(*index as usize)).copied();
                if let Some(level) = self.open.last_mut() {
                    level.components.push(found.unwrap_or_default());
                }
                Ok(())
            }
            // What an instance exports may have come from elsewhere.
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => {
                Err(StructureError::HandedOver { offset })
            }
            ComponentAlias::InstanceExport { name, .. } | ComponentAlias::CoreInstanceExport { name, .. } => {
                tally.name_bytes.see(name.len() as u64, offset)
            }
            ComponentAlias::Outer { .. } => Ok(()),
        }
    }

    fn function(
        &mut self,
        function: &CanonicalFunction,
        offset: usize,
        tally: &mut Tally,
    ) -> Result<(), StructureError> {
        let options = match function {
            CanonicalFunction::Lift { options, .. } => options,
            CanonicalFunction::Lower { options, .. } => {
                self.spend(Cost { instances: 0, adapters: 1 }, offset, tally)?;
                options
            }
            _ => return Ok(()),
        };
        // The code that translates between encodings had several of wasmtime's errors, and no toolchain of policies needs it.
        for option in options {
            let encoding = match option {
                CanonicalOption::UTF16 => "UTF-16",
                CanonicalOption::CompactUTF16 => "Latin-1 or UTF-16",
                _ => continue,
            };
            return Err(StructureError::Encoding { encoding, offset });
        }
        Ok(())
    }

    fn import(&mut self, name: &str, of: ComponentTypeRef, offset: usize) -> Result<(), StructureError> {
        if self.open.len() == 1 {
            self.imports.push(name.to_owned());
        } else if matches!(of, ComponentTypeRef::Component(_)) {
            return Err(StructureError::HandedOver { offset });
        }
        // It takes the next index, and an outermost component with such an import is refused by name.
        if let (ComponentTypeRef::Component(_), Some(level)) = (of, self.open.last_mut()) {
            level.components.push(Cost::default());
        }
        Ok(())
    }

    /// An exported component takes another index.
    fn export(&mut self, name: &str, kind: ComponentExternalKind, index: u32) {
        if self.open.len() == 1 {
            self.exports.push(name.to_owned());
        }
        if let (ComponentExternalKind::Component, Some(level)) = (kind, self.open.last_mut()) {
            let cost = level.components.get(index as usize).copied().unwrap_or_default();
            level.components.push(cost);
        }
    }
}
