//! Makes a session's objects from the image of another worker's.
//! In: an image that nobody believes, contents and descriptors. Out: the same objects at the same ids, or what differs, by name.
//! It carries messages out as a client's, answers nobody, and waits for no work. A session that nobody uses yet may replay
//! several images: each later one has what changed since.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use floe_abi::{CudaError, SurfaceObject, TextureObject};
use floe_device::{Content, Device};
use floe_wire::{
    CreateSurface, CreateTexture, DevicePtr, Entry, Failure, FindGlobal, FindKernel, Image, ImportBlock, Message,
    Object, ObjectKind, Recipe, Request, ResetContext,
};

use super::steering::Places;
use super::words::difference;
use super::{Issuer, Presence, binding, is_repeatable, makes_number};
use crate::issue::cache::Hash;
use crate::issue::fault::Fault;
use crate::issue::issuer::Answer;

/// Differences that are named; with one more the replay stops.
const MOST_DIFFERENCES: usize = 16;
/// Textures that are made and thrown away until a number comes.
const MOST_THROWN_AWAY: usize = 1024;

/// What a replay needs beside an image.
pub(crate) struct Supplies<'a> {
    /// Contents of libraries by their hash; those that are not given are looked for in the cache.
    pub(crate) contents: &'a mut dyn FnMut(&Hash) -> Option<Content>,
    /// Descriptors of shared memory and of pages of files.
    pub(crate) descriptors: &'a mut dyn FnMut(Object) -> Option<OwnedFd>,
    /// Where variables of libraries have to lie.
    pub(crate) places: &'a mut Places,
    /// Whether ended objects are made and ended again, too, so that what the driver chooses lies where it lay.
    pub(crate) past: bool,
}

/// Why a message of an image is not carried out.
enum Stops {
    /// The reply is another one: the replay may go on, to name more.
    Differs(String),
    Refused(String),
}

/// A texture or surface that has another number than the wanted one.
enum Thrown {
    Texture(TextureObject),
    Surface(SurfaceObject),
}

impl<D: Device> Issuer<D> {
    /// Makes the objects of an image: its own that are not in the image end first.
    ///
    /// # Errors
    /// What differs or cannot be, in words. The session then has a part of the objects, and nobody may use it.
    pub(crate) fn replay(&mut self, image: &Image, supplies: &mut Supplies<'_>) -> Result<(), Vec<String>> {
        if image.since == 0 && self.recipes.objects().next().is_some() {
            self.start_anew().map_err(|fault| vec![format!("the context cannot begin anew: {fault}")])?;
        }
        // A node of a failed kernel is a gap in its graph.
        self.end_others(image).and_then(|()| self.set_failures(image, true)).map_err(|words| vec![words])?;
        let mut differences = Vec::new();
        let past = supplies.past && image.whole;
        for entry in image.entries.iter().filter(|entry| past || !entry.past) {
            match self.replay_entry(entry, supplies) {
                Ok(()) => {}
                Err(Stops::Differs(words)) if differences.len() < MOST_DIFFERENCES => differences.push(words),
                Err(Stops::Differs(words) | Stops::Refused(words)) => {
                    differences.push(words);
                    return Err(differences);
                }
            }
        }
        if let Err(words) = self.set_state(image) {
            differences.push(words);
        }
        if differences.is_empty() { Ok(()) } else { Err(differences) }
    }

    fn replay_entry(&mut self, entry: &Entry, supplies: &mut Supplies<'_>) -> Result<(), Stops> {
        let request = Request::decode(entry.kind, &entry.payload).map_err(|error| Stops::Refused(error.to_string()))?;
        let object = demand_repeatable(&request)?;
        self.prepare(entry).map_err(|error| Stops::Refused(format!("{object}: preparing for it: {error}")))?;
        if matches!(request.recipe(), Recipe::Makes { .. }) {
            // Another one now has its place.
            match self.presence(object) {
                Presence::Live => self.end_object(object).map_err(|fault| refused(&request, object, &fault))?,
                Presence::Failed => self.forget_failure(object),
                Presence::Gone => {}
            }
        }
        match &request {
            Request::LoadLibrary(load) => {
                let hashes = load.contents.iter().filter_map(|content| Hash::try_from(content.hash).ok());
                for hash in hashes {
                    if let Some(content) = (supplies.contents)(&hash) {
                        self.contents.supply(hash, content);
                    }
                }
                if load.at_once {
                    supplies.places.let_in(object.id);
                }
            }
            Request::FindKernel(FindKernel { library, .. }) | Request::FindGlobal(FindGlobal { library, .. }) => {
                self.settle(library.0, supplies.places);
            }
            Request::ShareMemory(_) | Request::ShareFile(_) => {
                *floe_lock::lock(&self.shared.descriptor) = (supplies.descriptors)(object);
            }
            _ => {}
        }
        let outcome = match makes_number(entry.kind) {
            true => self.make_numbered(entry, &request),
            false => self.dispatch(request.clone(), entry.kind, &entry.payload),
        };
        self.contents.supply_nothing();
        floe_lock::lock(&self.shared.descriptor).take();
        let reply = match &outcome {
            Ok(Answer::Body(body)) => binding(entry.kind, body),
            Ok(Answer::Nothing) => &[],
            Ok(Answer::Later) => return Err(Stops::Refused(format!("{}: it is answered later", request.name()))),
            Err(fault) => return Err(refused(&request, object, fault)),
        };
        let is_one = matches!(request.recipe(), Recipe::Makes { .. } | Recipe::Changes { bytes: None, .. });
        if is_one && self.presence(object) != Presence::Live {
            return Err(Stops::Refused(format!("{} does not make {object} here", request.name())));
        }
        if let Request::LoadLibrary(load) = &request {
            supplies.places.note(object.id, &entry.payload);
            // Others have their places at the first question.
            if load.at_once {
                self.settle(object.id, supplies.places);
            }
        }
        difference(&request, &entry.reply, reply).map_or(Ok(()), |words| Err(Stops::Differs(words)))
    }

    /// Takes from the driver what the other worker had taken before, as far as this one takes so much by itself.
    fn prepare(&self, entry: &Entry) -> Result<(), CudaError> {
        let device = &self.shared.device;
        let begins = |bit: u8| entry.own.buffers & (1 << bit) != 0;
        self.pool.prepare(entry.own.events)?;
        if begins(0) {
            self.uploads.begin(device)?;
        }
        if begins(1) {
            self.downloads.begin(device)?;
        }
        if begins(2) {
            self.late.begin(device)?;
        }
        Ok(())
    }

    /// Makes a texture or surface with the number that its reply names: others are made and held until that comes.
    fn make_numbered(&mut self, entry: &Entry, request: &Request<'_>) -> Result<Answer, Fault> {
        let mut thrown = Vec::new();
        let outcome = loop {
            let outcome = request.clone().dispatch(self);
            let is_wanted = !matches!(&outcome, Ok(Answer::Body(body)) if *body != entry.reply);
            if is_wanted || thrown.len() >= MOST_THROWN_AWAY {
                break outcome;
            }
            thrown.extend(self.take_out(request));
        };
        self.keep(request.recipe(), entry.kind, &entry.payload, &outcome);
        for thrown in thrown {
            // They would only take memory.
            let _ = match thrown {
                Thrown::Texture(texture) => self.shared.device.tex_object_destroy(texture),
                Thrown::Surface(surface) => self.shared.device.surf_object_destroy(surface),
            };
        }
        outcome
    }

    fn take_out(&mut self, request: &Request<'_>) -> Option<Thrown> {
        match request {
            Request::CreateTexture(CreateTexture { texture, .. }) => {
                self.textures.remove(texture.0).ok().flatten().map(Thrown::Texture)
            }
            Request::CreateSurface(CreateSurface { surface, .. }) => {
                self.surfaces.remove(surface.0).ok().flatten().map(Thrown::Surface)
            }
            _ => None,
        }
    }

    /// Drops everything that an earlier image brought, with the context.
    fn start_anew(&mut self) -> Result<(), Fault> {
        self.end_by(&ResetContext {})?;
        if let Some(memory) = self.sharing.memory.take() {
            self.recipes.forget(Object { kind: ObjectKind::Memory, id: memory.at });
        }
        Ok(())
    }

    /// Ends what the other session has no longer, and forgets failures that it has no longer.
    fn end_others(&mut self, image: &Image) -> Result<(), String> {
        let live: BTreeSet<Object> = image.live.iter().copied().collect();
        let mut others: Vec<Object> = self.recipes.objects().filter(|object| !live.contains(object)).collect();
        // Kernels go with their libraries.
        others.retain(|object| ![ObjectKind::Context, ObjectKind::Kernel].contains(&object.kind));
        // What is made of others goes before them.
        others.sort_unstable_by_key(|object| std::cmp::Reverse(*object));
        for object in others {
            if self.presence(object) == Presence::Live {
                self.end_object(object).map_err(|fault| format!("ending {object}: {fault}"))?;
            }
        }
        let failed: BTreeSet<Object> = image.failures.iter().map(|failure| failure.object).collect();
        for Failure { object, .. } in self.failures() {
            if !failed.contains(&object) {
                self.forget_failure(object);
            }
        }
        Ok(())
    }

    /// Ends an object of a session that nobody uses, as its client would.
    fn end_object(&mut self, object: Object) -> Result<(), Fault> {
        let Object { kind, id } = object;
        match kind {
            ObjectKind::Block => self.end_whole_block(floe_wire::BlockId(id)),
            ObjectKind::Mapping => {
                let bytes = self.mappings.get(&id).map_or(0, |mapping| mapping.bytes);
                self.end_by(&floe_wire::UnmapRange { at: DevicePtr(id), bytes })
            }
            ObjectKind::Library => self.end_by(&floe_wire::UnloadLibrary { library: floe_wire::LibraryId(id) }),
            ObjectKind::Stream => self.end_by(&floe_wire::DestroyStream { stream: floe_wire::StreamId(id) }),
            ObjectKind::Event => self.end_by(&floe_wire::DestroyEvent { event: floe_wire::EventId(id) }),
            ObjectKind::Array => self.end_by(&floe_wire::DestroyArray { array: floe_wire::ArrayId(id) }),
            ObjectKind::Texture => self.end_by(&floe_wire::DestroyTexture { texture: floe_wire::TextureId(id) }),
            ObjectKind::Surface => self.end_by(&floe_wire::DestroySurface { surface: floe_wire::SurfaceId(id) }),
            ObjectKind::Graph => self.end_by(&floe_wire::DestroyGraph { graph: floe_wire::GraphId(id) }),
            // These would say something to the client.
            ObjectKind::Mirror => {
                self.shared.mirrors.remove(DevicePtr(id))?;
                self.recipes.forget(object);
                Ok(())
            }
            ObjectKind::Pages => {
                self.sharing.remove(DevicePtr(id))?;
                self.recipes.forget(object);
                Ok(())
            }
            // These have no end of their own.
            ObjectKind::Context
            | ObjectKind::Memory
            | ObjectKind::Kernel
            | ObjectKind::Signals
            | ObjectKind::Ticket
            | ObjectKind::PeerLink => Err(Fault::Program(CudaError::INVALID_HANDLE)),
        }
    }

    /// Ends a block with its mappings, which the other session has no longer either.
    fn end_whole_block(&mut self, block: floe_wire::BlockId) -> Result<(), Fault> {
        let mappings = self.mappings.iter().filter(|(_, mapping)| mapping.block == block);
        for id in mappings.map(|(at, _)| *at).collect::<Vec<_>>() {
            self.end_object(Object { kind: ObjectKind::Mapping, id })?;
        }
        // A released one is gone with its last mapping.
        if self.blocks.state(block.0).is_some() { self.end_by(&floe_wire::ReleaseBlock { block }) } else { Ok(()) }
    }

    fn end_by<M: Message>(&mut self, message: &M) -> Result<(), Fault> {
        let mut payload = Vec::new();
        message.encode(&mut payload);
        self.dispatch(Request::decode(M::KIND, &payload)?, M::KIND, &payload).map(drop)
    }

    fn forget_failure(&mut self, object: Object) {
        let Object { kind, id } = object;
        // Each was there a moment ago.
        match kind {
            ObjectKind::Block => drop(self.blocks.remove(id)),
            ObjectKind::Library => drop(self.libraries.remove(id)),
            ObjectKind::Kernel => drop(self.kernels.remove(id)),
            ObjectKind::Stream => drop(self.streams.remove(id)),
            ObjectKind::Event => drop(self.events.remove(id)),
            ObjectKind::Array => drop(self.arrays.remove(id)),
            ObjectKind::Texture => drop(self.textures.remove(id)),
            ObjectKind::Surface => drop(self.surfaces.remove(id)),
            ObjectKind::Graph => drop(self.graphs.remove(id)),
            _ => {}
        }
    }

    /// Binds ids to failures. Those of live objects are passed over where these are still to end.
    fn set_failures(&mut self, image: &Image, pass_over_live: bool) -> Result<(), String> {
        for failure in &image.failures {
            let (Object { kind, id }, error) = (failure.object, code(failure)?);
            let is_there = self.presence(failure.object) == Presence::Live;
            if is_there && pass_over_live {
                continue;
            }
            if is_there || id == 0 {
                return Err(format!("{} is there and has failed", failure.object));
            }
            self.forget_failure(failure.object);
            match kind {
                ObjectKind::Block => self.blocks.bind(id, Err(error)),
                ObjectKind::Library => self.libraries.bind(id, Err(error)),
                ObjectKind::Kernel => self.kernels.bind(id, Err(error)),
                ObjectKind::Stream => self.streams.bind(id, Err(error)),
                ObjectKind::Event => self.events.bind(id, Err(error)),
                ObjectKind::Array => self.arrays.bind(id, Err(error)),
                ObjectKind::Texture => self.textures.bind(id, Err(error)),
                ObjectKind::Surface => self.surfaces.bind(id, Err(error)),
                ObjectKind::Graph => self.graphs.bind(id, Err(error)),
                _ => return Err(format!("nothing of its kind fails: {}", failure.object)),
            }
        }
        Ok(())
    }

    /// What no message says: graphs that failed later, and the charge for frames of kernels.
    fn set_state(&mut self, image: &Image) -> Result<(), String> {
        // An ended object may have had the id of one that failed.
        self.set_failures(image, false)?;
        if let Some(object) = image.live.iter().find(|object| self.presence(**object) != Presence::Live) {
            return Err(format!("no message of the image has made {object}"));
        }
        for failure in &image.broken {
            let error = code(failure)?;
            let none = |_| format!("no graph of the image has the id: {}", failure.object.id);
            self.graphs.get_mut(failure.object.id).map_err(none)?.failed = Some(error);
        }
        let frame = self.allowance.ledger.frame(image.frame);
        frame.map_err(|fault| format!("memory for the stacks of kernels: {fault}"))
    }
}

fn code(failure: &Failure) -> Result<CudaError, String> {
    let none = || format!("{} has failed with what is no error: {}", failure.object, failure.error);
    CudaError::from_code(failure.error).ok_or_else(none)
}

/// The object of a message that another worker may have carried out.
fn demand_repeatable(request: &Request<'_>) -> Result<Object, Stops> {
    let object = match request.recipe() {
        Recipe::Makes { object, .. } | Recipe::Changes { object, .. } => Some(object),
        Recipe::Ends { object, bytes: None }
            if matches!(
                object.kind,
                ObjectKind::Block | ObjectKind::Stream | ObjectKind::Event | ObjectKind::Library
            ) =>
        {
            Some(object)
        }
        Recipe::Ends { .. } | Recipe::None => None,
    };
    let is_import = request.kind() == ImportBlock::KIND;
    object
        .filter(|object| is_repeatable(object.kind) && !is_import)
        .ok_or_else(|| Stops::Refused(format!("no image has the message: {}", request.name())))
}

fn refused(request: &Request<'_>, object: Object, fault: &Fault) -> Stops {
    Stops::Refused(format!("{object}: {}: {fault}", request.name()))
}
