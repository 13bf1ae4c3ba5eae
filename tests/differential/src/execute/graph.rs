//! Graphs by the driver's functions: built node by node, or captured.
//! In: nodes in lanes. Out: graphs, and instances that are launched and changed. It never launches what the model has
//! not admitted.

use std::ptr::null_mut;

use anyhow::{Context as _, Result, bail, ensure};
use cudarc::driver::sys;

use super::held::{Held, Instance, Made};
use super::state::Executor;
use super::work::Launch;
use crate::device::{CHANGE, Change, cu};
use crate::model::Model;
use crate::operation::{Id, Kernel, Kind, Node, Operation, Place, Step, Stream, Which, Work};

impl Executor {
    pub(super) fn carry_out_graph(&mut self, operation: &Operation, model: &Model) -> Result<()> {
        match operation {
            Operation::Graph { graph, vgpu, nodes, captured } => {
                self.enter(*vgpu)?;
                let made = if *captured {
                    self.capture(*vgpu, *graph, nodes, model)?
                } else {
                    self.build(*vgpu, nodes, model)?
                };
                self.graphs.insert(*graph, made);
                Ok(())
            }
            Operation::Instantiate { instance, graph } => {
                let made = &self.graphs[graph];
                let (vgpu, from) = (made.vgpu, made.graph);
                self.enter(vgpu)?;
                let mut handle = null_mut();
                cu!(cuGraphInstantiateWithFlags(&raw mut handle, from, 0))?;
                self.instances.insert(*instance, Instance { vgpu, instance: handle, graph: *graph });
                Ok(())
            }
            Operation::Update { instance, graph } => {
                let (instance, graph) = (self.instances[instance].instance, &self.graphs[graph]);
                let mut info = sys::CUgraphExecUpdateResultInfo {
                    result: sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR,
                    errorNode: null_mut(),
                    errorFromNode: null_mut(),
                };
                cu!(cuGraphExecUpdate_v2(instance, graph.graph, &raw mut info)).with_context(|| format!("{info:?}"))
            }
            Operation::SetNode { instance, node, work } => self.set_node(*instance, *node, work, model),
            Operation::LaunchGraph { instance, stream } => {
                let handle = self.stream(*stream)?;
                cu!(cuGraphLaunch(self.instances[instance].instance, handle))
            }
            Operation::DropGraph { graph } => {
                let made = self.graphs.remove(graph).context("no such graph")?;
                cu!(cuGraphDestroy(made.graph))
            }
            Operation::DropInstance { instance } => {
                let dropped = self.instances.remove(instance).context("no such instance")?;
                cu!(cuGraphExecDestroy(dropped.instance))
            }
            _ => bail!("not an operation of graphs: {operation:?}"),
        }
    }

    fn build(&mut self, vgpu: usize, nodes: &[Node], model: &Model) -> Result<Made> {
        let (mut graph, mut made) = (null_mut(), Vec::new());
        cu!(cuGraphCreate(&raw mut graph, 0))?;
        for (index, node) in nodes.iter().enumerate() {
            let in_lane = (0..index).rev().find(|other| nodes[*other].lane == node.lane);
            let mut behind: Vec<usize> = in_lane.into_iter().chain(node.after).collect();
            behind.dedup();
            let behind: Vec<sys::CUgraphNode> = behind.into_iter().map(|other| made[other]).collect();
            made.push(self.add_node(vgpu, graph, &behind, &node.what, model)?);
        }
        Ok(Made { vgpu, graph, nodes: made })
    }

    fn add_node(
        &mut self,
        vgpu: usize,
        graph: sys::CUgraph,
        behind: &[sys::CUgraphNode],
        step: &Step,
        model: &Model,
    ) -> Result<sys::CUgraphNode> {
        let mut node = null_mut();
        let (first, count, context) = (behind.as_ptr(), behind.len(), self.vgpus[vgpu].context);
        match step {
            Step::Allocate { block, bytes } => {
                let mut parameters = allocation(self.vgpus[vgpu].location(), *bytes);
                cu!(cuGraphAddMemAllocNode(&raw mut node, graph, first, count, &raw mut parameters))?;
                self.hold(*block, vgpu, *bytes, parameters.dptr);
            }
            Step::Free { block } => {
                let address = self.address(Place { block: *block, offset: 0 });
                cu!(cuGraphAddMemFreeNode(&raw mut node, graph, first, count, address))?;
            }
            Step::Work(Work::Copy { .. } | Work::Box { .. }) => {
                let copy = self.copy_of(step)?;
                cu!(cuGraphAddMemcpyNode(&raw mut node, graph, first, count, &raw const copy, context))?;
            }
            Step::Work(work @ Work::Fill { .. }) => {
                let fill = self.fill_of(work)?;
                cu!(cuGraphAddMemsetNode(&raw mut node, graph, first, count, &raw const fill, context))?;
            }
            Step::Work(Work::Kernel(kernel)) => {
                let mut launch = self.prepare(vgpu, kernel, model)?;
                let mut arguments = launch.arguments();
                let parameters = kernel_of(&launch, &mut arguments);
                cu!(cuGraphAddKernelNode_v2(&raw mut node, graph, first, count, &raw const parameters))?;
            }
            Step::Work(Work::Function { at, words, multiply, add }) => {
                let parameters = self.function_of(*at, *words, *multiply, *add);
                cu!(cuGraphAddHostNode(&raw mut node, graph, first, count, &raw const parameters))?;
            }
            Step::Work(Work::Write { at, bytes, value }) => {
                let mut written = write_of(self.address(*at), *bytes, *value)?;
                let parameters = sys::CUDA_BATCH_MEM_OP_NODE_PARAMS {
                    ctx: context,
                    count: 1,
                    paramArray: &raw mut written,
                    flags: 0,
                };
                cu!(cuGraphAddBatchMemOpNode(&raw mut node, graph, first, count, &raw const parameters))?;
            }
            Step::Work(work) => bail!("no node does this: {work:?}"),
        }
        Ok(node)
    }

    /// Notes memory that a graph allocates.
    fn hold(&mut self, block: Id, vgpu: usize, bytes: usize, address: u64) {
        let mut held = Held::new(Kind::OfGraph, vgpu, bytes, 1);
        held.address = address;
        self.blocks.insert(block, held);
    }

    fn copy_of(&self, step: &Step) -> Result<sys::CUDA_MEMCPY3D> {
        match step {
            Step::Work(Work::Copy { to, from, bytes, .. }) => {
                let [to, from] = [to, from].map(|at| crate::operation::End { at: *at, pitch: *bytes, height: 1 });
                Ok(self.box_of(to, from, [*bytes, 1, 1]))
            }
            Step::Work(Work::Box { to, from, extent }) => Ok(self.box_of(*to, *from, *extent)),
            other => bail!("not a copy: {other:?}"),
        }
    }

    fn fill_of(&self, work: &Work) -> Result<sys::CUDA_MEMSET_NODE_PARAMS> {
        let Work::Fill { at, unit, value, columns, rows } = work else { bail!("not a fill: {work:?}") };
        let mask = if *unit == 4 { u32::MAX } else { (1 << (8 * unit)) - 1 };
        Ok(sys::CUDA_MEMSET_NODE_PARAMS {
            dst: self.address(at.at),
            pitch: self.pitch(*at),
            value: value & mask,
            elementSize: u32::try_from(*unit)?,
            width: *columns,
            height: *rows,
        })
    }

    fn function_of(&mut self, at: Place, words: usize, multiply: u32, add: u32) -> sys::CUDA_HOST_NODE_PARAMS {
        let data = self.change(Change { address: self.host_address(at), words, multiply, add });
        sys::CUDA_HOST_NODE_PARAMS { fn_: CHANGE, userData: data }
    }

    fn set_node(&mut self, instance: Id, node: usize, work: &Work, model: &Model) -> Result<()> {
        let held = &self.instances[&instance];
        let (vgpu, handle) = (held.vgpu, held.instance);
        let made = &self.graphs[&held.graph];
        ensure!(made.vgpu == vgpu && node < made.nodes.len(), "the graph has no such node");
        let (node, context) = (made.nodes[node], self.vgpus[vgpu].context);
        self.enter(vgpu)?;
        match work {
            Work::Copy { .. } => {
                let copy = self.copy_of(&Step::Work(work.clone()))?;
                cu!(cuGraphExecMemcpyNodeSetParams(handle, node, &raw const copy, context))
            }
            Work::Fill { .. } => {
                let fill = self.fill_of(work)?;
                cu!(cuGraphExecMemsetNodeSetParams(handle, node, &raw const fill, context))
            }
            Work::Kernel(kernel) => {
                let mut launch = self.prepare(vgpu, kernel, model)?;
                let mut arguments = launch.arguments();
                let parameters = kernel_of(&launch, &mut arguments);
                cu!(cuGraphExecKernelNodeSetParams_v2(handle, node, &raw const parameters))
            }
            Work::Function { at, words, multiply, add } => {
                let parameters = self.function_of(*at, *words, *multiply, *add);
                cu!(cuGraphExecHostNodeSetParams(handle, node, &raw const parameters))
            }
            _ => bail!("no node does this: {work:?}"),
        }
    }

    /// Captures the nodes: each lane is a stream that branches off the first.
    fn capture(&mut self, vgpu: usize, id: Id, nodes: &[Node], model: &Model) -> Result<Made> {
        let lanes = nodes.iter().map(|node| node.lane).max().unwrap_or(0) + 1;
        while self.vgpus[vgpu].lanes.len() < lanes {
            let mut lane = null_mut();
            cu!(cuStreamCreate(&raw mut lane, 1))?;
            self.vgpus[vgpu].lanes.push(lane);
        }
        let streams = self.vgpus[vgpu].lanes[..lanes].to_vec();
        self.prepare_textures(nodes)?;
        let mode = match id % 3 {
            0 => sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
            1 => sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            _ => sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
        };
        let mut events = Vec::new();
        for _ in 0..lanes + nodes.len() {
            let mut event = null_mut();
            cu!(cuEventCreate(&raw mut event, 2))?;
            events.push(event);
        }
        let origin = streams[0];
        cu!(cuStreamBeginCapture_v2(origin, mode))?;
        cu!(cuEventRecord(events[0], origin))?;
        for lane in &streams[1..] {
            cu!(cuStreamWaitEvent(*lane, events[0], 0))?;
        }
        for (index, node) in nodes.iter().enumerate() {
            let lane = streams[node.lane];
            if let Some(after) = node.after {
                cu!(cuStreamWaitEvent(lane, events[lanes + after], 0))?;
            }
            self.captures = true;
            let captured = self.capture_node(vgpu, node, lane, model);
            self.captures = false;
            captured?;
            cu!(cuEventRecord(events[lanes + index], lane))?;
        }
        for (lane, event) in streams.iter().zip(&events).skip(1) {
            cu!(cuEventRecord(*event, *lane))?;
            cu!(cuStreamWaitEvent(origin, *event, 0))?;
        }
        let mut graph = null_mut();
        cu!(cuStreamEndCapture(origin, &raw mut graph))?;
        for event in events {
            cu!(cuEventDestroy_v2(event))?;
        }
        Ok(Made { vgpu, graph, nodes: Vec::new() })
    }

    /// Makes what may not be made during a capture.
    fn prepare_textures(&mut self, nodes: &[Node]) -> Result<()> {
        for node in nodes {
            match node.what {
                Step::Work(Work::Kernel(Kernel::Texture { array, .. })) => drop(self.texture(array)?),
                Step::Work(Work::Kernel(Kernel::Surface { array, .. })) => drop(self.surface(array)?),
                _ => {}
            }
        }
        Ok(())
    }

    fn capture_node(&mut self, vgpu: usize, node: &Node, lane: sys::CUstream, model: &Model) -> Result<()> {
        match &node.what {
            Step::Work(work) => {
                // The lanes are streams of no program's.
                let stream = Stream { vgpu, which: Which::Own(Id::MAX) };
                self.streams.insert(stream, lane);
                let done = self.work(stream, work, model);
                self.streams.remove(&stream);
                done
            }
            Step::Allocate { block, bytes } => {
                let mut address = 0;
                cu!(cuMemAllocAsync(&raw mut address, *bytes, lane))?;
                self.hold(*block, vgpu, *bytes, address);
                Ok(())
            }
            Step::Free { block } => {
                let address = self.address(Place { block: *block, offset: 0 });
                cu!(cuMemFreeAsync(address, lane))
            }
        }
    }
}

fn kernel_of(launch: &Launch, arguments: &mut [*mut std::ffi::c_void; 6]) -> sys::CUDA_KERNEL_NODE_PARAMS {
    sys::CUDA_KERNEL_NODE_PARAMS {
        func: launch.function,
        gridDimX: launch.blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: launch.threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        kernelParams: arguments.as_mut_ptr(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    }
}

fn write_of(address: u64, bytes: usize, value: u64) -> Result<sys::CUstreamBatchMemOpParams> {
    let operation = if bytes == 4 {
        sys::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32
    } else {
        sys::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_64
    };
    let mut written = sys::CUstreamBatchMemOpParams { pad: [0; 6] };
    let value = if bytes == 4 { value & u64::from(u32::MAX) } else { value };
    written.writeValue = sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st {
        operation,
        address,
        __bindgen_anon_1: sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st__bindgen_ty_1 {
            value64: value,
        },
        flags: 0,
        alias: 0,
    };
    Ok(written)
}

fn allocation(location: sys::CUmemLocation, bytes: usize) -> sys::CUDA_MEM_ALLOC_NODE_PARAMS {
    sys::CUDA_MEM_ALLOC_NODE_PARAMS {
        poolProps: sys::CUmemPoolProps {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location,
            win32SecurityAttributes: null_mut(),
            maxSize: 0,
            usage: 0,
            reserved: [0; 54],
        },
        accessDescs: std::ptr::null(),
        accessDescCount: 0,
        bytesize: bytes,
        dptr: 0,
    }
}
