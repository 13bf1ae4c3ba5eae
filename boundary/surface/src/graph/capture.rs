//! Streams whose work is recorded instead of run: which stream is in which capture, and how captures begin, end, spread and
//! join through events. Streams and events come in as the implementation names them; graphs go out. How their nodes come
//! about is in `recording`, what is refused meanwhile in `rules`.

mod events;
mod recording;
#[cfg(test)]
mod tests;

use super::rules;
use super::store::{Edge, Graphs, State};
use super::user_objects::Destructor;
use floe_abi::{CudaError, CudaResult, Event, Graph, GraphEdge, GraphNode, capture_mode, capture_status};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;

/// A stream as captures know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureStream {
    /// Its alone in the process.
    pub key: u64,
    /// The context, by a number of its alone.
    pub context: u64,
    /// It is the legacy default stream.
    pub legacy: bool,
    /// It and the legacy default stream wait for each other.
    pub blocking: bool,
}

/// A stream's capture, as a program sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureInfo {
    /// One of `capture_status`.
    pub status: u32,
    /// The capture's number; 0 where there is none.
    pub id: u64,
    /// The graph being made; NULL where there is none.
    pub graph: Graph,
    /// Address of the nodes that the stream's next node waits for, valid until the next question or call about this capture.
    pub nodes: u64,
    /// Address of what of each is waited for.
    pub edges: u64,
    /// Their number.
    pub count: usize,
    /// Whether an edge waits for less than all of its node.
    pub has_ports: bool,
}

/// All open captures.
#[derive(Debug, Default)]
pub(super) struct Captures {
    captures: BTreeMap<u64, Capture>,
    /// Events last recorded in a capture, also one that has ended: what a wait for them means.
    events: HashMap<u64, (u64, Vec<Edge>)>,
}

/// One capture.
#[derive(Debug)]
pub(super) struct Capture {
    graph: Graph,
    /// The graph was the program's before.
    to_graph: bool,
    origin: u64,
    pub(super) mode: u32,
    pub(super) thread: u64,
    pub(super) valid: bool,
    streams: BTreeMap<u64, Strand>,
    /// The last nodes of streams that are gone.
    left: BTreeSet<GraphNode>,
}

/// One stream in a capture.
#[derive(Debug)]
struct Strand {
    stream: CaptureStream,
    /// The nodes that its next node waits for.
    after: Vec<Edge>,
    /// The same, as C last got it.
    told: (Vec<GraphNode>, Vec<GraphEdge>),
}

impl Strand {
    fn new(stream: &CaptureStream, after: Vec<Edge>) -> Self {
        Self { stream: *stream, after, told: Default::default() }
    }
}

impl Captures {
    /// Whether this graph is being captured into.
    pub(super) fn fills(&self, graph: Graph) -> bool {
        self.graphs().any(|other| other == graph)
    }

    /// The graphs that are being captured into.
    pub(super) fn graphs(&self) -> impl Iterator<Item = Graph> {
        self.captures.values().map(|capture| capture.graph)
    }

    /// The open captures.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Capture> {
        self.captures.values_mut()
    }

    fn of(&self, stream: &CaptureStream) -> Option<u64> {
        self.captures.iter().find(|(_, capture)| capture.streams.contains_key(&stream.key)).map(|(id, _)| *id)
    }

    /// The capture of an event, if it is still open.
    fn of_event(&self, event: Event) -> Option<(u64, &[Edge])> {
        let (id, after) = self.events.get(&event.0)?;
        self.captures.contains_key(id).then_some((*id, after.as_slice()))
    }

    fn is_open(&self, id: u64) -> bool {
        self.captures.contains_key(&id)
    }

    /// A capture into this graph becomes invalid; gives whether there is one.
    pub(super) fn invalidate_into(&mut self, graph: Graph) -> bool {
        let into = self.all().find(|capture| capture.graph == graph);
        into.map(|capture| capture.valid = false).is_some()
    }

    fn invalidate(&mut self, id: u64) {
        if let Some(capture) = self.captures.get_mut(&id) {
            capture.valid = false;
        }
    }
}

impl Capture {
    /// Whether one of its streams and the legacy default stream of its context wait for each other.
    pub(super) fn meets_legacy(&self, legacy: &CaptureStream) -> bool {
        let context = legacy.context;
        self.streams.values().any(|strand| strand.stream.blocking && strand.stream.context == context)
    }

    /// Whether one of its streams is of this context.
    pub(super) fn is_in(&self, context: u64) -> bool {
        self.streams.values().any(|strand| strand.stream.context == context)
    }
}

impl State {
    /// The valid capture a stream is in.
    fn capturing(&mut self, stream: &CaptureStream) -> CudaResult<Option<u64>> {
        let Some(id) = self.captures.of(stream) else {
            rules::refuse_legacy(self, stream)?;
            return Ok(None);
        };
        if self.captures.captures[&id].valid { Ok(Some(id)) } else { Err(CudaError::STREAM_CAPTURE_INVALIDATED) }
    }

    fn strand(&mut self, id: u64, stream: &CaptureStream) -> CudaResult<&mut Strand> {
        let capture = self.captures.captures.get_mut(&id).ok_or(CudaError::ILLEGAL_STATE)?;
        capture.streams.get_mut(&stream.key).ok_or(CudaError::ILLEGAL_STATE)
    }

    /// Takes a capture away, with its graph where that was made for it and `keep` does not say otherwise.
    fn end(&mut self, id: u64, keep: bool) -> CudaResult<(Graph, Vec<Destructor>)> {
        let capture = self.captures.captures.remove(&id).ok_or(CudaError::ILLEGAL_STATE)?;
        if keep || capture.to_graph {
            return Ok((capture.graph, Vec::new()));
        }
        Ok((Graph::NULL, self.remove(capture.graph)?))
    }

    /// Whether every stream's last nodes are among what the origin's next node would wait for, however indirectly. Only those count
    /// that captures made: NCCL ends a stream with a node that it has added to the graph itself.
    fn is_joined(&self, capture: &Capture) -> CudaResult<bool> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<GraphNode> = capture
            .streams
            .get(&capture.origin)
            .into_iter()
            .flat_map(|origin| &origin.after)
            .map(|edge| edge.from)
            .collect();
        while let Some(node) = open.pop() {
            if reached.insert(node) {
                open.extend(self.node(node)?.after.iter().map(|edge| edge.from));
            }
        }
        let ends = capture.streams.values().flat_map(|strand| &strand.after).map(|edge| &edge.from);
        let is_missed = |node: &GraphNode| !reached.contains(node) && self.node(*node).is_ok_and(|node| node.to_join);
        Ok(!ends.chain(&capture.left).any(is_missed))
    }
}

impl Graphs {
    /// Counts what streams have to ask about.
    fn watch(&self, state: &State) {
        let watched = state.captures.captures.len() + state.captures.events.len();
        self.watched.store(watched, Ordering::Release);
    }

    /// A stream's work is recorded from now on: into a new graph, or into one of the program's behind some of its nodes.
    ///
    /// # Errors
    /// STREAM_CAPTURE_UNSUPPORTED for the legacy default stream, ILLEGAL_STATE for one that is captured already,
    /// INVALID_VALUE for a mode, graph or node that does not exist.
    pub fn begin_capture(&self, stream: &CaptureStream, mode: u32, into: Option<(Graph, &[Edge])>) -> CudaResult<()> {
        if mode > capture_mode::RELAXED {
            return Err(CudaError::INVALID_VALUE);
        }
        if stream.legacy {
            return Err(CudaError::STREAM_CAPTURE_UNSUPPORTED);
        }
        let mut state = self.lock();
        if state.captures.of(stream).is_some() {
            return Err(CudaError::ILLEGAL_STATE);
        }
        if let Some((graph, after)) = into {
            state.check_edges(graph, after)?;
            if state.captures.fills(graph) {
                return Err(CudaError::INVALID_VALUE);
            }
        }
        let graph = into.map_or_else(|| state.create(None), |(graph, _)| graph);
        let after = into.map_or_else(Vec::new, |(_, after)| after.to_vec());
        let id = state.next_id();
        let streams = BTreeMap::from([(stream.key, Strand::new(stream, after))]);
        state.captures.captures.insert(
            id,
            Capture {
                graph,
                to_graph: into.is_some(),
                origin: stream.key,
                mode,
                thread: rules::thread(),
                valid: true,
                streams,
                left: BTreeSet::new(),
            },
        );
        self.watch(&state);
        Ok(())
    }

    /// The stream's capture is over; gives its graph.
    ///
    /// # Errors
    /// ILLEGAL_STATE where the stream is not captured, UNMATCHED where it joined a capture that began elsewhere, which
    /// invalidates that one, WRONG_THREAD where another thread must end it. INVALIDATED, UNJOINED and, as an H200's driver
    /// has it, WRONG_THREAD end the capture, without a graph.
    pub fn end_capture(&self, stream: &CaptureStream) -> CudaResult<Graph> {
        let mut state = self.lock();
        let id = state.captures.of(stream).ok_or(CudaError::ILLEGAL_STATE)?;
        let capture = &state.captures.captures[&id];
        if capture.origin != stream.key {
            state.captures.invalidate(id);
            return Err(CudaError::STREAM_CAPTURE_UNMATCHED);
        }
        let result = if !capture.valid {
            Err(CudaError::STREAM_CAPTURE_INVALIDATED)
        } else if capture.mode != capture_mode::RELAXED && capture.thread != rules::thread() {
            Err(CudaError::STREAM_CAPTURE_WRONG_THREAD)
        } else {
            // Whatever the answer is, the capture ends.
            state
                .is_joined(capture)
                .and_then(|joined| if joined { Ok(()) } else { Err(CudaError::STREAM_CAPTURE_UNJOINED) })
        };
        let (graph, over) = state.end(id, result.is_ok())?;
        self.watch(&state);
        drop(state);
        over.into_iter().for_each(Destructor::call);
        result.map(|()| graph)
    }

    /// The state of a stream's capture. The addresses in it lead to memory of the capture's.
    ///
    /// # Errors
    /// IMPLICIT for the legacy default stream while a stream that waits for it is captured.
    pub fn capture_info(&self, stream: &CaptureStream) -> CudaResult<CaptureInfo> {
        if !self.is_watching() {
            return Ok(CaptureInfo::default());
        }
        let mut state = self.lock();
        let Some(id) = state.captures.of(stream) else {
            let meets = stream.legacy && state.captures.all().any(|capture| capture.meets_legacy(stream));
            return if meets { Err(CudaError::STREAM_CAPTURE_IMPLICIT) } else { Ok(CaptureInfo::default()) };
        };
        let capture = &state.captures.captures[&id];
        if !capture.valid {
            return Ok(CaptureInfo { status: capture_status::INVALIDATED, ..CaptureInfo::default() });
        }
        let graph = capture.graph;
        let strand = state.strand(id, stream)?;
        strand.told = strand.after.iter().map(|edge| (edge.from, edge.data)).unzip();
        Ok(CaptureInfo {
            status: capture_status::ACTIVE,
            id,
            graph,
            nodes: strand.told.0.as_ptr() as u64,
            edges: strand.told.1.as_ptr() as u64,
            count: strand.after.len(),
            has_ports: strand.after.iter().any(|edge| edge.data != GraphEdge::default()),
        })
    }

    /// The error of a launch that was to be recorded. One that no device could do ends the capture, as an H200's driver has it; a
    /// handle of nothing does not.
    #[must_use]
    pub fn refused_launch(&self, stream: &CaptureStream, error: CudaError) -> CudaError {
        if matches!(error, CudaError::INVALID_VALUE | CudaError::INVALID_CLUSTER_SIZE) {
            self.invalidate_on(stream);
        }
        error
    }

    /// The capture of this stream becomes invalid, if it is in one.
    pub(super) fn invalidate_on(&self, stream: &CaptureStream) {
        let mut state = self.lock();
        if let Some(id) = state.captures.of(stream) {
            state.captures.invalidate(id);
        }
    }

    /// A stream is gone: a capture that began on it ends. One that it had joined goes on, and its work there has to be joined as
    /// if it were there.
    pub fn forget_stream(&self, stream: &CaptureStream) {
        if !self.is_watching() {
            return;
        }
        let (mut state, mut over) = (self.lock(), Vec::new());
        if let Some(id) = state.captures.of(stream) {
            if state.captures.captures[&id].origin == stream.key {
                over = state.end(id, false).map(|(_, over)| over).unwrap_or_default();
            } else if let Some(capture) = state.captures.captures.get_mut(&id) {
                let strand = capture.streams.remove(&stream.key);
                capture.left.extend(strand.iter().flat_map(|strand| &strand.after).map(|edge| edge.from));
            }
            self.watch(&state);
        }
        drop(state);
        over.into_iter().for_each(Destructor::call);
    }
}
