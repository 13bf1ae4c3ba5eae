//! The state of a running block: shared memory, warps, their fragments and call frames. All of it plain data.
//! Made by `block`, advanced by `warp`, read and written by `snapshot`. It holds no pointer, so it can be moved, saved and
//! continued at any boundary between instructions.

use super::lanes::LANES;

/// Bytes aligned to a cache line: register files, shared and local memory.
#[derive(Clone, Default)]
pub(crate) struct AlignedBytes {
    lines: Vec<CacheLine>,
    length: usize,
}

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct CacheLine([u8; 64]);

impl AlignedBytes {
    /// That many bytes; new ones are zero, with 64 readable bytes after the end.
    pub(crate) fn zeroed(length: usize) -> Self {
        Self { lines: vec![CacheLine([0; 64]); length.div_ceil(64) + 1], length }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.lines.is_empty() {
            return &[];
        }
        // SAFETY: the lines hold at least `length` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.length) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.lines.is_empty() {
            return &mut [];
        }
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.length) }
    }
}

/// The reason why a fragment waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing: it can run.
    Ready,
    /// A block barrier.
    Barrier(u8),
    /// The other members of a warp-synchronous instruction at its pc.
    Converge,
}

/// Lanes of a warp that are at the same instruction of the same frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// Index of the instruction it runs next (or waits at).
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    /// Index into the warp's frames.
    pub(crate) frame: u32,
    pub(crate) depth: u32,
    pub(crate) wait: Wait,
    /// It spun; the others run first.
    pub(crate) parked: bool,
}

/// The registers of one function at one call depth; lanes that called it from different places share it.
#[derive(Clone)]
pub(crate) struct Frame {
    /// Function of the image.
    pub(crate) function: u32,
    pub(crate) depth: u32,
    /// Lanes that are in it; 0 when it may be reused.
    pub(crate) lanes: u32,
    pub(crate) registers: AlignedBytes,
    /// The return address of each lane: pc of the call, and the calling frame.
    pub(crate) return_pc: [u32; LANES],
    pub(crate) return_frame: [u32; LANES],
    /// Start of each lane's local variables of this frame, and of the next call's.
    pub(crate) local_base: [u32; LANES],
    pub(crate) local_top: [u32; LANES],
}

/// 32 threads.
#[derive(Clone, Default)]
pub(crate) struct Warp {
    /// Index in the block.
    pub(crate) index: u32,
    /// Lanes that exist and have not ended.
    pub(crate) live: u32,
    /// Lanes that exist.
    pub(crate) started: u32,
    /// Backward branches in a row around an atomic or volatile access: outlives a quantum, or a long loop would never spin.
    pub(crate) spins: u32,
    pub(crate) fragments: Vec<Fragment>,
    pub(crate) frames: Vec<Frame>,
    /// Local memory of all lanes, one after the other.
    pub(crate) local: AlignedBytes,
    /// `%tid` of each lane.
    pub(crate) thread_index: [[u32; LANES]; 3],
}

/// Number of named barriers of a block.
pub(crate) const BARRIERS: usize = 16;

/// A named barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Barrier {
    /// Threads that arrived (`bar.arrive` included).
    pub(crate) arrived: u32,
    /// Threads to wait for as the instruction says; 0: all of the block.
    pub(crate) expected: u32,
    /// For reductions: threads whose predicate was true.
    pub(crate) votes: u32,
}

/// A block that has begun.
#[derive(Clone, Default)]
pub(crate) struct Block {
    /// `%ctaid`.
    pub(crate) index: [u32; 3],
    /// Position in the grid's order.
    pub(crate) number: u64,
    pub(crate) shared: AlignedBytes,
    pub(crate) warps: Vec<Warp>,
    pub(crate) barriers: [Barrier; BARRIERS],
    /// Threads of the block.
    pub(crate) threads: u32,
    /// Threads that ended.
    pub(crate) ended: u32,
    /// Warp that runs next.
    pub(crate) turn: u32,
}
