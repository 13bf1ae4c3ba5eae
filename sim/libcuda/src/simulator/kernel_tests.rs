//! The device as a program with kernels meets it: modules, launches, what is refused and what breaks a context.
//! The kernels are PTX as small as it gets, so that a failure here is this crate's or plainly the machine's.

use std::ffi::{CStr, c_void};

use floe_abi::{
    CudaError, CudaResult, Device, DevicePtr, Function, LaunchAttribute, Module, Stream, function_attribute,
    jit_option, limit,
};
use floe_image::{Image, ImageKind};
use floe_surface::{
    ContextCalls, CopyCalls, EventCalls, HostBlock, JitOptions, KernelArguments, KernelCalls, Launch, LaunchCalls,
    LibraryCalls, MemoryCalls, ModuleCalls, OccupancyCalls, StreamCalls,
};

use super::Simulator;
use super::tests::simulator;

/// Adds what the module's variable holds to the number at the address, once per thread.
const COUNT: &str = "
.version 8.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 step = 3;
.visible .entry count(.param .u64 where) {
    .reg .u64 %rd<4>;
    .reg .u32 %r<3>;
    ld.param.u64 %rd1, [where];
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [step];
    atom.global.add.u32 %r2, [%rd2], %r1;
    ret;
}
.visible .entry wide(.param .u32 first, .param .u64 second) .maxntid 64, 1, 1 {
    ret;
}
";

const BROKEN: &str = "
.version 8.0
.target sm_70
.address_size 64
.visible .entry good() { ret; }
.visible .entry bad() {
    frobnicate.u32 %r1;
    ret;
}
";

fn image(text: &str) -> Image<'static> {
    Image { kind: ImageKind::Ptx, containers: vec![text.as_bytes().to_vec().into()] }
}

fn load(simulator: &Simulator, text: &str) -> CudaResult<Module> {
    simulator.module_load_data(&image(text), &mut JitOptions::none())
}

fn function(simulator: &Simulator, name: &CStr) -> Function {
    let module = load(simulator, COUNT).expect("loads");
    simulator.module_get_function(module, name).expect("is there")
}

/// Launches `count` at `address`.
fn launch(simulator: &Simulator, function: Function, grid: u32, block: u32, address: u64) -> CudaResult<()> {
    let mut address = address;
    let mut pointers = [std::ptr::from_mut(&mut address).cast::<c_void>(); 2];
    launch_with(simulator, function, [grid, 1, 1], [block, 1, 1], 0, false, &mut pointers, &[])
}

#[allow(clippy::too_many_arguments)] // it is what a launch has
fn launch_with(
    simulator: &Simulator,
    function: Function,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    cooperative: bool,
    pointers: &mut [*mut c_void; 2],
    attributes: &[LaunchAttribute],
) -> CudaResult<()> {
    // SAFETY: both pointers lead to eight readable bytes, more than any parameter of these kernels has.
    let arguments = unsafe { KernelArguments::new(pointers.as_mut_ptr(), std::ptr::null_mut()) }.expect("an array");
    let stream = Stream::LEGACY;
    simulator.launch_kernel(&Launch { function, grid, block, shared_bytes, stream, cooperative, attributes, arguments })
}

fn number(simulator: &Simulator, address: DevicePtr) -> u32 {
    let block = HostBlock::new(4).expect("memory");
    simulator.memcpy_dtoh(Stream::LEGACY, block.range(), address).expect("copies");
    u32::from_le_bytes(block.range().to_vec().try_into().expect("four bytes"))
}

fn zero(simulator: &Simulator) -> DevicePtr {
    let address = simulator.mem_alloc(4).expect("room");
    let zero = HostBlock::new(4).expect("memory");
    simulator.memcpy_htod(Stream::LEGACY, address, zero.range()).expect("copies");
    address
}

#[test]
fn every_thread_of_a_launch_runs_once() {
    let simulator = simulator();
    let (count, address) = (function(&simulator, c"count"), zero(&simulator));
    launch(&simulator, count, 5, 70, address.0).expect("launches");
    assert_eq!(number(&simulator, address), 3 * 5 * 70);
}

#[test]
fn variable_of_a_module_can_be_written_and_is_seen_by_kernels() {
    let simulator = simulator();
    let module = load(&simulator, COUNT).expect("loads");
    let (step, bytes) = simulator.module_get_global(module, c"step").expect("is there");
    assert_eq!(bytes, 4);
    let ten = HostBlock::new(4).expect("memory");
    ten.range().write(&10_u32.to_le_bytes()).expect("fits");
    simulator.memcpy_htod(Stream::LEGACY, step, ten.range()).expect("copies");
    let (count, address) = (simulator.module_get_function(module, c"count").expect("is there"), zero(&simulator));
    launch(&simulator, count, 1, 2, address.0).expect("launches");
    assert_eq!(number(&simulator, address), 20);
    assert_eq!(simulator.module_get_global(module, c"stride").err(), Some(CudaError::NOT_FOUND));
}

#[test]
fn kernel_of_a_library_is_a_function_too() {
    let simulator = simulator();
    let library = simulator.library_load_data(image(COUNT), &mut JitOptions::none()).expect("loads");
    let kernel = simulator.library_get_kernel(library, c"count").expect("is there");
    let address = zero(&simulator);
    launch(&simulator, kernel.as_function(), 1, 32, address.0).expect("launches");
    let function = simulator.kernel_get_function(kernel).expect("loaded");
    launch(&simulator, function, 1, 32, address.0).expect("launches");
    assert_eq!(number(&simulator, address), 3 * 64);
    simulator.library_unload(library).expect("exists");
    assert_eq!(launch(&simulator, function, 1, 32, address.0), Err(CudaError::INVALID_HANDLE));
}

#[test]
fn same_sequence_of_loads_gives_the_same_addresses() {
    let addresses = [(); 2].map(|()| {
        let simulator = simulator();
        let modules = [(); 2].map(|()| load(&simulator, COUNT).expect("loads"));
        modules.map(|module| simulator.module_get_global(module, c"step").expect("is there").0)
    });
    assert_eq!(addresses[0], addresses[1]);
    assert_ne!(addresses[0][0], addresses[0][1]);
}

#[test]
fn parameters_and_attributes_are_told() {
    let simulator = simulator();
    let wide = function(&simulator, c"wide");
    assert_eq!(simulator.func_get_param_info(wide, 0), Ok((0, 4)));
    assert_eq!(simulator.func_get_param_info(wide, 1), Ok((8, 8)));
    assert_eq!(simulator.func_get_param_info(wide, 2), Err(CudaError::INVALID_VALUE));
    let ask = |attribute| simulator.func_get_attribute(attribute, wide);
    assert_eq!(ask(function_attribute::MAX_THREADS_PER_BLOCK), Ok(64));
    assert_eq!(ask(function_attribute::PTX_VERSION), Ok(70));
    assert_eq!(ask(function_attribute::BINARY_VERSION), Ok(90));
    assert_eq!(ask(function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES), Ok(48 << 10));
}

#[test]
fn launches_beyond_the_limits_are_refused_at_the_call() {
    let simulator = simulator();
    let (count, wide) = (function(&simulator, c"count"), function(&simulator, c"wide"));
    let mut zero = 0_u64;
    let mut pointers = [std::ptr::from_mut(&mut zero).cast::<c_void>(); 2];
    let mut launch = |function, grid, block, shared, cooperative| {
        launch_with(&simulator, function, grid, block, shared, cooperative, &mut pointers, &[])
    };
    let one = [1, 1, 1];
    assert_eq!(launch(count, [0, 1, 1], one, 0, false), Err(CudaError::INVALID_VALUE));
    assert_eq!(launch(count, [1, 65_536, 1], one, 0, false), Err(CudaError::INVALID_VALUE));
    assert_eq!(launch(count, one, [1024, 2, 1], 0, false), Err(CudaError::INVALID_VALUE));
    assert_eq!(launch(count, one, [1, 1, 65], 0, false), Err(CudaError::INVALID_VALUE));
    assert_eq!(launch(count, one, one, (48 << 10) + 1, false), Err(CudaError::INVALID_VALUE));
    assert_eq!(launch(wide, one, [65, 1, 1], 0, false), Err(CudaError::INVALID_VALUE));
    let large = launch(wide, [1 << 20, 1, 1], [64, 1, 1], 0, true);
    assert_eq!(large, Err(CudaError::COOPERATIVE_LAUNCH_TOO_LARGE));
    let attribute = function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(simulator.func_set_attribute(wide, attribute, 228 << 10), Err(CudaError::INVALID_VALUE));
    simulator.func_set_attribute(wide, attribute, 100 << 10).expect("within what a block may opt in to");
    assert_eq!(launch(wide, one, [64, 1, 1], 100 << 10, false), Ok(()));
    assert_eq!(simulator.ctx_synchronize(), Ok(()));
}

#[test]
fn a_heap_of_no_bytes_is_the_least_there_is_and_kernels_run() {
    let simulator = simulator();
    let heap = || simulator.ctx_get_limit(limit::MALLOC_HEAP_SIZE);
    for asked in [0, 1] {
        simulator.ctx_set_limit(limit::MALLOC_HEAP_SIZE, asked).expect("allowed before the first kernel");
        assert_eq!(heap(), Ok(4 << 20));
    }
    let mut zero = 0_u64;
    let mut pointers = [std::ptr::from_mut(&mut zero).cast::<c_void>(); 2];
    let wide = function(&simulator, c"wide");
    assert_eq!(launch_with(&simulator, wide, [1, 1, 1], [1, 1, 1], 0, false, &mut pointers, &[]), Ok(()));
    assert_eq!(simulator.ctx_synchronize(), Ok(()));
}

#[test]
fn occupancy_follows_the_reported_limits() {
    let simulator = simulator();
    let count = function(&simulator, c"count");
    let ask = |threads, shared| simulator.occupancy_max_active_blocks_per_multiprocessor(count, threads, shared, 0);
    assert_eq!(ask(1024, 0), Ok(2));
    assert_eq!(ask(32, 0), Ok(32));
    assert_eq!(ask(128, 40 << 10), Ok(5));
    assert_eq!(ask(0, 0), Err(CudaError::INVALID_VALUE));
}

#[test]
fn fault_of_a_kernel_breaks_its_context_until_it_is_reset() {
    let simulator = simulator();
    let count = function(&simulator, c"count");
    launch(&simulator, count, 1, 1, 0x10).expect("the address shows only when the kernel runs");
    assert_eq!(simulator.ctx_synchronize(), Err(CudaError::ILLEGAL_ADDRESS));
    assert_eq!(simulator.mem_alloc(4).err(), Some(CudaError::ILLEGAL_ADDRESS));
    assert_eq!(launch(&simulator, count, 1, 1, 0), Err(CudaError::ILLEGAL_ADDRESS));
    assert_eq!(simulator.stream_query(Stream::LEGACY), Err(CudaError::ILLEGAL_ADDRESS));
    assert_eq!(simulator.event_create(0).err(), Some(CudaError::ILLEGAL_ADDRESS));
    simulator.device_primary_ctx_reset(Device(0)).expect("a device");
    let (count, address) = (function(&simulator, c"count"), zero(&simulator));
    launch(&simulator, count, 1, 1, address.0).expect("a new context");
    assert_eq!(number(&simulator, address), 3);
}

#[test]
fn fault_of_one_context_leaves_another_alone() {
    let simulator = simulator();
    let (count, address) = (function(&simulator, c"count"), zero(&simulator));
    let other = simulator.ctx_create(0, Device(0)).expect("a device");
    let bad = function(&simulator, c"count");
    launch(&simulator, bad, 1, 1, 1 << 50).expect("the address shows only when the kernel runs");
    assert_eq!(simulator.ctx_synchronize(), Err(CudaError::ILLEGAL_ADDRESS));
    simulator.ctx_destroy(other).expect("exists");
    launch(&simulator, count, 1, 1, address.0).expect("not broken");
    assert_eq!(number(&simulator, address), 3);
}

#[test]
fn unknown_instruction_refuses_its_kernel_and_no_other() {
    let simulator = simulator();
    let module = load(&simulator, BROKEN).expect("one kernel can run");
    assert_eq!(simulator.module_get_function(module, c"bad").err(), Some(CudaError::NOT_SUPPORTED));
    let good = simulator.module_get_function(module, c"good").expect("is there");
    assert_eq!(launch(&simulator, good, 1, 1, 0), Ok(()));
    assert_eq!(simulator.module_get_function(module, c"none").err(), Some(CudaError::NOT_FOUND));
}

#[test]
fn syntax_error_is_told_with_line_and_column() {
    let simulator = simulator();
    let mut log = [0_u8; 200];
    let keys = [jit_option::ERROR_LOG_BUFFER, jit_option::ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(log.len())];
    // SAFETY: two elements each, and a buffer as long as its size says, all alive to the end of the test.
    let mut options = unsafe { JitOptions::from_c(2, keys.as_ptr(), values.as_mut_ptr()) }.expect("valid");
    let text = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry k() {\n    ret\n}\n";
    let refused = simulator.module_load_data(&image(text), &mut options);
    assert_eq!(refused.err(), Some(CudaError::INVALID_PTX));
    let log = CStr::from_bytes_until_nul(&log).expect("ends").to_string_lossy().into_owned();
    assert!(log.contains("line 6, column 1"), "the log says: {log}");
}

#[test]
fn image_that_cannot_run_here_is_refused_with_the_code_of_its_kind() {
    let simulator = simulator();
    let cubin = Image { kind: ImageKind::Cubin, containers: vec![vec![0x7f, b'E', b'L', b'F'].into()] };
    let refused = simulator.module_load_data(&cubin, &mut JitOptions::none());
    assert_eq!(refused.err(), Some(CudaError::NO_BINARY_FOR_GPU));
    let later = COUNT.replace(".version 8.0", ".version 12.0");
    assert_eq!(load(&simulator, &later).err(), Some(CudaError::UNSUPPORTED_PTX_VERSION));
}
