//! PTX that is compiled once for a user, and kept as machine code.
//! In: an image, and the options of its load. Out: the text that the driver would compile, and the name under which the
//! machine code is kept. It compiles nothing.
//!
//! The text is compiled by a link, the only way by which a driver gives machine code away. So only such texts are taken
//! whose machine code is the same by a link: without functions, which a link keeps apart, and without anything that has
//! a place or a name outside its kernels.

use std::borrow::Cow;
use std::ffi::CString;

use floe_abi::jit_input;
use floe_device::{Content, Image, ImageKind, LinkInput, LoadOption};
use floe_image::{ComputeCapability, Entry, EntryKind, Fatbin};

use super::contents::LIMITS;
use crate::issue::cache::Hash;

/// The purpose of the hash that names machine code. Another number, where the same text is compiled in another way.
const PURPOSE: &str = "floe: machine code that a driver compiled from PTX, 1";

/// `CU_JIT_MAX_REGISTERS`, `…_OPTIMIZATION_LEVEL`, `…_TARGET_FROM_CUCONTEXT`: what says only how to compile a text.
const OPTIONS: [i32; 3] = [0, 7, 8];
/// `CU_JIT_LOG_VERBOSE`: what is said meanwhile. Of machine code that was kept nothing is said, as natively.
const VERBOSE: i32 = 12;

/// Directives of texts that are left to the driver.
const ELSEWHERE: [&[u8]; 8] =
    [b".func", b".callprototype", b".alias", b".texref", b".samplerref", b".surfref", b".common", b".managed"];

/// More bytes than of any instruction's name.
const INSTRUCTION: usize = 128;

/// A text that waits for its compiler.
#[derive(Debug)]
pub(crate) struct Text {
    /// The name of its machine code: of the text, its options, the GPU's kind and the driver's version.
    pub(crate) name: Hash,
    text: Content,
    /// Of the compiler.
    options: Vec<LoadOption>,
    /// Of the link.
    verbose: Vec<LoadOption>,
}

impl Text {
    /// The one text of an image that a driver would compile for this target: the compute capability's two numbers and the
    /// driver's version. `None` where it is to be left to the driver.
    pub(crate) fn of(image: &Image, options: &[(i32, u64)], target: [u32; 3]) -> Option<Self> {
        let (verbose, options): (Vec<_>, Vec<_>) = options.iter().partition(|(option, _)| *option == VERBOSE);
        if options.iter().any(|(option, _)| !OPTIONS.contains(option)) {
            return None;
        }
        let text = text_of(image, ComputeCapability { major: target[0], minor: target[1] })?;
        if !is_kernels_only(&text) {
            return None;
        }
        let mut hasher = blake3::Hasher::new_derive_key(PURPOSE);
        hasher.update(&target.map(u32::to_le_bytes).concat());
        hasher.update(&(options.len() as u64).to_le_bytes());
        for (option, value) in &options {
            hasher.update(&option.to_le_bytes()).update(&value.to_le_bytes());
        }
        hasher.update(&text);
        let load_options = |options: Vec<(i32, u64)>| {
            options.iter().map(|&(option, value)| LoadOption { option: option.unsigned_abs(), value }).collect()
        };
        let (options, verbose) = (load_options(options), load_options(verbose));
        Some(Self { name: *hasher.finalize().as_bytes(), text, options, verbose })
    }

    /// The link that compiles it: its one input, and its options.
    pub(crate) fn link(&self) -> ([LinkInput; 1], &[LoadOption]) {
        let (content, options) = (self.text.clone(), self.options.clone());
        let input = LinkInput { kind: jit_input::PTX, name: CString::default(), content, options };
        ([input], &self.verbose)
    }
}

/// The text up to its NUL, of a bare text or of a fat binary with nothing else that a driver could take for this device.
fn text_of(image: &Image, device: ComputeCapability) -> Option<Content> {
    let [content] = &image.contents[..] else { return None };
    match image.kind {
        ImageKind::Cubin => None,
        ImageKind::Ptx => {
            let end = memchr::memchr(0, content).unwrap_or(content.len());
            Some(Content::from(&content[..end]))
        }
        ImageKind::FatBinary => {
            let container = Fatbin::parse(content, &LIMITS).ok()?;
            sole_text(&container, device).map(|text| Content::from(&text[..]))
        }
    }
}

/// The text of a fat binary that has one, which needs no options: of several the driver chooses, and no link gets the options
/// that a container has for its text. Machine code for other devices is passed by.
fn sole_text<'a>(container: &Fatbin<'a>, device: ComputeCapability) -> Option<Cow<'a, [u8]>> {
    let is_of_others = |entry: &&Entry<'_>| entry.kind == EntryKind::Cubin && !entry.target.cubin_runs_on(device);
    let mut rest = container.entries.iter().filter(|entry| !is_of_others(entry));
    let (entry, None) = (rest.next()?, rest.next()) else { return None };
    if entry.kind != EntryKind::Ptx || entry.has_options || !entry.target.ptx_runs_on(device) {
        return None;
    }
    entry.data(&LIMITS).ok()
}

/// Whether the bytes before a state space are of an instruction: `ld.volatile` of `ld.volatile.global.u32`. Those of a
/// declaration are directives (`.visible.global.u32`), or end elsewhere.
fn is_instruction(before: &[u8]) -> bool {
    let last = before.last_chunk::<INSTRUCTION>().map_or(before, |last| last);
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
    let length = last.iter().rev().take_while(|byte| is_part(byte)).count();
    length < INSTRUCTION && last[last.len() - length..].first().is_some_and(u8::is_ascii_alphabetic)
}

/// Whether the text declares kernels and what is theirs, and nothing that has a place of its own. Other bytes than a
/// compiler's are no text: of an ELF file, say, a driver would look for more than there is.
fn is_kernels_only(text: &[u8]) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(text, word).is_some();
    // An instruction's state space stands between its name and a type: `ld.global.u32`.
    let declares = |word: &[u8]| {
        let behind = |at: usize| text.get(at + word.len()).is_some_and(|byte| matches!(byte, b'.' | b':'));
        memchr::memmem::find_iter(text, word).any(|at| !is_instruction(&text[..at]) || !behind(at))
    };
    let is_shared = |at: usize| {
        let rest = text.get(at + b".extern".len()..).unwrap_or_default().trim_ascii_start();
        rest.starts_with(b".shared")
    };
    text.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
        && !ELSEWHERE.iter().any(|word| has(word))
        && !declares(b".global")
        && !declares(b".const")
        && memchr::memmem::find_iter(text, b".extern").all(is_shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 room[];\n\
        .visible .entry k(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p]; st.global.u64 [%a], 1; ret; }\n";

    fn name(kind: ImageKind, text: &str, options: &[(i32, u64)], target: [u32; 3]) -> Option<Hash> {
        let image = Image { kind, contents: vec![Content::from(text.as_bytes())] };
        Text::of(&image, options, target).map(|text| text.name)
    }

    #[test]
    fn a_name_is_of_the_text_its_options_and_the_device() {
        let of = |text: &str, options: &[(i32, u64)], target| name(ImageKind::Ptx, text, options, target);
        let first = of(KERNEL, &[], [9, 0, 13_000]).expect("kernels only");
        assert_eq!(of(&format!("{KERNEL}\0"), &[], [9, 0, 13_000]), Some(first), "the NUL is not of the text");
        let others = [
            of(&KERNEL.replace(", 1;", ", 2;"), &[], [9, 0, 13_000]),
            of(KERNEL, &[(0, 32)], [9, 0, 13_000]),
            of(KERNEL, &[(0, 64)], [9, 0, 13_000]),
            of(KERNEL, &[(7, 0)], [9, 0, 13_000]),
            of(KERNEL, &[], [10, 0, 13_000]),
            of(KERNEL, &[], [9, 0, 13_010]),
        ];
        assert_eq!(of(KERNEL, &[(12, 1)], [9, 0, 13_000]), Some(first), "what is said is not of the machine code");
        for (index, other) in others.iter().enumerate() {
            assert!(other.is_some() && *other != Some(first), "{index}");
            assert!(others[..index].iter().all(|before| before != other), "{index}");
        }
    }

    /// nvcc's, of PTX for 9.0 alone.
    const CONTAINER: &[u8] = include_bytes!("../../../../../boundary/image/tests/data/doubles.fatbin");

    fn of_container(bytes: &[u8], target: [u32; 3]) -> Option<Text> {
        Text::of(&Image { kind: ImageKind::FatBinary, contents: vec![Content::from(bytes)] }, &[], target)
    }

    /// A container with the entries of two.
    fn joined(one: &[u8], other: &[u8]) -> Vec<u8> {
        let mut both = [one, &other[16..]].concat();
        let bytes = both.len() as u64 - 16;
        both[8..16].copy_from_slice(&bytes.to_le_bytes());
        both
    }

    #[test]
    fn the_text_of_a_container_is_taken_where_a_driver_has_no_other_choice() {
        let text = of_container(CONTAINER, [9, 0, 13_000]).expect("one text");
        assert!(text.text.starts_with(b".version") || text.text.trim_ascii_start().starts_with(b"."));
        let bare = Image { kind: ImageKind::Ptx, contents: vec![text.text.clone()] };
        assert_eq!(
            Text::of(&bare, &[], [9, 0, 13_000]).map(|text| text.name),
            Some(text.name),
            "it is the bare text's name"
        );
        assert!(of_container(CONTAINER, [12, 0, 13_000]).is_some(), "a later device");
        assert!(of_container(CONTAINER, [8, 9, 13_000]).is_none(), "an earlier device");
        // The driver compiles this one with at most 32 registers, which no link does.
        let options = include_bytes!("../../../../../boundary/image/tests/data/doubles_options.fatbin");
        assert!(of_container(options, [9, 0, 13_000]).is_none());
        // Two texts, and a text beside machine code for 9.0, which 10.0 passes by.
        assert!(of_container(&joined(CONTAINER, CONTAINER), [9, 0, 13_000]).is_none());
        let code = include_bytes!("../../../../../boundary/image/tests/data/wide.fatbin");
        assert!(of_container(&joined(CONTAINER, code), [9, 0, 13_000]).is_none());
        assert!(of_container(&joined(CONTAINER, code), [12, 0, 13_000]).is_some());
        // An entry that is neither, as code for the linker.
        let mut other = CONTAINER.to_vec();
        other[16] = 8;
        assert!(of_container(&joined(CONTAINER, &other), [9, 0, 13_000]).is_none());
    }

    #[test]
    fn what_has_a_place_outside_its_kernels_is_left_to_the_driver() {
        for line in [
            ".visible .global .align 4 .u32 counter;",
            ".global\t.u32 counter;",
            ".global.u32 counter;",
            ".global/**/.u32 counter;",
            ".visible.global.u32 counter;",
            ".weak.global.u32 counter;",
            ".visible.const.u32 one;",
            ".entry l() { .reg .b32 %r;.global.u32 counter; ret; }",
            "// \u{fc}ber",
            "// \u{7f}ELF",
            ".const .align 8 .b8 table[64];",
            ".extern .global .u32 counter;",
            ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);",
            ".visible .func f() { ret; }",
            ".global .texref image;",
            ".extern .entry elsewhere();",
            ".global .attribute(.managed) .u32 all;",
        ] {
            assert_eq!(name(ImageKind::Ptx, &format!("{KERNEL}{line}\n"), &[], [9, 0, 13_000]), None, "{line}");
        }
        for line in [
            ".entry l() { ld.relaxed.gpu.global.u32 %r, [%a]; ret; }",
            ".entry l() { l1:ld.volatile.global.u32 %r, [%a]; ret; }",
            ".entry l() { cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%b], [%a], 16, [%m]; ret; }",
            ".entry l() { fence.proxy.tensormap::generic.release.gpu; mov.b32 %r, a_global; ret; }",
        ] {
            assert!(name(ImageKind::Ptx, &format!("{KERNEL}{line}\n"), &[], [9, 0, 13_000]).is_some(), "{line}");
        }
        // As is what its options make more than machine code, and what is none of a text.
        assert_eq!(name(ImageKind::Ptx, KERNEL, &[(9, 80)], [9, 0, 13_000]), None);
        assert_eq!(name(ImageKind::Cubin, KERNEL, &[], [9, 0, 13_000]), None);
        assert_eq!(name(ImageKind::FatBinary, KERNEL, &[], [9, 0, 13_000]), None);
        let two = vec![Content::from(KERNEL.as_bytes()); 2];
        assert!(Text::of(&Image { kind: ImageKind::FatBinary, contents: two }, &[], [9, 0, 13_000]).is_none());
    }
}
