//! A project in Rust, as `tanist policy new` makes it, outside of the checkout: the commands of docs/policies.md, and what a panic looks like.
//!
//! It is built with the versions of the workspace's Cargo.lock, so that nothing is fetched, into a folder of its own in the target folder: the first time that takes a
//! minute, later some seconds.
use super::{Desk, blocks};
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// As a user has it who has set nothing, but that nothing is fetched.
fn with_cargo(mut shell: Command) -> Command {
    let target = env::var("CARGO_TARGET_DIR").expect("CARGO_TARGET_DIR is set: . dev/env.sh");
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("CARGO_") && name != "CARGO_HOME") {
        shell.env_remove(name);
    }
    shell.env("SDK", format!("{CHECKOUT}/policies/sdk"));
    shell.env("CARGO_TARGET_DIR", Path::new(&target).join("project")).env("CARGO_NET_OFFLINE", "true");
    shell
}

/// The folder of the project, once the document has made it. Cargo is told the versions that are here.
fn project(desk: &Desk) -> Option<std::path::PathBuf> {
    let entries = fs::read_dir(desk.work()).unwrap().map(|entry| entry.unwrap().path());
    let project = entries.into_iter().find(|path| path.join("Cargo.toml").exists())?;
    if !project.join("Cargo.lock").exists() {
        fs::copy(format!("{CHECKOUT}/Cargo.lock"), project.join("Cargo.lock")).unwrap();
    }
    Some(project)
}

fn texts(done: &Output) -> (String, String) {
    (String::from_utf8_lossy(&done.stdout).into_owned(), String::from_utf8_lossy(&done.stderr).into_owned())
}

/// Panics where no member is in the zone `nowhere`.
const PANICS: &str = "
#[inline(never)]
fn insist(zone: &str) {
    assert_ne!(zone, \"nowhere\", \"there is no such zone\");
}

#[test]
fn a_panic_has_its_message() {
    insist(\"nowhere\");
}
";

// P44, P47: the commands for Rust, and what an author sees of a panic.
#[test]
fn a_project_in_rust_is_built_tested_and_asked() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let target =
        Path::new(String::from_utf8(sysroot.stdout).unwrap().trim()).join("lib/rustlib/wasm32-unknown-unknown");
    assert!(
        target.exists(),
        "policies are built for WebAssembly; install it: rustup target add wasm32-unknown-unknown"
    );
    let mut desk = Desk::new();
    for block in blocks() {
        match block.fence.as_str() {
            "sh rust" => desk.run(with_cargo(desk.shell(&block.text)), &block, 0),
            "text rust" => desk.compare(&block),
            _ => {}
        }
        project(&desk);
    }
    assert!(desk.ran >= 4, "only {} commands were found", desk.ran);
    let checked = with_cargo(desk.shell("tanist policy check zone-first/policy.wasm")).output().unwrap();
    assert!(checked.status.success(), "{:?}", texts(&checked));
    a_panic_is_found(&desk);
}

/// A native test shows the message of a panic, the sandbox the name of the function.
fn a_panic_is_found(desk: &Desk) {
    let folder = project(desk).unwrap();
    let source = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
    let asked = "let here = snapshot";
    assert!(source.contains(asked), "{source}");
    let source = source.replace(asked, &format!("insist(&zone);\n        {asked}"));
    fs::write(folder.join("src/lib.rs"), format!("{source}{PANICS}")).unwrap();
    let tested = with_cargo(desk.shell("cd zone-first && cargo test")).output().unwrap();
    let (out, error) = texts(&tested);
    assert!(!tested.status.success() && out.contains("there is no such zone"), "{out}\n{error}");
    let case = "parameters: {zone: nowhere}\ncases: [{point: seed}]\n";
    fs::write(folder.join("nowhere.yaml"), case).unwrap();
    let lines = "cd zone-first && cargo run && tanist policy run policy.wasm --snapshot nowhere.yaml";
    let ran = with_cargo(desk.shell(lines)).output().unwrap();
    let (out, error) = texts(&ran);
    assert_eq!(ran.status.code(), Some(1), "{out}\n{error}");
    let trapped = "it trapped: wasm trap: wasm `unreachable` instruction executed: in policy::insist";
    assert!(out.contains(trapped), "{out}\n{error}");
}
