//! Contents of images on their way to a server. An image comes in; the hashes of the contents that the vGPU takes go
//! out, and the bytes that the server lacks, sent from where they lie. It copies nothing and remembers nothing.

use floe_abi::CudaResult;
use floe_surface::Image;
use floe_wire::{Content, LibraryId, LibraryPart, PIECE_BYTES};

use crate::vgpu::Vgpu;

/// The contents of an image that a vGPU takes.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    kept: floe_image::Kept<'a>,
    hashes: Vec<[u8; 32]>,
}

impl<'a> Contents<'a> {
    /// The contents of an image that this vGPU's device takes.
    pub(crate) fn of(image: &'a Image<'_>, vgpu: &Vgpu) -> Self {
        let kept = image.kept_for(&[vgpu.takes], &floe_image::Limits::default());
        let hash = |pieces: &floe_image::Pieces<'_>| {
            let mut hasher = blake3::Hasher::new();
            for slice in pieces.slices() {
                hasher.update(slice);
            }
            *hasher.finalize().as_bytes()
        };
        let hashes = kept.containers.iter().map(hash).collect();
        Self { kept, hashes }
    }

    /// `LoadLibrary.kind`.
    pub(crate) fn kind(&self) -> u32 {
        match self.kept.kind {
            floe_image::ImageKind::Fatbin => 1,
            floe_image::ImageKind::Cubin => 2,
            floe_image::ImageKind::Ptx => 3,
        }
    }

    /// The contents by name, as the server gets them.
    pub(crate) fn names(&self) -> Vec<Content<'_>> {
        let contents = self.kept.containers.iter().zip(&self.hashes);
        contents.map(|(pieces, hash)| Content { hash, bytes: pieces.size() }).collect()
    }

    /// Their number.
    pub(crate) fn count(&self) -> usize {
        self.hashes.len()
    }

    /// Posts the bytes of those that are wanted, by index, for a library that is to be loaded.
    pub(crate) fn send(&self, vgpu: &Vgpu, library: u64, wanted: &[u32]) -> CudaResult<()> {
        for (pieces, content) in self.kept.containers.iter().zip(0u32..).filter(|(_, index)| wanted.contains(index)) {
            let mut empty = true;
            for bytes in pieces.slices().flat_map(|slice| slice.chunks(PIECE_BYTES)) {
                empty = false;
                vgpu.connection.post(&LibraryPart { library: LibraryId(library), content, bytes })?;
            }
            if empty {
                vgpu.connection.post(&LibraryPart { library: LibraryId(library), content, bytes: &[] })?;
            }
            vgpu.statistics.sent_content(pieces.size());
        }
        Ok(())
    }
}
