//! What machine code says of its kernels to a client that has no driver: golden images of nvcc, changed ones, and strange ones.

use floe_image::{
    ComputeCapability, EntryKind, Fatbin, Image, ImageError, ImageKind, KernelFacts, Kernels, Limits, Parameter,
};

const BOUNDS: &[u8] = include_bytes!("data/bounds.fatbin");
const SUMS: &[u8] = include_bytes!("data/sums_size.fatbin");
const WIDE: &[u8] = include_bytes!("data/wide.fatbin");
const PRINTS: &[u8] = include_bytes!("data/prints_size.fatbin");
const PART: &[u8] = include_bytes!("data/linked_part1.fatbin");
const DEVICE: ComputeCapability = ComputeCapability { major: 9, minor: 0 };

fn image(kind: ImageKind, bytes: &[u8]) -> Image<'_> {
    Image { kind, containers: vec![bytes.into()] }
}

fn kernels(container: &[u8]) -> Kernels {
    Kernels::of(&image(ImageKind::Fatbin, container), DEVICE, &Limits::default()).expect("a good image")
}

fn cubin(container: &[u8]) -> Vec<u8> {
    let fatbin = Fatbin::parse(container, &Limits::default()).expect("a good container");
    let entry = fatbin.entries.iter().find(|entry| entry.kind == EntryKind::Cubin).expect("a cubin");
    entry.data(&Limits::default()).expect("good data").into_owned()
}

fn places(facts: &KernelFacts) -> Vec<(u32, u32)> {
    facts.parameters.iter().map(|&Parameter { offset, size }| (offset, size)).collect()
}

fn why(kernels: &Kernels, name: &str) -> &'static str {
    kernels.get(name).expect_err("nothing is known")
}

#[test]
fn facts_are_those_of_the_source() {
    let kernels = kernels(BOUNDS);
    let mut names: Vec<_> = kernels.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["_Z6hiddenPf", "bounded", "calls", "clustered", "plain"]);
    let facts = |name| kernels.get(name).expect("known");
    let of = |name| {
        let KernelFacts { parameters: _, shared, threads, registers } = *facts(name);
        (shared, threads, registers)
    };
    assert_eq!(of("plain"), (0, None, 10));
    assert_eq!(of("bounded"), (4000 + 1024, Some(256), 14));
    assert_eq!(of("calls"), (0, None, 24));
    assert_eq!((places(facts("plain")), places(facts("_Z6hiddenPf"))), (vec![(0, 8), (8, 4)], vec![(0, 8)]));
    assert_eq!(why(&kernels, "clustered"), "it has an item that its launches may depend on");
    assert_eq!(why(&kernels, "nothing"), "the image has no such kernel");
    assert_eq!(why(&kernels, "_Z6calledf"), "the image has no such kernel", "a function that no launch names");
}

#[test]
fn layouts_are_those_of_compressed_code_and_of_large_parameters() {
    assert_eq!(places(kernels(SUMS).get("mixed").expect("known")), [(0, 1), (8, 16), (24, 8), (32, 8), (40, 1)]);
    assert_eq!(kernels(WIDE).get("wide").expect("known").parameters.len(), 6);
    assert!(kernels(PRINTS).names().count() > 0);
}

#[test]
fn certain_threads_are_what_registers_and_bounds_leave() {
    let facts = |threads, registers| KernelFacts { parameters: Vec::new(), shared: 0, threads, registers };
    let most = |threads, registers| facts(threads, registers).certain_threads(65_536);
    assert_eq!(most(None, 255), 256, "eight warps of 8192 registers");
    assert_eq!([most(None, 128), most(None, 64), most(None, 65)], [512, 1024, 896]);
    assert_eq!((most(Some(96), 64), most(Some(512), 255)), (96, 256));
    assert_eq!(facts(None, 10).certain_threads(0), 0, "a device that does not say");
    assert!(facts(None, 0).certain_threads(u32::MAX) > 1024);
}

#[test]
fn what_is_not_certain_is_not_said() {
    let of = |kind, bytes: &[u8], device| Kernels::of(&image(kind, bytes), device, &Limits::default());
    let other = ComputeCapability { major: 8, minor: 0 };
    assert!(matches!(of(ImageKind::Fatbin, BOUNDS, other), Err(ImageError::Unsaid(_))), "no code for it");
    assert!(matches!(of(ImageKind::Ptx, b".version 8.0", DEVICE), Err(ImageError::Unsaid(_))));
    assert!(of(ImageKind::Fatbin, PART, DEVICE).is_err(), "code that is to be linked");
    let code = cubin(BOUNDS);
    assert!(of(ImageKind::Cubin, &code, DEVICE).expect("a good cubin").get("plain").is_ok());
    assert!(of(ImageKind::Cubin, &code[..code.len() / 2], DEVICE).is_err());
    let small = Limits { entry_bytes: 1000, ..Limits::default() };
    let large = Kernels::of(&image(ImageKind::Fatbin, BOUNDS), DEVICE, &small);
    assert!(matches!(large, Err(ImageError::TooLarge { .. })), "{large:?}");
}

/// A cubin where these bytes are others at their first place: names are there again for symbols.
fn changed(from: &[u8], to: &[u8]) -> Kernels {
    let mut code = cubin(BOUNDS);
    let at = code.windows(from.len()).position(|window| window == from).expect("it is there");
    code[at..at + to.len()].copy_from_slice(to);
    Kernels::of(&image(ImageKind::Cubin, &code), DEVICE, &Limits::default()).expect("a cubin")
}

#[test]
fn a_kernel_whose_items_are_new_or_damaged_is_waited_for() {
    // The bounds of `bounded`: 256, 1, 1.
    let bounds = [4, 5, 12, 0, 0, 1, 0, 0, 1, 0, 0, 0];
    for (number, of) in [(5, None), (0x10, Some("bounded")), (0x60, Some("bounded")), (0x3f, Some("bounded"))] {
        let kernels = changed(&bounds, &[4, number]);
        assert!(kernels.get("plain").is_ok());
        assert_eq!(kernels.get("bounded").is_err(), of.is_some(), "{number:#x}");
    }
    assert_eq!(why(&changed(&bounds, &[4, 5, 255, 255]), "bounded"), "its items are not understood");
    let overflow = [4, 5, 12, 0, 0, 1, 0, 255, 255, 255, 255, 255];
    assert_eq!(why(&changed(&bounds, &overflow), "bounded"), "its bounds are not understood");
    // A name that is another section's.
    assert_eq!(why(&changed(b".text.plain", b".texx.plain"), "plain"), "there is not one section of its code");
    assert!(why(&changed(b".nv.info.plain", b".nv.infx.plain"), "plain").starts_with("there is not one section"));
}

#[test]
fn parts_that_overlap_are_read_no_more_often_than_the_file_is_long() {
    // A file for sm_90 with many sections that are all of it, and have the same long name.
    let (sections, bytes) = (20_000_u32, 1_400_000_usize);
    let mut file = cubin(BOUNDS)[..64].to_vec();
    file.resize(bytes, b'n');
    let table = 64_u64;
    for index in 0..sections {
        let at = 64 + 64 * index as usize;
        let header = &mut file[at..at + 64];
        header.fill(0);
        let name = 64 + 64 * sections;
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[4..8].copy_from_slice(&1_u32.to_le_bytes());
        header[32..40].copy_from_slice(&(bytes as u64).to_le_bytes());
    }
    let end = file.len() - 1;
    file[64 + 64 * sections as usize + 5_000] = 0;
    file[end] = 0;
    file[32..40].fill(0);
    file[56..58].fill(0);
    file[40..48].copy_from_slice(&table.to_le_bytes());
    file[60..62].copy_from_slice(&u16::try_from(sections).expect("fits").to_le_bytes());
    file[62..64].copy_from_slice(&0_u16.to_le_bytes());
    let read = Kernels::of(&image(ImageKind::Cubin, &file), DEVICE, &Limits::default());
    assert!(matches!(read, Err(ImageError::Unsaid("its parts overlap"))), "{read:?}");
}

#[test]
fn a_file_of_many_symbols_of_one_name_is_read_and_says_nothing_of_that_kernel() {
    // A kernel's items, and as many symbols of its name as the file has room for.
    let names: &[u8] = b"\0.symtab\0.strtab\0.nv.info.k\0.text.k\0.nv.constant0.k\0k\0";
    let number = |at: usize| u32::try_from(at).expect("fits");
    let name = |of: &[u8]| number(names.windows(of.len()).position(|window| window == of).expect("a name"));
    let mut strings = names.to_vec();
    strings.resize(30_000, 0);
    let mut symbol = [0; 24];
    symbol[..4].copy_from_slice(&number(names.len() - 2).to_le_bytes());
    symbol[4..8].copy_from_slice(&[0x12, 0x10, 4, 0]);
    let items: Vec<u8> = [1, 1, 0, 0].repeat(200_000);
    let parts = [
        (0, Vec::new()),
        (name(b".symtab"), symbol.repeat(40_000)),
        (name(b".strtab"), strings),
        (name(b".nv.info.k"), items),
        (name(b".text.k"), vec![0; 16]),
        (name(b".nv.constant0.k"), vec![0; 16]),
    ];
    let mut file = cubin(BOUNDS)[..64].to_vec();
    file[32..40].fill(0);
    file[56..58].fill(0);
    file[40..48].copy_from_slice(&64_u64.to_le_bytes());
    file[60..64].copy_from_slice(&[6, 0, 2, 0]);
    file.resize(64 + 64 * parts.len(), 0);
    for (index, (name, bytes)) in parts.iter().enumerate().skip(1) {
        let (offset, header) = (file.len() as u64, 64 + 64 * index);
        file[header..header + 4].copy_from_slice(&name.to_le_bytes());
        file[header + 4] = 1;
        file[header + 24..header + 32].copy_from_slice(&offset.to_le_bytes());
        file[header + 32..header + 40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        file.extend(bytes);
    }
    let read = Kernels::of(&image(ImageKind::Cubin, &file), DEVICE, &Limits::default()).expect("a cubin");
    assert_eq!(why(&read, "k"), "there are two kernels of this name");
}
