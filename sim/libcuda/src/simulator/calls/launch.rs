//! Launches: function, geometry and parameters come in, a checked grid in stream order goes out.
//! Launches that CUDA refuses at the call are refused here, against the limits that the device reports. It never waits.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, Event, LaunchAttribute, Stream, launch_attribute as ask};
use floe_machine::{Grid, Kernel as MachineKernel, Launch as MachineLaunch};
use floe_surface::graph::{CaptureStream, HostWork, Work as Recorded};
use floe_surface::{HostFunction, Launch, LaunchCalls, ParameterLayout, check_preferred_cluster};

use super::context::ContextState;
use super::event::key_of;
use crate::simulator::Simulator;
use crate::simulator::code::kernel::{FunctionState, most_threads, need};
use crate::simulator::device::{limits, occupancy_rule};
use crate::simulator::executor::Work;

/// # Errors
/// INVALID_VALUE for what no device of these limits launches.
fn check_geometry(launch: &Launch<'_>, kernel: &MachineKernel) -> CudaResult<()> {
    let within = |sizes: [u32; 3], most: [u32; 3]| (0..3).all(|axis| (1..=most[axis]).contains(&sizes[axis]));
    if !within(launch.grid, limits::MAX_GRID) || !within(launch.block, limits::MAX_BLOCK) {
        return Err(CudaError::INVALID_VALUE);
    }
    let threads: u64 = launch.block.iter().map(|size| u64::from(*size)).product();
    if threads > u64::from(limits::MAX_THREADS_PER_BLOCK) {
        return Err(CudaError::INVALID_VALUE);
    }
    // More than the kernel's own bounds: what __launch_bounds__ promises cannot be kept.
    if threads > u64::from(most_threads(kernel)) {
        return Err(CudaError::INVALID_VALUE);
    }
    if kernel.required_block.is_some_and(|required| required != launch.block) {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(())
}

impl Simulator {
    fn check_shared(
        &self,
        launch: &Launch<'_>,
        state: &FunctionState,
        kernel: &MachineKernel,
        device: usize,
    ) -> CudaResult<()> {
        let whole = u64::from(kernel.static_shared) + u64::from(launch.shared_bytes);
        if launch.shared_bytes > state.dynamic_shared_limit(device, kernel)
            || whole > u64::from(limits::SHARED_PER_BLOCK_OPT_IN)
        {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(())
    }

    /// All blocks of a cooperative launch are resident together.
    fn check_cooperative(&self, launch: &Launch<'_>, kernel: &MachineKernel, device: usize) -> CudaResult<()> {
        let multiprocessors = self.devices.get(device).ok_or(CudaError::INVALID_DEVICE)?.identity.multiprocessors();
        let threads = launch.block.iter().product();
        let fitting =
            occupancy_rule::blocks_per_multiprocessor(need(kernel), threads, launch.shared_bytes.into(), None);
        let blocks = launch.grid.iter().fold(1_u64, |blocks, size| blocks.saturating_mul(u64::from(*size)));
        if blocks > u64::from(fitting) * u64::from(multiprocessors) {
            return Err(CudaError::COOPERATIVE_LAUNCH_TOO_LARGE);
        }
        Ok(())
    }

    /// The kernel of a launch that the device can do.
    pub(crate) fn checked(&self, launch: &Launch<'_>, context: &ContextState) -> CudaResult<Arc<MachineKernel>> {
        let (state, kernel) = self.resolve(launch.function.0, context)?;
        check_geometry(launch, &kernel)?;
        self.check_shared(launch, &state, &kernel, context.device)?;
        if launch.cooperative {
            self.check_cooperative(launch, &kernel, context.device)?;
        }
        Ok(kernel)
    }

    /// Records a launch on a stream that is captured, with the events its attributes ask for behind it.
    fn record_kernel(
        &self,
        launch: &Launch<'_>,
        context: &ContextState,
        stream: &CaptureStream,
        events: &[Event],
    ) -> CudaResult<()> {
        let refused = |error| self.graphs.refused_launch(stream, error);
        let mut work = self.kernel_work(launch, context).map_err(refused)?;
        work.attributes.retain(|attribute| !is_event(attribute.id));
        self.graphs.record(stream, Recorded::Kernel(work))?;
        events.iter().try_for_each(|event| self.graphs.record_event(stream, *event).map(drop))
    }

    fn grid(&self, launch: &Launch<'_>, context: &ContextState) -> CudaResult<Arc<Grid>> {
        let kernel = self.checked(launch, context)?;
        let parameters = parameters(launch, &kernel, &layout(&kernel)?)?;
        Grid::new(self.machine_launch(launch, kernel, parameters, context)?).map_err(|error| {
            crate::simulator::log::note(format_args!("launch refused: {error}"));
            CudaError::INVALID_VALUE
        })
    }

    /// A launch that was checked, for the machine.
    pub(crate) fn machine_launch(
        &self,
        launch: &Launch<'_>,
        kernel: Arc<MachineKernel>,
        parameters: Vec<u8>,
        context: &ContextState,
    ) -> CudaResult<MachineLaunch> {
        let device = self.devices.get(context.device).ok_or(CudaError::INVALID_DEVICE)?;
        Ok(MachineLaunch {
            kernel,
            grid: launch.grid,
            block: launch.block,
            dynamic_shared: launch.shared_bytes,
            parameters,
            cooperative: launch.cooperative,
            services: context.kernels.services(device, &self.memory),
        })
    }
}

fn number(number: u32) -> CudaResult<usize> {
    usize::try_from(number).map_err(|_| CudaError::INVALID_VALUE)
}

/// Offsets of the kernel's parameters in their block.
pub(crate) fn layout(kernel: &MachineKernel) -> CudaResult<Vec<ParameterLayout>> {
    let place = |offset, size| Ok(ParameterLayout { offset: number(offset)?, size: number(size)? });
    kernel.parameters.iter().map(|parameter| place(parameter.offset, parameter.size)).collect()
}

/// The block of a launch's parameters, as long as the kernel wants it.
pub(crate) fn parameters(
    launch: &Launch<'_>,
    kernel: &MachineKernel,
    layout: &[ParameterLayout],
) -> CudaResult<Vec<u8>> {
    let mut bytes = launch.arguments.pack(layout)?;
    let whole = number(kernel.parameter_bytes)?;
    if whole > limits::MAX_PARAMETER_BYTES {
        return Err(CudaError::INVALID_VALUE);
    }
    bytes.resize(whole, 0);
    Ok(bytes)
}

fn is_event(attribute: u32) -> bool {
    matches!(attribute, ask::PROGRAMMATIC_EVENT | ask::LAUNCH_COMPLETION_EVENT)
}

impl Simulator {
    /// The events that a launch's attributes ask to be recorded with it.
    ///
    /// # Errors
    /// NOT_SUPPORTED for an attribute that changes what the launch means and cannot be honoured.
    pub(crate) fn check_attributes(&self, attributes: &[LaunchAttribute], device: usize) -> CudaResult<Vec<Event>> {
        let mut events = Vec::new();
        check_preferred_cluster(attributes, None)?;
        for attribute in attributes {
            match attribute.id {
                // The kernel is done before anything behind it starts, which is the strictest these three can ask for.
                ask::PROGRAMMATIC_EVENT | ask::LAUNCH_COMPLETION_EVENT => events.push(Event(attribute.value.words[0])),
                ask::PROGRAMMATIC_STREAM_SERIALIZATION => {}
                ask::CLUSTER_DIMENSION | ask::PREFERRED_CLUSTER_DIMENSION => {
                    if attribute.value.as_dimensions().iter().any(|size| *size > 1) {
                        self.need_clusters(device)?;
                    }
                }
                ask::DEVICE_UPDATABLE_KERNEL_NODE => return Err(CudaError::NOT_SUPPORTED),
                // The remaining attributes are hints about caches, priorities and scheduling, or were read by the
                // surface.
                ask::IGNORE
                | ask::ACCESS_POLICY_WINDOW
                | ask::COOPERATIVE
                | ask::SYNCHRONIZATION_POLICY
                | ask::CLUSTER_SCHEDULING_POLICY_PREFERENCE
                | ask::PRIORITY
                | ask::MEM_SYNC_DOMAIN_MAP
                | ask::MEM_SYNC_DOMAIN
                | ask::PREFERRED_SHARED_MEMORY_CARVEOUT
                | ask::NVLINK_UTIL_CENTRIC_SCHEDULING => {}
                _ => return Err(CudaError::INVALID_VALUE),
            }
        }
        Ok(events)
    }
}

impl LaunchCalls for Simulator {
    fn launch_kernel(&self, launch: &Launch<'_>) -> CudaResult<()> {
        let (context, stream) = self.stream(launch.stream)?;
        self.executor.fault(context.serial)?;
        let events = self.check_attributes(launch.attributes, context.device);
        if let Some(captured) = self.capturing(launch.stream)? {
            let events = events.map_err(|error| self.graphs.refused_launch(&captured, error))?;
            return self.record_kernel(launch, &context, &captured, &events);
        }
        let events = events?;
        let grid = self.grid(launch, &context)?;
        self.executor.post(stream, Work::Kernel(grid))?;
        events.iter().try_for_each(|event| self.executor.record(stream, key_of(*event)))?;
        if self.launch_blocking {
            self.executor.wait_stream(stream);
            context.kernels.output.drain();
            self.executor.fault(context.serial)?;
        }
        Ok(())
    }

    fn launch_host_func(&self, stream: Stream, function: HostFunction) -> CudaResult<()> {
        let (context, key) = self.stream(stream)?;
        if let Some(captured) = self.capturing(stream)? {
            return self.graphs.record(&captured, Recorded::Host(HostWork::new(function)));
        }
        self.executor.post(key, Work::host_function(function, &context.kernels.output)).map(|_| ())
    }
}
