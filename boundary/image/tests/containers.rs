//! Real containers of every compression nvcc has, taken apart, expanded, chosen from; and images as programs pass them.

use std::ffi::c_void;

use floe_image::{
    Compression, ComputeCapability, EntryKind, EntryProblem, Fatbin, Image, ImageError, ImageKind, Limits, Takes,
    Target, Variant, program::from_program, select_cubin, select_ptx,
};

const DEFAULT: &[u8] = include_bytes!("data/sums_default.fatbin");
const SPEED: &[u8] = include_bytes!("data/sums_speed.fatbin");
const SIZE: &[u8] = include_bytes!("data/sums_size.fatbin");
const NONE: &[u8] = include_bytes!("data/sums_none.fatbin");
const FAMILY: &[u8] = include_bytes!("data/variants_f.fatbin");
const WIDE: &[u8] = include_bytes!("data/wide.fatbin");
const OPTIONS: &[u8] = include_bytes!("data/doubles_options.fatbin");
const LINKED: &[u8] = include_bytes!("data/linked.fatbin");
const PARTS: [&[u8]; 2] = [include_bytes!("data/linked_part0.fatbin"), include_bytes!("data/linked_part1.fatbin")];

const fn capability(major: u32, minor: u32) -> ComputeCapability {
    ComputeCapability { major, minor }
}

const H200: ComputeCapability = capability(9, 0);

fn limits() -> Limits {
    Limits::default()
}

fn parse(bytes: &[u8]) -> Fatbin<'_> {
    Fatbin::parse(bytes, &limits()).expect("a good container")
}

#[test]
fn entries_have_kind_target_version_and_compression() {
    let generic = |number| Target { number, variant: Variant::Generic };
    for (bytes, ptx, cubin) in [
        (DEFAULT, Compression::Zstd, Compression::None),
        (SPEED, Compression::Lz4, Compression::None),
        (SIZE, Compression::Zstd, Compression::Zstd),
        (NONE, Compression::None, Compression::None),
    ] {
        let found: Vec<_> =
            parse(bytes).entries.iter().map(|entry| (entry.kind, entry.target, entry.compression)).collect();
        let expected = [
            (EntryKind::Ptx, generic(90), ptx),
            (EntryKind::Cubin, generic(90), cubin),
            (EntryKind::Ptx, generic(75), ptx),
        ];
        assert_eq!(found, expected);
        assert_eq!(parse(bytes).entries[0].version, (9, 0));
    }
}

#[test]
fn every_compression_gives_the_same_text_and_code() {
    let plain: Vec<_> =
        parse(NONE).entries.iter().map(|entry| entry.data(&limits()).expect("plain").into_owned()).collect();
    let text = std::str::from_utf8(&plain[0]).expect("PTX is text");
    assert!(text.contains(".target sm_90") && text.contains(".entry sums") && !text.contains('\0'));
    for bytes in [DEFAULT, SPEED, SIZE] {
        for (entry, plain) in parse(bytes).entries.iter().zip(&plain) {
            let data = entry.data(&limits()).expect("good data");
            // Compressed text is stripped of blank lines' worth of padding only: compare what is said.
            let words =
                |bytes: &[u8]| String::from_utf8_lossy(bytes).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            if entry.kind == EntryKind::Ptx {
                assert_eq!(words(&data), words(plain));
            } else {
                assert_eq!(&*data, plain.as_slice());
            }
        }
    }
}

#[test]
fn family_and_architecture_targets_differ() {
    let targets: Vec<_> = parse(FAMILY).entries.iter().map(|entry| (entry.kind, entry.target.to_string())).collect();
    let expected = [(EntryKind::Ptx, "sm_100"), (EntryKind::Cubin, "sm_100f"), (EntryKind::Ptx, "sm_100f")];
    assert_eq!(targets, expected.map(|(kind, name)| (kind, name.to_owned())));
    assert_eq!(Target::from_name("sm_90a"), Some(Target { number: 90, variant: Variant::Architecture }));
    assert_eq!(Target::from_name("compute_75").map(|target| target.to_string()).as_deref(), Some("sm_75"));
    for name in ["sm_", "sm_a", "sm_9x", "75", "sm_-1", "sm_99999999999"] {
        assert_eq!(Target::from_name(name), None, "{name}");
    }
}

#[test]
fn ptx_is_the_highest_not_above_the_device() {
    let fatbin = parse(DEFAULT);
    let chosen = |device| select_ptx(&fatbin.entries, device).map(|chosen| (chosen.entry.target.number, chosen.above));
    assert_eq!(chosen(H200), Some((90, false)));
    assert_eq!(chosen(capability(12, 1)), Some((90, false)));
    assert_eq!(chosen(capability(8, 9)), Some((75, false)));
    assert_eq!(chosen(capability(7, 0)), Some((75, true)));
    let family = parse(FAMILY);
    let chosen = |device| select_ptx(&family.entries, device).map(|chosen| (chosen.entry.target.variant, chosen.above));
    assert_eq!(chosen(capability(10, 3)), Some((Variant::Generic, false)));
    assert_eq!(chosen(H200), Some((Variant::Generic, true)));
    assert!(select_ptx(&parse(WIDE).entries, H200).is_none());
}

#[test]
fn cubin_needs_the_same_major_number() {
    let wide = parse(WIDE);
    let chosen = |device| select_cubin(&wide.entries, device).map(|entry| entry.target.number);
    assert_eq!(chosen(H200), Some(90));
    assert_eq!(chosen(capability(10, 3)), Some(100));
    assert_eq!(chosen(capability(8, 6)), None);
    assert_eq!(chosen(capability(12, 0)), None);
    assert!(select_cubin(&parse(FAMILY).entries, capability(10, 3)).is_some());
    assert!(!Target::from_name("sm_90a").expect("a target").cubin_runs_on(capability(9, 1)));
}

#[test]
fn expansion_beyond_the_limit_is_refused() {
    let small = Limits { entry_bytes: 100, ..limits() };
    for bytes in [DEFAULT, SPEED, NONE] {
        let error = parse(bytes).entries[0].data(&small).expect_err("too large");
        assert!(
            matches!(
                error,
                ImageError::Entry { index: 0, offset: 16, problem: EntryProblem::ExpandedSize { limit: 100, .. } }
            ),
            "{error}"
        );
    }
}

#[test]
fn size_that_the_compressed_bytes_cannot_have_is_refused_before_allocating() {
    let mut bytes = SPEED.to_vec();
    bytes[16 + 56..16 + 64].copy_from_slice(&(1_u64 << 29).to_le_bytes());
    let error = parse(&bytes).entries[0].data(&limits()).expect_err("impossible");
    assert!(matches!(error, ImageError::Entry { problem: EntryProblem::ExpandedSize { .. }, .. }), "{error}");
    assert_eq!(error.code(), floe_abi::CudaError::INVALID_IMAGE);
}

#[test]
fn wrong_sizes_are_named() {
    for bytes in [DEFAULT, SPEED] {
        for size in [1_u64, 1749, 1751] {
            let mut bytes = bytes.to_vec();
            bytes[16 + 56..16 + 64].copy_from_slice(&size.to_le_bytes());
            let error = parse(&bytes).entries[0].data(&limits()).expect_err("wrong size");
            let ImageError::Entry { index: 0, problem, .. } = &error else { panic!("{error}") };
            assert!(matches!(problem, EntryProblem::WrongSize { .. } | EntryProblem::Damaged { .. }), "{error}");
        }
    }
}

#[test]
fn damaged_zstd_frame_is_an_error() {
    // The frame's magic number, then a block type that does not exist. (nvcc writes no checksums, so damage inside a
    // literal shows only where the text is read.)
    for (place, value) in [(0, 0x29), (7, 0xff)] {
        let mut bytes = DEFAULT.to_vec();
        bytes[16 + 80 + place] = value;
        let error = parse(&bytes).entries[0].data(&limits()).map(|data| data.len()).expect_err("damaged").to_string();
        let expected = "entry 0 (at offset 16 of its container): its zstd data is damaged";
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn unknown_compression_and_kinds_are_passed_through_unread() {
    let mut bytes = DEFAULT.to_vec();
    bytes[16] = 8;
    let fatbin = parse(&bytes);
    assert_eq!(fatbin.entries[0].kind, EntryKind::Other(8));
    assert_eq!(fatbin.entries[0].payload.len(), 659);
    let error = fatbin.entries[0].data(&limits()).expect_err("not known");
    assert!(error.to_string().ends_with("its compression is not known: kind 8, flags 0x8011"), "{error}");
    assert_eq!(select_ptx(&fatbin.entries, H200).map(|chosen| chosen.entry.index), Some(2));
}

#[test]
fn options_for_the_compiler_of_a_text_are_seen() {
    assert!(parse(OPTIONS).entries[0].has_options);
    assert!([DEFAULT, SPEED, SIZE, NONE, FAMILY].iter().all(|bytes| !parse(bytes).entries[0].has_options));
    // As are those whose place lies outside of the header.
    for place in [77, 1 << 20, u32::MAX] {
        let mut bytes = DEFAULT.to_vec();
        bytes[16 + 20..16 + 24].copy_from_slice(&place.to_le_bytes());
        assert!(parse(&bytes).entries[0].has_options, "{place}");
    }
}

#[test]
fn header_errors_name_entry_and_offset() {
    let message = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = DEFAULT.to_vec();
        change(&mut bytes);
        Fatbin::parse(&bytes, &limits()).expect_err("broken").to_string()
    };
    let expected = "the image ends too early: the container at offset 0 needs 9056 bytes, 9000 are there";
    assert_eq!(message(&|bytes| bytes.truncate(9000)), expected);
    assert_eq!(message(&|bytes| bytes[4] = 7), "the fat binary container has version 7");
    assert_eq!(message(&|bytes| bytes[6] = 8), "the fat binary container has a header size of 8");
    assert_eq!(
        message(&|bytes| bytes[20] = 60),
        "entry 0 (at offset 16 of its container): its header is 60 bytes long"
    );
    let expected = "entry 1 (at offset 760 of its container): its payload of 1125899906850112 bytes leaves the container, which has 8232 more";
    assert_eq!(message(&|bytes| bytes[760 + 14] = 4), expected);
    let expected =
        "entry 0 (at offset 16 of its container): its compressed size 16777875 exceeds its payload of 664 bytes";
    assert_eq!(message(&|bytes| bytes[16 + 19] = 1), expected);
    let limited = Fatbin::parse(DEFAULT, &Limits { entries: 2, ..limits() }).expect_err("three entries");
    assert_eq!(limited.to_string(), "entries of a container: 3, the limit is 2");
}

#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    data: *const c_void,
    list: *const c_void,
}

/// Passes an image as a program would.
fn passed<'a, T>(image: *const T) -> Result<Image<'a>, ImageError> {
    // SAFETY: the tests below pass null, or images and lists they own and that are complete as their headers say.
    unsafe { from_program(image.cast(), &limits()) }
}

fn wrapper(version: u32, data: &[u8], list: *const c_void) -> Wrapper {
    Wrapper { magic: 0x4662_43B1, version, data: data.as_ptr().cast(), list }
}

#[test]
fn wrapper_gives_its_container() {
    let image = passed(&wrapper(1, DEFAULT, c"file.cu".as_ptr().cast())).expect("a good wrapper");
    assert_eq!(image, Image { kind: ImageKind::Fatbin, containers: vec![DEFAULT.into()] });
    let image = passed(&wrapper(2, DEFAULT, std::ptr::null())).expect("a good wrapper without a list");
    assert_eq!(image.containers.len(), 1);
}

#[test]
fn version_2_wrapper_gives_the_prelinked_containers_too() {
    let list = [PARTS[0].as_ptr(), PARTS[1].as_ptr(), std::ptr::null()];
    let image = passed(&wrapper(2, LINKED, list.as_ptr().cast())).expect("a good wrapper");
    assert_eq!(image.containers, [LINKED, PARTS[0], PARTS[1]]);
    assert_eq!(image.size(), (LINKED.len() + PARTS[0].len() + PARTS[1].len()) as u64);

    let texts = image.ptx(H200, &limits()).expect("each part has PTX");
    let names: Vec<_> = texts.iter().map(|text| (text.container, text.above)).collect();
    assert_eq!(names, [(1, false), (2, false)]);
    let all: String = texts.iter().map(|text| String::from_utf8_lossy(&text.text)).collect();
    assert!(all.contains(".entry calls") && all.contains(".visible .func"), "{all}");
}

#[test]
fn bare_forms_are_known_by_their_first_bytes() {
    assert_eq!(passed(DEFAULT.as_ptr()).expect("a container").containers, [DEFAULT]);
    let cubin = parse(NONE).entries[1].payload;
    let image = passed(cubin.as_ptr()).expect("a cubin");
    assert_eq!((image.kind, image.containers[0].as_ref()), (ImageKind::Cubin, cubin));
    let text = c"\n// text\n.version 9.0\n.target sm_120a, debug\n";
    let image = passed(text.as_ptr()).expect("a text");
    assert_eq!((image.kind, image.containers[0].as_ref()), (ImageKind::Ptx, text.to_bytes()));
}

#[test]
fn wrong_pointers_and_forms_are_refused() {
    let message = |result: Result<Image, ImageError>| result.expect_err("refused").to_string();
    assert_eq!(message(passed(std::ptr::null::<u8>())), "the image pointer is null");
    assert_eq!(
        message(passed(b"MZ\x90\x00....".as_ptr())),
        "not a fat binary, cubin or PTX text: the image starts with bytes [4d, 5a, 90, 00]"
    );
    assert_eq!(
        message(passed(b"..\x01".as_ptr())),
        "not a fat binary, cubin or PTX text: the image starts with bytes [2e, 2e, 01]"
    );
    assert_eq!(
        message(passed(&wrapper(3, DEFAULT, std::ptr::null()))),
        "the fat binary wrapper has version 3, known are 1 and 2"
    );
    let null = Wrapper { data: std::ptr::null(), ..wrapper(1, DEFAULT, std::ptr::null()) };
    assert!(matches!(passed(&null), Err(ImageError::Null)));
    let other = wrapper(1, b"\x7fELF....", std::ptr::null());
    assert_eq!(
        message(passed(&other)),
        "the data pointer of a fat binary wrapper points to no container: its first four bytes are 0x464c457f"
    );
    let host = std::fs::read(std::env::current_exe().expect("this test")).expect("readable");
    assert_eq!(
        message(passed(host.as_ptr())),
        "the cubin at offset 18: it is an ELF file for another machine than NVIDIA's"
    );
}

#[test]
fn size_beyond_the_limit_is_refused_before_it_is_read() {
    let mut header = DEFAULT[..16].to_vec();
    header[8..16].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    let error = passed(header.as_ptr()).expect_err("larger than any image");
    assert_eq!(error.to_string(), "bytes of an image: 1152921504606846992, the limit is 1073741824");
    header[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(passed(header.as_ptr()).is_err());
    let limits = Limits { image_bytes: LINKED.len() + PARTS[0].len(), ..limits() };
    let list = [PARTS[0].as_ptr(), PARTS[1].as_ptr(), std::ptr::null()];
    let wrapper = wrapper(2, LINKED, list.as_ptr().cast());
    // SAFETY: wrapper, list and containers live here and are complete.
    let error = unsafe { from_program((&raw const wrapper).cast(), &limits) }.expect_err("the second part is too much");
    assert_eq!(error.to_string(), "bytes of an image: 1200, the limit is 0");
    let text = c".version 9.0";
    let limits = Limits { image_bytes: 4, ..limits };
    // SAFETY: a text with its NUL.
    let error = unsafe { from_program(text.as_ptr().cast(), &limits) }.expect_err("five bytes");
    assert_eq!(error.to_string(), "bytes of PTX text: 5, the limit is 4");
}

/// Kinds and targets of what is kept of a container for a device, and whether that is certain.
fn kept(bytes: &[u8], devices: &[Takes]) -> (Vec<(EntryKind, String)>, bool) {
    let image = Image { kind: ImageKind::Fatbin, containers: vec![bytes.into()] };
    let kept = image.kept_for(devices, &limits());
    let less = kept.to_image();
    assert_eq!(less.size(), kept.size());
    let entries = parse(&less.containers[0]).entries;
    // The kept parts are, byte for byte, those of the whole.
    for entry in &entries {
        assert!(parse(bytes).entries.iter().any(|whole| whole.payload == entry.payload && whole.flags == entry.flags));
    }
    (entries.iter().map(|entry| (entry.kind, entry.target.to_string())).collect(), kept.certain)
}

#[test]
fn a_cubin_is_certain_for_devices_that_run_it() {
    let cubin = |container| {
        let entries = parse(container).entries;
        entries.into_iter().find(|entry| entry.kind == EntryKind::Cubin).expect("machine code").payload.to_vec()
    };
    let certain = |bytes: &[u8], device| {
        let image = Image { kind: ImageKind::Cubin, containers: vec![bytes.into()] };
        let kept = image.kept_for(&[device], &limits());
        assert_eq!(kept.size(), bytes.len() as u64, "all of it is sent");
        kept.certain
    };
    let code = |major, minor| Takes::MachineCode(capability(major, minor));
    let (generic, family) = (cubin(DEFAULT), cubin(FAMILY));
    let runs = |bytes: &[u8]| {
        [(8, 9), (9, 0), (9, 1), (10, 0), (10, 3)].map(|(major, minor)| certain(bytes, code(major, minor)))
    };
    assert_eq!(runs(&generic), [false, true, true, false, false]);
    // Later devices of its family run it, which its header does not tell.
    assert_eq!(runs(&family), [false, false, false, true, false]);
    assert_eq!([Takes::Ptx(H200), Takes::Anything].map(|device| certain(&generic, device)), [false; 2]);
    // As older compilers write it: in general, and for one device (nvcc 12: 0x5a055a and 0x5a0d5a).
    let old = |flags: u32| {
        let mut code = generic.clone();
        code[7..9].copy_from_slice(&[51, 7]);
        code[48..52].copy_from_slice(&flags.to_le_bytes());
        code
    };
    assert_eq!(runs(&old(0x5a_055a)), [false, true, true, false, false]);
    assert_eq!(runs(&old(0x5a_0d5a)), [false, true, false, false, false]);
    // Another version of the file, half of one, and something else.
    let mut other = generic.clone();
    other[8] = 7;
    for bytes in [&other[..], &generic[..generic.len() / 2], &generic[..64], b"ELF"] {
        assert!(!certain(bytes, code(9, 0)));
    }
    // Code that is still to be linked, and a header alone.
    let mut relocatable = generic.clone();
    relocatable[16] = 1;
    let mut header = generic[..64].to_vec();
    header[40..48].fill(0);
    for bytes in [&relocatable, &header] {
        assert!(!certain(bytes, code(9, 0)));
    }
}

#[test]
fn device_is_sent_its_machine_code_or_else_the_ptx_it_can_compile() {
    let entry = |kind, name: &str| (kind, name.to_owned());
    let (ptx, cubin) = (EntryKind::Ptx, EntryKind::Cubin);
    let code = |major, minor| [Takes::MachineCode(capability(major, minor))];
    assert_eq!(kept(DEFAULT, &code(9, 0)), (vec![entry(cubin, "sm_90")], true));
    assert_eq!(kept(DEFAULT, &code(8, 6)), (vec![entry(ptx, "sm_75")], false));
    assert_eq!(kept(DEFAULT, &code(12, 0)), (vec![entry(ptx, "sm_90"), entry(ptx, "sm_75")], false));
    assert_eq!(kept(WIDE, &code(10, 3)), (vec![entry(cubin, "sm_100")], true));
    assert_eq!(kept(FAMILY, &code(10, 3)), (vec![entry(cubin, "sm_100f")], true));
    assert_eq!(kept(DEFAULT, &[Takes::Ptx(H200)]), (vec![entry(ptx, "sm_90")], true));
    let both = [Takes::MachineCode(H200), Takes::Ptx(capability(8, 0))];
    assert_eq!(kept(DEFAULT, &both), (vec![entry(cubin, "sm_90"), entry(ptx, "sm_75")], true));
}

#[test]
fn unknown_devices_and_devices_without_code_get_the_whole_image() {
    for (bytes, takes) in [
        (DEFAULT, Takes::Anything),
        (DEFAULT, Takes::MachineCode(capability(7, 0))),
        (WIDE, Takes::MachineCode(capability(8, 0))),
        (WIDE, Takes::Ptx(H200)),
    ] {
        let (entries, certain) = kept(bytes, &[takes]);
        assert_eq!((entries.len(), certain), (parse(bytes).entries.len(), false));
    }
    let damaged = Image { kind: ImageKind::Fatbin, containers: vec![DEFAULT[..500].into()] };
    let whole = damaged.kept_for(&[Takes::MachineCode(H200)], &limits());
    assert_eq!((whole.to_image(), whole.certain), (damaged.clone(), false));
}

#[test]
fn entries_of_unknown_kinds_are_kept() {
    let mut bytes = DEFAULT.to_vec();
    bytes[16] = 8;
    let (entries, _) = kept(&bytes, &[Takes::MachineCode(H200)]);
    assert_eq!(entries.iter().map(|entry| entry.0).collect::<Vec<_>>(), [EntryKind::Other(8), EntryKind::Cubin]);
}

#[test]
fn prelinked_containers_go_only_where_the_linked_one_has_nothing() {
    let containers = vec![LINKED.into(), PARTS[0].into(), PARTS[1].into()];
    let image = Image { kind: ImageKind::Fatbin, containers };
    let count = |takes| image.kept_for(&[takes], &limits()).containers.len();
    assert_eq!(count(Takes::MachineCode(H200)), 1);
    assert_eq!(count(Takes::MachineCode(capability(12, 0))), 3);
    assert_eq!(count(Takes::Ptx(H200)), 3);
}

#[test]
fn files_are_read_like_images() {
    for bytes in [DEFAULT, LINKED] {
        let longer = [bytes, b"behind the end"].concat();
        let image = Image::from_bytes(&longer, &limits()).expect("a good file");
        assert_eq!(image.containers, [bytes]);
    }
    let image = Image::from_bytes(b".version 9.0\n.target sm_75\n", &limits()).expect("text without a NUL");
    assert_eq!(image.kind, ImageKind::Ptx);
    assert!(Image::from_bytes(b"", &limits()).is_err());
    assert!(Image::from_bytes(&DEFAULT[..500], &limits()).is_err());
    let cubin = parse(NONE).entries[1].payload;
    assert_eq!(Image::from_bytes(cubin, &limits()).expect("a cubin").containers, [cubin]);
    for length in 0..cubin.len() {
        assert!(Image::from_bytes(&cubin[..length], &limits()).is_err(), "{length} bytes");
    }
}

#[test]
fn bare_text_names_its_target() {
    let image = Image::from_bytes(b".version 9.0\n  .target sm_120a, debug\n", &limits()).expect("a text");
    let texts = image.ptx(H200, &limits()).expect("a text is PTX");
    assert_eq!(texts[0].target.map(|target| target.to_string()).as_deref(), Some("sm_120a"));
    assert!(texts[0].above);
}

#[test]
fn image_without_ptx_says_what_it_holds() {
    let image = Image::from_bytes(WIDE, &limits()).expect("a good file");
    let error = image.ptx(H200, &limits()).expect_err("no PTX");
    assert_eq!(error.code(), floe_abi::CudaError::NO_BINARY_FOR_GPU);
    assert!(error.to_string().contains("(it holds a cubin for sm_100, a cubin for sm_90)"), "{error}");
    let image = Image { kind: ImageKind::Fatbin, containers: vec![LINKED.into(), PARTS[0].into(), WIDE.into()] };
    assert!(matches!(image.ptx(H200, &limits()), Err(ImageError::NoPtx { .. })));
}
