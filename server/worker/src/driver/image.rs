//! The bytes a driver is given for an image.
//! In: containers. Out: the container itself; for one that was prelinked with others, the wrapper compilers put before it,
//! made anew around the containers here. It looks into no container: the session has checked that each is whole.

use crate::device::{Image, ImageKind};

/// The wrapper's magic.
const MAGIC: u32 = 0x4662_43b1;
/// A wrapper with a list of the fat binaries it was prelinked with.
const PRELINKED: u32 = 2;

/// Calls `load` with the bytes at which the driver is to look; they and what they point to live through the call.
pub(super) fn with_address<T>(image: &Image, load: impl FnOnce(&[u8]) -> T) -> T {
    let Some((main, prelinked)) = image.containers.split_first() else { return load(&[]) };
    // A container alone is given as it is: with compiler options a driver takes a wrapper's first bytes for a container's
    // and refuses them ("Binary format for key='0', ident='' is not recognized"), where the container has PTX only.
    if image.kind != ImageKind::FatBinary || prelinked.is_empty() {
        return load(main);
    }
    // Drivers read containers as words.
    let main = words(main);
    let prelinked: Vec<Vec<u64>> = prelinked.iter().map(|container| words(container)).collect();
    let mut list: Vec<u64> = prelinked.iter().map(|container| address(container)).collect();
    list.push(0);
    let mut wrapper = Vec::with_capacity(24);
    wrapper.extend(MAGIC.to_ne_bytes());
    wrapper.extend(PRELINKED.to_ne_bytes());
    wrapper.extend(address(&main).to_ne_bytes());
    wrapper.extend(address(&list).to_ne_bytes());
    load(&wrapper)
}

fn address(words: &[u64]) -> u64 {
    words.as_ptr().expose_provenance() as u64
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0; bytes.len().div_ceil(8)];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut filled = [0; 8];
        filled[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(filled);
    }
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn fields(wrapper: &[u8]) -> (u32, u32, u64, u64) {
        let word = |at: usize| u64::from_ne_bytes(wrapper[at..at + 8].try_into().unwrap());
        let half = |at: usize| u32::from_ne_bytes(wrapper[at..at + 4].try_into().unwrap());
        (half(0), half(4), word(8), word(16))
    }

    #[test]
    fn one_container_is_given_as_it_is_and_prelinked_ones_get_a_wrapper_with_a_list() {
        let image = |containers| Image { kind: ImageKind::FatBinary, containers };
        assert_eq!(with_address(&image(vec![vec![1; 20]]), <[u8]>::to_vec), [1; 20]);
        with_address(&image(vec![vec![1; 20], vec![2; 3]]), |wrapper| {
            let (magic, version, data, list) = fields(wrapper);
            assert_eq!((magic, version, wrapper.len()), (MAGIC, 2, 24));
            assert!(data != 0 && data % 8 == 0 && list != 0);
        });
    }

    #[test]
    fn other_images_are_given_as_they_are() {
        let image = Image { kind: ImageKind::Ptx, containers: vec![b".version".to_vec()] };
        assert_eq!(with_address(&image, <[u8]>::to_vec), b".version");
    }
}
