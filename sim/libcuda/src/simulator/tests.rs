//! The device as a program meets it, through the typed calls: order of streams, copies, events, memory at its limit.
//! Kernels are not needed for any of this; programs that run them are tested from outside.

mod sharing;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use floe_abi::{
    Array3dDescriptor, CudaError, Device, DevicePtr, Event, HostPointer, LaunchAttributeValue, MemAccess,
    MemAllocationFlags, MemAllocationProperties, MemLocation, MemPoolProperties, Stream, StreamMemoryOperation,
    access_flags, allocation_type, context_flags, launch_attribute, location_type, memory_type, pointer_attribute,
    stream_flags, stream_memory_operation,
};
use floe_surface::{
    ArrayCalls, ContextCalls, CopyBox, CopyCalls, CopyPlace, EventCalls, GraphMemoryCalls, HostBlock, HostFunction,
    HostRange, LaunchCalls, MemoryCalls, MemsetCalls, PointerAttribute, PointerCalls, PoolCalls, StreamCalls,
    StreamMemoryCalls, VirtualMemoryCalls,
};

use super::Simulator;
use super::addresses::{SPAN, WINDOWS};
use super::device::limits::GRANULARITY;
use super::device::settings::Settings;

const MEMORY: u64 = 16 * GRANULARITY;

fn simulator_of(devices: usize) -> Simulator {
    Simulator::new(&Settings {
        devices,
        compute: (9, 0),
        memory: MEMORY,
        cores: 1,
        dry_run: false,
        launch_blocking: false,
        eager_loading: false,
        visible: None,
        queues: 0,
        host: [7; 16],
    })
}

/// A simulator with its first device's primary context current.
pub(super) fn simulator() -> Simulator {
    let simulator = simulator_of(1);
    let context = simulator.device_primary_ctx_retain(Device(0)).expect("a device");
    simulator.ctx_set_current(context).expect("a context");
    simulator
}

fn block(bytes: &[u8]) -> HostBlock {
    let block = HostBlock::new(bytes.len()).expect("memory");
    block.range().write(bytes).expect("fits");
    block
}

fn read(simulator: &Simulator, address: DevicePtr, bytes: usize) -> Vec<u8> {
    let target = HostBlock::new(bytes).expect("memory");
    simulator.memcpy_dtoh(Stream::LEGACY, target.range(), address).expect("copies");
    target.range().to_vec()
}

/// A gate that holds up the stream it was queued on until it is opened.
#[derive(Default)]
struct Gate {
    open: AtomicBool,
}

impl Gate {
    fn queue(&'static self, simulator: &Simulator, stream: Stream) {
        // SAFETY: the gate lives for ever and the function only reads it.
        let function = unsafe { HostFunction::new(wait_for_gate, std::ptr::from_ref(self).cast_mut().cast()) };
        simulator.launch_host_func(stream, function).expect("queues");
    }

    fn open(&self) {
        self.open.store(true, Ordering::Release);
    }
}

unsafe extern "C" fn wait_for_gate(gate: *mut c_void) {
    // SAFETY: `Gate::queue` passed a gate that lives for ever.
    let gate = unsafe { &*gate.cast::<Gate>() };
    while !gate.open.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn gate() -> &'static Gate {
    Box::leak(Box::default())
}

#[test]
fn without_a_context_nothing_is_allocated() {
    let simulator = simulator_of(1);
    assert_eq!(simulator.mem_alloc(4), Err(CudaError::INVALID_CONTEXT));
    assert_eq!(simulator.stream_synchronize(Stream::LEGACY), Err(CudaError::INVALID_CONTEXT));
}

#[test]
fn primary_context_is_inactive_until_it_is_retained() {
    let simulator = simulator_of(1);
    assert_eq!(simulator.device_primary_ctx_get_state(Device(0)), Ok((0, false)));
    let context = simulator.device_primary_ctx_retain(Device(0)).expect("a device");
    assert_eq!(simulator.device_primary_ctx_get_state(Device(0)), Ok((0, true)));
    assert_eq!(simulator.device_primary_ctx_retain(Device(0)), Ok(context));
    simulator.device_primary_ctx_release(Device(0)).expect("retained twice");
    simulator.device_primary_ctx_release(Device(0)).expect("retained twice");
    assert_eq!(simulator.device_primary_ctx_get_state(Device(0)), Ok((0, false)));
    assert_eq!(simulator.device_primary_ctx_release(Device(0)), Err(CudaError::INVALID_CONTEXT));
}

#[test]
fn primary_context_that_was_reset_comes_back_empty_when_it_is_used() {
    let simulator = simulator();
    let whole = usize::try_from(MEMORY).expect("64 bit");
    simulator.mem_alloc(whole).expect("the whole device");
    simulator.device_primary_ctx_reset(Device(0)).expect("active");
    assert_eq!(simulator.device_primary_ctx_get_state(Device(0)), Ok((0, false)));
    simulator.mem_alloc(whole).expect("free again");
    assert_eq!(simulator.device_primary_ctx_get_state(Device(0)), Ok((0, true)));
}

#[test]
fn created_context_is_current_and_takes_its_memory_with_it() {
    let simulator = simulator_of(1);
    let context = simulator.ctx_create(0, Device(0)).expect("a device");
    assert_eq!(simulator.ctx_get_current(), Ok(context));
    simulator.mem_alloc(usize::try_from(MEMORY).expect("64 bit")).expect("the whole device");
    simulator.ctx_destroy(context).expect("exists");
    assert!(simulator.ctx_get_current().expect("always").is_null());
    simulator.ctx_create(0, Device(0)).expect("a device");
    simulator.mem_alloc(usize::try_from(MEMORY).expect("64 bit")).expect("free again");
}

#[test]
fn copies_come_back_as_they_went() {
    let simulator = simulator();
    let address = simulator.mem_alloc(100).expect("room");
    let source = block(&[9; 100]);
    simulator.memcpy_htod(Stream::LEGACY, address, source.range()).expect("copies");
    simulator.memset_d8(Stream::LEGACY, address.offset(10).expect("inside"), 3, 5).expect("fills");
    let bytes = read(&simulator, address, 100);
    assert_eq!(bytes[..16], [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 3, 3, 3, 3, 3, 9]);
}

#[test]
fn copy_beyond_an_allocation_is_refused_at_the_call() {
    let simulator = simulator();
    let address = simulator.mem_alloc(100).expect("room");
    let source = block(&[0; 101]);
    assert_eq!(simulator.memcpy_htod(Stream::LEGACY, address, source.range()), Err(CudaError::INVALID_VALUE));
    assert_eq!(simulator.memset_d32(Stream::LEGACY, address, 0, 26), Err(CudaError::INVALID_VALUE));
    let stray = DevicePtr(source.pointer().0);
    assert_eq!(simulator.memset_d8(Stream::LEGACY, stray, 0, 1), Err(CudaError::INVALID_VALUE));
}

#[test]
fn pageable_source_is_read_at_the_call_and_pinned_source_when_its_turn_comes() {
    let simulator = simulator();
    let (address, gate) = (simulator.mem_alloc(2).expect("room"), gate());
    let stream = simulator.stream_create(stream_flags::NON_BLOCKING).expect("a stream");
    let pageable = block(&[1]);
    let pointer = simulator.mem_host_alloc(1, 0).expect("memory");
    // SAFETY: one byte just allocated, freed at the end of the test.
    let pinned = unsafe { HostRange::new(pointer, 1) };
    pinned.write(&[1]).expect("fits");
    gate.queue(&simulator, stream);
    simulator.memcpy_htod_async(address, pageable.range(), stream).expect("queues");
    simulator.memcpy_htod_async(address.offset(1).expect("inside"), pinned, stream).expect("queues");
    pageable.range().write(&[2]).expect("fits");
    pinned.write(&[2]).expect("fits");
    gate.open();
    simulator.stream_synchronize(stream).expect("no fault");
    assert_eq!(read(&simulator, address, 2), [1, 2]);
    simulator.mem_free_host(pointer).expect("allocated");
}

#[test]
fn default_stream_waits_for_blocking_streams_only() {
    let simulator = simulator();
    let gate = gate();
    let blocking = simulator.stream_create(stream_flags::DEFAULT).expect("a stream");
    let free = simulator.stream_create(stream_flags::NON_BLOCKING).expect("a stream");
    gate.queue(&simulator, blocking);
    let address = simulator.mem_alloc(1).expect("room");
    simulator.memset_d8(Stream::LEGACY, address, 1, 1).expect("queues");
    assert_eq!(simulator.stream_query(Stream::LEGACY), Err(CudaError::NOT_READY));
    simulator.memset_d8_async(address, 2, 1, free).expect("queues");
    simulator.stream_synchronize(free).expect("waits for nothing else");
    gate.open();
    simulator.stream_synchronize(Stream::LEGACY).expect("no fault");
    assert_eq!(simulator.stream_query(blocking), Ok(()));
    assert_eq!(read(&simulator, address, 1), [1]);
}

#[test]
fn stream_waits_for_the_event_of_another() {
    let simulator = simulator();
    let (gate, address) = (gate(), simulator.mem_alloc(1).expect("room"));
    let first = simulator.stream_create(stream_flags::NON_BLOCKING).expect("a stream");
    let second = simulator.stream_create(stream_flags::NON_BLOCKING).expect("a stream");
    let event = simulator.event_create(0).expect("an event");
    gate.queue(&simulator, first);
    simulator.memset_d8_async(address, 1, 1, first).expect("queues");
    simulator.event_record(event, first).expect("queues");
    simulator.stream_wait_event(second, event, 0).expect("queues");
    simulator.memset_d8_async(address, 2, 1, second).expect("queues");
    assert_eq!(simulator.event_query(event), Err(CudaError::NOT_READY));
    gate.open();
    simulator.stream_synchronize(second).expect("no fault");
    assert_eq!(simulator.event_query(event), Ok(()));
    assert_eq!(read(&simulator, address, 1), [2]);
}

#[test]
fn events_measure_time_between_them() {
    let (simulator, gate) = (simulator(), gate());
    let events: [Event; 2] = [(); 2].map(|()| simulator.event_create(0).expect("an event"));
    assert_eq!(simulator.event_elapsed_time(events[0], events[1]), Err(CudaError::INVALID_HANDLE));
    simulator.event_record(events[0], Stream::LEGACY).expect("queues");
    gate.queue(&simulator, Stream::LEGACY);
    simulator.event_record(events[1], Stream::LEGACY).expect("queues");
    assert_eq!(simulator.event_elapsed_time(events[0], events[1]), Err(CudaError::NOT_READY));
    simulator.event_synchronize(events[0]).expect("no fault");
    std::thread::sleep(Duration::from_millis(20));
    gate.open();
    simulator.event_synchronize(events[1]).expect("no fault");
    assert!(simulator.event_elapsed_time(events[0], events[1]).expect("both happened") >= 19.0);
}

#[test]
fn memory_of_a_graph_is_used_again_only_when_what_was_queued_before_is_done() {
    let simulator = simulator();
    let (gate, stream) = (gate(), simulator.stream_create(stream_flags::NON_BLOCKING).expect("a stream"));
    let first = simulator.graph_memory_reserve(Device(0), 512).expect("room");
    gate.queue(&simulator, stream);
    simulator.graph_memory_release(&first);
    simulator.graph_memory_release(&first);
    let meanwhile = simulator.graph_memory_reserve(Device(0), 512).expect("room");
    assert_ne!(meanwhile.address, first.address);
    gate.open();
    simulator.wait_everything();
    assert!(!simulator.graph_memory_holds(&[first]));
    let again = simulator.graph_memory_reserve(Device(0), 512).expect("room");
    assert_eq!(again.address, first.address);
    assert!(simulator.graph_memory_holds(&[meanwhile, again]));
    assert!(!simulator.graph_memory_holds(&[again, first]));
}

#[test]
fn a_graph_does_not_copy_where_a_destroyed_array_was() {
    use floe_surface::marshal::{graph as graphs, stream as streams};
    // As a library has it: for as long as the process lives.
    let simulator: &'static Simulator = Box::leak(Box::new(simulator()));
    let shape = Array3dDescriptor { width: 4, format: 0x20, channels: 1, ..Array3dDescriptor::default() };
    let array = simulator.array_create(&shape).expect("room");
    let (address, stream) = (
        simulator.mem_alloc(16).expect("room"),
        simulator.stream_create(stream_flags::NON_BLOCKING).expect("a stream"),
    );
    let copy = CopyBox::line(CopyPlace::Array(array, [0; 3]), CopyPlace::Device(address, 16), 16);
    let (mut graph, mut exec) = (floe_abi::Graph::NULL, floe_abi::GraphExec::NULL);
    // SAFETY: the pointers are those of two variables here, and every handle was made above.
    let launched = unsafe {
        streams::cuStreamBeginCapture_v2(simulator, Stream::LEGACY, stream, 1).expect("begins");
        simulator.memcpy_box_async(&copy, stream).expect("is recorded");
        streams::cuStreamEndCapture(simulator, Stream::LEGACY, stream, &raw mut graph).expect("ends");
        graphs::cuGraphInstantiateWithFlags(simulator, &raw mut exec, graph, 0).expect("instantiates");
        graphs::cuGraphLaunch(simulator, Stream::LEGACY, exec, stream).expect("launches");
        simulator.array_destroy(array).expect("an array");
        graphs::cuGraphLaunch(simulator, Stream::LEGACY, exec, stream)
    };
    assert_eq!(launched, Err(CudaError::INVALID_HANDLE));
}

#[test]
fn no_call_names_bytes_behind_the_end_of_pinned_memory_or_of_freed_memory() {
    let simulator = simulator();
    let device = simulator.mem_alloc(256).expect("room");
    let (pinned, kept) = (simulator.mem_host_alloc(100, 0).expect("memory"), simulator.mem_host_alloc(100, 0));
    let write = |at: u64| {
        let word = StreamMemoryOperation::on_word(stream_memory_operation::WRITE_VALUE_32, DevicePtr(at), 0x55, 0);
        simulator.stream_batch_mem_op(Stream::LEGACY, &[word], 0)
    };
    let refused = Err(CudaError::INVALID_VALUE);
    assert_eq!(write(pinned.0 + 96), Ok(()));
    assert_eq!((write(pinned.0 + 100), write(pinned.0 + 4096 - 4)), (refused, refused));
    assert_eq!(simulator.memset_d8(Stream::LEGACY, DevicePtr(pinned.0 + 90), 1, 11), refused);
    assert_eq!(simulator.memcpy_dtod(Stream::LEGACY, device, DevicePtr(pinned.0 + 90), 11), refused);
    assert_eq!(simulator.memcpy_dtod(Stream::LEGACY, device, DevicePtr(pinned.0 + 90), 10), Ok(()));
    assert_eq!(read(&simulator, device, 10), [0, 0, 0, 0, 0, 0, 0x55, 0, 0, 0]);
    simulator.mem_free_host(pinned).expect("allocated");
    assert_eq!(write(pinned.0), refused);
    assert_eq!(simulator.memcpy_dtod(Stream::LEGACY, device, DevicePtr(pinned.0), 4), refused);
    simulator.mem_free_host(kept.expect("memory")).expect("allocated");
}

#[test]
fn destroyed_stream_finishes_its_work() {
    let simulator = simulator();
    let (gate, address) = (gate(), simulator.mem_alloc(1).expect("room"));
    let stream = simulator.stream_create(stream_flags::NON_BLOCKING).expect("a stream");
    gate.queue(&simulator, stream);
    simulator.memset_d8_async(address, 5, 1, stream).expect("queues");
    simulator.stream_destroy(stream).expect("exists");
    assert_eq!(simulator.stream_query(stream), Err(CudaError::INVALID_HANDLE));
    gate.open();
    simulator.ctx_synchronize().expect("no fault");
    assert_eq!(read(&simulator, address, 1), [5]);
}

#[test]
fn host_functions_run_in_stream_order() {
    static ORDER: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn append(digit: *mut c_void) {
        let digit = u32::try_from(digit.addr()).unwrap_or(0);
        ORDER.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |order| Some(order * 10 + digit)).ok();
    }
    let simulator = simulator();
    for digit in 1..=4 {
        // SAFETY: the argument is a number, not an address.
        let function = unsafe { HostFunction::new(append, std::ptr::without_provenance_mut(digit)) };
        simulator.launch_host_func(Stream::LEGACY, function).expect("queues");
    }
    simulator.ctx_synchronize().expect("no fault");
    assert_eq!(ORDER.load(Ordering::Relaxed), 1234);
}

#[test]
fn memory_ends_exactly_at_its_limit() {
    let simulator = simulator();
    let whole = usize::try_from(MEMORY).expect("64 bit");
    assert_eq!(simulator.mem_get_info(), Ok((whole, whole)));
    assert_eq!(simulator.mem_alloc(whole + 1), Err(CudaError::OUT_OF_MEMORY));
    let address = simulator.mem_alloc(whole).expect("exactly fits");
    assert_eq!(simulator.mem_alloc(1), Err(CudaError::OUT_OF_MEMORY));
    assert_eq!(simulator.mem_get_info(), Ok((0, whole)));
    simulator.mem_free(address).expect("allocated");
    assert_eq!(simulator.mem_free(address), Err(CudaError::INVALID_VALUE));
    assert_eq!(simulator.mem_alloc(whole), Ok(address));
}

#[test]
fn fragmented_memory_is_still_usable_to_the_last_byte() {
    let simulator = simulator();
    let granule = usize::try_from(GRANULARITY).expect("64 bit");
    let parts: Vec<_> = (0..16).map(|_| simulator.mem_alloc(granule).expect("room")).collect();
    for part in parts.iter().step_by(2) {
        simulator.mem_free(*part).expect("allocated");
    }
    let large = simulator.mem_alloc(8 * granule).expect("eight granules are free, though not in a row");
    simulator.memset_d8(Stream::LEGACY, large, 6, 8 * granule).expect("fills");
    assert_eq!(read(&simulator, large.offset(7 * GRANULARITY).expect("inside"), 3), [6; 3]);
}

#[test]
fn virtual_memory_is_usable_where_it_is_mapped_with_access() {
    let simulator = simulator();
    let location = MemLocation { kind: location_type::DEVICE, id: 0 };
    let properties =
        MemAllocationProperties { kind: allocation_type::PINNED, location, ..MemAllocationProperties::default() };
    let granule = usize::try_from(GRANULARITY).expect("64 bit");
    let window = DevicePtr(WINDOWS.start);
    let span = usize::try_from(SPAN).expect("64 bit");
    assert_eq!(simulator.mem_address_reserve(span, 0, window, 0), Ok(window));
    let handle = simulator.mem_create(granule, &properties, 0).expect("room");
    simulator.mem_map(window, granule, 0, handle, 0).expect("reserved");
    let source = block(&[4; 8]);
    assert_eq!(simulator.memcpy_htod(Stream::LEGACY, window, source.range()), Err(CudaError::INVALID_VALUE));
    let access = [MemAccess { location, flags: access_flags::READWRITE }];
    simulator.mem_set_access(window, granule, &access).expect("mapped");
    simulator.memcpy_htod(Stream::LEGACY, window, source.range()).expect("accessible");
    assert_eq!(read(&simulator, window, 8), [4; 8]);
    assert_eq!(simulator.mem_get_access(&location, window), Ok(u64::from(access_flags::READWRITE)));
    simulator.mem_unmap(window, granule).expect("mapped");
    simulator.mem_release(handle).expect("a handle");
    simulator.mem_address_free(window, span).expect("reserved");
}

#[test]
fn a_loop_of_allocations_in_stream_order_takes_the_same_memory_again() {
    let simulator = simulator();
    let stream = simulator.stream_create(stream_flags::NON_BLOCKING).expect("a stream");
    let large = usize::try_from(3 * GRANULARITY).expect("64 bit");
    let mut first = None;
    // All of these together are more than the device has.
    for _ in 0..50 {
        let address = simulator.mem_alloc_async(large, stream).expect("room");
        assert_eq!(*first.get_or_insert(address), address);
        simulator.memset_d8(stream, address, 1, large).expect("fills");
        simulator.mem_free_async(address, stream).expect("allocated");
        simulator.stream_synchronize(stream).expect("done");
    }
}

#[test]
fn stream_ordered_memory_is_freed_once_and_in_order() {
    let simulator = simulator();
    let gate = gate();
    let stream = simulator.stream_create(stream_flags::NON_BLOCKING).expect("a stream");
    let address = simulator.mem_alloc_async(1000, stream).expect("room");
    gate.queue(&simulator, stream);
    simulator.memset_d8_async(address, 1, 1000, stream).expect("usable");
    simulator.mem_free_async(address, stream).expect("allocated");
    assert_eq!(simulator.mem_free_async(address, stream), Err(CudaError::INVALID_VALUE));
    let other = simulator.mem_alloc_async(1000, stream).expect("room");
    assert_ne!(other, address, "the free has not happened yet");
    gate.open();
    simulator.stream_synchronize(stream).expect("no fault");
    assert_eq!(simulator.mem_alloc_async(1000, stream), Ok(address));
}

#[test]
fn pointers_know_what_they_are() {
    let simulator = simulator();
    let address = simulator.mem_alloc(100).expect("room");
    let inside = address.offset(50).expect("inside");
    let ask = |attribute, address| simulator.pointer_get_attribute(attribute, address);
    assert_eq!(ask(pointer_attribute::MEMORY_TYPE, inside), Ok(PointerAttribute::MemoryType(memory_type::DEVICE)));
    assert_eq!(ask(pointer_attribute::RANGE_START_ADDR, inside), Ok(PointerAttribute::RangeStart(address)));
    assert_eq!(ask(pointer_attribute::RANGE_SIZE, inside), Ok(PointerAttribute::RangeSize(100)));
    let pageable = block(&[0]);
    let unknown = DevicePtr(pageable.pointer().0);
    assert_eq!(ask(pointer_attribute::MEMORY_TYPE, unknown), Err(CudaError::INVALID_VALUE));
    let pinned: HostPointer = simulator.mem_host_alloc(10, 0).expect("memory");
    let host = ask(pointer_attribute::MEMORY_TYPE, DevicePtr(pinned.0));
    assert_eq!(host, Ok(PointerAttribute::MemoryType(memory_type::HOST)));
}

#[test]
fn two_devices_have_memory_of_their_own_in_one_address_space() {
    let simulator = simulator_of(2);
    let addresses = [0, 1].map(|ordinal| {
        let context = simulator.device_primary_ctx_retain(Device(ordinal)).expect("a device");
        simulator.ctx_set_current(context).expect("a context");
        simulator.mem_alloc(usize::try_from(MEMORY).expect("64 bit")).expect("the whole device")
    });
    simulator.memset_d8(Stream::LEGACY, addresses[0], 8, 4).expect("fills");
    simulator.memcpy_dtod(Stream::LEGACY, addresses[1], addresses[0], 4).expect("copies");
    assert_eq!(read(&simulator, addresses[1], 4), [8; 4]);
    let peer = simulator.device_primary_ctx_retain(Device(0)).expect("a device");
    assert_eq!(simulator.ctx_disable_peer_access(peer), Err(CudaError::PEER_ACCESS_NOT_ENABLED));
    assert_eq!(simulator.ctx_enable_peer_access(peer, 0), Ok(()));
    assert_eq!(simulator.ctx_enable_peer_access(peer, 0), Err(CudaError::PEER_ACCESS_ALREADY_ENABLED));
}

#[test]
fn synchronous_calls_wait_for_the_device_once_the_program_says_so() {
    let simulator = simulator();
    let address = simulator.mem_alloc(64).expect("room");
    let to = address.offset(32).expect("inside");
    let is_done = || simulator.stream_query(Stream::LEGACY);
    let gate = gate();
    gate.queue(&simulator, Stream::LEGACY);
    simulator.memset_d8(Stream::LEGACY, address, 1, 32).expect("fills");
    simulator.memcpy_dtod(Stream::LEGACY, to, address, 32).expect("copies");
    assert_eq!(is_done(), Err(CudaError::NOT_READY), "neither waits by itself");
    gate.open();
    simulator.pointer_set_attribute(1, pointer_attribute::SYNC_MEMOPS, to).expect("the device's");
    for call in 0..3 {
        match call {
            0 => simulator.memset_d8(Stream::LEGACY, address, 2, 32),
            1 => simulator.memcpy_dtod(Stream::LEGACY, to, address, 32),
            _ => simulator.memset_d2d32(Stream::LEGACY, address, 8, 3, 1, 2),
        }
        .expect("inside");
        assert_eq!(is_done(), Ok(()), "{call}");
    }
    assert_eq!(read(&simulator, to, 2), [2, 2]);
}

#[test]
fn flags_that_change_what_is_made_are_refused() {
    let simulator = simulator();
    let location = MemLocation { kind: location_type::DEVICE, id: 0 };
    let memory = |usage| {
        let flags = MemAllocationFlags { usage, ..MemAllocationFlags::default() };
        let kind = allocation_type::PINNED;
        let properties = MemAllocationProperties { kind, location, flags, ..MemAllocationProperties::default() };
        simulator.mem_create(usize::try_from(GRANULARITY).expect("64 bit"), &properties, 0).map(drop)
    };
    assert_eq!([memory(0), memory(2)], [Ok(()); 2]);
    assert_eq!([memory(1), memory(8)], [Err(CudaError::NOT_SUPPORTED), Err(CudaError::INVALID_VALUE)]);
    let pool = |usage| {
        let properties =
            MemPoolProperties { kind: allocation_type::PINNED, location, usage, ..MemPoolProperties::default() };
        simulator.mem_pool_create(&properties).map(drop)
    };
    assert_eq!([pool(2), pool(1)], [Ok(()), Err(CudaError::INVALID_VALUE)]);
    assert_eq!(simulator.ctx_set_flags(context_flags::COREDUMP_ENABLE), Err(CudaError::NOT_SUPPORTED));
    assert_eq!(simulator.ctx_set_flags(context_flags::SCHED_MASK), Err(CudaError::INVALID_VALUE));
}

#[test]
fn a_streams_priority_is_the_one_it_was_given_last() {
    let simulator = simulator();
    let stream = simulator.stream_create_with_priority(0, -2).expect("a stream");
    let ask = || simulator.stream_get_attribute(stream, launch_attribute::PRIORITY).map(|value| value.as_u32());
    assert_eq!(ask(), Ok((-2_i32).cast_unsigned()));
    for (given, kept) in [(-1_i32, -1), (-99, -5), (7, 0)] {
        let value = LaunchAttributeValue::from_u32(given.cast_unsigned());
        simulator.stream_set_attribute(stream, launch_attribute::PRIORITY, &value).expect("known");
        assert_eq!(ask(), Ok(i32::cast_unsigned(kept)));
        assert_eq!(simulator.stream_get_priority(stream), Ok(kept));
    }
}
