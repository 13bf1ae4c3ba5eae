use super::*;
use crate::graph::work::Work;
use floe_abi::child_graph_ownership;

const ORIGIN: CaptureStream = stream(1);

const fn stream(key: u64) -> CaptureStream {
    CaptureStream { key, context: 1, legacy: false, blocking: false }
}

#[test]
fn a_graph_that_is_captured_into_does_not_move_into_another() {
    let graphs = Graphs::default();
    let outer = graphs.create();
    graphs.begin_capture(&ORIGIN, 0, None).expect("a capture");
    graphs.record(&ORIGIN, Work::Empty).expect("a node");
    let inner = graphs.capture_info(&ORIGIN).expect("a capture").graph;
    let moved = graphs.add_child(outer, &[], inner, child_graph_ownership::MOVE);
    assert_eq!(moved, Err(CudaError::ILLEGAL_STATE));
    // A capture that fails takes its graph with it, and nothing of another's.
    graphs.forget_stream(&ORIGIN);
    assert_eq!(graphs.nodes(inner), Err(CudaError::INVALID_VALUE));
    assert_eq!(graphs.nodes(outer), Ok(Vec::new()));
    graphs.plan(outer).map(drop).expect("a plan");
    assert_eq!(graphs.destroy(outer), Ok(()));
    // Behind its end it is like any other.
    let outer = graphs.create();
    graphs.begin_capture(&ORIGIN, 0, None).expect("a capture");
    let inner = graphs.end_capture(&ORIGIN).expect("a graph");
    graphs.add_child(outer, &[], inner, child_graph_ownership::MOVE).expect("a node");
    assert_eq!(graphs.destroy(outer), Ok(()));
}
