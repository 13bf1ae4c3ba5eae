//! The CPU device behind the driver API: typed calls of the surface come in, work for the machine goes out.
//! One `Simulator` per process holds all objects; each noun's methods are in the noun's own file.
//! It knows no C and no pointer of the program that the surface did not vouch for.

pub(crate) mod activities;
mod addresses;
mod calls;
mod code;
mod current;
mod device;
mod executor;
mod handles;
#[cfg(test)]
mod kernel_tests;
mod log;
mod memory;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use floe_abi::{CudaError, CudaResult, Device};
use floe_machine::{Memory, Views};
use floe_surface::Driver;
use floe_surface::advice::Advice;
use floe_surface::graph::Graphs;
use floe_surface::texture_references::TextureReferences;

use addresses::{ADDRESSES, REACHED, WINDOWS};
use calls::array::Arrays;
use calls::context::Contexts;
use calls::graph::Execs;
use calls::pool::Pools;
use calls::stream::Streams;
use calls::texture::Textures;
use code::kernel::Functions;
use code::library::Libraries;
use code::module::Modules;
use device::CpuDevice;
use device::limits::GRANULARITY;
use device::settings::Settings;
use executor::Executor;
use handles::Handles;
use memory::host_memory::HostMemory;
use memory::mappings::VirtualMemory;

/// The implementation of the driver API.
pub struct Simulator {
    memory: Arc<Memory>,
    executor: Arc<Executor>,
    devices: Vec<CpuDevice>,
    /// Every launch waits for its kernel.
    launch_blocking: bool,
    /// The runtime is to load everything when it starts.
    eager_loading: bool,
    /// Why there is no device although there should be one.
    failure: Option<CudaError>,
    handles: Handles,
    contexts: Contexts,
    streams: Streams,
    modules: Modules,
    libraries: Libraries,
    functions: Functions,
    host_memory: Arc<HostMemory>,
    /// The program has asked of some memory that synchronous calls wait for the device.
    synchronous: AtomicBool,
    virtual_memory: Mutex<VirtualMemory>,
    arrays: Arrays,
    textures: Textures,
    texture_references: TextureReferences,
    /// The same as kernels find them.
    views: Arc<Views>,
    pools: Pools,
    graphs: Graphs,
    advice: Advice,
    execs: Execs,
}

// The whole API, and usable from every thread.
const _: () = {
    const fn is_driver<T: Driver>() {}
    is_driver::<Simulator>();
};

impl Simulator {
    /// The process's simulator, made from its environment at the first call.
    pub fn of_process() -> &'static Self {
        static SIMULATOR: OnceLock<Simulator> = OnceLock::new();
        SIMULATOR.get_or_init(|| Self::new(&Settings::read()))
    }

    pub(crate) fn new(settings: &Settings) -> Self {
        match Memory::reserve(REACHED.start, REACHED.end - REACHED.start) {
            Ok(memory) => Self::with_memory(settings, memory, None),
            Err(error) => {
                log::warn(format_args!("cannot reserve addresses for the CPU device: {error}"));
                log::warn(format_args!("a limit on the process's address space (ulimit -v) must allow 68 TiB"));
                // Without addresses there are no devices; one granule stands in so that every call can still answer.
                let memory = Memory::reserve(REACHED.start, GRANULARITY)
                    .expect("a process that cannot reserve 2 MiB of addresses cannot run either");
                Self::with_memory(settings, memory, Some(CudaError::OUT_OF_MEMORY))
            }
        }
    }

    fn with_memory(settings: &Settings, memory: Arc<Memory>, mut failure: Option<CudaError>) -> Self {
        let handles = Handles::new();
        let mut devices = Vec::new();
        if failure.is_none() {
            match device::make_all(settings, &memory, &handles) {
                Ok(made) => devices = made,
                Err(error) => failure = Some(error),
            }
        }
        let host_memory = Arc::new(HostMemory::reached(&memory));
        Self {
            executor: Executor::new(Arc::clone(&memory), Arc::clone(&host_memory), settings.cores, settings.queues),
            memory,
            contexts: Contexts::default(),
            streams: Streams::default(),
            modules: Modules::default(),
            libraries: Libraries::default(),
            functions: Functions::default(),
            host_memory,
            synchronous: AtomicBool::new(false),
            virtual_memory: Mutex::new(VirtualMemory::new(WINDOWS)),
            arrays: Arrays::default(),
            textures: Textures::default(),
            texture_references: TextureReferences::default(),
            views: Arc::default(),
            pools: Pools::new(devices.len(), &handles),
            graphs: Graphs::default(),
            advice: Advice::default(),
            execs: Execs::default(),
            devices,
            launch_blocking: settings.launch_blocking,
            eager_loading: settings.eager_loading,
            failure,
            handles,
        }
    }

    /// The device with this ordinal.
    fn device(&self, device: Device) -> CudaResult<&CpuDevice> {
        usize::try_from(device.0).ok().and_then(|ordinal| self.devices.get(ordinal)).ok_or(CudaError::INVALID_DEVICE)
    }

    /// Whether the address can only be a device's.
    fn is_device_address(&self, address: u64) -> bool {
        ADDRESSES.contains(&address)
    }
}
