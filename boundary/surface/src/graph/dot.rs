//! A drawing of a graph in the dot language, for people. A graph and the wished detail come in, text goes out. Writing it
//! somewhere is the caller's.

use super::store::{Graphs, Node, State};
use super::work::Work;
use floe_abi::{CudaResult, Graph, graph_debug_flags as show};
use std::fmt::Write;

impl Graphs {
    /// The drawing of a graph and all graphs within it.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such graph.
    pub(crate) fn draw(&self, graph: Graph, flags: u32) -> CudaResult<String> {
        let mut text = String::from("digraph dot {\n");
        draw(&self.lock(), graph, flags, &mut text)?;
        text.push_str("}\n");
        Ok(text)
    }
}

fn draw(state: &State, graph: Graph, flags: u32, text: &mut String) -> CudaResult<()> {
    let _ = writeln!(text, "subgraph cluster_{:x} {{\nlabel=\"graph_{:x}\" graph[style=\"dashed\"];", graph.0, graph.0);
    let nodes = &state.body(graph)?.nodes;
    for node in nodes {
        let _ = writeln!(text, "\"{}\" [shape=\"record\" label=\"{}\"];", name(node), label(node, flags));
    }
    for node in nodes {
        for edge in &node.after {
            let _ = writeln!(text, "\"node_{:x}\" -> \"{}\";", edge.from.0, name(node));
        }
    }
    text.push_str("}\n");
    for node in nodes {
        if let Work::Child(child) = node.work {
            draw(state, child, flags, text)?;
        }
    }
    Ok(())
}

fn name(node: &Node) -> String {
    format!("node_{:x}", node.handle().0)
}

fn label(node: &Node, flags: u32) -> String {
    let wants = |detail| flags & (detail | show::VERBOSE) != 0;
    let mut label = match &node.work {
        Work::Empty => "EMPTY".to_owned(),
        Work::Kernel(kernel) if wants(show::KERNEL_NODE_PARAMS) => format!(
            "KERNEL|function {:#x}|grid {:?}|block {:?}|shared bytes {}",
            kernel.function.0, kernel.grid, kernel.block, kernel.shared_bytes
        ),
        Work::Kernel(kernel) => format!("KERNEL|function {:#x}", kernel.function.0),
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
        Work::Free(free) => format!("MEM_FREE|at {:#x}", free.address.0),
    };
    if wants(show::HANDLES) {
        let _ = write!(label, "|handle {:#x}", node.handle().0);
    }
    format!("{{{}}}", label.replace(['{', '}', '<', '>', '"'], " "))
}
