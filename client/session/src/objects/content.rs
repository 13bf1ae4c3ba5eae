//! Contents of images on their way to a server. An image comes in; the hashes of the contents that the vGPU takes go
//! out, and the bytes that the server lacks, sent from where they lie. It copies nothing and remembers nothing.

use floe_abi::CudaResult;
use floe_surface::Image;
use floe_wire::{Content, LibraryId, LibraryPart, PIECE_BYTES};

use crate::objects::module::record::Source;
use crate::vgpu::Vgpu;

/// Contents of at most so many bytes are sent to a server far away (`--far`) without asking whether it has them: the question takes
/// longer than they do.
const UNASKED_BYTES: u64 = 4 << 20;

/// The contents of a source, as the server gets them.
pub(crate) fn names_of(source: &Source) -> Vec<Content<'_>> {
    source.contents.iter().map(|(hash, bytes)| Content { hash, bytes: *bytes }).collect()
}

/// The contents of an image that a vGPU takes.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    kept: floe_image::Kept<'a>,
    source: Source,
}

impl<'a> Contents<'a> {
    /// The contents of an image that this vGPU's device takes.
    pub(crate) fn of(image: &'a Image<'_>, vgpu: &Vgpu) -> Self {
        // They are read while something is sent, when nobody opens memory.
        image.containers.iter().for_each(|bytes| vgpu.keep_mirrors_open(bytes.as_ptr() as u64, bytes.len() as u64));
        let kept = image.kept_for(&[vgpu.takes], &floe_image::Limits::default());
        let hash = |pieces: &floe_image::Pieces<'_>| {
            let mut hasher = blake3::Hasher::new();
            for slice in pieces.slices() {
                hasher.update(slice);
            }
            *hasher.finalize().as_bytes()
        };
        let contents = kept.containers.iter().map(|pieces| (hash(pieces), pieces.size())).collect();
        let kind = match kept.kind {
            floe_image::ImageKind::Fatbin => 1,
            floe_image::ImageKind::Cubin => 2,
            floe_image::ImageKind::Ptx => 3,
        };
        Self { kept, source: Source { kind, contents } }
    }

    /// By what the server knows them.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The contents by name, as the server gets them.
    pub(crate) fn names(&self) -> Vec<Content<'_>> {
        names_of(&self.source)
    }

    /// Their number.
    pub(crate) fn count(&self) -> usize {
        self.source.contents.len()
    }

    /// Those, by index, that are sent without asking.
    pub(crate) fn unasked(&self, vgpu: &Vgpu) -> Vec<u32> {
        if vgpu.far.is_on() && self.kept.size() <= UNASKED_BYTES {
            (0..).take(self.count()).collect()
        } else {
            Vec::new()
        }
    }

    /// Notes which the server says that it lacks, each once. It may be wrong about how many there are.
    pub(crate) fn note_missing(&self, noted: &mut Vec<u32>, missing: &[u32]) {
        for (index, _) in (0..).zip(&self.source.contents) {
            if missing.contains(&index) && !noted.contains(&index) {
                noted.push(index);
            }
        }
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
