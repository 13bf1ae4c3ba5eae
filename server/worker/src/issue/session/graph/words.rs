//! Nodes that write words of memory and wait for them.
//! In: batches of operations, as streams have them. Out: nodes; what a launch of a graph does to words is remembered, for a
//! wait in it may stand for as long as the client likes.

use floe_abi::WordOperation;
use floe_device::{Device, NodeWork};
use floe_wire::{AddGraphWords, SetGraphWords};

use super::GraphObject;
use crate::issue::fault::Fault;
use crate::issue::session::stream_memory::Batch;
use crate::issue::session::{Answer, Session};

impl GraphObject {
    /// What a launch does to words.
    pub(super) fn words(&self) -> impl Iterator<Item = &WordOperation> + Clone {
        self.words.values().flatten()
    }
}

impl<D: Device> Session<D> {
    pub(in crate::issue::session) fn add_graph_words(&mut self, message: &AddGraphWords) -> Result<Answer, Fault> {
        let batch = Batch::read(&message.operations)?;
        let answer = self.add_node(message.graph, &message.after, Ok(NodeWork::Words(&batch.operations)))?;
        // A graph whose creation failed takes none.
        if let Ok(object) = self.graphs.get_mut(message.graph.0) {
            let node = u32::try_from(object.nodes.len().saturating_sub(1)).unwrap_or(u32::MAX);
            object.words.insert(node, batch.words);
        }
        Ok(answer)
    }

    pub(in crate::issue::session) fn set_graph_words(&mut self, message: &SetGraphWords) -> Result<Answer, Fault> {
        let batch = Batch::read(&message.operations)?;
        let answer = self.set_node(message.graph, message.node, Ok(NodeWork::Words(&batch.operations)))?;
        self.graphs.get_mut(message.graph.0)?.words.insert(message.node, batch.words);
        Ok(answer)
    }
}
