//! The servers a command is about: named by `--on`, by the settings, else this machine's own daemon.
//! In: names. Out: their answers. Connects for one question at a time and keeps nothing open.

use std::process::ExitCode;

use anyhow::{Context, Result};
use floe_session::settings::{Credentials, ProcessSource, Settings};
use floe_session::{ConnectError, Inquiry};
use floe_wire::{Call, ListGpus, ListSessions, printable};
use serde::Serialize;

/// A GPU a server offers.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GpuRow {
    /// As it was named.
    pub(crate) server: String,
    pub(crate) index: u32,
    pub(crate) name: String,
    /// `nvidia` or `cpu`.
    pub(crate) kind: String,
    /// `GPU-…` as NVIDIA writes it.
    pub(crate) uuid: String,
    /// `9.0`
    pub(crate) compute_capability: String,
    /// `13.0`
    pub(crate) driver: String,
    /// Bytes.
    pub(crate) memory: u64,
    /// Bytes not in any session's blocks.
    pub(crate) free: u64,
    pub(crate) sessions: u32,
}

/// A session a server has.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SessionRow {
    /// As it was named.
    pub(crate) server: String,
    pub(crate) session: u64,
    pub(crate) gpu: u32,
    /// Host and address of the client.
    pub(crate) client: String,
    /// The program's process id on its host.
    pub(crate) pid: u32,
    pub(crate) program: String,
    /// Quota in bytes; 0 for all there is. JSON keeps its first name.
    #[serde(rename = "memory")]
    pub(crate) quota: u64,
    /// Bytes in blocks.
    pub(crate) used: u64,
    /// Age.
    pub(crate) seconds: u64,
    /// The worker's process id on the server.
    pub(crate) worker: u32,
    /// `tcp`, `unix` or `shm`.
    pub(crate) transport: String,
}

/// Do flags aside, do environment or TOML file name devices?
pub(crate) fn devices_are_named() -> Result<bool> {
    Ok(!settings()?.devices.is_empty())
}

/// What environment and TOML file say.
pub(crate) fn settings() -> Result<Settings> {
    Ok(Settings::read(&ProcessSource)?)
}

/// Where a daemon of this machine listens unless it was told otherwise.
pub(crate) const THIS_MACHINE: &str = "tcp://127.0.0.1";

/// The servers a command is about.
pub(crate) fn named(on: &[String]) -> Result<Vec<String>> {
    let servers = named_by_user(on)?;
    Ok(if servers.is_empty() { vec![THIS_MACHINE.to_owned()] } else { servers })
}

/// Those that flags or settings name.
pub(crate) fn named_by_user(on: &[String]) -> Result<Vec<String>> {
    if !on.is_empty() {
        return Ok(on.to_vec());
    }
    let mut servers = Vec::new();
    for device in settings()?.devices {
        if !servers.contains(&device.place.server) {
            servers.push(device.place.server);
        }
    }
    Ok(servers)
}

/// Whether nobody serves there, as opposed to somebody who does not answer as wanted.
pub(crate) fn is_nobody(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ConnectError::Unreachable { .. }))
}

fn ask<M: Call>(server: &str, credentials: &Credentials, message: &M) -> Result<Vec<u8>> {
    Ok(Inquiry::open(server, credentials)?.ask(message)?)
}

/// Asks every server; those that do not answer are named on stderr and make the exit code 1.
pub(crate) fn each<R>(servers: &[String], question: impl Fn(&str) -> Result<Vec<R>>) -> (Vec<R>, ExitCode) {
    let mut rows = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for server in servers {
        match question(server) {
            Ok(answer) => rows.extend(answer),
            Err(error) => {
                eprintln!("floe: {error:#}");
                code = ExitCode::FAILURE;
            }
        }
    }
    (rows, code)
}

/// What a server offers.
pub(crate) fn gpus_of(server: &str) -> Result<Vec<GpuRow>> {
    gpus_with(server, &settings()?.credentials)
}

/// What a server offers to who shows it these credentials.
pub(crate) fn gpus_with(server: &str, credentials: &Credentials) -> Result<Vec<GpuRow>> {
    let body = ask(server, credentials, &ListGpus {})?;
    let reply = ListGpus::decode_reply(&body).with_context(|| format!("{server} does not speak floe's protocol"))?;
    let row = |gpu: floe_wire::Gpu<'_>| GpuRow {
        server: server.to_owned(),
        index: gpu.index,
        name: printable(gpu.name),
        kind: printable(gpu.kind),
        uuid: uuid_text(gpu.uuid),
        compute_capability: format!("{}.{}", gpu.compute_major, gpu.compute_minor),
        driver: format!("{}.{}", gpu.driver / 1000, gpu.driver % 1000 / 10),
        memory: gpu.memory,
        free: gpu.free,
        sessions: gpu.sessions,
    };
    Ok(reply.gpus.into_iter().map(row).collect())
}

/// Who uses a server.
pub(crate) fn sessions_of(server: &str) -> Result<Vec<SessionRow>> {
    let body = ask(server, &settings()?.credentials, &ListSessions {})?;
    let reply =
        ListSessions::decode_reply(&body).with_context(|| format!("{server} does not speak floe's protocol"))?;
    let row = |session: floe_wire::SessionRow<'_>| SessionRow {
        server: server.to_owned(),
        session: session.session,
        gpu: session.gpu,
        client: printable(session.client),
        pid: session.pid,
        program: printable(session.program),
        quota: session.memory,
        used: session.used,
        seconds: session.seconds,
        worker: session.worker,
        transport: printable(session.transport),
    };
    Ok(reply.sessions.into_iter().map(row).collect())
}

fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::from("GPU-");
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Bytes for people: GiB from one GiB on, else MiB.
pub(crate) fn size(bytes: u64) -> String {
    const MIB: f64 = (1_u32 << 20) as f64;
    #[allow(clippy::cast_precision_loss, reason = "a size with one decimal")]
    let mib = bytes as f64 / MIB;
    if mib >= 1024.0 { format!("{:.1} GiB", mib / 1024.0) } else { format!("{mib:.0} MiB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_nvidia_writes_it() {
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(uuid_text(&bytes), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!((size(141 << 30), size(5 << 20), size(0)), ("141.0 GiB".into(), "5 MiB".into(), "0 MiB".into()));
    }
}
