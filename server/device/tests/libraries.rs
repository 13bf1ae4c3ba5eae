//! The loader against small libraries made for the purpose: each test writes a few exported functions, has the compiler
//! make a library of them, and opens it by its path. No GPU and no CPU device is needed.

use floe_abi::{CudaError, Device, DevicePtr, Stream};
use floe_device::{
    Content, Driver, LaunchRequest, LoadImage, LoadOption, confidential_settings, field_value, link_remote_kind,
    open_nvml,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

/// A library with these exports, given as Rust items.
fn library(name: &str, items: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join(format!("{name}.rs")), folder.join(format!("lib{name}.so")));
    std::fs::write(&source, format!("#![allow(non_snake_case, non_upper_case_globals)]\n{items}")).expect("writing");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let done = Command::new(compiler)
        .args(["--edition", "2024", "--crate-type", "cdylib", "-o"])
        .arg(&library)
        .arg(&source)
        .status()
        .expect("the compiler runs");
    assert!(done.success(), "the test's library {name} does not compile");
    library
}

const INIT: &str = "#[unsafe(no_mangle)] pub extern \"C\" fn cuInit(_flags: u32) -> u32 { 0 }\n";

#[test]
fn client_library_is_refused_by_its_marker() {
    let path = library("client", &format!("{INIT}#[unsafe(no_mangle)] pub static floe_client_marker: u8 = 1;"));
    let error = Driver::open(Some(&path)).expect_err("is the client's");
    assert!(error.to_string().contains("is floe's client library"), "{error}");
}

/// A management library that can be started and says its driver's version.
const NVML: &str = "#[unsafe(no_mangle)] pub extern \"C\" fn nvmlInit_v2() -> u32 { 0 }
    #[unsafe(no_mangle)] pub extern \"C\" fn nvmlShutdown() -> u32 { 0 }
    #[unsafe(no_mangle)] pub unsafe extern \"C\" fn nvmlSystemGetDriverVersion(text: *mut u8, _length: u32) -> u32 {
        unsafe { text.copy_from_nonoverlapping(b\"580.1\\0\".as_ptr(), 6) };
        0
    }\n";

#[test]
fn management_library_is_taken_unless_it_is_the_clients() {
    let path = library("management", NVML);
    let nvml = open_nvml(Some(&path)).expect("opens");
    assert_eq!(nvml.sys_driver_version().expect("it says so"), "580.1");
    let device = nvml.device_by_index(0);
    assert!(device.is_err(), "a function that is not there is an error");
    let path = library("own", &format!("{NVML}#[unsafe(no_mangle)] pub static floe_client_marker: u8 = 1;"));
    let error = open_nvml(Some(&path)).expect_err("is the client's");
    assert!(error.to_string().contains("is floe's client library"), "{error}");
}

/// A device with one link, number 3, of which it answers field 165 as a number and field 1 as a fraction.
const LINKED: &str =
    "#[repr(C)] pub struct Field { field: u32, scope: u32, times: [i64; 2], kind: u32, result: u32, value: u64 }
    #[unsafe(no_mangle)] pub unsafe extern \"C\" fn nvmlDeviceGetHandleByIndex_v2(_: u32, device: *mut usize) -> u32 {
        unsafe { *device = 42 };
        0
    }
    #[unsafe(no_mangle)]
    pub unsafe extern \"C\" fn nvmlDeviceGetFieldValues(device: usize, count: i32, values: *mut Field) -> u32 {
        let value = unsafe { &mut *values };
        if device != 42 || count != 1 { return 2; }
        let told = match (value.field, value.scope) {
            (165, 3) => Some((1, u64::MAX << 32 | 1)),
            (166, 3) => Some((3, 1 << 40)),
            (1, 3) => Some((0, 1.5f64.to_bits())),
            _ => None,
        };
        value.result = 3;
        if let Some((kind, number)) = told { (value.result, value.kind, value.value) = (0, kind, number); }
        0
    }
    #[unsafe(no_mangle)]
    pub unsafe extern \"C\" fn nvmlDeviceGetNvLinkRemoteDeviceType(_: usize, link: u32, kind: *mut u32) -> u32 {
        if link != 3 { return 3; }
        unsafe { *kind = 2 };
        0
    }
    #[unsafe(no_mangle)] pub unsafe extern \"C\" fn nvmlSystemGetConfComputeSettings(settings: *mut [u32; 5]) -> u32 {
        let settings = unsafe { &mut *settings };
        if settings[0] != 0x0100_0014 { return 25; }
        *settings = [settings[0], 1, 2, 3, 4];
        0
    }\n";

#[test]
fn management_library_answers_of_links_are_numbers_or_nothing() {
    let path = library("linked", &format!("{NVML}{LINKED}"));
    let nvml = open_nvml(Some(&path)).expect("opens");
    let device = nvml.device_by_index(0).expect("there is one");
    let fields = [(165, 3), (166, 3), (1, 3), (165, 0)].map(|(field, link)| field_value(&device, field, link));
    assert_eq!(fields, [Some(1), Some(1 << 40), None, None]);
    assert_eq!([3, 0].map(|link| link_remote_kind(&device, link)), [Some(2), None]);
    assert_eq!(confidential_settings(&nvml), Some([1, 2, 3, 4]));
}

#[test]
fn cpu_device_is_known_by_its_marker() {
    let marker = "#[unsafe(no_mangle)] pub static floe_cpu_device_marker: u8 = 1;";
    let path = library("cpu", &format!("{INIT}{marker}"));
    assert!(Driver::open(Some(&path)).expect("opens").is_cpu_device());
    let path = library("other", INIT);
    assert!(!Driver::open(Some(&path)).expect("opens").is_cpu_device());
}

#[test]
fn missing_function_is_not_supported_and_present_ones_answer() {
    let path = library(
        "answers",
        &format!(
            "{INIT}
            #[unsafe(no_mangle)] pub unsafe extern \"C\" fn cuDeviceGetName(name: *mut u8, _length: i32, device: i32) -> u32 {{
                if device != 0 {{ return 101; }}
                unsafe {{ name.copy_from_nonoverlapping(b\"test device\\0\".as_ptr(), 12) }};
                0
            }}
            #[unsafe(no_mangle)] pub unsafe extern \"C\" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {{
                unsafe {{ *free = 3; *total = 7 }};
                0
            }}"
        ),
    );
    let driver = Driver::open(Some(&path)).expect("opens");
    assert_eq!(driver.device_get_name(Device(0)).as_deref(), Ok("test device"));
    assert_eq!(driver.device_get_name(Device(1)), Err(CudaError::INVALID_DEVICE));
    assert_eq!(driver.mem_get_info(), Ok((3, 7)));
    assert_eq!(driver.mem_free(DevicePtr(16)), Err(CudaError::NOT_SUPPORTED));
}

#[test]
fn copies_pass_slices_with_their_lengths() {
    let path = library(
        "copies",
        &format!(
            "{INIT}
            #[unsafe(no_mangle)] pub unsafe extern \"C\" fn cuMemcpyDtoH_v2(to: *mut u8, from: u64, bytes: usize) -> u32 {{
                for index in 0..bytes {{ unsafe {{ to.add(index).write(from as u8 + index as u8) }} }}
                0
            }}"
        ),
    );
    let driver = Driver::open(Some(&path)).expect("opens");
    let mut bytes = [0; 4];
    driver.memcpy_dtoh(&mut bytes, DevicePtr(5)).expect("copies");
    assert_eq!(bytes, [5, 6, 7, 8]);
}

#[test]
fn failed_load_brings_the_compilers_text() {
    let path = library(
        "loads",
        &format!(
            "{INIT}
            #[unsafe(no_mangle)] pub unsafe extern \"C\" fn cuModuleLoadDataEx(
                _module: *mut u64, image: *const u8, count: u32, keys: *const u32, values: *mut *mut u8) -> u32 {{
                let text = unsafe {{ std::ffi::CStr::from_ptr(image.cast()) }}.to_bytes();
                for index in 0..count as usize {{
                    // 5 is the error log's buffer.
                    if unsafe {{ *keys.add(index) }} == 5 {{
                        unsafe {{ (*values.add(index)).copy_from_nonoverlapping(text.as_ptr(), text.len()) }}
                    }}
                }}
                218
            }}"
        ),
    );
    let driver = Driver::open(Some(&path)).expect("opens");
    let log = driver.module_load_data(
        &LoadImage::single(Content::from(&b".version 9.0"[..])),
        &[LoadOption { option: 0, value: 32 }],
    );
    assert_eq!((log.result, log.error.as_str()), (Err(CudaError::INVALID_PTX), ".version 9.0"));
}

#[test]
fn launch_passes_one_block_of_parameters_and_host_work_runs_once() {
    let path = library(
        "launches",
        &format!(
            "{INIT}
            #[unsafe(no_mangle)] pub unsafe extern \"C\" fn cuLaunchKernel(_function: u64, x: u32, _: u32, _: u32, _: u32,
                _: u32, _: u32, _: u32, _stream: u64, pointers: *const u8, extra: *const *const u8) -> u32 {{
                if !pointers.is_null() {{ return 1; }}
                if extra.is_null() {{ return if x == 9 {{ 0 }} else {{ 2 }}; }}
                let (block, size) = unsafe {{ (*extra.add(1), *(*extra.add(3)).cast::<usize>()) }};
                if size == 2 && unsafe {{ *block.add(1) }} == 8 {{ 0 }} else {{ 3 }}
            }}
            #[unsafe(no_mangle)] pub unsafe extern \"C\" fn cuLaunchHostFunc(
                stream: u64, function: unsafe extern \"C\" fn(*mut u8), user: *mut u8) -> u32 {{
                if stream != 1 {{ return 400; }}
                unsafe {{ function(user) }};
                0
            }}"
        ),
    );
    let driver = Driver::open(Some(&path)).expect("opens");
    let request = LaunchRequest {
        function: floe_abi::Function(1),
        grid: [1, 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
        stream: Stream::LEGACY,
        attributes: &[],
        parameters: &[7, 8],
    };
    assert_eq!(driver.launch_kernel(&request), Ok(()));
    assert_eq!(driver.launch_kernel(&LaunchRequest { grid: [9, 1, 1], parameters: &[], ..request }), Ok(()));
    let (sender, receiver) = mpsc::channel();
    let again = sender.clone();
    driver.launch_host_func(Stream::LEGACY, Box::new(move || sender.send(1).expect("received"))).expect("runs");
    let refused = driver.launch_host_func(Stream(77), Box::new(move || again.send(2).expect("received")));
    assert_eq!(refused, Err(CudaError::INVALID_HANDLE));
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [1]);
}
