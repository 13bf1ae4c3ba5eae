//! The image of the session's objects, and what is kept for it.
//! In: commands as they are carried out. Out: the recipes of what lives, and an image of them on demand.
//! It changes nothing of what a command does, and costs nothing where a command belongs to no recipe.

mod digest;
mod refusals;
mod replay;
mod steering;
mod words;

use std::os::fd::{AsFd as _, BorrowedFd};

use floe_abi::CudaError;
use floe_device::{Content, Device};
use floe_wire::{
    CreateSurface, CreateTexture, DevicePtr, Failure, Image, ImportBlock, LoadLibrary, Message as _, Object,
    ObjectKind, Own, Recipe, Request, SetAccess, SetGraphCopy, SetGraphFill, SetGraphKernel, SetGraphWords,
    SetKernelAttribute, UpdateGraph,
};

use crate::issue::cache::Hash;
use crate::issue::fault::Fault;
use crate::issue::issuer::{Answer, Issuer};
use crate::issue::recipes::Message;

pub(crate) use replay::Supplies;
pub(crate) use steering::Places;

/// Changes of a graph's nodes that an update by another graph makes void.
const NODE_CHANGES: [u16; 4] = [SetGraphKernel::KIND, SetGraphCopy::KIND, SetGraphFill::KIND, SetGraphWords::KIND];

/// Whether an object is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Live,
    Failed,
    Gone,
}

/// Whether another worker can make objects of this kind again.
fn is_repeatable(kind: ObjectKind) -> bool {
    !matches!(kind, ObjectKind::Ticket | ObjectKind::Signals | ObjectKind::PeerLink)
}

/// The part of a reply that binds the session. A compiler's log may be another one, and a kernel's attributes are compared
/// when all have been set.
fn binding(kind: u16, reply: &[u8]) -> &[u8] {
    if [LoadLibrary::KIND, SetKernelAttribute::KIND].contains(&kind) { &[] } else { reply }
}

impl<D: Device> Issuer<D> {
    /// Carries a command out, and keeps it if it belongs to a recipe.
    pub(crate) fn dispatch(&mut self, request: Request<'_>, kind: u16, payload: &[u8]) -> Result<Answer, Fault> {
        let recipe = request.recipe();
        let outcome = request.dispatch(self);
        if !matches!(recipe, Recipe::None) {
            self.keep(recipe, kind, payload, &outcome);
        }
        outcome
    }

    fn keep(&mut self, recipe: Recipe, kind: u16, payload: &[u8], outcome: &Result<Answer, Fault>) {
        let reply = match outcome {
            Ok(Answer::Body(body)) => binding(kind, body),
            _ => &[],
        };
        let mut message = Message { kind, payload, reply, own: Own::default() };
        match recipe {
            Recipe::None => {}
            Recipe::Makes { object, of } => {
                if kind != ImportBlock::KIND && is_repeatable(object.kind) && self.presence(object) == Presence::Live {
                    message.own = self.own_at(object);
                    self.recipes.make(object, of, &message);
                    self.hold_contents(object);
                }
            }
            Recipe::Changes { object, bytes: Some(bytes), .. } if outcome.is_ok() => {
                self.keep_access(object.id, bytes, payload);
            }
            Recipe::Changes { object, by, absorbs, .. } if outcome.is_ok() => {
                if kind == UpdateGraph::KIND {
                    self.recipes.drop_changes(object, |kind, _| NODE_CHANGES.contains(&kind));
                }
                message.own = self.own_at(object);
                self.recipes.change(object, by, &message, absorbs);
            }
            // What a refused change would have taken in may be gone all the same.
            Recipe::Changes { absorbs, .. } => absorbs.into_iter().for_each(|object| self.end_kept(object, &message)),
            Recipe::Ends { object: Object::CONTEXT, .. } => self.begin_anew(),
            Recipe::Ends { object, bytes: None } => self.end_kept(object, &message),
            Recipe::Ends { object: Object { id: at, .. }, bytes: Some(bytes) } => {
                for mapping in self.recipes.mappings(at..at.saturating_add(bytes)) {
                    self.end_kept(mapping, &message);
                }
            }
        }
    }

    fn hold_contents(&mut self, object: Object) {
        if object.kind == ObjectKind::Library
            && let Ok(library) = self.libraries.get(object.id)
        {
            self.recipes.hold(object, library.contents.clone());
        }
    }

    /// Forgets an object that a message has ended; one that is still there, as a released block that is mapped, has the
    /// message as its last change.
    fn end_kept(&mut self, object: Object, message: &Message<'_>) {
        if self.presence(object) != Presence::Gone {
            if object.kind == ObjectKind::Block {
                self.recipes.change(object, Some(floe_wire::Key(0)), message, None);
            }
            return;
        }
        let parent = self.recipes.parent(object);
        self.recipes.end(object, message);
        if let Some(parent) = parent.filter(|parent| self.presence(*parent) == Presence::Gone) {
            self.recipes.forget(parent);
        }
        if object.kind == ObjectKind::Library {
            self.forget_where(|issuer, it| it.kind == ObjectKind::Kernel && issuer.presence(it) != Presence::Live);
        }
    }

    fn begin_anew(&mut self) {
        self.forget_where(|issuer, object| issuer.presence(object) != Presence::Live);
        self.recipes.begin_anew();
    }

    fn forget_where(&mut self, matches: impl Fn(&Self, Object) -> bool) {
        let gone: Vec<Object> = self.recipes.objects().filter(|object| matches(self, *object)).collect();
        gone.into_iter().for_each(|object| self.recipes.forget(object));
    }

    /// Keeps a change of access with each of the mappings that it touches, cut to that, so that they can end one by one.
    fn keep_access(&mut self, at: u64, bytes: u64, payload: &[u8]) {
        let Ok(Request::SetAccess(message)) = Request::decode(SetAccess::KIND, payload) else { return };
        let end = at.saturating_add(bytes);
        let touched = self.mappings.range(..end).rev().map(|(start, mapping)| (*start, start + mapping.bytes));
        let touched: Vec<(u64, u64)> = touched.take_while(|(_, its_end)| *its_end > at).collect();
        for (start, its_end) in touched {
            let (from, to) = (start.max(at), its_end.min(end));
            let cut = SetAccess { at: DevicePtr(from), bytes: to - from, ..message };
            let object = Object { kind: ObjectKind::Mapping, id: start };
            self.recipes.drop_changes(object, |_, payload| match Request::decode(SetAccess::KIND, payload) {
                Ok(Request::SetAccess(its)) => its.at.0 >= from && its.at.0 + its.bytes <= to,
                _ => false,
            });
            let mut payload = Vec::with_capacity(20);
            cut.encode(&mut payload);
            let message = Message { kind: SetAccess::KIND, payload: &payload, reply: &[], own: Own::default() };
            self.recipes.change(object, None, &message, None);
        }
    }

    /// What the worker had taken for itself before an object's code was loaded or looked up.
    fn own_at(&self, object: Object) -> Own {
        if !matches!(object.kind, ObjectKind::Library | ObjectKind::Kernel) {
            return Own::default();
        }
        let begun = [self.uploads.has_begun(), self.downloads.has_begun(), self.late.has_begun()];
        let buffers = begun.into_iter().rev().fold(0, |bits, begun| bits << 1 | u8::from(begun));
        Own { events: self.pool.made(), buffers }
    }

    pub(crate) fn presence(&self, object: Object) -> Presence {
        let Object { kind, id } = object;
        let is = |is: bool| if is { Presence::Live } else { Presence::Gone };
        let state = match kind {
            ObjectKind::Context => return Presence::Live,
            ObjectKind::Memory => return is(self.sharing.memory.as_ref().is_some_and(|memory| memory.at == id)),
            ObjectKind::Pages => return is(self.sharing.ranges.contains_key(&id)),
            ObjectKind::Mirror => return is(self.shared.mirrors.begins(id)),
            ObjectKind::Mapping => return is(self.mappings.contains_key(&id)),
            ObjectKind::Ticket => return is(false),
            ObjectKind::PeerLink => return is(self.shared.links.get(id).is_some()),
            ObjectKind::Block => self.blocks.state(id),
            ObjectKind::Library => self.libraries.state(id),
            ObjectKind::Kernel => self.kernels.state(id),
            ObjectKind::Stream => self.streams.state(id),
            ObjectKind::Event => self.events.state(id),
            ObjectKind::Array => self.arrays.state(id),
            ObjectKind::Texture => self.textures.state(id),
            ObjectKind::Surface => self.surfaces.state(id),
            ObjectKind::Graph => self.graphs.state(id),
            ObjectKind::Signals => self.signals.state(id),
        };
        match state {
            None => Presence::Gone,
            Some(Err(_)) => Presence::Failed,
            Some(Ok(())) => Presence::Live,
        }
    }

    /// The session's objects as they are now; with a clock of an earlier image, what has changed since, or all of it again
    /// where another context has begun. The caller has looked at `refusals`.
    pub(crate) fn image(&self, since: u64) -> Image {
        let since = self.recipes.since(since);
        let (clock, whole) = self.recipes.clock();
        let mut live: Vec<Object> = self.recipes.objects().filter(|object| *object != Object::CONTEXT).collect();
        live.sort_unstable();
        let frame = self.allowance.ledger.largest_frame();
        let entries = self.recipes.entries(since);
        Image { clock, since, whole, frame, live, failures: self.failures(), broken: self.broken_graphs(), entries }
    }

    /// The ids without an object, in order.
    fn failures(&self) -> Vec<Failure> {
        let mut failures = Vec::new();
        let mut add = |kind, its: &mut dyn Iterator<Item = (u64, CudaError)>| {
            failures.extend(its.map(|(id, error)| Failure { object: Object { kind, id }, error: error.code() }));
        };
        add(ObjectKind::Block, &mut self.blocks.failures());
        add(ObjectKind::Library, &mut self.libraries.failures());
        add(ObjectKind::Kernel, &mut self.kernels.failures());
        add(ObjectKind::Stream, &mut self.streams.failures());
        add(ObjectKind::Event, &mut self.events.failures());
        add(ObjectKind::Array, &mut self.arrays.failures());
        add(ObjectKind::Texture, &mut self.textures.failures());
        add(ObjectKind::Surface, &mut self.surfaces.failures());
        add(ObjectKind::Graph, &mut self.graphs.failures());
        failures.sort_unstable();
        failures
    }

    fn broken_graphs(&self) -> Vec<Failure> {
        let broken = self.graphs.iter().filter_map(|(id, graph)| {
            let error = graph.ok()?.failed?.code();
            Some(Failure { object: Object { kind: ObjectKind::Graph, id }, error })
        });
        let mut broken: Vec<Failure> = broken.collect();
        broken.sort_unstable();
        broken
    }

    /// The contents of a hash, where a library of the image is made of them.
    pub(crate) fn content(&self, hash: &Hash) -> Option<Content> {
        self.recipes.content(hash)
    }

    /// The descriptors that another worker needs beside an image: the shared memory's and those of pages of files.
    pub(crate) fn descriptors(&self) -> Vec<(Object, BorrowedFd<'_>)> {
        let memory = self.sharing.memory.as_ref();
        let memory = memory.map(|it| (Object { kind: ObjectKind::Memory, id: it.at }, it.file.as_fd()));
        let files = self.sharing.descriptors().map(|(id, file)| (Object { kind: ObjectKind::Pages, id }, file));
        memory.into_iter().chain(files).collect()
    }
}

/// Whether a message makes something whose number the device chooses and kernels are given.
fn makes_number(kind: u16) -> bool {
    [CreateTexture::KIND, CreateSurface::KIND].contains(&kind)
}
