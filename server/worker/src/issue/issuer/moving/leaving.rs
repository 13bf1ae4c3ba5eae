//! What a session that may leave says of itself.
//! In: nothing. Out: its blocks, and what forbids a move, by name. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, MemHandle};
use floe_device::{Content, Device, Global, PageSize, Pinned as _};
use floe_wire::DevicePtr;

use crate::issue::issuer::Issuer;
use crate::issue::objects::array::ArrayObject;
use crate::issue::objects::departed::Departed;
use crate::issue::objects::library::Loaded;
use crate::life::moving::words::{Contents, Variable};

/// A block as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PresentBlock {
    pub(crate) block: u64,
    pub(crate) bytes: u64,
    pub(crate) memory: MemHandle,
    /// It is released, and only mappings keep it: one of them.
    pub(crate) only_mapped_at: Option<DevicePtr>,
}

impl<D: Device> Issuer<D> {
    /// All blocks, by their numbers.
    pub(crate) fn present_blocks(&self) -> Vec<PresentBlock> {
        let mut present: Vec<PresentBlock> = self
            .blocks
            .entries()
            .map(|(id, block)| {
                let mapped = || self.mappings.iter().find(|(_, mapping)| mapping.block.0 == id).map(|(at, _)| *at);
                let only_mapped_at = block.released.then(mapped).flatten().map(DevicePtr);
                PresentBlock { block: id, bytes: block.bytes, memory: block.memory, only_mapped_at }
            })
            .collect();
        present.sort_unstable_by_key(|block| block.block);
        present
    }

    /// The error that the context is in; `None`: it is usable.
    pub(crate) fn context_error(&self) -> Option<CudaError> {
        let asked = self.device().stream_query(self.device().own_stream());
        asked.err().filter(|error| *error != CudaError::NOT_READY)
    }
}

impl<D: Device> Issuer<D> {
    /// The granularity of its memory, how many objects it has, and bytes of its arrays.
    pub(crate) fn own_description(&self) -> (u64, u64, u64) {
        let objects = self.blocks.entries().count()
            + self.libraries.entries().count()
            + self.kernels.entries().count()
            + self.streams.entries().count()
            + self.events.entries().count()
            + self.graphs.entries().count()
            + self.arrays.entries().count()
            + self.textures.entries().count()
            + self.surfaces.entries().count();
        let arrays = self.arrays.entries().map(|(_, array)| array.charge).sum();
        (self.allowance.granularity, objects as u64, arrays)
    }

    /// Offers a file to the worker that the session moves to.
    pub(crate) fn offer_file(&self, number: u64, file: OwnedFd) {
        self.shared.hub.offer_file(number, file);
    }

    /// Host functions that were given up and may still be answered.
    pub(crate) fn functions_given_up(&self) -> Vec<u64> {
        self.functions.given_up()
    }

    /// Libraries that were unloaded and may have left something on the device.
    pub(crate) fn departed(&mut self) -> &mut Departed {
        &mut self.departed
    }

    /// What the code of libraries is made of whose variables the program may use.
    pub(crate) fn used_code(&self) -> Vec<(u64, Vec<Content>)> {
        let used = self.libraries.entries().filter(|(_, library)| library.may_have_run());
        let contents = |library: &Loaded| library.contents.iter().map(|(_, content)| content.clone()).collect();
        used.map(|(id, library)| (id, contents(library))).collect()
    }

    /// The variables of these names, where the driver has them.
    pub(crate) fn find_variables(&self, names: &BTreeMap<u64, Arc<BTreeSet<String>>>) -> Vec<Variable> {
        let mut variables = Vec::new();
        for (id, names) in names {
            let Ok(library) = self.libraries.get(*id) else { continue };
            for name in names.iter() {
                if let Ok(Global { at, bytes, .. }) = self.device().find_global(library.code, name) {
                    variables.push(Variable { library: *id, name: name.clone(), at: at.0, bytes });
                }
            }
        }
        variables
    }

    /// The bytes of variables and mirrors. Nothing is under way.
    pub(crate) fn variables_and_mirrors(&self, variables: &[Variable]) -> CudaResult<Vec<(Contents, Vec<u8>)>> {
        let mut contents = self.read_variables(variables)?;
        // The client has been told of the device's last changes.
        let mirrors = self.shared.mirrors.contents().into_iter();
        contents.extend(mirrors.map(|(at, bytes)| (Contents::Mirror { at }, bytes)));
        Ok(contents)
    }

    /// The bytes of slices of arrays, from this one of all on: so many that they have `most` bytes, or one. Empty: there is none.
    /// Nothing is under way.
    pub(crate) fn slices_of_arrays(&self, from: usize, most: usize) -> CudaResult<Vec<(Contents, Vec<u8>)>> {
        let (mut contents, mut bytes) = (Vec::new(), 0);
        for (id, array, slice) in self
            .arrays
            .entries()
            .flat_map(|(id, array)| (0..array.slices()).map(move |slice| (id, array, slice)))
            .skip(from)
        {
            let read = self.read_slice(array, slice)?;
            bytes += read.len();
            contents.push((Contents::Array { array: id, slice: slice as u64 }, read));
            if bytes >= most {
                break;
            }
        }
        Ok(contents)
    }

    fn read_variables(&self, variables: &[Variable]) -> CudaResult<Vec<(Contents, Vec<u8>)>> {
        let size = |variable: &Variable| usize::try_from(variable.bytes).unwrap_or(usize::MAX);
        let all = variables.iter().fold(0_usize, |all, variable| all.saturating_add(size(variable)));
        if all == 0 {
            return Ok(Vec::new());
        }
        let (device, stream) = (self.device(), self.device().own_stream());
        let (pinned, mut offset) = (device.pin(all, PageSize::Small)?, 0);
        for variable in variables.iter().filter(|variable| variable.bytes > 0) {
            device.download(&pinned, offset, DevicePtr(variable.at), size(variable), stream)?;
            offset += size(variable);
        }
        device.stream_synchronize(stream)?;
        let mut contents = Vec::with_capacity(variables.len());
        offset = 0;
        for variable in variables {
            let mut read = Vec::with_capacity(size(variable));
            pinned.lend(offset, size(variable), &mut |bytes| read.extend_from_slice(bytes));
            offset += size(variable);
            contents.push((Contents::Variable(variable.clone()), read));
        }
        Ok(contents)
    }

    fn read_slice(&self, array: &ArrayObject, slice: usize) -> CudaResult<Vec<u8>> {
        let Some(plain) = array.plain() else { return Ok(Vec::new()) };
        let (rows, bytes) = array.slice(plain, slice);
        let (device, stream) = (self.device(), self.device().own_stream());
        let pinned = device.pin(bytes, PageSize::Small)?;
        device.download_rows(&pinned, 0, rows, stream)?;
        device.stream_synchronize(stream)?;
        let mut read = Vec::with_capacity(bytes);
        pinned.lend(0, bytes, &mut |bytes| read.extend_from_slice(bytes));
        Ok(read)
    }
}
