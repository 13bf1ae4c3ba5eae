//! The result of a link on a device without machine code: PTX texts that belong together, in one file. Texts come in,
//! an ELF file for NVIDIA's machine goes out, with a section of our own name for each text; and the way back. Any
//! loader finds the file's end, and no driver but ours takes it for code. It never looks into a text.

use crate::elf;

/// The section of one text.
const SECTION: &[u8] = b".floe.ptx";
/// Names of the sections, at 1 and 11.
const NAMES: &[u8] = b"\0.floe.ptx\0.shstrtab\0";
const HEADER: u64 = 64;
/// `SHT_PROGBITS` and `SHT_STRTAB`.
const BYTES: u32 = 1;
const STRINGS: u32 = 3;

/// The image of texts that were linked.
pub fn linked_image(texts: &[&[u8]]) -> Vec<u8> {
    let mut file = vec![0; elf::ELF_HEADER];
    let mut sections = vec![[0_u64; 8]];
    let mut place = |file: &mut Vec<u8>, name: u64, kind: u32, bytes: &[u8]| {
        sections.push(section(name, kind, file.len() as u64, bytes.len() as u64));
        file.extend_from_slice(bytes);
    };
    place(&mut file, 11, STRINGS, NAMES);
    for text in texts {
        place(&mut file, 1, BYTES, text);
    }
    file.resize(file.len().next_multiple_of(8), 0);
    let table = file.len() as u64;
    let count = sections.len() as u64;
    file.extend(sections.iter().flatten().flat_map(|word| word.to_le_bytes()));
    for (at, word) in header(table, count) {
        file[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    file
}

/// A section's header as words: name and kind, flags, address, offset, size, link and information, alignment, entry size.
fn section(name: u64, kind: u32, offset: u64, size: u64) -> [u64; 8] {
    [name | u64::from(kind) << 32, 0, 0, offset, size, 0, 1, 0]
}

/// The file's header as words by their offset.
fn header(table: u64, count: u64) -> [(usize, u64); 6] {
    let magic = u64::from(elf::ELF_MAGIC);
    // 64 bits, little endian, version 1; an executable for EM_CUDA, version 1.
    let (class, machine) = (magic | 0x01_0102 << 32, 2 | u64::from(elf::MACHINE_CUDA) << 16 | 1 << 32);
    // Bytes of this header, none of segments; 64 bytes a section, how many, and which has the names.
    [(0, class), (8, 0), (16, machine), (40, table), (48, HEADER << 32), (56, HEADER << 16 | count << 32 | 1 << 48)]
}

/// The texts of an image that [`linked_image`] made. `None` for any other cubin, also for one whose sections cannot be
/// read: machine code is not ours to judge.
pub(crate) fn texts(cubin: &[u8]) -> Option<Vec<&[u8]>> {
    let sections = elf::sections(cubin).ok()?;
    let ours = sections.iter().filter(|section| section.name == SECTION);
    let texts: Vec<&[u8]> = ours.map(elf::Section::content).collect();
    (!texts.is_empty()).then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ComputeCapability, Image, ImageKind, Limits};

    #[test]
    fn texts_come_back_from_a_file_that_ends_where_its_headers_say() {
        let (first, second) = (&b".version 8.0\n.target sm_90\n"[..], &b".version 8.0\n.target sm_75\n// \xc3\xa4"[..]);
        let mut file = linked_image(&[first, second]);
        let whole = file.len();
        file.extend([1, 2, 3]);
        let image = Image::from_bytes(&file, &Limits::default()).expect("an image");
        assert_eq!((image.kind, image.size()), (ImageKind::Cubin, whole as u64));
        let texts = image.ptx(ComputeCapability { major: 8, minor: 0 }, &Limits::default()).expect("has PTX");
        let texts: Vec<_> = texts.iter().map(|text| (&text.text[..], text.above)).collect();
        assert_eq!(texts, [(first, true), (second, false)]);
    }

    #[test]
    fn a_file_that_is_cut_is_refused() {
        let file = linked_image(&[b".version 8.0"]);
        for bytes in 0..file.len() {
            assert!(Image::from_bytes(&file[..bytes], &Limits::default()).is_err(), "{bytes}");
        }
    }
}
