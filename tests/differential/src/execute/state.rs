//! A program's handles: its vGPUs, blocks, streams, events and graphs.
//! In: the numbers that operations name them by. Out: handles and addresses. It carries out no operation.

use std::collections::BTreeMap;
use std::ptr::null_mut;

use anyhow::{Context as _, Result, bail};
use cudarc::driver::sys;

use super::held::{Held, Instance, Made};
use crate::device::{Change, cu, is_code};
use crate::model::{Capabilities, Model};
use crate::operation::{Id, Place, Stream, Which};

const KERNELS: &str = concat!(include_str!("../kernels.ptx"), "\0");
/// Bytes of each stream's word that others wait for.
pub(super) const WORDS: usize = 1 << 16;

pub(super) struct Vgpu {
    pub(super) device: sys::CUdevice,
    pub(super) context: sys::CUcontext,
    pub(super) kernels: sys::CUmodule,
    pub(super) functions: BTreeMap<&'static str, sys::CUfunction>,
    /// Words that streams set and wait for; how many are used.
    pub(super) words: u64,
    pub(super) used: usize,
    pub(super) pool: sys::CUmemoryPool,
    /// Streams that graphs are captured on.
    pub(super) lanes: Vec<sys::CUstream>,
}

pub(crate) struct Executor {
    pub(super) vgpus: Vec<Vgpu>,
    pub(super) current: usize,
    pub(super) blocks: BTreeMap<Id, Held>,
    pub(super) streams: BTreeMap<Stream, sys::CUstream>,
    pub(super) events: BTreeMap<Id, (usize, sys::CUevent)>,
    pub(super) graphs: BTreeMap<Id, Made>,
    pub(super) instances: BTreeMap<Id, Instance>,
    /// What host functions get stays where it is.
    #[allow(clippy::vec_box, reason = "the driver has their addresses")]
    pub(super) changes: Vec<Box<Change>>,
    pub(super) digest: blake3::Hasher,
    pub(crate) reads: usize,
    /// Kernels reach the memory of other vGPUs.
    pub(super) peers: bool,
    /// The only vGPU of this process, where others have the rest.
    pub(super) process: Option<usize>,
    /// Memory goes to other processes by fabric handles too.
    pub(super) has_fabric: bool,
    /// Streams are being captured.
    pub(super) captures: bool,
}

impl Executor {
    /// The handles of a process; its number where each vGPU is of a process of its own.
    pub(crate) fn new(can: Capabilities, process: Option<usize>) -> Result<Self> {
        let mut executor = Self {
            vgpus: Vec::new(),
            current: usize::MAX,
            blocks: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            graphs: BTreeMap::new(),
            instances: BTreeMap::new(),
            changes: Vec::new(),
            digest: blake3::Hasher::new(),
            reads: 0,
            peers: false,
            process,
            has_fabric: false,
            captures: false,
        };
        for vgpu in 0..can.vgpus {
            let is_here = process.is_none_or(|own| own == vgpu);
            executor.vgpus.push(if is_here { Vgpu::open(vgpu)? } else { Vgpu::elsewhere() });
        }
        if let Some(own) = process {
            executor.has_fabric = executor.makes_fabric_handles(own)?;
        }
        executor.peers = can.peers;
        if can.peers {
            executor.connect()?;
        }
        Ok(executor)
    }

    /// Lets kernels of each vGPU reach the memory of the others.
    pub(super) fn connect(&mut self) -> Result<()> {
        for vgpu in 0..self.vgpus.len() {
            self.enter(vgpu)?;
            for other in (0..self.vgpus.len()).filter(|other| *other != vgpu) {
                let enabled = cu!(cuCtxEnablePeerAccess(self.vgpus[other].context, 0));
                let is_enabled =
                    |error: &anyhow::Error| is_code(error, &[sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED]);
                enabled.or_else(|error| if is_enabled(&error) { Ok(()) } else { Err(error) })?;
            }
        }
        Ok(())
    }

    /// The digest of every byte read.
    pub(crate) fn digest(&self) -> String {
        self.digest.finalize().to_hex()[..16].to_owned()
    }

    /// The vGPUs of this process.
    pub(super) fn own_vgpus(&self) -> impl Iterator<Item = usize> + use<> {
        let process = self.process;
        (0..self.vgpus.len()).filter(move |vgpu| process.is_none_or(|own| own == *vgpu))
    }

    pub(super) fn enter(&mut self, vgpu: usize) -> Result<()> {
        if self.current != vgpu {
            cu!(cuCtxSetCurrent(self.vgpus[vgpu].context))?;
            self.current = vgpu;
        }
        Ok(())
    }

    /// The handle of a stream, in its context.
    pub(super) fn stream(&mut self, stream: Stream) -> Result<sys::CUstream> {
        self.enter(stream.vgpu)?;
        Ok(match stream.which {
            Which::Default | Which::Legacy => 1 as sys::CUstream,
            Which::PerThread => 2 as sys::CUstream,
            Which::Own(_) => *self.streams.get(&stream).context("no such stream")?,
        })
    }

    /// As kernels and device copies name it.
    pub(super) fn address(&self, at: Place) -> u64 {
        let held = &self.blocks[&at.block];
        held.address + held.distance(at.offset)
    }

    /// As the host names it; managed memory has one address.
    pub(super) fn host_address(&self, at: Place) -> u64 {
        let held = &self.blocks[&at.block];
        let base = if held.host == 0 { held.address } else { held.host };
        base + held.distance(at.offset)
    }

    /// Compares what was read with the model.
    pub(super) fn compare(&mut self, at: Place, read: &[u8], model: &Model) -> Result<()> {
        self.reads += 1;
        self.digest.update(read);
        let expected = &model.blocks[&at.block].bytes[at.offset..at.offset + read.len()];
        let Some(first) = (0..read.len()).find(|index| read[*index] != expected[*index]) else { return Ok(()) };
        let wrong = (0..read.len()).filter(|index| read[*index] != expected[*index]).count();
        let some = |bytes: &[u8]| bytes[first..].iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>();
        bail!(
            "wrong bytes in {} of {}: block {}, first at {}: {} instead of {}",
            wrong,
            read.len(),
            at.block,
            at.offset + first,
            some(read),
            some(expected)
        )
    }
}

impl Vgpu {
    /// One of another process.
    fn elsewhere() -> Self {
        let (context, kernels, pool) = (null_mut(), null_mut(), null_mut());
        let (functions, lanes) = (BTreeMap::new(), Vec::new());
        Self { device: 0, context, kernels, functions, words: 0, used: 0, pool, lanes }
    }

    /// Where its memory is.
    pub(super) fn location(&self) -> sys::CUmemLocation {
        sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: self.device }
    }

    pub(super) fn open(vgpu: usize) -> Result<Self> {
        let mut count = 0;
        cu!(cuDeviceGetCount(&raw mut count))?;
        // Processes may share a GPU.
        let device = i32::try_from(vgpu)? % count;
        let (mut context, mut kernels, mut words) = (null_mut(), null_mut(), 0);
        cu!(cuDevicePrimaryCtxRetain(&raw mut context, device))?;
        cu!(cuCtxSetCurrent(context))?;
        cu!(cuModuleLoadData(&raw mut kernels, KERNELS.as_ptr().cast()))?;
        cu!(cuMemAlloc_v2(&raw mut words, WORDS))?;
        cu!(cuMemsetD8_v2(words, 0, WORDS))?;
        cu!(cuCtxSynchronize())?;
        let (functions, lanes) = (BTreeMap::new(), Vec::new());
        Ok(Self { device, context, kernels, functions, words, used: 0, pool: null_mut(), lanes })
    }
}
