//! Every size, count and budget of a policy, each with its reason.

use std::time::Duration;

/// What a policy may use. Every limit is always set; the defaults are for policies of any user who may write a ConfigMap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a component. A ConfigMap holds 1 MiB.
    pub component_bytes: usize,
    /// Bytes of all memories of one question together. The built-in policy needs 1 MiB for 1,000 members.
    pub memory_bytes: usize,
    /// Memories of one question. A memory costs the host more than its bytes.
    pub memories: usize,
    /// Core instances of one question. A component of the SDK has one, one with an adapter three.
    pub instances: usize,
    /// Tables of one question.
    pub tables: usize,
    /// Elements of all tables of one question together, a pointer each.
    pub table_elements: usize,
    /// Bytes of stack. A thread of the host has 2 MiB and needs some of it itself.
    pub stack_bytes: usize,
    /// Fuel of every question. One unit is about one instruction, or one byte of a bulk instruction: 20 million take some 10 to 20 ms.
    pub fuel_base: u64,
    /// More fuel for each member: even interpreters need less than this to read a member.
    pub fuel_per_member: u64,
    /// More fuel for each byte of text in the snapshot, so that labels and facts do not use up the fuel of their member.
    pub fuel_per_byte: u64,
    /// The time of a question, of all policies that are asked it together. Fuel ends a question long before, unless the machine is so busy that it
    /// runs many times slower than alone: 20 million units take some 20 ms.
    pub wall: Duration,
    /// The time of a question about many members, for each of them, if that is more than `wall`: their fuel lasts longer, too.
    pub wall_per_member: Duration,
    /// Bytes that one call may move from the policy to the host, before anything is checked.
    pub transfer_bytes: usize,
    /// Members in one list of an answer; a group has no more.
    pub answer_members: usize,
    /// Bytes of a reason, which is shown in the status of a group.
    pub reason_bytes: usize,
    /// Bytes of all texts of an answer together.
    pub answer_bytes: usize,
    /// Bytes of the schema of the parameters.
    pub schema_bytes: usize,
    /// Bytes of the parameters as JSON.
    pub parameters_bytes: usize,
    /// Notes that are kept of one question; the contract allows no more.
    pub notes: usize,
    /// Bytes of a script. It is loaded anew for each question, some 10 microseconds for each line.
    pub script_bytes: usize,
}

impl Limits {
    /// The limits of the interpreter of scripts: those of every policy, but for what the interpreter itself needs. Its table of functions has more than
    /// 10,000 elements. A script of 40 lines takes 1.5 million units of fuel; the base is for the 50,000 steps that the interpreter counts, each some
    /// hundreds of units, so that a script that runs too long ends at a line and not in the sandbox.
    #[must_use]
    pub const fn of_interpreter(self) -> Self {
        Self { table_elements: 20_000, fuel_base: self.fuel_base.saturating_mul(4), ..self }
    }
}

impl Limits {
    /// The same limits, but for the time of a question: for tests and commands, where no group waits and nothing may fail because the machine is busy.
    /// Fuel ends the same questions at the same place as ever.
    #[must_use]
    pub const fn unhurried(self) -> Self {
        Self { wall: Duration::from_secs(60), ..self }
    }

    /// The time of a question about that many members.
    #[must_use]
    pub fn wall_of(&self, members: u64) -> Duration {
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        self.wall.max(self.wall_per_member.saturating_mul(members))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            component_bytes: 1 << 20,
            memory_bytes: 16 << 20,
            memories: 2,
            instances: 16,
            tables: 4,
            table_elements: 10_000,
            stack_bytes: 256 << 10,
            fuel_base: 20_000_000,
            fuel_per_member: 100_000,
            fuel_per_byte: 100,
            wall: Duration::from_millis(100),
            wall_per_member: Duration::from_millis(1),
            transfer_bytes: 1 << 20,
            answer_members: 1_000,
            reason_bytes: 256,
            answer_bytes: 256 << 10,
            schema_bytes: 16 << 10,
            parameters_bytes: 16 << 10,
            notes: 32,
            script_bytes: 64 << 10,
        }
    }
}
