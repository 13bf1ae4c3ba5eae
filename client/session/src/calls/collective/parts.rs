//! What NCCL's functions of this process take and give, and how many bytes a call names.
//! In and out: plain data. Nothing here is sent or looked up.

use std::ffi::OsString;

use floe_abi::{CudaError, Stream, nccl};
use floe_wire::CollectiveCall;

/// `ncclUnhandledCudaError`.
pub(super) const CUDA_ERROR: u32 = 1;

/// A result of NCCL that is no success, with a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NcclFailure {
    /// `ncclResult_t`.
    pub code: u32,
    /// What failed.
    pub words: String,
}

/// What NCCL's functions give.
pub type NcclResult<T> = Result<T, NcclFailure>;

impl From<CudaError> for NcclFailure {
    fn from(error: CudaError) -> Self {
        Self { code: CUDA_ERROR, words: error.to_string() }
    }
}

pub(super) fn failure<T>(code: u32, words: impl Into<String>) -> NcclResult<T> {
    Err(NcclFailure { code, words: words.into() })
}

/// NCCL's variables among all of a program. Those that are no text are left out.
pub(super) fn variables(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let text = all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    text.filter(|(name, _)| nccl::is_variable(name)).collect()
}

/// How a communicator comes about.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// Of unique ids, on a device.
    Ids {
        /// The device.
        device: i32,
        /// 128 bytes each.
        ids: &'a [u8],
        /// The number of ranks.
        ranks: i32,
        /// This one.
        rank: i32,
    },
    /// By a split of another.
    Split {
        /// The other.
        comm: u64,
        /// Ranks of one color are together.
        color: i32,
        /// Their order.
        key: i32,
    },
    /// By leaving ranks out of another.
    Shrink {
        /// The other.
        comm: u64,
        /// The ranks that are left out.
        excluded: &'a [i32],
        /// 1: what it is doing is aborted first.
        flags: u32,
    },
    /// By new ranks that join those of another.
    Grow {
        /// The other; 0: this is a new rank, on a device.
        comm: u64,
        /// The device of a new rank.
        device: i32,
        /// 128 bytes, or none.
        id: &'a [u8],
        /// The number of ranks.
        ranks: i32,
        /// A new rank, else 0.
        rank: i32,
    },
}

/// A communicator to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewComm<'a> {
    /// How.
    pub origin: Origin<'a>,
    /// Its configuration's numbers, in the order of the wire; without any it has its parent's.
    pub config: Option<&'a [i32]>,
    /// Its name.
    pub name: &'a str,
}

/// A communicator that was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MadeComm {
    /// Its number; 0: the rank takes no part.
    pub comm: u64,
    /// This rank.
    pub rank: i32,
    /// The number of ranks.
    pub ranks: i32,
}

/// One call of a group.
#[derive(Debug, Clone, Copy)]
pub struct Collective {
    /// As on the wire, with the communicator's number in this process and the rank as the program gives it.
    pub call: CollectiveCall,
    /// The program's stream.
    pub stream: Stream,
    /// The root or the peer.
    pub rank: i32,
}

/// Bytes of an element of an `ncclDataType_t`.
pub(super) fn element_bytes(datatype: u32) -> Option<u64> {
    [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1].get(usize::try_from(datatype).ok()?).copied()
}

/// How many times its count a rank reads and writes, by the call's kind on the wire.
pub(super) fn extent(kind: u32, ranks: u64, is_root: bool) -> (u64, u64) {
    let root = |times: u64| if is_root { times } else { 0 };
    match kind {
        1 => (root(1), 1),
        2 => (1, root(1)),
        3 => (1, ranks),
        4 => (ranks, 1),
        5 => (1, 0),
        6 => (0, 1),
        7 => (ranks, ranks),
        8 => (1, root(ranks)),
        9 => (root(ranks), 1),
        _ => (1, 1),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn variables_that_are_no_text_are_passed_over() {
        let of = |name: &[u8], value: &[u8]| (OsString::from_vec(name.to_vec()), OsString::from_vec(value.to_vec()));
        let all = [
            of(b"LS_COLORS", b"\xff"),
            of(b"\xff", b"1"),
            of(b"NCCL_DEBUG_FILE", b"\xff"),
            of(b"NCCL_A B", b"1"),
            of("NCCL_\u{e4}".as_bytes(), b"1"),
            of(b"NCCL_DEBUG", b"WARN"),
        ];
        assert_eq!(variables(all.into_iter()), [("NCCL_DEBUG".to_owned(), "WARN".to_owned())]);
    }
}
