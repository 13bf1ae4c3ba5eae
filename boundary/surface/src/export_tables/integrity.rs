//! The value cudart compares before it trusts a driver: process, tables, time and devices in, sixteen bytes out. It is
//! computed over what this very process sees, so it never travels.
//!
//! Provenance: the algorithm and its constants come from a public reimplementation of the CUDA driver, and from
//! observing cudart 12 and 13 from outside. No NVIDIA code was read or taken apart. The parts are public standards:
//! HMAC is RFC 2104, MD2 is RFC 1319. It is kept in a file of its own so that it can be judged by itself.

use hmac::{Mac, SimpleHmac};
use md2::Md2;

/// The key of the HMAC, as long as MD2's block.
const KEY: [u8; 16] = [0x14, 0x6A, 0xDD, 0xAE, 0x53, 0xA9, 0xA7, 0x52, 0xAA, 0x08, 0x41, 0x36, 0x0B, 0xF5, 0x5A, 0x9F];
/// First half of the answer for versions that end in 0.
const WORD_FOR_0: u64 = 0x3341_181C_03CB_675C;
/// First half of the answer for versions that end in 1.
const WORD_FOR_1: u64 = 0x1841_181C_03CB_675C;
/// Second half of both.
const SECOND_WORD: u64 = 0x8ED3_83AA_1F4C_D1E8;

/// A device's part of the value, as the process sees the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceIdentity {
    pub(crate) uuid: [u8; 16],
    pub(crate) pci_domain: i32,
    pub(crate) pci_bus: i32,
    pub(crate) pci_device: i32,
}

/// The process's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// As `cuDriverGetVersion` reports it.
    pub(crate) driver_version: u32,
    pub(crate) process: u32,
    /// The low half of `pthread_self()`.
    pub(crate) thread: u32,
    /// Address of the runtime's interface table as handed out.
    pub(crate) runtime_table: u64,
    /// Address of this check's table as handed out.
    pub(crate) check_table: u64,
    /// Address of the check itself.
    pub(crate) check: u64,
}

/// The sixteen bytes for a version of the caller and a time in seconds.
pub(crate) fn answer(version: u32, seconds: u64, process: &Process, devices: &[DeviceIdentity]) -> [u8; 16] {
    match version % 10 {
        0 => constant(WORD_FOR_0),
        1 => constant(WORD_FOR_1),
        _ => keyed_hash(&message(version, seconds, process, devices)),
    }
}

fn constant(first: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&SECOND_WORD.to_le_bytes());
    bytes
}

fn message(version: u32, seconds: u64, process: &Process, devices: &[DeviceIdentity]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(48 + 28 * devices.len());
    for word in [process.driver_version, version, process.process, process.thread] {
        bytes.extend(word.to_le_bytes());
    }
    for word in [process.runtime_table, process.check_table, process.check, seconds] {
        bytes.extend(word.to_le_bytes());
    }
    for device in devices {
        bytes.extend(device.uuid);
        for number in [device.pci_domain, device.pci_bus, device.pci_device] {
            bytes.extend(number.to_le_bytes());
        }
    }
    bytes
}

fn keyed_hash(message: &[u8]) -> [u8; 16] {
    let mut mac = <SimpleHmac<Md2> as Mac>::new_from_slice(&KEY).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use md2::Digest;

    const PROCESS: Process = Process {
        driver_version: 13000,
        process: 0x0102,
        thread: 0x0304_0506,
        runtime_table: 0x1111_2222_3333_4444,
        check_table: 0x5555_6666_7777_8888,
        check: 0x9999_AAAA_BBBB_CCCC,
    };
    const DEVICE: DeviceIdentity = DeviceIdentity { uuid: [7; 16], pci_domain: 0, pci_bus: 0x1b, pci_device: 2 };

    #[test]
    fn versions_ending_in_0_and_1_have_constant_answers() {
        let zero = answer(13050, 1, &PROCESS, &[]);
        assert_eq!(zero[..8], [0x5C, 0x67, 0xCB, 0x03, 0x1C, 0x18, 0x41, 0x33]);
        assert_eq!(zero[8..], [0xE8, 0xD1, 0x4C, 0x1F, 0xAA, 0x83, 0xD3, 0x8E]);
        assert_eq!(answer(13051, 2, &PROCESS, &[DEVICE])[..8], [0x5C, 0x67, 0xCB, 0x03, 0x1C, 0x18, 0x41, 0x18]);
    }

    #[test]
    fn message_has_48_bytes_and_28_per_device_in_order() {
        let bytes = message(13002, 0x0000_0000_6612_0001, &PROCESS, &[DEVICE, DEVICE]);
        assert_eq!(bytes.len(), 48 + 2 * 28);
        assert_eq!(bytes[..8], [0xC8, 0x32, 0, 0, 0xCA, 0x32, 0, 0]);
        assert_eq!(bytes[16..24], 0x1111_2222_3333_4444_u64.to_le_bytes());
        assert_eq!(bytes[40..48], [1, 0, 0x12, 0x66, 0, 0, 0, 0]);
        assert_eq!(bytes[48..64], [7; 16]);
        assert_eq!(bytes[68..72], [0x1b, 0, 0, 0]);
    }

    #[test]
    fn hash_is_hmac_over_md2_as_the_standards_build_it() {
        // RFC 2104 by hand: H(key ^ opad, H(key ^ ipad, text)), block and digest both 16 bytes.
        let text = b"any text";
        let pad = |byte: u8| KEY.map(|key| key ^ byte);
        let inner = Md2::new().chain_update(pad(0x36)).chain_update(text).finalize();
        let outer = Md2::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
        assert_eq!(keyed_hash(text)[..], outer[..]);
    }

    #[test]
    fn md2_gives_the_standards_vector() {
        // RFC 1319, appendix A.5.
        assert_eq!(Md2::digest(b"abc")[..4], [0xda, 0x85, 0x3b, 0x0d]);
    }

    #[test]
    fn every_part_changes_the_answer() {
        let base = answer(13002, 9, &PROCESS, &[DEVICE]);
        assert_ne!(base, answer(13002, 10, &PROCESS, &[DEVICE]));
        assert_ne!(base, answer(13002, 9, &Process { thread: 1, ..PROCESS }, &[DEVICE]));
        assert_ne!(base, answer(13002, 9, &PROCESS, &[DeviceIdentity { pci_bus: 3, ..DEVICE }]));
    }
}
