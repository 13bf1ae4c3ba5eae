//! As much of ELF as a cubin needs: where the file ends, its sections by name, and the places of its symbols.
//! In go bytes of a 64-bit little-endian file for NVIDIA's machine, out come its extent, its sections or its symbols.
//! It never relocates anything, and believes nothing that the file says of what is loaded.

use crate::capability::{Target, Variant};
use crate::error::ImageError;

/// First four bytes of an ELF file, little endian.
pub(crate) const ELF_MAGIC: u32 = 0x464C_457F;
/// `ELFOSABI_CUDA`, and the version of it in which the header's flags are known (nvcc 13; nvcc 12 from sm_100 on).
const CUDA_ABI: [u8; 2] = [65, 8];
/// The low byte of the flags of code for every later device of its major number, too (nvcc 13).
const GENERIC: u8 = 4;
/// The same of older compilers (nvcc 11 and 12), with the second byte of the flags of such code.
const OLD_ABI: [u8; 2] = [51, 7];
const OLD_GENERIC: u8 = 5;
/// `ET_EXEC`: linked code, which a driver loads as it is.
const LINKED: u16 = 2;
/// Bytes of an ELF file's header.
pub(crate) const ELF_HEADER: usize = 64;
const SECTION_HEADER: u64 = 64;
const SEGMENT_HEADER: u64 = 56;
/// `EM_CUDA`.
pub(crate) const MACHINE_CUDA: u16 = 190;
/// `SHT_NOBITS`: a section without bytes in the file.
pub(crate) const NO_BITS: u32 = 8;
/// NVIDIA's types of the same kind, in files of relocatable code: `SHT_CUDA_GLOBAL`, `_LOCAL` and `_SHARED` (nvcc 13).
const NO_BITS_OF_CUDA: [u32; 3] = [0x7000_0007, 0x7000_0009, 0x7000_000a];
/// Bytes of the longest name: mangled names of templates reach thousands. Names may overlap, so that a small file could have the
/// reader look through gigabytes of them.
const LONGEST_NAME: usize = 64 << 10;
/// `SHN_XINDEX`: the number is in section 0.
const EXTENDED: u16 = 0xffff;

/// Whether a section of this type has bytes in the file.
pub(crate) fn has_bits(kind: u32) -> bool {
    kind != NO_BITS && !NO_BITS_OF_CUDA.contains(&kind)
}

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

/// The tables, as the file's header gives them.
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

/// Bytes of a cubin, found from its headers. `fetch` gives the bytes at an offset. It is asked only for bytes that
/// earlier headers say exist.
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
            if has_bits(u32_at(header, 4)) {
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

/// `SHF_ALLOC`: a section that is loaded, as the file says.
pub(crate) const ALLOCATED: u64 = 2;
/// `SHT_SYMTAB`, `SHT_DYNSYM` and `SHT_SYMTAB_SHNDX`.
const SYMBOLS: [u32; 2] = [2, 11];
const SYMBOL_SECTIONS: u32 = 18;
/// Bytes of a symbol: name (4), info (1), other (1), section (2), value (8), size (8).
const SYMBOL: usize = 24;
/// `STT_CUDA_OBJECT`, in files of relocatable code (seen with nvcc 13).
const CUDA_OBJECT: u8 = 13;
/// `SHN_LORESERVE`: from here on a number is no section's, [`EXTENDED`] apart.
const RESERVED: u16 = 0xff00;

/// A section's name and bytes.
pub(crate) struct Section<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) bytes: &'a [u8],
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    /// Bytes, also of one that has none in the file.
    pub(crate) size: u64,
    pub(crate) alignment: u64,
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

/// The name that begins here and ends with a NUL or the table; `None` for one that is longer than any.
fn terminated(table: &[u8]) -> Option<&[u8]> {
    let within = table.get(..LONGEST_NAME).unwrap_or(table);
    match memchr::memchr(0, within) {
        Some(length) => within.get(..length),
        None => (within.len() == table.len()).then_some(table),
    }
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
        let name = terminated(name).ok_or_else(|| problem(at, "a section's name is longer than any"))?;
        Ok(Section {
            name,
            bytes: section_bytes(file, header, at)?,
            kind: u32_at(header, 4),
            flags: u64_at(header, 8),
            size: u64_at(header, 32),
            alignment: u64_at(header, 48),
        })
    };
    headers.chunks_exact(ELF_HEADER).enumerate().map(section).collect()
}

/// The target of a linked cubin whose tables lie inside it; `None` for a file of another ABI version. Code for a family of
/// devices counts as code for one device alone, since what its flags mean is not known.
pub(crate) fn target(file: &[u8]) -> Option<Target> {
    sections(file).ok().filter(|sections| !sections.is_empty() && u16_at(file, 16) == LINKED)?;
    let [first, second, ..] = u32_at(file, 48).to_le_bytes();
    let (number, is_generic) = match *file.get(7..9)?.first_chunk()? {
        CUDA_ABI => (second, first == GENERIC),
        OLD_ABI => (first, second == OLD_GENERIC),
        _ => return None,
    };
    let variant = if is_generic { Variant::Generic } else { Variant::Architecture };
    Some(Target { number: number.into(), variant })
}

/// Bytes of all segments of a cubin in memory; `None` where they leave 64 bits.
pub(crate) fn segments_loaded(file: &[u8]) -> Result<Option<u64>, ImageError> {
    /// `PT_PHDR`: the table itself, which lies in another one.
    const TABLE: u32 = 6;
    let tables = tables(file)?;
    let headers = piece(file, tables.segments, tables.segment_count * SEGMENT_HEADER, 32)?;
    let loaded = headers.chunks_exact(56).filter(|header| u32_at(header, 0) != TABLE);
    Ok(loaded.map(|header| u64_at(header, 40)).try_fold(0_u64, u64::checked_add))
}

/// The end of a symbol.
pub(crate) struct SymbolEnd {
    /// Index of its section; `None`: it is in no section of the file.
    pub(crate) section: Option<usize>,
    /// One past its last byte in the section; without one its bytes.
    pub(crate) end: u64,
    pub(crate) size: u64,
}

/// The places of all symbols; `None`: a table is damaged, or a symbol leaves 64 bits.
pub(crate) fn places(sections: &[Section<'_>]) -> Option<Vec<SymbolEnd>> {
    let mut extended = sections.iter().filter(|section| section.kind == SYMBOL_SECTIONS);
    let numbers = extended.next().map_or(&[][..], |section| section.bytes);
    if extended.next().is_some() {
        return None;
    }
    let tables = sections.iter().filter(|section| SYMBOLS.contains(&section.kind));
    let mut places = Vec::new();
    for table in tables {
        if table.bytes.len() % SYMBOL != 0 {
            return None;
        }
        for (index, symbol) in table.bytes.chunks_exact(SYMBOL).enumerate() {
            places.push(place(symbol, numbers.get(index * 4..index * 4 + 4), sections.len())?);
        }
    }
    Some(places)
}

fn place(symbol: &[u8], extended: Option<&[u8]>, sections: usize) -> Option<SymbolEnd> {
    let (value, size) = (u64_at(symbol, 8), u64_at(symbol, 16));
    // A variable that the linker is to place: its value is its alignment.
    if symbol.get(4).is_some_and(|info| info & 0xf == CUDA_OBJECT) {
        let size = size.checked_add(value)?;
        return Some(SymbolEnd { section: None, end: size, size });
    }
    let section = match u16_at(symbol, 6) {
        EXTENDED => usize::try_from(u32_at(extended?, 0)).ok()?,
        // None of the file's: undefined, absolute, common.
        0 | RESERVED.. => return Some(SymbolEnd { section: None, end: size, size }),
        number => number.into(),
    };
    (section < sections).then_some(SymbolEnd { section: Some(section), end: value.checked_add(size)?, size })
}

/// A function, which may be a kernel.
pub(crate) struct FunctionSymbol<'a> {
    pub(crate) name: &'a [u8],
    /// Whether a launch may name it.
    pub(crate) is_kernel: bool,
    /// Index of its section; 0: it is defined elsewhere.
    pub(crate) section: usize,
}

/// The functions of a cubin by the indices of their symbols; `None`: its table of symbols is not one of a compiler's.
pub(crate) fn functions<'a>(sections: &[Section<'a>]) -> Option<Vec<(usize, FunctionSymbol<'a>)>> {
    /// `STT_FUNC`, and `STO_CUDA_ENTRY` of the symbol's other byte (seen with nvcc 13, and with 11 and 12).
    const FUNCTION: u8 = 2;
    const ENTRY: u8 = 0x10;
    let only = |name: &[u8]| {
        let mut found = sections.iter().filter(|section| section.name == name);
        found.next().filter(|_| found.next().is_none()).map(|section| section.bytes)
    };
    let (symbols, names) = (only(b".symtab")?, only(b".strtab")?);
    let (mut functions, mut read) = (Vec::new(), 0);
    for (index, symbol) in symbols.chunks_exact(SYMBOL).enumerate() {
        let &[info, other] = symbol.get(4..6)? else { return None };
        let number = u16_at(symbol, 6);
        if info & 0xf != FUNCTION {
            continue;
        }
        let name = terminated(names.get(usize::try_from(u32_at(symbol, 0)).ok()?..)?)?;
        // Those of a compiler do not overlap by much.
        read += name.len();
        if read > names.len().saturating_mul(4) {
            return None;
        }
        let section = usize::from(number);
        if number >= RESERVED || section >= sections.len() {
            return None;
        }
        functions.push((index, FunctionSymbol { name, is_kernel: other & ENTRY != 0, section }));
    }
    Some(functions)
}

/// Whether a file is linked code, which a driver loads as it is.
pub(crate) fn is_linked(file: &[u8]) -> bool {
    u16_at(file, 16) == LINKED
}

fn section_bytes<'a>(file: &'a [u8], header: &[u8], at: u64) -> Result<&'a [u8], ImageError> {
    if !has_bits(u32_at(header, 4)) {
        return Ok(&[]);
    }
    piece(file, u64_at(header, 24), u64_at(header, 32), at)
}
