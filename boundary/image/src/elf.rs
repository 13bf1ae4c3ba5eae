//! As much of ELF as a cubin needs: where the file ends, and its sections by name.
//! In go bytes of a 64-bit little-endian file for NVIDIA's machine, out come its extent or its sections.
//! It never relocates anything and never reads symbols.

use crate::error::ImageError;

/// First four bytes of an ELF file, little endian.
pub(crate) const ELF_MAGIC: u32 = 0x464C_457F;
/// Bytes of an ELF file's header.
pub(crate) const ELF_HEADER: usize = 64;
const SECTION_HEADER: u64 = 64;
const SEGMENT_HEADER: u64 = 56;
/// `EM_CUDA`.
pub(crate) const MACHINE_CUDA: u16 = 190;
/// `SHT_NOBITS`: a section without bytes in the file.
const NO_BITS: u32 = 8;
/// `SHN_XINDEX`: the number is in section 0.
const EXTENDED: u16 = 0xffff;

fn problem(offset: u64, problem: &'static str) -> ImageError {
    ImageError::Elf { offset, problem }
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

/// What the file's header says about its tables.
#[derive(Clone, Copy)]
struct Tables {
    sections: u64,
    section_count: u64,
    names: u16,
    segments: u64,
    segment_count: u64,
}

fn tables(header: &[u8]) -> Result<Tables, ImageError> {
    if header.len() < ELF_HEADER || u32_at(header, 0) != ELF_MAGIC {
        return Err(problem(0, "it has no ELF header"));
    }
    if header.get(4..6) != Some(&[2, 1]) {
        return Err(problem(4, "it is not a 64-bit little-endian file"));
    }
    if u16_at(header, 18) != MACHINE_CUDA {
        return Err(problem(18, "it is an ELF file for another machine than NVIDIA's"));
    }
    let (segment_size, section_size) = (u16_at(header, 54), u16_at(header, 58));
    let tables = Tables {
        sections: u64_at(header, 40),
        section_count: u16_at(header, 60).into(),
        names: u16_at(header, 62),
        segments: u64_at(header, 32),
        segment_count: u16_at(header, 56).into(),
    };
    if tables.sections != 0 && u64::from(section_size) != SECTION_HEADER {
        return Err(problem(58, "its section headers are not 64 bytes long"));
    }
    if tables.segment_count != 0 && u64::from(segment_size) != SEGMENT_HEADER {
        return Err(problem(54, "its program headers are not 56 bytes long"));
    }
    Ok(tables)
}

/// One past the last byte of `size` bytes at `offset`, when that is within the limit.
fn end(offset: u64, size: u64, limit: u64, at: u64) -> Result<u64, ImageError> {
    match offset.checked_add(size) {
        Some(end) if end <= limit => Ok(end),
        Some(end) => Err(ImageError::TooLarge { what: "bytes of a cubin", size: end, limit }),
        None => Err(problem(at, "an offset and its size leave 64 bits")),
    }
}

/// How many bytes a cubin has, found from its headers. `fetch` gives the bytes at an offset, which are asked for only as
/// far as the headers before them say that they exist.
pub(crate) fn extent(
    limit: u64,
    mut fetch: impl FnMut(u64, u64) -> Result<Vec<u8>, ImageError>,
) -> Result<u64, ImageError> {
    let tables = tables(&fetch(0, ELF_HEADER as u64)?)?;
    let mut last = ELF_HEADER as u64;
    let mut count = tables.section_count;
    if tables.sections != 0 && count == 0 {
        end(tables.sections, SECTION_HEADER, limit, 40)?;
        count = u64_at(&fetch(tables.sections, SECTION_HEADER)?, 32);
    }
    if tables.sections != 0 {
        let size = count.checked_mul(SECTION_HEADER).ok_or_else(|| problem(60, "it has too many sections"))?;
        last = last.max(end(tables.sections, size, limit, 40)?);
        let headers = fetch(tables.sections, size)?;
        for header in headers.chunks_exact(ELF_HEADER) {
            if u32_at(header, 4) != NO_BITS {
                last = last.max(end(u64_at(header, 24), u64_at(header, 32), limit, tables.sections)?);
            }
        }
    }
    if tables.segment_count != 0 {
        let size = tables.segment_count * SEGMENT_HEADER;
        last = last.max(end(tables.segments, size, limit, 32)?);
        let headers = fetch(tables.segments, size)?;
        for header in headers.chunks_exact(56) {
            last = last.max(end(u64_at(header, 8), u64_at(header, 32), limit, tables.segments)?);
        }
    }
    Ok(last)
}

/// A section's name and bytes.
pub(crate) struct Section<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) bytes: &'a [u8],
}

impl<'a> Section<'a> {
    /// Its bytes.
    pub(crate) fn content(&self) -> &'a [u8] {
        self.bytes
    }
}

fn piece(file: &[u8], offset: u64, size: u64, at: u64) -> Result<&[u8], ImageError> {
    let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
    range
        .and_then(|(offset, size)| file.get(offset..offset.checked_add(size)?))
        .ok_or_else(|| problem(at, "a section lies outside the file"))
}

/// The sections of a cubin, in order; sections without bytes have none.
pub(crate) fn sections(file: &[u8]) -> Result<Vec<Section<'_>>, ImageError> {
    let tables = tables(file)?;
    if tables.sections == 0 {
        return Ok(Vec::new());
    }
    let first = piece(file, tables.sections, SECTION_HEADER, 40)?;
    let count = if tables.section_count == 0 { u64_at(first, 32) } else { tables.section_count };
    let size = count.checked_mul(SECTION_HEADER).ok_or_else(|| problem(60, "it has too many sections"))?;
    let headers = piece(file, tables.sections, size, 60)?;
    let names = if tables.names == EXTENDED { u64::from(u32_at(first, 40)) } else { tables.names.into() };
    let header_of_names = usize::try_from(names).ok().and_then(|index| headers.chunks_exact(ELF_HEADER).nth(index));
    let header_of_names = header_of_names.ok_or_else(|| problem(62, "it has no section of names"))?;
    let names = section_bytes(file, header_of_names, 62)?;
    let section = |(index, header): (usize, &[u8])| {
        let at = tables.sections + index as u64 * SECTION_HEADER;
        let name = usize::try_from(u32_at(header, 0)).ok().and_then(|start| names.get(start..));
        let name = name.ok_or_else(|| problem(at, "a section's name lies outside the names"))?;
        let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        Ok(Section { name: name.get(..length).unwrap_or(name), bytes: section_bytes(file, header, at)? })
    };
    headers.chunks_exact(ELF_HEADER).enumerate().map(section).collect()
}

fn section_bytes<'a>(file: &'a [u8], header: &[u8], at: u64) -> Result<&'a [u8], ImageError> {
    if u32_at(header, 4) == NO_BITS {
        return Ok(&[]);
    }
    piece(file, u64_at(header, 24), u64_at(header, 32), at)
}
