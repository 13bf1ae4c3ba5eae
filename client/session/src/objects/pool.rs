//! A pool of stream-ordered memory: what it has given out, and the attributes that steer reuse. The memory itself is cut from the
//! vGPU's blocks, as every other allocation is.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use floe_abi::DevicePtr;

use crate::vgpu::Vgpu;
use floe_lock::lock;

/// One pool.
#[derive(Debug)]
pub(crate) struct PoolState {
    pub(crate) vgpu: Arc<Vgpu>,
    pub(crate) is_default: bool,
    pub(crate) release_threshold: AtomicU64,
    /// The reuse switches: 1 unless the program has turned one off.
    pub(crate) switches: Mutex<HashMap<u32, u64>>,
    /// The other vGPUs whose kernels reach its memory, by ordinal, and the vGPU's epoch when they were let in.
    reached_by: Mutex<(u64, BTreeSet<u8>)>,
    /// The allocations it has given out.
    given: Mutex<Given>,
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
}

impl PoolState {
    /// An empty pool on a vGPU.
    pub(crate) fn new(vgpu: Arc<Vgpu>, is_default: bool) -> Self {
        Self {
            vgpu,
            is_default,
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

    /// It has given out an allocation.
    pub(crate) fn gave(&self, at: DevicePtr, bytes: u64) {
        let mut given = self.given();
        given.allocations.insert(at, bytes);
        given.used += bytes;
        given.used_high = given.used_high.max(given.used);
    }

    /// An allocation is gone; whether it was this pool's.
    pub(crate) fn took_back(&self, at: DevicePtr) -> bool {
        let mut given = self.given();
        let bytes = given.allocations.remove(&at);
        given.used -= bytes.unwrap_or(0);
        bytes.is_some()
    }

    /// Whether it gave out the allocation that starts here.
    pub(crate) fn holds(&self, at: DevicePtr) -> bool {
        self.given().allocations.contains_key(&at)
    }
}
