//! Contexts: which one is current on a thread, its limits, its default stream, and the end of everything it owns.
//! Primary contexts keep their handle for the life of the process, whether active or not.
//! A context that a fault broke answers every call that would touch the device with that fault.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use floe_abi::{Context, CudaError, CudaResult, Device, context_flags, function_cache, shared_config};
use floe_surface::{Beyond, ContextCalls, check_context_flags};

use crate::simulator::device::CpuDevice;
use crate::simulator::executor::NOBODY;
use crate::simulator::executor::queue::{StreamKey, StreamKind};
use crate::simulator::memory::kernel_side::KernelSide;
use crate::simulator::{Simulator, activities, current};
use floe_lock::lock;

/// A context that exists.
pub(crate) struct ContextState {
    /// The contexts that programs hold.
    pub(crate) handle: u64,
    /// Never used twice, also when a primary context comes back under its old handle.
    pub(crate) serial: u64,
    pub(crate) device: usize,
    is_primary: bool,
    flags: AtomicU32,
    cache_config: AtomicU32,
    shared_config: AtomicU32,
    pub(crate) legacy: StreamKey,
    pub(crate) kernels: KernelSide,
}

/// All contexts of the process.
#[derive(Default)]
pub(crate) struct Contexts {
    by_handle: RwLock<HashMap<u64, Arc<ContextState>>>,
    serials: AtomicU64,
    /// Which context enabled access to which, by serial.
    peers: Mutex<HashSet<(u64, u64)>>,
}

/// A device's primary context: how often it is retained, and its state while it is active.
#[derive(Default)]
pub(crate) struct Primary {
    retained: u32,
    flags: u32,
    active: bool,
}

impl Contexts {
    pub(crate) fn get(&self, handle: u64) -> Option<Arc<ContextState>> {
        floe_lock::read(&self.by_handle).get(&handle).cloned()
    }

    fn insert(&self, context: Arc<ContextState>) {
        floe_lock::write(&self.by_handle).insert(context.handle, context);
    }

    fn remove(&self, handle: u64) -> Option<Arc<ContextState>> {
        floe_lock::write(&self.by_handle).remove(&handle)
    }

    /// The context with this serial.
    pub(crate) fn by_serial(&self, serial: u64) -> Option<Arc<ContextState>> {
        let contexts = floe_lock::read(&self.by_handle);
        contexts.values().find(|context| context.serial == serial).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<ContextState>> {
        floe_lock::read(&self.by_handle).values().cloned().collect()
    }
}

impl Simulator {
    fn open_context(&self, device: usize, handle: u64, flags: u32, is_primary: bool) -> Arc<ContextState> {
        let serial = self.contexts.serials.fetch_add(1, Ordering::Relaxed) + 1;
        let context = Arc::new(ContextState {
            handle,
            serial,
            device,
            is_primary,
            flags: AtomicU32::new(flags),
            cache_config: AtomicU32::new(function_cache::PREFER_NONE),
            shared_config: AtomicU32::new(shared_config::FOUR_BYTE_BANK_SIZE),
            legacy: self.executor.open(serial, StreamKind::Legacy),
            kernels: KernelSide::new(Arc::clone(&self.views)),
        });
        self.contexts.insert(Arc::clone(&context));
        context
    }

    /// Ends a context: waits for its work, then gives back everything it owns.
    fn close_context(&self, handle: u64) {
        let Some(context) = self.contexts.remove(handle) else { return };
        self.executor.wait_context(context.serial);
        context.kernels.output.drain();
        self.close_streams(context.serial);
        self.executor.forget_context(context.serial);
        lock(&self.contexts.peers).retain(|(from, to)| *from != context.serial && *to != context.serial);
        self.unload_of_context(&context);
        self.host_memory.free_of_context(handle);
        self.arrays.forget_context(handle);
        self.forget_textures(handle);
        if let Some(device) = self.devices.get(context.device) {
            device.memory.free_of_context(handle);
            device.memory.give_back(true);
            context.kernels.close(device);
        }
    }

    /// The calling thread's context.
    ///
    /// # Errors
    /// INVALID_CONTEXT where there is none, or it is gone.
    pub(crate) fn current(&self) -> CudaResult<Arc<ContextState>> {
        match current::get() {
            0 => Err(CudaError::INVALID_CONTEXT),
            handle => self.existing(handle).ok_or(CudaError::CONTEXT_IS_DESTROYED),
        }
    }

    /// The calling thread's context, for a call that touches the device.
    ///
    /// # Errors
    /// As `current`, and what broke the context.
    pub(crate) fn working(&self) -> CudaResult<Arc<ContextState>> {
        let context = self.current()?;
        self.executor.fault(context.serial)?;
        Ok(context)
    }

    /// The calling thread's context and its device, for a call that touches the device.
    pub(crate) fn working_device(&self) -> CudaResult<(Arc<ContextState>, &CpuDevice)> {
        let context = self.working()?;
        let device = self.devices.get(context.device).ok_or(CudaError::INVALID_DEVICE)?;
        Ok((context, device))
    }

    /// Whether synchronous calls that CUDA lets return early wait for the device all the same: the program said so of its
    /// context, or of some memory.
    pub(crate) fn waits_for_device(&self) -> bool {
        let of_context =
            |context: Arc<ContextState>| context.flags.load(Ordering::Relaxed) & context_flags::SYNC_MEMOPS;
        self.synchronous.load(Ordering::Relaxed) || self.current().is_ok_and(|context| of_context(context) != 0)
    }

    /// The context with this handle; NULL means the current one.
    pub(crate) fn context(&self, context: Context) -> CudaResult<Arc<ContextState>> {
        if context.is_null() {
            return self.current();
        }
        self.existing(context.0).ok_or(CudaError::INVALID_CONTEXT)
    }

    /// The context with this handle. A retained primary context that was reset comes back when it is used again, as in
    /// CUDA. The runtime does not retain it a second time.
    fn existing(&self, handle: u64) -> Option<Arc<ContextState>> {
        if let Some(context) = self.contexts.get(handle) {
            return Some(context);
        }
        let device = self.devices.iter().find(|device| device.primary_handle == handle)?;
        let mut primary = lock(&device.primary);
        if primary.retained == 0 {
            return None;
        }
        if !primary.active {
            primary.active = true;
            return Some(self.open_context(device.place, handle, primary.flags, true));
        }
        drop(primary);
        self.contexts.get(handle)
    }

    fn synchronize(&self, context: &ContextState) -> CudaResult<()> {
        self.graphs.refuse_synchronize(context.serial)?;
        self.graphs.refuse_unsafe()?;
        self.executor.wait_context(context.serial);
        context.kernels.output.drain();
        self.executor.fault(context.serial)
    }

    /// Waits until nothing runs in any context, so that memory may be unmapped.
    pub(crate) fn wait_everything(&self) {
        for context in self.contexts.all() {
            self.executor.wait_context(context.serial);
            context.kernels.output.drain();
        }
        self.executor.wait_context(NOBODY);
    }

    /// The same, except for streams that wait for a word of memory: none of their work runs before the word changes.
    /// The program may change it after this call.
    pub(crate) fn wait_everything_unheld(&self) {
        for context in self.contexts.all() {
            self.executor.wait_unheld(context.serial);
            context.kernels.output.drain();
        }
    }

    fn is_known(&self, context: Context) -> bool {
        self.contexts.get(context.0).is_some() || self.devices.iter().any(|device| device.primary_handle == context.0)
    }
}

fn ordinal(device: usize) -> Device {
    Device(i32::try_from(device).unwrap_or(-1))
}

impl Beyond for Simulator {
    fn primary_context(&self, device: Device) -> CudaResult<Context> {
        Ok(Context(self.device(device)?.primary_handle))
    }

    fn call_begins(&self, _name: &'static str) {
        activities::call_begins();
    }
}

impl ContextCalls for Simulator {
    fn device_primary_ctx_retain(&self, device: Device) -> CudaResult<Context> {
        let state = self.device(device)?;
        let mut primary = lock(&state.primary);
        if !primary.active {
            self.open_context(state.place, state.primary_handle, primary.flags, true);
            primary.active = true;
        }
        primary.retained += 1;
        Ok(Context(state.primary_handle))
    }

    fn device_primary_ctx_release(&self, device: Device) -> CudaResult<()> {
        let state = self.device(device)?;
        let mut primary = lock(&state.primary);
        primary.retained = primary.retained.checked_sub(1).ok_or(CudaError::INVALID_CONTEXT)?;
        if primary.retained == 0 {
            primary.active = false;
            self.close_context(state.primary_handle);
        }
        Ok(())
    }

    fn device_primary_ctx_reset(&self, device: Device) -> CudaResult<()> {
        let state = self.device(device)?;
        let mut primary = lock(&state.primary);
        if primary.active {
            primary.active = false;
            self.close_context(state.primary_handle);
        }
        Ok(())
    }

    fn device_primary_ctx_get_state(&self, device: Device) -> CudaResult<(u32, bool)> {
        let primary = lock(&self.device(device)?.primary);
        Ok((primary.flags, primary.active))
    }

    fn device_primary_ctx_set_flags(&self, device: Device, flags: u32) -> CudaResult<()> {
        check_context_flags(flags)?;
        let state = self.device(device)?;
        lock(&state.primary).flags = flags;
        if let Some(context) = self.contexts.get(state.primary_handle) {
            context.flags.store(flags, Ordering::Relaxed);
        }
        Ok(())
    }

    fn ctx_create(&self, flags: u32, device: Device) -> CudaResult<Context> {
        check_context_flags(flags)?;
        let place = self.device(device)?.place;
        let context = self.open_context(place, self.handles.next(), flags, false);
        current::push(context.handle);
        Ok(Context(context.handle))
    }

    fn ctx_destroy(&self, context: Context) -> CudaResult<()> {
        let state = self.contexts.get(context.0).ok_or(CudaError::INVALID_CONTEXT)?;
        if state.is_primary {
            return Err(CudaError::INVALID_CONTEXT);
        }
        self.close_context(context.0);
        if current::get() == context.0 {
            current::pop();
        }
        Ok(())
    }

    fn ctx_push_current(&self, context: Context) -> CudaResult<()> {
        if context.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        if !self.is_known(context) {
            return Err(CudaError::INVALID_CONTEXT);
        }
        current::push(context.0);
        Ok(())
    }

    fn ctx_pop_current(&self) -> CudaResult<Context> {
        current::pop().map(Context).ok_or(CudaError::INVALID_CONTEXT)
    }

    fn ctx_set_current(&self, context: Context) -> CudaResult<()> {
        if !context.is_null() && !self.is_known(context) {
            return Err(CudaError::INVALID_CONTEXT);
        }
        current::replace(context.0);
        Ok(())
    }

    fn ctx_get_current(&self) -> CudaResult<Context> {
        Ok(Context(current::get()))
    }

    fn ctx_get_device(&self) -> CudaResult<Device> {
        self.ctx_get_device_of(Context::NULL)
    }

    fn ctx_get_device_of(&self, context: Context) -> CudaResult<Device> {
        let handle = if context.is_null() { current::get() } else { context.0 };
        if let Some(state) = self.contexts.get(handle) {
            return Ok(ordinal(state.device));
        }
        // A primary context knows its device also while it is not active.
        let device = self.devices.iter().position(|device| device.primary_handle == handle);
        device.map(ordinal).ok_or(CudaError::INVALID_CONTEXT)
    }

    fn ctx_get_flags(&self) -> CudaResult<u32> {
        Ok(self.current()?.flags.load(Ordering::Relaxed))
    }

    fn ctx_set_flags(&self, flags: u32) -> CudaResult<()> {
        check_context_flags(flags)?;
        self.current()?.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn ctx_get_id(&self, context: Context) -> CudaResult<u64> {
        Ok(self.context(context)?.serial)
    }

    fn ctx_synchronize(&self) -> CudaResult<()> {
        let context = self.current()?;
        self.synchronize(&context)
    }

    fn ctx_synchronize_of(&self, context: Context) -> CudaResult<()> {
        let context = self.context(context)?;
        self.synchronize(&context)
    }

    fn ctx_set_limit(&self, limit: u32, value: usize) -> CudaResult<()> {
        self.working()?.kernels.set_limit(limit, value as u64)
    }

    fn ctx_get_limit(&self, limit: u32) -> CudaResult<usize> {
        usize::try_from(self.current()?.kernels.limit(limit)?).map_err(|_| CudaError::UNKNOWN)
    }

    fn ctx_get_cache_config(&self) -> CudaResult<u32> {
        Ok(self.current()?.cache_config.load(Ordering::Relaxed))
    }

    fn ctx_set_cache_config(&self, config: u32) -> CudaResult<()> {
        if config > function_cache::PREFER_EQUAL {
            return Err(CudaError::INVALID_VALUE);
        }
        self.current()?.cache_config.store(config, Ordering::Relaxed);
        Ok(())
    }

    fn ctx_get_shared_mem_config(&self) -> CudaResult<u32> {
        Ok(self.current()?.shared_config.load(Ordering::Relaxed))
    }

    fn ctx_set_shared_mem_config(&self, config: u32) -> CudaResult<()> {
        if config > shared_config::EIGHT_BYTE_BANK_SIZE {
            return Err(CudaError::INVALID_VALUE);
        }
        // As on hardware with banks of one width: accepted, without effect.
        self.current().map(|_| ())
    }

    fn ctx_get_api_version(&self, context: Context) -> CudaResult<u32> {
        self.context(context)?;
        Ok(3020)
    }

    fn ctx_get_stream_priority_range(&self) -> CudaResult<(i32, i32)> {
        self.current()?;
        Ok((super::stream::LEAST_PRIORITY, super::stream::GREATEST_PRIORITY))
    }

    fn ctx_reset_persisting_l2_cache(&self) -> CudaResult<()> {
        self.current().map(|_| ())
    }

    fn ctx_enable_peer_access(&self, peer: Context, flags: u32) -> CudaResult<()> {
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let (mine, other) = (self.current()?, self.context(peer)?);
        if mine.device == other.device {
            return Err(CudaError::INVALID_CONTEXT);
        }
        // All CPU devices of a process share its address space: there is nothing to switch on but the answers.
        let added = lock(&self.contexts.peers).insert((mine.serial, other.serial));
        if added { Ok(()) } else { Err(CudaError::PEER_ACCESS_ALREADY_ENABLED) }
    }

    fn ctx_disable_peer_access(&self, peer: Context) -> CudaResult<()> {
        let (mine, other) = (self.current()?, self.context(peer)?);
        let removed = lock(&self.contexts.peers).remove(&(mine.serial, other.serial));
        if removed { Ok(()) } else { Err(CudaError::PEER_ACCESS_NOT_ENABLED) }
    }
}
