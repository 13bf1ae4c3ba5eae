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

#[test]
fn streams_that_join_and_go_leave_each_node_once() {
    let graphs = Graphs::default();
    graphs.begin_capture(&ORIGIN, 0, None).expect("a capture");
    graphs.record(&ORIGIN, Work::Empty).expect("a node");
    assert_eq!(graphs.record_event(&ORIGIN, Event(7)), Ok(true));
    for key in 2..50 {
        assert_eq!(graphs.wait_event(&stream(key), Event(7)), Ok(true));
        graphs.forget_stream(&stream(key));
    }
    let left: Vec<usize> = graphs.lock().captures.captures.values().map(|capture| capture.left.len()).collect();
    assert_eq!(left, [1]);
    let other = stream(50);
    assert_eq!(graphs.wait_event(&other, Event(7)), Ok(true));
    graphs.record(&other, Work::Empty).expect("a node");
    graphs.forget_stream(&other);
    assert_eq!(graphs.end_capture(&ORIGIN), Err(CudaError::STREAM_CAPTURE_UNJOINED), "work of a stream that is gone");
}
