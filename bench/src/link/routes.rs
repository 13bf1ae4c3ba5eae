//! The ways that are measured: natively, and by every transport to every server. TCP is measured clear, sealed and with
//! TLS, with few connections, and through an emulated network.
//! In: flags, an installation. Out: a name and a measuring command for each.

use std::net::IpAddr;
use std::process::Command;

use anyhow::{Context, Result, bail};
use floe_emulation::Relay;
use floe_session::settings::GpuAddress;
use floe_transport::{Address, TransportWish};

use super::arguments::Arguments;
use super::raw::{FEW, Wire};
use crate::bars::Way;
use crate::installation::Installation;
use crate::server::{self, Server};

/// Milliseconds per point, and with `--quick`.
const BUDGET: [u64; 2] = [200, 30];
/// As any program asks for it; under `floe run` it is floe's client.
const DRIVER: &str = "libcuda.so.1";

/// Something to measure.
pub(super) struct Route {
    pub(super) name: String,
    pub(super) command: Command,
    /// Whether only steps are measured.
    pub(super) is_of_steps: bool,
    /// The relay that the command connects to; it lives as long as the route.
    relay: Option<Relay>,
}

/// A GPU that is reached.
struct Target {
    /// As `floe run --on` takes it.
    device: String,
    place: GpuAddress,
    address: Address,
}

impl Target {
    fn parse(device: &str) -> Result<Self> {
        let place = GpuAddress::parse("--on", device)?;
        let address = place.server.parse()?;
        Ok(Self { device: device.to_owned(), place, address })
    }

    /// Whether the server is on this machine, so that its GPU is.
    fn is_here(&self) -> bool {
        match &self.address {
            Address::Tcp { host, .. } | Address::Clear { host, .. } | Address::Tls { host, .. } => {
                host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            _ => true,
        }
    }

    /// Whether it is reached by what only processes of one machine have.
    fn is_of_this_machine(&self) -> bool {
        matches!(self.address, Address::Unix(..))
    }

    /// The sockets that large copies to it go through, where they are the system's own and both ends are here.
    fn wire(&self) -> Option<Wire> {
        match &self.address {
            Address::Unix(_, TransportWish::Stay) => Some(Wire::Unix),
            Address::Clear { .. } if self.is_here() => Some(Wire::Tcp),
            _ => None,
        }
    }
}

/// All of them, in the order in which they are measured.
pub(super) fn routes(arguments: &Arguments, installation: &Installation, own: Option<&Server>) -> Result<Vec<Route>> {
    let devices = match own {
        Some(server) => {
            let local = [Way::Shm, Way::Unix].map(|way| server.device(way));
            local.into_iter().chain(["clear", "tcp", "tls"].map(|scheme| server.by_tcp(scheme))).collect()
        }
        None => arguments.on.clone(),
    };
    let targets: Vec<Target> = devices.iter().map(|device| Target::parse(device)).collect::<Result<_>>()?;
    let mut routes = Vec::new();
    if let Some(here) = targets.iter().find(|target| target.is_here() && !arguments.no_native) {
        let library = native_library(arguments, installation, here)?;
        let command = measuring(Command::new(installation.bench()), arguments, &library);
        routes.push(Route { name: "native".into(), command, is_of_steps: false, relay: None });
    }
    for target in &targets {
        let near = || near(arguments, installation, own, target);
        routes.push(near());
        if !target.is_of_this_machine() {
            routes.push(far(near()));
        }
        if target.wire() == Some(Wire::Tcp) {
            routes.push(with_few_connections(near()));
        }
        for is_far in [false, true] {
            let route = emulated(arguments, installation, own, target)?;
            routes.extend(route.map(|route| if is_far { far(route) } else { route }));
        }
    }
    if arguments.network.is_asked_for() && routes.iter().all(|route| route.relay.is_none()) {
        bail!("--rtt and --bandwidth emulate a network for TCP, and none of these addresses is of TCP");
    }
    Ok(routes)
}

/// A target as it is, with its sockets beside it where they are known.
fn near(arguments: &Arguments, installation: &Installation, own: Option<&Server>, target: &Target) -> Route {
    let mut command = measuring(under_floe(installation, own, &target.device), arguments, DRIVER);
    if let Some(wire) = target.wire() {
        command.args(["--raw", wire.flag()]);
    }
    Route { name: name(target, own.is_some()), command, is_of_steps: false, relay: None }
}

/// The same for a program that leaves out waits. Its copies end when the program cannot tell, so steps alone are measured.
fn far(mut route: Route) -> Route {
    route.command.args(["--steps"]).env("FLOE_FAR", "1");
    route.name.push_str(" far");
    Route { is_of_steps: true, ..route }
}

/// The same with at most [`FEW`] connections for large copies: a server may take fewer.
fn with_few_connections(mut route: Route) -> Route {
    route.command.env("FLOE_BULK_CONNECTIONS", FEW.to_string());
    route.name.push_str(&format!(" ×{FEW}"));
    route
}

/// The same target behind a network that is slower, where one is asked for and it is reached by one.
fn emulated(
    arguments: &Arguments,
    installation: &Installation,
    own: Option<&Server>,
    target: &Target,
) -> Result<Option<Route>> {
    let network = arguments.network;
    let scheme = match target.address {
        Address::Tcp { .. } => "tcp",
        Address::Clear { .. } => "clear",
        _ => return Ok(None),
    };
    if !network.is_asked_for() {
        return Ok(None);
    }
    let relay = Relay::start(network, target.address.clone()).context("the emulated network does not start")?;
    if let Some(warning) = relay.warning() {
        eprintln!("floe: {warning}");
    }
    let device = format!("{scheme}://{}:{}", relay.address(), target.place.gpu);
    let command = measuring(under_floe(installation, own, &device), arguments, DRIVER);
    let mut name = name(target, own.is_some());
    if let Some(rtt) = network.round_trip {
        name.push_str(&format!(" +{:.0}µs", rtt.as_secs_f64() * 1e6));
    }
    if let Some(rate) = network.bytes_per_second {
        name.push_str(&format!(" {:.3}GB/s", rate / 1e9));
    }
    Ok(Some(Route { name, command, is_of_steps: false, relay: Some(relay) }))
}

/// The transport alone where the server is this command's own, else the address.
fn name(target: &Target, is_own: bool) -> String {
    let scheme = target.device.split_once("://").map_or("tcp", |(scheme, _)| scheme);
    if is_own { scheme.to_owned() } else { target.device.clone() }
}

/// A program that is put under floe.
fn under_floe(installation: &Installation, own: Option<&Server>, device: &str) -> Command {
    let mut command = Command::new(installation.floe());
    command.args(["run", "--on", device, "--"]).arg(installation.bench());
    if let Some(server) = own {
        server.give_token(&mut command);
    }
    command
}

/// The command `floe-bench`, however it is started, as a measuring process.
fn measuring(mut bench: Command, arguments: &Arguments, library: &str) -> Command {
    let budget = BUDGET[usize::from(arguments.quick)];
    // A copy is over when the program has waited for it.
    bench.env("FLOE_FAR", "0");
    bench.args(["link-probe", "--library", library]);
    bench.args(["--largest", &arguments.largest.to_string(), "--budget", &budget.to_string()]);
    bench
}

/// The library that the server drives, or one like it.
fn native_library(arguments: &Arguments, installation: &Installation, here: &Target) -> Result<String> {
    if arguments.device_library.contains('/') {
        return Ok(arguments.device_library.clone());
    }
    let gpu = server::gpu_at(installation, &here.place.server)?;
    let cpu = || installation.cpu_device().join(DRIVER).display().to_string();
    Ok(if gpu.kind == "cpu" { cpu() } else { DRIVER.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_whether_its_server_is_on_this_machine() {
        for (device, here) in [
            ("unix:///run/floe.sock:0", true),
            ("tcp://127.0.0.1:14833:0", true),
            ("localhost:1", true),
            ("gpu1:0", false),
            ("tcp://10.0.0.1:14833:0", false),
        ] {
            assert_eq!(Target::parse(device).expect("an address").is_here(), here, "{device}");
        }
    }

    #[test]
    fn sockets_are_measured_alone_where_both_ends_are_here() {
        for (device, wire) in [
            ("unix:///run/floe.sock:0", Some(Wire::Unix)),
            ("clear://127.0.0.1:14833:0", Some(Wire::Tcp)),
            ("clear://10.0.0.1:14833:0", None),
            ("tcp://127.0.0.1:14833:0", None),
            ("localhost:1", None),
            ("tls://127.0.0.1:14833:0", None),
            ("shm:///run/floe.sock:0", None),
        ] {
            assert_eq!(Target::parse(device).expect("an address").wire(), wire, "{device}");
        }
    }

    #[test]
    fn few_connections_are_asked_for_and_said() {
        let route = Route { name: "tcp".into(), command: Command::new("floe"), is_of_steps: false, relay: None };
        let few = with_few_connections(route);
        let asked = few.command.get_envs().map(|(name, value)| (name.to_str(), value.and_then(|value| value.to_str())));
        assert_eq!(asked.collect::<Vec<_>>(), [(Some("FLOE_BULK_CONNECTIONS"), Some("4"))]);
        assert_eq!(few.name, "tcp ×4");
    }

    #[test]
    fn a_way_is_named_by_its_transport_or_its_address() {
        let target = Target::parse("tcp://10.0.0.1:14833:0").expect("an address");
        assert_eq!((name(&target, true), name(&target, false)), ("tcp".into(), "tcp://10.0.0.1:14833:0".into()));
        assert_eq!(name(&Target::parse("gpu1:0").expect("an address"), true), "tcp");
    }
}
