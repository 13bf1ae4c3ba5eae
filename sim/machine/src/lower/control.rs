//! Branches, calls, returns, barriers, fences, and the instructions that do nothing here.
//! In go labels and names, out come code indices and call sites. A call of a function that nobody defines and the host does
//! not provide is refused by name.

use floe_ptx::{FunctionKind, Instruction, Operand, ScalarType, Statement};

use crate::exec::{
    BlockBarrier, Branch, BranchIf, BranchIndexed, Call, Exit, Fence, Nothing, Return, Sleep, WarpBarrier,
    barrier_kind, handlers,
};
use crate::isa::Value;
use crate::program::Symbol;

use super::function::{Body, Lowering};
use super::image::{Builtin, CallSite, CallTarget, FrameWords};
use super::names::Name;

impl Body<'_, '_> {
    pub(crate) fn branch(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let [Operand::Name(label)] = instruction.operands.as_slice() else {
            return Err("operands: bra wants a label".to_owned());
        };
        let statement = self.label(label)?;
        self.emit_branch(statement, handlers::<Branch>(), handlers::<BranchIf>());
        Ok(())
    }

    fn label(&self, name: &str) -> Lowering<usize> {
        self.names.label(self.scope, name).ok_or_else(|| format!("unknown label: {name}"))
    }

    pub(crate) fn branch_indexed(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        if !instruction.opcode.has("idx") {
            return Err("unknown instruction".to_owned());
        }
        let [index, Operand::Name(list)] = instruction.operands.as_slice() else {
            return Err("operands: brx.idx wants an index and a list".to_owned());
        };
        let body = self.body;
        let Some(Statement::Targets(targets)) = self.list(list).and_then(|statement| body.get(statement)) else {
            return Err(format!("not a list of labels: {list}"));
        };
        let statements: Result<Vec<u32>, String> =
            targets.targets.iter().map(|label| self.label(label).map(|statement| statement as u32)).collect();
        let a = self.source(index, Value::Bits32)?;
        let number = self.branch_list(statements?);
        self.emit(handlers::<BranchIndexed>(), |inst| (inst.a, inst.aux) = (a, number));
        Ok(())
    }

    fn list(&self, name: &str) -> Option<usize> {
        match self.names.find(self.scope, name) {
            Some(Name::List(statement)) => Some(statement),
            _ => None,
        }
    }

    pub(crate) fn call(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let call = instruction.call().ok_or("operands of a call in an unknown form")?;
        let words = |body: &Self, operands: &[Operand<'static>]| -> Lowering<Vec<FrameWords>> {
            operands.iter().map(|operand| body.argument(operand)).collect()
        };
        let arguments = words(self, call.arguments)?;
        let returns = words(self, call.returns)?;
        let target = self.call_target(call.target, &arguments)?;
        self.builder.calls.push(CallSite { target, arguments, returns });
        let site = self.builder.calls.len() as u32 - 1;
        self.emit(handlers::<Call>(), |inst| inst.aux = site);
        Ok(())
    }

    fn argument(&self, operand: &Operand<'static>) -> Lowering<FrameWords> {
        let Operand::Name(name) = operand else {
            return Err(format!("argument not in a .param variable: {operand:?}"));
        };
        match self.names.find(self.scope, name) {
            Some(Name::Words(words, _)) => Ok(words),
            _ => Err(format!("argument not in a .param variable: {name}")),
        }
    }

    fn call_target(&mut self, name: &str, arguments: &[FrameWords]) -> Lowering<CallTarget> {
        if let Some(register) = self.register(name) {
            if register.scalar.size() != 8 {
                return Err(format!("function address not in a 64-bit register: {name}"));
            }
            return Ok(CallTarget::Register(self.slot(register)?));
        }
        if let Some(Symbol::Function(number)) = self.program.symbol(self.unit, name) {
            let (_, function) = self.program.function(number);
            if function.kind == FunctionKind::Entry {
                return Err(format!("call of a kernel: {name}"));
            }
            if function.parameters.len() != arguments.len() {
                return Err(format!(
                    "arguments for {name}: {}, wanted: {}",
                    arguments.len(),
                    function.parameters.len()
                ));
            }
            return Ok(CallTarget::Function(self.builder.function(number)));
        }
        let (builtin, count) = match name {
            "vprintf" => (Builtin::Printf, 2),
            "__assertfail" => (Builtin::AssertFail, 5),
            "malloc" => (Builtin::Malloc, 1),
            "free" => (Builtin::Free, 1),
            "cudaGraphSetConditional" => (Builtin::SetConditional, 2),
            _ => return Err(format!("call of a function that is not defined: {name}")),
        };
        if arguments.len() != count {
            return Err(format!("arguments for {name}: {}, wanted: {count}", arguments.len()));
        }
        Ok(CallTarget::Builtin(builtin))
    }

    pub(crate) fn ret(&mut self) -> Lowering<()> {
        if self.is_kernel() {
            self.emit(handlers::<Exit>(), |_| {});
        } else {
            self.emit(handlers::<Return>(), |_| {});
        }
        Ok(())
    }

    pub(crate) fn nothing(&mut self) -> Lowering<()> {
        self.emit(handlers::<Nothing>(), |_| {});
        Ok(())
    }

    pub(crate) fn sleep(&mut self) -> Lowering<()> {
        self.emit(handlers::<Sleep>(), |_| {});
        Ok(())
    }

    pub(crate) fn fence(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let words: Vec<&str> = instruction.opcode.modifiers().collect();
        let words = match words.as_slice() {
            // Bulk copies are done at once and all proxies see one memory, so these order what others order.
            ["proxy", "async", "global" | "shared::cta" | "shared::cluster"] | ["proxy", "alias" | "async"] => &[],
            ["proxy", "tensormap::generic", rest @ ..] | ["mbarrier_init", rest @ ..] => rest,
            all => all,
        };
        let known = ["cta", "cluster", "gl", "gpu", "sys", "sc", "acq_rel", "acquire", "release"];
        if let Some(word) = words.iter().find(|word| !known.contains(word)) {
            return Err(format!("modifier not supported: .{word}"));
        }
        self.emit(handlers::<Fence>(), |_| {});
        Ok(())
    }

    pub(crate) fn barrier(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let words: Vec<&str> =
            instruction.opcode.modifiers().filter(|word| !matches!(*word, "cta" | "aligned")).collect();
        let operands = instruction.operands.as_slice();
        match words.as_slice() {
            ["warp", "sync"] => {
                let [members] = operands else {
                    return Err("operands: bar.warp.sync wants a mask".to_owned());
                };
                let members = self.source(members, Value::Bits32)?;
                self.emit(handlers::<WarpBarrier>(), |inst| inst.aux = members);
                Ok(())
            }
            ["sync"] => match operands {
                [number] => self.block_barrier(barrier_kind::SYNC, number, None, None, None),
                [number, count] => self.block_barrier(barrier_kind::SYNC, number, Some(count), None, None),
                _ => Err("operands: wants a number and a count".to_owned()),
            },
            ["arrive"] => match operands {
                [number, count] => self.block_barrier(barrier_kind::ARRIVE, number, Some(count), None, None),
                _ => Err("operands: wants a number and a count".to_owned()),
            },
            ["red", kind, scalar] => {
                let kind = match (*kind, *scalar) {
                    ("popc", "u32") => barrier_kind::POPULATION,
                    ("and", "pred") => barrier_kind::AND,
                    ("or", "pred") => barrier_kind::OR,
                    _ => return Err("unknown instruction".to_owned()),
                };
                match operands {
                    [d, number, p] => self.block_barrier(kind, number, None, Some(p), Some(d)),
                    [d, number, count, p] => self.block_barrier(kind, number, Some(count), Some(p), Some(d)),
                    _ => Err("operands: wants d, a number, a count and a predicate".to_owned()),
                }
            }
            _ => Err("unknown instruction".to_owned()),
        }
    }

    fn block_barrier(
        &mut self,
        kind: u32,
        number: &Operand<'static>,
        count: Option<&Operand<'static>>,
        predicate: Option<&Operand<'static>>,
        destination: Option<&Operand<'static>>,
    ) -> Lowering<()> {
        let a = self.source(number, Value::Bits32)?;
        let b = count.map(|count| self.source(count, Value::Bits32)).transpose()?.unwrap_or(u32::MAX);
        let (c, flip) = predicate.map(|p| self.predicate_source(p)).transpose()?.unwrap_or((crate::exec::CONSTANT, 0));
        let d = match destination {
            None => u32::MAX,
            Some(Operand::Name(name)) => {
                let register = self.register(name).ok_or_else(|| format!("not a register: {name}"))?;
                if (register.scalar == ScalarType::Predicate) != (kind != barrier_kind::POPULATION)
                    || register.scalar.size() == 8
                {
                    return Err(format!("register of another kind: {name}"));
                }
                self.slot(register)?
            }
            Some(other) => return Err(format!("not a destination: {other:?}")),
        };
        self.emit(handlers::<BlockBarrier>(), |inst| {
            (inst.d, inst.a, inst.b, inst.c, inst.imm, inst.aux) = (d, a, b, c, flip, kind);
        });
        Ok(())
    }
}
