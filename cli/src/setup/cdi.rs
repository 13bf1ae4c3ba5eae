//! `floe cdi`: a file by which container engines give containers floe's GPUs (Container Device Interface 0.5).
//! In: GPUs of servers, this installation. Out: JSON: what is mounted, and which variables are set.
//! It starts no container and asks no engine. What a container may reach beside that is its engine's to say.

mod offer;

use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use floe_settings::GpuAddress;
use serde::Serialize;

use crate::install::Installation;
use crate::servers::{self, GpuRow};
use crate::table;
use offer::{Gpu, Offer};

/// The version of the interface: engines take a file of an older one than their own, and no newer one. This is the first whose
/// devices may have numbers as names; Podman 4.3 of Debian 12 knows none after it.
const VERSION: &str = "0.5.0";
/// Vendor and class, before the `=` of a device.
const KIND: &str = "floe.dev/gpu";
/// The name of the device that is all GPUs.
const ALL: &str = "all";
/// Where containers find the client's libraries, and the token.
const LIBRARIES: &str = "/opt/floe/lib";
const TOKEN: &str = "/opt/floe/token";

/// Folders of many below those of `/`.
const SYSTEMS: [&str; 4] = ["/dev/shm", "/var/lib", "/var/run", "/var/tmp"];

/// Flags of `floe cdi`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// GPUs that containers may get: HOST:GPU[,HOST:GPU…] [default: all of this machine's daemon, by its Unix socket]
    #[arg(long, value_name = "HOST:GPU,…", value_delimiter = ',')]
    on: Vec<String>,
    /// Also make a device of this name: N vGPUs, each with a quota of SIZE, on one GPU after the other. Can be repeated
    #[arg(long = "offer", value_name = "NxSIZE,…", value_delimiter = ',')]
    offers: Vec<String>,
    /// Mount this file as the containers' token: whoever is in a container can read it
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
    /// The file to write, such as /etc/cdi/floe.json [default: stdout]
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
}

/// A file of the Container Device Interface.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    cdi_version: &'static str,
    kind: &'static str,
    devices: Vec<Device>,
    /// For every container that gets a device.
    container_edits: Edits,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    container_edits: Edits,
}

/// What is changed of a container.
#[derive(Debug, Default, Serialize)]
struct Edits {
    /// `NAME=value`.
    env: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<Mount>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    host_path: String,
    container_path: String,
    options: [&'static str; 4],
}

/// Writes the file.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let libraries = Installation::of_this_executable()?.client_library_folder()?;
    let offers = Offer::read_all(&arguments.offers)?;
    let named = || arguments.on.iter().map(|place| Gpu { place: place.clone(), memory: None }).collect();
    let gpus = if arguments.on.is_empty() { of_this_machine()? } else { named() };
    let spec = spec(&libraries, &gpus, &offers, arguments.token_file.as_deref())?;
    match &arguments.output {
        None => table::print_json(&spec)?,
        Some(path) => {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).with_context(|| format!("cannot make: {}", folder.display()))?;
            }
            let text = serde_json::to_string_pretty(&spec)? + "\n";
            std::fs::write(path, text).with_context(|| format!("cannot write: {}", path.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The GPUs of this machine's daemon.
fn of_this_machine() -> Result<Vec<Gpu>> {
    let Some(socket) = servers::socket_of_this_machine() else {
        bail!("no daemon has a socket on this machine\n  start one: floe serve; or name GPUs of others with --on");
    };
    let gpu = |gpu: &GpuRow| Gpu { place: format!("{socket}:{}", gpu.index), memory: Some(gpu.memory) };
    Ok(servers::gpus_of(&socket)?.iter().map(gpu).collect())
}

/// The file for these GPUs: a device for each by its place in the list, one for all of them, and the offers.
fn spec(libraries: &Path, gpus: &[Gpu], offers: &[Offer], token: Option<&Path>) -> Result<Spec> {
    let places: Vec<&str> = gpus.iter().map(|gpu| &*gpu.place).collect();
    let each = places.iter().enumerate().map(|(index, place)| Device::new(index.to_string(), &[place], None));
    let mut devices: Vec<Device> = each.collect();
    devices.push(Device::new(ALL.to_owned(), &places, None));
    for offer in offers {
        devices.push(Device::new(offer.name.clone(), &offer.places(gpus)?, Some(&offer.memory)));
    }
    Ok(Spec { cdi_version: VERSION, kind: KIND, devices, container_edits: edits(libraries, &places, token)? })
}

/// What every container gets that gets a device.
fn edits(libraries: &Path, places: &[&str], token: Option<&Path>) -> Result<Edits> {
    let mut edits = Edits { env: vec![format!("LD_LIBRARY_PATH={LIBRARIES}")], mounts: Vec::new() };
    edits.mounts.push(mount(libraries, LIBRARIES)?);
    if let Some(token) = token {
        edits.mounts.push(mount(token, TOKEN)?);
        edits.env.push(format!("FLOE_TOKEN_FILE={TOKEN}"));
    }
    for place in places {
        // A socket's folder, so that a container finds the socket of a daemon that was started again.
        if let Some(folder) = folder_of_socket(&GpuAddress::parse("--on", place)?.server)
            && edits.mounts.iter().all(|mount| Path::new(&mount.host_path) != folder)
        {
            ensure_is_its_own(&folder)?;
            edits.mounts.push(mount(&folder, &folder.display().to_string())?);
        }
    }
    Ok(edits)
}

impl Device {
    /// A device that is these vGPUs, each with this quota.
    fn new(name: String, places: &[&str], memory: Option<&str>) -> Self {
        let mut env = vec![format!("FLOE_DEVICES={}", places.join(","))];
        env.extend(memory.map(|memory| format!("FLOE_MEMORY={memory}")));
        Self { name, container_edits: Edits { env, mounts: Vec::new() } }
    }
}

/// The folder of a server's Unix socket; `None`: it is reached by a network.
fn folder_of_socket(server: &str) -> Option<PathBuf> {
    let path = server.strip_prefix("unix://").or_else(|| server.strip_prefix("shm://")).unwrap_or(server);
    path.starts_with('/').then(|| Path::new(path).parent().map(Path::to_path_buf)).flatten()
}

/// Refuses a socket's folder that is others', too: a container could connect to all sockets there, and `/` would be in the place of
/// its own files.
fn ensure_is_its_own(folder: &Path) -> Result<()> {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    // An engine may leave `..` out as text, and mean another folder than the system.
    let is_steep = folder.components().any(|part| part == Component::ParentDir);
    let is_kernels = ["/proc", "/sys"].iter().any(|one| real.starts_with(one));
    let is_systems = SYSTEMS.iter().any(|one| Path::new(one) == real) || real.parent() == Some(Path::new("/run/user"));
    ensure!(
        !is_steep && !is_systems && !is_kernels && real.components().count() > 2,
        "--on: containers would get all of the folder of the daemon's socket, which is not the daemon's alone: {}\n  \
         have its socket in a folder of its own: floe serve --socket /run/floe/floed.sock",
        folder.display()
    );
    Ok(())
}

/// A mount that a container can only read. Connecting to a socket is no writing.
fn mount(host: &Path, container: &str) -> Result<Mount> {
    let host = std::path::absolute(host).with_context(|| format!("no path: {}", host.display()))?;
    let host_path = host.to_str().with_context(|| format!("not a path in UTF-8: {}", host.display()))?.to_owned();
    Ok(Mount { host_path, container_path: container.to_owned(), options: ["ro", "nosuid", "nodev", "rbind"] })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn gpus(places: &[&str]) -> Vec<Gpu> {
        places.iter().map(|place| Gpu { place: (*place).to_owned(), memory: None }).collect()
    }

    fn made(places: &[&str], offers: &[&str], token: Option<&str>) -> Value {
        let offers: Vec<String> = offers.iter().map(|offer| (*offer).to_owned()).collect();
        let offers = Offer::read_all(&offers).expect("offers");
        let spec = spec(Path::new("/usr/lib/floe/lib/client"), &gpus(places), &offers, token.map(Path::new));
        serde_json::to_value(spec.expect("made")).expect("JSON")
    }

    /// A name as the specification has it: letters and digits, within them also `_`, `-`, `.` and `:`.
    fn is_name(name: &str) -> bool {
        let is_inner = |one: char| one.is_ascii_alphanumeric() || "_-.:".contains(one);
        let ends = [name.chars().next(), name.chars().last()];
        ends.iter().all(|end| end.is_some_and(|one| one.is_ascii_alphanumeric())) && name.chars().all(is_inner)
    }

    fn fields(value: &Value) -> Vec<&str> {
        value.as_object().expect("an object").keys().map(String::as_str).collect()
    }

    fn text(value: &Value) -> &str {
        value.as_str().expect("text")
    }

    /// What the specification demands of `containerEdits`, of the fields that are used.
    fn check_edits(edits: &Value) {
        assert!(fields(edits).iter().all(|field| ["env", "mounts"].contains(field)), "{edits}");
        for variable in edits["env"].as_array().expect("a list") {
            let (name, value) = text(variable).split_once('=').expect("NAME=value");
            assert!(!name.is_empty() && !value.is_empty(), "{variable}");
        }
        for mount in edits["mounts"].as_array().into_iter().flatten() {
            assert_eq!(fields(mount), ["containerPath", "hostPath", "options"]);
            assert!([&mount["hostPath"], &mount["containerPath"]].iter().all(|path| text(path).starts_with('/')));
            assert_eq!(mount["options"][0], "ro");
        }
    }

    #[test]
    fn the_file_has_the_fields_that_the_specification_states() {
        let places = ["unix:///run/floe/floed.sock:0", "unix:///run/floe/floed.sock:1", "gpu1:3"];
        let spec = made(&places, &["2x8G", "1x512MiB"], Some("/etc/t"));
        assert_eq!(fields(&spec), ["cdiVersion", "containerEdits", "devices", "kind"]);
        assert_eq!(spec["cdiVersion"], "0.5.0");
        let (vendor, class) = text(&spec["kind"]).split_once('/').expect("vendor and class");
        assert!(vendor.contains('.') && is_name(vendor) && is_name(class) && !class.contains('.'));
        let devices = spec["devices"].as_array().expect("a list");
        let names: Vec<_> = devices.iter().map(|device| text(&device["name"])).collect();
        assert_eq!(names, ["0", "1", "2", "all", "2x8G", "1x512MiB"]);
        for device in devices {
            assert!(fields(device) == ["containerEdits", "name"] && is_name(text(&device["name"])), "{device}");
            check_edits(&device["containerEdits"]);
        }
        check_edits(&spec["containerEdits"]);
    }

    #[test]
    fn containers_get_libraries_socket_token_and_their_devices() {
        let spec = made(&["unix:///run/floe/floed.sock:0", "gpu1:3"], &[], Some("/etc/floe/token"));
        let mounts = spec["containerEdits"]["mounts"].as_array().expect("a list");
        let paths: Vec<_> = mounts.iter().map(|one| (text(&one["hostPath"]), text(&one["containerPath"]))).collect();
        let libraries = ("/usr/lib/floe/lib/client", "/opt/floe/lib");
        assert_eq!(paths, [libraries, ("/etc/floe/token", "/opt/floe/token"), ("/run/floe", "/run/floe")]);
        let environment = &spec["containerEdits"]["env"];
        assert_eq!(
            environment,
            &serde_json::json!(["LD_LIBRARY_PATH=/opt/floe/lib", "FLOE_TOKEN_FILE=/opt/floe/token"])
        );
        let of_all = &spec["devices"][2]["containerEdits"]["env"];
        assert_eq!(of_all, &serde_json::json!(["FLOE_DEVICES=unix:///run/floe/floed.sock:0,gpu1:3"]));
    }

    #[test]
    fn an_offer_is_a_device_with_its_vgpus_and_their_quota() {
        let spec = made(&["gpu1:0", "gpu1:1"], &["2x8G", "3x512M"], None);
        let of = |index: usize| &spec["devices"][index]["containerEdits"];
        let wanted = serde_json::json!({ "env": ["FLOE_DEVICES=gpu1:0,gpu1:1", "FLOE_MEMORY=8G"] });
        assert_eq!((&spec["devices"][3]["name"], of(3)), (&"2x8G".into(), &wanted));
        let wanted = serde_json::json!({ "env": ["FLOE_DEVICES=gpu1:0,gpu1:1,gpu1:0", "FLOE_MEMORY=512M"] });
        assert_eq!(of(4), &wanted);
        let without = made(&["gpu1:0", "gpu1:1"], &[], None);
        let list = |spec: &Value| spec["devices"].as_array().expect("a list").clone();
        assert_eq!(list(&without), list(&spec)[..3]);
        assert_eq!(without["containerEdits"], spec["containerEdits"]);
    }

    #[test]
    fn a_socket_in_a_folder_of_others_is_refused() {
        let made = |place: &str| spec(Path::new("/x"), &gpus(&[place]), &[], None).map_err(|error| error.to_string());
        let of_many = ["", "/run", "/tmp", "/var/run", "/run/user/1000", "/proc/1/root/run", "/proc/self", "/sys/fs"];
        let steep = ["/run/floe/..", "/no/such/../../etc", "/var/run/../lib"];
        for folder in of_many.into_iter().chain(steep) {
            let words = made(&format!("unix://{folder}/floed.sock:0")).expect_err(folder);
            let shown = if folder.is_empty() { "/" } else { folder };
            assert!(words.contains(&format!("which is not the daemon's alone: {shown}\n")), "{words}");
        }
        for folder in ["/run/floe", "/run/user/1000/floe", "/var/lib/floe"] {
            assert!(made(&format!("{folder}/floed.sock:0")).is_ok(), "{folder}");
        }
    }

    #[test]
    fn a_place_that_is_none_is_refused() {
        let words = spec(Path::new("/x"), &gpus(&["gpu1:14833"]), &[], None).expect_err("no index").to_string();
        assert!(words.starts_with("--on: "), "{words}");
    }
}
