//! Operations carried out by the driver's functions.
//! In: admitted operations and the model behind each. Out: calls; an error where a call fails or a byte is wrong. It
//! never decides what is allowed: the model has.

mod copy;
mod graph;
mod memory;
mod work;

use std::collections::BTreeMap;
use std::ptr::null_mut;

use anyhow::{Context as _, Result, bail};
use cudarc::driver::sys;

use crate::device::{Change, cu, host_bytes, is_code, set_host_bytes};
use crate::model::{Capabilities, Model};
use crate::operation::{Id, Operation, Place, Stream, Which};
use crate::random::Random;
use memory::Held;

const KERNELS: &str = concat!(include_str!("kernels.ptx"), "\0");
/// Bytes of each stream's word that others wait for.
const WORDS: usize = 1 << 16;

struct Vgpu {
    device: sys::CUdevice,
    context: sys::CUcontext,
    kernels: sys::CUmodule,
    functions: BTreeMap<&'static str, sys::CUfunction>,
    /// Words that streams set and wait for; how many are used.
    words: u64,
    used: usize,
    pool: sys::CUmemoryPool,
    /// Streams that graphs are captured on.
    lanes: Vec<sys::CUstream>,
}

pub(crate) struct Executor {
    vgpus: Vec<Vgpu>,
    current: usize,
    blocks: BTreeMap<Id, Held>,
    streams: BTreeMap<Stream, sys::CUstream>,
    events: BTreeMap<Id, (usize, sys::CUevent)>,
    graphs: BTreeMap<Id, graph::Made>,
    instances: BTreeMap<Id, graph::Instance>,
    changes: Vec<Box<Change>>,
    digest: blake3::Hasher,
    pub(crate) reads: usize,
    /// Kernels reach the memory of other vGPUs.
    peers: bool,
}

/// What the library's devices can do.
pub(crate) fn capabilities() -> Result<Capabilities> {
    use sys::CUdevice_attribute_enum as attribute;
    cu!(cuInit(0))?;
    let mut count = 0;
    cu!(cuDeviceGetCount(&raw mut count))?;
    let vgpus = usize::try_from(count)?.min(2);
    let (mut mapped, mut managed) = (true, true);
    for device in 0..vgpus {
        let device = i32::try_from(device)?;
        let ask = |attribute| -> Result<bool> {
            let mut value = 0;
            cu!(cuDeviceGetAttribute(&raw mut value, attribute, device))?;
            Ok(value != 0)
        };
        mapped &= ask(attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)?;
        managed &= ask(attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)?;
    }
    let mut peers = [0, 0];
    if vgpus == 2 {
        cu!(cuDeviceCanAccessPeer(&raw mut peers[0], 0, 1))?;
        cu!(cuDeviceCanAccessPeer(&raw mut peers[1], 1, 0))?;
    }
    let peers = peers == [1, 1];
    Ok(Capabilities { vgpus, mapped, managed, peers, across: peers })
}

impl Executor {
    pub(crate) fn new(can: Capabilities) -> Result<Self> {
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
        };
        for vgpu in 0..can.vgpus {
            executor.vgpus.push(Vgpu::open(vgpu)?);
        }
        executor.peers = can.peers;
        if can.peers {
            executor.connect()?;
        }
        Ok(executor)
    }

    /// Lets kernels of each vGPU reach the memory of the others.
    fn connect(&mut self) -> Result<()> {
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

    fn enter(&mut self, vgpu: usize) -> Result<()> {
        if self.current != vgpu {
            cu!(cuCtxSetCurrent(self.vgpus[vgpu].context))?;
            self.current = vgpu;
        }
        Ok(())
    }

    /// The handle of a stream, in its context.
    fn stream(&mut self, stream: Stream) -> Result<sys::CUstream> {
        self.enter(stream.vgpu)?;
        Ok(match stream.which {
            Which::Default | Which::Legacy => 1 as sys::CUstream,
            Which::PerThread => 2 as sys::CUstream,
            Which::Own(_) => *self.streams.get(&stream).context("no such stream")?,
        })
    }

    /// Carries out what the model has admitted last.
    pub(crate) fn carry_out(&mut self, operation: &Operation, model: &Model) -> Result<()> {
        match operation {
            Operation::Allocate { .. }
            | Operation::Free { .. }
            | Operation::Remap { .. }
            | Operation::Register { .. }
            | Operation::Unregister { .. }
            | Operation::Prefetch { .. }
            | Operation::Reset { .. } => self.carry_out_memory(operation, model),
            Operation::HostWrite { at, bytes, seed } => {
                let address = self.host_address(*at);
                set_host_bytes(address, &Random::bytes(*seed, *bytes));
                Ok(())
            }
            Operation::HostRead { at, bytes } => {
                let read = host_bytes(self.host_address(*at), *bytes);
                self.compare(*at, &read, model)
            }
            Operation::Read { at, bytes } => self.read(*at, *bytes, model),
            Operation::Do { stream, work } => self.work(*stream, work, model),
            Operation::Graph { .. }
            | Operation::Instantiate { .. }
            | Operation::Update { .. }
            | Operation::SetNode { .. }
            | Operation::LaunchGraph { .. }
            | Operation::DropGraph { .. }
            | Operation::DropInstance { .. } => self.carry_out_graph(operation, model),
            _ => self.carry_out_order(operation),
        }
    }

    fn carry_out_order(&mut self, operation: &Operation) -> Result<()> {
        match *operation {
            Operation::CreateStream { stream, blocking } => {
                self.enter(stream.vgpu)?;
                let mut handle = null_mut();
                cu!(cuStreamCreate(&raw mut handle, u32::from(!blocking)))?;
                self.streams.insert(stream, handle);
                Ok(())
            }
            Operation::DestroyStream { stream } => {
                let handle = self.stream(stream)?;
                self.streams.remove(&stream);
                cu!(cuStreamDestroy_v2(handle))
            }
            Operation::Record { event, stream } => {
                let handle = self.stream(stream)?;
                if !self.events.contains_key(&event) {
                    let mut made = null_mut();
                    // Every other one has no time.
                    cu!(cuEventCreate(&raw mut made, if event % 2 == 0 { 2 } else { 0 }))?;
                    self.events.insert(event, (stream.vgpu, made));
                }
                cu!(cuEventRecord(self.events[&event].1, handle))
            }
            Operation::WaitEvent { event, stream } => {
                let handle = self.stream(stream)?;
                cu!(cuStreamWaitEvent(handle, self.events[&event].1, 0))
            }
            Operation::SynchronizeEvent { event, by_query } => {
                let (vgpu, handle) = self.events[&event];
                self.enter(vgpu)?;
                if by_query { until_ready(|| cu!(cuEventQuery(handle))) } else { cu!(cuEventSynchronize(handle)) }
            }
            Operation::SynchronizeStream { stream, by_query } => {
                let handle = self.stream(stream)?;
                if by_query { until_ready(|| cu!(cuStreamQuery(handle))) } else { cu!(cuStreamSynchronize(handle)) }
            }
            Operation::SynchronizeContext { vgpu } => {
                self.enter(vgpu)?;
                cu!(cuCtxSynchronize())
            }
            Operation::Signal { from, to, wide } => self.signal(from, to, wide),
            _ => bail!("not an operation of order: {operation:?}"),
        }
    }

    /// A stream sets a fresh word, the other waits for it.
    fn signal(&mut self, from: Stream, to: Stream, wide: bool) -> Result<()> {
        let (setter, waiter) = (self.stream(from)?, self.stream(to)?);
        let vgpu = &mut self.vgpus[from.vgpu];
        let address = vgpu.words + u64::try_from(vgpu.used % WORDS)?;
        let turn = u32::try_from(vgpu.used / WORDS)? + 1;
        vgpu.used += 8;
        // A flag of 0 waits for at least the value.
        if wide {
            cu!(cuStreamWriteValue64_v2(setter, address, u64::from(turn), 0))?;
            return cu!(cuStreamWaitValue64_v2(waiter, address, u64::from(turn), 0));
        }
        cu!(cuStreamWriteValue32_v2(setter, address, turn, 0))?;
        cu!(cuStreamWaitValue32_v2(waiter, address, turn, 0))
    }

    /// Compares what was read with the model.
    fn compare(&mut self, at: Place, read: &[u8], model: &Model) -> Result<()> {
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

    /// Ends everything, so that the next program finds the devices as new.
    pub(crate) fn end(mut self) -> Result<()> {
        for vgpu in 0..self.vgpus.len() {
            self.enter(vgpu)?;
            cu!(cuCtxSynchronize())?;
        }
        let pageable: Vec<Id> = self.blocks.iter().filter(|(_, held)| held.is_registered).map(|(id, _)| *id).collect();
        for id in pageable {
            self.unregister(id)?;
        }
        for vgpu in &self.vgpus {
            cu!(cuDevicePrimaryCtxReset_v2(vgpu.device))?;
            // A reset leaves the count of those who retain it.
            let released = cu!(cuDevicePrimaryCtxRelease_v2(vgpu.device));
            let was_inactive = |error| {
                if is_code(&error, &[sys::CUresult::CUDA_ERROR_INVALID_CONTEXT]) { Ok(()) } else { Err(error) }
            };
            released.or_else(was_inactive)?;
        }
        Ok(())
    }
}

fn until_ready(query: impl Fn() -> Result<()>) -> Result<()> {
    loop {
        match query() {
            Err(error) if is_code(&error, &[sys::CUresult::CUDA_ERROR_NOT_READY]) => std::thread::yield_now(),
            outcome => return outcome,
        }
    }
}

impl Vgpu {
    fn open(vgpu: usize) -> Result<Self> {
        let device = i32::try_from(vgpu)?;
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
