//! Lowers one function: walks its statements, sends each instruction to the file of its family, patches branches.
//! In goes a function of the program, out come instructions in the image and the function's frame. The guard of an
//! instruction is put around whatever it was lowered to.

use std::collections::HashSet;

use rustc_hash::FxHashMap as HashMap;

use floe_ptx::{Function, FunctionKind, Instruction, Statement};

use crate::exec::{CONSTANT, Exit, Handlers, Inst, LEAST, RunPlan, SharedRun, Trap, fuse, guarded, handlers};
use crate::program::{LoadError, Program};

use super::builder::{Builder, SharedKey};
use super::frame::{FrameLayout, NARROW_BYTES, PREDICATE_BYTES, WIDE_BYTES};
use super::image::{FrameWords, FunctionImage, Origin, Register};
use super::liveness::{self, Allotment, Kind};
use super::names::{Name, Names, RegisterId};
use super::parameters::kernel_parameters;

/// A function being lowered.
pub(crate) struct Body<'b, 'p> {
    pub(crate) builder: &'b mut Builder<'p>,
    pub(crate) program: &'p Program,
    /// The module's place in the program, and the function's number there.
    pub(crate) unit: usize,
    pub(crate) number: u32,
    pub(crate) function: &'p Function<'static>,
    pub(crate) body: &'p [Statement<'static>],
    pub(crate) names: Names<'p>,
    pub(crate) scope: usize,
    scopes_opened: usize,
    layout: FrameLayout,
    /// Slots of registers by number, as liveness allots them, and the slots made so far.
    allotments: HashMap<u32, Allotment>,
    coloured: HashMap<(Kind, u32), u32>,
    listed: HashSet<u32>,
    register_list: Vec<Register>,
    pub(crate) statement: usize,
    pub(crate) line: u32,
    opcode: u32,
    /// Guard of the current instruction: predicate slot and what is XORed to it.
    pub(crate) guard: Option<(u32, u32)>,
    /// Code index of each statement that is a label.
    labels: Vec<u32>,
    /// Instructions whose `aux` is a label's statement still to be turned into a code index.
    branches: Vec<u32>,
    /// Branch lists (index into the image's) that hold statements.
    lists: Vec<usize>,
    scratch: Scratch,
    /// Conversions after the current instruction, for results narrower than their registers.
    pub(crate) fixes: Vec<Fix>,
    carry: Option<u32>,
    /// Slots that no register names, so far.
    hidden: u32,
}

/// Slots for values within one instruction; reused by the next.
#[derive(Default)]
struct Scratch {
    narrow: Vec<u32>,
    wide: Vec<u32>,
    narrow_used: usize,
    wide_used: usize,
}

/// Extension of a result after the instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fix {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) bits: u32,
    pub(crate) signed: bool,
    pub(crate) wide: bool,
}

/// Error of lowering one instruction: what about it.
pub(crate) type Lowering<T> = Result<T, String>;

/// Cost of a statement beside the words of the sets that register allocation reads.
const STATEMENT_WORDS: usize = 16;

/// Lowers function `number` of the builder's program.
pub(crate) fn lower(builder: &mut Builder<'_>, number: u32) -> Result<FunctionImage, LoadError> {
    let program = builder.program;
    let (unit, function) = program.function(number);
    let Some(body) = program.body(number)? else {
        return Err(LoadError::Unresolved { name: function.name.to_owned() });
    };
    let unsupported = |line, what| LoadError::Unsupported { function: function.name.to_owned(), line, what };
    // Every look at a function counts, also where it is refused at once: many kernels may call the same one.
    program.count(0, STATEMENT_WORDS * body.len()).map_err(|what| unsupported(function.position.line, what))?;
    let mut layout = FrameLayout::new();
    let names =
        Names::collect(body, &mut layout).map_err(|(statement, what)| unsupported(line_of(&body[statement]), what))?;
    let mut words = 0;
    let allotments = liveness::allot(body, &names, &mut words);
    let allotments = program.count(0, words).and(allotments);
    let allotments = allotments.map_err(|what| unsupported(function.position.line, what))?;
    let start = builder.code.len() as u32;
    let mut body_lowering = Body {
        program,
        unit,
        number,
        function,
        body,
        names,
        scope: 0,
        scopes_opened: 0,
        layout,
        allotments,
        coloured: HashMap::default(),
        listed: HashSet::new(),
        register_list: Vec::new(),
        statement: 0,
        line: function.position.line,
        opcode: 0,
        guard: None,
        labels: vec![u32::MAX; body.len()],
        branches: Vec::new(),
        lists: Vec::new(),
        scratch: Scratch::default(),
        fixes: Vec::new(),
        carry: None,
        hidden: 0,
        builder,
    };
    let result = body_lowering.run(body, start);
    let line = body_lowering.line;
    result.map_err(|what| unsupported(line, what))
}

fn line_of(statement: &Statement<'_>) -> u32 {
    match statement {
        Statement::Instruction(instruction) => instruction.position.line,
        Statement::Label(label) => label.position.line,
        Statement::Registers(registers) => registers.position.line,
        Statement::Variable(variable) => variable.position.line,
        Statement::ScopeOpen(position) | Statement::ScopeClose(position) | Statement::Pragma(position, _) => {
            position.line
        }
        Statement::Location(location) => location.position.line,
        Statement::Prototype(prototype) => prototype.position.line,
        Statement::Targets(targets) => targets.position.line,
    }
}

/// An instruction that faults, for a function that could not be lowered.
pub(crate) fn emit_illegal(builder: &mut Builder<'_>) {
    let handler = handlers::<Trap>().0[builder.level as usize];
    builder.code.push(Inst { aux: 1, ..blank(handler) });
    builder.origins.push(Origin::default());
}

fn blank(handler: crate::exec::Handler) -> Inst {
    Inst {
        run: handler,
        inner: handler,
        d: u32::MAX,
        a: CONSTANT,
        b: CONSTANT,
        c: CONSTANT,
        guard: 0,
        aux: 0,
        imm: 0,
        guard_flip: 0,
        extra: 0,
        fuse: fuse::NONE,
    }
}

impl<'p> Body<'_, 'p> {
    fn run(&mut self, body: &'p [Statement<'static>], start: u32) -> Lowering<FunctionImage> {
        // Argument buffers of the body, and the slot of the lanes' local variables before them.
        for word in 0..self.layout.bytes() / NARROW_BYTES {
            self.keep(NARROW_BYTES * word, NARROW_BYTES);
        }
        let (parameters, returns) = self.formals()?;
        for words in parameters.iter().chain(&returns) {
            for word in 0..words.count {
                self.keep(words.offset + NARROW_BYTES * word, NARROW_BYTES);
            }
        }
        for (index, statement) in body.iter().enumerate() {
            self.statement = index;
            match statement {
                Statement::ScopeOpen(_) => {
                    self.scopes_opened += 1;
                    self.scope = self.scopes_opened;
                }
                Statement::ScopeClose(_) => self.scope = self.names.parent(self.scope),
                Statement::Label(_) => self.labels[index] = self.builder.code.len() as u32,
                Statement::Instruction(instruction) => {
                    self.line = instruction.position.line;
                    self.instruction(instruction).map_err(|what| format!("{}: {what}", instruction.opcode))?;
                }
                Statement::Variable(variable) => self.line = variable.position.line,
                _ => {}
            }
        }
        self.end();
        self.patch()?;
        self.fuse(start as usize);
        let end = self.builder.code.len() as u32;
        Ok(FunctionImage {
            name: self.function.name.to_owned(),
            number: self.number,
            start,
            end,
            frame_bytes: self.layout.bytes().next_multiple_of(64),
            local_bytes: self.names.local_bytes,
            parameters,
            returns,
            registers: std::mem::take(&mut self.register_list),
            refused: None,
        })
    }

    /// Formal parameters and results: words of the frame; a kernel's stand in the parameter buffer.
    fn formals(&mut self) -> Lowering<(Vec<FrameWords>, Vec<FrameWords>)> {
        if self.is_kernel() {
            for (parameter, place) in self.function.parameters.iter().zip(kernel_parameters(self.function)?) {
                self.names.insert(parameter.name, Name::Parameter(place.0, place.1));
            }
            return Ok((Vec::new(), Vec::new()));
        }
        let function = self.function;
        let mut place = |variable: &floe_ptx::Variable<'static>| {
            if variable.space == floe_ptx::Space::Register {
                return Err(format!("register parameter: {}", variable.name));
            }
            let bytes = variable.size().and_then(|size| u32::try_from(size).ok());
            let bytes = bytes.ok_or_else(|| format!("parameter without a size: {}", variable.name))?;
            let words = self.layout.words(bytes)?;
            self.names.insert(variable.name, Name::Words(words, bytes));
            Ok(words)
        };
        let parameters = function.parameters.iter().map(&mut place).collect::<Result<_, String>>()?;
        let returns = function.returns.iter().map(&mut place).collect::<Result<_, String>>()?;
        Ok((parameters, returns))
    }

    pub(crate) fn is_kernel(&self) -> bool {
        self.function.kind == FunctionKind::Entry
    }

    fn instruction(&mut self, instruction: &'p Instruction<'static>) -> Lowering<()> {
        self.scratch.narrow_used = 0;
        self.scratch.wide_used = 0;
        self.fixes.clear();
        self.opcode = self.builder.opcode(instruction.opcode.text());
        self.guard = match &instruction.guard {
            None => None,
            Some(guard) => {
                let slot = self.predicate_register(guard.register)?;
                Some((slot, if guard.negated { u32::MAX } else { 0 }))
            }
        };
        self.dispatch(instruction)?;
        for fix in std::mem::take(&mut self.fixes) {
            self.emit_fix(fix);
        }
        self.guard = None;
        self.builder.check_size()
    }

    /// Sends the instruction to its family.
    fn dispatch(&mut self, instruction: &'p Instruction<'static>) -> Lowering<()> {
        match instruction.opcode.mnemonic() {
            "mov" => self.mov(instruction),
            "cvta" => self.cvta(instruction),
            "isspacep" => self.isspacep(instruction),
            "ld" | "ldu" => self.load(instruction),
            "st" => self.store(instruction),
            "atom" | "red" => self.atomic(instruction),
            "tex" | "tld4" => self.texture(instruction),
            "suld" | "sust" => self.surface(instruction),
            "cp" => self.copy_async(instruction),
            "mbarrier" => self.mbarrier(instruction),
            "mma" => self.multiply(instruction),
            "wmma" => self.matrix(instruction),
            "ldmatrix" | "stmatrix" => self.matrix_rows(instruction),
            "movmatrix" => self.transpose(instruction),
            "bra" => self.branch(instruction),
            "brx" => self.branch_indexed(instruction),
            "call" => self.call(instruction),
            "ret" => self.ret(),
            "exit" => {
                self.emit(handlers::<Exit>(), |_| {});
                Ok(())
            }
            "trap" | "brkpt" => {
                self.emit(handlers::<Trap>(), |_| {});
                Ok(())
            }
            "alloca" | "stacksave" | "stackrestore" => self.stack(instruction),
            "membar" | "fence" => self.fence(instruction),
            "prefetch" | "prefetchu" | "applypriority" | "discard" | "pmevent" | "griddepcontrol" => self.nothing(),
            "nanosleep" => self.sleep(),
            "bar" | "barrier" => self.barrier(instruction),
            "shfl" => self.shuffle(instruction),
            "vote" => self.vote(instruction),
            "match" => self.matching(instruction),
            "redux" => self.reduction(instruction),
            "activemask" => self.active_mask(instruction),
            "elect" => self.elect(instruction),
            _ => self.arithmetic(instruction),
        }
    }

    /// Adds an instruction, with the current guard.
    pub(crate) fn emit(&mut self, handlers: Handlers, set: impl FnOnce(&mut Inst)) {
        let handler = handlers.0[self.builder.level as usize];
        let mut inst = blank(handler);
        set(&mut inst);
        if let Some((slot, flip)) = self.guard {
            inst.run = guarded;
            inst.guard = slot;
            inst.guard_flip = flip;
            inst.fuse = fuse::NONE;
        }
        #[cfg(debug_assertions)]
        self.check_operands(&inst);
        self.push(inst);
    }

    /// Each operand is a slot of the frame, a constant, or none. All other values that handlers keep in these fields
    /// are small.
    #[cfg(debug_assertions)]
    fn check_operands(&self, inst: &Inst) {
        let inside = |operand: u32| match operand {
            u32::MAX => true,
            constant if constant & CONSTANT != 0 => self.builder.constants.holds(constant),
            slot => self.layout.holds(slot),
        };
        for operand in [inst.d, inst.a, inst.b, inst.c, inst.guard] {
            assert!(inside(operand), "operand outside of the frame: {operand}, line {}", self.line);
        }
    }

    fn push(&mut self, inst: Inst) {
        self.builder.code.push(inst);
        self.builder.origins.push(Origin { line: self.line, statement: self.statement as u32, opcode: self.opcode });
    }

    /// Adds a branch to a label's statement; with the current guard it is one whose lanes may part.
    pub(crate) fn emit_branch(&mut self, statement: usize, always: Handlers, conditional: Handlers) {
        let chosen = if self.guard.is_some() { conditional } else { always };
        let mut inst = blank(chosen.0[self.builder.level as usize]);
        inst.aux = statement as u32;
        if let Some((slot, flip)) = self.guard {
            inst.guard = slot;
            inst.guard_flip = flip;
        }
        self.branches.push(self.builder.code.len() as u32);
        self.push(inst);
    }

    /// Adds a list of labels' statements for an indexed branch; returns its number.
    pub(crate) fn branch_list(&mut self, statements: Vec<u32>) -> u32 {
        self.lists.push(self.builder.branch_lists.len());
        self.builder.branch_lists.push(statements);
        self.builder.branch_lists.len() as u32 - 1
    }

    /// A body that runs off its end returns; the guard of the last instruction has nothing to do with it.
    fn end(&mut self) {
        self.guard = None;
        // Even after a final `ret` or `exit`: those may be guarded.
        let _ = self.ret();
    }

    fn patch(&mut self) -> Lowering<()> {
        for branch in std::mem::take(&mut self.branches) {
            let target = self.labels[self.builder.code[branch as usize].aux as usize];
            let inst = &mut self.builder.code[branch as usize];
            inst.aux = target;
            inst.imm = i64::from(branch.saturating_sub(target)) + 1;
        }
        for list in std::mem::take(&mut self.lists) {
            for entry in &mut self.builder.branch_lists[list] {
                *entry = self.labels[*entry as usize];
            }
        }
        Ok(())
    }

    /// Marks runs of instructions that one handler executes. Only the first changes, so that a jump or a diverged warp
    /// may still enter in the middle. A label begins a run of its own.
    fn fuse(&mut self, start: usize) {
        let labels: HashSet<usize> = self.labels.iter().map(|label| *label as usize).collect();
        let mut at = start;
        while at < self.builder.code.len() {
            let mut plan = RunPlan::default();
            let mut written = Vec::new();
            let mut end = at;
            let code = &mut self.builder.code;
            if code[at].fuse == fuse::SHARED_LOAD {
                while end < code.len()
                    && (end == at || !labels.contains(&end))
                    && plan.extend(&mut code[end], &mut written)
                {
                    end += 1;
                }
            }
            if plan.length >= LEAST {
                code[at].run = handlers::<SharedRun>().0[self.builder.level as usize];
                code[at].aux = self.builder.runs.len() as u32;
                self.builder.runs.push(plan);
            }
            at = end.max(at + 1);
        }
    }

    /// Slot of a register, given a place in the frame at its first use.
    pub(crate) fn slot(&mut self, register: RegisterId) -> Lowering<u32> {
        let kind = Kind::of(register.scalar);
        // A register that liveness did not see (there is none) would have a slot of its own, numbered from the top.
        let (colour, live) = self
            .allotments
            .get(&register.number)
            .map_or((u32::MAX - register.number, (0, u32::MAX)), |allotment| (allotment.colour, allotment.live));
        let slot = match self.coloured.get(&(kind, colour)) {
            Some(slot) => *slot,
            None => {
                let slot = match kind {
                    Kind::Predicate => self.layout.predicate()?,
                    Kind::Narrow => self.layout.narrow()?,
                    Kind::Wide => self.layout.wide()?,
                };
                self.coloured.insert((kind, colour), slot);
                slot
            }
        };
        if self.listed.insert(register.number) {
            let bytes = match kind {
                Kind::Predicate => PREDICATE_BYTES,
                Kind::Narrow => NARROW_BYTES,
                Kind::Wide => WIDE_BYTES,
            };
            self.register_list.push(Register { offset: slot, bytes, number: register.number, live });
        }
        Ok(slot)
    }

    /// The carry flag: a predicate of the frame that no register names. It is part of a snapshot like one.
    pub(crate) fn carry_slot(&mut self) -> Lowering<u32> {
        if let Some(slot) = self.carry {
            return Ok(slot);
        }
        let slot = self.layout.predicate()?;
        self.keep(slot, PREDICATE_BYTES);
        self.carry = Some(slot);
        Ok(slot)
    }

    /// Makes a slot that no register names part of snapshots: numbered from the top, in the order lowering makes them.
    fn keep(&mut self, offset: u32, bytes: u32) {
        self.hidden += 1;
        self.register_list.push(Register { offset, bytes, number: u32::MAX - self.hidden, live: (0, u32::MAX) });
    }

    /// A slot that lives until the end of the instruction.
    pub(crate) fn scratch_narrow(&mut self) -> Lowering<u32> {
        if self.scratch.narrow_used == self.scratch.narrow.len() {
            let slot = self.layout.narrow()?;
            self.keep(slot, NARROW_BYTES);
            self.scratch.narrow.push(slot);
        }
        self.scratch.narrow_used += 1;
        Ok(self.scratch.narrow[self.scratch.narrow_used - 1])
    }

    /// A 64-bit slot that lives until the end of the instruction.
    pub(crate) fn scratch_wide(&mut self) -> Lowering<u32> {
        if self.scratch.wide_used == self.scratch.wide.len() {
            let slot = self.layout.wide()?;
            self.keep(slot, WIDE_BYTES);
            self.scratch.wide.push(slot);
        }
        self.scratch.wide_used += 1;
        Ok(self.scratch.wide[self.scratch.wide_used - 1])
    }

    /// SymbolPlace of a shared variable declared in this function.
    pub(crate) fn function_shared(&mut self, statement: usize) -> Lowering<u32> {
        let Some(Statement::Variable(variable)) = self.body.get(statement) else {
            return Err("shared variable without a declaration".to_owned());
        };
        let size = variable.size().ok_or_else(|| format!("variable without a size: {}", variable.name))?;
        let key = SharedKey::Function(self.number, statement);
        self.builder.shared_offset(key, size, variable.alignment_bytes())
    }
}
