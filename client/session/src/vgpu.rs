//! One vGPU of this process: its link, its order, and what is known of its memory. Typed requests come in from the objects made on
//! it, messages go out through the connection. It answers for one server's device, knows nothing of the others, and nothing of
//! streams, modules or any other object.

pub(crate) mod attributes;
pub(crate) mod connection;
pub(crate) mod errors;
pub(crate) mod far;
pub(crate) mod handles;
pub(crate) mod lent;
pub(crate) mod limits;
pub(crate) mod occupancy;
pub(crate) mod order;
pub(crate) mod recent;
pub(crate) mod snapshot;
pub(crate) mod statistics;
pub(crate) mod table;
pub(crate) mod tally;
pub(crate) mod tensor_maps;
pub(crate) mod waited;
pub(crate) mod watched;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use floe_abi::{CudaError, CudaResult, DevicePtr};
use floe_image::Takes;
use floe_wire::{Call, SynchronizeContext, SynchronizeStream};

use crate::memory::blocks::Blocks;
use crate::memory::blocks::early::EarlyBlocks;
use crate::memory::host_memory::sharing::Sharing;
use crate::memory::ipc::exports::Exports;
use crate::memory::ipc::opened::Openings;
use crate::memory::managed::Managed;
use crate::memory::mirrors::Mirrors;
use crate::memory::peers::Peers;
use crate::memory::staging::Staging;
use crate::memory::virtual_memory::VirtualMemory;
use crate::objects::array::ArrayName;
use crate::vgpu::connection::{Answer, Attached, Connection};
use crate::vgpu::errors::Errors;
use crate::vgpu::far::Far;
use crate::vgpu::lent::LentRanges;
use crate::vgpu::limits::DeviceLimits;
use crate::vgpu::occupancy::Occupancy;
use crate::vgpu::order::{Fence, Order, StreamProgress};
use crate::vgpu::snapshot::Snapshot;
use crate::vgpu::statistics::Statistics;
use crate::vgpu::tensor_maps::TensorMaps;
use crate::vgpu::watched::Watched;
use floe_lock::lock;

/// One vGPU.
#[derive(Debug)]
pub(crate) struct Vgpu {
    /// The device's ordinal as the program sees it.
    pub(crate) ordinal: u8,
    /// Its part of the address space.
    pub(crate) window: Range<u64>,
    pub(crate) snapshot: Snapshot,
    pub(crate) limits: DeviceLimits,
    /// The parts of a fat binary that go to this vGPU.
    pub(crate) takes: Takes,
    pub(crate) connection: Connection,
    pub(crate) order: Arc<Order>,
    pub(crate) errors: Arc<Errors>,
    /// What the program has not waited for.
    pub(crate) far: Far,
    /// Synchronizations of the program.
    waits: AtomicU64,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) lent: Arc<LentRanges>,
    pub(crate) blocks: Mutex<Blocks<Fence>>,
    /// Blocks that were asked for before the program allocates.
    pub(crate) early: EarlyBlocks,
    pub(crate) virtual_memory: Mutex<VirtualMemory>,
    /// Held while the window's mappings change and the server is told: what one thread has unmapped goes ahead of what another
    /// maps there.
    pub(crate) remapping: Mutex<()>,
    /// Arrays the program has destroyed and the server still has.
    pub(crate) leaving_arrays: Mutex<Vec<ArrayName>>,
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
    /// The shared memory that its worker has mapped.
    pub(crate) sharing: Sharing,
    /// The staging slots for pageable copies.
    pub(crate) staging: Staging,
    /// What it shares with other sessions of its server.
    pub(crate) peers: Peers<Self>,
    /// What the program has handed to other processes.
    pub(crate) exports: Mutex<Exports>,
    /// What other processes have handed to it.
    pub(crate) openings: Openings<Fence>,
    /// Contexts alive on this vGPU; they share the one the worker has.
    pub(crate) live_contexts: AtomicU32,
    /// Cache configuration last sent, by what it configures.
    pub(crate) cache_configs: Mutex<HashMap<u32, u32>>,
    /// True while the vGPU is reset. Read while a function of the program comes to a stream.
    refuses_functions: RwLock<bool>,
    /// Grows with each reset: what was made before is gone.
    epoch: AtomicU64,
    ids: AtomicU64,
    /// The streams' progress when memory was last collected.
    pub(crate) collected_news: AtomicU64,
}

impl Vgpu {
    /// Takes over an attached link as device `ordinal`.
    pub(crate) fn start(attached: Attached, ordinal: u8, statistics: Arc<Statistics>) -> std::io::Result<Arc<Self>> {
        let (errors, order) = (Arc::new(Errors::default()), Arc::new(Order::new()));
        let mirrors = Arc::new(Mirrors::default());
        let connection = Connection::start(
            attached.link,
            attached.joining,
            attached.channels,
            Arc::clone(&statistics),
            Arc::clone(&errors),
            Arc::clone(&order),
            Arc::clone(&mirrors),
        )?;
        let window = attached.window..attached.window + attached.window_bytes;
        // Allocations live in the lower half, the last quarter of it is managed memory's; the program's own reservations
        // live in the upper.
        let middle = middle(&window);
        let managed = window.start + (window.end - window.start) / 8 * 3;
        let granularity = attached.snapshot.granularity;
        Ok(Arc::new(Self {
            ordinal,
            limits: DeviceLimits::new(&attached.snapshot),
            takes: attached.snapshot.takes,
            connection,
            order,
            errors,
            far: Far::default(),
            waits: AtomicU64::new(0),
            statistics,
            lent: Arc::default(),
            blocks: Mutex::new(Blocks::new(window.start..managed, granularity)),
            managed: Managed::new(managed..middle, granularity),
            virtual_memory: Mutex::new(VirtualMemory::new(middle..window.end, granularity)),
            remapping: Mutex::default(),
            leaving_arrays: Mutex::default(),
            globals: RwLock::default(),
            changed_limits: Mutex::default(),
            early: EarlyBlocks::default(),
            occupancy: Mutex::default(),
            tensor_maps: TensorMaps::default(),
            mirrors,
            watched: Watched::default(),
            sharing: Sharing::default(),
            staging: Staging::default(),
            peers: Peers::new(attached.seat),
            exports: Mutex::default(),
            openings: Openings::default(),
            live_contexts: AtomicU32::new(0),
            cache_configs: Mutex::default(),
            refuses_functions: RwLock::new(false),
            epoch: AtomicU64::new(0),
            ids: AtomicU64::new(1),
            collected_news: AtomicU64::new(0),
            snapshot: attached.snapshot,
            window,
        }))
    }

    /// The blocks that have, or would have, an allocation at this address.
    pub(crate) fn blocks_at(&self, at: DevicePtr) -> &Mutex<Blocks<Fence>> {
        if self.managed.places(at) { &self.managed.blocks } else { &self.blocks }
    }

    /// Whether an address is of the half of the window that the program reserves for itself.
    pub(crate) fn is_programs_own(&self, DevicePtr(at): DevicePtr) -> bool {
        self.window.contains(&at) && at >= middle(&self.window)
    }

    /// An id nothing of this vGPU has had.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Changes when everything made on this vGPU is destroyed.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// From now on everything made on this vGPU so far counts as destroyed.
    pub(crate) fn begin_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Calls, and reads the reply's fields with `read`.
    pub(crate) fn call<M: Call>(&self, message: &M) -> CudaResult<Answer> {
        self.connection.call(message).map(|(answer, _)| answer)
    }

    /// The program has synchronized with a stream, an event or the device, which was waited for.
    pub(crate) fn note_wait(self: &Arc<Self>) {
        self.count_wait();
        self.open_after_wait();
    }

    /// The same where that was over already, as far as the program can tell.
    pub(crate) fn count_wait(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it has.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
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
    pub(crate) fn synchronize_stream(&self, progress: &Arc<StreamProgress>) -> CudaResult<()> {
        if self.is_quiet(progress) {
            return self.errors.report();
        }
        self.send_mirrors()?;
        let (_, sequence) =
            self.connection.call(&SynchronizeStream { stream: floe_wire::StreamId(progress.stream()) })?;
        self.order.stream_completed(progress, sequence);
        self.errors.report()
    }

    /// Waits for all work that precedes work issued now on this stream: what the client does itself is in its place
    /// then. A synchronize alone does not wait for the legacy default stream, so a function that does nothing goes ahead
    /// of it where that has work.
    pub(crate) fn synchronize_place(&self, progress: &Arc<StreamProgress>) -> CudaResult<()> {
        self.mark_place(progress)?;
        self.synchronize_stream(progress)
    }

    /// The stream's own work reaches to its place in the order of all streams: what waits for it waits for the legacy default
    /// stream's work that precedes it, too.
    pub(crate) fn mark_place(&self, progress: &Arc<StreamProgress>) -> CudaResult<()> {
        if !self.order.waits_for_legacy(progress) {
            return Ok(());
        }
        self.host_function(progress, connection::HostWork::Own(Box::new(|| {})))
    }

    /// Puts a host function on a stream.
    pub(crate) fn host_function(&self, progress: &Arc<StreamProgress>, work: connection::HostWork) -> CudaResult<()> {
        let _let_in = if work.is_program() { Some(self.let_function_in(progress)?) } else { None };
        // A synchronization of another thread sees it, or has nothing told to it that comes behind it.
        let _held = self.far.hold();
        self.connection.host_function(progress, self.next_id(), work)
    }

    /// Lets a function of the program come to a stream: until what is returned is dropped, nothing is sent that waits for functions.
    ///
    /// # Errors
    /// CONTEXT_IS_DESTROYED while the vGPU is reset, INVALID_HANDLE where another thread's reset took the stream since it was
    /// looked up.
    fn let_function_in(&self, progress: &StreamProgress) -> CudaResult<LetIn<'_>> {
        let coming = self.managed.gate().come_in();
        let refuses = floe_lock::read(&self.refuses_functions);
        if *refuses {
            return Err(CudaError::CONTEXT_IS_DESTROYED);
        }
        if progress.is_retired() {
            return Err(CudaError::INVALID_HANDLE);
        }
        self.expect_functions()?;
        Ok((coming, refuses))
    }

    /// Whether nothing a synchronize of this stream waits for is outstanding. The legacy default stream waits for the
    /// blocking ones too.
    pub(crate) fn is_quiet(&self, progress: &StreamProgress) -> bool {
        if progress.stream() == crate::vgpu::order::LEGACY { self.order.is_idle() } else { progress.is_idle() }
    }

    /// Whether `bytes` from `at` on are memory of this device that exists.
    pub(crate) fn covers(&self, at: DevicePtr, bytes: u64) -> bool {
        let Some(DevicePtr(end)) = at.offset(bytes) else {
            return false;
        };
        if self.window.contains(&at.0) {
            let inside = lock(self.blocks_at(at)).reach(at.0).is_some_and(|reach| end <= reach);
            let is_opened = || lock(&self.openings.opened).reach(at.0).is_some_and(|reach| end <= reach);
            return inside || lock(&self.virtual_memory).covers(at.0, end) || is_opened();
        }
        self.global_at(at).is_some_and(|range| end <= range.end)
    }

    /// The global variable that holds this address.
    pub(crate) fn global_at(&self, DevicePtr(at): DevicePtr) -> Option<Range<u64>> {
        let globals = floe_lock::read(&self.globals);
        let (start, bytes) = globals.range(..=at).next_back()?;
        let range = *start..start + bytes;
        range.contains(&at).then_some(range)
    }

    /// Whether an address is of a module's variable, for which the device's driver has found the place.
    pub(crate) fn is_variable(&self, at: DevicePtr) -> bool {
        self.global_at(at).is_some() || self.managed.has(at) && !self.managed.places(at)
    }

    /// Whether a stream may stand at a function that touches managed memory, or wait for one of another vGPU's that does.
    pub(crate) fn awaits_functions(&self) -> bool {
        self.managed.is_used()
            && (self.connection.has_host_functions() || self.family().any(|its| its.connection.has_host_functions()))
    }

    /// For a message at which the server's driver waits for all work of the context: behind it nothing is fetched that a function
    /// touches. So what its streams stand at ends before, and while what is returned lives no function comes to a stream, and no wait
    /// for another vGPU: one that stands at a function may touch memory of this one. Functions that nothing here waits for go on.
    pub(crate) fn outlast_functions(&self) -> CudaResult<Option<RwLockWriteGuard<'_, ()>>> {
        if !self.managed.is_used() {
            return Ok(None);
        }
        // A function may wait for a thread that brings another one, so others may come while these end.
        for _ in 0..TRIES {
            self.end_functions()?;
            let none_comes = self.managed.gate().close();
            if self.order.is_idle() || !self.awaits_functions() {
                return Ok(Some(none_comes));
            }
        }
        let none_comes = self.managed.gate().close();
        self.end_functions()?;
        Ok(Some(none_comes))
    }

    /// Waits for what the streams hold now, where they may stand at a function.
    fn end_functions(&self) -> CudaResult<()> {
        if self.awaits_functions() { self.synchronize() } else { Ok(()) }
    }

    /// Whether a stream may stand at something that the program ends: a host function, a wait for a word of memory.
    pub(crate) fn is_held(&self) -> bool {
        self.connection.has_host_functions() || self.watched.any_stand()
    }

    /// Lets no function of the program come to a stream until this is said again with `false`. Those that were let are posted when this
    /// returns.
    pub(crate) fn refuse_functions(&self, refuses: bool) {
        *floe_lock::write(&self.refuses_functions) = refuses;
    }

    /// Whether work in flight still uses memory of the program's.
    pub(crate) fn uses_host_memory(&self) -> bool {
        self.connection.uses_host_memory() || !self.lent.is_empty()
    }

    /// Sends what the program has changed in mirrored memory, ahead of work and waits.
    #[inline]
    pub(crate) fn send_mirrors(&self) -> CudaResult<()> {
        if self.mirrors.any() { self.send_changes() } else { Ok(()) }
    }

    fn send_changes(&self) -> CudaResult<()> {
        self.mirrors.each_change(|at, runs| {
            self.connection.post(&floe_wire::WriteMirror { at: floe_wire::DevicePtr(at), runs }).map(drop)
        })
    }
}

/// How often functions that have come are waited for before no further one is let in: they may come without an end.
const TRIES: usize = 16;

/// A function of the program comes to a stream.
type LetIn<'a> = (RwLockReadGuard<'a, ()>, RwLockReadGuard<'a, bool>);

/// Where a window's upper half begins.
fn middle(window: &Range<u64>) -> u64 {
    window.start + (window.end - window.start) / 2
}
