//! A drawing of a graph in the dot language, for people. A graph, its kernels' names and the wished detail come in, text goes
//! out. Writing it somewhere is the caller's.

use super::store::{Graphs, Node, State};
use super::work::Work;
use floe_abi::{CudaResult, Function, Graph, graph_debug_flags as show};
use std::collections::HashMap;
use std::fmt::Write;

/// What is shown of nodes.
struct Detail<'a> {
    flags: u32,
    /// By function.
    names: &'a HashMap<u64, String>,
}

impl Graphs {
    /// The functions of kernels in a graph and in all graphs within it.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such graph.
    pub(crate) fn functions(&self, graph: Graph) -> CudaResult<Vec<Function>> {
        let (state, mut open, mut found) = (self.lock(), vec![graph], Vec::new());
        while let Some(graph) = open.pop() {
            for node in &state.body(graph)?.nodes {
                match &node.work {
                    Work::Kernel(kernel) => found.push(kernel.function),
                    Work::Child(child) => open.push(*child),
                    Work::Conditional(work) => open.extend(work.bodies()),
                    _ => {}
                }
            }
        }
        Ok(found)
    }

    /// The drawing of a graph and all graphs within it. A kernel without a name is shown as its function.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such graph.
    pub(crate) fn draw(&self, graph: Graph, flags: u32, names: &HashMap<u64, String>) -> CudaResult<String> {
        let mut text = String::from("digraph dot {\n");
        draw(&self.lock(), graph, &Detail { flags, names }, &mut text)?;
        text.push_str("}\n");
        Ok(text)
    }
}

fn draw(state: &State, graph: Graph, detail: &Detail<'_>, text: &mut String) -> CudaResult<()> {
    let _ = writeln!(text, "subgraph cluster_{:x} {{\nlabel=\"graph_{:x}\" graph[style=\"dashed\"];", graph.0, graph.0);
    let nodes = &state.body(graph)?.nodes;
    for node in nodes {
        let _ = writeln!(text, "\"{}\" [shape=\"record\" label=\"{}\"];", name(node), label(node, detail));
    }
    for node in nodes {
        for edge in &node.after {
            let _ = writeln!(text, "\"node_{:x}\" -> \"{}\";", edge.from.0, name(node));
        }
    }
    text.push_str("}\n");
    for node in nodes {
        match &node.work {
            Work::Child(child) => draw(state, *child, detail, text)?,
            Work::Conditional(work) => {
                work.bodies().iter().try_for_each(|body| draw(state, *body, detail, text))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn name(node: &Node) -> String {
    format!("node_{:x}", node.handle().0)
}

fn label(node: &Node, detail: &Detail<'_>) -> String {
    let wants = |what| detail.flags & (what | show::VERBOSE) != 0;
    let kernel_name = |function: Function| {
        detail.names.get(&function.0).map_or_else(|| format!("function {:#x}", function.0), String::clone)
    };
    let mut label = match &node.work {
        Work::Empty => "EMPTY".to_owned(),
        Work::Kernel(kernel) if wants(show::KERNEL_NODE_PARAMS) => format!(
            "KERNEL|{}|grid {:?}|block {:?}|shared bytes {}",
            kernel_name(kernel.function),
            kernel.grid,
            kernel.block,
            kernel.shared_bytes
        ),
        Work::Kernel(kernel) => format!("KERNEL|{}", kernel_name(kernel.function)),
        Work::Copy(copy) if wants(show::MEMCPY_NODE_PARAMS) => {
            format!("MEMCPY|{} x {} x {} bytes", copy.copy.width, copy.copy.height, copy.copy.depth)
        }
        Work::Copy(_) => "MEMCPY".to_owned(),
        Work::Fill(fill) if wants(show::MEMSET_NODE_PARAMS) => format!(
            "MEMSET|at {:#x}|value {:#x}|{} x {} of {} bytes",
            fill.fill.at.0, fill.fill.value, fill.fill.width, fill.fill.height, fill.fill.element
        ),
        Work::Fill(_) => "MEMSET".to_owned(),
        Work::Host(host) if wants(show::HOST_NODE_PARAMS) => format!("HOST|function {:#x}", host.asked.function),
        Work::Host(_) => "HOST".to_owned(),
        Work::Child(child) => format!("GRAPH|graph_{:x}", child.0),
        Work::Record(event) => format!("EVENT_RECORD|event {:#x}", event.0),
        Work::Wait(event) => format!("WAIT_EVENT|event {:#x}", event.0),
        Work::Words(words) => format!("BATCH_MEM_OP|{} operations", words.operations.len()),
        Work::Alloc(alloc) => {
            let asked = alloc.to_params();
            format!("MEM_ALLOC|at {:#x}|{} bytes", asked.address.0, asked.bytes)
        }
        Work::Own(_) => "COLLECTIVE".to_owned(),
        Work::Conditional(work) if wants(show::CONDITIONAL_NODE_PARAMS) => format!(
            "CONDITIONAL|handle {:#x}|{}|{} bodies",
            work.handle(),
            ["IF", "WHILE", "SWITCH"].get(work.kind() as usize).unwrap_or(&""),
            work.bodies().len()
        ),
        Work::Conditional(_) => "CONDITIONAL".to_owned(),
        Work::Free(free) => format!("MEM_FREE|at {:#x}", free.address.0),
    };
    if wants(show::HANDLES) {
        let _ = write!(label, "|handle {:#x}", node.handle().0);
    }
    format!("{{{}}}", label.replace(['{', '}', '<', '>', '"'], " "))
}
