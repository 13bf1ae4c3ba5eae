//! The two ends of a copy. The addresses that the program named come in and are looked up once. Memory of a vGPU goes
//! out with the device, for as long as its end lives. Checking what a graph records keeps nothing there.

use std::cell::OnceCell;
use std::sync::Arc;

use floe_abi::{Array, CudaError, CudaResult};
use floe_surface::{CopyBox, CopyEnd, CopyPlace};
use floe_wire::BoxEnd;

use super::way::{Circumstances, Pinned};
use crate::client::Client;
use crate::lookup::{Lookup, OnHost};
use crate::memory::host_memory::sharing::Access;
use crate::memory::managed::resident::Resident;
use crate::memory::staging::path::SlotPath;
use crate::objects::array::ArrayState;
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;

/// One end of a copy.
#[derive(Debug)]
pub(super) enum End<'c> {
    /// Memory or an array of a vGPU.
    Device(DeviceEnd),
    /// The program's memory.
    Host(OnHost<'c>),
}

/// An end on a vGPU, whose device has it until this is dropped.
#[derive(Debug)]
pub(super) struct DeviceEnd {
    end: BoxEnd,
    memory: Resident,
    is_managed: bool,
}

/// A part of an end on a vGPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot<'e> {
    pub(super) end: BoxEnd,
    pub(super) memory: &'e Resident,
}

impl End<'_> {
    /// The vGPU that has it, if one has.
    pub(super) fn vgpu(&self) -> Option<&Arc<Vgpu>> {
        match self {
            Self::Device(end) => Some(end.memory.vgpu()),
            Self::Host(_) => None,
        }
    }

    /// Work on this stream uses it.
    pub(super) fn note_use(&self, stream: &StreamState) {
        if let Self::Device(end) = self {
            end.memory.note_use(stream);
        }
    }

    /// Whether the host can touch it, and the device has it.
    pub(super) fn is_managed(&self) -> bool {
        matches!(self, Self::Device(end) if end.is_managed)
    }

    /// Whether it is pinned memory that the program called the device's.
    pub(super) fn is_host_named_as_device(&self) -> bool {
        matches!(self, Self::Host(memory) if memory.is_named_as_device)
    }
}

impl DeviceEnd {
    pub(super) fn spot(&self) -> Spot<'_> {
        Spot { end: self.end, memory: &self.memory }
    }
}

impl<'e> Spot<'e> {
    /// Memory of a vGPU in a line.
    pub(super) fn line(at: floe_abi::DevicePtr, memory: &'e Resident) -> Self {
        Self { end: BoxEnd::memory(at, 0, 0), memory }
    }

    /// The same, begun so many bytes further on.
    pub(super) fn offset(self, bytes: usize) -> CudaResult<Self> {
        let at = self.end.at.offset(bytes as u64).ok_or(CudaError::INVALID_VALUE)?;
        Ok(Self { end: BoxEnd { at, ..self.end }, ..self })
    }
}

impl Client {
    /// An end of a copy in one line.
    pub(super) fn line_end<'c>(&'c self, place: CopyPlace, current: &'c Arc<Vgpu>) -> CudaResult<End<'c>> {
        self.memory_end(place, current, [0, 0])
    }

    /// An end of a box.
    pub(super) fn box_end<'c>(&'c self, end: &CopyEnd, copy: &CopyBox, current: &'c Arc<Vgpu>) -> CudaResult<End<'c>> {
        let CopyPlace::Array(array, at) = end.place else {
            return self.memory_end(end.place, current, [end.pitch as u64, end.slice as u64]);
        };
        let array = self.array_end(array, at, copy)?;
        let memory = Resident::array(&array);
        let end = BoxEnd::in_array(array.name.id, at.map(|offset| offset as u64));
        Ok(End::Device(DeviceEnd { end, memory, is_managed: false }))
    }

    fn memory_end<'c>(
        &'c self,
        place: CopyPlace,
        current: &'c Arc<Vgpu>,
        [pitch, slice]: [u64; 2],
    ) -> CudaResult<End<'c>> {
        Ok(match self.lookup(place, current)? {
            Lookup::Host(memory) => End::Host(memory),
            Lookup::Device(found) => {
                let (end, memory) = (BoxEnd::memory(found.at, pitch, slice), found.resident()?);
                End::Device(DeviceEnd { end, memory, is_managed: found.is_managed })
            }
        })
    }

    /// The array at an end of a box that lies in it.
    fn array_end(&self, array: Array, at: [usize; 3], copy: &CopyBox) -> CudaResult<Arc<ArrayState>> {
        let array = self.array(array)?;
        let is_within = array.shape.holds(at, [copy.width, copy.height, copy.depth]);
        if is_within { Ok(array) } else { Err(CudaError::INVALID_VALUE) }
    }

    /// The same copy with the side of both ends known, checked as far as possible before it is done.
    pub(crate) fn settled_box(&self, copy: &CopyBox, vgpu: &Arc<Vgpu>) -> CudaResult<CopyBox> {
        let settled = |end: &CopyEnd| -> CudaResult<CopyEnd> {
            if let CopyPlace::Array(array, at) = end.place {
                self.array_end(array, at, copy)?;
                return Ok(*end);
            }
            let place = match (self.lookup(end.place, vgpu)?, end.place) {
                // Only recorded here: a launch of the graph has it given to the device.
                (Lookup::Device(found), _) => CopyPlace::Device(found.at, found.len()),
                (Lookup::Host(_), CopyPlace::Device(at, bytes)) => CopyPlace::Device(at, bytes),
                (Lookup::Host(memory), _) => CopyPlace::Host(memory.range),
            };
            Ok(CopyEnd { place, ..*end })
        };
        Ok(CopyBox { source: settled(&copy.source)?, destination: settled(&copy.destination)?, ..*copy })
    }
}

/// The program's end of a copy between it and the device of a stream.
pub(super) struct ProgramEnd<'e> {
    client: &'e Client,
    memory: &'e OnHost<'e>,
    stream: &'e StreamState,
    path: OnceCell<Option<SlotPath>>,
}

impl<'e> ProgramEnd<'e> {
    pub(super) fn new(client: &'e Client, memory: &'e OnHost<'e>, stream: &'e StreamState) -> Self {
        Self { client, memory, stream, path: OnceCell::new() }
    }

    /// The stream's path through slots, where the way has asked for one.
    pub(super) fn into_path(self) -> Option<SlotPath> {
        self.path.into_inner().flatten()
    }

    fn place(&self) -> (u64, u64) {
        (self.memory.range.pointer().0, self.memory.range.len() as u64)
    }
}

impl Circumstances for ProgramEnd<'_> {
    fn pinned(&self) -> Option<Pinned> {
        self.memory.pinned().map(|found| if found.is_allocated { Pinned::Allocated } else { Pinned::Registered })
    }

    fn is_shared(&self) -> bool {
        let pinned = self.client.host_memory.may_share(self.place().0).then(|| self.memory.pinned()).flatten();
        pinned.is_some_and(|pinned| self.stream.vgpu.access_of(pinned) != Access::Refused)
    }

    fn is_mirrored(&self) -> bool {
        let (at, bytes) = self.place();
        self.client.is_mirrored(floe_abi::DevicePtr(at), bytes)
    }

    fn is_mirror_of_device(&self) -> bool {
        let (at, bytes) = self.place();
        self.stream.vgpu.mirrors.serves(at, bytes)
    }

    fn is_arriving(&self) -> bool {
        let (at, bytes) = self.place();
        let devices = self.client.devices().unwrap_or_default();
        devices.iter().any(|device| device.vgpu.connection.writes_into(at, bytes))
    }

    fn may_change(&self) -> bool {
        let (at, bytes) = self.place();
        self.client.devices().unwrap_or_default().iter().any(|device| {
            let connection = &device.vgpu.connection;
            connection.host_functions_may_write() || connection.writes_into(at, bytes)
        })
    }

    fn nothing_writes(&self) -> bool {
        self.stream.vgpu.order.writes_nothing()
    }

    fn has_slots(&self) -> bool {
        self.path.get_or_init(|| self.stream.vgpu.slot_path(self.stream.progress())).is_some()
    }

    fn has_bulk(&self) -> bool {
        self.stream.vgpu.connection.has_stripes()
    }
}
