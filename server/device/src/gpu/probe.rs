//! A look at every GPU of a library.
//! In: the library's name. Out: what its GPUs are, as clients are told.
//! It leaves no context behind.

use std::path::Path;

use floe_abi::{CudaResult, MemAllocationProperties, granularity, handle_type, p2p_attribute};

use super::Gpu;
use super::numbers::wide;
use crate::choice::{Kind, OpenLibraryError, open};
use crate::snapshot::{ITSELF, Place};
use crate::{Probe, Snapshot};

/// Device attributes have numbers from 1 up to about 150; drivers refuse those they do not know.
const ATTRIBUTES: std::ops::Range<i32> = 1..160;
/// `CUlimit` numbers.
const LIMITS: std::ops::Range<i32> = 0..10;
/// `CU_DEVICE_ATTRIBUTE_PCI_BUS_ID`, `…_PCI_DEVICE_ID` and `…_PCI_DOMAIN_ID`.
const PCI: [i32; 3] = [33, 34, 50];
/// What is asked about a pair of GPUs.
const PAIR: [u32; 4] = [
    p2p_attribute::PERFORMANCE_RANK,
    p2p_attribute::ACCESS_SUPPORTED,
    p2p_attribute::NATIVE_ATOMIC_SUPPORTED,
    p2p_attribute::CUDA_ARRAY_ACCESS_SUPPORTED,
];

impl Gpu {
    /// What it can do with each GPU's memory. Where the driver refuses to say, it can do nothing.
    fn peers(&self, count: i32) -> Vec<[i32; 4]> {
        let pair = |index| {
            let Ok(peer) = self.driver.device_get(index) else { return [0; 4] };
            if peer == self.device {
                return ITSELF;
            }
            PAIR.map(|ask| self.driver.device_get_p2p_attribute(ask, self.device, peer).unwrap_or(0))
        };
        (0..count).map(pair).collect()
    }

    /// Whether memory may be made for fabric handles. floe's are its own, but programs are told what the driver would tell them:
    /// PyTorch passes descriptors on only where it was refused these.
    fn makes_fabric_handles(&self, kind: Kind, bytes: usize) -> bool {
        if kind == Kind::Cpu {
            return true;
        }
        let properties = MemAllocationProperties { requested_handle_types: handle_type::FABRIC, ..self.properties() };
        let Ok(made) = self.driver.mem_create(bytes, &properties, 0) else { return false };
        // Else it goes with this process.
        let _ = self.driver.mem_release(made);
        true
    }

    fn snapshot(&self, count: i32, kind: Kind) -> CudaResult<Snapshot> {
        let driver = self.driver;
        let attribute = |number: i32| driver.device_get_attribute(number.unsigned_abs(), self.device).ok();
        let [bus, slot, domain] = PCI.map(|number| attribute(number).unwrap_or(0));
        let limit = |number: i32| Some((number, wide(driver.ctx_get_limit(number.unsigned_abs()).ok()?)));
        let (free, _) = driver.mem_get_info()?;
        let granularity = driver.mem_get_allocation_granularity(&self.properties(), granularity::MINIMUM)?;
        Ok(Snapshot {
            name: driver.device_get_name(self.device)?,
            uuid: driver.device_get_own_uuid(self.device)?.bytes.to_vec(),
            pci_bus: format!("{domain:04x}:{bus:02x}:{slot:02x}.0"),
            memory: wide(driver.device_total_mem(self.device)?),
            free: wide(free),
            attributes: ATTRIBUTES.filter_map(|number| Some((number, attribute(number)?))).collect(),
            limits: LIMITS.filter_map(limit).collect(),
            priorities: driver.ctx_get_stream_priority_range()?,
            granularity: wide(granularity),
            alone: None,
            peers: self.peers(count),
            fabric: self.makes_fabric_handles(kind, granularity),
        })
    }
}

/// Looks at every GPU of a library. Each gets a context for a moment, which goes with this process at the latest.
///
/// # Errors
/// The library does not load, or the driver's own error.
pub fn probe(library: &str) -> Result<Probe, OpenLibraryError> {
    let (driver, kind) = open(library)?;
    let path = driver.path().to_path_buf();
    let failed = |what, error| OpenLibraryError::Driver { what, library: path.display().to_string(), error };
    driver.init(0).map_err(|error| failed("cuInit", error))?;
    let version = driver.driver_get_version().map_err(|error| failed("cuDriverGetVersion", error))?;
    let count = driver.device_get_count().map_err(|error| failed("cuDeviceGetCount", error))?;
    drop(driver);
    let name = library_name(&path);
    let gpus = (0..count).map(|index| {
        let gpu = Gpu::start(&name, Place::Among(index), || ())?;
        let snapshot = gpu.snapshot(count, kind).map_err(|error| failed("looking at a GPU", error))?;
        // The context's memory is the GPU's again; a driver that refuses gives it up when this process ends.
        let _ = gpu.driver.device_primary_ctx_release(gpu.device);
        Ok(snapshot)
    });
    let gpus = gpus.collect::<Result<Vec<_>, OpenLibraryError>>()?;
    Ok(Probe { library: name, kind: kind.name().into(), driver: version, gpus })
}

/// What sessions are told to load: a file by its whole path, the loader's name as it is.
fn library_name(path: &Path) -> String {
    let whole = if path.components().count() > 1 { path.canonicalize().ok() } else { None };
    whole.as_deref().unwrap_or(path).display().to_string()
}
