//! What the worker pins for itself, on the CPU device of `FLOE_DIST`, else of `target/dist`.
//! In: a kernel that is given its address. Out: a fault, while copies go there. The fault is the whole process's: its
//! primary context is of no use afterwards, so no other test is in this file.

mod device;

use device::cpu_device;
use floe_abi::{CudaError, DevicePtr, Stream};
use floe_device::{
    Content, Device as _, Gpu, Image, ImageKind, LaunchRequest, Loading, PageSize, Pinned as _, PlainCalls as _,
};

const AT: DevicePtr = DevicePtr(0x2000_0000_0000);
const BYTES: u64 = 2 << 20;
const TEXT: &[u8] = b".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry writes(.param .u64 at)\n{\n\
    .reg .u64 %a; .reg .u32 %v; ld.param.u64 %a, [at]; mov.u32 %v, 7; st.global.u32 [%a], %v; ret;\n}\n";

#[test]
fn kernels_do_not_reach_what_the_worker_pins_for_copies() {
    let gpu = Gpu::start(&cpu_device(), floe_device::Place::Among(0), || ()).expect("a CPU device");
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
