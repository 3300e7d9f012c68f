//! `policy-build IN.wasm OUT.wasm`: makes a policy component of a core module that the SDK built.
//!
//! Everything except code and contract is removed, so that the same source gives the same bytes. A component that imports anything but types is
//! refused here, before a host refuses it.

use std::{env, fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use wit_component::{ComponentEncoder, DecodedWasm, decode};

mod strip;

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [input, output] = arguments.as_slice() else { bail!("usage: policy-build IN.wasm OUT.wasm") };
    let (input, output) = (Path::new(input), Path::new(output));

    let module = fs::read(input).with_context(|| format!("failed to read {}", input.display()))?;
    let component = build(&module).with_context(|| format!("failed to make a policy of {}", input.display()))?;
    if fs::read(output).is_ok_and(|old| old == component) {
        return Ok(());
    }
    fs::write(output, &component).with_context(|| format!("failed to write {}", output.display()))?;
    println!("{} {} bytes", output.display(), component.len());
    Ok(())
}

fn build(module: &[u8]) -> Result<Vec<u8>> {
    let module = strip::custom_sections(module, |name| name.starts_with("component-type"))?;
    let component = ComponentEncoder::default().validate(true).module(&module)?.encode()?;
    let component = strip::custom_sections(&component, |_| false)?;
    ensure_no_imports(&component)?;
    Ok(component)
}

/// Only instances that hold types may be imported.
fn ensure_no_imports(component: &[u8]) -> Result<()> {
    let DecodedWasm::Component(resolve, world) = decode(component)? else { bail!("the result is not a component") };
    let world = resolve.worlds.get(world).context("the result has no world")?;
    for (key, item) in &world.imports {
        let name = resolve.name_world_key(key);
        let types_only = match item {
            wit_parser::WorldItem::Interface { id, .. } => {
                resolve.interfaces.get(*id).is_some_and(|interface| interface.functions.is_empty())
            }
            wit_parser::WorldItem::Type { .. } => true,
            wit_parser::WorldItem::Function(_) => false,
        };
        ensure!(types_only, "it imports {name}, and a policy imports nothing but types");
    }
    Ok(())
}
