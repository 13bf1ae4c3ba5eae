//! Module images: in go any bytes, out come an image, its entries, its PTX and its kernels' parameters, or errors.
//! Results stay within the limits. It never uses the edge that reads a program's memory, whose contract arbitrary bytes
//! do not keep.
#![no_main]

use floe_image::{
    ComputeCapability, EntryKind, Fatbin, Image, Kernels, Limits, Takes, kernel_parameters, may_print, select_cubin, select_ptx,
};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { image_bytes: 1 << 20, entry_bytes: 1 << 18, entries: 256 };
const DEVICE: ComputeCapability = ComputeCapability { major: 9, minor: 0 };

fuzz_target!(|bytes: &[u8]| {
    if let Ok(image) = Image::from_bytes(bytes, &LIMITS) {
        assert!(image.size() <= bytes.len() as u64);
        for takes in [Takes::Anything, Takes::MachineCode(DEVICE), Takes::Ptx(DEVICE)] {
            let kept = image.kept_for(&[takes], &LIMITS);
            assert!(kept.size() <= image.size());
            // What is left of a container is a container, of which the same is kept again.
            let less = kept.to_image();
            assert_eq!(less.kept_for(&[takes], &LIMITS).to_image(), less);
        }
        if let Ok(kernels) = Kernels::of(&image, DEVICE, &LIMITS) {
            for facts in kernels.names().filter_map(|name| kernels.get(name).ok()) {
                assert!(facts.certain_threads(65_536) <= 65_536 / 8 && facts.parameters.len() <= LIMITS.image_bytes);
            }
        }
        for text in image.ptx(DEVICE, &LIMITS).into_iter().flatten() {
            assert!(!text.text.contains(&0) && text.text.len() <= LIMITS.image_bytes);
        }
    }
    let _ = kernel_parameters(bytes).is_ok();
    let Ok(fatbin) = Fatbin::parse(bytes, &LIMITS) else { return };
    assert!(fatbin.entries.len() <= LIMITS.entries);
    let texts = fatbin.entries.iter().filter(|entry| entry.kind == EntryKind::Ptx).count();
    assert_eq!(select_ptx(&fatbin.entries, DEVICE).is_some(), texts > 0);
    let _ = select_cubin(&fatbin.entries, DEVICE);
    // Each frame may ask for a window of its own; a few entries are enough to see what one can do.
    for entry in fatbin.entries.iter().take(4) {
        let Ok(data) = entry.data(&LIMITS) else { continue };
        assert!(data.len() <= LIMITS.entry_bytes);
        let prints = data.windows(7).any(|name| name == b"vprintf");
        // It goes through all entries; see above.
        assert!(!prints || fatbin.entries.len() > 4 || may_print(bytes, &LIMITS));
        let _ = kernel_parameters(&data).is_ok();
    }
});
