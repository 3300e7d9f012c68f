//! Finds what is built in, which a recipe built before; a build script never builds it.
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_DIR");
    let workspace = PathBuf::from(env("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    for (variable, file) in [
        ("TANIST_POLICY_SEQUENCE", "sequence.wasm"),
        ("TANIST_POLICY_SEQUENCE_COMPILED", "sequence.cwasm"),
        ("TANIST_INTERPRETER_COMPILED", "starlark.cwasm"),
    ] {
        let file = target.join("policies").join(file);
        println!("cargo::rerun-if-changed={}", file.display());
        if !file.is_file() {
            println!("cargo::error={} is missing: run `make policies` (or policies/build.sh) first", file.display());
        }
        println!("cargo::rustc-env={variable}={}", file.display());
    }
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
