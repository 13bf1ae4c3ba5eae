//! An image, where the program has it or read from a file. Bytes of one of three forms come in: container, cubin, PTX
//! text. The image's own bytes, their form, and the PTX in it go out. It never changes a byte, so a device's own driver
//! gets the program's bytes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::error::ImageError;
use crate::fatbin::{self, CONTAINER_MAGIC, before_nul};
use crate::{ComputeCapability, Entry, EntryKind, Fatbin, Limits, Target, elf, linked, select_cubin, select_ptx};

/// The form of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// Fat binary container.
    Fatbin,
    /// Machine code, an ELF file.
    Cubin,
    /// PTX text, without its NUL.
    Ptx,
}

/// An image and the containers that were linked into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image<'a> {
    /// Form of the first of the `containers`; the others are fat binaries.
    pub kind: ImageKind,
    /// The image itself, then the containers that its wrapper lists. With relocatable device code the image holds
    /// linked machine code only. The PTX of each source file is in one of these.
    pub containers: Vec<Cow<'a, [u8]>>,
}

/// PTX taken out of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxText {
    /// The text, without NULs; not checked to be UTF-8.
    pub text: Vec<u8>,
    /// Its target; `None` where a bare text has no readable `.target`.
    pub target: Option<Target>,
    /// Whether it was made for devices the asked one does not stand for.
    pub above: bool,
    /// Which of the image's containers it comes from.
    pub container: usize,
}

/// The form of bytes by their start; `None` for none of the three.
pub(crate) fn kind(start: &[u8]) -> Option<ImageKind> {
    let magic = start.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    match magic {
        Some(CONTAINER_MAGIC) => Some(ImageKind::Fatbin),
        Some(elf::ELF_MAGIC) => Some(ImageKind::Cubin),
        _ if start.first().is_some_and(|&byte| starts_text(byte)) => Some(ImageKind::Ptx),
        _ => None,
    }
}

/// Whether PTX can start with this byte: a blank, a comment, a directive.
pub(crate) fn starts_text(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | b'/' | b'.')
}

/// Whether a byte may stand in PTX; bytes above 127 do, in comments and file names.
pub(crate) fn is_text(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || (0x09..=0x0d).contains(&byte)
}

fn truncated(what: &'static str, needed: u64, present: usize) -> ImageError {
    ImageError::Truncated { what, offset: 0, needed, present: present as u64 }
}

impl Image<'static> {
    /// Takes an image from the bytes of a file. Bytes behind its end are left out; PTX may end with the file or a NUL.
    ///
    /// # Errors
    /// Bytes that are none of the forms, or that end before the image does.
    pub fn from_bytes(bytes: &[u8], limits: &Limits) -> Result<Self, ImageError> {
        if bytes.len() > limits.image_bytes {
            let (size, limit) = (bytes.len() as u64, limits.image_bytes as u64);
            return Err(ImageError::TooLarge { what: "bytes of an image", size, limit });
        }
        let kind = kind(bytes).ok_or_else(|| ImageError::UnknownForm(bytes.iter().take(8).copied().collect()))?;
        let part = |what, size: u64| {
            let size = usize::try_from(size).ok().and_then(|size| bytes.get(..size));
            size.ok_or(what)
        };
        let bytes = match kind {
            ImageKind::Fatbin => {
                let size = fatbin::container_size(bytes)?;
                part("the container", size).map_err(|what| truncated(what, size, bytes.len()))?
            }
            ImageKind::Cubin => {
                let size = elf::extent(limits.image_bytes as u64, |offset, size| fetch(bytes, offset, size))?;
                part("the cubin", size).map_err(|what| truncated(what, size, bytes.len()))?
            }
            ImageKind::Ptx => {
                let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                let text = bytes.get(..end).unwrap_or(bytes);
                if let Some(at) = text.iter().position(|&byte| !is_text(byte)) {
                    let start = text.get(at..).unwrap_or(&[]);
                    return Err(ImageError::UnknownForm(start.iter().take(8).copied().collect()));
                }
                text
            }
        };
        Ok(Self { kind, containers: vec![Cow::Owned(bytes.to_vec())] })
    }
}

impl Image<'_> {
    /// The image with bytes of its own, to be kept longer than the bytes it was read from.
    pub fn into_owned(self) -> Image<'static> {
        let containers = self.containers.into_iter().map(|container| Cow::Owned(container.into_owned())).collect();
        Image { kind: self.kind, containers }
    }

    /// Bytes of all containers together.
    pub fn size(&self) -> u64 {
        self.containers.iter().map(|container| container.len() as u64).sum()
    }

    /// The machine code a device runs, from the image itself and from each prelinked container that has some.
    ///
    /// # Errors
    /// Damaged containers.
    pub fn cubins(&self, device: ComputeCapability, limits: &Limits) -> Result<Vec<Vec<u8>>, ImageError> {
        match self.kind {
            ImageKind::Ptx => return Ok(Vec::new()),
            ImageKind::Cubin => return Ok(self.containers.iter().map(|cubin| cubin.to_vec()).collect()),
            ImageKind::Fatbin => {}
        }
        let mut found = Vec::new();
        for container in &self.containers {
            let container = Fatbin::parse(container, limits)?;
            if let Some(entry) = select_cubin(&container.entries, device) {
                found.push(entry.data(limits)?.into_owned());
            }
        }
        Ok(found)
    }

    /// The PTX that a device runs. A linked image gives all its texts. Others give one text from the image itself;
    /// where that has none, one from each prelinked container, to be linked with each other.
    ///
    /// # Errors
    /// [`ImageError::NoPtx`] where there is none, or none for one of the prelinked containers; damaged containers.
    pub fn ptx(&self, device: ComputeCapability, limits: &Limits) -> Result<Vec<PtxText>, ImageError> {
        let Some((main, prelinked)) = self.containers.split_first() else {
            return Err(ImageError::NoPtx { found: "nothing".to_owned() });
        };
        match self.kind {
            ImageKind::Ptx => return Ok(vec![bare(main, device)]),
            ImageKind::Cubin => return linked(main, device),
            ImageKind::Fatbin => {}
        }
        let main = Fatbin::parse(main, limits)?;
        if let Some(text) = chosen(&main.entries, 0, device, limits)? {
            return Ok(vec![text]);
        }
        if prelinked.is_empty() {
            return Err(ImageError::NoPtx { found: holdings(&main.entries) });
        }
        let parts = prelinked.iter().enumerate().map(|(index, container)| {
            let part = Fatbin::parse(container, limits)?;
            chosen(&part.entries, index + 1, device, limits)?
                .ok_or_else(|| ImageError::NoPtx { found: holdings(&part.entries) })
        });
        parts.collect()
    }
}

/// A piece of a file for [`elf::extent`].
fn fetch(bytes: &[u8], offset: u64, size: u64) -> Result<Vec<u8>, ImageError> {
    let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
    let piece = range.and_then(|(offset, size)| bytes.get(offset..offset.checked_add(size)?));
    piece.map(<[u8]>::to_vec).ok_or(ImageError::Truncated {
        what: "a header of the cubin",
        offset,
        needed: size,
        present: (bytes.len() as u64).saturating_sub(offset),
    })
}

fn chosen(
    entries: &[Entry<'_>],
    container: usize,
    device: ComputeCapability,
    limits: &Limits,
) -> Result<Option<PtxText>, ImageError> {
    let Some(selected) = select_ptx(entries, device) else { return Ok(None) };
    let text = selected.entry.data(limits)?.into_owned();
    Ok(Some(PtxText { text, target: Some(selected.entry.target), above: selected.above, container }))
}

/// A bare text with the target its `.target` directive names.
fn bare(text: &[u8], device: ComputeCapability) -> PtxText {
    let text = before_nul(Cow::Borrowed(text)).into_owned();
    let target = directive_target(&text);
    let above = target.is_some_and(|target| !target.ptx_runs_on(device));
    PtxText { text, target, above, container: 0 }
}

fn directive_target(text: &[u8]) -> Option<Target> {
    let line = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).find(|line| line.starts_with(b".target"))?;
    let words = std::str::from_utf8(line.strip_prefix(b".target")?).ok()?;
    words.split(|mark: char| mark == ',' || mark.is_whitespace()).find_map(Target::from_name)
}

/// The texts of an image that was linked from PTX.
fn linked(cubin: &[u8], device: ComputeCapability) -> Result<Vec<PtxText>, ImageError> {
    match linked::texts(cubin) {
        Some(texts) => Ok(texts.into_iter().map(|text| bare(text, device)).collect()),
        None => Err(ImageError::NoPtx { found: "a cubin".to_owned() }),
    }
}

/// A container's content, for a message: `a cubin for sm_90, a cubin for sm_100a`.
fn holdings(entries: &[Entry<'_>]) -> String {
    let names: BTreeSet<String> = entries
        .iter()
        .map(|entry| match entry.kind {
            EntryKind::Ptx => format!("PTX for {}", entry.target),
            EntryKind::Cubin => format!("a cubin for {}", entry.target),
            EntryKind::Other(kind) => format!("an entry of kind {kind} for {}", entry.target),
        })
        .collect();
    if names.is_empty() { "no entries".to_owned() } else { names.into_iter().collect::<Vec<_>>().join(", ") }
}
