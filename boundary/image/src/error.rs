//! Errors of images: the entry, the offset, the value, and the code that a program gets.
//! The faults that the readers found come in, sentences and `CUresult`s go out.
//! No error borrows from the image.

use floe_abi::CudaError;

/// Why an image cannot be read or used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The program passed a null pointer.
    #[error("the image pointer is null")]
    Null,
    /// A PTX text whose declarations are not understood, so that a variable might be missed.
    #[error("the declarations of a PTX text are not understood")]
    Undeclared,
    /// None of the four forms.
    #[error("not a fat binary, cubin or PTX text: the image starts with bytes {0:02x?}")]
    UnknownForm(Vec<u8>),
    /// A wrapper of a kind that is not known.
    #[error("the fat binary wrapper has version {0}, known are 1 and 2")]
    WrapperVersion(u32),
    /// The wrapper or its list points to something that is no container.
    #[error("{place} of a fat binary wrapper points to no container: its first four bytes are {magic:#010x}")]
    NotAContainer {
        /// Which pointer.
        place: &'static str,
        /// Its first four bytes.
        magic: u32,
    },
    /// A header of the container is not what is known.
    #[error("the fat binary container has {what} {value}")]
    Container {
        /// Which field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// The image ends before something it says it has.
    #[error("the image ends too early: {what} at offset {offset} needs {needed} bytes, {present} are there")]
    Truncated {
        /// The part that does not fit.
        what: &'static str,
        /// Its offset.
        offset: u64,
        /// Bytes it needs.
        needed: u64,
        /// Bytes there are.
        present: u64,
    },
    /// Something exceeds a [`crate::Limits`].
    #[error("{what}: {size}, the limit is {limit}")]
    TooLarge {
        /// The part that is too large, with its unit.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// An entry of a container.
    #[error("entry {index} (at offset {offset} of its container): {problem}")]
    Entry {
        /// Which entry, from 0.
        index: usize,
        /// Offset of its header in the container.
        offset: usize,
        /// The problem.
        #[source]
        problem: EntryProblem,
    },
    /// A cubin.
    #[error("the cubin at offset {offset}: {problem}")]
    Elf {
        /// Offset in the file.
        offset: u64,
        /// The problem.
        problem: &'static str,
    },
    /// A kernel's `.nv.info` section.
    #[error("the parameter layout of kernel {kernel}, at offset {offset} of its .nv.info section: {problem}")]
    KernelInfo {
        /// The kernel.
        kernel: String,
        /// Offset in the section.
        offset: usize,
        /// The problem.
        problem: &'static str,
    },
    /// The image does not say for certain what a driver will say of its kernels.
    #[error("only a driver can say what its kernels are: {0}")]
    Unsaid(&'static str),
    /// The image holds nothing that a CPU device can run.
    #[error(
        "the image holds no PTX (it holds {found}); compile with -gencode arch=compute_XX,code=compute_XX to add it"
    )]
    NoPtx {
        /// The entries it holds instead.
        found: String,
    },
}

/// Problems of one entry of a container.
#[derive(Debug, thiserror::Error)]
pub enum EntryProblem {
    /// Its header is shorter than any known one, or longer than the container.
    #[error("its header is {0} bytes long")]
    HeaderSize(u32),
    /// Its payload does not fit.
    #[error("its payload of {needed} bytes leaves the container, which has {present} more")]
    PayloadSize {
        /// Bytes it should have.
        needed: u64,
        /// Bytes there are.
        present: u64,
    },
    /// It is compressed in a way that is not known, or that its kind has no form for.
    #[error("its compression is not known: kind {kind}, flags {flags:#x}")]
    Compression {
        /// Kind of the entry.
        kind: u16,
        /// All of its flags.
        flags: u64,
    },
    /// Its compressed size exceeds its padded one.
    #[error("its compressed size {compressed} exceeds its payload of {padded} bytes")]
    CompressedSize {
        /// The compressed size that it says.
        compressed: u64,
        /// Bytes of the padded payload.
        padded: u64,
    },
    /// It says it expands to more than is allowed, or than its compressed bytes can.
    #[error("its size after decompression is {size}, at most {limit} is possible here")]
    ExpandedSize {
        /// The size that it says.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The compressed bytes are damaged.
    #[error("its {method} data is damaged: {reason}")]
    Damaged {
        /// The compression.
        method: &'static str,
        /// The decoder's reason.
        reason: String,
    },
    /// It expands to another size than it says.
    #[error("it expands to {actual} bytes where its header says {expected}")]
    WrongSize {
        /// Bytes that came out.
        actual: u64,
        /// Bytes that its header says.
        expected: u64,
    },
}

impl ImageError {
    /// The code a program gets from the call that loads the image.
    pub fn code(&self) -> CudaError {
        match self {
            Self::Null => CudaError::INVALID_VALUE,
            Self::NoPtx { .. } => CudaError::NO_BINARY_FOR_GPU,
            _ => CudaError::INVALID_IMAGE,
        }
    }
}
