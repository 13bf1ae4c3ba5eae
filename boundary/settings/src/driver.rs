//! Variables of the CUDA driver, and whether servers honour them; client and daemon read this list. A worker's driver
//! gets variables that change how it works, and none that changes what it may touch or what others notice.

/// A variable of the CUDA driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverVariable {
    /// Its name.
    pub name: &'static str,
    /// Why a worker does not get it; `None`: a worker gets it.
    pub refusal: Option<&'static str>,
}

const fn honoured(name: &'static str) -> DriverVariable {
    DriverVariable { name, refusal: None }
}

const fn refused(name: &'static str, why: &'static str) -> DriverVariable {
    DriverVariable { name, refusal: Some(why) }
}

/// All variables that floe knows.
pub const DRIVER_VARIABLES: &[DriverVariable] = &[
    refused("CUDA_AUTO_BOOST", "the GPU's clocks are its owner's"),
    refused("CUDA_BINARY_LOADER_THREAD_COUNT", "a worker's threads are counted"),
    refused("CUDA_CACHE_DISABLE", "the server keeps compiled code by itself"),
    refused("CUDA_CACHE_MAXSIZE", "the server keeps compiled code by itself"),
    refused("CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT", "sessions share the L2 cache"),
    honoured("CUDA_DEVICE_MAX_CONNECTIONS"),
    refused("CUDA_DEVICE_WAITS_ON_EXCEPTION", "a worker does not wait for a debugger"),
    honoured("CUDA_DISABLE_PTX_JIT"),
    honoured("CUDA_FORCE_JIT"),
    honoured("CUDA_FORCE_PTX_JIT"),
    honoured("CUDA_LAUNCH_BLOCKING"),
    honoured("CUDA_MODULE_DATA_LOADING"),
    honoured("CUDA_MODULE_LOADING"),
    refused("CUDA_SCALE_LAUNCH_QUEUES", "queues take memory that no quota counts"),
];

/// Whether a worker's driver gets the variable of this name.
#[must_use]
pub fn is_for_workers(name: &str) -> bool {
    DRIVER_VARIABLES.iter().any(|variable| variable.name == name && variable.refusal.is_none())
}
