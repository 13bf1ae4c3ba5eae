//! A conditional node's parameters and bodies, and the handle whose value decides for it. The program's wishes come in and
//! go out as C has them. Which handle is whose is not known here.

use floe_abi::{ConditionalNodeParams, Context, Graph};

/// A conditional node's parameters, as the program gave them, and its bodies.
#[derive(Debug)]
pub struct ConditionalWork {
    asked: ConditionalNodeParams,
    bodies: Vec<Graph>,
}

impl ConditionalWork {
    pub(super) fn new(asked: ConditionalNodeParams, bodies: Vec<Graph>) -> Self {
        Self { asked, bodies }
    }

    /// The handle whose value decides.
    pub fn handle(&self) -> u64 {
        self.asked.handle
    }

    /// One of `graph_conditional_type`.
    pub fn kind(&self) -> u32 {
        self.asked.kind
    }

    /// As the program gave it; NULL is the context that was current.
    pub fn context(&self) -> Context {
        self.asked.context
    }

    /// Its bodies.
    pub fn bodies(&self) -> &[Graph] {
        &self.bodies
    }

    /// The parameters as C reads them. The address of the bodies stays valid while the node exists.
    pub(crate) fn to_params(&self) -> ConditionalNodeParams {
        ConditionalNodeParams { bodies: self.bodies.as_ptr() as u64, ..self.asked }
    }

    /// Whether the same value decides over as many bodies in the same way.
    pub(super) fn may_replace(&self, old: &Self) -> bool {
        let told = |work: &Self| (work.asked.handle, work.asked.kind, work.asked.size);
        told(self) == told(old)
    }
}

/// A handle of a graph's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    pub(super) handle: u64,
    /// As the program gave it.
    pub(super) context: Context,
    /// The node that it decides for.
    pub(super) node: Option<u64>,
}
