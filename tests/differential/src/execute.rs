//! Operations carried out by the driver's functions.
//! In: admitted operations and the model behind each. Out: calls; an error where a call fails or a byte is wrong. It
//! never decides what is allowed: the model has.

mod copy;
mod graph;
mod held;
mod memory;
mod share;
mod state;
mod work;

use std::collections::btree_map::Entry;
use std::ptr::null_mut;

use anyhow::{Result, bail};
use cudarc::driver::sys;

use crate::device::{cu, host_bytes, is_code, set_host_bytes};
use crate::model::{Capabilities, Model};
use crate::operation::{Id, Operation, Stream};
use crate::random::Random;
pub(crate) use share::Passed;
pub(crate) use state::Executor;
use state::WORDS;

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
    let reads_in_order = !is_of_nvidia()?;
    Ok(Capabilities { vgpus, mapped, managed, peers, across: true, processes: false, reads_in_order })
}

/// Whether NVIDIA's driver is behind the devices.
fn is_of_nvidia() -> Result<bool> {
    let mut name = [0; 64];
    cu!(cuDeviceGetName(name.as_mut_ptr(), 64, 0))?;
    Ok(name.map(i8::cast_unsigned).starts_with(b"NVIDIA"))
}

impl Executor {
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
            Operation::Read { at, bytes, vgpu } => self.read(*at, *bytes, *vgpu, model),
            Operation::Open { block, vgpu } => self.grant(*block, *vgpu, true),
            Operation::Close { block, .. } if self.process.is_some() => self.close(*block),
            Operation::Close { block, vgpu } => self.grant(*block, *vgpu, false),
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
                if let Entry::Vacant(place) = self.events.entry(event) {
                    let mut made = null_mut();
                    // Every other one has no time, and those for other processes have none.
                    let timeless = if event % 2 == 0 { 2 } else { 0 };
                    cu!(cuEventCreate(&raw mut made, if self.process.is_some() { 6 } else { timeless }))?;
                    place.insert((stream.vgpu, made));
                }
                cu!(cuEventRecord(self.events[&event].1, handle))
            }
            Operation::WaitEvent { event, stream } => {
                let handle = self.stream(stream)?;
                cu!(cuStreamWaitEvent(handle, self.events[&event].1, 0))
            }
            Operation::SynchronizeEvent { event, by_query, vgpu } => {
                let (_, handle) = self.events[&event];
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

    /// Ends everything, so that the next program finds the devices as new.
    pub(crate) fn end(mut self) -> Result<()> {
        for vgpu in self.own_vgpus() {
            self.enter(vgpu)?;
            cu!(cuCtxSynchronize())?;
        }
        let pageable: Vec<Id> = self.blocks.iter().filter(|(_, held)| held.is_registered).map(|(id, _)| *id).collect();
        for id in pageable {
            self.unregister(id)?;
        }
        for vgpu in self.own_vgpus().map(|vgpu| &self.vgpus[vgpu]) {
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
