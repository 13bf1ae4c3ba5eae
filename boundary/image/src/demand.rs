//! The memory that an image takes on its device when it is loaded. An image's bytes come in; bytes of variables and
//! code go out, or that they are unknown. A hostile program wants to be charged less. So an image that contradicts
//! itself, or that no compiler writes, is unknown, and every sum is checked.

use crate::elf::{self, ELF_MAGIC, Section};
use crate::error::ImageError;
use crate::fatbin::{Entry, EntryKind, Fatbin, is_container};
use crate::{Limits, declarations, linked};

/// Sections without bytes that take no memory of the device: shared memory is a multiprocessor's, frames are the
/// launch's.
const ELSEWHERE: [&[u8]; 3] = [b".nv.shared", b".nv.local", b".nv.reservedSmem"];
/// More than any multiprocessor has, and than any thread's frame.
const MOST_ELSEWHERE: u64 = 1 << 20;
/// Sections that stay in the file: for tools, the linker and the loader.
const IN_FILE: [&[u8]; 14] = [
    b".shstrtab",
    b".strtab",
    b".symtab",
    b".note",
    b".debug_",
    b".nv_debug",
    b".rel.",
    b".rela.",
    b".nv.info",
    b".nv.compat",
    b".nv.callgraph",
    b".nv.prototype",
    b".nv.rel.action",
    b".comment",
];
/// The types such sections have: of ELF itself, and NVIDIA's for information, call graphs, prototypes, metadata, relocations
/// and compatibility (seen with nvcc 12 and 13).
const IN_FILE_TYPES: [u32; 14] =
    [1, 2, 3, 4, 7, 9, 18, 0x7000_0000, 0x7000_0001, 0x7000_0002, 0x7000_0003, 0x7000_0004, 0x7000_000b, 0x7000_0086];
/// An entry's kind: code for the linker, which the driver does not load.
const LINKERS: u16 = 8;

/// The memory that an image takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Bytes of its variables and its code, at most.
    Bytes(u64),
    /// The image is damaged, or written in a way that is not understood.
    Unknown,
}

impl Demand {
    fn or(bytes: Option<u64>) -> Self {
        // More than 64 bits is more than any device has.
        Self::Bytes(bytes.unwrap_or(u64::MAX))
    }

    fn largest(self, other: Self) -> Self {
        match (self, other) {
            (Self::Bytes(one), Self::Bytes(two)) => Self::Bytes(one.max(two)),
            _ => Self::Unknown,
        }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Bytes(one), Self::Bytes(two)) => Self::or(one.checked_add(two)),
            _ => Self::Unknown,
        }
    }
}

/// The memory that an image takes. The driver loads one entry of a fat binary, so the entry that takes most counts.
#[must_use]
pub fn demand(image: &[u8], limits: &Limits) -> Demand {
    if !is_container(image) {
        return demand_of_code(image);
    }
    let Ok(container) = Fatbin::parse(image, limits) else { return Demand::Unknown };
    let is_code = |entry: &Entry<'_>| matches!(entry.kind, EntryKind::Ptx | EntryKind::Cubin);
    if !container.entries.is_empty() && !container.entries.iter().any(is_code) {
        return Demand::Unknown;
    }
    container.entries.iter().map(|entry| demand_of_entry(entry, limits)).fold(Demand::Bytes(0), Demand::largest)
}

fn demand_of_entry(entry: &Entry<'_>, limits: &Limits) -> Demand {
    match entry.kind {
        EntryKind::Ptx | EntryKind::Cubin => {
            entry.expanded(limits).map_or(Demand::Unknown, |code| demand_of_code(&code))
        }
        EntryKind::Other(LINKERS) => Demand::Bytes(0),
        EntryKind::Other(_) => Demand::Unknown,
    }
}

fn demand_of_code(code: &[u8]) -> Demand {
    if code.first_chunk().is_some_and(|magic| u32::from_le_bytes(*magic) == ELF_MAGIC) {
        return demand_of_cubin(code).unwrap_or(Demand::Unknown);
    }
    let Some(text) = declarations::text(code) else { return Demand::Unknown };
    // Machine code is about as long as its text.
    declarations::bytes(text).map_or(Demand::Unknown, |bytes| Demand::or(bytes.checked_add(text.len() as u64)))
}

/// Sections count by their names and types, whatever their flags say. NVIDIA's driver gives memory to variables of
/// sections that are marked as not loaded. It does so for symbols larger than their sections, too.
fn demand_of_cubin(cubin: &[u8]) -> Result<Demand, ImageError> {
    let sections = elf::sections(cubin)?;
    let Some(symbols) = elf::places(&sections) else { return Ok(Demand::Unknown) };
    let mut has_symbols = vec![false; sections.len()];
    let mut outside = Some(0_u64);
    for symbol in symbols {
        let Some(index) = symbol.section else {
            outside = outside.and_then(|sum| sum.checked_add(symbol.size));
            continue;
        };
        if sections.get(index).is_none_or(|section| symbol.end > section.size) {
            return Ok(Demand::Unknown);
        }
        if let Some(has) = has_symbols.get_mut(index) {
            *has |= symbol.size != 0;
        }
    }
    let of_sections = sections.iter().zip(has_symbols).skip(1).map(|(section, has)| demand_of_section(section, has));
    let in_sections = of_sections.fold(Demand::or(outside), Demand::and);
    let in_segments = Demand::or(elf::segments_loaded(cubin)?);
    let texts = linked::texts(cubin).unwrap_or_default().into_iter().map(demand_of_code);
    let in_texts = texts.fold(Demand::Bytes(0), Demand::and);
    Ok(in_sections.largest(in_segments).and(in_texts))
}

fn demand_of_section(section: &Section<'_>, has_symbols: bool) -> Demand {
    let is_any_of = |prefixes: &[&[u8]]| prefixes.iter().any(|prefix| section.name.starts_with(prefix));
    match section.kind {
        _ if section.size == 0 => Demand::Bytes(0),
        // No section at all.
        0 => Demand::Unknown,
        kind if !elf::has_bits(kind) && is_any_of(&ELSEWHERE) => {
            if section.size <= MOST_ELSEWHERE {
                Demand::Bytes(0)
            } else {
                Demand::Unknown
            }
        }
        kind if section.flags & elf::ALLOCATED == 0
            && !has_symbols
            && IN_FILE_TYPES.contains(&kind)
            && is_any_of(&IN_FILE) =>
        {
            Demand::Bytes(0)
        }
        _ => Demand::or(section.size.checked_add(section.alignment.saturating_sub(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SHF_WRITE` and `SHF_ALLOC`.
    const LOADED: u64 = 3;

    /// A cubin with sections of these names and sizes, which have no bytes in the file, and one segment.
    fn cubin(sections: &[(&str, u64)], segment: u64) -> Vec<u8> {
        let sections: Vec<_> = sections.iter().map(|&(name, size)| (name, elf::NO_BITS, LOADED, size)).collect();
        cubin_of(&sections, &[], segment)
    }

    /// The same with types and flags of the sections; those that have bytes have the `symbols`.
    fn cubin_of(sections: &[(&str, u32, u64, u64)], symbols: &[u8], segment: u64) -> Vec<u8> {
        let mut names = vec![0];
        let mut headers = vec![0; 64];
        for (name, kind, flags, size) in sections {
            let mut header = vec![0; 64];
            header[..4].copy_from_slice(&u32::try_from(names.len()).expect("short").to_le_bytes());
            header[4..8].copy_from_slice(&kind.to_le_bytes());
            header[8..16].copy_from_slice(&flags.to_le_bytes());
            header[24..32].copy_from_slice(&(64_u64 + 56).to_le_bytes());
            header[32..40].copy_from_slice(&size.to_le_bytes());
            headers.extend(header);
            names.extend(name.as_bytes());
            names.push(0);
        }
        let mut of_names = vec![0; 64];
        of_names[..4].copy_from_slice(&u32::try_from(names.len()).expect("short").to_le_bytes());
        names.extend(b".shstrtab\0");
        of_names[4..8].copy_from_slice(&3_u32.to_le_bytes());
        of_names[24..32].copy_from_slice(&((64 + 56 + symbols.len()) as u64).to_le_bytes());
        of_names[32..40].copy_from_slice(&(names.len() as u64).to_le_bytes());
        headers.extend(of_names);
        let mut file = ELF_MAGIC.to_le_bytes().to_vec();
        file.extend([2, 1]);
        file.resize(64, 0);
        file[18..20].copy_from_slice(&190_u16.to_le_bytes());
        file[32..40].copy_from_slice(&64_u64.to_le_bytes());
        file[40..48].copy_from_slice(&((64 + 56 + symbols.len() + names.len()) as u64).to_le_bytes());
        file[54..56].copy_from_slice(&56_u16.to_le_bytes());
        file[56..58].copy_from_slice(&1_u16.to_le_bytes());
        file[58..60].copy_from_slice(&64_u16.to_le_bytes());
        file[60..62].copy_from_slice(&u16::try_from(sections.len() + 2).expect("few").to_le_bytes());
        file[62..64].copy_from_slice(&u16::try_from(sections.len() + 1).expect("few").to_le_bytes());
        let mut load = vec![0; 56];
        load[..4].copy_from_slice(&1_u32.to_le_bytes());
        load[40..48].copy_from_slice(&segment.to_le_bytes());
        file.extend(load);
        file.extend(symbols);
        file.extend(names);
        file.extend(headers);
        file
    }

    fn demand(image: &[u8]) -> Demand {
        super::demand(image, &Limits::default())
    }

    #[test]
    fn a_cubin_takes_its_loaded_sections_without_those_of_multiprocessors() {
        let sections = [(".nv.global", 200 << 20), (".text.kernel", 512), (".nv.shared.kernel", 48 << 10)];
        assert_eq!(demand(&cubin(&sections, 0)), Demand::Bytes((200 << 20) + 512));
        assert_eq!(demand(&cubin(&[(".nv.global", 16)], 1 << 30)), Demand::Bytes(1 << 30));
    }

    #[test]
    fn sizes_that_overflow_are_more_than_any_device_has() {
        let sections = [(".nv.global", u64::MAX), (".nv.global.init", 2)];
        assert_eq!(demand(&cubin(&sections, 0)), Demand::Bytes(u64::MAX));
    }

    fn symbol(section: u16, value: u64, size: u64) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 0, 0x11, 0];
        bytes.extend(section.to_le_bytes());
        bytes.extend(value.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes
    }

    #[test]
    fn flags_of_a_cubin_hide_no_memory() {
        for (name, kind) in [(".nv.global", 8), (".nv.global", 0x7000_0007), (".x", 8), (".debug_frame", 8), ("", 8)] {
            let sections = [(name, kind, 0, 200 << 20)];
            let taken = demand(&cubin_of(&sections, &[], 0));
            assert!(matches!(taken, Demand::Unknown | Demand::Bytes(0xc80_0000..)), "{name} {kind}: {taken:?}");
        }
        let named = [(".nv.global", 0, LOADED, 200 << 20)];
        assert_eq!(demand(&cubin_of(&named, &[], 0)), Demand::Unknown, "a section of no type");
        assert_eq!(
            demand(&cubin(&[(".nv.shared.kernel", 200 << 20)], 0)),
            Demand::Unknown,
            "no multiprocessor has so much"
        );
    }

    #[test]
    fn a_symbol_that_leaves_its_section_is_none_of_a_compilers() {
        let of = |symbol: Vec<u8>| {
            let sections = [(".nv.global", elf::NO_BITS, LOADED, 16), (".symtab", 2, 0, symbol.len() as u64)];
            demand(&cubin_of(&sections, &symbol, 0))
        };
        assert_eq!(of(symbol(1, 0, 16)), Demand::Bytes(16));
        for strange in [symbol(1, 0, 200 << 20), symbol(1, 17, 0), symbol(1, u64::MAX, 2), symbol(9, 0, 1), vec![0; 25]]
        {
            assert_eq!(of(strange), Demand::Unknown);
        }
        // Undefined, absolute and common ones are in no section.
        for section in [0, 0xfff1, 0xfff2] {
            assert_eq!(of(symbol(section, 0, 200 << 20)), Demand::Bytes((200 << 20) + 16));
        }
        assert_eq!(of(symbol(0xffff, 0, 16)), Demand::Unknown, "there is no table of sections");
        // One that the linker places comes with its alignment, whatever its section says.
        let mut placed = symbol(1, 8, 200 << 20);
        placed[4] = 0x1d;
        assert_eq!(of(placed), Demand::Bytes((200 << 20) + 8 + 16));
    }

    #[test]
    fn sections_of_tools_are_not_loaded_unless_a_symbol_is_in_them() {
        let symbols = symbol(1, 0, 8);
        let of = |name, kind, flags| {
            let sections = [(name, kind, flags, 24), (".symtab", 2, 0, symbols.len() as u64)];
            [&symbols[..], &[0; 24]].map(|symbols| demand(&cubin_of(&sections, symbols, 0)))
        };
        assert_eq!(of(".debug_info", 1, 0), [Demand::Bytes(24), Demand::Bytes(0)]);
        assert_eq!(of(".debug_info", 1, LOADED), [Demand::Bytes(24), Demand::Bytes(24)]);
        assert_eq!(of(".debug_info", 0x7000_0008, 0), [Demand::Bytes(24), Demand::Bytes(24)]);
        assert_eq!(of(".text.kernel", 1, 0), [Demand::Bytes(24), Demand::Bytes(24)]);
    }

    #[test]
    fn texts_in_a_linked_image_are_charged() {
        let text = b".version 8.0\n.target sm_90\n.global .b8 big[209715200];\n";
        let taken = demand(&crate::linked_image(&[text, text]));
        assert!(matches!(taken, Demand::Bytes(0x1900_0000..)), "{taken:?}");
        assert_eq!(demand(&crate::linked_image(&[text, b"what is this"])), Demand::Unknown);
    }

    #[test]
    fn code_of_unknown_kinds_has_unknown_demand() {
        let entry = |kind: u16, code: &[u8]| {
            let mut header = vec![0; 64];
            header[..2].copy_from_slice(&kind.to_le_bytes());
            header[4..8].copy_from_slice(&64_u32.to_le_bytes());
            header[8..16].copy_from_slice(&(code.len() as u64).to_le_bytes());
            header.extend(code);
            header
        };
        let of = |entries: &[Vec<u8>]| {
            let entries = entries.concat();
            let mut container = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
            container.extend((entries.len() as u64).to_le_bytes());
            container.extend(entries);
            demand(&container)
        };
        let text = b".version 8.0\n.target sm_90\n\0\0";
        let bytes = text.len() as u64 - 2;
        assert_eq!(of(&[]), Demand::Bytes(0));
        assert_eq!(of(&[entry(1, text), entry(8, b"linked elsewhere")]), Demand::Bytes(bytes));
        assert_eq!(of(&[entry(8, b"linked elsewhere")]), Demand::Unknown);
        assert_eq!(of(&[entry(1, text), entry(9, b"new")]), Demand::Unknown);
        let behind = [text, &b".global .b8 big[4];"[..]].concat();
        assert_eq!(of(&[entry(1, &behind)]), Demand::Unknown, "there is text behind the NUL");
    }

    #[test]
    fn a_text_takes_its_variables_and_its_own_length() {
        let text = b".version 8.0\n.target sm_90\n.global .align 4 .b8 big[1000];\n";
        assert_eq!(demand(text), Demand::Bytes(1000 + 15 + text.len() as u64));
        assert_eq!(demand(b"\x7fELF and no more"), Demand::Unknown);
        assert_eq!(demand(b"\x50\xed\x55\xba and no container"), Demand::Unknown);
    }
}
