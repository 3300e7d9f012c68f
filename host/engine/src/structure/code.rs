//! Validates the functions of core modules and counts what makes them expensive to compile.

use wasmparser::{
    BlockType, CompositeInnerType, FrameKind, FuncToValidate, FuncType, FuncValidator, FuncValidatorAllocations,
    FunctionBody, Operator, OperatorsReader, ValidatorResources, WasmModuleResources,
};

use super::{StructureError, caps::Tally};

/// Validates one function and counts. The allocations are those of the function before, to be used again.
pub(super) fn read(
    function: FuncToValidate<ValidatorResources>,
    body: &FunctionBody<'_>,
    allocations: FuncValidatorAllocations,
    tally: &mut Tally,
) -> Result<FuncValidatorAllocations, StructureError> {
    let at = body.range();
    tally.function.begin(function.index);
    tally.function.body_bytes.see(at.len() as u64, at.start)?;
    // Before the validator has them: a few bytes declare many.
    for locals in body.get_locals_reader()? {
        let (count, _) = locals?;
        tally.function.locals.add(count.into(), at.start)?;
        tally.locals.add(count.into(), at.start)?;
    }
    let mut validator = function.into_validator(allocations);
    let mut reader = body.get_binary_reader();
    validator.read_locals(&mut reader)?;
    reader.set_features(*validator.features());
    let mut operators = OperatorsReader::new(reader);
    while !operators.eof() {
        let (operator, offset) = operators.read_with_offset()?;
        // An operator that leaves its block is weighed before it, with what is alive then.
        let weight = weigh(&operator, &validator);
        validator.op(offset, &operator)?;
        weight.add(offset, tally)?;
        tally.function.block_nesting.see(validator.control_stack_height().into(), offset)?;
    }
    operators.finish()?;
    tally.work.add(tally.function.work(), at.start)?;
    tally.function.end();
    Ok(validator.into_allocations())
}

/// What an operator adds to the work of the compiler.
#[derive(Default)]
struct Weight {
    blocks: u64,
    values: u64,
    calls: u64,
    passed: u64,
    checks: u64,
}

impl Weight {
    fn add(&self, offset: usize, tally: &mut Tally) -> Result<(), StructureError> {
        tally.function.operators += 1;
        tally.function.checks += self.checks;
        tally.function.passed += self.passed;
        if self.blocks > 0 {
            tally.function.blocks.add(self.blocks, offset)?;
            tally.blocks.add(self.blocks, offset)?;
        }
        if self.values > 0 {
            tally.function.values.add(self.values, offset)?;
            tally.values.add(self.values, offset)?;
        }
        if self.calls > 0 {
            tally.function.calls.add(self.calls, offset)?;
            tally.calls.add(self.calls, offset)?;
        }
        Ok(())
    }
}

type Validating = FuncValidator<ValidatorResources>;

/// The weight of an operator: at the border of a block, every local and every value on the stack may have to be carried over; a branch carries
/// what its target takes; a call its parameters and results.
fn weigh(operator: &Operator<'_>, validator: &Validating) -> Weight {
    let border = || Weight { blocks: 1, values: alive(validator), ..Weight::default() };
    let branch = |depth: u32| Weight { blocks: 1, values: 1 + carried(validator, depth), ..Weight::default() };
    let call = |callee: Option<&FuncType>| Weight { calls: 1, passed: passed(callee), ..Weight::default() };
    let resources = validator.resources();
    match operator {
        Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::Else | Operator::End => {
            border()
        }
        Operator::Br { relative_depth } | Operator::BrIf { relative_depth } => branch(*relative_depth),
        Operator::BrTable { targets } => {
            // Malformed targets are refused by the validator.
            let depths = targets.targets().filter_map(Result::ok).chain([targets.default()]);
            depths.fold(Weight::default(), |sum, depth| {
                let one = branch(depth);
                Weight { blocks: sum.blocks + one.blocks, values: sum.values + one.values, ..sum }
            })
        }
        Operator::Call { function_index } => {
            let callee = resources.type_index_of_function(*function_index);
            call(callee.and_then(|callee| function_type(validator, callee)))
        }
        Operator::CallIndirect { type_index, .. } => {
            Weight { checks: 2, ..call(function_type(validator, *type_index)) }
        }
        // Instructions that call the host, which takes as much code as a call.
        Operator::MemoryGrow { .. }
        | Operator::DataDrop { .. }
        | Operator::ElemDrop { .. }
        | Operator::TableGrow { .. }
        | Operator::RefFunc { .. } => call(None),
        // The same, after checks of both ends of both ranges. 50,000 copies take more than 9 s.
        Operator::MemoryCopy { .. }
        | Operator::MemoryFill { .. }
        | Operator::MemoryInit { .. }
        | Operator::TableFill { .. }
        | Operator::TableCopy { .. }
        | Operator::TableInit { .. } => Weight { checks: 4, ..call(None) },
        operator => Weight { checks: u64::from(may_trap(operator)), ..Weight::default() },
    }
}

/// Whether an instruction gets a check before it, with a way out of the function.
fn may_trap(operator: &Operator<'_>) -> bool {
    use Operator as Op;
    matches!(
        operator,
        Op::I32Load { .. }
            | Op::I64Load { .. }
            | Op::F32Load { .. }
            | Op::F64Load { .. }
            | Op::I32Load8S { .. }
            | Op::I32Load8U { .. }
            | Op::I32Load16S { .. }
            | Op::I32Load16U { .. }
            | Op::I64Load8S { .. }
            | Op::I64Load8U { .. }
            | Op::I64Load16S { .. }
            | Op::I64Load16U { .. }
            | Op::I64Load32S { .. }
            | Op::I64Load32U { .. }
            | Op::I32Store { .. }
            | Op::I64Store { .. }
            | Op::F32Store { .. }
            | Op::F64Store { .. }
            | Op::I32Store8 { .. }
            | Op::I32Store16 { .. }
            | Op::I64Store8 { .. }
            | Op::I64Store16 { .. }
            | Op::I64Store32 { .. }
            | Op::I32DivS
            | Op::I32DivU
            | Op::I32RemS
            | Op::I32RemU
            | Op::I64DivS
            | Op::I64DivU
            | Op::I64RemS
            | Op::I64RemU
            | Op::I32TruncF32S
            | Op::I32TruncF32U
            | Op::I32TruncF64S
            | Op::I32TruncF64U
            | Op::I64TruncF32S
            | Op::I64TruncF32U
            | Op::I64TruncF64S
            | Op::I64TruncF64U
            | Op::TableGet { .. }
            | Op::TableSet { .. }
            | Op::Unreachable
    )
}

/// Locals and values on the stack.
fn alive(validator: &Validating) -> u64 {
    u64::from(validator.len_locals()) + u64::from(validator.operand_stack_height())
}

/// The values that a branch takes to its target.
fn carried(validator: &Validating, depth: u32) -> u64 {
    let Some(frame) = validator.get_control_frame(depth as usize) else { return 0 };
    match (frame.block_type, frame.kind) {
        (BlockType::Type(_), FrameKind::Loop) | (BlockType::Empty, _) => 0,
        (BlockType::Type(_), _) => 1,
        (BlockType::FuncType(index), kind) => function_type(validator, index).map_or(0, |of| match kind {
            FrameKind::Loop => of.params().len() as u64,
            _ => of.results().len() as u64,
        }),
    }
}

fn passed(callee: Option<&FuncType>) -> u64 {
    callee.map_or(1, |callee| (callee.params().len() + callee.results().len()) as u64)
}

fn function_type(validator: &Validating, index: u32) -> Option<&FuncType> {
    let of = validator.resources().sub_type_at(index)?;
    match &of.composite_type.inner {
        CompositeInnerType::Func(function) => Some(function),
        _ => None,
    }
}
