//! An image as a driver is given it: an address. Contents come in and are owned from then on. A fat binary that was
//! prelinked with others gets a new wrapper, as compilers put before it.
//! It looks into no content: whoever loads it has checked that each is whole.

use std::ffi::c_void;

use crate::Content;

/// The wrapper's magic.
const MAGIC: u32 = 0x4662_43b1;
/// A wrapper with a list of the fat binaries it was prelinked with.
const PRELINKED: u32 = 2;

/// Something a driver can load, and all that its address leads to.
#[derive(Debug)]
pub struct LoadImage {
    contents: Vec<Content>,
    /// Addresses of the contents behind the first, then 0.
    list: Vec<u64>,
    /// Magic and version, the first content's address, the list's.
    wrapper: Option<Box<[u64; 3]>>,
}

impl LoadImage {
    /// A fat binary, with those it was prelinked with behind it.
    pub fn fat_binary(contents: Vec<Content>) -> Self {
        // A container alone goes as it is. With compiler options and a container of PTX only, a driver takes a
        // wrapper's first bytes for a container's. It refuses them: "Binary format for key='0', ident='' is not
        // recognized".
        if contents.len() <= 1 {
            return Self { contents, list: Vec::new(), wrapper: None };
        }
        let address = |content: &Content| content.as_ptr().expose_provenance() as u64;
        let main = contents.first().map_or(0, address);
        let mut list: Vec<u64> = contents.iter().skip(1).map(address).collect();
        list.push(0);
        let listed = list.as_ptr().expose_provenance() as u64;
        let wrapper = Some(Box::new([u64::from(PRELINKED) << 32 | u64::from(MAGIC), main, listed]));
        Self { contents, list, wrapper }
    }

    /// A cubin, which its headers end, or PTX, which a NUL ends: one is put behind it.
    pub fn single(content: Content) -> Self {
        let content = if content.starts_with(b"\x7fELF") || content.ends_with(&[0]) {
            content
        } else {
            Content::from(&[&*content, &[0]].concat()[..])
        };
        Self { contents: vec![content], list: Vec::new(), wrapper: None }
    }

    /// Bytes of its contents.
    pub fn bytes(&self) -> usize {
        self.contents.iter().map(|content| content.len()).sum()
    }

    /// Where the driver is to look. It stays there as long as the value lives, also when that moves: contents, list and
    /// wrapper have places of their own.
    pub(crate) fn address(&self) -> *const c_void {
        match &self.wrapper {
            Some(wrapper) => wrapper.as_ptr().cast(),
            None => self.contents.first().map_or(self.list.as_ptr().cast(), |content| content.as_ptr().cast()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(byte: u8, bytes: usize) -> Content {
        Content::from(&vec![byte; bytes][..])
    }

    #[test]
    fn one_container_is_given_as_it_is_and_prelinked_ones_get_a_wrapper_with_a_list() {
        let alone = LoadImage::fat_binary(vec![content(1, 20)]);
        assert_eq!(alone.address(), alone.contents[0].as_ptr().cast());
        let image = LoadImage::fat_binary(vec![content(1, 20), content(2, 3)]);
        let [head, main, list] = **image.wrapper.as_ref().expect("a wrapper");
        assert_eq!((head, list), (2 << 32 | 0x4662_43b1, image.list.as_ptr().addr() as u64));
        assert_eq!(main, image.contents[0].as_ptr().addr() as u64);
        assert_eq!(image.list, [image.contents[1].as_ptr().addr() as u64, 0]);
    }

    #[test]
    fn text_gets_a_nul_and_machine_code_stays_where_it_is() {
        let image = LoadImage::single(Content::from(&b".version"[..]));
        assert_eq!(*image.contents[0], *b".version\0");
        let cubin = Content::from(&b"\x7fELF rest"[..]);
        let at = cubin.as_ptr();
        assert_eq!(LoadImage::single(cubin).address(), at.cast());
    }
}
