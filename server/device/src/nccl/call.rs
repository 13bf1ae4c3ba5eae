//! NCCL's functions, found by name, and one call of a group.
//! In: a loaded library; calls whose addresses the worker has checked. Out: C calls. It keeps nothing.

use std::ffi::{CStr, c_int, c_void};

use floe_abi::{DevicePtr, Stream};
use libloading::Library;

use super::abi::{Comm, Text, UniqueId, pointer};

/// The collectives and the two halves of a message between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveKind {
    /// `ncclAllReduce`.
    AllReduce,
    /// `ncclBroadcast`.
    Broadcast,
    /// `ncclReduce`.
    Reduce,
    /// `ncclAllGather`.
    AllGather,
    /// `ncclReduceScatter`.
    ReduceScatter,
    /// `ncclSend`.
    Send,
    /// `ncclRecv`.
    Receive,
    /// `ncclAlltoAll`.
    AllToAll,
    /// `ncclGather`.
    Gather,
    /// `ncclScatter`.
    Scatter,
}

impl CollectiveKind {
    const ALL: [Self; 10] = [
        Self::AllReduce,
        Self::Broadcast,
        Self::Reduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::Send,
        Self::Receive,
        Self::AllToAll,
        Self::Gather,
        Self::Scatter,
    ];

    /// The kind of that number on the wire.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// How many times its count this rank reads and writes, of so many ranks. The root's part of a gather is larger; a
    /// rank that is not the root may name no memory at all there.
    #[must_use]
    pub fn extent(self, ranks: u64, is_root: bool) -> (u64, u64) {
        let root = |times: u64| if is_root { times } else { 0 };
        match self {
            Self::AllReduce => (1, 1),
            Self::Broadcast => (root(1), 1),
            Self::Reduce => (1, root(1)),
            Self::AllGather => (1, ranks),
            Self::ReduceScatter => (ranks, 1),
            Self::Send => (1, 0),
            Self::Receive => (0, 1),
            Self::AllToAll => (ranks, ranks),
            Self::Gather => (1, root(ranks)),
            Self::Scatter => (root(ranks), 1),
        }
    }
}

/// One call of a group.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveCall {
    /// What it does.
    pub kind: CollectiveKind,
    /// Whose.
    pub comm: Comm,
    /// `ncclDataType_t`.
    pub datatype: u32,
    /// `ncclRedOp_t`.
    pub operation: u32,
    /// The root or the peer.
    pub rank: i32,
    /// Elements, as NCCL's function counts them.
    pub count: usize,
    /// What is read.
    pub send: DevicePtr,
    /// What is written.
    pub receive: DevicePtr,
    /// In whose order.
    pub stream: Stream,
}

/// Bytes of an element of an `ncclDataType_t`.
#[must_use]
pub fn element_bytes(datatype: u32) -> Option<u64> {
    Some(match datatype {
        0 | 1 | 10 | 11 => 1,
        6 | 9 => 2,
        2 | 3 | 7 => 4,
        4 | 5 | 8 => 8,
        _ => return None,
    })
}

type Bytes = *mut c_void;

macro_rules! functions {
    ($($name:ident: $symbol:literal = fn($($argument:ty),*) $(-> $returned:ty)?;)*) => {
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Functions {$(
            pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $returned)?,
        )*}

        impl Functions {
            /// All of them, or the name of the first that is missing.
            pub(super) fn load(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {$(
                    // SAFETY: nccl.h declares the function so.
                    $name: unsafe { crate::driver::symbol(library, cstr($symbol)) }.ok_or($symbol)?,
                )*})
            }
        }
    };
}

fn cstr(name: &'static str) -> &'static CStr {
    CStr::from_bytes_until_nul(name.as_bytes()).unwrap_or(c"")
}

functions! {
    version: "ncclGetVersion\0" = fn(*mut c_int) -> u32;
    last_error: "ncclGetLastError\0" = fn(Comm) -> Text;
    unique_id: "ncclGetUniqueId\0" = fn(*mut UniqueId) -> u32;
    init: "ncclCommInitRankConfig\0" = fn(*mut Comm, c_int, UniqueId, c_int, Bytes) -> u32;
    init_scalable: "ncclCommInitRankScalable\0" = fn(*mut Comm, c_int, c_int, c_int, *mut UniqueId, Bytes) -> u32;
    split: "ncclCommSplit\0" = fn(Comm, c_int, c_int, *mut Comm, Bytes) -> u32;
    shrink: "ncclCommShrink\0" = fn(Comm, *mut c_int, c_int, *mut Comm, Bytes, c_int) -> u32;
    rank: "ncclCommUserRank\0" = fn(Comm, *mut c_int) -> u32;
    ranks: "ncclCommCount\0" = fn(Comm, *mut c_int) -> u32;
    async_error: "ncclCommGetAsyncError\0" = fn(Comm, *mut u32) -> u32;
    finalize: "ncclCommFinalize\0" = fn(Comm) -> u32;
    destroy: "ncclCommDestroy\0" = fn(Comm) -> u32;
    abort: "ncclCommAbort\0" = fn(Comm) -> u32;
    revoke: "ncclCommRevoke\0" = fn(Comm, c_int) -> u32;
    create_reduction: "ncclRedOpCreatePreMulSum\0" = fn(*mut u32, Bytes, u32, u32, Comm) -> u32;
    destroy_reduction: "ncclRedOpDestroy\0" = fn(u32, Comm) -> u32;
    register: "ncclCommRegister\0" = fn(Comm, Bytes, usize, *mut Bytes) -> u32;
    deregister: "ncclCommDeregister\0" = fn(Comm, Bytes) -> u32;
    group_start: "ncclGroupStart\0" = fn() -> u32;
    group_end: "ncclGroupEnd\0" = fn() -> u32;
    all_reduce: "ncclAllReduce\0" = fn(Bytes, Bytes, usize, u32, u32, Comm, Stream) -> u32;
    broadcast: "ncclBroadcast\0" = fn(Bytes, Bytes, usize, u32, c_int, Comm, Stream) -> u32;
    reduce: "ncclReduce\0" = fn(Bytes, Bytes, usize, u32, u32, c_int, Comm, Stream) -> u32;
    all_gather: "ncclAllGather\0" = fn(Bytes, Bytes, usize, u32, Comm, Stream) -> u32;
    reduce_scatter: "ncclReduceScatter\0" = fn(Bytes, Bytes, usize, u32, u32, Comm, Stream) -> u32;
    send: "ncclSend\0" = fn(Bytes, usize, u32, c_int, Comm, Stream) -> u32;
    receive: "ncclRecv\0" = fn(Bytes, usize, u32, c_int, Comm, Stream) -> u32;
    all_to_all: "ncclAlltoAll\0" = fn(Bytes, Bytes, usize, u32, Comm, Stream) -> u32;
    gather: "ncclGather\0" = fn(Bytes, Bytes, usize, u32, c_int, Comm, Stream) -> u32;
    scatter: "ncclScatter\0" = fn(Bytes, Bytes, usize, u32, c_int, Comm, Stream) -> u32;
}

impl Functions {
    /// Makes one call and gives its result.
    pub(super) fn call(&self, call: &CollectiveCall) -> u32 {
        use CollectiveKind as Kind;
        let CollectiveCall { kind, comm, datatype, operation, rank, count, send, receive, stream } = *call;
        let (send, receive) = (pointer(send), pointer(receive));
        // SAFETY: communicator and stream are this process's, and the worker has found all the memory that the call
        // names in the session.
        unsafe {
            match kind {
                Kind::AllReduce => (self.all_reduce)(send, receive, count, datatype, operation, comm, stream),
                Kind::Broadcast => (self.broadcast)(send, receive, count, datatype, rank, comm, stream),
                Kind::Reduce => (self.reduce)(send, receive, count, datatype, operation, rank, comm, stream),
                Kind::AllGather => (self.all_gather)(send, receive, count, datatype, comm, stream),
                Kind::ReduceScatter => (self.reduce_scatter)(send, receive, count, datatype, operation, comm, stream),
                Kind::Send => (self.send)(send, count, datatype, rank, comm, stream),
                Kind::Receive => (self.receive)(receive, count, datatype, rank, comm, stream),
                Kind::AllToAll => (self.all_to_all)(send, receive, count, datatype, comm, stream),
                Kind::Gather => (self.gather)(send, receive, count, datatype, rank, comm, stream),
                Kind::Scatter => (self.scatter)(send, receive, count, datatype, rank, comm, stream),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_reads_and_writes_as_many_elements_as_its_part_has() {
        assert_eq!(CollectiveKind::AllGather.extent(4, false), (1, 4));
        assert_eq!(CollectiveKind::ReduceScatter.extent(4, false), (4, 1));
        assert_eq!(CollectiveKind::Gather.extent(4, true), (1, 4));
        assert_eq!(CollectiveKind::Gather.extent(4, false), (1, 0));
        assert_eq!(CollectiveKind::of(9), Some(CollectiveKind::Scatter));
        assert_eq!(CollectiveKind::of(10), None);
    }

    #[test]
    fn types_have_nccls_sizes() {
        assert_eq!((0..12).filter_map(element_bytes).sum::<u64>(), 4 + 2 * 2 + 3 * 4 + 3 * 8);
        assert_eq!(element_bytes(12), None);
    }
}
