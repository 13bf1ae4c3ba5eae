//! The library's state: the count of `nvmlInit`, the vGPUs of the settings, their servers. Settings come in at
//! `nvmlInit`; vGPUs of handles and servers' answers go out. It knows no C and keeps no connection.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use floe_abi::Uuid;
use floe_nvml::{Base, Device, NvmlError, NvmlResult, Reading};
use floe_session::log::{self, Level};
use floe_session::settings::{ProcessSource, Settings, Source};

use crate::bus::BusId;
use crate::server::{Answer, Gpu, Server};
use crate::vgpu::{Facts, Vgpu};

/// The first handle: far from NULL and from small numbers, which programs pass by mistake.
const FIRST_HANDLE: usize = 0x666c_6f65_0000;

/// The management library of a process.
#[derive(Debug)]
pub(crate) struct Vgpus {
    state: Mutex<State>,
    /// Names that the log has reported as unsupported.
    said: Mutex<BTreeSet<&'static str>>,
    source: Box<dyn Source + Send + Sync>,
}

#[derive(Debug, Default)]
struct State {
    /// `nvmlInit` less `nvmlShutdown`.
    users: u32,
    ready: Option<Arc<Ready>>,
}

/// The vGPUs that `nvmlInit` found.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    pub(crate) vgpus: Vec<Vgpu>,
    pub(crate) servers: Vec<Server>,
}

/// A vGPU with its server's current answer.
pub(crate) struct Seen {
    ready: Arc<Ready>,
    index: usize,
    pub(crate) answer: Arc<Answer>,
}

impl Vgpus {
    /// A library that reads its settings from `source` at `nvmlInit`.
    pub(crate) fn new(source: impl Source + Send + Sync + 'static) -> Self {
        Self { state: Mutex::default(), said: Mutex::default(), source: Box::new(source) }
    }

    /// This process's library.
    pub(crate) fn of_process() -> &'static Self {
        static OWN: OnceLock<Vgpus> = OnceLock::new();
        OWN.get_or_init(|| Self::new(ProcessSource))
    }

    /// A panic cannot leave it inconsistent: every change is one step.
    fn state(&self) -> MutexGuard<'_, State> {
        floe_lock::lock(&self.state)
    }

    /// Counts a user. For the first one it finds the vGPUs.
    pub(crate) fn begin(&self, none_is_fine: bool) -> NvmlResult<()> {
        let mut state = self.state();
        if state.ready.is_none() {
            let ready = find(&*self.source)?;
            if ready.vgpus.is_empty() && !none_is_fine {
                log::line(Level::Info, format_args!("no GPU is set for this process, so NVML shows none"));
                return Err(NvmlError::DRIVER_NOT_LOADED);
            }
            state.ready = Some(Arc::new(ready));
        }
        state.users = state.users.checked_add(1).ok_or(NvmlError::UNKNOWN)?;
        Ok(())
    }

    /// Undoes one `begin`.
    pub(crate) fn end(&self) -> NvmlResult<()> {
        let mut state = self.state();
        state.users = state.users.checked_sub(1).ok_or(NvmlError::UNINITIALIZED)?;
        if state.users == 0 {
            state.ready = None;
        }
        Ok(())
    }

    /// The vGPUs that `nvmlInit` found.
    pub(crate) fn ready(&self) -> NvmlResult<Arc<Ready>> {
        self.state().ready.clone().ok_or(NvmlError::UNINITIALIZED)
    }

    /// The facts about a device that do not change.
    pub(crate) fn facts(&self, device: Device) -> NvmlResult<Facts> {
        let ready = self.ready()?;
        Ok(ready.vgpus[ready.index(device)?].facts.clone())
    }

    /// What `say` says of a vGPU.
    pub(crate) fn of<T>(&self, device: Device, say: impl FnOnce(&Vgpu) -> NvmlResult<T>) -> NvmlResult<T> {
        let ready = self.ready()?;
        say(&ready.vgpus[ready.index(device)?])
    }

    /// What `say` says of two vGPUs.
    pub(crate) fn of_pair<T>(
        &self,
        device: Device,
        peer: Device,
        say: impl FnOnce(&Vgpu, &Vgpu) -> T,
    ) -> NvmlResult<T> {
        let ready = self.ready()?;
        Ok(say(&ready.vgpus[ready.index(device)?], &ready.vgpus[ready.index(peer)?]))
    }

    /// The current answer of a device's server.
    pub(crate) fn see(&self, device: Device, slow: bool) -> NvmlResult<Seen> {
        let ready = self.ready()?;
        let index = ready.index(device)?;
        let vgpu = &ready.vgpus[index];
        let answer = ready.servers[vgpu.server].answer(slow).ok_or(NvmlError::GPU_IS_LOST)?;
        if !answer.gpus.contains_key(&vgpu.gpu) {
            return Err(NvmlError::GPU_IS_LOST);
        }
        Ok(Seen { ready, index, answer })
    }
}

impl Ready {
    /// The handle of a vGPU.
    pub(crate) fn handle(&self, index: usize) -> NvmlResult<Device> {
        if index < self.vgpus.len() { Ok(Device(FIRST_HANDLE + index)) } else { Err(NvmlError::INVALID_ARGUMENT) }
    }

    /// The vGPU of a handle.
    pub(crate) fn index(&self, device: Device) -> NvmlResult<usize> {
        let index = device.0.checked_sub(FIRST_HANDLE).ok_or(NvmlError::INVALID_ARGUMENT)?;
        if index < self.vgpus.len() { Ok(index) } else { Err(NvmlError::INVALID_ARGUMENT) }
    }

    /// The handle of the first vGPU for which `holds` is true.
    pub(crate) fn find(&self, holds: impl Fn(&Facts) -> bool) -> NvmlResult<Device> {
        let index = self.vgpus.iter().position(|vgpu| holds(&vgpu.facts)).ok_or(NvmlError::NOT_FOUND)?;
        self.handle(index)
    }
}

impl Seen {
    pub(crate) fn vgpu(&self) -> &Vgpu {
        &self.ready.vgpus[self.index]
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.answer.gpus[&self.vgpu().gpu]
    }
}

impl Base for Vgpus {
    fn is_initialized(&self) -> bool {
        self.state().ready.is_some()
    }

    fn check(&self, device: Device) -> NvmlResult<()> {
        self.ready()?.index(device).map(drop)
    }

    fn reading(&self, device: Device, reading: Reading) -> NvmlResult<u64> {
        let slow = matches!(reading, Reading::LinkTransmit | Reading::LinkReceive);
        let seen = self.see(device, slow)?;
        seen.gpu().readings.get(&reading).copied().ok_or(NvmlError::NOT_SUPPORTED)
    }

    fn unsupported(&self, name: &'static str) {
        if floe_lock::lock(&self.said).insert(name) {
            log::line(
                Level::Info,
                format_args!("{name} is not implemented: the program gets NVML_ERROR_NOT_SUPPORTED"),
            );
        }
    }

    fn failed(&self, name: &'static str) {
        log::line(Level::Error, format_args!("{name} failed inside floe: the program gets NVML_ERROR_UNKNOWN"));
    }
}

/// The vGPUs of the settings, each confirmed by its server.
fn find(source: &dyn Source) -> NvmlResult<Ready> {
    let settings = Settings::read(source).map_err(|error| {
        log::line(Level::Error, format_args!("{error}"));
        NvmlError::DRIVER_NOT_LOADED
    })?;
    log::set_level(settings.log);
    let servers = servers(&settings);
    // All servers are asked at once: a program waits for the slowest only.
    let answers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = servers.iter().map(|server| scope.spawn(|| server.answer(false))).collect();
        threads.into_iter().map(|thread| thread.join().ok().flatten()).collect()
    });
    let ordinals = settings.visible.by_index(settings.devices.len());
    let mut vgpus = Vec::new();
    for (index, wanted) in settings.devices.iter().enumerate() {
        let server = servers.iter().position(|server| server.address() == wanted.place.server);
        let server = server.ok_or(NvmlError::UNKNOWN)?;
        let first = answers[server].as_ref().ok_or(NvmlError::DRIVER_NOT_LOADED)?;
        let gpu = first.gpus.get(&wanted.place.gpu).ok_or_else(|| {
            let address = servers[server].address();
            log::line(Level::Error, format_args!("{address} offers no such GPU: {}", wanted.place.gpu));
            NvmlError::DRIVER_NOT_LOADED
        })?;
        let ordinal = match &ordinals {
            Some(visible) => visible.iter().position(|visible| *visible == index),
            // If CUDA_VISIBLE_DEVICES has UUIDs, every vGPU is attached, in the order of the settings.
            None => Some(index),
        };
        vgpus.push(Vgpu {
            server,
            gpu: wanted.place.gpu,
            wanted: wanted.memory,
            ordinal: ordinal.and_then(|ordinal| u32::try_from(ordinal).ok()),
            facts: facts(gpu, |slot| wanted.pci_slot(slot)),
            home: home(&answers, server),
            first: Arc::clone(first),
        });
    }
    Ok(Ready { vgpus, servers })
}

/// The first server that is the same daemon as this one: two addresses may lead to one.
fn home(answers: &[Option<Arc<Answer>>], server: usize) -> usize {
    let identity = |answer: &Option<Arc<Answer>>| answer.as_ref().and_then(|answer| answer.identity);
    let own = answers.get(server).and_then(identity);
    own.and_then(|own| answers.iter().position(|other| identity(other) == Some(own))).unwrap_or(server)
}

/// The servers of the settings, each once.
fn servers(settings: &Settings) -> Vec<Server> {
    let mut addresses: Vec<(&str, Vec<u32>)> = Vec::new();
    for device in &settings.devices {
        match addresses.iter_mut().find(|(address, _)| *address == device.place.server) {
            Some((_, gpus)) => gpus.push(device.place.gpu),
            None => addresses.push((&device.place.server, vec![device.place.gpu])),
        }
    }
    addresses.into_iter().map(|(address, gpus)| Server::new(address, settings.credentials.clone(), gpus)).collect()
}

/// What never changes of a vGPU, which is in the slot that `slot` makes of its GPU's.
fn facts(gpu: &Gpu, slot: impl FnOnce(u32) -> u32) -> Facts {
    let number = |reading| gpu.readings.get(&reading).and_then(|value| u32::try_from(*value).ok()).unwrap_or_default();
    Facts {
        name: gpu.name.clone(),
        uuid: Uuid { bytes: gpu.uuid }.to_string(),
        uuid_bytes: gpu.uuid,
        bus: BusId::parse(&gpu.pci_bus).map(|bus| BusId { device: slot(bus.device), ..bus }),
        compute_capability: gpu.compute_capability,
        serial: gpu.serial.clone(),
        part: gpu.part.clone(),
        firmware: gpu.firmware.clone(),
        pci_device: number(Reading::PciDevice),
        pci_subsystem: number(Reading::PciSubsystem),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use floe_session::settings::Credentials;
    use floe_wire::ReadTelemetryReply;

    use super::*;

    /// A library whose vGPUs are all GPUs of these first answers, in their order. Their servers are different ones, and cannot be
    /// asked again.
    pub(crate) fn library(replies: &[ReadTelemetryReply<'_>]) -> Vgpus {
        library_of(replies.iter().map(Answer::new).collect())
    }

    /// The same of servers that may be the same.
    pub(crate) fn library_of(answers: Vec<Answer>) -> Vgpus {
        let answers: Vec<_> = answers.into_iter().map(|answer| Some(Arc::new(answer))).collect();
        let mut vgpus = Vec::new();
        for (server, first) in answers.iter().enumerate() {
            let first = first.as_ref().expect("it has one");
            vgpus.extend(first.gpus.iter().map(|(index, gpu)| Vgpu {
                server,
                gpu: *index,
                wanted: 0,
                ordinal: None,
                facts: facts(gpu, |slot| slot),
                home: home(&answers, server),
                first: Arc::clone(first),
            }));
        }
        let gone = |_| Server::new("unix:///nowhere", Credentials::default(), Vec::new());
        let ready = Ready { vgpus, servers: answers.iter().map(gone).collect() };
        let library = Vgpus::new(ProcessSource);
        *library.state() = State { users: 1, ready: Some(Arc::new(ready)) };
        library
    }

    /// The handle of a vGPU.
    pub(crate) fn handle(library: &Vgpus, index: usize) -> Device {
        library.ready().and_then(|ready| ready.handle(index)).expect("there is such a vGPU")
    }

    #[test]
    fn two_addresses_of_one_daemon_are_one_server() {
        let of = |identity| Some(Arc::new(Answer { identity, ..Answer::default() }));
        let answers = [[1; 32], [2; 32], [1; 32]].map(|identity| of(Some(identity)));
        assert_eq!([0, 1, 2].map(|server| home(&answers, server)), [0, 1, 0]);
        let unknown = [None, None].map(of);
        assert_eq!([0, 1].map(|server| home(&unknown, server)), [0, 1]);
    }
}
