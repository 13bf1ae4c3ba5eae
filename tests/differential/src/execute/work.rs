//! Work of streams by the driver's functions.
//! In: work and its stream. Out: calls. It never waits but where the call does.

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use anyhow::Result;
use cudarc::driver::sys;

use super::state::Executor;
use crate::device::{CHANGE, Change, cu};
use crate::model::Model;
use crate::operation::{End, Kernel, Kind, Stream, Which, Work};

/// Threads of a block.
const THREADS: usize = 64;

/// A kernel with its arguments: two addresses or objects, four numbers.
pub(super) struct Launch {
    pub(super) function: sys::CUfunction,
    pub(super) blocks: u32,
    pub(super) threads: u32,
    addresses: [u64; 2],
    numbers: [u32; 4],
}

impl Launch {
    /// Where the driver finds the arguments, while this lives.
    pub(super) fn arguments(&mut self) -> [*mut c_void; 6] {
        let [a, b] = &mut self.addresses;
        let [c, d, e, f] = &mut self.numbers;
        [
            (&raw mut *a).cast(),
            (&raw mut *b).cast(),
            (&raw mut *c).cast(),
            (&raw mut *d).cast(),
            (&raw mut *e).cast(),
            (&raw mut *f).cast(),
        ]
    }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).expect("blocks are small")
}

impl Executor {
    pub(super) fn work(&mut self, stream: Stream, work: &Work, model: &Model) -> Result<()> {
        match work {
            Work::Fill { at, unit, value, columns, rows } => self.fill(stream, *at, *unit, *value, [*columns, *rows]),
            Work::Copy { to, from, bytes, how } => self.copy(stream, *to, *from, *bytes, *how),
            Work::Box { to, from, extent } => self.copy_box(stream, *to, *from, *extent),
            Work::Batch { copies } => self.copy_batch(stream, copies),
            Work::Kernel(kernel) => {
                let handle = self.stream(stream)?;
                self.launch(handle, stream.vgpu, kernel, model)
            }
            Work::Function { at, words, multiply, add } => {
                let handle = self.stream(stream)?;
                let data = self.change(Change {
                    address: self.host_address(*at),
                    words: *words,
                    multiply: *multiply,
                    add: *add,
                });
                cu!(cuLaunchHostFunc(handle, CHANGE, data))
            }
            Work::Write { at, bytes: 4, value } => {
                let handle = self.stream(stream)?;
                let word = u32::try_from(*value & u64::from(u32::MAX))?;
                cu!(cuStreamWriteValue32_v2(handle, self.address(*at), word, 0))
            }
            Work::Write { at, value, .. } => {
                let handle = self.stream(stream)?;
                cu!(cuStreamWriteValue64_v2(handle, self.address(*at), *value, 0))
            }
            Work::Wait { at, bytes: 4, value } => {
                let handle = self.stream(stream)?;
                let word = u32::try_from(*value & u64::from(u32::MAX))?;
                cu!(cuStreamWaitValue32_v2(handle, self.address(*at), word, 1))
            }
            Work::Wait { at, value, .. } => {
                let handle = self.stream(stream)?;
                cu!(cuStreamWaitValue64_v2(handle, self.address(*at), *value, 1))
            }
        }
    }

    /// Keeps what a host function gets, and gives its address.
    pub(super) fn change(&mut self, change: Change) -> *mut c_void {
        let mut kept = Box::new(change);
        let data = (&raw mut *kept).cast();
        self.changes.push(kept);
        data
    }

    /// Bytes from row to row as the device has them.
    pub(super) fn pitch(&self, end: End) -> usize {
        let held = &self.blocks[&end.at.block];
        if held.kind == Kind::Pitched { held.pitch } else { end.pitch }
    }

    fn fill(&mut self, stream: Stream, at: End, unit: usize, value: u32, [columns, rows]: [usize; 2]) -> Result<()> {
        let handle = self.stream(stream)?;
        let (address, pitch) = (self.address(at.at), self.pitch(at));
        let [byte, ..] = value.to_le_bytes();
        let short = u16::try_from(value & 0xffff)?;
        match (stream.which == Which::Default, rows > 1, unit) {
            (true, false, 1) => cu!(cuMemsetD8_v2(address, byte, columns)),
            (true, false, 2) => cu!(cuMemsetD16_v2(address, short, columns)),
            (true, false, _) => cu!(cuMemsetD32_v2(address, value, columns)),
            (true, true, 1) => cu!(cuMemsetD2D8_v2(address, pitch, byte, columns, rows)),
            (true, true, 2) => cu!(cuMemsetD2D16_v2(address, pitch, short, columns, rows)),
            (true, true, _) => cu!(cuMemsetD2D32_v2(address, pitch, value, columns, rows)),
            (false, false, 1) => cu!(cuMemsetD8Async(address, byte, columns, handle)),
            (false, false, 2) => cu!(cuMemsetD16Async(address, short, columns, handle)),
            (false, false, _) => cu!(cuMemsetD32Async(address, value, columns, handle)),
            (false, true, 1) => cu!(cuMemsetD2D8Async(address, pitch, byte, columns, rows, handle)),
            (false, true, 2) => cu!(cuMemsetD2D16Async(address, pitch, short, columns, rows, handle)),
            (false, true, _) => cu!(cuMemsetD2D32Async(address, pitch, value, columns, rows, handle)),
        }
    }

    fn launch(&mut self, stream: sys::CUstream, vgpu: usize, kernel: &Kernel, model: &Model) -> Result<()> {
        let mut launch = self.prepare(vgpu, kernel, model)?;
        let (function, blocks, threads) = (launch.function, launch.blocks, launch.threads);
        let mut arguments = launch.arguments();
        cu!(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments.as_mut_ptr(), null_mut()))
    }

    /// A kernel's function, threads and arguments.
    pub(super) fn prepare(&mut self, vgpu: usize, kernel: &Kernel, model: &Model) -> Result<Launch> {
        let (name, total, addresses, numbers) = match *kernel {
            Kernel::Affine { at, words, multiply, add } => {
                ("affine", words, [self.address(at), 0], [number(words), multiply, add, 0])
            }
            Kernel::Stride { to, from, words, to_step, from_step } => {
                let steps = [number(words), number(to_step), number(from_step), 0];
                ("stride", words, [self.address(to), self.address(from)], steps)
            }
            Kernel::Atomic { at, words, threads, step } => {
                ("atomic", threads, [self.address(at), 0], [number(words), number(threads), number(step), 0])
            }
            Kernel::Bytes { at, bytes, flip } => {
                ("bytes", bytes, [self.address(at), 0], [number(bytes), u32::from(flip), 0, 0])
            }
            Kernel::Spin { turns } => ("spin", 1, [0, 0], [turns, 0, 0, 0]),
            Kernel::Texture { to, array } => {
                let (block, texture) = (&model.blocks[&array], self.texture(array)?);
                let Kind::Array { unit, channels, .. } = block.kind else { anyhow::bail!("not an array") };
                let texels = block.width / unit / channels;
                let numbers = [number(texels), number(block.rows), number(channels), 0];
                ("texture", texels * block.rows, [self.address(to), texture], numbers)
            }
            Kernel::Surface { array, multiply, add } => {
                let block = &model.blocks[&array];
                let (words, rows) = (block.width / 4, block.rows);
                let surface = self.surface(array)?;
                ("surface", words * rows, [0, surface], [number(words), number(rows), multiply, add])
            }
            Kernel::Own { words, multiply, add, .. } => ("own", words, [0, 0], [number(words), multiply, add, 0]),
        };
        let function = match *kernel {
            Kernel::Own { variable, .. } => function_of(self.blocks[&variable].module, name)?,
            _ => self.function(vgpu, name)?,
        };
        let threads = total.clamp(1, THREADS);
        let blocks = number(total.div_ceil(threads).max(1));
        Ok(Launch { function, blocks, threads: number(threads), addresses, numbers })
    }

    fn function(&mut self, vgpu: usize, name: &'static str) -> Result<sys::CUfunction> {
        if let Some(function) = self.vgpus[vgpu].functions.get(name) {
            return Ok(*function);
        }
        let function = function_of(self.vgpus[vgpu].kernels, name)?;
        self.vgpus[vgpu].functions.insert(name, function);
        Ok(function)
    }
}

fn function_of(module: sys::CUmodule, name: &str) -> Result<sys::CUfunction> {
    let (mut function, name) = (null_mut(), CString::new(name)?);
    cu!(cuModuleGetFunction(&raw mut function, module, name.as_ptr()))?;
    Ok(function)
}
