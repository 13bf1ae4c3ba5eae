//! A context as this process knows it. All contexts of a vGPU share the one of its worker, so their differences are
//! kept here: whether they exist, their flags, their view of the default stream. Nothing here is sent but what a flag
//! means.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use floe_abi::{Context, Device, context_flags};

use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use crate::vgpu::handles::Handle;
use crate::vgpu::order::Order;
use crate::vgpu::recent::fresh_stamp;

/// One context.
#[derive(Debug)]
pub(crate) struct ContextState {
    pub(crate) handle: Handle,
    pub(crate) vgpu: Arc<Vgpu>,
    pub(crate) is_primary: bool,
    pub(crate) flags: AtomicU32,
    pub(crate) alive: AtomicBool,
    pub(crate) cache_config: AtomicU32,
    pub(crate) shared_config: AtomicU32,
    /// Its view of the default stream all contexts of the vGPU share.
    legacy: Arc<StreamState>,
    /// Under which threads remember the default streams they have in it.
    stamp: u64,
}

/// The retains of a primary context, and the flags that it will be made with.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    pub(crate) count: u32,
    pub(crate) flags: u32,
}

impl ContextState {
    /// A primary context, not active.
    pub(crate) fn primary(handle: Handle, vgpu: Arc<Vgpu>) -> Self {
        Self::new(handle, vgpu, true, 0)
    }

    /// A context; the program's own exist from the start.
    pub(crate) fn new(handle: Handle, vgpu: Arc<Vgpu>, is_primary: bool, flags: u32) -> Self {
        let progress = Arc::clone(Order::legacy(&vgpu.order));
        let legacy = StreamState::legacy(Context(handle.value()), Arc::clone(&vgpu), progress);
        Self {
            handle,
            vgpu,
            is_primary,
            flags: AtomicU32::new(flags),
            alive: AtomicBool::new(!is_primary),
            cache_config: AtomicU32::new(0),
            shared_config: AtomicU32::new(0),
            legacy: Arc::new(legacy),
            stamp: fresh_stamp(),
        }
    }

    /// The program's handle of it.
    pub(crate) fn handle(&self) -> Context {
        Context(self.handle.value())
    }

    /// Its device.
    pub(crate) fn device(&self) -> Device {
        Device(i32::from(self.vgpu.ordinal))
    }

    /// Whether it exists: the program's own until destroyed, a primary one while retained.
    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// The default stream, seen from here.
    pub(crate) fn legacy(&self) -> &Arc<StreamState> {
        &self.legacy
    }

    /// A number no other context has, nor any table.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// How threads wait for the device is the whole vGPU's: the last context that says so decides.
    pub(crate) fn set_flags(&self, flags: u32) {
        self.flags.store(flags, Ordering::Release);
        let sleeps = flags & context_flags::SCHED_MASK == context_flags::SCHED_BLOCKING_SYNC;
        self.vgpu.connection.sleep_soon(sleeps);
    }

    /// Whether synchronous copies and fills wait for the device.
    pub(crate) fn has_synchronous_operations(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & context_flags::SYNC_MEMOPS != 0
    }

    /// It exists from now on.
    pub(crate) fn wake(&self) {
        if !self.alive.swap(true, Ordering::AcqRel) || !self.is_primary {
            self.vgpu.live_contexts.fetch_add(1, Ordering::AcqRel);
            self.vgpu.statistics.context_exists();
        }
    }
}
