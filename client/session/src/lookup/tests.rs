//! Tests of the lookups' answers; every address that a call names is looked up once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::Path;

use floe_abi::{DevicePtr, Stream, StreamMemoryOperation, pointer_attribute, stream_memory_operation};
use floe_surface::{
    ContextCalls, CopyBox, CopyCalls, CopyEnd, CopyPlace, DeviceCalls, HostBlock, HostRange, MemoryCalls, MemsetCalls,
    PointerCalls, StreamCalls, StreamMemoryCalls,
};

use super::*;
use crate::scripted::{Options, Server};
use crate::settings::Source;

const BYTES: usize = 1 << 20;

thread_local! {
    static LOOKED_UP: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// An address was looked up on this thread.
pub(super) fn count(at: u64) {
    LOOKED_UP.with_borrow_mut(|all| all.push(at));
}

/// The addresses that a call looked up, in order.
fn looked_up(call: impl FnOnce() -> CudaResult<()>) -> Vec<u64> {
    LOOKED_UP.with_borrow_mut(Vec::clear);
    call().unwrap();
    let mut all = LOOKED_UP.with_borrow_mut(std::mem::take);
    all.sort_unstable();
    all
}

#[derive(Debug)]
struct Environment(HashMap<&'static str, String>);

impl Source for Environment {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    fn file(&self, _path: &Path) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn started(server: &Server) -> Client {
    started_with(&[server])
}

/// A client of a vGPU of each server; the first one's context is current.
fn started_with(servers: &[&Server]) -> Client {
    let devices = servers.iter().map(|server| format!("{}:0", server.address)).collect::<Vec<_>>().join(",");
    let client = Client::new(Environment(HashMap::from([("FLOE_DEVICES", devices)])));
    client.init(0).unwrap();
    client.ctx_set_current(client.device_primary_ctx_retain(floe_abi::Device(0)).unwrap()).unwrap();
    client
}

/// Pinned memory that CUDA allocated.
fn pinned(client: &Client) -> HostRange {
    let at = client.mem_alloc_host(BYTES).unwrap();
    client.host_memory.find(at.0).unwrap().whole
}

fn sorted<const N: usize>(mut all: [u64; N]) -> [u64; N] {
    all.sort_unstable();
    all
}

/// Copies and other calls between device memory and `host`.
fn each_address_is_looked_up_once(client: &Client, host: HostRange) {
    let (device, other) = (client.mem_alloc(BYTES).unwrap(), client.mem_alloc(BYTES).unwrap());
    let (at, stream) = (host.pointer().0, Stream::LEGACY);
    let both = sorted([device.0, at]);
    for bytes in [4, 1000, 100 << 10, BYTES] {
        let part = host.sub(0, bytes).unwrap();
        assert_eq!(looked_up(|| client.memcpy_htod(stream, device, part)), both);
        assert_eq!(looked_up(|| client.memcpy_htod_async(device, part, stream)), both);
        assert_eq!(looked_up(|| client.memcpy_dtoh(stream, part, device)), both);
        assert_eq!(looked_up(|| client.memcpy_dtoh_async(part, device, stream)), both);
        let within = sorted([device.0, other.0]);
        assert_eq!(looked_up(|| client.memcpy_dtod(stream, device, other, bytes)), within);
        assert_eq!(looked_up(|| client.memcpy_dtod_async(other, device, bytes, stream)), within);
    }
    let end = |place, pitch| CopyEnd { place, pitch, slice: 0 };
    for pitch in [64, 100] {
        // With gaps and without.
        let (source, target) = (CopyPlace::Host(host.sub(0, 576).unwrap()), CopyPlace::Device(device, pitch * 8 + 64));
        let copy = CopyBox { source: end(source, 64), destination: end(target, pitch), width: 64, height: 9, depth: 1 };
        assert_eq!(looked_up(|| client.memcpy_box(stream, &copy)), both);
    }
}

#[test]
fn a_call_looks_each_address_up_once() {
    let server = Server::start(Options { maps: true, shares: true, ..Options::default() });
    let client = started(&server);
    let pageable = HostBlock::new(BYTES).unwrap();
    each_address_is_looked_up_once(&client, pageable.range());
    each_address_is_looked_up_once(&client, pinned(&client));
    let (device, host) = (client.mem_alloc(64).unwrap(), pinned(&client));
    let ask = |at| looked_up(|| client.pointer_get_attribute(pointer_attribute::RANGE_START_ADDR, at).map(drop));
    let set = |at| looked_up(|| client.memset_d8(Stream::LEGACY, at, 0, 64));
    let write = |at| StreamMemoryOperation::on_word(stream_memory_operation::WRITE_VALUE_32, at, 1, 0);
    let word = |at| looked_up(|| client.stream_batch_mem_op(Stream::LEGACY, &[write(at)], 0));
    for at in [device, DevicePtr(host.pointer().0)] {
        assert_eq!([ask(at), set(at), word(at)], [[at.0]; 3]);
    }
}

#[test]
fn addresses_are_distinguished_by_memory_and_by_name() {
    let server = Server::start(Options::default());
    let client = started(&server);
    let (device, host, aside) = (client.mem_alloc(64).unwrap(), pinned(&client), HostBlock::new(64).unwrap());
    let current = &client.current().unwrap().vgpu;
    let found = |place| client.lookup(place, current);
    let on_device = found(CopyPlace::Device(device, 64)).unwrap();
    assert!(matches!(&on_device, Lookup::Device(memory) if !memory.is_managed && memory.len() == 64));
    let unaligned = DevicePtr(host.pointer().0 + 8);
    let Ok(Lookup::Host(named)) = found(CopyPlace::Device(unaligned, 56)) else { panic!("pinned memory") };
    assert!(named.is_named_as_device && named.pinned().is_some_and(|all| all.whole == host));
    assert_eq!((named.range.pointer().0, named.range.len()), (unaligned.0, 56));
    let is_pinned = |range| match found(CopyPlace::Host(range)) {
        Ok(Lookup::Host(memory)) => (memory.is_named_as_device, memory.pinned().is_some()),
        other => panic!("{other:?}"),
    };
    assert_eq!([is_pinned(host), is_pinned(aside.range())], [(false, true), (false, false)]);
    let end = DevicePtr(host.pointer().0 + BYTES as u64 - 8);
    for (at, bytes) in [(end, 9), (DevicePtr(aside.pointer().0), 1), (device, BYTES), (DevicePtr(0), 1)] {
        assert_eq!(found(CopyPlace::Device(at, bytes)).map(drop), Err(CudaError::INVALID_VALUE), "{at:?}");
    }
}

/// Where processes load modules at the same addresses, two vGPUs have a variable at one.
#[test]
fn a_variable_at_one_address_of_two_vgpus_is_that_of_the_context() {
    let servers = [(); 2].map(|()| Server::start(Options::default()));
    let client = started_with(&servers.each_ref());
    let contexts = [0, 1].map(|device| client.device_primary_ctx_retain(floe_abi::Device(device)).unwrap());
    let at = DevicePtr(0x7000_0000_1000);
    for context in contexts {
        let context = client.context(context).unwrap();
        floe_lock::write(&context.vgpu.globals).insert(at.0, 64);
    }
    for (ordinal, context) in (0..).zip(contexts) {
        client.ctx_set_current(context).unwrap();
        let current = client.current().unwrap();
        let Ok(Lookup::Device(memory)) = client.lookup_device(at, 64, &current.vgpu) else { panic!("a variable") };
        assert_eq!(memory.vgpu.ordinal, ordinal);
        let Some(Found::Device(found)) = client.lookup_address(at) else { panic!("a variable") };
        assert_eq!(found.vgpu.ordinal, ordinal);
    }
    let stream = client.stream_create(0).unwrap();
    let captured = client.working_stream(stream).unwrap().for_capture();
    client.graphs.begin_capture(&captured, 0, None).unwrap();
    let captured = client.memcpy_peer_async(at, contexts[1], at, contexts[0], 64, stream);
    assert_eq!(captured, Err(CudaError::NOT_SUPPORTED), "it would copy the variable to itself");
}
