//! `floe run --rtt --bandwidth`: an emulated network for one program. `floe run` starts a relay process between program
//! and server before it becomes the program. The relay ends with the program.
//! In: devices as the user named them, a network. Out: the same devices behind relays.
//! It leads to TCP servers only. Behind it, a Unix socket would take anybody who reaches its port for the socket's
//! user.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use floe_emulation::{Network, Relay};
use floe_session::settings::GpuAddress;
use floe_transport::Address;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::{servers, table};

/// How long a program's last words may take beyond the round trip.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Flags of the relay process.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    network: Network,
    /// The server
    #[arg(long)]
    to: String,
    /// End when this process has ended
    #[arg(long, value_name = "PID")]
    until_exit_of: i32,
}

/// Starts a relay for each server of these devices (`HOST:GPU,…`). Returns the devices behind the relays.
pub(crate) fn put_before(devices: &str, network: Network) -> Result<String> {
    let has_token = servers::settings()?.credentials.token.is_some();
    relayed(devices, has_token, |server| start_for_this_process(server, network))
}

/// Starts a relay process. Returns its address.
fn start_for_this_process(server: &str, network: Network) -> Result<String> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this executable")?);
    command.args(["relay", "--to", server, "--until-exit-of", &std::process::id().to_string()]);
    if let Some(round_trip) = network.round_trip {
        command.args(["--rtt", &format!("{}ns", round_trip.as_nanos())]);
    }
    if let Some(bandwidth) = network.bytes_per_second {
        command.args(["--bandwidth", &format!("{bandwidth}B/s")]);
    }
    let mut relay = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the relay of the emulated network")?;
    let mut line = String::new();
    let output = relay.stdout.take().expect("its stdout was asked for");
    BufReader::new(output).read_line(&mut line).context("cannot read the relay's first line")?;
    match line.trim().strip_prefix("listening ") {
        Some(address) => Ok(address.to_owned()),
        None => bail!("the relay of the emulated network ended: {}", relay.wait()?),
    }
}

/// The scheme of a server that a relay may lead to.
fn scheme(server: &Address, has_token: bool) -> Result<&'static str> {
    let is_here = |host: &str| host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match server {
        // Nothing has to be sealed on the way to the relay, which is on this machine. All has to be sealed behind it.
        Address::Tcp { host, .. } if !has_token && !is_here(host) => {
            bail!(
                "no token is set for {server}\n  copy the server's token file here and set FLOE_TOKEN_FILE to its path"
            )
        }
        Address::Tcp { .. } => Ok("tcp"),
        Address::Clear { .. } => Ok("clear"),
        // The certificate is for the server's name, not for the relay's.
        Address::Tls { .. } => bail!("cannot emulate a network for TLS: {server}"),
        Address::Unix(..) => {
            bail!("cannot emulate a network for a Unix socket: {server}\n  name the server by tcp://HOST:PORT")
        }
    }
}

/// These devices behind relays. `start` starts one relay per server, so a server's devices share the network.
fn relayed(devices: &str, has_token: bool, mut start: impl FnMut(&str) -> Result<String>) -> Result<String> {
    let mut relays = HashMap::<Address, String>::new();
    let relayed = devices.split(',').map(|device| {
        let place = GpuAddress::parse("--on", device.trim())?;
        let server: Address = place.server.parse()?;
        let scheme = scheme(&server, has_token)?;
        let relay = match relays.entry(server) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(start(&place.server)?),
        };
        Ok(format!("{scheme}://{relay}:{}", place.gpu))
    });
    Ok(relayed.collect::<Result<Vec<_>>>()?.join(","))
}

/// Relays until the program has ended.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let server: Address = arguments.to.parse()?;
    scheme(&server, true)?;
    let program = Pid::from_raw(arguments.until_exit_of).context("no process id")?;
    let program = pidfd_open(program, PidfdFlags::empty()).context("cannot watch the program")?;
    let relay = Relay::start(arguments.network, server)?;
    if let Some(warning) = relay.warning() {
        eprintln!("floe: {warning}");
    }
    table::print_line(format_args!("listening {}", relay.address()))?;
    // The descriptor becomes readable when the program ends.
    let mut watched = [PollFd::new(&program, PollFlags::IN)];
    while !matches!(poll(&mut watched, None), Ok(1..)) {}
    // Its last words are still on their way: without them the server would keep its sessions.
    std::thread::sleep(arguments.network.round_trip.unwrap_or_default() + LAST_WORDS);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_one_server_share_a_relay_however_it_is_written() {
        let mut servers = Vec::new();
        let start = |server: &str| {
            servers.push(server.to_owned());
            Ok(format!("127.0.0.1:{}", servers.len()))
        };
        let behind = relayed("gpu1:0, gpu2:3,tcp://gpu1:14833:1,clear://gpu1:15000:0", true, start).expect("addresses");
        assert_eq!(behind, "tcp://127.0.0.1:1:0,tcp://127.0.0.1:2:3,tcp://127.0.0.1:1:1,clear://127.0.0.1:3:0");
        assert_eq!(servers, ["gpu1", "gpu2", "clear://gpu1:15000"]);
    }

    #[test]
    fn a_relay_leads_nowhere_where_it_would_open_what_is_closed() {
        for server in ["/run/floed.sock", "unix:///run/floed.sock", "shm:///run/floed.sock", "tls://gpu1"] {
            let refused = relayed(&format!("{server}:0"), true, |_| panic!("a relay is started"));
            assert!(refused.is_err_and(|error| error.to_string().contains(server)), "{server}");
        }
        let start = |_: &str| Ok("127.0.0.1:1".to_owned());
        assert!(relayed("gpu1:0", false, start).is_err(), "it would go in the clear");
        assert!(relayed("localhost:0", false, start).is_ok());
    }
}
