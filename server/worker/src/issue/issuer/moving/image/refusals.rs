//! What of a session cannot be made again by another worker, by name.
//! In: the session as it is. Out: the reasons, each with whether it passes by itself. It changes nothing.

use floe_device::Device;
use floe_wire::{
    AddGraphCopy, AddGraphFill, AddGraphWords, Object, ObjectKind, Request, SetGraphCopy, SetGraphFill, SetGraphWords,
    WINDOW_BASE, WINDOW_BYTES, WINDOW_COUNT,
};

use super::{Issuer, Presence};

/// Bytes from the first to behind the last of so many parts of parts, each with its distance; the innermost are bytes.
fn extent(parts: [(u64, u64); 3]) -> u64 {
    let distance = |(count, step): (u64, u64)| count.saturating_sub(1).saturating_mul(step);
    parts.into_iter().map(distance).fold(1, u64::saturating_add)
}

/// The memory that a graph's node copies, fills, writes or waits for: addresses, each with its bytes.
fn places(request: &Request<'_>) -> Vec<(u64, u64)> {
    match request {
        Request::AddGraphCopy(AddGraphCopy { copy, .. }) | Request::SetGraphCopy(SetGraphCopy { copy, .. }) => {
            let box_of = |slice, pitch| extent([(copy.depth, slice), (copy.height, pitch), (copy.width, 1)]);
            let from = (copy.from.0, box_of(copy.from_slice, copy.from_pitch));
            vec![(copy.to.0, box_of(copy.to_slice, copy.to_pitch)), from]
        }
        Request::AddGraphFill(AddGraphFill { fill, .. }) | Request::SetGraphFill(SetGraphFill { fill, .. }) => {
            let element = u64::from(fill.element);
            vec![(fill.at.0, extent([(fill.height, fill.pitch), (fill.width, element), (element, 1)]))]
        }
        Request::AddGraphWords(AddGraphWords { operations, .. })
        | Request::SetGraphWords(SetGraphWords { operations, .. }) => {
            // A word of 4 or 8 bytes, which never crosses the end of a mapping.
            operations.iter().map(|operation| (operation.at.0, 4)).collect()
        }
        _ => Vec::new(),
    }
}

/// Why the session's objects cannot be made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// In words.
    pub(crate) why: String,
    /// It is over when the commands under way are: it is worth another try.
    pub(crate) passes: bool,
}

impl<D: Device> Issuer<D> {
    /// All that stands against an image of the session now; empty: nothing.
    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        let mut refusals: Vec<Refusal> = Vec::new();
        let mut refuse = |why: String, passes| refusals.push(Refusal { why, passes });
        if let Some(error) = self.context_error() {
            refuse(format!("the session's context is in error: {error}"), false);
        }
        for words in self.shared.hub.shares() {
            refuse(format!("the session has {words}"), false);
        }
        if self.signals.values().next().is_some() {
            refuse("the session has signal pages, which other sessions can have too".into(), false);
        }
        if self.shared.links.any() {
            refuse("the session has links to sessions of other servers".into(), false);
        }
        if self.shared.collectives.nccl().is_ok() {
            refuse("the session has loaded NCCL, whose communicators no other worker can take over".into(), false);
        }
        if self.shared.recording.is_on() {
            refuse("the session's program has a profiler that records what its GPU does".into(), false);
        }
        for at in self.sharing.unkept() {
            refuse(format!("pages at {at:#x} are of one file more than a session keeps descriptors of"), false);
        }
        if self.has_conditions() {
            refuse("the session has graphs with conditional handles, whose numbers its kernels know".into(), false);
        }
        if self.graphs.values().any(|graph| graph.for_kernels) {
            refuse("the session has graphs that kernels launch, by numbers which they know".into(), false);
        }
        for object in self.recipes.lost() {
            refuse(format!("{object}: there was no room in the session's host memory for its recipe"), false);
        }
        for (user, gone) in self.dangling() {
            refuse(format!("{user} is made of {gone}, which is gone"), false);
        }
        for (graph, at) in self.graphs_of_nothing() {
            refuse(format!("{graph} has a node for memory at {at:#x}, which is gone"), false);
        }
        if self.contents.is_pending() {
            refuse("parts of a library are on their way".into(), true);
        }
        if !self.linked.by_id.is_empty() {
            refuse("a linked image has not been read to its end".into(), true);
        }
        refusals
    }

    /// Whether parts of an object are there and others are on their way.
    pub(crate) fn has_half_an_object(&self) -> bool {
        self.contents.is_pending() || !self.linked.by_id.is_empty()
    }

    /// Whether an object is a graph that cannot be launched: it needs nothing of what it names.
    fn is_broken(&self, object: Object) -> bool {
        object.kind == ObjectKind::Graph && self.graphs.get(object.id).is_ok_and(|graph| graph.failed.is_some())
    }

    /// Graphs with nodes for memory of a vGPU that has been unmapped since, and its addresses: no driver makes such nodes. The
    /// program may still give them other memory, so they do not count as broken.
    fn graphs_of_nothing(&self) -> Vec<(Object, u64)> {
        let windows = WINDOW_BASE..WINDOW_BASE + u64::from(WINDOW_COUNT) * WINDOW_BYTES;
        let is_mapped = |mut at: u64, end: u64| {
            while at < end {
                let mapping = self.mappings.range(..=at).next_back();
                let Some(next) = mapping.map(|(start, mapping)| start + mapping.bytes).filter(|next| *next > at) else {
                    return false;
                };
                at = next;
            }
            true
        };
        let mut found = Vec::new();
        for graph in self.recipes.objects().filter(|it| it.kind == ObjectKind::Graph && !self.is_broken(*it)) {
            self.recipes.messages(graph, &mut |_, kind, payload| {
                let Ok(request) = Request::decode(kind, payload) else { return };
                let gone = places(&request).into_iter().filter(|(at, _)| windows.contains(at));
                let gone = gone.filter(|(at, bytes)| !is_mapped(*at, at.saturating_add(*bytes)));
                found.extend(gone.map(|(at, _)| (graph, at)));
            });
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Objects whose messages name others that are gone.
    fn dangling(&self) -> Vec<(Object, Object)> {
        let mut dangling = Vec::new();
        for user in self.recipes.objects() {
            // A graph names kernels, and graphs that it has taken in.
            let is_broken = self.is_broken(user);
            self.recipes.messages(user, &mut |when, kind, payload| {
                let Ok(request) = Request::decode(kind, payload) else { return };
                request.names(&mut |named| {
                    let is_none = named.id == 0 || named.kind == ObjectKind::Graph || is_broken;
                    // Another object may have the id by now.
                    let is_older = self.recipes.made_at(named).is_some_and(|made| made <= when);
                    if !is_none && (self.presence(named) != Presence::Live || !is_older) {
                        dangling.push((user, named));
                    }
                });
            });
        }
        dangling.sort_unstable();
        dangling.dedup();
        dangling
    }
}
