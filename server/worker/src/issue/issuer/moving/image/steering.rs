//! Where a driver puts the variables of libraries, steered to where they have to lie.
//! In: the places that variables have in the session that moves. Out: the same libraries, loaded again if need be, with the
//! driver's choice narrowed. Nothing relies on it: places are compared afterwards as ever.
//!
//! NVIDIA's driver puts variables into slabs of 2 MiB, one library behind the other, and slabs into regions of 32 MiB, which it
//! maps at the highest free address. Within a slab only libraries count; where a slab lies also depends on what else has taken
//! regions: streams, graphs, arrays, stacks of kernels (docs/facts/h200.md, "Where variables lie"). So a new slab is brought to
//! its place: addresses above it are kept from the driver, and slabs before it are taken by fillers. Until it is there, nothing
//! else of the driver's gets the addresses that its region needs.

use std::collections::{BTreeMap, BTreeSet};

use floe_abi::DevicePtr;
use floe_device::{Code, Content, Device, Image, ImageKind, Loading};
use floe_wire::{LoadLibrary, Message as _, Request};

use crate::issue::fault::Fault;
use crate::issue::issuer::Issuer;
use crate::issue::issuer::library::{image_of, plain_options};
use crate::issue::objects::departed::names_in;
use crate::life::moving::words::Variable;

/// Bytes of a slab, and its alignment.
const SLAB: u64 = 2 << 20;
/// Bytes of a region, and its alignment. What is larger has a mapping of its own.
const REGION: u64 = 32 << 20;
/// What the driver maps for a region is larger, and cut to that alignment: so it keeps to a region's place if half a region is free
/// below and above it, and nothing behind that.
const ROOM_AROUND: u64 = REGION / 2;
/// Regions that are kept free at a time.
const MOST_KEPT: usize = 256;
/// Bytes of all fillers at a time: nobody is charged for them, and a slab that is further away is not reached.
const MOST_FILLED: u64 = 64 * SLAB;
/// No variable lies from here on. Sums of addresses and bytes below it do not overflow.
const NO_ADDRESS: u64 = 1 << 56;
/// A filler's one variable.
const FILLER: &str = "floe_filler";

/// Where variables of libraries have to lie, and what is known of slabs here.
#[derive(Default)]
pub(crate) struct Places {
    wanted: BTreeMap<u64, Place>,
    /// What keeps the driver's own out of the rooms of places that nothing lies in yet: starts, and ends.
    kept: BTreeMap<u64, (u64, Box<dyn Send>)>,
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
    /// Bytes from the library's first variable to the end of the last that lies with it.
    span: u64,
}

impl Places {
    /// The session that moves has its variables here now.
    pub(crate) fn want(&mut self, variables: &[Variable], device: &impl Device) {
        self.wanted.clear();
        self.kept.clear();
        let can_be = |it: &&Variable| it.bytes > 0 && it.at.checked_add(it.bytes).is_some_and(|end| end < NO_ADDRESS);
        let mut ordered: Vec<&Variable> = variables.iter().filter(can_be).collect();
        ordered.sort_unstable_by_key(|variable| (variable.library, variable.at));
        for Variable { library, name, at, bytes } in ordered {
            let end = at + bytes;
            let first = || Place { name: name.clone(), at: *at, span: 0 };
            let place = self.wanted.entry(*library).or_insert_with(first);
            // What is further away is not part of the same memory.
            if *at <= place.at + place.span + SLAB {
                place.span = place.span.max(end - place.at);
            }
        }
        self.keep_free(device);
    }

    /// Keeps the driver's own out of every room that is wanted and has no variables yet.
    fn keep_free(&mut self, device: &impl Device) {
        for place in self.wanted.values() {
            let (start, end) = room(place.at, place.span);
            let is_settled = self.slabs.range(start + ROOM_AROUND..end - ROOM_AROUND).next().is_some();
            if is_settled || self.kept.contains_key(&start) || self.kept.len() == MOST_KEPT {
                continue;
            }
            // Without it there may be room all the same.
            if let Ok(kept) = device.keep(DevicePtr(start)..DevicePtr(end)) {
                self.kept.insert(start, (end, kept));
            }
        }
    }

    /// The library gets a place now: if it is to begin a slab, the driver may have the room, and what its neighbours share with it.
    pub(super) fn let_in(&mut self, library: u64) {
        let Some((at, span)) = self.of(library).filter(|(at, _)| !self.slabs.contains(&slab(*at))) else { return };
        let (first, last) = room(at, span);
        self.kept.retain(|start, (end, _)| *end <= first || *start >= last);
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

/// The addresses that the driver needs for the region of such variables: start and end.
fn room(at: u64, span: u64) -> (u64, u64) {
    let start = (at & !(REGION - 1)).saturating_sub(ROOM_AROUND);
    (start, (at + span).next_multiple_of(REGION) + ROOM_AROUND)
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
        places.let_in(library);
        let Some(found) = self.place_of(library, &name) else { return };
        let Some((wanted, span)) = places.of(library) else {
            places.slabs.insert(slab(found));
            return;
        };
        // A library that lies in a slab with others cannot be told from here to lie in another.
        if slab(found) != slab(wanted) && !places.slabs.contains(&slab(found)) {
            // A library that does not come back is missed by the next message that names it.
            let tried = self.load_at(library, &load, &name, (wanted, span));
            let now = self.place_of(library, &name).unwrap_or(0);
            if slab(now) != slab(wanted) {
                let last = tried.ok().and_then(|slabs| slabs.last().copied()).unwrap_or(0);
                let words = format_args!(
                    "{name} of library {library} lies at {now:#x}, before at {found:#x}, not in the slab of {wanted:#x}; tried last: {last:#x}"
                );
                self.shared.log.line(words);
            }
        }
        places.slabs.extend(self.place_of(library, &name).map(slab));
        places.keep_free(self.device());
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

    /// Loads the library again, with nothing else left for its variables than the slab they should lie in. Returns the slabs that
    /// fillers had on the way.
    fn load_at(
        &mut self,
        library: u64,
        load: &LoadLibrary<'_>,
        name: &str,
        (wanted, span): (u64, u64),
    ) -> Result<Vec<u64>, Fault> {
        let loaded = self.libraries.get(library)?;
        let contents = loaded.contents.iter().map(|(_, content)| content.clone()).collect();
        let (code, image) = (loaded.code, image_of(load.kind, contents)?);
        let loading = Loading { at_once: load.at_once, options: plain_options(&load.options)?, log_bytes: 0 };
        let (first, end) = (slab(wanted), (wanted + span).next_multiple_of(SLAB));
        let is_in_region = end - first <= REGION;
        let limit = if is_in_region { end.next_multiple_of(REGION) + ROOM_AROUND } else { end };
        let kept = self.device().keep(DevicePtr(limit)..DevicePtr(u64::MAX))?;
        self.device().unload(code)?;
        let fillers = if is_in_region { self.fillers_before(first, end - first) } else { Fillers::default() };
        match self.device().load(image, &loading) {
            Ok((code, _)) => self.libraries.get_mut(library)?.code = code,
            Err(failure) => {
                let charge = self.libraries.remove(library)?.map_or(0, |loaded| loaded.charge);
                self.allowance.ledger.give(charge);
                self.libraries.bind(library, Err(failure.error));
            }
        }
        // The question gives its variables their places.
        self.place_of(library, name);
        for filler in fillers.held {
            // It would only take memory.
            let _ = self.device().unload(filler);
        }
        drop(kept);
        Ok(fillers.slabs)
    }

    /// Takes slabs until one lies at `first`, and gives that one back.
    fn fillers_before(&self, first: u64, bytes: u64) -> Fillers {
        // Whole slabs: it fits into none that holds anything.
        let text = format!(
            ".version 7.0\n.target sm_75\n.address_size 64\n.visible .global .align 8 .b8 {FILLER}[{bytes}];\n"
        );
        let mut fillers = Fillers::default();
        for _ in 0..MOST_FILLED / bytes {
            let image = Image { kind: ImageKind::Ptx, contents: vec![Content::from(text.as_bytes())] };
            let loading = Loading { at_once: true, options: Vec::new(), log_bytes: 0 };
            let Ok((code, _)) = self.device().load(image, &loading) else { break };
            let at = self.device().find_global(code, FILLER).map_or(0, |found| slab(found.at.0));
            fillers.slabs.push(at);
            if at == first {
                let _ = self.device().unload(code);
                break;
            }
            fillers.held.push(code);
        }
        fillers
    }
}

/// Code that takes slabs.
#[derive(Default)]
struct Fillers {
    held: Vec<Code>,
    /// Where each lay, and the one that was given back.
    slabs: Vec<u64>,
}
