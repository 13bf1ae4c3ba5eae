//! Attributes of kernel nodes: asked, set, copied from node to node. Numbers and values come in; which of them an
//! implementation honours it says when the graph is instantiated.

use super::store::Graphs;
use super::work::{KernelWork, Work};
use crate::arguments::attributes::check_attribute;
use floe_abi::{CudaError, CudaResult, GraphNode, LaunchAttribute, LaunchAttributeValue, launch_attribute as a};

/// Attributes a kernel node can have.
fn is_node_attribute(id: u32) -> bool {
    matches!(
        id,
        a::ACCESS_POLICY_WINDOW
            | a::COOPERATIVE
            | a::CLUSTER_DIMENSION
            | a::CLUSTER_SCHEDULING_POLICY_PREFERENCE
            | a::PRIORITY
            | a::MEM_SYNC_DOMAIN_MAP
            | a::MEM_SYNC_DOMAIN
            | a::PREFERRED_SHARED_MEMORY_CARVEOUT
            | a::NVLINK_UTIL_CENTRIC_SCHEDULING
    )
}

fn kernel(work: &mut Work) -> CudaResult<&mut KernelWork> {
    if let Work::Kernel(kernel) = work { Ok(kernel) } else { Err(CudaError::INVALID_VALUE) }
}

impl Graphs {
    /// One attribute of a kernel node; zeros where it was not set.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such kernel node or attribute, NOT_SUPPORTED for nodes that kernels change.
    pub fn attribute(&self, node: GraphNode, id: u32) -> CudaResult<LaunchAttributeValue> {
        let mut state = self.lock();
        let kernel = kernel(&mut state.node_mut(node)?.work)?;
        if !is_node_attribute(id) {
            return Err(refused(id));
        }
        let found = kernel.attributes.iter().find(|attribute| attribute.id == id);
        Ok(found.map(|attribute| attribute.value).unwrap_or_default())
    }

    /// Sets one attribute of a kernel node.
    ///
    /// # Errors
    /// As [`Graphs::attribute`].
    pub fn set_attribute(&self, node: GraphNode, id: u32, value: LaunchAttributeValue) -> CudaResult<()> {
        let mut state = self.lock();
        let kernel = kernel(&mut state.node_mut(node)?.work)?;
        if !is_node_attribute(id) {
            return Err(refused(id));
        }
        check_attribute(id, &value)?;
        kernel.attributes.retain(|attribute| attribute.id != id);
        kernel.attributes.push(LaunchAttribute { id, value, ..LaunchAttribute::default() });
        Ok(())
    }

    /// Gives a kernel node the attributes of another.
    ///
    /// # Errors
    /// INVALID_VALUE where one of them is no kernel node.
    pub fn copy_attributes(&self, to: GraphNode, from: GraphNode) -> CudaResult<()> {
        let mut state = self.lock();
        let attributes = kernel(&mut state.node_mut(from)?.work)?.attributes.clone();
        kernel(&mut state.node_mut(to)?.work)?.attributes = attributes;
        Ok(())
    }
}

/// The answer to an attribute that no node has.
fn refused(id: u32) -> CudaError {
    check_attribute(id, &LaunchAttributeValue::default()).err().unwrap_or(CudaError::INVALID_VALUE)
}
