//! The definition that is installed is the one that the program prints.
#![allow(missing_docs)]

#[test]
fn the_program_prints_the_stored_definition() {
    let printed = std::process::Command::new(env!("CARGO_BIN_EXE_tanist")).arg("crds").output().unwrap();
    assert!(printed.status.success(), "{printed:?}");
    let stored = include_str!("../../../crds/replicagroups.tanist.dev.yaml");
    assert!(
        String::from_utf8_lossy(&printed.stdout) == stored,
        "run `cargo run --locked -p tanist -- crds > crds/replicagroups.tanist.dev.yaml`"
    );
}
