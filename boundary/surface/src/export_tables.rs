//! The hidden tables that NVIDIA's own libraries ask for by a 16-byte name. They are arrays of words: the first is the
//! size in bytes (but for one table), the others are functions. A name comes in; an address that never changes goes
//! out, or nothing where callers accept a refusal. Every slot is filled, since callers never test one for NULL. An
//! unknown slot logs its table and number once and answers NOT_SUPPORTED.
//!
//! Names, sizes and meanings are those observed from outside with the CUDA libraries of releases 12.1 to 13.5.

pub(crate) mod context_storage;
mod integrity;
mod slots;

use crate::Driver;
use crate::expansion::say_once;
use floe_abi::{CuResult, CudaError, Uuid};
use std::ffi::c_void;

/// One word of a table: its size, a function, or NULL.
#[derive(Clone, Copy)]
struct Word(*const ());

// SAFETY: words are sizes and addresses of functions, which never change.
unsafe impl Sync for Word {}

/// Words per table in memory; the size word may claim fewer. More than the largest size seen (792 bytes) needs.
const WORDS: usize = 128;

/// One hidden table.
struct Table {
    id: [u8; 16],
    words: &'static [Word; WORDS],
}

/// The tables floe gives.
static TABLES: [Table; 9] = [
    Table { id: id(0x6bd5fb6c_5bf4e74a_8987d939_12fd9df9), words: &RUNTIME },
    Table { id: id(0x42d85a81_23f6cb47_8298f6e7_8a3aecdc), words: &CURRENT_CONTEXT },
    Table { id: id(0xa094798c_2e742e74_93f20800_200c0a66), words: &CALLBACK_HOOKS },
    Table { id: id(0xc693336e_1121df11_a8c368f3_55d89593), words: &CONTEXT_STORAGE },
    Table { id: id(0xd4082055_bde6704b_8d34ba12_3c66e1f2), words: &INTEGRITY },
    Table { id: id(0x263e8860_7cd26143_92f6bbd5_006dfa7e), words: &CONTEXT_CHECKS },
    Table { id: id(0x21318c60_97143248_8ca641ff_7324c8f2), words: &IDENTITIES },
    Table { id: id(0x1734dc26_800d4745_8726c0f1_e7dd8bca), words: &BLAS_HINTS },
    Table { id: id(0x6e163fbe_b958444d_835ce182_aff1991e), words: &MODULE_FUNCTIONS },
];

/// Tables whose refusal every caller seen accepts, so it needs no message. They are for logging (cudart), extended
/// device attributes, profiling (CUPTI) and the compile cache (NVRTC, which breaks if it gets stubs).
const REFUSED: [[u8; 16]; 7] = [
    id(0xf8cff951_21468b4e_b9e2fb46_9e7c0dd9),
    id(0x69a28e9f_24498b47_b030c5da_330ea4e9),
    id(0xda9151d3_3ae6cc41_a5c04f26_d533e328),
    id(0xb10541e1_f7c7c74a_9f64f223_be99f1e2),
    id(0x2c8e0ad8_0710ab4e_90dd5471_9fe5f74b),
    id(0x7cb63f9b_9ca48e42_a484beb6_6e6aed7f),
    id(0xd7bd8af8_e7acca4a_bdbcfb1f_1b3fcf33),
];

const fn id(number: u128) -> [u8; 16] {
    number.to_be_bytes()
}

/// The address of a table, or `None` where it is refused.
pub(crate) fn find(driver: &'static dyn Driver, id: &Uuid) -> Option<*const c_void> {
    slots::begin(|| slots::Library {
        driver,
        runtime_table: RUNTIME.as_ptr() as u64,
        check_table: INTEGRITY.as_ptr() as u64,
        check: INTEGRITY[1].0 as u64,
    });
    if let Some(table) = TABLES.iter().find(|table| table.id == id.bytes) {
        return Some(table.words.as_ptr().cast());
    }
    if !REFUSED.contains(&id.bytes) {
        let name: String = id.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        say_once(&format!("table {name}"), || {
            format!("the hidden table {name} is unknown and refused\n  if the program fails now, please report this")
        });
    }
    None
}

/// An unknown slot. There are more than a thousand, so each only passes its number on.
extern "C" fn unknown<const TABLE: usize, const SLOT: usize>() -> CuResult {
    refuse_slot(TABLE, SLOT)
}

/// Answers a call of an unknown slot.
#[cold]
#[inline(never)]
fn refuse_slot(table: usize, slot: usize) -> CuResult {
    let name: String = TABLES[table].id.iter().map(|byte| format!("{byte:02x}")).collect();
    say_once(&format!("slot {name} {slot}"), || {
        format!(
            "slot {slot} of the hidden table {name} is unknown: the caller gets CUDA_ERROR_NOT_SUPPORTED\n  \
             if the program fails now, please report this"
        )
    });
    CudaError::NOT_SUPPORTED.into()
}

/// Unknown slots for a whole table.
macro_rules! all_unknown {
    ($table:literal) => {
        all_unknown!($table;
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38
            39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74
            75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107
            108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127)
    };
    ($table:literal; $($slot:literal)*) => {
        [$(Word(unknown::<$table, $slot> as extern "C" fn() -> CuResult as *const ())),*]
    };
}

/// A table: unknown slots, the known ones over them, the size (if it has one) in front.
const fn table(mut words: [Word; WORDS], bytes: Option<usize>, known: &[(usize, *const ())]) -> [Word; WORDS] {
    if let Some(bytes) = bytes {
        words[0] = Word(std::ptr::without_provenance(bytes));
    }
    let mut at = 0;
    while at < known.len() {
        words[known[at].0] = Word(known[at].1);
        at += 1;
    }
    words
}

/// The CUDA runtime's interface.
static RUNTIME: [Word; WORDS] = table(
    all_unknown!(0),
    Some(104),
    &[
        (1, slots::load_wrapper as *const ()),
        (2, slots::primary_context as *const ()),
        (6, slots::load_wrapper_with_options as *const ()),
        (7, slots::nothing as *const ()),
        (8, slots::load_container as *const ()),
        (12, slots::load_compilers as *const ()),
    ],
);
/// The calling thread's context, for tools.
static CURRENT_CONTEXT: [Word; WORDS] = table(all_unknown!(1), Some(24), &[(2, slots::current_context as *const ())]);
/// Buffers that say which callbacks tools have enabled: none.
static CALLBACK_HOOKS: [Word; WORDS] = table(
    all_unknown!(2),
    Some(56),
    &[(2, slots::runtime_callbacks as *const ()), (6, slots::other_callbacks as *const ())],
);
/// Context-local storage; it has no size word and ends with NULL.
static CONTEXT_STORAGE: [Word; WORDS] = table(
    all_unknown!(3),
    None,
    &[
        (0, slots::storage_put as *const ()),
        (1, slots::storage_delete as *const ()),
        (2, slots::storage_get as *const ()),
        (3, std::ptr::null()),
    ],
);
/// The integrity check.
static INTEGRITY: [Word; WORDS] = table(all_unknown!(4), Some(24), &[(1, slots::check_integrity as *const ())]);
/// Questions about a context's kind.
static CONTEXT_CHECKS: [Word; WORDS] = table(
    all_unknown!(5),
    Some(120),
    &[(1, slots::not_supported as *const ()), (2, slots::context_flag as *const ()), (3, slots::zero as *const ())],
);
/// Numbers of contexts and streams.
static IDENTITIES: [Word; WORDS] = table(
    all_unknown!(6),
    Some(744),
    &[
        (4, slots::context_number as *const ()),
        (39, slots::stream_number as *const ()),
        (51, slots::stream_object as *const ()),
    ],
);
/// Asked by cuBLASLt before its first product; any answer will do, but the table must be there.
static BLAS_HINTS: [Word; WORDS] = table(all_unknown!(7), Some(136), &[(4, slots::zero as *const ())]);
/// Visits a module's functions, for cuFFT.
static MODULE_FUNCTIONS: [Word; WORDS] = table(all_unknown!(8), Some(792), &[(7, slots::visit_functions as *const ())]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_memory_order() {
        assert_eq!(TABLES[0].id[..6], [0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4]);
    }

    #[test]
    fn every_slot_is_filled_and_the_size_stands_in_front() {
        for (index, table) in TABLES.iter().enumerate() {
            let null: Vec<usize> = (0..WORDS).filter(|slot| table.words[*slot].0.is_null()).collect();
            // Context-local storage ends with NULL where other tables continue.
            assert_eq!(null, if index == 3 { vec![3] } else { vec![] }, "table {index}");
        }
        assert_eq!(RUNTIME[0].0.addr(), 104);
        assert_eq!(IDENTITIES[0].0.addr(), 744);
    }

    #[test]
    fn unknown_slot_answers_not_supported() {
        assert_eq!(unknown::<0, 9>().0, 801);
    }
}
