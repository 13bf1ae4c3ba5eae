//! Module images as programs carry them: fat binaries, cubins, PTX text. The argument of `cuModuleLoadData` and its kin
//! comes in. Its bytes, the entries in them, those a device can use, and the parameter layout of kernels go out. It
//! trusts no size, offset or count it reads, and only [`program`] touches memory that is not a slice.
#![deny(unsafe_code)]

mod beyond;
mod capability;
mod declarations;
mod decompress;
mod demand;
mod elf;
mod error;
mod fatbin;
mod image;
mod keep;
mod kernels;
mod linked;
mod names;
mod nv_info;
mod printing;
#[allow(unsafe_code)]
pub mod program;
mod select;
mod variables;

pub use beyond::{Beyond, beyond_reach};
pub use capability::{ComputeCapability, Target, Variant};
pub use demand::{Demand, demand};
pub use error::{EntryProblem, ImageError};
pub use fatbin::{Compression, Entry, EntryKind, Fatbin};
pub use image::{Image, ImageKind, PtxText};
pub use keep::{Kept, Pieces, Takes};
pub use kernels::{KernelFacts, Kernels};
pub use linked::linked_image;
pub use names::names_of_variables;
pub use nv_info::{KernelParameters, Parameter, kernel_parameters};
pub use printing::may_print;
pub use select::{Selected, select_cubin, select_ptx};
pub use variables::{Variable, variables};

/// Limits on the bytes read of an image, so that damaged or hostile sizes cannot exhaust memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one image as the program holds it, prelinked containers included.
    pub image_bytes: usize,
    /// Bytes of one entry after decompression.
    pub entry_bytes: usize,
    /// Entries of one container, and prelinked containers of one wrapper.
    pub entries: usize,
}

impl Default for Limits {
    /// 1 GiB for an image and for an entry: the largest container seen is 56 MiB, the largest library 703 MiB in all.
    /// 65,536 entries: libraries have tens.
    fn default() -> Self {
        Self { image_bytes: 1 << 30, entry_bytes: 1 << 30, entries: 1 << 16 }
    }
}
