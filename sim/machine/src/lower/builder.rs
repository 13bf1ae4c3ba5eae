//! Builds an image: the kernel first, then every function it may reach, until no call is open.
//! In goes a kernel of a program, out comes an [`Image`]. Shared variables get their places here, because they belong to
//! the kernel and not to the functions that name them.

use std::collections::HashMap;

use crate::exec::{BulkPlan, Inst, Level, MatrixPlans, RunPlan, SurfacePlan, TexturePlan};
use crate::program::{LoadError, Program};

use super::constants::{CONSTANT_LIMIT, ConstantPool};
use super::function;
use super::image::{CallSite, CallTarget, FunctionImage, Image, Origin};

/// Most bytes of shared variables that are counted: launches allow far less.
const SHARED_BYTES: u64 = 1 << 30;

/// Most instructions of a kernel with all it may call: 64 bytes each, and twenty times the largest kernels seen.
const CODE_LIMIT: usize = 2 << 20;

/// An image in the making.
pub(crate) struct Builder<'p> {
    pub(crate) program: &'p Program,
    pub(crate) level: Level,
    pub(crate) code: Vec<Inst>,
    pub(crate) origins: Vec<Origin>,
    opcodes: Vec<String>,
    opcode_index: HashMap<String, u32>,
    pub(crate) constants: ConstantPool,
    functions: Vec<FunctionImage>,
    /// Function numbers of the program to functions of the image.
    indices: HashMap<u32, u32>,
    /// Functions of the image in order, as numbers of the program.
    numbers: Vec<u32>,
    pub(crate) calls: Vec<CallSite>,
    pub(crate) branch_lists: Vec<Vec<u32>>,
    pub(crate) runs: Vec<RunPlan>,
    pub(crate) textures: Vec<TexturePlan>,
    pub(crate) surfaces: Vec<SurfacePlan>,
    pub(crate) matrices: MatrixPlans,
    pub(crate) bulk_copies: Vec<BulkPlan>,
    shared: HashMap<SharedKey, u32>,
    shared_bytes: u64,
    /// Whether lanes need stack beyond the kernel's own local variables.
    pub(crate) uses_stack: bool,
    /// Constants that hold an address in dynamic shared memory: operand, wide, addend.
    dynamic: Vec<(u32, bool, u64)>,
}

/// Identity of a shared variable: module scope (unit, variable) or function scope (function number, statement).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SharedKey {
    Module(usize, usize),
    Function(u32, usize),
    /// The kilobyte cooperative groups expect, see `%reserved_smem_offset_1`.
    Reserved,
}

/// Lowers kernel `number` of the program.
pub(crate) fn lower(program: &Program, number: u32, level: Level) -> Result<Image, LoadError> {
    let mut builder = Builder {
        program,
        level,
        code: Vec::new(),
        origins: Vec::new(),
        opcodes: vec![String::new()],
        opcode_index: HashMap::new(),
        constants: ConstantPool::new(),
        functions: Vec::new(),
        indices: HashMap::new(),
        numbers: Vec::new(),
        calls: Vec::new(),
        branch_lists: Vec::new(),
        runs: Vec::new(),
        textures: Vec::new(),
        surfaces: Vec::new(),
        matrices: MatrixPlans::default(),
        bulk_copies: Vec::new(),
        shared: HashMap::new(),
        shared_bytes: 0,
        uses_stack: false,
        dynamic: Vec::new(),
    };
    builder.function(number);
    builder.lower_all()?;
    Ok(builder.finish())
}

impl Builder<'_> {
    /// The image's index of a function of the program; new ones are lowered later.
    pub(crate) fn function(&mut self, number: u32) -> u32 {
        let next = self.numbers.len() as u32;
        let index = *self.indices.entry(number).or_insert(next);
        if index == next {
            self.numbers.push(number);
        }
        index
    }

    fn lower_all(&mut self) -> Result<(), LoadError> {
        let mut done = 0;
        let mut optional_from = usize::MAX;
        loop {
            while done < self.numbers.len() {
                let number = self.numbers[done];
                let start = self.code.len();
                let lowered = function::lower(self, number);
                let counted = self.program.count(self.code.len() - start, 0);
                counted.map_err(|what| self.unsupported(number, what))?;
                let image = match lowered {
                    Ok(image) => image,
                    // Only some indirect call might reach it: refused when one does.
                    Err(error) if done >= optional_from && self.check_size().is_ok() => self.refused(number, &error),
                    Err(error) => return Err(error),
                };
                self.functions.push(image);
                done += 1;
            }
            let indirect = self.calls.iter().any(|call| matches!(call.target, CallTarget::Register(_)));
            if !indirect || optional_from != usize::MAX {
                return Ok(());
            }
            optional_from = done;
            for number in self.program.addressed_functions() {
                self.function(*number);
            }
        }
    }

    fn unsupported(&self, number: u32, what: String) -> LoadError {
        let (_, function) = self.program.function(number);
        LoadError::Unsupported { function: function.name.to_owned(), line: function.position.line, what }
    }

    /// A function that cannot run: one instruction that faults.
    fn refused(&mut self, number: u32, error: &LoadError) -> FunctionImage {
        let start = self.code.len() as u32;
        function::emit_illegal(self);
        FunctionImage {
            name: self.program.function_name(number).to_owned(),
            number,
            start,
            end: self.code.len() as u32,
            frame_bytes: 128,
            refused: Some(error.to_string()),
            ..FunctionImage::default()
        }
    }

    /// Number of an opcode's text.
    pub(crate) fn opcode(&mut self, text: &str) -> u32 {
        if let Some(index) = self.opcode_index.get(text) {
            return *index;
        }
        let index = self.opcodes.len() as u32;
        self.opcodes.push(text.to_owned());
        self.opcode_index.insert(text.to_owned(), index);
        index
    }

    /// Offset of a static shared variable in the kernel's shared memory.
    pub(crate) fn shared_offset(&mut self, key: SharedKey, size: u64, align: u64) -> Result<u32, String> {
        if let Some(offset) = self.shared.get(&key) {
            return Ok(*offset);
        }
        let offset = self.shared_bytes.checked_next_multiple_of(align.max(1));
        let end = offset.and_then(|offset| offset.checked_add(size)).filter(|end| *end <= SHARED_BYTES);
        // Far too much of it is refused here, more than a device has at the launch.
        self.shared_bytes = end.ok_or_else(|| format!("shared variables have more bytes than {SHARED_BYTES}"))?;
        let offset = (self.shared_bytes - size) as u32;
        self.shared.insert(key, offset);
        Ok(offset)
    }

    /// Whether the image may grow further.
    pub(crate) fn check_size(&self) -> Result<(), String> {
        if self.code.len() > CODE_LIMIT {
            return Err(format!("more instructions than a kernel may have: {CODE_LIMIT}"));
        }
        if self.constants.is_full() {
            return Err(format!("constants have more bytes than a kernel may have: {CONSTANT_LIMIT}"));
        }
        Ok(())
    }

    /// A constant that holds an address in dynamic shared memory (plus a window, for generic addresses).
    pub(crate) fn dynamic_shared(&mut self, wide: bool, addend: u64) -> u32 {
        let operand = self.constants.reserve(wide);
        self.dynamic.push((operand, wide, addend));
        operand
    }

    fn finish(mut self) -> Image {
        let static_shared = self.shared_bytes.next_multiple_of(16);
        let uses_stack = self.uses_stack || !self.calls.is_empty();
        for (operand, wide, addend) in std::mem::take(&mut self.dynamic) {
            self.constants.patch(operand, wide, static_shared.wrapping_add(addend));
        }
        // The kernel itself cannot be called.
        let callable = self.indices.iter().filter(|(_, index)| **index != 0);
        let addresses = callable.map(|(number, index)| (Image::function_address(*number), *index)).collect();
        Image {
            code: self.code,
            origins: self.origins,
            opcodes: self.opcodes,
            constants: self.constants.finish(),
            functions: self.functions,
            addresses,
            calls: self.calls,
            uses_stack,
            branch_lists: self.branch_lists,
            runs: self.runs,
            textures: self.textures,
            surfaces: self.surfaces,
            matrices: self.matrices,
            bulk_copies: self.bulk_copies,
            static_shared: u32::try_from(self.shared_bytes).unwrap_or(u32::MAX),
        }
    }
}
