//! A loaded program: PTX modules linked together, their variables laid out in device memory, kernels ready to be lowered.
//! In go PTX texts and an allocator for device addresses, out come kernels and global variables by name.
//! A kernel that holds an instruction the machine does not know is refused by name and line, never run wrongly.

mod error;
mod initial;
mod link;
mod unit;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use floe_ptx::{Function, FunctionKind, Module, Space, Statement};

use crate::exec::Level;
use crate::lower;
use crate::lower::image::Image;
use crate::memory::Memory;
use floe_lock::lock;

pub use error::LoadError;
pub(crate) use unit::{PlacedVariable, Symbol, Unit};

/// One parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelParameter {
    /// Byte offset in the parameter buffer.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// A kernel, lowered and ready to launch; what `cuFuncGetAttribute` and `cuFuncGetParamInfo` ask.
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Parameters in order.
    pub parameters: Vec<KernelParameter>,
    /// Bytes of the parameter buffer.
    pub parameter_bytes: u32,
    /// Most threads of a block: `.maxntid`'s product or 1024.
    pub max_threads: u32,
    /// `.reqntid`, if given.
    pub required_block: Option<[u32; 3]>,
    /// Bytes of static shared memory.
    pub static_shared: u32,
    /// Bytes of local memory per thread, calls not counted.
    pub local_bytes: u32,
    /// Bytes of user-declared constant memory of its module.
    pub constant_bytes: u32,
    /// 32-bit registers per thread that a GPU's compiler would roughly need; at least 16, at most 255.
    pub registers: u32,
    /// `.version` as major * 10 + minor.
    pub ptx_version: u32,
    /// `.target` number: 90 for `sm_90a`.
    pub target: u32,
    /// Hash of the program's texts, and the kernel's number: what a snapshot must agree with.
    pub(crate) identity: (u64, u32),
    pub(crate) image: Image,
}

impl Kernel {
    /// Bytes of shared memory of a block.
    pub(crate) fn shared_bytes(&self, dynamic: u32) -> u32 {
        if dynamic == 0 { self.static_shared } else { self.static_shared.next_multiple_of(16).saturating_add(dynamic) }
    }
}

/// A loaded program.
pub struct Program {
    pub(crate) units: Vec<Unit>,
    /// All functions with a body: unit, place in its module.
    pub(crate) functions: Vec<(usize, usize)>,
    pub(crate) variables: Vec<PlacedVariable>,
    /// Symbols other modules see.
    pub(crate) exports: HashMap<String, Symbol>,
    /// Kernels in order of the texts: name, function number.
    kernels: Vec<(String, u32)>,
    lowered: Mutex<HashMap<String, Result<Arc<Kernel>, LoadError>>>,
    /// Functions whose address is taken, once somebody asked.
    pub(crate) addressed: OnceLock<Vec<u32>>,
    /// Instructions that kernels were lowered to so far, with the functions each may call, refused ones too.
    instructions: AtomicUsize,
    /// Words looked at for them while registers were allotted.
    words: AtomicUsize,
    level: Level,
    hash: u64,
}

/// Most instructions of all kernels of a program that were asked for: each kernel has its own copy of what it calls.
const INSTRUCTION_LIMIT: usize = 8 << 20;

/// Most words looked at for all of them while registers are allotted: some ten seconds.
const WORD_LIMIT: usize = 4 << 30;

impl Program {
    /// Parses and links the texts, asks `allocate(bytes, align)` for an address for each `.global` and `.const`
    /// variable, and writes the initial values there. The caller maps these addresses beforehand and frees them after
    /// the program.
    ///
    /// # Errors
    /// Syntax outside of bodies, unresolved or duplicate symbols, no memory. Bodies are read at their first use: a
    /// fault inside one is an error of [`Program::kernel`]. [`Program::check`] finds it at once.
    pub fn load(
        texts: &[&str],
        memory: &Arc<Memory>,
        allocate: &mut dyn FnMut(u64, u64) -> Option<u64>,
    ) -> Result<Arc<Self>, LoadError> {
        Self::load_at(Level::best(), texts, memory, allocate)
    }

    /// As [`Program::load`], with handlers of the given level, which must be one of [`Level::available`].
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn load_at(
        level: Level,
        texts: &[&str],
        memory: &Arc<Memory>,
        allocate: &mut dyn FnMut(u64, u64) -> Option<u64>,
    ) -> Result<Arc<Self>, LoadError> {
        let texts: Vec<Arc<String>> = texts.iter().map(|text| Arc::new((*text).to_owned())).collect();
        Self::load_shared(level, &texts, memory, allocate)
    }

    /// As [`Program::load_at`], without copying the texts: the program keeps them.
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn load_shared(
        level: Level,
        texts: &[Arc<String>],
        memory: &Arc<Memory>,
        allocate: &mut dyn FnMut(u64, u64) -> Option<u64>,
    ) -> Result<Arc<Self>, LoadError> {
        let level = if Level::available().contains(&level) { level } else { Level::best() };
        let mut program = Self {
            units: Vec::new(),
            functions: Vec::new(),
            variables: Vec::new(),
            exports: HashMap::new(),
            kernels: Vec::new(),
            lowered: Mutex::new(HashMap::new()),
            addressed: OnceLock::new(),
            instructions: AtomicUsize::new(0),
            words: AtomicUsize::new(0),
            level,
            hash: hash(texts),
        };
        for (number, text) in texts.iter().enumerate() {
            program.units.push(Unit::parse(number, Arc::clone(text))?);
        }
        program.link(allocate)?;
        program.write_initial_values(memory)?;
        program.kernels = program.find_kernels();
        Ok(Arc::new(program))
    }

    fn find_kernels(&self) -> Vec<(String, u32)> {
        let mut kernels: Vec<(String, u32)> = Vec::new();
        let mut known = HashSet::new();
        for number in 0..self.functions.len() as u32 {
            let (_, function) = self.function(number);
            if function.kind == FunctionKind::Entry && known.insert(function.name) {
                kernels.push((function.name.to_owned(), number));
            }
        }
        kernels
    }

    /// The kernel of that name, lowered at its first use.
    ///
    /// # Errors
    /// [`LoadError::NoKernel`], or [`LoadError::Unsupported`] with the instruction's name and line.
    pub fn kernel(self: &Arc<Self>, name: &str) -> Result<Arc<Kernel>, LoadError> {
        if let Some(kernel) = lock(&self.lowered).get(name) {
            return kernel.clone();
        }
        let found = self.kernels.iter().find(|(kernel, _)| kernel == name);
        let Some((_, number)) = found else {
            return Err(LoadError::NoKernel { name: name.to_owned() });
        };
        let kernel = self.lower(*number).map(Arc::new);
        lock(&self.lowered).insert(name.to_owned(), kernel.clone());
        kernel
    }

    fn lower(&self, number: u32) -> Result<Kernel, LoadError> {
        let (unit, function) = self.function(number);
        let (name, line) = (function.name, function.position.line);
        let unsupported = |what| LoadError::Unsupported { function: name.to_owned(), line, what };
        self.count(0, 0).map_err(unsupported)?;
        let image = lower::lower(self, number, self.level)?;
        let module = self.units[unit].module();
        let places = lower::kernel_parameters(function).map_err(unsupported)?;
        let parameters: Vec<KernelParameter> =
            places.into_iter().map(|(offset, size, align)| KernelParameter { offset, size, align }).collect();
        let block = |name| function.directive(name).map(|directive| block_of(&directive.numbers));
        let required_block = block("reqntid");
        let most = required_block.or_else(|| block("maxntid"));
        let constant_bytes: u64 = self
            .variables
            .iter()
            .filter(|variable| variable.unit == unit && variable.space == Space::Constant)
            .map(|variable| variable.size)
            .sum();
        let words = image.functions[0].frame_bytes / 128;
        Ok(Kernel {
            name: function.name.to_owned(),
            parameter_bytes: parameters.last().map_or(0, |last| last.offset + last.size),
            parameters,
            max_threads: most.map_or(1024, |[x, y, z]| x.saturating_mul(y).saturating_mul(z).clamp(1, 1024)),
            required_block,
            static_shared: image.static_shared,
            local_bytes: image.functions[0].local_bytes,
            constant_bytes: u32::try_from(constant_bytes).unwrap_or(u32::MAX),
            registers: words.clamp(16, 255),
            ptx_version: module.version.major.saturating_mul(10).saturating_add(module.version.minor),
            target: target_number(module),
            identity: (self.hash, number),
            image,
        })
    }

    /// Counts what lowering a function took. An error says that the program's kernels took too much together.
    pub(crate) fn count(&self, instructions: usize, words: usize) -> Result<(), String> {
        let all = self.instructions.fetch_add(instructions, Ordering::Relaxed).saturating_add(instructions);
        if all > INSTRUCTION_LIMIT {
            return Err(format!("kernels of a program have more instructions than {INSTRUCTION_LIMIT}"));
        }
        let all = self.words.fetch_add(words, Ordering::Relaxed).saturating_add(words);
        if all > WORD_LIMIT {
            return Err(format!("control flow of a program's kernels too tangled to allot registers: {all} words"));
        }
        Ok(())
    }

    /// Names of the kernels, in the order of the texts.
    pub fn kernel_names(&self) -> Vec<&str> {
        self.kernels.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Address and bytes of a `.global` or `.const` variable.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        let index = match self.exports.get(name) {
            Some(Symbol::Variable(index)) => *index,
            Some(_) => return None,
            // Static variables of a file are known to the host by name too.
            None => self.variables.iter().position(|variable| variable.name == name)?,
        };
        let variable = &self.variables[index];
        matches!(variable.space, Space::Global | Space::Constant).then_some((variable.address, variable.size))
    }

    /// Names, addresses and bytes of all `.global` and `.const` variables.
    pub fn globals(&self) -> Vec<(&str, u64, u64)> {
        let variables = self.variables.iter();
        let placed = variables.filter(|variable| matches!(variable.space, Space::Global | Space::Constant));
        placed.map(|variable| (variable.name.as_str(), variable.address, variable.size)).collect()
    }

    /// Names of the `.managed` variables, which host and device share.
    pub fn managed(&self) -> Vec<&str> {
        self.variables.iter().filter(|variable| variable.managed).map(|variable| variable.name.as_str()).collect()
    }

    /// Names and addresses of its texture references.
    pub fn texture_references(&self) -> impl Iterator<Item = (&str, u64)> {
        let references = self.variables.iter().filter(|variable| variable.is_texture_reference);
        references.map(|variable| (variable.name.as_str(), variable.address))
    }

    /// Hash of the texts: snapshots carry it.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Unit and syntax of a function.
    pub(crate) fn function(&self, number: u32) -> (usize, &Function<'static>) {
        let (unit, index) = self.functions[number as usize];
        (unit, &self.units[unit].module().functions[index])
    }

    /// Statements of a function; none where it is declared only.
    pub(crate) fn body(&self, number: u32) -> Result<Option<&[Statement<'static>]>, LoadError> {
        let (unit, index) = self.functions[number as usize];
        self.units[unit].body(index)
    }

    /// Name of a function.
    pub(crate) fn function_name(&self, number: u32) -> &str {
        self.function(number).1.name
    }
}

/// `.maxntid`, `.reqntid`: missing dimensions are 1.
fn block_of(numbers: &[u64]) -> [u32; 3] {
    let at = |index: usize| numbers.get(index).map_or(1, |value| u32::try_from(*value).unwrap_or(u32::MAX));
    [at(0), at(1), at(2)]
}

/// 90 of `sm_90a`.
fn target_number(module: &Module<'_>) -> u32 {
    let digits = module.architecture().trim_start_matches(|character: char| !character.is_ascii_digit());
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

/// FNV-1a of all texts, by words of 8 bytes: distinguishes programs, defends against nothing.
fn hash(texts: &[Arc<String>]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let step = |state: u64, word: u64| (state ^ word).wrapping_mul(PRIME).rotate_left(23);
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for text in texts {
        // Four chains side by side: one would wait for each multiplication before the next.
        let mut chains = [1_u64, 2, 3, 4];
        let (words, rest) = text.as_bytes().as_chunks::<8>();
        let (blocks, words) = words.as_chunks::<4>();
        for block in blocks {
            for (chain, word) in chains.iter_mut().zip(block) {
                *chain = step(*chain, u64::from_le_bytes(*word));
            }
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        for word in words.iter().chain([&last]) {
            state = step(state, u64::from_le_bytes(*word));
        }
        state = chains.into_iter().fold(step(state, text.len() as u64), step);
    }
    state
}
