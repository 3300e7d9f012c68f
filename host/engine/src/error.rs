//! Every way in which a policy can fail.

use std::{fmt, str::FromStr};

use tanist_core::{contract::Fault, policy::CUT_OFF};

use crate::structure::StructureError;

/// Why the engine could not be set up; it is not about a policy.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up the engine: {0}")]
pub struct SetupError(pub(crate) String);

/// Why a policy was not loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It has more bytes than allowed.
    #[error("it has {size} bytes, {limit} are allowed")]
    Size {
        /// The bytes that it has.
        size: usize,
        /// The bytes that are allowed.
        limit: usize,
    },
    /// It has no bytes.
    #[error("it is empty")]
    Empty,
    /// It is compressed.
    #[error("it is compressed with gzip; compressed policies are not supported yet, store it uncompressed")]
    Gzip,
    /// It is a core module.
    #[error("it is a core module, not a component; encode it as a component first")]
    CoreModule,
    /// It is not WebAssembly.
    #[error("it is not a WebAssembly component")]
    NotWebAssembly,
    /// It is malformed, uses a feature that is switched off, or has too much of something.
    #[error("it cannot be compiled: {0}")]
    Structure(StructureError),
    /// The compiler refused it.
    #[error("failed to compile it: {0}")]
    Compile(String),
    /// What was compiled does not fit this process: another version or configuration of the engine compiled it.
    #[error("what was compiled of it cannot be used: {0}")]
    Compiled(String),
    /// It imports something other than types.
    #[error("it imports {0}, and a policy may import nothing but types")]
    Import(String),
    /// It is written for a version of the contract that this host does not serve.
    #[error("it uses {name}, this host serves {served}")]
    Unserved {
        /// The name of its import or export.
        name: String,
        /// The package and version that the host serves.
        served: String,
    },
    /// The interface that each policy must have is missing.
    #[error("it does not export tanist:policy/about")]
    LacksAbout,
    /// It has no decision point.
    #[error("it exports none of tanist:policy/election, placement and recovery, so there is no question for it")]
    LacksPoints,
    /// An interface has another type than in the contract.
    #[error("its {interface} is not that of the contract: {message}")]
    Type {
        /// The name of the interface.
        interface: String,
        /// How it differs.
        message: String,
    },
    /// It failed while it was started.
    #[error("failed to start it")]
    Start(#[source] RunError),
    /// It failed while it described itself.
    #[error("failed to ask it for its description")]
    Describe(#[source] RunError),
    /// Its description is not acceptable.
    #[error("its description is not acceptable: {0}")]
    Description(String),
    /// Its schema is not acceptable.
    #[error("the schema of its parameters is not acceptable")]
    Schema(#[source] SchemaError),
    /// It is a script, and something is wrong at a place of it.
    #[error("{}", describe(.0))]
    Script(Fault),
    /// It is a script that is no text.
    #[error("it is no UTF-8 text: something in line {0} is not; save it as UTF-8")]
    NotText(usize),
    /// It is a script that defines no point.
    #[error(
        "it defines none of seed(s), failover(s), join(s), demote(s), place(s), treat(s), switchover(s), rebalance(s), update(s), judge(s), admit(s) and order(s), so there is no question for it"
    )]
    NoFunctions,
}

/// How a policy failed while it ran.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// It used up its fuel.
    #[error("it used up its budget of {0} units of fuel")]
    Fuel(u64),
    /// Its time was over before its fuel. This tells of the machine's load, not of the policy: the question is asked again.
    #[error("its time was over before its budget: the machine is too busy; this is tried again")]
    Wall,
    /// It asked for more memory or larger tables than allowed.
    #[error("it asked for more memory than allowed: {0}")]
    Memory(String),
    /// It used up its stack.
    #[error("it used up its stack")]
    Stack,
    /// It trapped: it stopped itself or executed an invalid operation.
    #[error("it trapped: {0}")]
    Trap(String),
    /// It returned more than allowed.
    #[error("it returned too much: {0}")]
    Output(String),
    /// It returned something that is not a value of the contract, for instance text that is not UTF-8.
    #[error("it returned something malformed: {0}")]
    Malformed(String),
    /// It reported a fault.
    #[error("it reported a fault: {}", describe(.0))]
    Fault(Fault),
}

impl RunError {
    /// One word for machines.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Fuel(_) => "fuel",
            Self::Wall => CUT_OFF,
            Self::Memory(_) => "memory",
            Self::Stack => "stack",
            Self::Trap(_) => "trap",
            Self::Output(_) => "output",
            Self::Malformed(_) => "malformed",
            Self::Fault(_) => "fault",
        }
    }
}

impl LoadError {
    /// Whether the machine's load ended it and nothing is known to be wrong with the policy: it is worth another attempt soon.
    pub const fn is_load(&self) -> bool {
        matches!(self, Self::Start(RunError::Wall) | Self::Describe(RunError::Wall))
    }

    /// One word for machines.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Size { .. } => "size",
            Self::Empty => "empty",
            Self::Gzip => "gzip",
            Self::CoreModule => "core-module",
            Self::NotWebAssembly => "not-webassembly",
            Self::Structure(_) => "structure",
            Self::Compile(_) => "compile",
            Self::Compiled(_) => "compiled",
            Self::Import(_) => "import",
            Self::Unserved { .. } => "unserved",
            Self::LacksAbout => "lacks-about",
            Self::LacksPoints => "lacks-points",
            Self::Type { .. } => "type",
            Self::Start(source) | Self::Describe(source) => source.kind(),
            Self::Description(_) => "description",
            Self::Schema(_) => "schema",
            Self::Script(_) => "script",
            Self::NotText(_) => "not-text",
            Self::NoFunctions => "lacks-points",
        }
    }
}

/// The gates that a policy passes while it is loaded, in their order. Nothing is compiled before [`Stage::Compile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Its length and its first bytes.
    Size,
    /// What it consists of, and the names of what it imports and exports.
    Structure,
    /// Its compilation to native code.
    Compile,
    /// The types of the functions that it exports.
    Type,
    /// Its start, its description and the schema of its parameters.
    Exam,
}

impl Stage {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Size, "size"),
        (Self::Structure, "structure"),
        (Self::Compile, "compile"),
        (Self::Type, "type"),
        (Self::Exam, "exam"),
    ];

    /// One word for machines.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(stage, _)| *stage == self).map_or("", |(_, word)| word)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Stage {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Self::ALL.iter().find(|(_, each)| *each == word).map(|(stage, _)| *stage).ok_or(())
    }
}

impl LoadError {
    /// The gate that it did not pass.
    pub const fn stage(&self) -> Stage {
        match self {
            Self::Size { .. } | Self::Empty | Self::Gzip | Self::CoreModule | Self::NotWebAssembly => Stage::Size,
            Self::Structure(_) | Self::Import(_) | Self::Unserved { .. } | Self::LacksAbout | Self::LacksPoints => {
                Stage::Structure
            }
            Self::Compile(_) | Self::Compiled(_) => Stage::Compile,
            Self::Type { .. } => Stage::Type,
            Self::Script(_)
            | Self::NotText(_)
            | Self::NoFunctions
            | Self::Start(_)
            | Self::Describe(_)
            | Self::Description(_)
            | Self::Schema(_) => Stage::Exam,
        }
    }
}

/// What is wrong with the schema of a policy's parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct SchemaError {
    /// The place in the schema.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

/// What is wrong with the parameters of a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ParametersError {
    /// The place, for instance `parameters.prefer[2]`.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

fn describe(fault: &Fault) -> String {
    match &fault.location {
        Some(location) => format!("{} ({location})", fault.message),
        None => fault.message.clone(),
    }
}
