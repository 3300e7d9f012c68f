//! `cargo run`: builds the library for WebAssembly, and makes the component policy.wasm of it.

use std::{env, fs, path::PathBuf, process::Command};

const TARGET: &str = "wasm32-unknown-unknown";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let target = env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| package.join("target"), PathBuf::from)
        .join("policy");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&package).args([
        "rustc",
        "--lib",
        "--release",
        "--crate-type",
        "cdylib",
        "--target",
        TARGET,
    ]);
    cargo.arg("--target-dir").arg(&target);
    // A policy asks for no deep recursion: with 32 KiB of stack instead of 1 MiB its memory is small, which makes each question faster.
    cargo.env(
        "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
        "-Clink-arg=-zstack-size=32768",
    );
    // What is set for other targets is not meant for this one.
    cargo
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    if !cargo.status()?.success() {
        return Err(format!(
            "the library was not built; if the target is missing: rustup target add {TARGET}"
        )
        .into());
    }
    let module = fs::read(target.join(TARGET).join("release/policy.wasm"))?;
    let component = wit_component::ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .encode()?;
    fs::write(package.join("policy.wasm"), &component)?;
    println!("policy.wasm: {} bytes", component.len());
    Ok(())
}
