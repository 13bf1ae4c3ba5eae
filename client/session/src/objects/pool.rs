//! A pool of stream-ordered memory: what it has given out, and the attributes that steer reuse. The memory itself is cut from the
//! vGPU's blocks, as every other allocation is.

mod reserve;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use floe_abi::{CudaError, CudaResult, DevicePtr};

use self::reserve::Reserve;
use crate::vgpu::Vgpu;
use crate::vgpu::order::StreamProgress;
use floe_lock::lock;

/// One pool.
#[derive(Debug)]
pub(crate) struct PoolState {
    pub(crate) vgpu: Arc<Vgpu>,
    pub(crate) is_default: bool,
    /// Bits of `handle_type`: how other processes may get it.
    pub(crate) handle_types: u32,
    /// The most bytes that it has given out at a time; 0 where only the vGPU's memory ends it.
    most: u64,
    /// The pool of another process that this one is.
    pub(crate) origin: Option<PoolOrigin>,
    pub(crate) release_threshold: AtomicU64,
    /// The reuse switches: 1 unless the program has turned one off.
    pub(crate) switches: Mutex<HashMap<u32, u64>>,
    /// The other vGPUs whose kernels reach its memory, by ordinal, and the vGPU's epoch when they were let in.
    reached_by: Mutex<(u64, BTreeSet<u8>)>,
    /// The allocations it has given out.
    given: Mutex<Given>,
}

/// A pool of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolOrigin {
    /// The session it is of.
    pub(crate) session: u64,
    /// Its number in that process.
    pub(crate) pool: u64,
}

/// The allocations that a pool has given out and not got back.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Bytes by address.
    allocations: HashMap<DevicePtr, u64>,
    /// The vGPU's epoch these belong to: a reset takes all of them.
    epoch: u64,
    pub(crate) used: u64,
    pub(crate) used_high: u64,
    reserve: Reserve,
}

impl PoolState {
    /// The empty pool that a vGPU has from the start.
    pub(crate) fn default_of(vgpu: Arc<Vgpu>) -> Self {
        Self { is_default: true, ..Self::created(vgpu, 0, 0) }
    }

    /// Another process's pool.
    pub(crate) fn imported(vgpu: Arc<Vgpu>, origin: PoolOrigin) -> Self {
        Self { origin: Some(origin), ..Self::created(vgpu, 0, 0) }
    }

    /// An empty pool on a vGPU that gives out at most so many bytes, or as many as there are.
    pub(crate) fn created(vgpu: Arc<Vgpu>, handle_types: u32, most: u64) -> Self {
        Self {
            vgpu,
            is_default: false,
            handle_types,
            most,
            origin: None,
            release_threshold: AtomicU64::new(0),
            switches: Mutex::default(),
            reached_by: Mutex::default(),
            given: Mutex::default(),
        }
    }

    /// The other vGPUs whose kernels reach its memory, in the vGPU's present epoch.
    pub(crate) fn reached_by(&self) -> MutexGuard<'_, (u64, BTreeSet<u8>)> {
        let mut reached = lock(&self.reached_by);
        let epoch = self.vgpu.epoch();
        if reached.0 != epoch {
            *reached = (epoch, BTreeSet::new());
        }
        reached
    }

    /// The allocations that it has given out in the vGPU's present epoch.
    pub(crate) fn given(&self) -> MutexGuard<'_, Given> {
        let mut given = lock(&self.given);
        let epoch = self.vgpu.epoch();
        if given.epoch != epoch {
            *given = Given { epoch, ..Given::default() };
        }
        given
    }

    /// Whether it may give out so many bytes more.
    ///
    /// # Errors
    /// OUT_OF_MEMORY.
    pub(crate) fn demand_room(&self, bytes: u64) -> CudaResult<()> {
        let fits = self.most == 0 || self.given().used.checked_add(bytes).is_some_and(|used| used <= self.most);
        if fits { Ok(()) } else { Err(CudaError::OUT_OF_MEMORY) }
    }

    /// It has given out an allocation to work of a stream.
    pub(crate) fn gave(&self, at: DevicePtr, bytes: u64, stream: u64) {
        let mut given = self.given();
        given.reserve.give(bytes, stream, self.threshold(), self.vgpu.waits());
        given.allocations.insert(at, bytes);
        given.used += bytes;
        given.used_high = given.used_high.max(given.used);
    }

    /// An allocation is gone, behind a stream's work or at once; whether it was this pool's.
    pub(crate) fn took_back(&self, at: DevicePtr, stream: Option<&Arc<StreamProgress>>) -> bool {
        let mut given = self.given();
        let Some(bytes) = given.allocations.remove(&at) else { return false };
        given.reserve.take(bytes, stream, self.vgpu.waits());
        given.used -= bytes;
        true
    }

    /// Bytes that a driver would reserve for it, now and at most since the last reset.
    pub(crate) fn reserved(&self) -> (u64, u64) {
        let given = self.settled();
        (given.reserve.bytes(), given.reserve.high())
    }

    /// It is to reserve no more than this and what is in use.
    pub(crate) fn trim(&self, keep: u64) {
        self.settled().reserve.shrink(keep);
    }

    /// From now on the most that was reserved is what is reserved.
    pub(crate) fn reset_reserved_high(&self) {
        self.settled().reserve.reset_high();
    }

    /// What it has given out, with what a driver would have given back by now.
    fn settled(&self) -> MutexGuard<'_, Given> {
        let mut given = self.given();
        given.reserve.settle(self.threshold(), self.vgpu.waits());
        given
    }

    fn threshold(&self) -> u64 {
        self.release_threshold.load(Ordering::Acquire)
    }

    /// Whether it gave out the allocation that starts here.
    pub(crate) fn holds(&self, at: DevicePtr) -> bool {
        self.given().allocations.contains_key(&at)
    }
}
