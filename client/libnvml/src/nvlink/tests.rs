use floe_nvml::{Base, DeviceCalls, FieldValue, NvmlReturn, SensorCalls};
use floe_wire::{GpuTelemetry, LinkTelemetry, ReadTelemetryReply, Reading as Told};

use super::*;
use crate::vgpus::tests::{handle, library};

const UNKNOWN: NvmlResult<u32> = Err(NvmlError::UNKNOWN);
const NOT_SUPPORTED: NvmlResult<u32> = Err(NvmlError::NOT_SUPPORTED);
const INVALID_ARGUMENT: NvmlResult<u32> = Err(NvmlError::INVALID_ARGUMENT);

fn told(readings: &[(Reading, u64)]) -> Vec<Told> {
    readings.iter().map(|(reading, value)| Told { number: reading.number(), value: *value }).collect()
}

fn link<'a>(link: u32, remote: &'a str, readings: &[(Reading, u64)]) -> LinkTelemetry<'a> {
    LinkTelemetry { link, remote, readings: told(readings) }
}

/// A GPU with these links and readings.
fn vgpu(readings: &[(Reading, u64)], links: Vec<LinkTelemetry<'_>>) -> (Vgpus, Device) {
    let gpu = GpuTelemetry { pci_bus: "0000:1b:00.0", readings: told(readings), links, ..GpuTelemetry::default() };
    let peer = GpuTelemetry { index: 1, pci_bus: "0000:43:00.0", ..GpuTelemetry::default() };
    let library = library(&[ReadTelemetryReply { gpus: vec![gpu, peer], ..ReadTelemetryReply::default() }]);
    let device = handle(&library, 0);
    (library, device)
}

fn fields(library: &Vgpus, device: Device, asked: &[(u32, u32)]) -> Vec<(NvmlReturn, u64)> {
    let value = |(field, scope): &(u32, u32)| FieldValue {
        field: *field,
        scope: *scope,
        time: 0,
        latency: 0,
        kind: 99,
        result: 99,
        value: 0,
    };
    let mut values: Vec<FieldValue> = asked.iter().map(value).collect();
    library.device_get_field_values(device, &mut values).expect("the device is one");
    values.iter().map(|value| (value.result, value.value)).collect()
}

#[test]
fn a_link_is_what_its_server_says() {
    let readings = [
        (Reading::NvlinkActive, 1),
        (Reading::NvlinkVersion, 6),
        (Reading::NvlinkSpeed, 26_562),
        (Reading::NvlinkMemory, 1),
        (Reading::NvlinkBridge, 0),
        (Reading::NvlinkRemoteKind, 2),
        (Reading::NvlinkRemoteLink, 33),
        (Reading::NvlinkRemoteDevice, 0x22a3_10de),
    ];
    let (library, device) = vgpu(&[(Reading::Nvlinks, 18)], vec![link(3, "00000000:05:00.0", &readings)]);
    assert_eq!(library.device_get_nv_link_state(device, 3), Ok(1));
    assert_eq!(library.device_get_nv_link_version(device, 3), Ok(6));
    assert_eq!([0, 4, 1].map(|n| library.device_get_nv_link_capability(device, 3, n)), [Ok(1), Ok(0), NOT_SUPPORTED]);
    assert_eq!(library.device_get_nv_link_remote_device_type(device, 3), Ok(2));
    let asked = [(165, 3), (164, 3), (166, 3), (146, 3), (87, 0), (91, 0)];
    assert_eq!(fields(&library, device, &asked), [(0, 1), (0, 26_562), (0, 6), (0, 33), (0, 26_562), (0, 18)]);
    // As NVML 580: a field of a link that no GPU has is not supported, and the link itself no argument.
    assert_eq!(fields(&library, device, &[(165, 18), (165, 17)]), [(3, 0), (3, 0)]);
    let pci = library.device_get_nv_link_remote_pci_info_v2(device, 3).expect("a switch");
    assert_eq!((pci.short_bus_id, pci.bus, pci.device_id), (*b"0000:05:00.0\0\0\0\0", 5, 0x22a3_10de));
}

#[test]
fn a_link_to_a_vgpu_ends_at_the_bus_id_that_the_vgpu_has() {
    let remote = [(Reading::NvlinkRemoteDevice, 0x2330_10de), (Reading::NvlinkRemoteKind, 0)];
    let (library, device) = vgpu(&[], vec![link(0, "0:43:0", &remote)]);
    let peer = handle(&library, 1);
    let (end, own) = (
        library.device_get_nv_link_remote_pci_info_v2(device, 0).expect("it ends there"),
        library.device_get_pci_info_v3(peer).expect("it has one"),
    );
    assert_eq!((end.bus_id, end.short_bus_id), (own.bus_id, own.short_bus_id));
    let first = library.device_get_nv_link_remote_pci_info(device, 0).expect("it ends there");
    assert_eq!(first.short_bus_id, own.short_bus_id);
    assert_eq!(library.device_get_handle_by_pci_bus_id_v2("00000000:43:00.0"), Ok(peer));
}

#[test]
fn an_end_that_the_server_does_not_see_has_no_bus_id() {
    let (library, device) = vgpu(&[], vec![link(0, "", &[(Reading::NvlinkRemoteDevice, 0)])]);
    let pci = library.device_get_nv_link_remote_pci_info_v2(device, 0).expect("it ends somewhere");
    assert_eq!((pci.bus_id, pci.short_bus_id), ([0; 32], [0; 16]));
    let (library, device) = vgpu(&[], vec![link(0, "", &[(Reading::NvlinkActive, 1)])]);
    let pci = library.device_get_nv_link_remote_pci_info_v2(device, 0);
    assert_eq!(pci.map(|pci| pci.bus), NOT_SUPPORTED, "the server did not say that it is hidden");
}

#[test]
fn a_switch_that_a_virtual_machine_does_not_see_is_told_as_there() {
    let readings = [(Reading::NvlinkRemoteDevice, 0xffff_ffff), (Reading::NvlinkRemoteKind, 2)];
    let (library, device) = vgpu(&[], vec![link(0, "FFFFFFFF:FF:FF.0", &readings)]);
    let pci = library.device_get_nv_link_remote_pci_info_v2(device, 0).expect("NCCL skips a link without");
    assert_eq!((pci.domain, pci.bus, pci.device, pci.device_id), (u32::MAX, 0xff, 0xff, u32::MAX));
    assert_eq!(
        (pci.bus_id, pci.short_bus_id),
        (*b"FFFFFFFF:FF:FF.0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", *b"FFFFFFF:FF:FF.0\0")
    );
}

#[test]
fn a_device_without_links_answers_as_nvidias_library() {
    let (library, device) = vgpu(&[], Vec::new());
    assert_eq!([0, 17].map(|number| library.device_get_nv_link_state(device, number)), [NOT_SUPPORTED; 2]);
    assert_eq!(library.device_get_nv_link_capability(device, 18, 0), INVALID_ARGUMENT);
    assert_eq!(library.device_get_nv_link_capability(device, 0, 6), INVALID_ARGUMENT);
    let not_supported = NvmlError::NOT_SUPPORTED.code();
    let results =
        fields(&library, device, &[(165, 0), (91, 0), (170, 0), (84, 0)]).into_iter().map(|(result, _)| result);
    assert!(results.eq([not_supported; 4]));
    assert_eq!(library.device_get_nv_link_state(Device(7), 0), INVALID_ARGUMENT);
    assert!(library.check(device).is_ok());
}

#[test]
fn counts_that_no_device_has_are_not_passed_on() {
    for count in [65, u64::from(u32::MAX), 1 << 32, u64::MAX] {
        let all = [Reading::Nvlinks, Reading::NvlinksToSwitches, Reading::C2cLinks].map(|reading| (reading, count));
        let (library, device) = vgpu(&all, Vec::new());
        let told = fields(&library, device, &[(91, 0), (147, 0), (170, 0)]);
        assert_eq!(told, [(NvmlError::UNKNOWN.code(), 0); 3], "{count}");
    }
}

#[test]
fn numbers_that_c_cannot_hold_are_not_cut_off() {
    let readings = [
        (Reading::NvlinkActive, (1 << 32) + 1),
        (Reading::NvlinkVersion, 1 << 32),
        (Reading::NvlinkSpeed, u64::MAX),
        (Reading::NvlinkMemory, 2),
        (Reading::NvlinkRemoteKind, 77),
        (Reading::NvlinkRemoteDevice, 1 << 40),
    ];
    let (library, device) = vgpu(&[(Reading::NvlinkCommonSpeed, 1 << 32)], vec![link(0, "0:1:0", &readings)]);
    assert_eq!(library.device_get_nv_link_state(device, 0), UNKNOWN);
    assert_eq!(library.device_get_nv_link_version(device, 0), UNKNOWN);
    assert_eq!(library.device_get_nv_link_capability(device, 0, 0), UNKNOWN);
    assert_eq!(library.device_get_nv_link_remote_device_type(device, 0), Ok(UNKNOWN_KIND));
    assert_eq!(library.device_get_nv_link_remote_pci_info(device, 0).map(|pci| pci.bus), UNKNOWN);
    assert_eq!(fields(&library, device, &[(165, 0), (164, 0), (90, 0)]), [(NvmlError::UNKNOWN.code(), 0); 3]);
}

#[test]
fn texts_that_are_no_bus_ids_are_not_passed_on() {
    let long = "0".repeat(70_000);
    for text in ["nonsense", "0000:1b:00.0.0", "100:00.0", "0000:00:20.0", "::", "0000:1b:00.0\0", "+1:é:0", &long] {
        let (library, device) = vgpu(&[], vec![link(0, text, &[(Reading::NvlinkRemoteDevice, 0)])]);
        let pci = library.device_get_nv_link_remote_pci_info_v2(device, 0);
        assert_eq!(pci.map(|pci| pci.bus), UNKNOWN, "{text:.40}");
    }
}

#[test]
fn links_out_of_range_are_forgotten_and_a_link_told_twice_is_one() {
    let active = [(Reading::NvlinkActive, 1)];
    let links = vec![link(u32::MAX, "", &active), link(64, "", &active), link(63, "", &active), link(63, "", &[])];
    let (library, device) = vgpu(&[], links);
    let state = |number| library.device_get_nv_link_state(device, number);
    assert_eq!([u32::MAX, 64, 63].map(state), [INVALID_ARGUMENT, INVALID_ARGUMENT, NOT_SUPPORTED]);
    assert_eq!(fields(&library, device, &[(165, u32::MAX)])[0].0, NvmlError::NOT_SUPPORTED.code());
}
