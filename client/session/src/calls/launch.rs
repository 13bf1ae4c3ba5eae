//! Launches. Function, sizes and parameters come in; what CUDA refuses at once is refused here, and one message is posted.
//! Parameters are packed by the kernel's layout, so that the server never sees an address of the program's.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, Stream};
use floe_surface::graph::{HostWork as HostWorkOfNode, Work};
use floe_surface::{HostFunction, Launch, LaunchCalls, ParameterRoom, check_preferred_cluster};

use crate::client::Client;
use crate::log::log;
use crate::objects::function::FunctionState;
use crate::objects::stream::StreamState;
use crate::vgpu::attributes::{self, Attributes};
use crate::vgpu::connection::HostWork;
use crate::vgpu::occupancy::ClusterLaunch;
use floe_lock::lock;

/// Blocks per cluster that every device with clusters can run.
const PORTABLE_CLUSTER: u64 = 8;

/// Whether the grid is made of whole clusters, each of a size every device can run.
fn is_whole(grid: [u32; 3], cluster: [u32; 3]) -> bool {
    let blocks: u64 = cluster.iter().map(|size| u64::from(*size)).product();
    let fits = grid.iter().zip(cluster).all(|(grid, cluster)| cluster != 0 && grid.is_multiple_of(cluster));
    fits && (1..=PORTABLE_CLUSTER).contains(&blocks)
}

/// A launch as it travels.
#[inline(always)]
fn message<'a>(
    launch: &Launch<'_>,
    function: &FunctionState,
    stream: &StreamState,
    parameters: &'a [u8],
    attributes: &'a Attributes,
) -> floe_wire::Launch<'a> {
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
    floe_wire::Launch {
        kernel: floe_wire::KernelId(function.id()),
        stream: stream.id(),
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        shared: launch.shared_bytes,
        parameters,
        attributes: attributes.on_wire(),
    }
}

impl Client {
    /// A launch's parameters as they travel; kernels can reach the pinned memory among them.
    #[inline(always)]
    fn parameters<'r>(
        &self,
        launch: &Launch<'_>,
        function: &FunctionState,
        room: &'r mut ParameterRoom,
    ) -> CudaResult<&'r [u8]> {
        let parameters = launch.arguments.pack_in_place(function.layout(), room)?;
        self.mirror_named(parameters, &function.vgpu);
        Ok(parameters)
    }

    /// Posts a launch with attributes, or of clusters.
    fn launch_with_attributes(
        &self,
        launch: &Launch<'_>,
        function: &FunctionState,
        stream: &StreamState,
    ) -> CudaResult<()> {
        if launch.cooperative {
            function.check_cooperative(launch.grid, launch.block, launch.shared_bytes)?;
        }
        let mut attributes = Attributes::of_launch(launch)?;
        check_preferred_cluster(launch.attributes, function.cluster())?;
        attributes.name_events(|event| Ok(self.event(event)?.id()))?;
        let mut room = ParameterRoom::new();
        let parameters = self.parameters(launch, function, &mut room)?;
        let cluster = attributes.cluster().or_else(|| function.cluster()).filter(|sizes| *sizes != [1, 1, 1]);
        // Whether a cluster fits is waited for below, and depends on how the kernel is set.
        cluster.map_or(Ok(()), |_| function.settle())?;
        let cluster = cluster.map(|sizes| (sizes, lock(&stream.vgpu.occupancy).now()));
        // Behind the parameters, which may lie in managed memory.
        let leaving = stream.vgpu.flush_for_launch(stream.id().0)?;
        self.post_recording(stream, launch, &message(launch, function, stream, parameters, &attributes))?;
        drop(leaving);
        let Some((cluster, now)) = cluster else { return Ok(()) };
        // Whether a cluster fits only the device knows, and CUDA says so at the launch: the first launch of its kind waits
        // for the answer.
        let (block, shared, whole) = (launch.block, launch.shared_bytes, is_whole(launch.grid, cluster));
        let kind = ClusterLaunch { kernel: function.id(), settings: function.settings(), cluster, block, shared };
        let is_accepted = whole && lock(&stream.vgpu.occupancy).has_accepted(&kind);
        if is_accepted { Ok(()) } else { function.confirm(kind, whole, now) }
    }

    /// Posts a launch. One that records events does so for each of them.
    fn post_recording(
        &self,
        stream: &StreamState,
        launch: &Launch<'_>,
        message: &floe_wire::Launch<'_>,
    ) -> CudaResult<()> {
        let mut events = attributes::events(launch.attributes);
        let Some(event) = events.next() else {
            return stream.post(message);
        };
        if events.next().is_some() {
            log!(Warn, "cuLaunchKernelEx: a launch that records two events is not supported");
            return Err(CudaError::NOT_SUPPORTED);
        }
        let event = self.event(event)?;
        if !Arc::ptr_eq(&event.vgpu, &stream.vgpu) {
            return Err(CudaError::INVALID_HANDLE);
        }
        if !event.is_for_launches() {
            return Err(CudaError::INVALID_VALUE);
        }
        event.record_by(stream.progress(), || stream.vgpu.connection.post(message))
    }
}

impl LaunchCalls for Client {
    fn launch_kernel(&self, launch: &Launch<'_>) -> CudaResult<()> {
        if let Some(stream) = self.capturing(launch.stream)? {
            let refused = |error| self.graphs.refused_launch(&stream.for_capture(), error);
            return self.record_launch(&stream, launch).map_err(refused);
        }
        let stream = self.working_stream(launch.stream)?;
        let function = self.function(launch.function)?;
        let (stream, function): (&StreamState, &FunctionState) = (&stream, &function);
        if function.vgpu.ordinal != stream.vgpu.ordinal {
            return Err(CudaError::INVALID_HANDLE);
        }
        function.check_launch(&stream.vgpu.limits, launch.grid, launch.block, launch.shared_bytes)?;
        if launch.cooperative || !launch.attributes.is_empty() || function.cluster().is_some() {
            return self.launch_with_attributes(launch, function, stream);
        }
        let (mut room, attributes) = (ParameterRoom::new(), Attributes::default());
        let parameters = self.parameters(launch, function, &mut room)?;
        // Behind the parameters, which may lie in managed memory.
        let _leaving = stream.vgpu.flush_for_launch(stream.id().0)?;
        stream.post(&message(launch, function, stream, parameters, &attributes))
    }

    fn launch_host_func(&self, stream: Stream, function: HostFunction) -> CudaResult<()> {
        if let Some(stream) = self.capturing(stream)? {
            return self.record_work(&stream, Work::Host(HostWorkOfNode::new(function)));
        }
        let stream = self.working_stream(stream)?;
        stream.vgpu.host_function(stream.progress(), HostWork::Function(function))
    }
}
