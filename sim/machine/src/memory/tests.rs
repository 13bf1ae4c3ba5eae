use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};

use super::{Backing, GRANULE, Memory, MemoryError, Store};
use crate::fault::FaultKind;

const BASE: u64 = 0x2100_0000_0000;

#[test]
fn two_mappings_of_one_backing_show_the_same_bytes() {
    let memory = Memory::reserve(BASE, 1 << 40).expect("reserve");
    let store = Store::new(1 << 30).expect("store");
    let backing = store.create(1).expect("backing");
    let (first, second) = (memory.base(), memory.base() + 8 * GRANULE);
    memory.map(first, GRANULE, &backing, 0).expect("map");
    memory.map(second, GRANULE, &backing, 0).expect("map again");
    memory.write(first + 12, b"alias").expect("write");
    let mut seen = [0; 5];
    memory.read(second + 12, &mut seen).expect("read");
    assert_eq!(&seen, b"alias");
    assert!(memory.map(second, GRANULE, &backing, 0).is_err());
}

#[test]
fn zeros_over_several_mappings_clear_what_was_written_and_make_no_pages() {
    let memory = Memory::reserve(0x22c0_0000_0000, 1 << 32).expect("reserve");
    let store = Store::new(16 * GRANULE).expect("store");
    let (first, second) = (store.create(6 * GRANULE).expect("room"), store.create(4 * GRANULE).expect("room"));
    let base = memory.base();
    // The second part of the first backing, the second backing, and pages of the process.
    memory.map(base, 4 * GRANULE, &first, 2 * GRANULE).expect("map");
    memory.map(base + 4 * GRANULE, 4 * GRANULE, &second, 0).expect("map");
    memory.map_own(base + 8 * GRANULE, GRANULE).expect("map");
    let written = [0, 5000, GRANULE, 4 * GRANULE - 8, 4 * GRANULE, 7 * GRANULE + 12288, 8 * GRANULE + 64];
    for at in written {
        memory.write(base + at, &[7; 8]).expect("mapped");
    }
    let (start, length) = (base + 8, 9 * GRANULE - 16);
    memory.fill(start, 0, 4, usize::try_from(length / 4).expect("64 bit")).expect("mapped");
    for at in written {
        let mut seen = [1; 8];
        memory.read(base + at, &mut seen).expect("mapped");
        let expected = if at == 0 { 7 } else { 0 };
        assert_eq!(seen, [expected; 8], "at {at:#x}");
    }
    let pages = |backing: &Backing| {
        let ranges = backing.written(0..backing.length());
        ranges.iter().map(|range| range.end - range.start).sum::<u64>() / 4096
    };
    assert_eq!((pages(&first), pages(&second)), (4, 2), "no more pages than were written");
}

#[test]
fn zeros_where_a_part_is_not_mapped_are_a_fault() {
    let memory = Memory::reserve(0x22e0_0000_0000, 1 << 32).expect("reserve");
    let store = Store::new(8 * GRANULE).expect("store");
    let backing = store.create(4 * GRANULE).expect("room");
    memory.map(memory.base(), 4 * GRANULE, &backing, 0).expect("map");
    let fault = memory.fill(memory.base(), 0, 1, 5 << 21).expect_err("a hole");
    assert_eq!((fault.kind, fault.address), (FaultKind::IllegalAddress, memory.base() + 4 * GRANULE));
}

#[test]
fn pages_of_the_process_are_mapped_where_nothing_is() {
    let memory = Memory::reserve(0x22a0_0000_0000, 1 << 32).expect("reserve");
    let at = memory.base() + GRANULE;
    memory.map_own(at, GRANULE).expect("map");
    memory.write(at + 5, b"own").expect("write");
    let mut seen = [7; 5];
    memory.read(at + 4, &mut seen).expect("read");
    assert_eq!(&seen, b"\0own\0");
    assert!(
        matches!(memory.map_own(memory.base(), 2 * GRANULE), Err(MemoryError::Occupied { address }) if address == at)
    );
    memory.unmap(at, GRANULE).expect("unmap");
    memory.map_own(at, GRANULE).expect("map again");
    memory.read(at + 4, &mut seen).expect("read");
    assert_eq!(seen, [0; 5], "new pages");
}

#[test]
fn a_range_stays_mapped_while_the_host_accesses_it() {
    const LENGTH: u64 = 4 * GRANULE;
    let memory = Memory::reserve(0x2280_0000_0000, 1 << 32).expect("reserve");
    let store = Store::new(LENGTH).expect("store");
    let backing = store.create(LENGTH).expect("backing");
    let (from, to) = (memory.base(), memory.base() + LENGTH);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let length = usize::try_from(LENGTH).expect("64 bit");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                [from, to].into_iter().for_each(|at| memory.map(at, LENGTH, &backing, 0).expect("map"));
                std::thread::yield_now();
                [from, to].into_iter().for_each(|at| memory.unmap(at, LENGTH).expect("unmap"));
            }
            is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let mut bytes = vec![0; length];
        while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
            let done = [
                memory.copy(to, from, length),
                memory.fill(from, 7, 4, length / 4),
                memory.read(from, &mut bytes),
                memory.write(to, &bytes),
            ];
            // All of it, or nothing.
            let faults = done.into_iter().filter_map(Result::err);
            faults.for_each(|fault| assert_eq!(fault.kind, FaultKind::IllegalAddress));
        }
    });
}

#[test]
fn access_of_a_hole_is_a_fault_at_its_first_address() {
    let memory = Memory::reserve(0x2200_0000_0000, 1 << 32).expect("reserve");
    let store = Store::new(1 << 30).expect("store");
    let backing = store.create(GRANULE).expect("backing");
    memory.map(memory.base(), GRANULE, &backing, 0).expect("map");
    let fault = memory.write(memory.base() + GRANULE - 1, &[1, 2]).expect_err("crosses into a hole");
    assert_eq!(fault.kind, FaultKind::IllegalAddress);
    assert_eq!(fault.address, memory.base() + GRANULE);
    memory.unmap(memory.base(), GRANULE).expect("unmap");
    assert!(memory.read(memory.base(), &mut [0]).is_err());
    assert!(memory.fill(u64::MAX - 3, 0, 1, 8).is_err());
}

#[test]
fn a_second_device_at_the_same_addresses_lives_elsewhere_in_the_host() {
    let one = Memory::reserve(0x2300_0000_0000, 1 << 32).expect("reserve");
    let two = Memory::reserve(0x2300_0000_0000, 1 << 32).expect("reserve");
    assert!(one.is_identity());
    assert!(!two.is_identity());
}

#[test]
fn a_dropped_backing_comes_back_as_zeros() {
    let memory = Memory::reserve(0x2400_0000_0000, 1 << 32).expect("reserve");
    let store = Store::new(GRANULE).expect("store");
    for _ in 0..2 {
        let backing = store.create(GRANULE).expect("room");
        assert!(store.create(1).is_err());
        memory.map(memory.base(), GRANULE, &backing, 0).expect("map");
        let mut byte = [9];
        memory.read(memory.base(), &mut byte).expect("read");
        assert_eq!(byte, [0]);
        memory.fill(memory.base(), 0xabcd, 2, 100).expect("fill");
        memory.unmap(memory.base(), GRANULE).expect("unmap");
    }
    assert_eq!(store.used(), 0);
}

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A memory file of so many bytes that says of itself, behind `bytes - GRANULE`, what an exported one says.
fn forged(bytes: u64, seals: SealFlags) -> OwnedFd {
    let file = File::from(memfd_create("forged", MemfdFlags::ALLOW_SEALING).expect("a memory file"));
    ftruncate(&file, bytes).expect("room");
    file.write_all_at(b"floemem1\0\0\0\0", bytes.saturating_sub(GRANULE)).expect("fits");
    fcntl_add_seals(&file, seals).expect("not sealed yet");
    file.into()
}

#[test]
fn exported_memory_is_the_same_bytes_by_a_descriptor_and_cannot_shrink() {
    let store = Store::new(4 * GRANULE).expect("store");
    let made = store.create_exportable(2 * GRANULE, 3).expect("room");
    let descriptor = made.own_file().expect("its own").duplicate().expect("a descriptor");
    let imported = Backing::import(descriptor.as_fd()).expect("ours");
    assert_eq!((imported.length(), imported.own_file().expect("its own").device()), (2 * GRANULE, 3));
    let memory = Memory::reserve(0x2500_0000_0000, 1 << 32).expect("reserve");
    let (here, there) = (memory.base(), memory.base() + 4 * GRANULE);
    memory.map(here, 2 * GRANULE, &made, 0).expect("map");
    memory.map(there, 2 * GRANULE, &imported, 0).expect("map");
    memory.write(here + GRANULE + 9, b"shared").expect("write");
    let mut seen = [0; 6];
    memory.read(there + GRANULE + 9, &mut seen).expect("read");
    assert_eq!(&seen, b"shared");
    assert!(ftruncate(&descriptor, 0).is_err() && ftruncate(&descriptor, 64 * GRANULE).is_err());
    assert!(fcntl_get_seals(&descriptor).expect("seals").contains(SEALS));
}

#[test]
fn exportable_memory_counts_exactly_until_its_maker_gives_it_up() {
    let store = Store::new(4 * GRANULE).expect("store");
    let cut = store.create(GRANULE).expect("room");
    let made = store.create_exportable(3 * GRANULE, 0).expect("room");
    assert_eq!(store.used(), 4 * GRANULE);
    assert!(matches!(store.create(1), Err(MemoryError::Exhausted { .. })));
    assert!(matches!(store.create_exportable(1, 0), Err(MemoryError::Exhausted { .. })));
    let imported = Backing::import(made.own_file().expect("its own").duplicate().expect("one").as_fd()).expect("ours");
    drop(made);
    assert_eq!(store.used(), GRANULE);
    let again = store.create(3 * GRANULE).expect("room again");
    assert_eq!((store.used(), imported.length()), (4 * GRANULE, 3 * GRANULE));
    drop((cut, again, imported));
    assert_eq!(store.used(), 0);
}

#[test]
fn forged_descriptors_are_refused() {
    let good = 2 * GRANULE;
    let own = Store::new(GRANULE).expect("store").create_exportable(GRANULE, 0).expect("room");
    let own = own.own_file().expect("its own").duplicate().expect("a descriptor");
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&own));
    let open = |path: &str, flags| rustix::fs::open(path, flags, rustix::fs::Mode::empty()).expect("opens");
    let ordinary = File::from(tempfile());
    ordinary.set_len(good).expect("room");
    let (pipe, _writer) = rustix::pipe::pipe().expect("a pipe");
    let unmarked = File::from(memfd_create("plain", MemfdFlags::ALLOW_SEALING).expect("a memory file"));
    ftruncate(&unmarked, good).expect("room");
    fcntl_add_seals(&unmarked, SEALS).expect("seals");
    let cases: [(&str, OwnedFd); 13] = [
        ("ordinary file", ordinary.into()),
        ("pipe", pipe),
        ("device", open("/dev/null", OFlags::RDWR)),
        ("no seals", forged(good, SealFlags::empty())),
        ("may shrink", forged(good, SealFlags::GROW.union(SealFlags::SEAL))),
        ("may be sealed further", forged(good, SealFlags::SHRINK.union(SealFlags::GROW))),
        ("cannot be written", forged(good, SEALS.union(SealFlags::WRITE))),
        ("cannot be written by others", forged(good, SEALS.union(SealFlags::FUTURE_WRITE))),
        ("odd size", forged(good + 4096, SEALS)),
        ("no memory but the mark", forged(GRANULE, SEALS)),
        ("not marked", unmarked.into()),
        ("read only", open(&path, OFlags::RDONLY)),
        ("a path", open(&path, OFlags::PATH)),
    ];
    for (what, descriptor) in cases {
        let refused = Backing::import(descriptor.as_fd());
        assert!(matches!(refused, Err(MemoryError::Foreign { .. })), "{what}: {refused:?}");
    }
    if let Ok(large) = memfd_create("large", MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING) {
        ftruncate(&large, good).expect("no page is taken");
        fcntl_add_seals(&large, SEALS).expect("not sealed yet");
        assert!(matches!(Backing::import(large.as_fd()), Err(MemoryError::Foreign { .. })));
    }
    Backing::import(own.as_fd()).expect("and the true one is taken");
}

/// A file on disk without a name.
fn tempfile() -> OwnedFd {
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    rustix::fs::open(std::env::temp_dir(), flags, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).expect("a file")
}
