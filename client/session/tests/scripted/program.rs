//! The program's side of the tests: a client of scripted servers, its host memory, its launches.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use floe_abi::{DevicePtr, Stream};
use floe_session::Client;
use floe_session::settings::Source;
use floe_surface::{Call, ContextCalls, CopyCalls as _, DeviceCalls, HostRange, Image, KernelArguments, Launch};
use floe_wire::CHUNK_BYTES;

use super::{Server, drain_once, until};

/// An environment for a client.
#[derive(Debug, Default)]
pub struct Environment(pub HashMap<String, String>);

impl Source for Environment {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    fn file(&self, _path: &std::path::Path) -> std::io::Result<String> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

/// A client of these servers, before `cuInit`. It lives as long as the process, as the real one does.
pub fn client_with(servers: &[&Server], more: &[(&str, &str)]) -> &'static Client {
    let addresses: Vec<&str> = servers.iter().map(|server| server.address.as_str()).collect();
    client_of_places(&addresses, more)
}

/// The same by their addresses.
pub fn client_of_places(addresses: &[&str], more: &[(&str, &str)]) -> &'static Client {
    let places: Vec<String> = addresses.iter().map(|address| format!("{address}:0")).collect();
    let mut variables = HashMap::from([("FLOE_DEVICES".to_owned(), places.join(","))]);
    variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Box::leak(Box::new(Client::new(Environment(variables))))
}

/// A client of one server with the primary context current.
pub fn client(server: &Server) -> &'static Client {
    client_of(server, &[])
}

/// The same with more in its environment.
pub fn client_of(server: &Server, more: &[(&str, &str)]) -> &'static Client {
    begun(client_with(&[server], more))
}

/// A client that has its vGPU, with the primary context current.
pub fn begun(client: &'static Client) -> &'static Client {
    client.init(0).expect("initialises");
    let context = client.device_primary_ctx_retain(floe_abi::Device(0)).expect("retains");
    client.ctx_set_current(context).expect("current");
    client
}

/// Copies to the device until so many bulk connections have joined and bytes travel on them: a client uses a connection only
/// some time after its server has answered. Nothing is left on them then.
pub fn await_bulk(server: &Server, client: &Client, at: DevicePtr, count: usize) {
    // A socket holds less than a probe: bytes on one connection only are drained meanwhile.
    let (in_use, mut probe) = (AtomicBool::new(false), vec![1; 2 * CHUNK_BYTES]);
    std::thread::scope(|scope| {
        let _limit = server.limit();
        scope.spawn(|| {
            let (_limit, mut drained) = (server.limit(), 0);
            until("the end of the probes", || {
                drained += drain_once(&server.joined(), &mut Vec::new(), |_| ());
                in_use.load(Ordering::Acquire) && drained >= client.statistics().bulk_to_device
            });
        });
        until("bulk connections in use", || {
            client.memcpy_htod(Stream::LEGACY, at, host(&mut probe)).unwrap();
            server.joined().lock().unwrap().len() == count && client.statistics().bulk_to_device > 0
        });
        // The others are mostly in use soon, too. No test depends on it.
        std::thread::sleep(Duration::from_millis(50));
        in_use.store(true, Ordering::Release);
    });
}

/// Runs a call of the program that is counted, begun and ended as the surface does. Returns its answer.
pub fn counted<R>(client: &Client, call: impl FnOnce(&Client) -> R) -> R {
    let _call = Call::begin(client, "cuTest");
    call(client)
}

/// Bytes of a test as the program's host memory.
pub fn host(bytes: &mut [u8]) -> HostRange {
    // SAFETY: tests keep the slice until the operation is over, which they wait for.
    unsafe { HostRange::new(floe_abi::HostPointer(bytes.as_mut_ptr() as u64), bytes.len()) }
}

/// Memory the client pinned.
pub fn pinned(pointer: floe_abi::HostPointer, bytes: usize) -> HostRange {
    // SAFETY: the client allocated it and frees it after the test.
    unsafe { HostRange::new(pointer, bytes) }
}

pub fn ptx() -> Image<'static> {
    Image { kind: floe_image::ImageKind::Ptx, containers: vec![b".version 8.0\n.target sm_75".to_vec().into()] }
}

/// Launches with the parameters `a`, `b`, `c`, `n` of the scripted kernel.
pub fn launch_as(
    client: &Client,
    function: floe_abi::Function,
    grid: [u32; 3],
    block: [u32; 3],
    stream: floe_abi::Stream,
    (a, b, c, n): (u64, u64, u64, u32),
    cooperative: bool,
) -> floe_abi::CudaResult<()> {
    let (mut a, mut b, mut c, mut n) = (a, b, c, n);
    let mut pointers = [
        std::ptr::from_mut(&mut a).cast::<std::ffi::c_void>(),
        std::ptr::from_mut(&mut b).cast(),
        std::ptr::from_mut(&mut c).cast(),
        std::ptr::from_mut(&mut n).cast(),
    ];
    // SAFETY: one valid pointer per parameter of the scripted kernel, until the call returns.
    let arguments = unsafe { KernelArguments::new(pointers.as_mut_ptr(), std::ptr::null_mut()) }?;
    floe_surface::LaunchCalls::launch_kernel(
        client,
        &Launch { function, grid, block, shared_bytes: 0, stream, cooperative, attributes: &[], arguments },
    )
}

/// Launches one block of the scripted kernel, with attributes.
pub fn launch_with(
    client: &Client,
    function: floe_abi::Function,
    grid: [u32; 3],
    attributes: &[floe_abi::LaunchAttribute],
) -> floe_abi::CudaResult<()> {
    let mut word = 0_u64;
    let mut pointers = [std::ptr::from_mut(&mut word).cast::<std::ffi::c_void>(); 4];
    // SAFETY: one valid pointer per parameter of the scripted kernel, until the call returns.
    let arguments = unsafe { KernelArguments::new(pointers.as_mut_ptr(), std::ptr::null_mut()) }?;
    let stream = floe_abi::Stream::LEGACY;
    let launch = Launch {
        function,
        grid,
        block: [32, 1, 1],
        shared_bytes: 0,
        stream,
        cooperative: false,
        attributes,
        arguments,
    };
    floe_surface::LaunchCalls::launch_kernel(client, &launch)
}

/// As `launch_as`, without a wish for cooperation.
pub fn launch(
    client: &Client,
    function: floe_abi::Function,
    grid: [u32; 3],
    block: [u32; 3],
    stream: floe_abi::Stream,
    parameters: (u64, u64, u64, u32),
) -> floe_abi::CudaResult<()> {
    launch_as(client, function, grid, block, stream, parameters, false)
}
