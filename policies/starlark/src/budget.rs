//! What one question may use inside the interpreter.
//!
//! These limits are reached before the sandbox's fuel and memory, so that a script that runs too long is told at which line. They count what the
//! script does and not what the machine does: the same script stops at the same place everywhere.

use std::cell::Cell;

use starlark::{
    codemap::FileSpanRef,
    eval::{BeforeStmtFunc, BeforeStmtFuncDyn, Evaluator},
};

/// Statements of one question. A script for 1,000 members needs some 10 for each member; this is five times as many, and so few that the fuel
/// lasts for them.
pub const STEPS: u32 = 50_000;
/// Bytes of all values of a script. One statement at most doubles them, with a copy on the way, so that this is reached before the 16 MiB of the
/// sandbox.
pub const BYTES: usize = 2 << 20;
/// Calls inside calls.
pub const CALLS: usize = 50;
/// Elements of a range, and what a text or a list may become by `*`. A group has at most 1,000 members.
pub const LENGTH: i64 = 100_000;

/// Rounds of loops, and calls, between two looks of the language at its own limits.
const PERIOD: u32 = 1_000;

/// Which limit ended a script.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Steps,
    Bytes,
}

thread_local! {
    static STEPS_LEFT: Cell<u32> = const { Cell::new(STEPS) };
    static CUT: Cell<Option<Cut>> = const { Cell::new(None) };
}

/// Starts counting anew.
pub fn reset() {
    STEPS_LEFT.set(STEPS);
    CUT.set(None);
}

/// What is said of a script that a limit ended.
pub fn said() -> Option<String> {
    Some(match CUT.get()? {
        Cut::Steps => format!("it took more than {STEPS} steps"),
        Cut::Bytes => format!("its values take more than {} KiB", BYTES >> 10),
    })
}

/// Sets the limits of an evaluation. They are looked at before each statement; `noted`: then this is done, too.
pub fn limit(eval: &mut Evaluator<'_, '_, '_>, noted: Option<fn(FileSpanRef<'_>)>) -> anyhow::Result<()> {
    // Nothing lives longer than the question, and a collection would take longer than it.
    eval.disable_gc();
    eval.set_max_callstack_size(CALLS)?;
    // Loops inside one expression have no statements. After every thousand of their rounds this is asked. It says so once, because the language
    // asks again at the end, and an answer then would replace the error that has a place.
    let heap = eval.heap();
    eval.set_check_cancelled(Box::new(move || {
        let left = STEPS_LEFT.get().saturating_sub(PERIOD);
        STEPS_LEFT.set(left);
        let cut = if left == 0 { Some(Cut::Steps) } else { (heap.allocated_bytes() > BYTES).then_some(Cut::Bytes) };
        cut.is_some() && CUT.replace(cut).is_none()
    }));
    eval.before_stmt_for_dap(match noted {
        None => BeforeStmtFunc::from_dyn(Box::new(Count)),
        Some(note) => BeforeStmtFunc::from_dyn(Box::new(CountAndNote(note))),
    });
    Ok(())
}

/// Counts each statement, and tells where it is.
struct CountAndNote(fn(FileSpanRef<'_>));

impl<'e> BeforeStmtFuncDyn<'e> for CountAndNote {
    fn call<'v>(
        &mut self,
        span: FileSpanRef<'_>,
        continued: bool,
        eval: &mut Evaluator<'v, '_, 'e>,
    ) -> starlark::Result<()> {
        (self.0)(span);
        Count.call(span, continued, eval)
    }
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
        let cut =
            if left == 0 { Some(Cut::Steps) } else { (eval.heap().allocated_bytes() > BYTES).then_some(Cut::Bytes) };
        if cut.is_none() {
            STEPS_LEFT.set(left - 1);
            return Ok(());
        }
        CUT.set(cut);
        let mut error = starlark::Error::new_other(anyhow::Error::msg("a limit was reached"));
        error.set_span(span.span, span.file);
        Err(error)
    }
}
