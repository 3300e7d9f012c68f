//! What one question may use inside the interpreter.
//!
//! These limits are reached before the sandbox's fuel and memory, so that a script that runs too long is told at which line. They count what the
//! script does and not what the machine does: the same script stops at the same place everywhere.

use std::cell::Cell;

use starlark::{
    codemap::FileSpanRef,
    eval::{BeforeStmtFunc, BeforeStmtFuncDyn, Evaluator},
};

/// Statements of one question. A script for 1,000 members needs some 10 for each member; this is twenty times as many.
pub const STEPS: u32 = 200_000;
/// Bytes of all values of a script. One statement at most doubles them, so that this is reached before the 16 MiB of the sandbox.
pub const BYTES: usize = 4 << 20;
/// Calls inside calls.
pub const CALLS: usize = 50;
/// Elements of a range, and what a text or a list may become by `*`. A group has at most 1,000 members.
pub const LENGTH: i64 = 100_000;

thread_local! {
    static STEPS_LEFT: Cell<u32> = const { Cell::new(STEPS) };
}

/// Starts counting anew.
pub fn reset() {
    STEPS_LEFT.set(STEPS);
}

/// Sets the limits of an evaluation.
pub fn limit(eval: &mut Evaluator<'_, '_, '_>) -> anyhow::Result<()> {
    // Nothing lives longer than the question, and a collection would take longer than it.
    eval.disable_gc();
    eval.set_max_callstack_size(CALLS)?;
    eval.before_stmt_for_dap(BeforeStmtFunc::from_dyn(Box::new(Count)));
    Ok(())
}

struct Count;

impl<'e> BeforeStmtFuncDyn<'e> for Count {
    fn call<'v>(
        &mut self,
        span: FileSpanRef<'_>,
        continued: bool,
        eval: &mut Evaluator<'v, '_, 'e>,
    ) -> starlark::Result<()> {
        if continued {
            return Ok(());
        }
        let left = STEPS_LEFT.get();
        let message = if left == 0 {
            format!("it took more than {STEPS} steps")
        } else if eval.heap().allocated_bytes() > BYTES {
            format!("its values take more than {} KiB", BYTES >> 10)
        } else {
            STEPS_LEFT.set(left - 1);
            return Ok(());
        };
        let mut error = starlark::Error::new_other(anyhow::Error::msg(message));
        error.set_span(span.span, span.file);
        Err(error)
    }
}
