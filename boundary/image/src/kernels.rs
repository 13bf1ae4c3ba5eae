//! Kernels of machine code, as far as a launch needs to know them before a driver has loaded it.
//! In goes an image with code for a device; out come, by name, the layouts of parameters and bounds of what launches may ask for.
//! It says nothing of a kernel that it does not understand in full, and nothing at all of an image that a driver might read otherwise.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::elf::{self, FunctionSymbol, Section};
use crate::error::ImageError;
use crate::nv_info::{self, CONSTANT_PREFIX, FORMAT_SIZED, INFO_PREFIX, Item, items};
use crate::{ComputeCapability, EntryKind, Fatbin, Image, ImageKind, Limits, Parameter, Takes};

/// Cubins of one image that a device may run: one for the architecture beside one for all devices, and no more than a few.
const MOST_CUBINS: usize = 4;
/// Bytes that may be read of a file for each of its own. Sections of compilers do not overlap.
const MOST_OVERLAP: u64 = 4;

const TEXT_PREFIX: &[u8] = b".text.";
const SHARED_PREFIX: &[u8] = b".nv.shared.";
/// Shared memory that belongs to no kernel of the file's.
const SHARED: &[u8] = b".nv.shared";
const RESERVED_PREFIX: &[u8] = b".nv.shared.reserved.";
/// Of the whole file.
const INFO: &[u8] = b".nv.info";

/// `EIATTR_MAX_THREADS`: threads of a block on each axis, at most.
const MOST_THREADS: u8 = 0x05;
/// `EIATTR_REGCOUNT`: a symbol, and the registers of each thread.
const REGISTERS: u8 = 0x2f;
/// The most registers that a thread can have.
const ALL_REGISTERS: u32 = 255;
/// The last item that is known, apart from one that nvcc 13 writes for each kernel. What later ones mean for a launch is not known.
const LAST_KNOWN: u8 = 0x51;
const EVERY_KERNELS: u8 = 0x5f;
/// Items of kernels whose launches are others than plain ones: `EIATTR_REQNTID` (blocks of one size), `EIATTR_CTA_PER_CLUSTER`,
/// `EIATTR_EXPLICIT_CLUSTER` and `EIATTR_MAX_CLUSTER_RANK`.
const SPECIAL: [u8; 4] = [0x10, 0x3d, 0x3e, 0x3f];

/// What the code says of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFacts {
    /// Its parameters, as the driver reports them.
    pub parameters: Vec<Parameter>,
    /// Static shared memory of a block in bytes: at least what the driver reports. Files of nvcc 13 count 1 KiB that devices keep for
    /// themselves, too.
    pub shared: u32,
    /// Threads of a block that it was compiled for, if that was said.
    pub threads: Option<u32>,
    /// Registers of a thread.
    pub registers: u32,
}

impl KernelFacts {
    /// Threads of a block that a device with so many registers for one launches for certain. It may launch more.
    pub fn certain_threads(&self, registers_of_block: u32) -> u32 {
        /// Registers go to warps of 32 threads by 8 for each thread. A multiprocessor has four parts, each with its own
        /// registers, and a block's warps go to these in turn.
        const WARP: u32 = 32;
        const UNIT: u32 = 8;
        const PARTS: u32 = 4;
        let of_warp = self.registers.next_multiple_of(UNIT).max(UNIT) * WARP;
        let fit = (registers_of_block / PARTS / of_warp).saturating_mul(PARTS * WARP);
        fit.min(self.threads.unwrap_or(u32::MAX))
    }

    /// What holds for both.
    fn or(self, other: &Self) -> Result<Self, &'static str> {
        if self.parameters != other.parameters {
            return Err("the image's codes for the device differ in its parameters");
        }
        Ok(Self {
            shared: self.shared.max(other.shared),
            threads: [self.threads, other.threads].into_iter().flatten().min(),
            registers: self.registers.max(other.registers),
            ..self
        })
    }
}

/// The kernels of an image by name, or why a launch of one needs a driver's word.
#[derive(Clone, Debug, Default)]
pub struct Kernels(HashMap<String, Result<KernelFacts, &'static str>>);

impl Kernels {
    /// The kernels of an image on a device, which runs machine code of it for certain.
    ///
    /// # Errors
    /// An image of which that is not certain, or that is damaged or too large.
    pub fn of(image: &Image<'_>, device: ComputeCapability, limits: &Limits) -> Result<Self, ImageError> {
        if !image.kept_for(&[Takes::MachineCode(device)], limits).certain {
            return Err(ImageError::Unsaid("it is not certain which code the device takes"));
        }
        let mut cubins = cubins(image, device, limits)?.into_iter();
        let first = cubins.next().ok_or(ImageError::Unsaid("it has no code for the device"))?;
        let mut kernels = of_cubin(&first)?;
        for cubin in cubins {
            let others = of_cubin(&cubin)?;
            for (name, facts) in &mut kernels {
                let other = others.get(name).ok_or("the image's codes for the device have not all of them this kernel");
                let both = |own: KernelFacts| own.or(other?.as_ref().map_err(|why| *why)?);
                *facts = std::mem::replace(facts, Err("")).and_then(both);
            }
        }
        Ok(Self(kernels))
    }

    /// What is known of a kernel.
    ///
    /// # Errors
    /// Why nothing is.
    pub fn get(&self, name: &str) -> Result<&KernelFacts, &'static str> {
        self.0.get(name).map_or(Err("the image has no such kernel"), |facts| facts.as_ref().map_err(|why| *why))
    }

    /// Whether it has no kernel.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All names, also of those of which nothing is known.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// The codes of an image, expanded, that the device may run.
fn cubins<'a>(
    image: &'a Image<'_>,
    device: ComputeCapability,
    limits: &Limits,
) -> Result<Vec<Cow<'a, [u8]>>, ImageError> {
    let main = image.containers.first().ok_or(ImageError::Unsaid("it is empty"))?;
    if image.kind != ImageKind::Fatbin {
        return Ok(vec![Cow::Borrowed(main)]);
    }
    let fatbin = Fatbin::parse(main, limits)?;
    let runs = fatbin.entries.iter().filter(|entry| match entry.kind {
        EntryKind::Cubin => entry.target.cubin_runs_on(device),
        EntryKind::Ptx => false,
        // What a driver makes of it is not known.
        EntryKind::Other(_) => true,
    });
    let runs: Vec<_> = runs.collect();
    let bytes = runs.iter().try_fold(0_u64, |all, entry| all.checked_add(entry.expanded_size)).unwrap_or(u64::MAX);
    let limit = limits.entry_bytes as u64;
    if bytes > limit {
        return Err(ImageError::TooLarge { what: "bytes of code for the device", size: bytes, limit });
    }
    if runs.len() > MOST_CUBINS || runs.iter().any(|entry| entry.kind != EntryKind::Cubin) {
        return Err(ImageError::Unsaid("it has more codes for the device than are looked at"));
    }
    runs.into_iter().map(|entry| entry.data(limits)).collect()
}

/// A file's sections by name, and its functions.
struct Cubin<'a> {
    sections: &'a [Section<'a>],
    /// `None`: there are two of the name.
    by_name: HashMap<&'a [u8], Option<usize>>,
    registers: HashMap<usize, u32>,
    /// Shared memory that is no kernel's own.
    shared: u64,
}

fn of_cubin(file: &[u8]) -> Result<HashMap<String, Result<KernelFacts, &'static str>>, ImageError> {
    if !elf::is_linked(file) {
        return Err(ImageError::Unsaid("its code is not linked"));
    }
    let sections = elf::sections(file)?;
    let is_info = |section: &&Section<'_>| section.name.starts_with(INFO);
    let names = sections.iter().map(|section| section.name.len());
    let read = names.chain(sections.iter().filter(is_info).map(|section| section.bytes.len()));
    if read.map(|bytes| bytes as u64).sum::<u64>() > (file.len() as u64).saturating_mul(MOST_OVERLAP) {
        return Err(ImageError::Unsaid("its parts overlap"));
    }
    let functions = elf::functions(&sections).ok_or(ImageError::Unsaid("its symbols are not understood"))?;
    let cubin = Cubin::new(&sections)?;
    Ok(by_name(&functions, |index, symbol| cubin.facts(index, symbol)))
}

/// The kernels among functions, with the facts that `read` finds of each. It is asked once for a name: a file with many symbols of one
/// would have the same items read as often.
fn by_name(
    functions: &[(usize, FunctionSymbol<'_>)],
    mut read: impl FnMut(usize, &FunctionSymbol<'_>) -> Result<KernelFacts, &'static str>,
) -> HashMap<String, Result<KernelFacts, &'static str>> {
    let mut kernels = HashMap::new();
    for (index, symbol) in functions.iter().filter(|(_, symbol)| symbol.is_kernel) {
        let Ok(name) = std::str::from_utf8(symbol.name) else { continue };
        match kernels.entry(name.to_owned()) {
            Entry::Vacant(place) => {
                place.insert(read(*index, symbol));
            }
            Entry::Occupied(mut earlier) => {
                drop(earlier.insert(Err("there are two kernels of this name")));
            }
        }
    }
    kernels
}

impl<'a> Cubin<'a> {
    fn new(sections: &'a [Section<'a>]) -> Result<Self, ImageError> {
        let mut by_name = HashMap::new();
        for (index, section) in sections.iter().enumerate() {
            by_name.entry(section.name).and_modify(|earlier| *earlier = None).or_insert(Some(index));
        }
        let no_kernels = |section: &&Section<'_>| section.name.starts_with(RESERVED_PREFIX) || section.name == SHARED;
        let shared = sections.iter().filter(no_kernels).map(|section| section.size);
        let shared = shared.fold(0, u64::saturating_add);
        let mut cubin = Self { sections, by_name, registers: HashMap::new(), shared };
        let info = cubin.section(&[INFO]).map_or(&[][..], Section::content);
        for item in items(info) {
            let Item { format, attribute, body, .. } =
                item.map_err(|_| ImageError::Unsaid("its items are not understood"))?;
            if let (FORMAT_SIZED, REGISTERS, Some([symbol, count])) = (format, attribute, words(body)) {
                let known = cubin.registers.entry(symbol as usize).or_default();
                *known = (*known).max(count);
            }
        }
        Ok(cubin)
    }

    /// The only section whose name these parts make.
    fn section(&self, name: &[&[u8]]) -> Option<&'a Section<'a>> {
        self.sections.get((*self.by_name.get(name.concat().as_slice())?)?)
    }

    fn facts(&self, index: usize, symbol: &FunctionSymbol<'_>) -> Result<KernelFacts, &'static str> {
        let own = |prefix: &[u8]| self.section(&[prefix, symbol.name]);
        let text = own(TEXT_PREFIX).ok_or("there is not one section of its code")?;
        let is_there = self.sections.get(symbol.section).is_some_and(|section| std::ptr::eq(section, text));
        let (Some(info), Some(_), true) = (own(INFO_PREFIX), own(CONSTANT_PREFIX), is_there) else {
            return Err("there is not one section of each kind for it");
        };
        let mut threads = None;
        for item in items(info.bytes) {
            let Item { attribute, body, .. } = item.map_err(|_| "its items are not understood")?;
            if SPECIAL.contains(&attribute) || attribute > LAST_KNOWN && attribute != EVERY_KERNELS {
                return Err("it has an item that its launches may depend on");
            }
            if attribute == MOST_THREADS {
                let sizes: [u32; 3] = words(body).ok_or("its bounds are not understood")?;
                let product = sizes.iter().try_fold(1_u32, |all, size| all.checked_mul((*size).max(1)));
                threads = Some(product.ok_or("its bounds are not understood")?);
            }
        }
        let (parameters, _) = nv_info::layout(info.bytes).map_err(|(_, problem)| problem)?;
        let shared = match self.by_name.get([SHARED_PREFIX, symbol.name].concat().as_slice()) {
            None => 0,
            Some(index) => self.sections.get(index.ok_or("it has shared memory twice")?).map_or(0, |own| own.size),
        };
        let shared = shared.checked_add(self.shared).and_then(|bytes| u32::try_from(bytes).ok());
        Ok(KernelFacts {
            parameters,
            shared: shared.ok_or("its shared memory is not understood")?,
            threads,
            registers: self.registers.get(&index).map_or(ALL_REGISTERS, |count| (*count).min(ALL_REGISTERS)),
        })
    }
}

/// The words of an item of so many.
fn words<const N: usize>(body: &[u8]) -> Option<[u32; N]> {
    let (words, rest) = body.as_chunks::<4>();
    let words: &[[u8; 4]; N] = words.try_into().ok().filter(|_| rest.is_empty())?;
    Some(words.map(u32::from_le_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_once_for_each_name() {
        let of = |name: &'static [u8], is_kernel| FunctionSymbol { name, is_kernel, section: 1 };
        let mut functions: Vec<_> = (0..1000).map(|index| (index, of(b"k", true))).collect();
        functions.extend([(1000, of(b"other", true)), (1001, of(b"called", false)), (1002, of(b"\xff", true))]);
        let mut read = Vec::new();
        let kernels = by_name(&functions, |index, _| {
            read.push(index);
            Err("not known")
        });
        assert_eq!(read, [0, 1000]);
        assert_eq!(kernels["k"], Err("there are two kernels of this name"));
        assert_eq!((kernels["other"].clone(), kernels.len()), (Err("not known"), 2));
    }
}
