//! Memory of graphs: nodes that allocate and free, and a device's attributes about it. C's structs come in and go out.
//! The surface's graphs know which memory that is and how long it lives; the implementation sets it aside.

use super::graph::lists::edges;
use super::graph::nodes::{add_alloc, ask};
use super::marshallers;
use crate::graph::{Target, Work};
use crate::prelude::*;

/// Refuses a device that is none.
fn check<D: crate::Driver>(driver: &D, device: Device) -> CudaResult<()> {
    driver.device_get_default_mem_pool(device).map(drop)
}

marshallers! {
    /// `cuGraphAddMemAllocNode`.
    fn cuGraphAddMemAllocNode(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
        params: *mut MemAllocNodeParams,
    ) {
        c::present(node)?;
        // SAFETY: as the program passed it.
        unsafe {
            let after = edges(dependencies, std::ptr::null(), dependency_count)?;
            let (made, told) = add_alloc(driver, graph, &after, c::reference(params.cast_const())?)?;
            c::put(params, told);
            c::put(node, made);
        }
        Ok(())
    }

    /// `cuGraphMemAllocNodeGetParams`.
    fn cuGraphMemAllocNodeGetParams(driver, node: GraphNode, params: *mut MemAllocNodeParams) {
        let read = |work: &Work| if let Work::Alloc(alloc) = work { Some(alloc.to_params()) } else { None };
        // SAFETY: as the program passed it.
        unsafe { ask(driver, node, params, read) }
    }

    /// `cuGraphAddMemFreeNode`.
    fn cuGraphAddMemFreeNode(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
        address: DevicePtr,
    ) {
        c::present(node)?;
        // SAFETY: as the program passed it.
        let after = unsafe { edges(dependencies, std::ptr::null(), dependency_count) }?;
        let made = driver.graphs().add_free(Target::Graph(graph, &after), address)?;
        // SAFETY: the program's variable.
        unsafe { c::put(node, made) };
        Ok(())
    }

    /// `cuGraphMemFreeNodeGetParams`.
    fn cuGraphMemFreeNodeGetParams(driver, node: GraphNode, address: *mut DevicePtr) {
        let read = |work: &Work| if let Work::Free(free) = work { Some(free.address) } else { None };
        // SAFETY: as the program passed it.
        unsafe { ask(driver, node, address, read) }
    }

    /// `cuDeviceGetGraphMemAttribute`: every attribute is a 64-bit number.
    fn cuDeviceGetGraphMemAttribute(driver, device: Device, attribute: u32, value: *mut c_void) {
        c::present(value)?;
        check(driver, device)?;
        let found = driver.graphs().memory_attribute(device, attribute)?;
        // SAFETY: the program's variable, of the attribute's width.
        unsafe { c::put(value.cast::<u64>(), found) };
        Ok(())
    }

    /// `cuDeviceSetGraphMemAttribute`.
    fn cuDeviceSetGraphMemAttribute(driver, device: Device, attribute: u32, value: *mut c_void) {
        check(driver, device)?;
        // SAFETY: the program's variable, of the attribute's width.
        let value = *unsafe { c::reference(value.cast::<u64>().cast_const()) }?;
        driver.graphs().set_memory_attribute(device, attribute, value)
    }
}
