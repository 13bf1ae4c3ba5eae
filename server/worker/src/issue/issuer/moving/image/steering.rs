//! Where a driver puts the variables of libraries, steered to where they have to lie.
//! In: the places that variables have in the session that moves. Out: the same libraries, loaded again if need be, with the
//! driver's choice narrowed. Nothing relies on it: places are compared afterwards as ever.
//!
//! NVIDIA's driver puts variables into slabs of 2 MiB, one library behind the other, and slabs into regions of 32 MiB, which it
//! maps at the highest free address. Within a slab only libraries count; where a slab lies also depends on what else has taken
//! regions: streams, graphs, arrays, stacks of kernels (docs/facts/h200.md, "Where variables lie"). So a new slab is brought to
//! its place: addresses above it are kept from the driver, and slabs before it are taken by fillers.

use std::collections::{BTreeMap, BTreeSet};

use floe_abi::{CudaError, CudaResult, DevicePtr};
use floe_device::{Code, Content, Device, Image, ImageKind, Loading};
use floe_wire::{LoadLibrary, Message as _, Request};

use crate::issue::issuer::Issuer;
use crate::issue::issuer::library::{image_of, plain_options};
use crate::issue::objects::departed::names_in;
use crate::life::moving::words::Variable;

/// Bytes of a slab, and its alignment.
const SLAB: u64 = 2 << 20;
/// Bytes of a region, and its alignment. What is larger has a mapping of its own.
const REGION: u64 = 32 << 20;
/// Fillers at a time: they take memory of the GPU, and a slab that is further away is not reached.
const MOST_FILLERS: usize = 64;
/// A filler's one variable.
const FILLER: &str = "floe_filler";

/// Where variables of libraries have to lie, and what is known of slabs here.
#[derive(Debug, Default)]
pub(crate) struct Places {
    wanted: BTreeMap<u64, Place>,
    /// Slabs that hold variables here, by their addresses.
    slabs: BTreeSet<u64>,
    /// Loads of libraries whose place has not been looked at.
    loads: BTreeMap<u64, Vec<u8>>,
}

/// One library's variables.
#[derive(Debug)]
struct Place {
    name: String,
    /// Of the variable of that name.
    at: u64,
    /// Bytes from the library's first variable to the end of its last.
    span: u64,
}

impl Places {
    /// The session that moves has its variables here now.
    pub(crate) fn want(&mut self, variables: &[Variable]) {
        self.wanted.clear();
        let mut ends: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for Variable { library, name, at, bytes } in variables {
            let end = at.saturating_add(*bytes);
            let (from, to) = ends.entry(*library).or_insert((*at, end));
            (*from, *to) = ((*from).min(*at), (*to).max(end));
            let span = *to - *from;
            let place = self.wanted.entry(*library).or_insert_with(|| Place { name: name.clone(), at: *at, span });
            place.span = span;
        }
    }

    /// The library was loaded by this message, and nobody has looked where it lies.
    pub(super) fn note(&mut self, library: u64, load: &[u8]) {
        self.loads.insert(library, load.to_vec());
    }

    /// Where a library should lie. One that has ended in the session that moves has no place there any more: if it begins a slab,
    /// then the one that a later library lies in.
    fn of(&self, library: u64) -> Option<(u64, u64)> {
        if let Some(place) = self.wanted.get(&library) {
            return Some((place.at, place.span));
        }
        let mut later = self.wanted.range(library..).map(|(_, place)| slab(place.at));
        later.find(|slab| !self.slabs.contains(slab)).map(|slab| (slab, 1))
    }
}

fn slab(at: u64) -> u64 {
    at & !(SLAB - 1)
}

impl<D: Device> Issuer<D> {
    /// Looks where a library's variables lie, if that was not done, and has them lie where they have to, as far as that can be.
    /// The driver gives variables their places at the first question for one.
    pub(super) fn settle(&mut self, library: u64, places: &mut Places) {
        let Some(load) = places.loads.remove(&library) else { return };
        let Ok(Request::LoadLibrary(load)) = Request::decode(LoadLibrary::KIND, &load) else {
            return;
        };
        let Some(name) = self.name_in(library, places) else { return };
        let Some(found) = self.place_of(library, &name) else { return };
        let Some((wanted, span)) = places.of(library) else {
            places.slabs.insert(slab(found));
            return;
        };
        // A library that lies in a slab with others cannot be told from here to lie in another.
        if slab(found) != slab(wanted) && !places.slabs.contains(&slab(found)) {
            // A library that does not come back is missed by the next message that names it.
            let _ = self.load_at(library, &load, wanted, span);
        }
        places.slabs.extend(self.place_of(library, &name).map(slab));
    }

    /// A variable of the library.
    fn name_in(&self, library: u64, places: &Places) -> Option<String> {
        if let Some(place) = places.wanted.get(&library) {
            return Some(place.name.clone());
        }
        let contents = &self.libraries.get(library).ok()?.contents;
        let contents: Vec<Content> = contents.iter().map(|(_, content)| content.clone()).collect();
        names_in(library, &contents).ok()?.into_iter().next()
    }

    fn place_of(&self, library: u64, name: &str) -> Option<u64> {
        let code = self.libraries.get(library).ok()?.code;
        self.device().find_global(code, name).ok().map(|found| found.at.0)
    }

    /// Loads the library again, with nothing else left for its variables than the slab they should lie in.
    fn load_at(&mut self, library: u64, load: &LoadLibrary<'_>, wanted: u64, span: u64) -> CudaResult<()> {
        let loaded = self.libraries.get(library).map_err(|_| CudaError::NOT_FOUND)?;
        let contents = loaded.contents.iter().map(|(_, content)| content.clone()).collect();
        let image = image_of(load.kind, contents).map_err(|_| CudaError::INVALID_IMAGE)?;
        let options = plain_options(&load.options).map_err(|_| CudaError::INVALID_VALUE)?;
        let loading = Loading { at_once: load.at_once, options, log_bytes: 0 };
        let (first, end) = (slab(wanted), wanted.saturating_add(span).next_multiple_of(SLAB));
        let is_in_region = end - first <= REGION;
        let _kept =
            self.device().keep_below(DevicePtr(if is_in_region { end.next_multiple_of(REGION) } else { end }))?;
        self.device().unload(self.libraries.get(library).map_err(|_| CudaError::NOT_FOUND)?.code)?;
        let fillers = if is_in_region { self.fillers_before(first, end - first) } else { Vec::new() };
        let again = self.device().load(image, &loading).map_err(|failure| failure.error);
        for filler in fillers {
            // It would only take memory.
            let _ = self.device().unload(filler);
        }
        match again {
            Ok((code, _)) => {
                self.libraries.get_mut(library).map(|loaded| loaded.code = code).map_err(|_| CudaError::NOT_FOUND)
            }
            Err(error) => {
                let _ = self.libraries.remove(library);
                self.libraries.bind(library, Err(error));
                Err(error)
            }
        }
    }

    /// Takes slabs until one lies at `first`, and gives that one back. The others are held by what is returned.
    fn fillers_before(&self, first: u64, bytes: u64) -> Vec<Code> {
        // Whole slabs: it fits into none that holds anything.
        let text = format!(
            ".version 7.0\n.target sm_50\n.address_size 64\n.visible .global .align 8 .b8 {FILLER}[{bytes}];\n"
        );
        let mut fillers = Vec::new();
        while fillers.len() < MOST_FILLERS {
            let image = Image { kind: ImageKind::Ptx, contents: vec![Content::from(text.as_bytes())] };
            let loading = Loading { at_once: true, options: Vec::new(), log_bytes: 0 };
            let Ok((code, _)) = self.device().load(image, &loading) else { break };
            let at = self.device().find_global(code, FILLER).map(|found| slab(found.at.0));
            if at == Ok(first) {
                let _ = self.device().unload(code);
                break;
            }
            fillers.push(code);
        }
        fillers
    }
}
