//! `policy-build [--prepare] IN.wasm OUT.wasm`: makes a policy component of a core module that the SDK built.
//!
//! With `--prepare` the module's function `prepare` is run first, and the component begins as that left it (`prepare.rs`): for the interpreter of
//! scripts.
//!
//! Everything except code and contract is removed, so that the same source gives the same bytes. A component that imports anything but types is
//! refused here, before a host refuses it.
//!
//! `policy-build --compile policy|interpreter TARGET IN.wasm OUT.cwasm`: compiles a component for every machine of a kind, so that a program can carry
//! what it needs at its start and does not compile it there.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};
use tanist_engine::{Interpreter, compile_for};
use wit_component::{ComponentEncoder, DecodedWasm, decode};

mod prepare;
mod strip;

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [option, what, target, input, output] if option == "--compile" => {
            make(input, output, |component| compile(what, target, component))
        }
        [option, input, output] if option == "--prepare" => make(input, output, |module| build(module, true)),
        [input, output] => make(input, output, |module| build(module, false)),
        _ => bail!(
            "usage: policy-build [--prepare] IN.wasm OUT.wasm, or --compile policy|interpreter TARGET IN.wasm OUT.cwasm"
        ),
    }
}

/// Writes what is made of a file, unless it is there already.
fn make(input: &OsString, output: &OsString, made_of: impl Fn(&[u8]) -> Result<Vec<u8>>) -> Result<()> {
    let (input, output) = (Path::new(input), Path::new(output));
    let bytes = fs::read(input).with_context(|| format!("failed to read {}", input.display()))?;
    let made = made_of(&bytes).with_context(|| format!("failed to make {}", output.display()))?;
    if fs::read(output).is_ok_and(|old| old == made) {
        return Ok(());
    }
    fs::write(output, &made).with_context(|| format!("failed to write {}", output.display()))?;
    println!("{} {} bytes", output.display(), made.len());
    Ok(())
}

fn compile(what: &OsStr, target: &OsStr, component: &[u8]) -> Result<Vec<u8>> {
    let target = target.to_str().context("the target is no text")?;
    let compiled = match what.to_str() {
        Some("policy") => compile_for(target, component),
        Some("interpreter") => Interpreter::compile(Some(target), component),
        _ => bail!("what is compiled is a policy or an interpreter"),
    };
    compiled.context("it does not compile")
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
