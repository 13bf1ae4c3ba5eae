//! What a session that arrives is given beside its objects.
//! In: bytes and numbers of the worker that it leaves, which may lie. Out: arrays, mirrors and times as they were there.
//! What does not fit what this session has is refused, and nothing outside it is touched.

use std::os::fd::OwnedFd;

use floe_abi::{CudaError, MemHandle};
use floe_device::{Device, Global, PageSize, Pinned as _};
use rustix::process::{Resource, getrlimit};

use crate::issue::cache::Hash;
use crate::issue::fault::{Fault, violation};
use crate::issue::issuer::Issuer;
use crate::issue::objects::block::Adopted;
use crate::life::moving::words::{Contents, Last, Variable};

impl<D: Device> Issuer<D> {
    /// The bytes of things that are not memory of blocks.
    pub(crate) fn take_contents(&mut self, all: &[(&Contents, &[u8])]) -> Result<(), Fault> {
        for (contents, bytes) in all {
            if let Contents::Mirror { at } = contents
                && !self.shared.mirrors.recall(*at, bytes)
            {
                return violation(format!("no mirror of {} bytes is at: {at:#x}", bytes.len()));
            }
        }
        let copied = all.iter().filter(|(contents, _)| !matches!(contents, Contents::Mirror { .. }));
        let bytes = copied.clone().map(|(_, bytes)| bytes.len()).sum();
        if bytes == 0 {
            return Ok(());
        }
        let (device, stream) = (self.device(), self.device().own_stream());
        let (pinned, mut offset) = (device.pin(bytes, PageSize::Small)?, 0);
        let queued = copied.into_iter().try_for_each(|(contents, bytes)| {
            pinned.write(offset, bytes);
            let queued = match contents {
                Contents::Array { array, slice } => self.write_slice((*array, *slice), &pinned, offset, bytes.len()),
                Contents::Variable(variable) => self.write_variable(variable, &pinned, offset, bytes.len()),
                Contents::Mirror { .. } => Ok(()),
            };
            offset += bytes.len();
            queued
        });
        // What was queued reads the memory also where something was refused.
        let written = device.stream_synchronize(stream);
        queued.and(written.map_err(Fault::from))
    }

    /// The block of this number is made of this memory, which is the other worker's still, and was imported from this file.
    pub(crate) fn adopt(&mut self, block: u64, memory: MemHandle, bytes: u64, file: OwnedFd) {
        let kept =
            self.adopted.values().filter(|adopted| adopted.file.is_some()).count() + self.shared.hub.kept_files();
        let has_room = (kept as u64) < most_files();
        self.adopted.insert(block, Adopted { memory, bytes, file: has_room.then_some(file) });
    }

    /// Whether contents of a library are here already.
    pub(crate) fn has_contents(&self, hash: &Hash, bytes: u64) -> bool {
        self.contents.has(hash, bytes)
    }

    /// Whether a variable is where it has to be.
    pub(crate) fn demand_variable(&self, variable: &Variable) -> Result<Global, Fault> {
        let Variable { library, ref name, at, bytes } = *variable;
        let found = self.device().find_global(self.libraries.get(library)?.code, name)?;
        if (found.at.0, found.bytes) != (at, bytes) {
            let words = format!("variable {name} of library {library} is not at {at:#x}: {:#x}", found.at.0);
            return Err(Fault::Explained(CudaError::NOT_SUPPORTED, words));
        }
        Ok(found)
    }

    fn write_slice(
        &self,
        (array, slice): (u64, u64),
        from: &D::Pinned,
        offset: usize,
        bytes: usize,
    ) -> Result<(), Fault> {
        let object = self.arrays.get(array)?;
        let slice = usize::try_from(slice).ok().filter(|slice| *slice < object.slices());
        let place = slice.zip(object.plain());
        let Some((rows, _)) = place.map(|(slice, plain)| object.slice(plain, slice)).filter(|(_, size)| *size == bytes)
        else {
            return violation(format!("no slice of array {array} has: {bytes} bytes"));
        };
        Ok(self.device().upload_rows(rows, from, offset, self.device().own_stream())?)
    }

    fn write_variable(&self, variable: &Variable, from: &D::Pinned, offset: usize, bytes: usize) -> Result<(), Fault> {
        let found = self.demand_variable(variable)?;
        if found.bytes != bytes as u64 {
            return violation(format!("{bytes} bytes for variable {}", variable.name));
        }
        if bytes == 0 {
            return Ok(());
        }
        Ok(self.device().upload(found.at, from, offset, bytes, self.device().own_stream())?)
    }

    /// What the session knew beside its objects.
    pub(crate) fn recall(&mut self, last: &Last) -> Result<(), Fault> {
        self.functions.were_given_up(&last.given_up);
        if let Some(error) = CudaError::from_code(last.failure) {
            self.shared.failures.note(error);
        }
        if self.recall_times(&last.times)? { Ok(()) } else { violation("times of events that are not there") }
    }
}

/// The most files that are kept of memory that was taken over: others need descriptors, too, and on the CPU device each block
/// has one of its own.
fn most_files() -> u64 {
    getrlimit(Resource::Nofile).current.map_or(u64::MAX, |most| most / 4)
}
