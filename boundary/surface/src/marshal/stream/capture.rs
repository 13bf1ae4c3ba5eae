//! Captures: begun, ended and asked about, in their historical forms. The implementation says which stream is meant; the
//! surface's graphs know what of it is captured. Nothing here reaches a device.

use crate::graph::{CaptureInfo, CaptureStream, Edge, exchange_mode, settle};
use crate::marshal::graph::lists::edges as edges_of;
use crate::marshal::marshallers;
use crate::prelude::*;

fn info<D: crate::Driver>(driver: &D, stream: Stream) -> CudaResult<CaptureInfo> {
    driver.graphs().capture_info(&driver.stream_for_capture(stream)?)
}

fn begin<D: crate::Driver>(driver: &D, stream: Stream, mode: u32, into: Option<(Graph, &[Edge])>) -> CudaResult<()> {
    let stream: CaptureStream = driver.stream_for_capture(stream)?;
    driver.graphs().begin_capture(&stream, mode, into)
}

marshallers! {
    /// `cuStreamBeginCapture_v2`.
    fn cuStreamBeginCapture_v2(driver, default_stream: Stream, stream: Stream, mode: u32) {
        begin(driver, stream.or(default_stream), mode, None)
    }

    /// `cuStreamBeginCapture` of CUDA 10.0.
    fn cuStreamBeginCapture(driver, default_stream: Stream, stream: Stream) {
        begin(driver, stream.or(default_stream), capture_mode::GLOBAL, None)
    }

    /// `cuStreamBeginCaptureToGraph`.
    fn cuStreamBeginCaptureToGraph(
        driver, default_stream: Stream, stream: Stream, graph: Graph, dependencies: *const GraphNode,
        edges: *const GraphEdge, dependency_count: usize, mode: u32,
    ) {
        // SAFETY: as the program passed it.
        let after = unsafe { edges_of(dependencies, edges, dependency_count) }?;
        begin(driver, stream.or(default_stream), mode, Some((graph, &after)))
    }

    /// `cuStreamEndCapture`: a program that has the graph already, as one it captured into, passes NULL.
    fn cuStreamEndCapture(driver, default_stream: Stream, stream: Stream, graph: *mut Graph) {
        let stream = driver.stream_for_capture(stream.or(default_stream))?;
        let result = driver.graphs().end_capture(&stream);
        if result.is_err() {
            settle(driver);
        }
        // SAFETY: NULL or the program's variable.
        unsafe { c::put(graph, result.unwrap_or_default()) };
        result.map(drop)
    }

    /// `cuStreamIsCapturing`.
    fn cuStreamIsCapturing(driver, default_stream: Stream, stream: Stream, status: *mut u32) {
        c::present(status)?;
        let info = info(driver, stream.or(default_stream))?;
        // SAFETY: the program's variable.
        unsafe { c::put(status, info.status) };
        Ok(())
    }

    /// `cuStreamGetCaptureInfo` of CUDA 10.1.
    fn cuStreamGetCaptureInfo(driver, default_stream: Stream, stream: Stream, status: *mut u32, id: *mut u64) {
        c::present(status)?;
        let info = info(driver, stream.or(default_stream))?;
        // SAFETY: NULL or the program's variables.
        unsafe {
            c::put(status, info.status);
            c::put(id, info.id);
        }
        Ok(())
    }

    /// `cuStreamGetCaptureInfo` of CUDA 11.3.
    fn cuStreamGetCaptureInfo_v2(
        driver, default_stream: Stream, stream: Stream, status: *mut u32, id: *mut u64, graph: *mut Graph,
        dependencies: *mut u64, dependency_count: *mut usize,
    ) {
        // SAFETY: as the program passed it.
        unsafe {
            cuStreamGetCaptureInfo_v3(
                driver, default_stream, stream, status, id, graph, dependencies, std::ptr::null_mut(), dependency_count,
            )
        }
    }

    /// `cuStreamGetCaptureInfo` of CUDA 12.3.
    fn cuStreamGetCaptureInfo_v3(
        driver, default_stream: Stream, stream: Stream, status: *mut u32, id: *mut u64, graph: *mut Graph,
        dependencies: *mut u64, edges: *mut u64, dependency_count: *mut usize,
    ) {
        c::present(status)?;
        let info = info(driver, stream.or(default_stream))?;
        if info.has_ports && !dependencies.is_null() && edges.is_null() {
            return Err(CudaError::LOSSY_QUERY);
        }
        // SAFETY: NULL or the program's variables.
        unsafe {
            c::put(status, info.status);
            c::put(id, info.id);
            c::put(graph, info.graph);
            c::put(dependencies, info.nodes);
            c::put(edges, info.edges);
            c::put(dependency_count, info.count);
        }
        Ok(())
    }

    /// `cuStreamUpdateCaptureDependencies_v2`.
    fn cuStreamUpdateCaptureDependencies_v2(
        driver, default_stream: Stream, stream: Stream, dependencies: *const GraphNode, edges: *const GraphEdge,
        count: usize, flags: u32,
    ) {
        if flags > capture_dependencies::SET_CAPTURE_DEPENDENCIES {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: as the program passed it.
        let after = unsafe { edges_of(dependencies, edges, count) }?;
        let replaces = flags == capture_dependencies::SET_CAPTURE_DEPENDENCIES;
        let stream = driver.stream_for_capture(stream.or(default_stream))?;
        driver.graphs().change_dependencies(&stream, &after, replaces)
    }

    /// `cuStreamUpdateCaptureDependencies` before CUDA 12.3.
    fn cuStreamUpdateCaptureDependencies(
        driver, default_stream: Stream, stream: Stream, dependencies: *const GraphNode, count: usize, flags: u32,
    ) {
        // SAFETY: as the program passed it.
        unsafe {
            cuStreamUpdateCaptureDependencies_v2(
                driver, default_stream, stream, dependencies, std::ptr::null(), count, flags,
            )
        }
    }

    /// `cuThreadExchangeStreamCaptureMode`.
    fn cuThreadExchangeStreamCaptureMode(driver, mode: *mut u32) {
        // SAFETY: the program's variable.
        let before = exchange_mode(*unsafe { c::reference(mode.cast_const()) }?)?;
        // SAFETY: the program's variable.
        unsafe { c::put(mode, before) };
        Ok(())
    }
}
