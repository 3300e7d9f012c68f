//! How much of what a component may have, and the counting of it.

use super::StructureError;

/// What a component that anybody may load can have at most, each number with its reason. "All" counts nested components and modules, too.
///
/// The times are those of docs/safety.md (H19, H20), of one thread of a two-core machine: each cap was tried by a component that uses it up and
/// breaks no other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Components inside of each other. Toolchains nest one for each exported interface.
    pub nesting: u64,
    /// Types inside of each other, as they are written. The parser of types recurses: 300 KB of nested types would end the process by its stack.
    pub type_nesting: u64,
    /// All types and their parts, such as the fields of a record. The whole contract has some 300.
    pub types: u64,
    /// All core modules. A component of the SDK has one, one with an adapter four.
    pub modules: u64,
    /// All instances of modules and components that starting it makes. A component that instantiates the next one twice at each of 20 levels
    /// takes 2 KB and makes a million.
    pub instances: u64,
    /// All functions that one component calls in another one, at each instance: every one of them gets code that copies its arguments.
    pub adapters: u64,
    /// All aliases, a few bytes each.
    pub aliases: u64,
    /// All imports and exports, of components and modules.
    pub externals: u64,
    /// Bytes of the name of one import or export.
    pub name_bytes: u64,
    /// All functions. 200,000 empty ones, 800 KB, take 16 s and 1.2 GiB.
    pub functions: u64,
    /// Parameters of one core function or block.
    pub parameters: u64,
    /// Results of one core function or block. Compilers return one and pass the others through memory.
    pub results: u64,
    /// Bytes of one function's body: the compiler's time grows faster than the body.
    pub body_bytes: u64,
    /// Locals of one function, parameters included. 50,000 of them take a few bytes.
    pub function_locals: u64,
    /// Locals of all functions. 20,000 functions with 50,000 each, 160 KB, take 77 s.
    pub locals: u64,
    /// Blocks, loops and ifs inside of each other. 100,000 nested loops, 300 KB, take 47 s and 2.1 GiB.
    pub block_nesting: u64,
    /// Blocks, loops, ifs and branches of one function. 20,000 empty loops, 60 KB, take 2 s, ten times as many minutes.
    pub function_blocks: u64,
    /// The same of all functions.
    pub blocks: u64,
    /// Values of one function that are alive at its blocks and branches, added up. 40,000 locals around one loop take 16 s.
    pub function_values: u64,
    /// The same of all functions.
    pub values: u64,
    /// Calls of one function. 300,000 of them, 600 KB, take 5 s and 1.25 GiB.
    pub function_calls: u64,
    /// The same of all functions.
    pub calls: u64,
    /// Estimated microseconds of the compiler for all functions (`structure/code.rs` has the estimate). The other caps bound what a single
    /// thing takes; this one bounds all of them together. 110,000 stores, 1 MB, take 11 to 70 s, depending on how many are in one function.
    pub work: u64,
    /// The number of memories, those of all modules added up.
    pub memories: u64,
    /// Bytes of all memories at the start; 16 MiB is what a question may use ([`crate::Limits::memory_bytes`]).
    pub memory_bytes: u64,
    /// The number of tables, those of all modules added up.
    pub tables: u64,
    /// Elements of all tables at the start, and of all segments that fill them.
    pub elements: u64,
    /// All segments of data and elements.
    pub segments: u64,
    /// The number of globals, those of all modules added up.
    pub globals: u64,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            nesting: 16,
            type_nesting: 16,
            types: 10_000,
            modules: 8,
            instances: 64,
            adapters: 32,
            aliases: 5_000,
            externals: 5_000,
            name_bytes: 512,
            functions: 10_000,
            parameters: 100,
            results: 16,
            body_bytes: 128 << 10,
            function_locals: 2_000,
            locals: 200_000,
            block_nesting: 256,
            function_blocks: 4_000,
            blocks: 50_000,
            function_values: 400_000,
            values: 2_000_000,
            function_calls: 10_000,
            calls: 50_000,
            work: 2_000_000,
            memories: 2,
            memory_bytes: 16 << 20,
            tables: 4,
            elements: 10_000,
            segments: 10_000,
            globals: 1_000,
        }
    }
}

/// One count and its cap.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gauge {
    what: &'static str,
    advice: &'static str,
    cap: u64,
    found: u64,
    /// The function that it is about, by its index in its module.
    function: Option<u32>,
}

impl Gauge {
    const fn new(what: &'static str, cap: u64, advice: &'static str) -> Self {
        Self { what, advice, cap, found: 0, function: None }
    }

    /// Counts so many more.
    pub(super) fn add(&mut self, more: u64, offset: usize) -> Result<(), StructureError> {
        self.found = self.found.saturating_add(more);
        self.check(self.found, offset)
    }

    /// Compares a number that is not added to others; the largest is kept.
    pub(super) fn see(&mut self, found: u64, offset: usize) -> Result<(), StructureError> {
        self.found = self.found.max(found);
        self.check(found, offset)
    }

    /// Counts from zero for another function.
    pub(super) fn begin(&mut self, function: u32) {
        (self.found, self.function) = (0, Some(function));
    }

    fn check(&self, found: u64, offset: usize) -> Result<(), StructureError> {
        if found <= self.cap {
            return Ok(());
        }
        let what = match self.function {
            Some(function) => format!("{} of function {function}", self.what),
            None => self.what.to_owned(),
        };
        Err(StructureError::Above { what, offset, found, cap: self.cap, advice: self.advice })
    }
}

/// Every count of a component so far.
pub(super) struct Tally {
    pub(super) nesting: Gauge,
    pub(super) type_nesting: Gauge,
    pub(super) types: Gauge,
    pub(super) modules: Gauge,
    pub(super) instances: Gauge,
    pub(super) adapters: Gauge,
    pub(super) aliases: Gauge,
    pub(super) externals: Gauge,
    pub(super) name_bytes: Gauge,
    pub(super) functions: Gauge,
    pub(super) parameters: Gauge,
    pub(super) results: Gauge,
    pub(super) locals: Gauge,
    pub(super) blocks: Gauge,
    pub(super) values: Gauge,
    pub(super) calls: Gauge,
    pub(super) work: Gauge,
    pub(super) memories: Gauge,
    pub(super) memory_bytes: Gauge,
    pub(super) tables: Gauge,
    pub(super) elements: Gauge,
    pub(super) segments: Gauge,
    pub(super) globals: Gauge,
    pub(super) function: InFunction,
}

/// The counts of one function; they begin anew with each. What is kept is the largest of all functions.
pub(super) struct InFunction {
    pub(super) body_bytes: Gauge,
    pub(super) locals: Gauge,
    pub(super) block_nesting: Gauge,
    pub(super) blocks: Gauge,
    pub(super) values: Gauge,
    pub(super) calls: Gauge,
    /// Instructions that can trap, values passed to and from functions, and all instructions.
    pub(super) checks: u64,
    pub(super) passed: u64,
    pub(super) operators: u64,
    largest: [u64; 6],
}

const SPLIT: &str = "split the function into smaller ones, or forbid the compiler to inline";
const FEWER: &str = "leave out what it does not use, or optimise it for size";
const WORK: &str = "leave out what it does not use, optimise it for size, and split its largest functions";
const FLAT: &str = "build it without composing, or nest less";

impl Tally {
    pub(super) fn new(caps: &Caps) -> Self {
        Self {
            nesting: Gauge::new("components inside of each other", caps.nesting, FLAT),
            type_nesting: Gauge::new("types inside of each other", caps.type_nesting, FLAT),
            types: Gauge::new("types and their parts", caps.types, FEWER),
            modules: Gauge::new("core modules", caps.modules, FLAT),
            instances: Gauge::new("instances that starting it makes", caps.instances, FLAT),
            adapters: Gauge::new("calls from component to component", caps.adapters, FLAT),
            aliases: Gauge::new("aliases", caps.aliases, FEWER),
            externals: Gauge::new("imports and exports", caps.externals, FEWER),
            name_bytes: Gauge::new("bytes of a name", caps.name_bytes, "choose shorter names"),
            functions: Gauge::new("functions", caps.functions, FEWER),
            parameters: Gauge::new("parameters of a function or block", caps.parameters, "pass them through memory"),
            results: Gauge::new("results of a function or block", caps.results, "return them through memory"),
            locals: Gauge::new("locals of all functions", caps.locals, FEWER),
            blocks: Gauge::new("blocks, loops and branches of all functions", caps.blocks, FEWER),
            values: Gauge::new("values alive at the blocks and branches of all functions", caps.values, FEWER),
            calls: Gauge::new("calls in all functions", caps.calls, FEWER),
            work: Gauge::new("estimated microseconds of the compiler", caps.work, WORK),
            memories: Gauge::new("memories", caps.memories, FLAT),
            memory_bytes: Gauge::new("bytes of memory at the start", caps.memory_bytes, "start with less and grow"),
            tables: Gauge::new("tables", caps.tables, FLAT),
            elements: Gauge::new("elements of tables", caps.elements, FEWER),
            segments: Gauge::new("segments of data and elements", caps.segments, FEWER),
            globals: Gauge::new("globals", caps.globals, FEWER),
            function: InFunction {
                body_bytes: Gauge::new("bytes", caps.body_bytes, SPLIT),
                locals: Gauge::new("locals", caps.function_locals, SPLIT),
                block_nesting: Gauge::new("blocks inside of each other", caps.block_nesting, SPLIT),
                blocks: Gauge::new("blocks, loops and branches", caps.function_blocks, SPLIT),
                values: Gauge::new("values alive at the blocks and branches", caps.function_values, SPLIT),
                calls: Gauge::new("calls", caps.function_calls, SPLIT),
                checks: 0,
                passed: 0,
                operators: 0,
                largest: [0; 6],
            },
        }
    }

    /// Compares the length of a name.
    pub(super) fn name(&mut self, name: &str, offset: usize) -> Result<(), StructureError> {
        self.externals.add(1, offset)?;
        self.name_bytes.see(name.len() as u64, offset)
    }

    /// All counts. Those of functions are of the function that has most.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let whole = [
            self.nesting,
            self.type_nesting,
            self.types,
            self.modules,
            self.instances,
            self.adapters,
            self.aliases,
            self.externals,
            self.name_bytes,
            self.functions,
            self.parameters,
            self.results,
            self.locals,
            self.blocks,
            self.values,
            self.calls,
            self.work,
            self.memories,
            self.memory_bytes,
            self.tables,
            self.elements,
            self.segments,
            self.globals,
        ];
        let function = self.function.gauges().map(|gauge| gauge.what).into_iter().zip(self.function.largest);
        whole.iter().map(|gauge| (gauge.what, gauge.found)).chain(function).collect()
    }
}

impl InFunction {
    fn gauges(&self) -> [&Gauge; 6] {
        [&self.body_bytes, &self.locals, &self.block_nesting, &self.blocks, &self.values, &self.calls]
    }

    /// The next function begins.
    pub(super) fn begin(&mut self, function: u32) {
        self.end();
        for gauge in [
            &mut self.body_bytes,
            &mut self.locals,
            &mut self.block_nesting,
            &mut self.blocks,
            &mut self.values,
            &mut self.calls,
        ] {
            gauge.begin(function);
        }
        (self.checks, self.passed, self.operators) = (0, 0, 0);
    }

    /// The microseconds that the compiler will take for this function, about. Measured with optimisation, fuel and explicit checks on, as
    /// policies are compiled; what is measured is in docs/safety.md (H19). Time grows with the square of the blocks of a function, and each
    /// instruction that can trap makes blocks of its own.
    pub(super) fn work(&self) -> u64 {
        let blocks = self.blocks.found.saturating_add(self.checks.saturating_mul(8) / 5);
        let square = blocks.saturating_mul(blocks) / 74;
        [
            80,
            self.operators.saturating_mul(7),
            self.blocks.found.saturating_mul(14),
            self.checks.saturating_mul(64),
            self.calls.found.saturating_mul(15),
            self.passed.saturating_mul(5),
            self.values.found / 2,
            square,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// A function ended.
    pub(super) fn end(&mut self) {
        let found = self.gauges().map(|gauge| gauge.found);
        for (largest, found) in self.largest.iter_mut().zip(found) {
            *largest = (*largest).max(found);
        }
    }
}
