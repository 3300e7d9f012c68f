//! `policy-build [--prepare] IN.wasm OUT.wasm`: makes a policy component of a core module that the SDK built.
//!
//! With `--prepare` the module's function `prepare` is run first, and the component begins as that left it (`prepare.rs`): for the interpreter of
//! scripts.
//!
//! Everything except code and contract is removed, so that the same source gives the same bytes. A component that imports anything but types is
//! refused here, before a host refuses it.

use std::{env, fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use wit_component::{ComponentEncoder, DecodedWasm, decode};

mod prepare;
mod strip;

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let (prepared, files) = match arguments.as_slice() {
        [first, files @ ..] if first == "--prepare" => (true, files),
        files => (false, files),
    };
    let [input, output] = files else { bail!("usage: policy-build [--prepare] IN.wasm OUT.wasm") };
    let (input, output) = (Path::new(input), Path::new(output));

    let module = fs::read(input).with_context(|| format!("failed to read {}", input.display()))?;
    let component =
        build(&module, prepared).with_context(|| format!("failed to make a policy of {}", input.display()))?;
    if fs::read(output).is_ok_and(|old| old == component) {
        return Ok(());
    }
    fs::write(output, &component).with_context(|| format!("failed to write {}", output.display()))?;
    println!("{} {} bytes", output.display(), component.len());
    Ok(())
}

fn build(module: &[u8], prepared: bool) -> Result<Vec<u8>> {
    let mut module = strip::custom_sections(module, |name| name.starts_with("component-type"))?;
    if prepared {
        module = prepare::run(&module)?;
    }
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
