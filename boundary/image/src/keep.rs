//! The parts of an image that devices can use, which are worth sending. An image comes in, with the code that each
//! device takes. Slices of the image go out, which together are an image with fewer entries. It never decompresses, and
//! never leaves out a part that a device might use.

use std::borrow::Cow;

use crate::fatbin::{self, CONTAINER_HEADER};
use crate::{ComputeCapability, Entry, EntryKind, Fatbin, Image, ImageKind, Limits, Target, elf, select_ptx};

/// The code that a device takes of a fat binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Not known: everything is kept.
    Anything,
    /// Machine code where there is some for it, else PTX.
    MachineCode(ComputeCapability),
    /// PTX only.
    Ptx(ComputeCapability),
}

/// A container as it is to be sent: slices that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces<'a> {
    slices: Vec<Cow<'a, [u8]>>,
}

/// The parts of an image that are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept<'a> {
    /// As the image's.
    pub kind: ImageKind,
    /// As the image's, with less in them.
    pub containers: Vec<Pieces<'a>>,
    /// Whether each device finds code in it that needs no compiler, for certain. It does in a fat binary of known form
    /// with machine code for each device, or PTX for a device that takes only PTX, and in a cubin for each. Then a load fails only
    /// where code is damaged.
    pub certain: bool,
}

impl<'a> Pieces<'a> {
    fn whole(container: &'a [u8]) -> Self {
        Self { slices: vec![Cow::Borrowed(container)] }
    }

    /// The slices in order; none is empty but that of an empty container.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.slices.iter().map(AsRef::as_ref)
    }

    /// Bytes of them all.
    pub fn size(&self) -> u64 {
        self.slices().map(|slice| slice.len() as u64).sum()
    }

    /// They as one.
    pub fn to_vec(&self) -> Vec<u8> {
        self.slices().flatten().copied().collect()
    }
}

impl Kept<'_> {
    /// Bytes of all containers.
    pub fn size(&self) -> u64 {
        self.containers.iter().map(Pieces::size).sum()
    }

    /// An image of its own bytes.
    pub fn to_image(&self) -> Image<'static> {
        let containers = self.containers.iter().map(|pieces| Cow::Owned(pieces.to_vec())).collect();
        Image { kind: self.kind, containers }
    }
}

impl Image<'_> {
    /// The parts of the image that these devices take. An image that is no fat binary, or not one of known form, is kept whole.
    pub fn kept_for(&self, devices: &[Takes], limits: &Limits) -> Kept<'_> {
        let whole = || Kept {
            kind: self.kind,
            containers: self.containers.iter().map(|container| Pieces::whole(container)).collect(),
            certain: self.is_cubin_for(devices),
        };
        let (ImageKind::Fatbin, Some(main)) = (self.kind, self.containers.first()) else { return whole() };
        let Ok(fatbin) = Fatbin::parse(main, limits) else { return whole() };
        let mut wanted = vec![false; fatbin.entries.len()];
        let mut certain = true;
        for device in devices {
            match mark(&fatbin.entries, *device, &mut wanted) {
                Found::Nothing => return whole(),
                Found::ToCompile => certain = false,
                Found::Ready => {}
            }
        }
        if devices.is_empty() {
            return whole();
        }
        // The containers that the image was linked from are for linking it again, for devices that find nothing in the image itself.
        Kept { kind: self.kind, containers: vec![with_entries(main, &fatbin, &wanted)], certain }
    }

    /// Whether it is one cubin, for each of these devices.
    fn is_cubin_for(&self, devices: &[Takes]) -> bool {
        let (ImageKind::Cubin, [cubin]) = (self.kind, self.containers.as_slice()) else { return false };
        let target = if devices.is_empty() { None } else { elf::target(cubin) };
        let runs = |target: Target, device: &Takes| match device {
            Takes::MachineCode(capability) => target.cubin_runs_on(*capability),
            Takes::Anything | Takes::Ptx(_) => false,
        };
        target.is_some_and(|target| devices.iter().all(|device| runs(target, device)))
    }
}

/// The best code that a container has for a device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    /// PTX, which the device's driver compiles.
    ToCompile,
    Ready,
}

/// Marks all entries of a container that a device may take, not only the one that it will.
fn mark(entries: &[Entry<'_>], device: Takes, wanted: &mut [bool]) -> Found {
    let mut take = |chosen: &dyn Fn(&Entry<'_>) -> bool| {
        let mut any = false;
        for (entry, wanted) in entries.iter().zip(&mut *wanted).filter(|(entry, _)| chosen(entry)) {
            any |= !matches!(entry.kind, EntryKind::Other(_));
            *wanted = true;
        }
        any
    };
    // No device here takes other kinds, but a device's driver may know them.
    take(&|entry| matches!(entry.kind, EntryKind::Other(_)));
    match device {
        Takes::Anything => Found::Nothing,
        Takes::MachineCode(capability) => {
            let ready = |entry: &Entry<'_>| entry.kind == EntryKind::Cubin && entry.target.cubin_runs_on(capability);
            let fits = |entry: &Entry<'_>| entry.kind == EntryKind::Ptx && entry.target.ptx_runs_on(capability);
            match take(&ready) {
                true => Found::Ready,
                false if take(&fits) => Found::ToCompile,
                false => Found::Nothing,
            }
        }
        Takes::Ptx(capability) => match select_ptx(entries, capability) {
            Some(selected) => {
                take(&|entry| entry.index == selected.entry.index);
                if selected.above { Found::ToCompile } else { Found::Ready }
            }
            None => Found::Nothing,
        },
    }
}

/// The container with the wanted entries only, under a header that counts them.
fn with_entries<'a>(container: &'a [u8], fatbin: &Fatbin<'_>, wanted: &[bool]) -> Pieces<'a> {
    if wanted.iter().all(|wanted| *wanted) {
        return Pieces::whole(container);
    }
    let size = fatbin::container_size(container).ok().and_then(|size| usize::try_from(size).ok());
    let end = size.unwrap_or(container.len());
    let ends = fatbin.entries.iter().skip(1).map(|entry| entry.offset).chain([end]);
    let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
    for ((entry, end), _) in fatbin.entries.iter().zip(ends).zip(wanted).filter(|(_, wanted)| **wanted) {
        match ranges.last_mut().filter(|range| range.end == entry.offset) {
            Some(range) => range.end = end,
            None => ranges.push(entry.offset..end),
        }
    }
    let following: u64 = ranges.iter().map(|range| range.len() as u64).sum();
    let first = fatbin.entries.first().map_or(CONTAINER_HEADER, |entry| entry.offset);
    let mut header = container.get(..first).unwrap_or(container).to_vec();
    if let Some(field) = header.get_mut(8..16) {
        field.copy_from_slice(&following.to_le_bytes());
    }
    let slices = ranges.into_iter().filter_map(|range| container.get(range)).map(Cow::Borrowed);
    Pieces { slices: std::iter::once(Cow::Owned(header)).chain(slices).collect() }
}
