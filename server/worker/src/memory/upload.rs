//! A transfer to the device, while its chunks arrive.
//! In: chunks of it, from whichever connection brings them. Out: the bytes in the upload buffer, or beside it.
//! It waits for nobody, and copies nothing to the device.

use std::sync::{Arc, Mutex};

use floe_device::{Device, Pinned as _};
use floe_transport::{LinkError, Target};
use floe_wire::chunk_bytes;

use super::transfer_buffers::UploadRange;

/// A transfer to the device, while its chunks arrive.
pub(crate) enum Upload<D: Device> {
    /// In the upload buffer.
    Pinned { memory: Arc<D::Pinned>, range: UploadRange },
    /// Beside it, a chunk each, until the issuer has room: while a stream is held, nobody waits for that here.
    Heap(Heap),
}

impl<D: Device> Upload<D> {
    /// For so many bytes beside the buffer.
    pub(crate) fn heap(bytes: usize) -> Self {
        let step = chunk_bytes(bytes);
        Self::Heap(Heap { step, chunks: (0..bytes.div_ceil(step)).map(|_| Mutex::default()).collect() })
    }
}

/// Chunks of a transfer.
pub(crate) struct Heap {
    /// Bytes of each, but for the last.
    step: usize,
    chunks: Vec<Mutex<Vec<u8>>>,
}

impl Heap {
    /// Shows each, with where it begins.
    pub(crate) fn each(&self, mut see: impl FnMut(usize, &[u8])) {
        for (index, chunk) in self.chunks.iter().enumerate() {
            see(index * self.step, &floe_lock::lock(chunk));
        }
    }
}

impl<D: Device> Target for Upload<D> {
    fn fill(
        &self,
        offset: usize,
        bytes: usize,
        read: &mut dyn FnMut(&mut [u8]) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        match self {
            Self::Pinned { memory, range } => {
                let mut outcome = Ok(());
                memory.fill(range.offset + offset, bytes, &mut |place| outcome = read(place));
                outcome
            }
            Self::Heap(heap) => {
                let mut chunk = vec![0; bytes];
                read(&mut chunk)?;
                *floe_lock::lock(&heap.chunks[offset / heap.step]) = chunk;
                Ok(())
            }
        }
    }
}
