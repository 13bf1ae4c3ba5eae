//! The process: its vGPUs, contexts and libraries, and the host memory it has pinned. The settings come in at `cuInit`; from
//! then on the nouns' calls find here what a handle or an address means. It connects nothing before that.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use floe_abi::{Context, CudaError, CudaResult, Device, MemPool};
use floe_image::Takes;
use floe_surface::advice::Advice;
use floe_surface::graph::Graphs;
use floe_surface::texture_references::TextureReferences;

use crate::activities::Activities;
use crate::activities::tracing::{self, Tracing};
use crate::calls::collective::Collectives;
use crate::calls::graph::conditional::Homes;
use crate::log::{self, log};
use crate::memory::host_memory::HostMemory;
use crate::memory::staging::copiers::Copiers;
use crate::objects::context::ContextState;
use crate::objects::device::DeviceState;
use crate::objects::exec::ExecState;
use crate::objects::kernel::KernelState;
use crate::objects::library::LibraryState;
use crate::objects::module::early::Early;
use crate::objects::pool::PoolState;
use crate::objects::synchronous::Synchronous;
use crate::objects::{Objects, thread};
use crate::settings::{ProcessSource, Report, Settings, Source, WantedDevice};
use crate::start::Start;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::{Attached, ConnectError, Greeting, attach};
use crate::vgpu::handles::{Handle, Kind};
use crate::vgpu::statistics::{Snapshot, Statistics};
use crate::vgpu::table::{Table, lock};

/// A client process.
#[derive(Debug)]
pub struct Client {
    state: OnceLock<Ready>,
    /// One thread at a time connects.
    starting: Mutex<()>,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) contexts: Table<ContextState>,
    pub(crate) libraries: Table<LibraryState>,
    pub(crate) kernels: Table<KernelState>,
    pub(crate) pools: Table<PoolState>,
    pub(crate) host_memory: HostMemory,
    pub(crate) graphs: Graphs,
    pub(crate) texture_references: TextureReferences,
    pub(crate) advice: Advice,
    pub(crate) synchronous: Synchronous,
    pub(crate) execs: Table<ExecState>,
    /// The server's graphs of graphs with conditional handles.
    pub(crate) homes: Homes,
    /// Contexts whose kernels reach the memory of another's vGPU: from, to.
    pub(crate) peer_access: Mutex<HashSet<(Context, Context)>>,
    /// Communicators of NCCL.
    pub(crate) collectives: Collectives,
    /// What a profiler wants to know.
    pub(crate) activities: Arc<Activities>,
    ids: AtomicU64,
    source: Box<dyn Source + Send + Sync>,
    ended: AtomicBool,
}

/// The devices that `cuInit` made.
#[derive(Debug)]
struct Ready {
    settings: Settings,
    devices: Vec<DeviceState>,
    copiers: Arc<Copiers>,
    /// The process that connected; a forked child must leave its links alone.
    process: u32,
    /// Where it is traced.
    tracing: Option<Tracing>,
    /// Where its libraries are asked for ahead.
    early: Option<Arc<Early>>,
}

impl Ready {
    /// Sizes of the blocks of memory that the program made at its beginning.
    fn blocks_made(&self) -> Vec<u64> {
        self.devices.first().map(|device| device.vgpu.early.made()).unwrap_or_default()
    }
}

impl Client {
    /// A client that reads its settings from `source` when it is initialised.
    pub fn new(source: impl Source + Send + Sync + 'static) -> Self {
        Self {
            state: OnceLock::new(),
            starting: Mutex::new(()),
            statistics: Arc::new(Statistics::new()),
            contexts: Table::default(),
            libraries: Table::default(),
            kernels: Table::default(),
            pools: Table::default(),
            host_memory: HostMemory::default(),
            graphs: Graphs::default(),
            texture_references: TextureReferences::default(),
            advice: Advice::default(),
            synchronous: Synchronous::default(),
            execs: Table::default(),
            homes: Homes::default(),
            peer_access: Mutex::default(),
            collectives: Collectives::default(),
            activities: Arc::default(),
            ids: AtomicU64::new(1),
            source: Box::new(source),
            ended: AtomicBool::new(false),
        }
    }

    /// This process's client, with the settings of its environment.
    pub fn of_process() -> &'static Self {
        static OWN: OnceLock<Client> = OnceLock::new();
        OWN.get_or_init(|| Self::new(ProcessSource))
    }

    /// The counters so far.
    pub fn statistics(&self) -> Snapshot {
        self.statistics.snapshot()
    }

    /// An id nothing of this process has had.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Reads the settings and attaches all vGPUs, once.
    pub(crate) fn start(&self) -> CudaResult<()> {
        let _starting = lock(&self.starting);
        if self.state.get().is_some() {
            return Ok(());
        }
        let settings = Settings::read(&*self.source).map_err(|error| {
            log!(Error, "{error}");
            CudaError::INVALID_VALUE
        })?;
        log::set_level(settings.log);
        for (name, why) in &settings.refused {
            log!(Warn, "servers do not honour a variable of the driver: {name}: {why}");
        }
        if settings.devices.is_empty() {
            log!(
                Error,
                "no GPU is set for this process\n  run it by: floe run -- PROGRAM, or set FLOE_DEVICES=HOST:GPU"
            );
            return Err(CudaError::NO_DEVICE);
        }
        let asked = tracing::begin(&self.activities, settings.trace_file.as_deref())?;
        let devices = self.attach_all(&settings)?;
        if devices.is_empty() {
            return Err(CudaError::NO_DEVICE);
        }
        let copiers = Copiers::new(settings.copy_threads);
        let vgpus = devices.iter().map(|device| Arc::clone(&device.vgpu)).collect();
        let tracing = Tracing::start(&self.activities, vgpus, &self.statistics, asked);
        let far = devices.iter().find(|device| device.vgpu.far.is_on());
        let early = far.and_then(|far| Some(Arc::new(Early::begin(Start::of_process(&*self.source)?, &far.vgpu))));
        let ready = Ready { settings, devices, copiers, process: std::process::id(), tracing, early };
        // Only one thread gets here, and it found nothing set.
        let _ = self.state.set(ready);
        self.record_from_start();
        Ok(())
    }

    fn attach_all(&self, settings: &Settings) -> CudaResult<Vec<DeviceState>> {
        let by_index = settings.visible.by_index(settings.devices.len());
        let attached = attach_each(settings, by_index.as_deref())?;
        let uuids: Vec<String> = attached.iter().map(|attached| attached.snapshot.uuid.to_string()).collect();
        let order = match by_index {
            Some(_) => (0..attached.len()).collect(),
            None => settings.visible.select(&uuids),
        };
        let mut slots: Vec<_> = attached.into_iter().map(Some).collect();
        let mut devices = Vec::new();
        for (index, ordinal) in order.into_iter().zip(0u8..) {
            let mut attached = slots[index].take().expect("each device is chosen once");
            if settings.compiles_everything() {
                attached.snapshot.takes = Takes::Anything;
            }
            log!(Info, "device {ordinal} is {} (session {})", attached.snapshot.name, attached.seat.session);
            let vgpu = Vgpu::start(attached, ordinal, Arc::clone(&self.statistics)).map_err(|error| {
                log!(Error, "no thread for a link: {error}");
                CudaError::OPERATING_SYSTEM
            })?;
            devices.push(self.device_on(vgpu));
        }
        slots.into_iter().flatten().for_each(Attached::leave);
        let vgpus: Vec<_> = devices.iter().map(|device: &DeviceState| Arc::clone(&device.vgpu)).collect();
        vgpus.iter().for_each(|vgpu| vgpu.meet(&vgpus));
        let gate = Arc::default();
        vgpus.iter().for_each(|vgpu| vgpu.flush_behind_functions(&vgpus, &gate));
        // What one vGPU has, the work of another would not wait for. Within a machine an answer is quick.
        match vgpus.as_slice() {
            [vgpu] if settings.far && !vgpu.connection.carries_descriptors() => vgpu.far.allow(vgpu),
            _ if settings.far => log!(Info, "--far does nothing: several vGPUs, or a GPU of this machine"),
            _ => {}
        }
        Ok(devices)
    }

    /// A vGPU as a device, with its primary context, not yet active, and its default pool.
    fn device_on(&self, vgpu: Arc<Vgpu>) -> DeviceState {
        let context = Handle::new(Kind::Context, vgpu.ordinal, self.next_id());
        let primary = Arc::new(ContextState::primary(context, Arc::clone(&vgpu)));
        self.contexts.insert(context.id, Arc::clone(&primary));
        let pool = Handle::new(Kind::Pool, vgpu.ordinal, self.next_id());
        self.pools.insert(pool.id, Arc::new(PoolState::default_of(Arc::clone(&vgpu))));
        DeviceState::new(vgpu, primary, MemPool(pool.value()))
    }

    /// All devices; NOT_INITIALIZED before `cuInit`.
    pub(crate) fn devices(&self) -> CudaResult<&[DeviceState]> {
        self.state.get().map(|ready| ready.devices.as_slice()).ok_or(CudaError::NOT_INITIALIZED)
    }

    /// The settings; NOT_INITIALIZED before `cuInit`.
    pub(crate) fn settings(&self) -> CudaResult<&Settings> {
        self.state.get().map(|ready| &ready.settings).ok_or(CudaError::NOT_INITIALIZED)
    }

    /// What the program's starts use of its libraries, where those are asked for ahead.
    pub(crate) fn early(&self) -> Option<&Arc<Early>> {
        self.state.get()?.early.as_ref()
    }

    /// The threads that help with copies; NOT_INITIALIZED before `cuInit`.
    pub(crate) fn copiers(&self) -> CudaResult<&Arc<Copiers>> {
        self.state.get().map(|ready| &ready.copiers).ok_or(CudaError::NOT_INITIALIZED)
    }

    /// The device of this handle.
    pub(crate) fn device(&self, device: Device) -> CudaResult<&DeviceState> {
        let index = usize::try_from(device.0).map_err(|_| CudaError::INVALID_DEVICE)?;
        self.devices()?.get(index).ok_or(CudaError::INVALID_DEVICE)
    }

    /// The device a handle belongs to.
    #[inline]
    pub(crate) fn device_of(&self, handle: Handle) -> Option<&DeviceState> {
        self.devices().ok()?.get(usize::from(handle.ordinal))
    }

    /// The device that has this vGPU.
    pub(crate) fn device_having(&self, vgpu: &Vgpu) -> CudaResult<&DeviceState> {
        self.devices()?.get(usize::from(vgpu.ordinal)).ok_or(CudaError::INVALID_DEVICE)
    }

    /// The current context's device.
    pub(crate) fn current_device(&self) -> CudaResult<&DeviceState> {
        self.device_having(&self.current()?.vgpu)
    }

    /// The objects that the program has made on a vGPU.
    pub(crate) fn objects(&self, vgpu: &Vgpu) -> CudaResult<&Objects> {
        self.device_having(vgpu).map(|device| &device.objects)
    }

    /// The context of this handle, alive.
    pub(crate) fn context(&self, context: Context) -> CudaResult<Arc<ContextState>> {
        let handle = Handle::of(Kind::Context, context.0).ok_or(CudaError::INVALID_CONTEXT)?;
        self.contexts.get(handle.id).ok_or(CudaError::INVALID_CONTEXT)
    }

    /// The calling thread's current context, alive.
    pub(crate) fn current(&self) -> CudaResult<Arc<ContextState>> {
        let context = thread::own().top().ok_or(CudaError::INVALID_CONTEXT)?;
        if self.exists(&context)? { Ok(context) } else { Err(CudaError::CONTEXT_IS_DESTROYED) }
    }

    /// As `current`, to ask it something without taking a share of it.
    #[inline]
    pub(crate) fn with_current<R>(&self, ask: impl FnOnce(&ContextState) -> R) -> CudaResult<R> {
        thread::own().with_top(|context| {
            let context = context.ok_or(CudaError::INVALID_CONTEXT)?;
            if self.exists(context)? { Ok(ask(context)) } else { Err(CudaError::CONTEXT_IS_DESTROYED) }
        })
    }

    /// Whether the context exists. A primary context that was reset while somebody retains it comes back here, since it
    /// is in use. The CUDA runtime does not retain it a second time.
    #[inline]
    pub(crate) fn exists(&self, context: &ContextState) -> CudaResult<bool> {
        if context.is_alive() { Ok(true) } else { self.comes_back(context) }
    }

    /// Whether a context exists that did not.
    #[cold]
    fn comes_back(&self, context: &ContextState) -> CudaResult<bool> {
        if !context.is_primary {
            return Ok(context.is_alive());
        }
        let device = self.device(context.device())?;
        let primary = lock(&device.retained);
        if primary.count > 0 {
            device.wake(&primary);
        }
        Ok(context.is_alive())
    }

    /// As `current`, for calls that do something on the device: reports what failed earlier.
    pub(crate) fn working(&self) -> CudaResult<Arc<ContextState>> {
        let context = self.current()?;
        context.vgpu.errors.report()?;
        Ok(context)
    }

    /// Ends all links and prints the statistics where that was asked for, once, in the process that connected.
    pub(crate) fn end(&self) {
        let Some(ready) = self.state.get() else {
            return;
        };
        if ready.process != std::process::id() || self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(tracing) = &ready.tracing {
            tracing.end();
        }
        if let Some(Err(error)) = ready.early.as_ref().map(|early| early.start.end(ready.blocks_made())) {
            log!(Info, "what this start asked for is not written for the next one: {error}");
        }
        for device in &ready.devices {
            device.vgpu.say_last_words();
            device.vgpu.connection.close();
        }
        report(&ready.settings.report, &self.statistics.snapshot());
    }
}

/// Attaches the vGPUs of these indices, or all; where one is refused, the others are left.
fn attach_each(settings: &Settings, by_index: Option<&[usize]>) -> CudaResult<Vec<Attached>> {
    // If ordinals decide, the client does not even ask the servers of invisible vGPUs.
    let devices: Vec<_> = match by_index {
        Some(wanted) => wanted.iter().map(|index| &settings.devices[*index]).collect(),
        None => settings.devices.iter().collect(),
    };
    let greeting = &greeting(settings);
    let numbered = (0u32..).zip(devices);
    let (guaranteed, others): (Vec<_>, Vec<_>) =
        numbered.partition(|(_, device)| device.memory != 0 || device.share != 0);
    let mut results: Vec<_> = std::thread::scope(|scope| {
        let start = |(ordinal, device)| (ordinal, scope.spawn(move || attach(device, ordinal, greeting)));
        let threads: Vec<_> = others.into_iter().map(start).collect();
        let results = attach_in_turn(guaranteed, greeting);
        let joined = threads.into_iter().map(|(ordinal, it)| (ordinal, it.join().expect("attaching does not panic")));
        joined.chain(results).collect()
    });
    results.sort_by_key(|(ordinal, _)| *ordinal);
    let (mut attached, mut refused) = (Vec::new(), None);
    for (_, result) in results {
        match result {
            Ok(one) => attached.push(one),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let Some(error) = refused else { return Ok(attached) };
    log!(Error, "{error}");
    attached.into_iter().for_each(Attached::leave);
    Err(error.code())
}

/// Attaches the vGPUs of these ordinals that have a quota or a share, up to the first that is refused. All programs take guarantees
/// one after the other and in the same order of a server's GPUs, so that no two wait for each other's.
fn attach_in_turn(
    mut wanted: Vec<(u32, &WantedDevice)>,
    greeting: &Greeting,
) -> Vec<(u32, Result<Attached, ConnectError>)> {
    wanted.sort_by_key(|(_, device)| (&device.place.server, device.place.gpu));
    let mut results = Vec::new();
    for (ordinal, device) in wanted {
        results.push((ordinal, attach(device, ordinal, greeting)));
        if matches!(results.last(), Some((_, Err(_)))) {
            break;
        }
    }
    results
}

fn report(report: &Report, snapshot: &Snapshot) {
    match report {
        Report::None => {}
        Report::Text => eprint!("{}", snapshot.text()),
        Report::Json => eprintln!("{}", snapshot.json()),
        Report::JsonFile(path) => {
            if let Err(error) = std::fs::write(path, snapshot.json() + "\n") {
                log!(Error, "the statistics cannot be written to {}: {error}", path.display());
            }
        }
    }
}

fn greeting(settings: &Settings) -> Greeting {
    let program = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_default();
    let host =
        std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()).unwrap_or_default();
    Greeting {
        credentials: settings.credentials.clone(),
        program,
        host,
        driver: settings.driver.clone(),
        bulk_connections: settings.bulk_connections,
        copy_threads: settings.copy_threads,
        terms: (settings.weight, settings.class, settings.time),
        room_by: Instant::now() + settings.wait,
    }
}
