//! Maps and rows against plain element-by-element models, for tensors and boxes of any kind.

use proptest::prelude::*;

use super::*;

fn map() -> TensorMap {
    TensorMap {
        address: 0x1000,
        element: TensorElement::F32,
        axes: 3,
        sizes: [10, 6, 3, 0, 0],
        strides: [48, 480, 0, 0],
        spans: [8, 4, 2, 0, 0],
        steps: [1, 1, 1, 0, 0],
        swizzle: 0,
        fills_nan: false,
    }
}

/// Maps that are possible.
fn maps() -> impl Strategy<Value = TensorMap> {
    let element = proptest::sample::select(TensorElement::NUMBERS.to_vec()).prop_map(|(_, element)| element);
    let sizes = prop_oneof![1..40_u64, 1..=SIZE_LIMIT];
    let strides = prop_oneof![0..100_u64, 0..STRIDE_LIMIT / 16];
    (
        (0..ADDRESS_LIMIT / 16, element, 1..=TENSOR_AXES, any::<bool>()),
        proptest::array::uniform5(sizes),
        proptest::array::uniform4(strides),
        proptest::array::uniform5(1..=24_u32),
        proptest::array::uniform5(1..=STEP_LIMIT),
        proptest::sample::select(vec![0, 32, 64, 128]),
    )
        .prop_map(|((address, element, axes, fills_nan), sizes, strides, spans, steps, swizzle)| {
            let mut map = TensorMap {
                address: 16 * address,
                element,
                axes,
                sizes,
                strides: strides.map(|stride| 16 * stride),
                spans,
                steps,
                swizzle,
                fills_nan: fills_nan && element.is_float(),
            };
            map.spans[0] = 16 / element.bytes();
            (axes..TENSOR_AXES).for_each(|axis| (map.sizes[axis], map.spans[axis], map.steps[axis]) = (0, 0, 0));
            (axes..TENSOR_AXES).for_each(|axis| map.strides[axis - 1] = 0);
            map
        })
        .prop_filter("too large a box", |map| map.check().is_some())
}

/// The addresses of a box's elements, in order, `None` outside of the tensor; sums are those of whole numbers.
fn elements(map: &TensorMap, coordinates: [i32; TENSOR_AXES]) -> Vec<Option<u128>> {
    let mut all = Vec::new();
    for row in 0..map.row_count() {
        let (mut rest, mut address, mut inside) = (row, u128::from(map.address), true);
        for (axis, coordinate) in coordinates.iter().enumerate().take(map.axes).skip(1) {
            let count = u64::from(map.spans[axis].div_ceil(map.steps[axis]));
            let at = i128::from(*coordinate) + i128::from(rest % count) * i128::from(map.steps[axis]);
            rest /= count;
            inside &= (0..i128::from(map.sizes[axis])).contains(&at);
            address += u128::try_from(at).unwrap_or(0) * u128::from(map.strides[axis - 1]);
        }
        for index in 0..map.spans[0] {
            let at = i128::from(coordinates[0]) + i128::from(index);
            let inside = inside && (0..i128::from(map.sizes[0])).contains(&at);
            let element = address + u128::try_from(at).unwrap_or(0) * u128::from(map.element.bytes());
            all.push(inside.then_some(element));
        }
    }
    all
}

proptest! {
    #[test]
    fn a_map_comes_back_from_its_bytes(map in maps()) {
        prop_assert_eq!(TensorMap::from_bytes(&map.to_bytes()), Some(map));
    }

    #[test]
    fn any_bytes_are_a_possible_map_or_none(
        map in maps(),
        changes in proptest::collection::vec((0..MAP_BYTES, any::<u8>()), 0..6),
    ) {
        let mut bytes = map.to_bytes();
        changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        if let Some(read) = TensorMap::from_bytes(&bytes) {
            prop_assert!(read.check().is_some());
            prop_assert_eq!(read.to_bytes(), bytes);
            let laid = read.row_count() * u64::from(read.pitch());
            prop_assert!(laid <= 8 * BOX_BYTES, "work without a limit: {laid}");
        }
    }

    #[test]
    fn rows_hold_the_elements_that_the_tensor_has(
        map in maps(),
        near in proptest::array::uniform5(-30..40_i32),
        far in proptest::array::uniform5(any::<i32>()),
        is_far in any::<bool>(),
    ) {
        let coordinates = if is_far { far } else { near };
        let wanted = elements(&map, coordinates);
        let bytes = map.element.bytes();
        let mut given = Vec::new();
        for row in map.rows(coordinates) {
            for index in 0..map.spans[0] {
                let inside = (row.first..row.end).contains(&(index * bytes));
                let address = row.address.map(|address| u128::from(address) + u128::from(index * bytes - row.first.min(index * bytes)));
                given.push(inside.then_some(address));
            }
        }
        prop_assert_eq!(given.len(), wanted.len());
        for (given, wanted) in given.into_iter().zip(wanted) {
            prop_assert_eq!(given.is_some(), wanted.is_some());
            // An address that has not 64 bits is none.
            if let (Some(given), Some(wanted)) = (given, wanted) {
                prop_assert_eq!(given, Some(wanted).filter(|_| given.is_some()));
                prop_assert!(given.is_some() || wanted + 4096 > u128::from(u64::MAX));
            }
        }
    }

    #[test]
    fn swizzled_units_stay_in_their_box_and_apart(map in maps(), base in 0..1800_u32) {
        let base = 128 * base;
        let laid = map.row_count() as u32 * map.pitch();
        let mut taken = std::collections::HashSet::new();
        for row in 0..map.row_count() as u32 {
            for unit in 0..map.row_bytes() / UNIT {
                let place = map.swizzled(base + row * map.pitch() + UNIT * unit);
                prop_assert!((base..base + laid).contains(&place));
                prop_assert!(taken.insert(place));
            }
        }
    }
}

#[test]
fn bytes_of_zeros_and_of_ones_are_no_map() {
    assert_eq!(TensorMap::from_bytes(&[0; MAP_BYTES]), None);
    assert_eq!(TensorMap::from_bytes(&[0xff; MAP_BYTES]), None);
}

#[test]
fn the_address_is_in_the_first_eight_bytes() {
    let mut bytes = map().to_bytes();
    bytes[..8].copy_from_slice(&0x7f00_u64.to_le_bytes());
    assert_eq!(TensorMap::from_bytes(&bytes), Some(TensorMap { address: 0x7f00, ..map() }));
}

#[test]
fn units_swap_by_the_bits_of_their_address() {
    let swizzled = |swizzle, address| TensorMap { swizzle, ..map() }.swizzled(address);
    assert_eq!([0, 32, 64, 128].map(|swizzle| swizzled(swizzle, 0x380)), [0x380, 0x390, 0x3b0, 0x3f0]);
    assert_eq!(swizzled(128, 0x410), 0x410);
    assert_eq!(swizzled(64, 0x90), 0x80);
}

#[test]
fn a_row_narrower_than_its_swizzle_lies_in_all_its_bytes() {
    let narrow = TensorMap { spans: [4, 4, 2, 0, 0], swizzle: 64, ..map() };
    assert_eq!((narrow.row_bytes(), narrow.pitch(), narrow.box_bytes()), (16, 64, 128));
}
