//! The fat binary container: a header and a row of entries, each PTX text or machine code for one target.
//! In goes the whole container as bytes, out come its entries, still compressed, borrowing from it.
//! It never decompresses by itself and passes entries of unknown kinds through unread.

use std::borrow::Cow;

use crate::error::{EntryProblem, ImageError};
use crate::{Limits, Target, Variant, decompress};

/// First four bytes of a container, little endian.
pub(crate) const CONTAINER_MAGIC: u32 = 0xBA55_ED50;
/// Bytes of the container's header: magic, version, header size, and how many bytes follow.
pub(crate) const CONTAINER_HEADER: usize = 16;
/// The smallest entry header; longer ones (72, 80, 96, 112, 128 seen) add a name and compiler options behind it.
const ENTRY_HEADER: usize = 64;

const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
/// `sm_90a`. Seen with nvcc 13.0 on both PTX and machine code.
const FLAG_ARCHITECTURE: u64 = 0x10_0000;
/// `sm_100f`.
const FLAG_FAMILY: u64 = 0x20_0000;

/// A container taken apart.
#[derive(Clone, Debug)]
pub struct Fatbin<'a> {
    /// Its entries, in the container's order.
    pub entries: Vec<Entry<'a>>,
}

/// Kinds of content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// PTX text.
    Ptx,
    /// Machine code, an ELF file.
    Cubin,
    /// Anything else (LTO intermediate code is 8), by its number.
    Other(u16),
}

/// How an entry's payload is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// An LZ4 block without a frame.
    Lz4,
    /// A zstd frame.
    Zstd,
    /// Compressed, but not in a way that is known.
    Unknown,
}

/// One entry of a container.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Which entry, from 0.
    pub index: usize,
    /// Offset of its header in the container.
    pub offset: usize,
    /// Kind of its content.
    pub kind: EntryKind,
    /// Major and minor version: of the PTX ISA for PTX.
    pub version: (u16, u16),
    /// The target that it was compiled for.
    pub target: Target,
    /// Name of the source file, in builds with debugging information.
    pub name: Option<&'a [u8]>,
    /// All of its flags.
    pub flags: u64,
    /// How `payload` is packed.
    pub compression: Compression,
    /// The payload as it stands: compressed bytes without their padding, or plain bytes with it.
    pub payload: &'a [u8],
    /// Size after decompression, in bytes; the size of `payload` when it is plain.
    pub expanded_size: u64,
    /// Whether the header has options for the compiler of PTX (`-maxrregcount`, `-Xptxas`), which a driver follows.
    pub has_options: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Whether the bytes begin as a container does.
pub(crate) fn is_container(bytes: &[u8]) -> bool {
    bytes.starts_with(&CONTAINER_MAGIC.to_le_bytes())
}

/// Bytes of a whole container by its header (at least [`CONTAINER_HEADER`] bytes).
pub(crate) fn container_size(header: &[u8]) -> Result<u64, ImageError> {
    if header.len() < CONTAINER_HEADER {
        let (needed, present) = (CONTAINER_HEADER as u64, header.len() as u64);
        return Err(ImageError::Truncated { what: "the container's header", offset: 0, needed, present });
    }
    if u32_at(header, 0) != CONTAINER_MAGIC {
        return Err(ImageError::NotAContainer { place: "the start", magic: u32_at(header, 0) });
    }
    if u16_at(header, 4) != 1 {
        return Err(ImageError::Container { what: "version", value: u16_at(header, 4).into() });
    }
    let size = u16_at(header, 6);
    if usize::from(size) < CONTAINER_HEADER {
        return Err(ImageError::Container { what: "a header size of", value: size.into() });
    }
    let follow = u64_at(header, 8);
    u64::from(size).checked_add(follow).ok_or(ImageError::Container { what: "a size of", value: follow })
}

impl<'a> Fatbin<'a> {
    /// Takes a container apart; bytes behind its end are left alone.
    ///
    /// # Errors
    /// The first header that does not fit, by entry and offset.
    pub fn parse(bytes: &'a [u8], limits: &Limits) -> Result<Self, ImageError> {
        let size = container_size(bytes)?;
        let whole = usize::try_from(size).ok().and_then(|size| bytes.get(..size)).ok_or(ImageError::Truncated {
            what: "the container",
            offset: 0,
            needed: size,
            present: bytes.len() as u64,
        })?;
        let mut entries = Vec::new();
        let mut offset = usize::from(u16_at(whole, 6));
        while offset < whole.len() {
            if entries.len() == limits.entries {
                let (size, limit) = (entries.len() as u64 + 1, limits.entries as u64);
                return Err(ImageError::TooLarge { what: "entries of a container", size, limit });
            }
            let index = entries.len();
            let (entry, next) =
                entry(whole, index, offset).map_err(|problem| ImageError::Entry { index, offset, problem })?;
            entries.push(entry);
            offset = next;
        }
        Ok(Self { entries })
    }
}

/// Reads the entry at `offset`, which is inside `container`, and says where the next one starts.
fn entry(container: &[u8], index: usize, offset: usize) -> Result<(Entry<'_>, usize), EntryProblem> {
    let rest = container.get(offset..).unwrap_or(&[]);
    let header_size = u32_at(rest, 4);
    let header = usize::try_from(header_size)
        .ok()
        .filter(|&size| size >= ENTRY_HEADER)
        .and_then(|size| rest.get(..size))
        .ok_or(EntryProblem::HeaderSize(header_size))?;
    let (padded, compressed) = (u64_at(header, 8), u32_at(header, 16));
    let present = rest.len() - header.len();
    let length = usize::try_from(padded).ok().filter(|&length| length <= present);
    let length = length.ok_or(EntryProblem::PayloadSize { needed: padded, present: present as u64 })?;
    let body = rest.get(header.len()..header.len() + length).unwrap_or(&[]);

    let flags = u64_at(header, 40);
    let compression = match (compressed, flags & FLAG_ZSTD != 0, flags & FLAG_LZ4 != 0) {
        (0, false, false) => Compression::None,
        (1.., true, false) => Compression::Zstd,
        (1.., false, true) => Compression::Lz4,
        _ => Compression::Unknown,
    };
    let payload = match compression {
        Compression::None => body,
        _ => body
            .get(..usize::try_from(compressed).unwrap_or(usize::MAX))
            .ok_or(EntryProblem::CompressedSize { compressed: compressed.into(), padded })?,
    };
    let expanded_size = if compression == Compression::None { length as u64 } else { u64_at(header, 56) };
    let entry = Entry {
        index,
        offset,
        kind: kind(u16_at(header, 0)),
        version: (u16_at(header, 26), u16_at(header, 24)),
        target: Target { number: u32_at(header, 28), variant: variant(flags) },
        name: name(header),
        flags,
        compression,
        payload,
        expanded_size,
        has_options: has_options(header),
    };
    Ok((entry, offset + header.len() + length))
}

fn kind(number: u16) -> EntryKind {
    match number {
        1 => EntryKind::Ptx,
        2 => EntryKind::Cubin,
        other => EntryKind::Other(other),
    }
}

fn variant(flags: u64) -> Variant {
    if flags & FLAG_ARCHITECTURE != 0 {
        Variant::Architecture
    } else if flags & FLAG_FAMILY != 0 {
        Variant::Family
    } else {
        Variant::Generic
    }
}

/// Whether there are options: the header says where their offset and their length lie. What does not fit has some.
fn has_options(header: &[u8]) -> bool {
    let place = u32_at(header, 20);
    let length = || {
        let place = usize::try_from(place).ok()?;
        header.get(place.checked_add(4)?..place.checked_add(8)?).map(|bytes| u32_at(bytes, 0))
    };
    place != 0 && length() != Some(0)
}

/// The name the header points to. It is for messages only, so one that does not fit is left out.
fn name(header: &[u8]) -> Option<&[u8]> {
    let start = usize::try_from(u32_at(header, 32)).ok()?;
    let length = usize::try_from(u32_at(header, 36)).ok().filter(|&length| length > 0)?;
    header.get(start..start.checked_add(length)?)
}

impl<'a> Entry<'a> {
    /// The PTX text or cubin itself, decompressed where it is compressed. PTX ends at its first NUL.
    ///
    /// # Errors
    /// Damaged or unknown compression, or a size beyond `limits.entry_bytes`.
    pub fn data(&self, limits: &Limits) -> Result<Cow<'a, [u8]>, ImageError> {
        self.expanded(limits).map(|data| if self.kind == EntryKind::Ptx { before_nul(data) } else { data })
    }

    /// As [`Entry::data`], with what stands behind PTX's first NUL.
    pub(crate) fn expanded(&self, limits: &Limits) -> Result<Cow<'a, [u8]>, ImageError> {
        let unknown = EntryProblem::Compression { kind: self.kind.number(), flags: self.flags };
        let data = match self.compression {
            // Entries of other kinds use payloads of their own (LTO code under the zstd flag is no zstd frame).
            _ if matches!(self.kind, EntryKind::Other(_)) => Err(unknown),
            Compression::Unknown => Err(unknown),
            Compression::None if self.payload.len() > limits.entry_bytes => {
                Err(EntryProblem::ExpandedSize { size: self.expanded_size, limit: limits.entry_bytes as u64 })
            }
            Compression::None => Ok(Cow::Borrowed(self.payload)),
            Compression::Lz4 => decompress::lz4(self.payload, self.expanded_size, limits.entry_bytes).map(Cow::Owned),
            Compression::Zstd => decompress::zstd(self.payload, self.expanded_size, limits.entry_bytes).map(Cow::Owned),
        };
        data.map_err(|problem| ImageError::Entry { index: self.index, offset: self.offset, problem })
    }
}

impl EntryKind {
    fn number(self) -> u16 {
        match self {
            Self::Ptx => 1,
            Self::Cubin => 2,
            Self::Other(number) => number,
        }
    }
}

/// The bytes up to the first NUL.
pub(crate) fn before_nul(bytes: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(..end).unwrap_or(bytes)),
        Cow::Owned(mut bytes) => {
            bytes.truncate(end);
            Cow::Owned(bytes)
        }
    }
}
