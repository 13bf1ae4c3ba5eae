//! Whether images may print: compiled ones of every compression, and what cannot be looked into.

use floe_image::{Fatbin, Limits, may_print};

const PRINTS: [&[u8]; 2] = [include_bytes!("data/prints_size.fatbin"), include_bytes!("data/prints_speed.fatbin")];
const SILENT: [&[u8]; 4] = [
    include_bytes!("data/asserts_size.fatbin"),
    include_bytes!("data/sums_size.fatbin"),
    include_bytes!("data/sums_speed.fatbin"),
    include_bytes!("data/sums_none.fatbin"),
];

fn prints(image: &[u8]) -> bool {
    may_print(image, &Limits::default())
}

#[test]
fn printf_is_found_however_it_is_compressed_and_an_assert_is_none() {
    assert_eq!(PRINTS.map(prints), [true; 2]);
    assert_eq!(SILENT.map(prints), [false; 4]);
}

#[test]
fn cubin_and_text_alone_are_looked_into() {
    let data = |container| -> Vec<Vec<u8>> {
        let entries = Fatbin::parse(container, &Limits::default()).expect("a good container").entries;
        entries.iter().map(|entry| entry.data(&Limits::default()).expect("a good entry").into_owned()).collect()
    };
    assert!(data(PRINTS[0]).iter().all(|code| prints(code)));
    assert!(!data(SILENT[0]).iter().any(|code| prints(code)));
}

#[test]
fn images_that_cannot_be_read_may_print() {
    let silent = SILENT[1];
    assert!(prints(&silent[..silent.len() - 1]), "it is cut off");
    let small = Limits { entry_bytes: 100, ..Limits::default() };
    assert!(may_print(silent, &small), "an entry is larger than is looked at");
    let mut other = silent.to_vec();
    // The kind of the first entry, behind the container's header.
    other[16] = 8;
    assert!(prints(&other), "an entry of a kind nobody knows");
}
