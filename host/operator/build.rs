//! Finds the built-in policies, which a recipe built before; a build script never builds them.
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_DIR");
    let workspace = PathBuf::from(env("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let policy = target.join("policies/sequence.wasm");
    println!("cargo::rerun-if-changed={}", policy.display());
    if !policy.is_file() {
        println!("cargo::error=the built-in policy is missing: run `make policies` (or policies/build.sh) first");
        return;
    }
    println!("cargo::rustc-env=TANIST_POLICY_SEQUENCE={}", policy.display());
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
