//! What the tests of the engine share: built policies, snapshots, and policies made of text.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod bombs;
pub mod rows;
pub mod usage;

use std::{env, fs, path::PathBuf, sync::Arc};

use tanist_core::{
    contract::{Member, Snapshot},
    examples,
    policy::{Answered, Point, Policies, Question, Unanswered},
};
use tanist_engine::{Engine, Layer, Limits, LoadError, Policy, Stack};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The component of a policy of this repository.
pub fn built(name: &str) -> Vec<u8> {
    let target = env::var("CARGO_TARGET_DIR").expect("CARGO_TARGET_DIR is set: . dev/env.sh");
    let path = PathBuf::from(target).join("policies").join(format!("{name}.wasm"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; build it with policies/build.sh", path.display()))
}

pub fn engine() -> Engine {
    Engine::new(Limits::default().unhurried()).unwrap()
}

pub fn load(engine: &Engine, name: &str) -> Arc<Policy> {
    Arc::new(Policy::load(engine, &format!("test/{name}"), &built(name)).unwrap())
}

pub fn layer(policy: &Arc<Policy>, parameters: &str) -> Layer {
    Layer { policy: Arc::clone(policy), points: None, parameters: policy.validate(parameters).unwrap() }
}

#[expect(clippy::result_large_err, reason = "as the trait has it")]
pub fn ask(stack: &Stack, point: Point, snapshot: &Snapshot) -> Result<Answered, Unanswered> {
    stack.ask(&Question { point, snapshot: snapshot.clone() })
}

/// `db-ORDINAL`: running, stopped, with known data.
pub fn member(ordinal: u32, number: u64) -> Member {
    Member { phase_since: 100, role_since: 200, ..examples::member(ordinal, number) }
}

/// The group `db` with these members, at a time that is easy to count with.
pub fn snapshot(members: Vec<Member>) -> Snapshot {
    Snapshot { now: 1_000, ..examples::snapshot(members) }
}

/// The contract, as it stands in `wit/`.
pub fn contract() -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../wit/policy.wit")).unwrap()
}

/// A component made of the text of a core module and a world of a contract.
pub fn component(module: &str, contract: &str, world: &str) -> Vec<u8> {
    let mut module = wat::parse_str(module).unwrap_or_else(|error| panic!("{error}\n{module}"));
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", contract).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
}

/// A policy written by hand, to do what no toolchain does. It has `election` alone and abstains, unless told otherwise.
pub struct Guest {
    /// Version of the contract.
    pub version: &'static str,
    /// Pages of memory at the start.
    pub pages: u32,
    /// The body of `cabi_realloc`; its four parameters are old address, old size, alignment, new size.
    pub realloc: &'static str,
    /// The body of `seed`: leaves the address of the result.
    pub seed: &'static str,
    /// More fields of the core module.
    pub extra: &'static str,
    /// JSON Schema of the parameters.
    pub schema: &'static str,
    /// Name and version, 4 and 5 bytes.
    pub name: [&'static str; 2],
}

/// Leaves the address of an abstention.
pub const ABSTAIN: &str = "(i32.const 2048)";

impl Default for Guest {
    fn default() -> Self {
        Self {
            version: "0.1.4",
            pages: 1,
            realloc: "(local $at i32)
                (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
                (global.set $next (i32.add (local.get $at) (local.get 3)))
                (local.get $at)",
            seed: ABSTAIN,
            extra: "",
            schema: "",
            name: ["tiny", "1.0.0"],
        }
    }
}

impl Guest {
    pub fn module(&self) -> String {
        let Self { version, pages, realloc, seed, extra, schema, name } = self;
        let has_schema = u8::from(!schema.is_empty());
        let length =
            |text: &str| text.len().to_le_bytes().iter().take(4).map(|b| format!("\\{b:02x}")).collect::<String>();
        let escape = |text: &str| text.bytes().map(|b| format!("\\{b:02x}")).collect::<String>();
        let (schema_length, schema, first, second) = (length(schema), escape(schema), escape(name[0]), escape(name[1]));
        let (first_length, second_length) = (length(name[0]), length(name[1]));
        let about = format!("tanist:policy/about@{version}");
        let election = format!("tanist:policy/election@{version}");
        // The description is at 1024, its texts from 1100; the abstention at 2048.
        format!(
            r#"(module
                (memory (export "memory") {pages})
                (global $next (mut i32) (i32.const 8192))
                (data (i32.const 1024) "\4c\04\00\00{first_length}\80\04\00\00{second_length}\00\00\00\00\00\00\00\00\0{has_schema}\00\00\00\00\06\00\00{schema_length}\00\00\00\00\00\00\00\00")
                (data (i32.const 1100) "{first}")
                (data (i32.const 1152) "{second}")
                (data (i32.const 1536) "{schema}")
                (data (i32.const 2048) "\00\00\00\00\00\00\00\00\03")
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) {realloc})
                (func (export "{about}#describe") (result i32) (i32.const 1024))
                (func (export "{election}#seed") (param i32) (result i32) {seed})
                (func (export "{election}#failover") (param i32) (result i32) {ABSTAIN})
                (func (export "{election}#join") (param i32) (result i32) {ABSTAIN})
                (func (export "{election}#demote") (param i32) (result i32) {ABSTAIN})
                {extra})"#
        )
    }

    pub fn build(&self) -> Vec<u8> {
        component(&self.module(), &contract().replace("0.1.4", self.version), "election-only")
    }

    pub fn load(&self) -> Result<Policy, LoadError> {
        Policy::load(&engine(), "test/guest", &self.build())
    }
}
