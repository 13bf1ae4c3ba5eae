use super::{GRANULE, Memory, Store};
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
