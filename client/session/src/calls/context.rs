//! Contexts: primary ones, the program's own, and which is current in which thread. All contexts of a vGPU share the one its
//! worker has, so making and switching them is local; waiting, limits and resets are the server's.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use floe_abi::{Context, CudaError, CudaResult, Device};
use floe_surface::{ContextCalls, check_context_flags};
use floe_wire::{SetCacheConfig, SetLimit};

use crate::client::Client;
use crate::log::log_once;
use crate::objects::context::ContextState;
use crate::objects::thread;
use crate::vgpu::handles::{Handle, Kind};
use crate::vgpu::occupancy::Change;
use floe_lock::lock;

/// The version `cuCtxGetApiVersion` gives: that of contexts made through `_v2` symbols and later.
const API_VERSION: u32 = 3020;

impl Client {
    fn any_context(&self, context: Context) -> CudaResult<Arc<ContextState>> {
        if context.is_null() { self.current() } else { self.context(context) }
    }

    fn limit_known(context: &ContextState, limit: u32) -> CudaResult<u64> {
        if let Some(value) = lock(&context.vgpu.changed_limits).get(&limit) {
            return Ok(*value);
        }
        match context.vgpu.snapshot.limit(limit) {
            Some(value) => Ok(value),
            None if limit < floe_abi::limit::MAX => Err(CudaError::UNSUPPORTED_LIMIT),
            None => Err(CudaError::INVALID_VALUE),
        }
    }

    /// What this process keeps for a context that has ended.
    fn forget_context(&self, context: Context) {
        self.forget_registered(context);
        self.unmirror_allocated(context);
        let mut enabled = lock(&self.peer_access);
        for (from, to) in enabled.extract_if(|pair| [pair.0, pair.1].contains(&context)) {
            let vgpu = |context: Context| Some(&self.device_of(Handle::of(Kind::Context, context.0)?)?.vgpu);
            if let (Some(from), Some(to)) = (vgpu(from), vgpu(to)) {
                from.reach_less_of(to);
            }
        }
    }

    /// Sends a cache configuration where it differs from the last.
    fn configure(context: &ContextState, what: u32, value: u32) -> CudaResult<()> {
        let last = lock(&context.vgpu.cache_configs).insert(what, value);
        if last != Some(value) {
            let _change = Change::of(&context.vgpu.occupancy);
            context.vgpu.connection.post(&SetCacheConfig { what, value })?;
            // Kernels that prefer nothing follow the context.
            lock(&context.vgpu.occupancy).clear();
        }
        Ok(())
    }
}

impl ContextCalls for Client {
    fn device_primary_ctx_retain(&self, device: Device) -> CudaResult<Context> {
        let device = self.device(device)?;
        let mut primary = lock(&device.retained);
        device.vgpu.errors.check()?;
        device.wake(&primary);
        primary.count += 1;
        Ok(device.primary.handle())
    }

    fn device_primary_ctx_release(&self, device: Device) -> CudaResult<()> {
        let device = self.device(device)?;
        let mut primary = lock(&device.retained);
        match primary.count {
            0 => Err(CudaError::INVALID_CONTEXT),
            1 => {
                primary.count = 0;
                let result = device.end(&device.primary, |at| self.forget_allocation(at));
                self.forget_context(device.primary.handle());
                result
            }
            _ => {
                primary.count -= 1;
                Ok(())
            }
        }
    }

    fn device_primary_ctx_reset(&self, device: Device) -> CudaResult<()> {
        let device = self.device(device)?;
        // It stays retained as often as it is: a context that was reset comes back when its holders use it.
        let _primary = lock(&device.retained);
        let was_alive = device.primary.alive.swap(false, Ordering::AcqRel);
        if !was_alive {
            return Ok(());
        }
        if device.is_last() {
            device.reset(true)?;
        } else {
            device.vgpu.synchronize()?;
            device.clear_context(device.primary.handle(), |at| self.forget_allocation(at))?;
        }
        self.forget_context(device.primary.handle());
        Ok(())
    }

    fn device_primary_ctx_get_state(&self, device: Device) -> CudaResult<(u32, bool)> {
        let device = self.device(device)?;
        let active = device.primary.is_alive();
        let flags = if active { device.primary.flags.load(Ordering::Acquire) } else { lock(&device.retained).flags };
        Ok((flags, active))
    }

    fn device_primary_ctx_set_flags(&self, device: Device, flags: u32) -> CudaResult<()> {
        check_context_flags(flags)?;
        let device = self.device(device)?;
        lock(&device.retained).flags = flags;
        device.primary.set_flags(flags);
        Ok(())
    }

    fn ctx_create(&self, flags: u32, device: Device) -> CudaResult<Context> {
        check_context_flags(flags)?;
        let device = self.device(device)?;
        device.vgpu.errors.check()?;
        let handle = Handle::new(Kind::Context, device.vgpu.ordinal, self.next_id());
        let context = Arc::new(ContextState::new(handle, Arc::clone(&device.vgpu), false, flags));
        context.set_flags(flags);
        context.wake();
        self.contexts.insert(handle.id, Arc::clone(&context));
        thread::own().push(context);
        Ok(Context(handle.value()))
    }

    fn ctx_destroy(&self, context: Context) -> CudaResult<()> {
        let state = self.context(context)?;
        if state.is_primary {
            return Err(CudaError::INVALID_CONTEXT);
        }
        self.contexts.remove(state.handle.id);
        let own = thread::own();
        if own.with_top(|top| top.is_some_and(|top| top.handle() == context)) {
            own.pop();
        }
        let result = self.device(state.device())?.end(&state, |at| self.forget_allocation(at));
        self.forget_context(context);
        result
    }

    fn ctx_push_current(&self, context: Context) -> CudaResult<()> {
        thread::own().push(self.context(context)?);
        Ok(())
    }

    fn ctx_pop_current(&self) -> CudaResult<Context> {
        thread::own().pop().map(|context| context.handle()).ok_or(CudaError::INVALID_CONTEXT)
    }

    fn ctx_set_current(&self, context: Context) -> CudaResult<()> {
        if thread::own().with_top(|top| top.is_some_and(|top| top.handle() == context)) {
            return Ok(());
        }
        let context = if context.is_null() { None } else { Some(self.context(context)?) };
        thread::own().set(context);
        Ok(())
    }

    fn ctx_get_current(&self) -> CudaResult<Context> {
        Ok(thread::own().with_top(|top| top.map_or(Context::NULL, |top| top.handle())))
    }

    fn ctx_get_device(&self) -> CudaResult<Device> {
        thread::own().with_top(|top| top.map(|top| top.device()).ok_or(CudaError::INVALID_CONTEXT))
    }

    fn ctx_get_device_of(&self, context: Context) -> CudaResult<Device> {
        Ok(self.any_context(context)?.device())
    }

    fn ctx_get_flags(&self) -> CudaResult<u32> {
        Ok(self.current()?.flags.load(Ordering::Acquire))
    }

    fn ctx_set_flags(&self, flags: u32) -> CudaResult<()> {
        check_context_flags(flags)?;
        self.current()?.set_flags(flags);
        Ok(())
    }

    fn ctx_get_id(&self, context: Context) -> CudaResult<u64> {
        Ok(self.any_context(context)?.handle.id)
    }

    fn ctx_synchronize(&self) -> CudaResult<()> {
        let context = self.current()?;
        self.graphs.refuse_synchronize(context.handle().0)?;
        context.vgpu.errors.report()?;
        context.vgpu.await_all()?;
        context.vgpu.note_wait();
        Ok(())
    }

    fn ctx_synchronize_of(&self, context: Context) -> CudaResult<()> {
        let context = self.any_context(context)?;
        self.graphs.refuse_synchronize(context.handle().0)?;
        context.vgpu.errors.report()?;
        context.vgpu.await_all()?;
        context.vgpu.note_wait();
        Ok(())
    }

    fn ctx_set_limit(&self, limit: u32, value: usize) -> CudaResult<()> {
        let context = self.current()?;
        // A value that is in force already need not be set; the runtime repeats its defaults.
        if Self::limit_known(&context, limit)? == value as u64 {
            return Ok(());
        }
        let message =
            SetLimit { limit: i32::try_from(limit).map_err(|_| CudaError::INVALID_VALUE)?, value: value as u64 };
        let vgpu = &context.vgpu;
        let _change = Change::of(&vgpu.occupancy);
        let answer = vgpu.call(&message)?;
        lock(&vgpu.occupancy).clear();
        let reply = vgpu.connection.read(<SetLimit as floe_wire::Call>::decode_reply(&answer.body))?;
        lock(&vgpu.changed_limits).insert(limit, reply.value);
        Ok(())
    }

    fn ctx_get_limit(&self, limit: u32) -> CudaResult<usize> {
        let value = Self::limit_known(&*self.current()?, limit)?;
        usize::try_from(value).map_err(|_| CudaError::INVALID_VALUE)
    }

    fn ctx_get_cache_config(&self) -> CudaResult<u32> {
        Ok(self.current()?.cache_config.load(Ordering::Acquire))
    }

    fn ctx_set_cache_config(&self, config: u32) -> CudaResult<()> {
        if config > floe_abi::function_cache::PREFER_EQUAL {
            return Err(CudaError::INVALID_VALUE);
        }
        let context = self.current()?;
        context.cache_config.store(config, Ordering::Release);
        Self::configure(&context, 0, config)
    }

    fn ctx_get_shared_mem_config(&self) -> CudaResult<u32> {
        Ok(self.current()?.shared_config.load(Ordering::Acquire))
    }

    fn ctx_set_shared_mem_config(&self, config: u32) -> CudaResult<()> {
        if config > floe_abi::shared_config::EIGHT_BYTE_BANK_SIZE {
            return Err(CudaError::INVALID_VALUE);
        }
        let context = self.current()?;
        context.shared_config.store(config, Ordering::Release);
        Self::configure(&context, 1, config)
    }

    fn ctx_get_api_version(&self, context: Context) -> CudaResult<u32> {
        self.any_context(context)?;
        Ok(API_VERSION)
    }

    fn ctx_get_stream_priority_range(&self) -> CudaResult<(i32, i32)> {
        Ok(self.current()?.vgpu.snapshot.priorities)
    }

    fn ctx_reset_persisting_l2_cache(&self) -> CudaResult<()> {
        let context = self.working()?;
        context.vgpu.connection.post(&SetCacheConfig { what: 2, value: 0 })?;
        Ok(())
    }

    fn ctx_enable_peer_access(&self, peer: Context, flags: u32) -> CudaResult<()> {
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let (current, peer) = (self.current()?, self.context(peer)?);
        if current.handle == peer.handle {
            return Err(CudaError::INVALID_CONTEXT);
        }
        if current.vgpu.ordinal == peer.vgpu.ordinal {
            // Contexts of one vGPU share their memory already.
            return Ok(());
        }
        if current.vgpu.ability_with(&peer.vgpu)?.access == 0 {
            let reason = if current.vgpu.is_beside(&peer.vgpu) { "their GPUs reach each other" } else { "one server" };
            log_once!(Warn, "cuCtxEnablePeerAccess: not without {reason}; copies between vGPUs work");
            return Err(CudaError::PEER_ACCESS_UNSUPPORTED);
        }
        let mut enabled = lock(&self.peer_access);
        let pair = (current.handle(), peer.handle());
        if enabled.contains(&pair) {
            return Err(CudaError::PEER_ACCESS_ALREADY_ENABLED);
        }
        current.vgpu.reach_all_of(&peer.vgpu)?;
        enabled.insert(pair);
        Ok(())
    }

    fn ctx_disable_peer_access(&self, peer: Context) -> CudaResult<()> {
        let (current, peer) = (self.current()?, self.context(peer)?);
        if !lock(&self.peer_access).remove(&(current.handle(), peer.handle())) {
            return Err(CudaError::PEER_ACCESS_NOT_ENABLED);
        }
        current.vgpu.reach_less_of(&peer.vgpu);
        Ok(())
    }
}
