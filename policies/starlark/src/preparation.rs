//! What is done once, when the component is built: its memory as it is afterwards becomes the memory that every question begins with.
//!
//! `policies/build` calls this function on the core module (`wasmtime-wizer`) and removes it.

use crate::{
    functions, notes, script,
    world::exports::tanist::policy::types::{Group, Member, Phase, Position, Role, Sequence, Snapshot},
};

/// A script that uses what scripts use. Tables of methods and types are built on first use; after this they are there.
const USUAL: &str = include_str!("usual.star");

/// Builds everything that does not depend on a script.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code, reason = "the name of an export; the function is safe"))]
#[cfg_attr(target_arch = "wasm32", unsafe(export_name = "prepare"))]
pub extern "C" fn prepare() {
    #[cfg(target_arch = "wasm32")]
    wit_bindgen::rt::run_ctors_once();
    for point in ["seed", "join"] {
        // A script that fails here would fail at every question, and every test of scripts would show it.
        let _ = script::load("usual.star", USUAL.to_owned());
        let _ = script::ask::<crate::world::exports::tanist::policy::types::Answer>(point, snapshot());
    }
    let _ = notes::take();
    script::forget();
    functions::asking("");
}

fn snapshot() -> Snapshot {
    let group = Group {
        name: "usual".to_owned(),
        namespace: "usual".to_owned(),
        replicas: 2,
        primaries: 1,
        has_secondaries: true,
        term: 1,
        preferred_primary: None,
        high_water: None,
        labels: vec![],
        facts: vec![],
    };
    let member = |ordinal: u32| Member {
        name: format!("usual-{ordinal}"),
        ordinal,
        phase: Phase::Running,
        phase_since: 0,
        ready: true,
        role: Role::Stopped,
        role_since: 0,
        role_detail: None,
        last_primary: Some(1),
        term: Some(1),
        position: Position::Known(Sequence { history: None, number: 1 }),
        node: None,
        zone: Some("a".to_owned()),
        failures: 0,
        last_failure: None,
        marked: None,
        conditions: vec![],
        labels: vec![("priority".to_owned(), "1".to_owned())],
        facts: vec![],
        barred: None,
    };
    Snapshot {
        now: 1,
        group,
        members: vec![member(0), member(1)],
        history: vec![],
        parameters: r#"{"zone":"a"}"#.to_owned(),
    }
}
