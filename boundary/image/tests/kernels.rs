//! Parameter layouts of kernels in real cubins, against what the sources declare.

use floe_image::{EntryKind, Fatbin, ImageError, KernelParameters, Limits, Parameter, kernel_parameters};

const SUMS: &[u8] = include_bytes!("data/sums_size.fatbin");
const WIDE: &[u8] = include_bytes!("data/wide.fatbin");
const LINKED: &[u8] = include_bytes!("data/linked.fatbin");
const PART: &[u8] = include_bytes!("data/linked_part1.fatbin");
const FAMILY: &[u8] = include_bytes!("data/variants_f.fatbin");

fn cubins(container: &[u8]) -> Vec<Vec<u8>> {
    let fatbin = Fatbin::parse(container, &Limits::default()).expect("a good container");
    let cubins = fatbin.entries.iter().filter(|entry| entry.kind == EntryKind::Cubin);
    cubins.map(|entry| entry.data(&Limits::default()).expect("good data").into_owned()).collect()
}

fn kernel<'k>(kernels: &'k [KernelParameters], name: &str) -> &'k KernelParameters {
    kernels.iter().find(|kernel| kernel.name == name).expect("the kernel")
}

fn places(kernel: &KernelParameters) -> Vec<(u32, u32)> {
    kernel.parameters.iter().map(|&Parameter { offset, size }| (offset, size)).collect()
}

#[test]
fn layouts_are_those_of_the_source() {
    for cubin in [cubins(SUMS), cubins(FAMILY)].concat() {
        let kernels = kernel_parameters(&cubin).expect("a good cubin");
        assert_eq!(kernels.len(), 3);
        assert_eq!(places(kernel(&kernels, "sums")), [(0, 8), (8, 8), (16, 4)]);
        assert_eq!(places(kernel(&kernels, "mixed")), [(0, 1), (8, 16), (24, 8), (32, 8), (40, 1)]);
        assert_eq!(places(kernel(&kernels, "nothing")), []);
        let sizes = ["sums", "mixed", "nothing"].map(|name| kernel(&kernels, name).size);
        assert_eq!(sizes, [20, 41, 0]);
    }
}

#[test]
fn more_than_4_kib_of_parameters_are_read() {
    let cubins = cubins(WIDE);
    assert_eq!(cubins.len(), 2);
    for cubin in cubins {
        let kernels = kernel_parameters(&cubin).expect("a good cubin");
        let expected = [(0, 4), (4, 20000), (20004, 4), (20008, 5000), (25008, 2), (25016, 8)];
        assert_eq!(places(kernel(&kernels, "wide")), expected);
    }
}

#[test]
fn device_functions_are_no_kernels() {
    let linked = kernel_parameters(&cubins(LINKED)[0]).expect("a good cubin");
    assert_eq!(linked.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(), ["calls"]);
    assert_eq!(kernel_parameters(&cubins(PART)[0]).expect("a good cubin"), []);
}

#[test]
fn contradicting_items_are_an_error() {
    let cubin = cubins(SUMS).remove(0);
    // The first parameter item of a kernel: its ordinal, offset and size follow at 8, 10 and 12.
    let item = [4, 0x17, 12, 0, 0, 0, 0, 0];
    let at = cubin.windows(item.len()).position(|window| window == item).expect("an item");
    let message = |place: usize, value: u8| {
        let mut cubin = cubin.clone();
        cubin[at + place] = value;
        match kernel_parameters(&cubin) {
            Err(ImageError::KernelInfo { kernel, problem, .. }) => (kernel, problem),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(message(8, 9), ("mixed".to_owned(), "a parameter is missing between others"));
    assert_eq!(message(8, 0), ("mixed".to_owned(), "a parameter stands twice with different places"));
    assert_eq!(message(10, 44), ("mixed".to_owned(), "the parameters do not fill the size written for them"));
    assert_eq!(message(2, 255), ("mixed".to_owned(), "an item leaves the section"));
}

#[test]
fn other_files_are_refused() {
    for bytes in [&b""[..], b"\x7fELF", SUMS] {
        assert!(matches!(kernel_parameters(bytes), Err(ImageError::Elf { .. })));
    }
    let mut cubin = cubins(SUMS).remove(0);
    cubin.truncate(cubin.len() / 2);
    assert!(matches!(kernel_parameters(&cubin), Err(ImageError::Elf { .. })));
}
