//! A device of the process: its vGPU, the program's objects on it, its primary context. Contexts that begin and end
//! come in; their objects are released here and at the server. It answers no call by itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use floe_abi::{Context, CudaResult, Device, MemPool};
use floe_wire::{DestroySurface, DestroyTexture, ResetContext};

use super::Objects;
use crate::objects::context::{ContextState, Primary};
use crate::vgpu::Vgpu;
use floe_lock::lock;

/// One device of the process.
#[derive(Debug)]
pub(crate) struct DeviceState {
    pub(crate) vgpu: Arc<Vgpu>,
    /// The objects that the program has made on it.
    pub(crate) objects: Objects,
    /// Its primary context, whose handle never changes.
    pub(crate) primary: Arc<ContextState>,
    pub(crate) retained: Mutex<Primary>,
    /// The pool that is there from the start.
    pub(crate) default_pool: MemPool,
    /// The pool `cuMemAllocAsync` takes from.
    pub(crate) current_pool: AtomicU64,
}

impl DeviceState {
    /// A device with its primary context, not yet active, and its default pool.
    pub(crate) fn new(vgpu: Arc<Vgpu>, primary: Arc<ContextState>, default_pool: MemPool) -> Self {
        Self {
            vgpu,
            objects: Objects::default(),
            primary,
            retained: Mutex::default(),
            default_pool,
            current_pool: AtomicU64::new(default_pool.0),
        }
    }

    /// The device's handle.
    pub(crate) fn handle(&self) -> Device {
        Device(i32::from(self.vgpu.ordinal))
    }

    /// The primary context exists from now on.
    pub(crate) fn wake(&self, primary: &Primary) {
        if !self.primary.is_alive() {
            self.primary.set_flags(primary.flags);
            self.primary.wake();
        }
    }

    /// Releases everything that a context made; the last context of the vGPU ends the worker's, too. `freed` hears of allocations
    /// that go while others of the vGPU stay.
    pub(crate) fn end(&self, context: &ContextState, freed: impl Fn(u64)) -> CudaResult<()> {
        if !context.alive.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        if self.is_last() { self.reset(false) } else { self.clear_context(context.handle(), freed) }
    }

    /// A context of the vGPU less. Whether the worker's ends with it: not while another is alive, nor while there is memory
    /// that the program maps by itself, which belongs to no context. A context in error always ends.
    pub(crate) fn is_last(&self) -> bool {
        let was_last = self.vgpu.live_contexts.fetch_sub(1, Ordering::AcqRel) == 1;
        was_last && (self.vgpu.errors.is_broken() || !lock(&self.vgpu.virtual_memory).is_used())
    }

    /// Everything made on this vGPU is gone, here and at the server. `wait` for the server's word, or leave it to a later
    /// call to report a failure.
    pub(crate) fn reset(&self, wait: bool) -> CudaResult<()> {
        self.vgpu.refuse_functions(true);
        let outcome = self.reset_without_functions(wait);
        self.vgpu.refuse_functions(false);
        outcome
    }

    fn reset_without_functions(&self, wait: bool) -> CudaResult<()> {
        let vgpu = &self.vgpu;
        if vgpu.watched.any_left() || vgpu.watched.any_for_process() || vgpu.awaits_functions() {
            // A stream waits for a word that this process sends: of mirrored memory, or for another server's event. Or it stands at a
            // function of the program, which may touch managed memory. CUDA's reset waits for the stream, and what ends the wait
            // reaches the server in order, so its issuer must not wait.
            let _ = vgpu.synchronize();
        }
        vgpu.say_last_words();
        let held = vgpu.far.hold();
        vgpu.begin_epoch();
        vgpu.leave_peers();
        vgpu.withdraw_everything();
        self.objects.clear();
        lock(&vgpu.leaving_arrays).clear();
        lock(&vgpu.occupancy).clear();
        lock(&vgpu.changed_limits).clear();
        lock(&vgpu.cache_configs).clear();
        floe_lock::write(&vgpu.globals).clear();
        vgpu.order.end_all();
        // A program that ends a context may free the memory that its copies write.
        let result = if wait || vgpu.mirrors.any() || vgpu.sharing.any() || vgpu.uses_host_memory() {
            let asked = vgpu.end_lane_with(|| vgpu.connection.begin_at_once(&ResetContext {}));
            let answer = asked.and_then(|(ticket, sequence)| vgpu.connection.wait(&ticket).map(|_| sequence));
            vgpu.connection.give_up_host_functions();
            answer
        } else {
            vgpu.end_lane_with(|| vgpu.connection.post_call(&ResetContext {}))
        };
        vgpu.mirrors.clear();
        vgpu.sharing.clear();
        vgpu.staging.clear();
        vgpu.clear_managed();
        // Addresses are given out again at once: the reset goes ahead of their next mapping.
        vgpu.forget_opened();
        vgpu.forget_early();
        lock(&vgpu.blocks).clear();
        lock(&vgpu.virtual_memory).clear();
        vgpu.errors.reset(result.unwrap_or(0));
        vgpu.order.reset(result?);
        drop(held);
        Ok(())
    }

    /// Releases everything that one context made on this vGPU, while others live on; `freed` as of [`Self::end`].
    pub(crate) fn clear_context(&self, context: Context, freed: impl Fn(u64)) -> CudaResult<()> {
        let (vgpu, objects) = (&self.vgpu, &self.objects);
        // As for a reset: the program may free the memory that copies of this context write. Kernels read textures to their end.
        let has_textures = objects.textures.any(|texture| texture.context == context)
            || objects.surfaces.any(|surface| surface.context == context);
        let settled = if vgpu.uses_host_memory() || has_textures { vgpu.synchronize() } else { Ok(()) };
        for stream in objects.streams.remove_if(|stream| stream.context() == context) {
            stream.abandon();
        }
        for event in objects.events.remove_if(|event| event.context() == context) {
            event.abandon()?;
        }
        self.clear_arrays(context)?;
        for module in objects.modules.remove_if(|module| module.context() == context) {
            module.unload(&objects.functions)?;
        }
        let fence = vgpu.fence_of_all();
        vgpu.free_managed_of(context, &fence);
        vgpu.close_all_of(context, &fence)?;
        let owned = lock(&vgpu.blocks).owned_by(context.0);
        for at in owned {
            vgpu.withdraw_allocation(at);
            lock(&vgpu.blocks).free(at, fence.clone(), None);
            freed(at);
        }
        settled
    }

    /// Releases the textures and arrays of one context, while others live on.
    fn clear_arrays(&self, context: Context) -> CudaResult<()> {
        let (vgpu, objects) = (&self.vgpu, &self.objects);
        for texture in objects.textures.remove_if(|texture| texture.context == context) {
            vgpu.connection.post(&DestroyTexture { texture: texture.id })?;
        }
        for surface in objects.surfaces.remove_if(|surface| surface.context == context) {
            vgpu.connection.post(&DestroySurface { surface: surface.id })?;
        }
        let epoch = vgpu.epoch();
        let gone = objects.arrays.remove_if(|array| array.context == context);
        gone.into_iter().try_for_each(|array| vgpu.let_array_go(array, epoch))
    }
}
