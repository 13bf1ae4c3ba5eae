//! One vGPU of this process: its link, its order, its memory and the objects made on it. Typed requests of the nouns come in,
//! messages go out through the connection. It answers for one server's device and knows nothing of the others.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use floe_abi::{Context, CudaResult};
use floe_image::Takes;
use floe_wire::{Call, Message, ResetContext, SynchronizeContext, SynchronizeStream};

use crate::array::{ArrayState, LeavingArrays};
use crate::blocks::Blocks;
use crate::connection::{Answer, Attached, Connection};
use crate::errors::Errors;
use crate::event::EventState;
use crate::kernel::FunctionState;
use crate::lent::LentRanges;
use crate::limits::DeviceLimits;
use crate::managed::Managed;
use crate::mirrors::Mirrors;
use crate::module::Loaded;
use crate::occupancy::Occupancy;
use crate::order::{Course, Fence, Order};
use crate::sharing::Sharing;
use crate::snapshot::Snapshot;
use crate::staging::Staging;
use crate::statistics::Statistics;
use crate::stream::StreamState;
use crate::stream_memory::Watched;
use crate::table::{Table, lock};
use crate::tensor_map::TensorMaps;
use crate::texture::{SurfaceState, TextureState};
use crate::virtual_memory::VirtualMemory;

/// One vGPU.
#[derive(Debug)]
pub(crate) struct Session {
    /// The device's ordinal as the program sees it.
    pub(crate) ordinal: u8,
    /// Its part of the address space.
    pub(crate) window: Range<u64>,
    pub(crate) snapshot: Snapshot,
    pub(crate) limits: DeviceLimits,
    /// What of a fat binary goes to this vGPU.
    pub(crate) takes: Takes,
    pub(crate) connection: Connection,
    pub(crate) order: Arc<Order>,
    pub(crate) errors: Arc<Errors>,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) lent: Arc<LentRanges>,
    pub(crate) blocks: Mutex<Blocks<Fence>>,
    pub(crate) virtual_memory: Mutex<VirtualMemory>,
    pub(crate) streams: Table<StreamState>,
    pub(crate) events: Table<EventState>,
    pub(crate) modules: Table<Loaded>,
    pub(crate) functions: Table<FunctionState>,
    pub(crate) arrays: Table<ArrayState>,
    pub(crate) leaving_arrays: LeavingArrays,
    /// By the numbers kernels are given, as are surfaces.
    pub(crate) textures: Table<TextureState>,
    pub(crate) surfaces: Table<SurfaceState>,
    /// Global variables the program has asked the address of: they lie outside the window. Start to bytes.
    pub(crate) globals: RwLock<BTreeMap<u64, u64>>,
    /// Limits the program has changed.
    pub(crate) changed_limits: Mutex<HashMap<u32, u64>>,
    /// Answers of occupancy questions, which depend on nothing but the question and the kernel's attributes.
    pub(crate) occupancy: Mutex<Occupancy>,
    /// Tensor maps made so far, which depend on nothing but the shape.
    pub(crate) tensor_maps: TensorMaps,
    /// Host memory that kernels of this vGPU reach.
    pub(crate) mirrors: Arc<Mirrors>,
    /// Streams that wait for words of these.
    pub(crate) watched: Watched,
    /// Memory with one address here and there.
    pub(crate) managed: Arc<Managed>,
    /// What its worker has of the memory this process shares.
    pub(crate) sharing: Sharing,
    /// Where pageable copies pass.
    pub(crate) staging: Staging,
    /// Contexts alive on this vGPU; they share the one the worker has.
    pub(crate) live_contexts: AtomicU32,
    /// Cache configuration last sent, by what it configures.
    pub(crate) cache_configs: Mutex<HashMap<u32, u32>>,
    /// Grows with each reset: what was made before is gone.
    epoch: AtomicU64,
    ids: AtomicU64,
    collected_news: AtomicU64,
}

impl Session {
    /// Takes over an attached link as device `ordinal`.
    pub(crate) fn start(attached: Attached, ordinal: u8, statistics: Arc<Statistics>) -> std::io::Result<Arc<Self>> {
        let (errors, order) = (Arc::new(Errors::default()), Arc::new(Order::new()));
        let mirrors = Arc::new(Mirrors::default());
        let connection = Connection::start(
            attached.link,
            attached.joining,
            attached.places,
            Arc::clone(&statistics),
            Arc::clone(&errors),
            Arc::clone(&order),
            Arc::clone(&mirrors),
        )?;
        let window = attached.window..attached.window + attached.window_bytes;
        // Allocations live in the lower half, the last quarter of it is managed memory's; the program's own reservations
        // live in the upper.
        let middle = window.start + (window.end - window.start) / 2;
        let managed = window.start + (window.end - window.start) / 8 * 3;
        let granularity = attached.snapshot.granularity;
        let session = Arc::new(Self {
            ordinal,
            limits: DeviceLimits::new(&attached.snapshot),
            takes: attached.snapshot.takes,
            connection,
            order,
            errors,
            statistics,
            lent: Arc::default(),
            blocks: Mutex::new(Blocks::new(window.start..managed, granularity)),
            managed: Managed::new(managed..middle, granularity),
            virtual_memory: Mutex::new(VirtualMemory::new(middle..window.end, granularity)),
            streams: Table::default(),
            events: Table::default(),
            modules: Table::default(),
            functions: Table::default(),
            arrays: Table::default(),
            leaving_arrays: LeavingArrays::default(),
            textures: Table::default(),
            surfaces: Table::default(),
            globals: RwLock::default(),
            changed_limits: Mutex::default(),
            occupancy: Mutex::default(),
            tensor_maps: TensorMaps::default(),
            mirrors,
            watched: Watched::default(),
            sharing: Sharing::default(),
            staging: Staging::default(),
            live_contexts: AtomicU32::new(0),
            cache_configs: Mutex::default(),
            epoch: AtomicU64::new(0),
            ids: AtomicU64::new(1),
            collected_news: AtomicU64::new(0),
            snapshot: attached.snapshot,
            window,
        });
        let own = Arc::downgrade(&session);
        session.connection.after_functions(Box::new(move || {
            // What fails is reported by what comes next.
            let _ = own.upgrade().map(|session| session.give_behind_function());
        }));
        Ok(session)
    }

    /// The blocks that have, or would have, an allocation at this address.
    pub(crate) fn blocks_at(&self, at: u64) -> &Mutex<Blocks<Fence>> {
        if self.managed.places(at) { &self.managed.blocks } else { &self.blocks }
    }

    /// An id nothing of this session has had.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Changes when everything made on this vGPU is given up.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Posts a message that puts work on a stream.
    #[inline]
    pub(crate) fn post_on(&self, course: &Course, message: &impl Message) -> CudaResult<()> {
        match self.connection.post_on(course, message) {
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Calls, and reads the reply's fields with `read`.
    pub(crate) fn call<M: Call>(&self, message: &M) -> CudaResult<Answer> {
        self.connection.call(message).map(|(answer, _)| answer)
    }

    /// Waits for all work of all streams.
    pub(crate) fn synchronize(&self) -> CudaResult<()> {
        if self.order.is_idle() {
            return self.errors.report();
        }
        self.send_mirrors()?;
        let (_, sequence) = self.connection.call(&SynchronizeContext {})?;
        self.order.all_completed(sequence);
        self.errors.report()
    }

    /// Waits for all work of one stream.
    pub(crate) fn synchronize_stream(&self, course: &Arc<Course>) -> CudaResult<()> {
        if self.is_quiet(course) {
            return self.errors.report();
        }
        self.send_mirrors()?;
        let (_, sequence) =
            self.connection.call(&SynchronizeStream { stream: floe_wire::StreamId(course.stream()) })?;
        self.order.stream_completed(course, sequence);
        self.errors.report()
    }

    /// Whether nothing a synchronize of this stream waits for is outstanding. The legacy default stream waits for the
    /// blocking ones too.
    pub(crate) fn is_quiet(&self, course: &Course) -> bool {
        if course.stream() == crate::order::LEGACY { self.order.is_idle() } else { course.is_idle() }
    }

    /// Whether `bytes` from `at` on are memory of this device that exists.
    pub(crate) fn covers(&self, at: u64, bytes: u64) -> bool {
        let Some(end) = at.checked_add(bytes) else {
            return false;
        };
        if self.window.contains(&at) {
            let inside = lock(self.blocks_at(at)).reach(at).is_some_and(|reach| end <= reach);
            return inside || lock(&self.virtual_memory).covers(at, end);
        }
        self.global_at(at).is_some_and(|range| end <= range.end)
    }

    /// The global variable that holds this address.
    pub(crate) fn global_at(&self, at: u64) -> Option<Range<u64>> {
        let globals = self.globals.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (start, bytes) = globals.range(..=at).next_back()?;
        let range = *start..start + bytes;
        range.contains(&at).then_some(range)
    }

    /// Gives freed memory back to the allocator, and to the server what is not worth keeping, where streams have come
    /// further since the last time.
    pub(crate) fn collect(&self) -> CudaResult<()> {
        self.give_up_arrays()?;
        let news = self.order.news();
        let known = self.collected_news.swap(news, Ordering::Relaxed) == news;
        [&self.blocks, &self.managed.blocks].into_iter().try_for_each(|blocks| self.collect_from(blocks, known))
    }

    /// `known`: no stream has come further since the last time.
    fn collect_from(&self, blocks: &Mutex<Blocks<Fence>>, known: bool) -> CudaResult<()> {
        let mut blocks = lock(blocks);
        if !blocks.has_quarantined() && known {
            return Ok(());
        }
        let surplus = blocks.collect(Fence::is_passed);
        // Posted under the lock: another thread may get these addresses for a new block right after it.
        surplus.iter().try_for_each(|block| self.give_up(block))
    }

    /// Gives every unused block back to the server.
    pub(crate) fn trim(&self, keep: u64) -> CudaResult<()> {
        self.collect()?;
        for blocks in [&self.blocks, &self.managed.blocks] {
            let mut blocks = lock(blocks);
            let surplus = blocks.surplus(keep);
            surplus.iter().try_for_each(|block| self.give_up(block))?;
        }
        Ok(())
    }

    fn give_up(&self, surplus: &crate::blocks::Surplus) -> CudaResult<()> {
        self.connection.post(&floe_wire::UnmapRange { at: floe_wire::DevicePtr(surplus.at), bytes: surplus.bytes })?;
        self.connection.post(&floe_wire::ReleaseBlock { block: floe_wire::BlockId(surplus.block) })?;
        Ok(())
    }

    /// Whether a stream may stand at something that the program ends: a host function, a wait for a word of memory.
    pub(crate) fn is_held(&self) -> bool {
        self.connection.has_host_functions() || self.watched.any_stand()
    }

    /// Whether work under way still uses memory of the program's.
    fn uses_host_memory(&self) -> bool {
        self.connection.uses_host_memory() || !self.lent.is_empty()
    }

    /// Everything made on this vGPU is gone, here and at the server. `wait` for the server's word, or leave it to a later
    /// call to report a failure.
    pub(crate) fn reset(&self, wait: bool) -> CudaResult<()> {
        if self.watched.any_left() {
            // A stream stands at a word of mirrored memory. CUDA's reset waits for it, and the program may still release it
            // meanwhile: what it writes goes to the server in line, so the wait must not be the server's issuer's.
            let _ = self.synchronize();
        }
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.streams.clear();
        self.events.clear();
        self.modules.clear();
        self.functions.clear();
        self.arrays.clear();
        self.leaving_arrays.clear();
        self.textures.clear();
        self.surfaces.clear();
        lock(&self.occupancy).clear();
        lock(&self.changed_limits).clear();
        lock(&self.cache_configs).clear();
        self.globals.write().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
        // Whoever gives up a context may free the memory its copies write.
        let result = if wait || self.mirrors.any() || self.sharing.any() || self.uses_host_memory() {
            let answer = self.connection.call(&ResetContext {});
            self.connection.give_up_host_functions();
            answer.map(|(_, sequence)| sequence)
        } else {
            self.connection.call_unwatched(&ResetContext {})
        };
        self.mirrors.clear();
        self.sharing.clear();
        self.staging.clear();
        self.clear_managed();
        // Addresses are given out again at once: the reset goes ahead of their next mapping.
        lock(&self.blocks).clear();
        lock(&self.virtual_memory).clear();
        self.errors.reset();
        self.order.reset(result?);
        Ok(())
    }

    /// Everything one context made on this vGPU is given up, while others live on.
    pub(crate) fn clear_context(&self, context: Context) -> CudaResult<()> {
        // As for a reset: the program may free the memory that copies of this context write. Kernels read textures to their end.
        let has_textures = self.textures.any(|texture| texture.context == context)
            || self.surfaces.any(|surface| surface.context == context);
        let settled = if self.uses_host_memory() || has_textures { self.synchronize() } else { Ok(()) };
        for stream in self.streams.remove_if(|stream| stream.context() == context) {
            stream.abandon();
        }
        for event in self.events.remove_if(|event| event.context() == context) {
            self.connection.post(&floe_wire::DestroyEvent { event: floe_wire::EventId(event.id()) })?;
        }
        self.clear_arrays(context)?;
        for module in self.modules.remove_if(|module| module.context() == context) {
            module.unload()?;
        }
        let fence = self.order.fence();
        self.free_managed_of(context, &fence);
        let mut blocks = lock(&self.blocks);
        for at in blocks.owned_by(context.0) {
            blocks.free(at, fence.clone(), None);
        }
        settled
    }
}
