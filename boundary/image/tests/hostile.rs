//! Containers and cubins made to break the reader: arbitrary bytes, and good ones with bytes changed and cut off.
//! Every answer is data within the limits or an error, never a panic.

use floe_image::{Compression, ComputeCapability, EntryKind, Fatbin, Image, Kernels, Limits, Takes, kernel_parameters};
use proptest::prelude::*;

const GOOD: [&[u8]; 7] = [
    include_bytes!("data/sums_default.fatbin"),
    include_bytes!("data/sums_speed.fatbin"),
    include_bytes!("data/sums_size.fatbin"),
    include_bytes!("data/sums_none.fatbin"),
    include_bytes!("data/wide.fatbin"),
    include_bytes!("data/linked_part0.fatbin"),
    include_bytes!("data/bounds.fatbin"),
];

const LIMITS: Limits = Limits { image_bytes: 1 << 20, entry_bytes: 1 << 16, entries: 64 };

/// Reads all there is to read.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let device = ComputeCapability { major: 9, minor: 0 };
    if let Ok(image) = Image::from_bytes(bytes, &LIMITS) {
        prop_assert!(image.size() <= bytes.len() as u64);
        for takes in [Takes::Anything, Takes::MachineCode(device), Takes::Ptx(device)] {
            let kept = image.kept_for(&[takes], &LIMITS);
            prop_assert!(kept.size() <= image.size());
            let less = kept.to_image();
            prop_assert_eq!(less.kept_for(&[takes], &LIMITS).to_image(), less.clone());
        }
        if let Ok(kernels) = Kernels::of(&image, device, &LIMITS) {
            // Names and items are of the file: there are no more of them than it has bytes.
            prop_assert!(kernels.names().map(str::len).sum::<usize>() <= 4 * LIMITS.image_bytes);
        }
        if let Ok(texts) = image.ptx(device, &LIMITS) {
            prop_assert!(texts.iter().all(|text| !text.text.contains(&0)));
        }
    }
    if let Ok(fatbin) = Fatbin::parse(bytes, &LIMITS) {
        for entry in &fatbin.entries {
            prop_assert!(entry.offset < bytes.len());
            let Ok(data) = entry.data(&LIMITS) else { continue };
            prop_assert!(data.len() <= LIMITS.entry_bytes);
            let whole = entry.kind == EntryKind::Ptx || data.len() as u64 == entry.expanded_size;
            prop_assert!(whole || entry.compression == Compression::None);
            if let Ok(kernels) = kernel_parameters(&data) {
                let fits = |size: u32| kernels.iter().flat_map(|kernel| &kernel.parameters).all(|p| p.size <= size);
                prop_assert!(fits(1 << 24));
            }
        }
    }
    let _ = kernel_parameters(bytes).is_ok();
    Ok(())
}

/// The cubin of a container, in the plain.
fn cubin(container: &[u8]) -> Vec<u8> {
    let fatbin = Fatbin::parse(container, &LIMITS).expect("a good container");
    let entry = fatbin.entries.iter().find(|entry| entry.kind == EntryKind::Cubin).expect("a cubin");
    entry.data(&LIMITS).expect("good data").into_owned()
}

type Changes = Vec<(prop::sample::Index, u8)>;

fn change(bytes: &mut [u8], changes: Changes) {
    for (at, value) in changes {
        let at = at.index(bytes.len());
        bytes[at] = value;
    }
}

fn changes() -> impl Strategy<Value = Changes> {
    proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500), magic in 0..3) {
        check(&bytes)?;
        let start: &[u8] = match magic {
            0 => &[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0],
            1 => &[0x7f, b'E', b'L', b'F', 2, 1, 1, 0x41],
            _ => b".version",
        };
        check(&[start, &bytes].concat())?;
    }

    #[test]
    fn damaged_containers_never_panic(which in 0..GOOD.len(), changes in changes()) {
        let mut bytes = GOOD[which].to_vec();
        change(&mut bytes, changes);
        check(&bytes)?;
    }

    #[test]
    fn damaged_entry_headers_never_panic(which in 0..GOOD.len(), changes in changes()) {
        let mut bytes = GOOD[which].to_vec();
        change(&mut bytes[..80], changes);
        check(&bytes)?;
    }

    #[test]
    fn cut_containers_never_panic(which in 0..GOOD.len(), at in any::<prop::sample::Index>()) {
        let bytes = GOOD[which];
        let mut bytes = bytes[..at.index(bytes.len())].to_vec();
        check(&bytes)?;
        if bytes.len() >= 16 {
            let follow = bytes.len() as u64 - 16;
            bytes[8..16].copy_from_slice(&follow.to_le_bytes());
            check(&bytes)?;
        }
    }

    #[test]
    fn damaged_cubins_never_panic(which in 2..5_usize, changes in changes(), tail in any::<bool>()) {
        let mut bytes = cubin(GOOD[which]);
        // Section headers stand at the end, the items of kernels before them.
        let half = bytes.len() / 2;
        change(if tail { &mut bytes[half..] } else { &mut bytes[..half] }, changes);
        check(&bytes)?;
    }
}
