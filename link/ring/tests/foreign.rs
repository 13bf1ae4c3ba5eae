//! Descriptors of a peer's whose file system is the peer's own, and answers nothing. In: a folder of such a file
//! system, which root alone can mount; others see the test report that it is skipped. Out: what is said of it, without
//! waiting.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::sync::mpsc::channel;
use std::time::Duration;

use floe_ring::{NotMemory, demand_memory, demand_memory_file, is_character_device};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Requests of FUSE that are answered: the first one, and to open a folder.
const INIT: u32 = 26;
const OPEN_FOLDER: u32 = 27;

/// Answers what a folder needs to be opened, and nothing behind that, until the file system is unmounted.
fn answer(mut fuse: &File) {
    let mut request = vec![0; 1 << 20];
    while fuse.read(&mut request).is_ok_and(|bytes| bytes >= 40) {
        let number = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let body: Vec<u32> = match number(4) {
            // Version 7.31, and read ahead as the kernel says it; pieces of 128 KiB at most, and times in nanoseconds.
            INIT => [&[7, 31, number(48), 0, 0, 128 << 10, 1], &[0; 9][..]].concat(),
            OPEN_FOLDER => vec![1, 0, 0, 0],
            _ => continue,
        };
        let body: Vec<u8> = body.into_iter().flat_map(u32::to_ne_bytes).collect();
        let length = u32::try_from(16 + body.len()).unwrap().to_ne_bytes();
        let _ = fuse.write(&[&length, &[0; 4], &request[8..16], &body[..]].concat());
    }
}

#[test]
fn a_file_system_that_answers_nothing_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let Ok(fuse) = File::options().read(true).write(true).open("/dev/fuse") else {
        return println!("skipped: no FUSE");
    };
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", fuse.as_raw_fd());
    let data = CString::new(data).unwrap();
    if mount("fuse", folder.path(), "fuse", MountFlags::empty(), Some(data.as_c_str())).is_err() {
        return println!("skipped: only root can mount");
    }
    std::thread::spawn(move || answer(&fuse));
    let (said, is_said) = channel();
    let path = folder.path().to_owned();
    std::thread::spawn(move || {
        let file = rustix::fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let said_of = (demand_memory_file(&file), demand_memory(&file, 1), is_character_device(&file));
        let _ = said.send(said_of);
    });
    let said = is_said.recv_timeout(Duration::from_secs(20));
    // Whoever waits goes on.
    unmount(folder.path(), UnmountFlags::FORCE | UnmountFlags::DETACH).unwrap();
    assert_eq!(said.expect("it waited for the peer"), (Err(NotMemory::Other), Err(NotMemory::Other), false));
}

#[test]
fn character_devices_are_told_from_all_else() {
    assert!(is_character_device(File::open("/dev/null").unwrap()));
    assert!(!is_character_device(File::open("/proc/self/exe").unwrap()));
    assert!(!is_character_device(rustix::pipe::pipe().unwrap().0));
}
