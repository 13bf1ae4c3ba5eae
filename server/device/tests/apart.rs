//! What the worker pins for itself, and contexts that stay, on the CPU device of `FLOE_DIST`, else of `target/dist`.
//! In: a kernel that is given its address; a reset. Out: a fault, while copies go there; what was made before and its limits.

use std::path::PathBuf;

use floe_abi::{CudaError, DevicePtr, Stream};
use floe_device::{
    Content, Device as _, Gpu, Image, ImageKind, LaunchRequest, Loading, PageSize, Pinned as _, PlainCalls as _,
};

const AT: DevicePtr = DevicePtr(0x2000_0000_0000);
const BYTES: u64 = 2 << 20;
const TEXT: &[u8] = b".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry writes(.param .u64 at)\n{\n\
    .reg .u64 %a; .reg .u32 %v; ld.param.u64 %a, [at]; mov.u32 %v, 7; st.global.u32 [%a], %v; ret;\n}\n";

fn cpu_device() -> String {
    let target =
        || std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "../../target".into(), PathBuf::from).join("dist");
    let library = std::env::var_os("FLOE_DIST").map_or_else(target, PathBuf::from).join("lib/device/libcuda.so.1");
    library.canonicalize().expect("`cargo xtask dist` makes it").display().to_string()
}

#[test]
fn kernels_do_not_reach_what_the_worker_pins_for_copies() {
    let gpu = Gpu::start(&cpu_device(), 0, || ()).expect("a CPU device");
    assert_eq!(gpu.reserve(BYTES, AT), Ok(AT));
    let memory = gpu.create_memory(BYTES).expect("memory");
    gpu.map(AT, BYTES, 0, memory).expect("mapped");
    gpu.set_access(AT, BYTES, 3).expect("accessible");
    let pinned = gpu.pin(4096, PageSize::Small).expect("pinned");
    let mut address = 0;
    pinned.fill(0, 4096, &mut |bytes| {
        bytes.fill(9);
        address = bytes.as_ptr().expose_provenance() as u64;
    });
    gpu.upload(AT, &pinned, 0, 4096, Stream::default()).expect("queued");
    gpu.download(&pinned, 0, AT, 4096, Stream::default()).expect("queued");
    gpu.ctx_synchronize().expect("copies go there");
    let image = Image { kind: ImageKind::Ptx, contents: vec![Content::from(TEXT)] };
    let (code, _) = gpu.load(image, &Loading { at_once: true, options: vec![], log_bytes: 0 }).expect("it loads");
    let function = gpu.find_kernel(code, "writes").expect("it is there");
    let launch = |at: u64| {
        let (grid, block, parameters) = ([1; 3], [1; 3], at.to_le_bytes());
        let stream = Stream::default();
        gpu.launch(&LaunchRequest {
            function,
            grid,
            block,
            shared_bytes: 0,
            stream,
            attributes: &[],
            parameters: &parameters,
        })?;
        gpu.ctx_synchronize()
    };
    assert_eq!(launch(AT.0), Ok(()));
    assert_eq!(launch(address), Err(CudaError::ILLEGAL_ADDRESS));
}

#[test]
fn a_context_that_is_kept_outlives_its_resets_and_has_its_first_limits() {
    const STACK: i32 = 0;
    let mut gpu = Gpu::start(&cpu_device(), 0, || ()).expect("a CPU device");
    let first = gpu.costs().expect("its limits").defaults.stack;
    let event = gpu.event_create(0).expect("an event");
    gpu.reset().expect("a new context");
    assert!(gpu.event_query(event).is_err(), "it was of the context before");
    gpu.keep_context().expect("its limits");
    let event = gpu.event_create(0).expect("an event");
    for _ in 0..2 {
        gpu.set_limit(STACK, 2 * first).expect("a limit");
        gpu.reset().expect("the same context");
        assert_eq!(gpu.costs().expect("its limits").defaults.stack, first);
        assert_eq!(gpu.event_query(event), Ok(()));
    }
}
