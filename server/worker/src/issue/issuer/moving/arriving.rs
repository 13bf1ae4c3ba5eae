//! What a session that arrives is given beside its objects.
//! In: bytes and numbers of the worker that it leaves, which may lie. Out: arrays, mirrors and times as they were there.
//! What does not fit what this session has is refused, and nothing outside it is touched.

use floe_abi::{CudaError, MemHandle};
use floe_device::{Device, Global, PageSize, Pinned as _};

use crate::issue::cache::Hash;
use crate::issue::fault::{Fault, violation};
use crate::issue::issuer::Issuer;
use crate::life::moving::words::{Contents, Last, Variable};

impl<D: Device> Issuer<D> {
    /// The bytes of something that is not memory of blocks.
    pub(crate) fn take_contents(&mut self, contents: &Contents, bytes: &[u8]) -> Result<(), Fault> {
        match contents {
            Contents::Array { array, slice } => self.write_slice(*array, *slice, bytes),
            Contents::Mirror { at } if self.shared.mirrors.recall(*at, bytes) => Ok(()),
            Contents::Mirror { at } => violation(format!("no mirror of {} bytes is at: {at:#x}", bytes.len())),
            Contents::Variable(variable) => self.write_variable(variable, bytes),
        }
    }

    /// The block of this number is made of this memory, which is the other worker's still.
    pub(crate) fn adopt(&mut self, block: u64, memory: MemHandle, bytes: u64) {
        self.adopted.insert(block, (memory, bytes));
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

    fn write_slice(&self, array: u64, slice: u64, bytes: &[u8]) -> Result<(), Fault> {
        let object = self.arrays.get(array)?;
        let slice = usize::try_from(slice).ok().filter(|slice| *slice < object.shape.slices());
        let Some((rows, size)) = slice.map(|slice| object.slice(slice)).filter(|(_, size)| *size == bytes.len()) else {
            return violation(format!("no slice of array {array} has: {} bytes", bytes.len()));
        };
        let (device, stream) = (self.device(), self.device().own_stream());
        let pinned = device.pin(size, PageSize::Small)?;
        pinned.write(0, bytes);
        device.upload_rows(rows, &pinned, 0, stream)?;
        Ok(device.stream_synchronize(stream)?)
    }

    fn write_variable(&self, variable: &Variable, bytes: &[u8]) -> Result<(), Fault> {
        let found = self.demand_variable(variable)?;
        if found.bytes != bytes.len() as u64 {
            return violation(format!("{} bytes for variable {}", bytes.len(), variable.name));
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let (device, stream) = (self.device(), self.device().own_stream());
        let pinned = device.pin(bytes.len(), PageSize::Small)?;
        pinned.write(0, bytes);
        device.upload(found.at, &pinned, 0, bytes.len(), stream)?;
        Ok(device.stream_synchronize(stream)?)
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
