//! Host memory that client and worker share, against the device in memory.
//! In: messages over a socket pair, with descriptors of every kind. Out: the verdict.
//! The fake device has a copy of the memory as it was when it was mapped; the process tests have the memory itself.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use floe_abi::CudaError;
use floe_ring::sealed_memory;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;

const AT: u64 = 0x6000_0000_0000;
const PAGE: u64 = 4096;
const STREAM: StreamId = StreamId(0);

/// Memory that starts with these bytes and cannot shrink.
fn memory(bytes: u64, start: &[u8]) -> OwnedFd {
    let file = File::from(sealed_memory("shared", bytes).unwrap());
    file.write_all_at(start, 0).unwrap();
    file.into()
}

fn whole(bytes: u64) -> ShareMemory {
    ShareMemory { at: DevicePtr(AT), bytes }
}

fn pages(first: u64, count: u64) -> MapShared {
    MapShared { at: DevicePtr(AT + first * PAGE), bytes: count * PAGE }
}

impl Client {
    /// Says `ShareMemory` with a descriptor; the reply's status.
    fn share(&mut self, message: &ShareMemory, file: BorrowedFd<'_>) -> u32 {
        let sent = self.link.send_with(message, file).unwrap();
        match self.get() {
            Some(Got::Reply { request, status, .. }) if request == sent => status,
            other => panic!("expected the reply to {sent}: {other:?}"),
        }
    }

    /// A client whose first pages are shared and mapped, and a block of the device's.
    fn sharing(start: &[u8]) -> Self {
        let mut client = Self::new();
        client.memory();
        assert_eq!(client.share(&whole(64 * PAGE), memory(64 * PAGE, start).as_fd()), 0);
        assert_eq!(client.ok(&pages(0, 2)), [1], "kernels reach it");
        client
    }

    fn shared(&self, from: usize, bytes: usize) -> Vec<u8> {
        self.device.host(AT).lock().unwrap()[from..from + bytes].to_vec()
    }
}

fn copy(to: u64, from: u64, bytes: u64) -> CopyOnDevice {
    CopyOnDevice { stream: STREAM, to: DevicePtr(to), from: DevicePtr(from), bytes }
}

#[test]
fn device_copies_from_and_to_shared_memory_by_itself() {
    let mut client = Client::sharing(&[1, 2, 3, 4, 5, 6]);
    client.send(&copy(BASE, AT + 2, 4));
    client.send(&copy(AT + PAGE, BASE, 3));
    client.ok(&SynchronizeContext {});
    assert_eq!(client.device.memory(BASE, 4), [3, 4, 5, 6]);
    assert_eq!(client.shared(4096, 4), [3, 4, 5, 0]);
    assert_eq!(client.leave(), Ending::ClientLeft);
}

#[test]
fn boxes_go_between_the_device_and_shared_memory() {
    let mut client = Client::sharing(&(0..32).collect::<Vec<u8>>());
    let shape = CopyBoxOnDevice {
        stream: STREAM,
        to: BoxEnd::memory(DevicePtr(BASE), 100, 1000),
        from: BoxEnd::memory(DevicePtr(AT + 1), 8, 16),
        width: 3,
        height: 2,
        depth: 2,
    };
    client.send(&shape);
    let (to, from) = (BoxEnd::memory(DevicePtr(AT + PAGE), 4, 8), BoxEnd::memory(DevicePtr(BASE), 100, 1000));
    client.send(&CopyBoxOnDevice { to, from, ..shape });
    client.ok(&SynchronizeContext {});
    assert_eq!(client.device.memory(BASE + 1100, 3), [25, 26, 27]);
    assert_eq!(client.shared(4096, 16), [1, 2, 3, 0, 9, 10, 11, 0, 17, 18, 19, 0, 25, 26, 27, 0]);
    // The last row of the last slice would end outside.
    let outside = BoxEnd::memory(DevicePtr(AT + 2 * PAGE - 14), 4, 8);
    client.send(&CopyBoxOnDevice { to: outside, ..shape });
    assert_eq!(client.call(&SynchronizeContext {}).1, CudaError::INVALID_VALUE.code());
}

#[test]
fn pages_go_when_the_work_that_names_them_is_over() {
    let mut client = Client::sharing(&[]);
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.ok(&MemoryInfo {});
    client.device.hold(0);
    client.send(&CopyOnDevice { stream: StreamId(1), ..copy(AT, BASE, 8) });
    let unmapped = client.send(&UnmapShared { at: DevicePtr(AT) });
    client.nothing_comes();
    assert!(client.device.has_host(AT));
    // Nobody else waits for it.
    client.ok(&SynchronizeStream { stream: STREAM });
    client.device.release(0);
    assert_eq!(client.get(), status(unmapped, 0));
    assert!(!client.device.has_host(AT));
    client.ok(&pages(0, 1));
}

#[test]
fn addresses_of_shared_memory_that_is_not_mapped_are_refused() {
    let mut client = Client::sharing(&[]);
    for (to, from) in [(BASE, AT + 2 * PAGE), (AT + 2 * PAGE - 4, BASE), (BASE, AT + 63 * PAGE)] {
        client.send(&copy(to, from, 8));
        assert_eq!(client.call(&SynchronizeContext {}).1, CudaError::INVALID_VALUE.code(), "{to:#x} {from:#x}");
    }
}

#[test]
fn a_descriptor_that_is_no_memory_is_refused_and_the_session_continues() {
    let refused = CudaError::NOT_SUPPORTED.code();
    let unsealed = memfd_create("unsealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&unsealed, 4 * PAGE).unwrap();
    let (file, pipe) = (tempfile::tempfile().unwrap(), std::io::pipe().unwrap());
    file.set_len(4 * PAGE).unwrap();
    for descriptor in [unsealed.as_fd(), file.as_fd(), pipe.0.as_fd(), File::open("/dev/zero").unwrap().as_fd()] {
        let mut client = Client::new();
        assert_eq!(client.share(&whole(4 * PAGE), descriptor), refused, "{descriptor:?}");
        client.ok(&MemoryInfo {});
    }
    let small = memory(4 * PAGE, &[]);
    for (at, bytes) in [(AT, 5 * PAGE), (AT + 1, PAGE), (BASE, PAGE), (u64::MAX - 4095, 2 * PAGE)] {
        let message = ShareMemory { at: DevicePtr(at), bytes };
        assert_eq!(Client::new().share(&message, small.as_fd()), refused, "{at:#x} {bytes}");
    }
    let mut client = Client::new();
    assert_eq!(client.call(&whole(PAGE)).0, refused, "no descriptor");
    client.ok(&MemoryInfo {});
}

#[test]
fn session_shares_no_more_than_it_may() {
    let mut client = Client::new();
    let bytes = 4 * SHARED;
    assert_eq!(client.share(&whole(bytes), memory(bytes, &[]).as_fd()), 0);
    let all = SHARED / PAGE;
    client.ok(&pages(0, all - 1));
    assert_eq!(client.call(&pages(all, 2)).0, CudaError::OUT_OF_MEMORY.code());
    client.ok(&pages(all, 1));
    client.ok(&UnmapShared { at: DevicePtr(AT) });
    client.ok(&pages(2 * all, all - 1));
}

#[test]
fn pages_that_are_being_given_up_still_count() {
    let mut client = Client::new();
    client.memory();
    let bytes = 4 * SHARED;
    assert_eq!(client.share(&whole(bytes), memory(bytes, &[]).as_fd()), 0);
    let all = SHARED / PAGE;
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.ok(&pages(0, all));
    client.device.hold(0);
    client.send(&CopyOnDevice { stream: StreamId(1), ..copy(AT, BASE, 8) });
    let unmapped = client.send(&UnmapShared { at: DevicePtr(AT) });
    assert_eq!(client.call(&pages(all, 1)).0, CudaError::OUT_OF_MEMORY.code());
    client.device.release(0);
    assert_eq!(client.get(), status(unmapped, 0));
    client.ok(&pages(all, all));
}

#[test]
fn numbers_that_do_not_fit_violate_the_protocol() {
    let words = Client::new().break_with(&pages(0, 1));
    assert!(words.ends_with("no memory is shared"), "{words}");
    let odd = [
        MapShared { at: DevicePtr(AT + 1), bytes: PAGE },
        MapShared { at: DevicePtr(AT + 8 * PAGE), bytes: 1 },
        MapShared { at: DevicePtr(AT + 8 * PAGE), bytes: 0 },
        MapShared { at: DevicePtr(AT - PAGE), bytes: PAGE },
        pages(63, 2),
        pages(64, 1),
        MapShared { at: DevicePtr(AT + 8 * PAGE), bytes: u64::MAX - 4095 },
    ];
    for message in odd {
        let words = Client::sharing(&[]).break_with(&message);
        assert!(words.contains("not pages of the shared memory"), "{message:?}: {words}");
    }
    for message in [pages(0, 2), pages(1, 1), pages(1, 4)] {
        let words = Client::sharing(&[]).break_with(&message);
        assert!(words.contains("pages are mapped there already"), "{message:?}: {words}");
    }
    let words = Client::sharing(&[]).break_with(&UnmapShared { at: DevicePtr(AT + PAGE) });
    assert!(words.contains("no shared pages start at"), "{words}");
    let words = Client::sharing(&[]).break_with(&whole(PAGE));
    assert!(words.ends_with("memory is shared already"), "{words}");
}

#[test]
fn reset_ends_the_mappings_and_the_memory_can_be_mapped_again() {
    let mut client = Client::sharing(&[9]);
    client.ok(&ResetContext {});
    assert!(!client.device.has_host(AT));
    client.memory();
    client.ok(&pages(0, 2));
    client.send(&copy(BASE, AT, 1));
    client.ok(&SynchronizeContext {});
    assert_eq!(client.device.memory(BASE, 1), [9]);
}

/// Pages of the program's, away from those of the client's own memory.
const FILE_AT: u64 = 0x7f12_3456_7000;

fn file_pages(at: u64, offset: u64, count: u64) -> ShareFile {
    ShareFile { at: DevicePtr(at), offset, bytes: count * PAGE }
}

/// A file in memory that can shrink, with these bytes behind its first page.
fn shrinkable(bytes: u64, second: &[u8]) -> File {
    let file = File::from(memfd_create("registered", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(bytes).unwrap();
    file.write_all_at(second, PAGE).unwrap();
    file
}

impl Client {
    /// Says `ShareFile` with a descriptor; the reply's status.
    fn share_file(&mut self, message: &ShareFile, file: BorrowedFd<'_>) -> u32 {
        let sent = self.link.send_with(message, file).unwrap();
        match self.get() {
            Some(Got::Reply { request, status, .. }) if request == sent => status,
            other => panic!("expected the reply to {sent}: {other:?}"),
        }
    }
}

#[test]
fn device_copies_from_and_to_a_file_of_the_program() {
    let mut client = Client::new();
    client.memory();
    let file = shrinkable(3 * PAGE, &[1, 2, 3, 4, 5]);
    assert_eq!(client.share_file(&file_pages(FILE_AT, PAGE, 2), file.as_fd()), 0);
    client.send(&copy(BASE, FILE_AT + 1, 3));
    client.send(&copy(FILE_AT + PAGE, BASE, 2));
    client.ok(&SynchronizeContext {});
    assert_eq!(client.device.memory(BASE, 3), [2, 3, 4]);
    assert_eq!(client.device.host(FILE_AT).lock().unwrap()[4096..4099], [2, 3, 0]);
    client.send(&copy(BASE, FILE_AT + 2 * PAGE - 2, 4));
    assert_eq!(client.call(&SynchronizeContext {}).1, CudaError::INVALID_VALUE.code(), "beyond its pages");
    client.ok(&UnmapShared { at: DevicePtr(FILE_AT) });
    assert!(!client.device.has_host(FILE_AT));
    assert_eq!(client.leave(), Ending::ClientLeft);
}

#[test]
fn files_that_are_no_memory_or_too_short_are_refused_and_taken_places_too() {
    let refused = CudaError::NOT_SUPPORTED.code();
    let mut client = Client::sharing(&[]);
    let (file, pipe) = (shrinkable(2 * PAGE - 100, &[]), std::io::pipe().unwrap());
    let null = File::open("/dev/zero").unwrap();
    for other in [pipe.0.as_fd(), null.as_fd()] {
        assert_eq!(client.share_file(&file_pages(FILE_AT, 0, 1), other), refused, "{other:?}");
    }
    for (at, offset, count) in [
        (FILE_AT, 0, 3),
        (FILE_AT, PAGE, 2),
        (FILE_AT, 1 << 40, 1),
        (BASE, 0, 1),
        (4096, 0, 1),
        (AT, 0, 1),
        (AT + 63 * PAGE, 0, 2),
    ] {
        assert_eq!(
            client.share_file(&file_pages(at, offset, count), file.as_fd()),
            refused,
            "{at:#x} {offset} {count}"
        );
    }
    assert_eq!(client.share_file(&file_pages(FILE_AT, 0, 2), file.as_fd()), 0, "the last page is a part of one");
    assert_eq!(client.share_file(&file_pages(FILE_AT, 0, 2), file.as_fd()), refused, "taken");
    assert_eq!(client.call(&file_pages(FILE_AT + 4 * PAGE, 0, 1)).0, refused, "no descriptor");
    client.ok(&MemoryInfo {});
}

#[test]
fn pages_of_files_count_as_shared_memory() {
    let mut client = Client::new();
    let file = shrinkable(2 * SHARED, &[]);
    let all = SHARED / PAGE;
    let more = CudaError::OUT_OF_MEMORY.code();
    assert_eq!(client.share_file(&file_pages(FILE_AT, 0, all + 1), file.as_fd()), more);
    assert_eq!(client.share_file(&file_pages(FILE_AT, 0, all), file.as_fd()), 0);
    assert_eq!(client.share_file(&file_pages(FILE_AT + SHARED, SHARED, 1), file.as_fd()), more);
    client.ok(&UnmapShared { at: DevicePtr(FILE_AT) });
    assert_eq!(client.share_file(&file_pages(FILE_AT + SHARED, SHARED, 1), file.as_fd()), 0);
}

#[test]
fn parts_of_pages_of_a_file_violate_the_protocol() {
    for message in [
        ShareFile { at: DevicePtr(FILE_AT + 1), offset: 0, bytes: PAGE },
        ShareFile { at: DevicePtr(FILE_AT), offset: 1, bytes: PAGE },
        ShareFile { at: DevicePtr(FILE_AT), offset: 0, bytes: 1 },
        ShareFile { at: DevicePtr(FILE_AT), offset: 0, bytes: 0 },
        ShareFile { at: DevicePtr(FILE_AT), offset: u64::MAX - 4095, bytes: PAGE },
    ] {
        let words = Client::new().break_with(&message);
        assert!(words.contains("not pages of a file"), "{message:?}: {words}");
    }
}
