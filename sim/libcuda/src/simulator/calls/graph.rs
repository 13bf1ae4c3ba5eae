//! Graphs on the CPU device. The surface keeps them; kernels, copies and fills come in to be checked, plans to be run.
//! A plan becomes a script that is queued as a whole at every launch; host ends of copies are read and written then.

mod conditional;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use floe_abi::{
    Array, Context, CudaError, CudaResult, Event, Graph, GraphExec, MemsetNodeParams, Stream, StreamMemoryOperation,
};
use floe_surface::graph::{ExecFlags, Graphs, KernelWork, ParameterBlock, Plan, PlanNode, Work};
use floe_surface::{CopyBox, CopyPlace, GraphCalls, KernelArguments, Launch};

use self::conditional::{Flat, Known};
use super::context::ContextState;
use super::event::key_of;
use super::launch::layout;
use crate::simulator::Simulator;
use crate::simulator::executor::replay::{Scene, Script, Stage, Step};
use crate::simulator::executor::transfer::Transfer;
use crate::simulator::log::warn_once;
use floe_lock::lock;

/// One instantiated graph.
struct ExecState {
    script: Script,
    /// Where values decide: all scenes, from which the script is made again when one of them changes.
    flat: Option<Flat>,
    stage: Stage,
}

/// All instantiated graphs of the process.
#[derive(Default)]
pub(crate) struct Execs {
    by_handle: Mutex<HashMap<u64, Arc<Mutex<ExecState>>>>,
    /// The conditional handles of graphs.
    conditions: Mutex<HashMap<Graph, Vec<Known>>>,
}

impl Execs {
    fn get(&self, exec: GraphExec) -> CudaResult<Arc<Mutex<ExecState>>> {
        lock(&self.by_handle).get(&exec.0).cloned().ok_or(CudaError::INVALID_VALUE)
    }
}

/// A kernel node's launch, but for the parameters, which are packed.
fn launch_of(work: &KernelWork) -> Launch<'_> {
    let launch = Launch {
        function: work.function,
        grid: work.grid,
        block: work.block,
        shared_bytes: work.shared_bytes,
        stream: Stream::LEGACY,
        cooperative: false,
        attributes: &[],
        arguments: KernelArguments::NONE,
    };
    launch.with_attributes(&work.attributes)
}

/// The arrays that a plan's copies name.
fn arrays(plan: &Plan) -> impl Iterator<Item = Array> {
    let copies = plan.nodes.iter().filter_map(|node| match &node.work {
        Work::Copy(copy) if node.enabled => Some(&copy.copy),
        _ => None,
    });
    copies.flat_map(|copy| [copy.source.place, copy.destination.place]).filter_map(|place| match place {
        CopyPlace::Array(array, _) => Some(array),
        _ => None,
    })
}

impl Simulator {
    /// A kernel that was checked, with its parameters copied.
    pub(crate) fn kernel_work(&self, launch: &Launch<'_>, context: &ContextState) -> CudaResult<KernelWork> {
        let kernel = self.checked(launch, context)?;
        let layout = layout(&kernel)?;
        let bytes = super::launch::parameters(launch, &kernel, &layout)?;
        Ok(KernelWork {
            function: launch.function,
            // Both handles are of one set of numbers.
            kernel: launch.function.as_kernel(),
            context: Context(context.handle),
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            parameters: Arc::new(ParameterBlock::new(bytes, &layout)),
            attributes: launch.attributes.to_vec(),
        })
    }

    fn kernel_step(&self, work: &KernelWork) -> CudaResult<Step> {
        let context = self.context(work.context)?;
        let launch = launch_of(work);
        // Attributes are set on nodes after the kernel was checked.
        if !self.check_attributes(&work.attributes, context.device)?.is_empty() {
            return Err(CudaError::NOT_SUPPORTED);
        }
        let kernel = self.checked(&launch, &context)?;
        let launch = self.machine_launch(&launch, kernel, work.parameters.bytes().to_vec(), &context)?;
        Ok(Step::Kernel(Box::new(launch)))
    }

    fn step(&self, work: &Work) -> CudaResult<Step> {
        match work {
            // A conditional node's bodies follow.
            Work::Empty | Work::Alloc(_) | Work::Free(_) | Work::Conditional(_) => Ok(Step::Nothing),
            Work::Kernel(kernel) => self.kernel_step(kernel),
            Work::Copy(copy) => self.checked_box(&copy.copy).map(|copy| Step::Transfer(Transfer::Copy(copy))),
            Work::Fill(fill) => self.checked_fill(&fill.fill).map(|fill| Step::Transfer(Transfer::Fill(fill))),
            Work::Host(host) => {
                let context = self.current()?;
                Ok(Step::Host(host.function, Arc::clone(&context.kernels.output)))
            }
            Work::Words(words) => self.checked_words(&words.operations).map(Step::Words),
            Work::Record(event) => Ok(Step::Record(key_of(*event))),
            Work::Wait(event) => Ok(Step::Wait(key_of(*event))),
            // A plan has dissolved the one; the other is the client's.
            Work::Child(_) | Work::Own(_) => Err(CudaError::INVALID_VALUE),
        }
    }

    fn scene(&self, node: &PlanNode) -> CudaResult<Scene> {
        // A kernel that may begin before its predecessor ends begins when that has ended: the strictest it can ask for.
        let step = if node.enabled { self.step(&node.work)? } else { Step::Nothing };
        Ok(Scene { step, after: node.after.iter().map(|edge| edge.from).collect() })
    }

    fn script(&self, plan: &Plan) -> CudaResult<(Script, Option<Flat>)> {
        let scenes = plan.nodes.iter().map(|node| self.scene(node)).collect::<CudaResult<Vec<Scene>>>()?;
        let Some(graph) = plan.conditions else {
            return Ok((Script { scenes, ..Script::default() }, None));
        };
        let conditions = lock(&self.execs.conditions);
        let flat = Flat::new(plan, conditions.get(&graph).map_or(&[][..], Vec::as_slice), scenes)?;
        Ok((flat.script(), Some(flat)))
    }

    fn context_of_node(&self, context: Context) -> CudaResult<Arc<ContextState>> {
        let context = self.context(context)?;
        self.executor.fault(context.serial)?;
        Ok(context)
    }
}

impl GraphCalls for Simulator {
    fn graphs(&self) -> &Graphs {
        &self.graphs
    }

    fn graph_kernel(&self, launch: &Launch<'_>, context: Context) -> CudaResult<KernelWork> {
        self.kernel_work(launch, &*self.context_of_node(context)?)
    }

    fn graph_copy(&self, copy: &CopyBox, context: Context) -> CudaResult<CopyBox> {
        self.context_of_node(context)?;
        self.settled_box(copy)
    }

    fn graph_fill(&self, fill: &MemsetNodeParams, context: Context) -> CudaResult<()> {
        self.context_of_node(context)?;
        self.checked_fill(fill).map(drop)
    }

    fn graph_words(&self, operations: &[StreamMemoryOperation], context: Context) -> CudaResult<()> {
        self.context_of_node(context)?;
        self.checked_words(operations).map(drop)
    }

    fn graph_event(&self, event: Event) -> CudaResult<()> {
        self.executor.event(key_of(event)).map(drop).ok_or(CudaError::INVALID_HANDLE)
    }

    fn graph_condition(&self, graph: Graph, context: Context, default_value: u32, flags: u32) -> CudaResult<u64> {
        let context = if context.is_null() { self.current()? } else { self.context_of_node(context)? };
        let made = Known::new(&context.kernels.conditions, default_value, flags);
        let handle = made.handle();
        lock(&self.execs.conditions).entry(graph).or_default().push(made);
        Ok(handle)
    }

    fn graph_conditions_end(&self, graph: Graph) {
        lock(&self.execs.conditions).remove(&graph);
    }

    fn graph_instantiate(&self, exec: GraphExec, plan: &Plan, flags: ExecFlags) -> CudaResult<Option<u64>> {
        if flags.is_for_kernels() {
            warn_once(format_args!(
                "graphs that kernels launch (CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) are not supported on the CPU device"
            ));
            return Err(CudaError::NOT_SUPPORTED);
        }
        let (script, flat) = self.script(plan)?;
        let made = ExecState { script, flat, stage: Stage::new(&self.executor) };
        lock(&self.execs.by_handle).insert(exec.0, Arc::new(Mutex::new(made)));
        Ok(None)
    }

    fn graph_launch(&self, exec: GraphExec, plan: &Plan, stream: Stream) -> CudaResult<()> {
        let (context, key) = self.stream(stream)?;
        self.executor.fault(context.serial)?;
        // The script has addresses, and those of a destroyed array may be another's by now.
        arrays(plan).try_for_each(|array| self.array(array).map(drop))?;
        let exec = self.execs.get(exec)?;
        let mut exec = lock(&exec);
        let ExecState { script, stage, .. } = &mut *exec;
        self.executor.replay(key, script, stage)?;
        if self.launch_blocking {
            self.executor.wait_stream(key);
            context.kernels.output.drain();
            self.executor.fault(context.serial)?;
        }
        Ok(())
    }

    fn graph_upload(&self, exec: GraphExec, stream: Stream) -> CudaResult<()> {
        // Everything is where it is to run already.
        self.execs.get(exec)?;
        self.stream(stream).map(drop)
    }

    fn graph_exec_destroy(&self, exec: GraphExec) -> CudaResult<()> {
        lock(&self.execs.by_handle).remove(&exec.0).map(drop).ok_or(CudaError::INVALID_VALUE)
    }

    fn graph_exec_update(&self, exec: GraphExec, plan: &Plan) -> CudaResult<()> {
        let (script, flat) = self.script(plan)?;
        let exec = self.execs.get(exec)?;
        let mut exec = lock(&exec);
        (exec.script, exec.flat) = (script, flat);
        Ok(())
    }

    fn graph_exec_set(&self, exec: GraphExec, at: usize, work: &Work) -> CudaResult<()> {
        let step = self.step(work)?;
        let exec = self.execs.get(exec)?;
        let mut exec = lock(&exec);
        if let Some(flat) = &mut exec.flat {
            flat.set(at, step)?;
            let script = flat.script();
            exec.script = script;
            return Ok(());
        }
        exec.script.scenes.get_mut(at).ok_or(CudaError::INVALID_VALUE)?.step = step;
        Ok(())
    }
}
