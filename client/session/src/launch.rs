//! Launches. Function, sizes and parameters come in; what CUDA refuses at once is refused here, and one message is posted.
//! Parameters are packed by the kernel's layout, so that the server never sees an address of the program's.

use floe_abi::{CudaError, CudaResult, LaunchAttribute, Stream, launch_attribute};
use floe_surface::{HostFunction, Launch, LaunchCalls};

use crate::client::Client;
use crate::connection::HostWork;
use crate::log::log;

/// Whether an attribute's value means the same at the server: plain numbers and device addresses do.
fn is_portable(id: u32) -> bool {
    use launch_attribute as a;
    matches!(
        id,
        a::ACCESS_POLICY_WINDOW
            | a::COOPERATIVE
            | a::SYNCHRONIZATION_POLICY
            | a::CLUSTER_DIMENSION
            | a::CLUSTER_SCHEDULING_POLICY_PREFERENCE
            | a::PROGRAMMATIC_STREAM_SERIALIZATION
            | a::PRIORITY
            | a::MEM_SYNC_DOMAIN_MAP
            | a::MEM_SYNC_DOMAIN
            | a::PREFERRED_CLUSTER_DIMENSION
            | a::PREFERRED_SHARED_MEMORY_CARVEOUT
            | a::NVLINK_UTIL_CENTRIC_SCHEDULING
    )
}

/// The bytes of an attribute's value.
fn value_bytes(attribute: &LaunchAttribute) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(attribute.value.words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The attributes to send, with their values' bytes. A launch without attributes allocates nothing here.
fn portable(launch: &Launch<'_>) -> CudaResult<Vec<(u32, [u8; 64])>> {
    let mut attributes = Vec::new();
    for attribute in launch.attributes {
        if attribute.id == launch_attribute::IGNORE {
            continue;
        }
        if !is_portable(attribute.id) {
            log!(Warn, "cuLaunchKernelEx: a launch attribute is not supported: CUlaunchAttributeID {}", attribute.id);
            return Err(CudaError::NOT_SUPPORTED);
        }
        attributes.push((attribute.id, value_bytes(attribute)));
    }
    let told = attributes.iter().any(|(id, _)| *id == launch_attribute::COOPERATIVE);
    if launch.cooperative && !told {
        let mut bytes = [0; 64];
        bytes[0] = 1;
        attributes.push((launch_attribute::COOPERATIVE, bytes));
    }
    Ok(attributes)
}

impl LaunchCalls for Client {
    fn launch_kernel(&self, launch: &Launch<'_>) -> CudaResult<()> {
        let _call = self.enter();
        let stream = self.working_stream(launch.stream)?;
        let function = self.function(launch.function)?;
        let session = &stream.session;
        if function.session.ordinal != session.ordinal {
            return Err(CudaError::INVALID_HANDLE);
        }
        session.limits.check(&function.limits(), launch.grid, launch.block, launch.shared_bytes)?;
        if launch.cooperative {
            function.check_cooperative(launch.grid, launch.block, launch.shared_bytes)?;
        }
        let attributes = portable(launch)?;
        let parameters = launch.arguments.pack(function.layout())?;
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
        stream.post(&floe_wire::Launch {
            kernel: floe_wire::KernelId(function.id()),
            stream: stream.id(),
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            shared: launch.shared_bytes,
            parameters: &parameters,
            attributes: attributes.iter().map(|(id, value)| floe_wire::LaunchAttribute { id: *id, value }).collect(),
        })
    }

    fn launch_host_func(&self, stream: Stream, function: HostFunction) -> CudaResult<()> {
        let _call = self.enter();
        let stream = self.working_stream(stream)?;
        let session = &stream.session;
        session.connection.host_function(stream.course(), session.next_id(), HostWork::Function(function))
    }
}
