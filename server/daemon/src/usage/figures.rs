//! The server's figures, as its HTTP port asks for them.
//! In: the port's questions, from its own thread. Out: a picture of the table and of the GPUs, why no session is taken,
//! what was counted. Whatever a peer says of itself stays out: no name, no address, no number of a session.
//! It holds the table's lock as long as a peer's `floe gpus` does.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use floe_device::Snapshot;
use floe_metrics::{Figures, GpuFigures, Limits, LinkFigures, Port, Process, Pulse, Source, Tally};
use floe_nvml::Reading;
use floe_wire::NEWEST_VERSION;
use floe_worker::contract::Counts;

use super::telemetry::{Target, TelemetrySample};
use crate::error::DaemonError;
use crate::server::Server;
use crate::{log, warn};

/// Listens for those who ask for figures, while the daemon still has its first user's rights.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, DaemonError> {
    TcpListener::bind(address).map_err(|source| DaemonError::Metrics { address, source })
}

/// Answers them, and logs where.
pub(crate) fn start(server: &Arc<Server>, listener: TcpListener) -> Result<(), DaemonError> {
    let failed = DaemonError::system("cannot start the thread that answers with figures");
    let address = Port::start(listener, Arc::new(Watched(Arc::clone(server))), Limits::default()).map_err(failed)?;
    log(format_args!("figures: http://{address}/metrics"));
    if !address.ip().is_loopback() {
        warn(format_args!(
            "WARNING: whoever reaches {address} may read the figures: names of GPUs, numbers of sessions"
        ));
    }
    Ok(())
}

/// The server as the port knows it.
struct Watched(Arc<Server>);

impl Source for Watched {
    fn figures(&self) -> Figures {
        let server = &self.0;
        let sessions = server.sessions();
        let (workers, limit) = (sessions.count_workers(), server.session_limits.sessions.all);
        drop(sessions);
        Figures {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: NEWEST_VERSION,
            gpus: server.offered.iter().filter_map(|&index| Some(of_gpu(server, index, server.gpu(index)?))).collect(),
            session_limit: count(limit),
            workers: count(workers),
            process: Process::own(),
        }
    }

    fn tally(&self) -> &Tally {
        &self.0.journal.tally
    }

    fn pulse(&self) -> &Pulse {
        &self.0.pulse
    }

    fn is_shut(&self, address: SocketAddr) {
        warn(format_args!("no more figures at {address}: whoever else has its socket has shut it down"));
    }

    fn refuses(&self) -> Option<String> {
        if self.0.offered.is_empty() {
            return Some("no GPU is offered".to_owned());
        }
        let count = self.0.sessions().count();
        // The server's own user has no share.
        let full = self.0.session_limits.admit(count, |_| 0, None).err();
        full.map(|error| error.to_string())
    }
}

fn of_gpu(server: &Server, index: u32, gpu: &Snapshot) -> GpuFigures {
    let sample = sample(server, index, gpu);
    let reading = |wanted| sample.readings.iter().find(|(reading, _)| *reading == wanted).map(|(_, value)| *value);
    let mut table = server.sessions();
    let (sessions, states) = table.figures(index);
    GpuFigures {
        index,
        uuid: uuid(&gpu.uuid),
        name: gpu.name.clone(),
        memory: gpu.memory,
        used: table.accounting().used(index),
        free: table.free_on_gpu(index),
        sessions,
        states,
        turns: server.turns.figures(index),
        links: of_links(table.carried(index)),
        utilization: reading(Reading::GpuUtilization),
        memory_utilization: reading(Reading::MemoryUtilization),
        temperature: reading(Reading::Temperature),
        power: reading(Reading::Power),
    }
}

fn of_links(Counts { received, sent, waits }: Counts) -> LinkFigures {
    LinkFigures { received, sent, waits }
}

/// What NVIDIA's library says of a GPU. A CPU device says nothing that means what DCGM means.
fn sample(server: &Server, index: u32, gpu: &Snapshot) -> TelemetrySample {
    if server.probe.kind != "nvidia" {
        return TelemetrySample::default();
    }
    let workers = server.sessions().workers_on_gpu(index);
    server.telemetry.read(&Target { index, uuid: &gpu.uuid, workers }, false)
}

/// An id as NVIDIA writes it.
fn uuid(bytes: &[u8]) -> String {
    let digits = |(place, byte): (usize, &u8)| {
        let before = if matches!(place, 4 | 6 | 8 | 10) { "-" } else { "" };
        format!("{before}{byte:02x}")
    };
    bytes.iter().enumerate().map(digits).fold("GPU-".to_owned(), |text, digits| text + &digits)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_as_nvidia_writes_it() {
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(uuid(&bytes), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn an_address_in_use_is_named_with_its_cause() {
        let first = listen(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = first.local_addr().expect("it has one");
        let error = listen(address).expect_err("it is taken").to_string();
        assert_eq!(
            error,
            format!("cannot listen on {address} for figures: address already in use\n  name another with --metrics")
        );
    }
}
