//! What the process has mapped, as the kernel lists it. Lines come in; addresses, access and file of each mapping go out.
//! It changes nothing, and what it says may be over when it has said it.

use std::ops::Range;

/// A line of `/proc/self/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping<'m> {
    /// Its addresses.
    pub addresses: Range<u64>,
    /// Whether writes reach the file, and so others that map it.
    pub is_shared: bool,
    /// Whether the program may read and write it.
    pub is_writable: bool,
    /// The first byte's offset in the file.
    pub offset: u64,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// The file's inode; 0 where there is no file.
    pub inode: u64,
    /// The file's name, or the kernel's word for the mapping; may be empty.
    pub path: &'m str,
}

impl<'m> Mapping<'m> {
    /// Reads a line; `None` for other text.
    #[must_use]
    pub fn of_line(line: &'m str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let access = words.next()?.as_bytes();
        let offset = words.next()?;
        let (major, minor) = words.next()?.split_once(':')?;
        let inode = words.next()?.parse().ok()?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            addresses: hex(start)?..hex(end)?,
            is_shared: access.get(3) == Some(&b's'),
            is_writable: access.starts_with(b"rw"),
            offset: hex(offset)?,
            device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
            inode,
            path: words.next().unwrap_or_default().trim_start(),
        })
    }

    /// The mappings that hold any of these addresses, from the list of all.
    pub fn among(maps: &'m str, addresses: &Range<u64>) -> impl Iterator<Item = Self> {
        let Range { start, end } = *addresses;
        let all = maps.lines().filter_map(Mapping::of_line).skip_while(move |it| it.addresses.end <= start);
        all.take_while(move |it| it.addresses.start < end)
    }

    /// Whether this is another part of the same file, right behind.
    #[must_use]
    pub fn continues(&self, before: &Self) -> bool {
        let is_next = self.addresses.start == before.addresses.end;
        let offset = before.offset + (before.addresses.end - before.addresses.start);
        is_next && self.is_shared && self.is_writable && self.offset == offset && self.is_of(before)
    }

    fn is_of(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// The first of the mappings that hold all of these pages, if they are of one file, shared and writable.
#[must_use]
pub fn shared_file<'m>(maps: &'m str, pages: &Range<u64>) -> Option<Mapping<'m>> {
    let mut mappings = Mapping::among(maps, pages);
    let first = mappings.next().filter(|it| it.addresses.start <= pages.start)?;
    if !first.is_shared || !first.is_writable || first.inode == 0 {
        return None;
    }
    let mut last = first.clone();
    while last.addresses.end < pages.end {
        last = mappings.next().filter(|next| next.continues(&last))?;
    }
    Some(first)
}

/// Whether one mapping of the process alone holds all of these pages, without a file. Not the first thread's stack: the
/// kernel extends that one downwards, and only while nothing else is mapped at its end.
#[must_use]
pub(crate) fn is_private(maps: &str, pages: &Range<u64>) -> bool {
    let first = Mapping::among(maps, pages).next();
    first.is_some_and(|it| {
        let holds = it.addresses.start <= pages.start && pages.end <= it.addresses.end;
        holds && !it.is_shared && it.is_writable && it.inode == 0 && it.path != "[stack]"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
5000-7000 rw-s 00002000 00:01 77                         /memfd:x (deleted)
7000-8000 rw-s 00004000 00:01 77                         /memfd:x (deleted)
8000-9000 rw-s 00004000 00:01 77                         /memfd:x (deleted)
9000-a000 rw-p 00005000 00:01 77                         /memfd:x (deleted)
a000-b000 r--s 00000000 00:1b 78                         /dev/shm/name with spaces
b000-c000 rw-s 00000000 00:1b 79                         /dev/shm/name with spaces
d000-e000 rw-p 00000000 00:00 0
e000-f000 r--p 00000000 00:00 0
f000-11000 rw-p 00000000 00:00 0                         [heap]
11000-12000 rw-p 00000000 00:00 0                        [stack]
";

    #[test]
    fn only_one_shared_mapping_of_one_file_is_found() {
        let found = |range: Range<u64>| shared_file(MAPS, &range).map(|it| (it.addresses.start, it.offset));
        assert_eq!(found(0x5000..0x6000), Some((0x5000, 0x2000)));
        assert_eq!(found(0x6000..0x8000), Some((0x5000, 0x2000)), "two mappings of neighbouring pages");
        assert_eq!(found(0x7000..0x9000), None, "the same page twice");
        assert_eq!(found(0x9000..0xa000), None, "private");
        assert_eq!(found(0xa000..0xb000), None, "not writable");
        assert_eq!(found(0xb000..0xc000), Some((0xb000, 0)));
        assert_eq!([0xc000..0xd000, 0xd000..0xe000, 0xb000..0xd000, 0x13000..0x14000].map(found), [None; 4]);
        let mapping = shared_file(MAPS, &(0xb000..0xc000)).expect("found");
        assert_eq!((mapping.device, mapping.inode, mapping.path), ((0, 0x1b), 79, "/dev/shm/name with spaces"));
    }

    #[test]
    fn only_memory_of_the_process_alone_is_private() {
        let private = [0xd000..0xe000, 0xf000..0x11000, 0x10000..0x11000];
        assert!(private.iter().all(|pages| is_private(MAPS, pages)));
        let other = [0x9000..0xa000, 0xb000..0xc000, 0xc000..0xe000, 0xd000..0xf000, 0xe000..0xf000, 0x11000..0x12000];
        assert!(!other.iter().any(|pages| is_private(MAPS, pages)));
    }
}
