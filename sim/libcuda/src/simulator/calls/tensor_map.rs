//! Tensor maps: a shape and an address come in, the CPU device's own 128 bytes go out, which its kernels' copies of boxes go
//! by. Shapes that an H200 refuses are refused with its error. Columns of images, interleaved layouts and f32 without
//! subnormal numbers are refused by name: it never hands out a map no kernel could use.

use floe_abi::{CudaError, CudaResult, DevicePtr, TENSOR_RANK, TensorForm, TensorMap, TensorShape};
use floe_machine::{MAP_BYTES, TENSOR_AXES, TensorElement};
use floe_surface::TensorMapCalls;

use crate::simulator::Simulator;
use crate::simulator::log::warn_once;

const _: () = assert!(MAP_BYTES == size_of::<TensorMap>() && TENSOR_AXES == TENSOR_RANK);

/// `CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ`.
const FLUSHED_F32: u32 = 10;
/// The last of `CUtensorMapInterleave`.
const LAST_INTERLEAVE: u32 = 2;
/// The last of `CUtensorMapL2promotion`.
const LAST_PROMOTION: u32 = 3;
/// Bytes of each `CUtensorMapSwizzle`, from none on.
const SWIZZLES: [u32; 4] = [0, 32, 64, 128];

impl TensorMapCalls for Simulator {
    fn tensor_map_encode(&self, shape: &TensorShape, address: DevicePtr) -> CudaResult<TensorMap> {
        self.working()?;
        encode(shape, address)
    }
}

fn encode(shape: &TensorShape, address: DevicePtr) -> CudaResult<TensorMap> {
    let box_dimensions = match shape.form {
        TensorForm::Tiled { box_dimensions } => box_dimensions,
        TensorForm::Im2col { .. } => return refuse("cuTensorMapEncodeIm2col"),
        TensorForm::Im2colWide { .. } => return refuse("cuTensorMapEncodeIm2colWide"),
    };
    match shape.interleave {
        0 => {}
        1..=LAST_INTERLEAVE if shape.rank > 2 => return refuse("an interleaved tensor map"),
        _ => return Err(CudaError::INVALID_VALUE),
    }
    if shape.data_type == FLUSHED_F32 {
        return refuse("CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ");
    }
    let swizzle = usize::try_from(shape.swizzle).ok().and_then(|number| SWIZZLES.get(number));
    let element = TensorElement::from_number(shape.data_type);
    let (Some(element), Some(swizzle), 0..=LAST_PROMOTION, 0 | 1) = (element, swizzle, shape.promotion, shape.fill)
    else {
        return Err(CudaError::INVALID_VALUE);
    };
    let map = floe_machine::TensorMap {
        address: address.0,
        element,
        axes: shape.rank,
        sizes: shape.dimensions,
        strides: shape.strides,
        spans: box_dimensions,
        steps: shape.element_strides,
        swizzle: *swizzle,
        fills_nan: shape.fill == 1,
    };
    let bytes = map.check().ok_or(CudaError::INVALID_VALUE)?.to_bytes();
    let mut encoded = TensorMap::default();
    for (word, bytes) in encoded.words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(encoded)
}

fn refuse(what: &str) -> CudaResult<TensorMap> {
    warn_once(format_args!("{what} is not supported by the CPU device"));
    Err(CudaError::NOT_SUPPORTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> TensorShape {
        TensorShape {
            data_type: 7,
            rank: 3,
            dimensions: [100, 10, 4, 0, 0],
            strides: [400, 4000, 0, 0],
            element_strides: [1, 1, 1, 0, 0],
            form: TensorForm::Tiled { box_dimensions: [8, 4, 2, 0, 0] },
            interleave: 0,
            swizzle: 0,
            promotion: 2,
            fill: 1,
        }
    }

    fn code(change: impl FnOnce(&mut TensorShape)) -> CudaResult<()> {
        let mut shape = shape();
        change(&mut shape);
        encode(&shape, DevicePtr(0x2000)).map(drop)
    }

    fn boxed(shape: &mut TensorShape, dimensions: [u32; 3]) {
        let [x, y, z] = dimensions;
        shape.form = TensorForm::Tiled { box_dimensions: [x, y, z, 0, 0] };
    }

    #[test]
    fn address_lies_in_the_first_word_and_nowhere_else() {
        let map = encode(&shape(), DevicePtr(0x2000)).expect("a map");
        assert_eq!(map.address(), DevicePtr(0x2000));
        assert_eq!(encode(&shape(), DevicePtr(0x3010)), Ok(map.at(DevicePtr(0x3010))));
    }

    #[test]
    fn shapes_that_an_h200_takes_are_taken() {
        assert_eq!(code(|shape| shape.strides = [0, 0, 0, 0]), Ok(()));
        assert_eq!(code(|shape| shape.strides = [16, 32, 0, 0]), Ok(()), "below a row");
        assert_eq!(code(|shape| shape.strides = [4000, 400, 0, 0]), Ok(()), "descending");
        assert_eq!(code(|shape| shape.dimensions[2] = 1 << 32), Ok(()));
        assert_eq!(code(|shape| boxed(shape, [8, 256, 4])), Ok(()), "larger than the tensor");
        assert_eq!(code(|shape| shape.element_strides[0] = 2), Ok(()));
        assert_eq!(encode(&shape(), DevicePtr(0)).map(drop), Ok(()), "no address");
    }

    #[test]
    fn shapes_that_an_h200_refuses_are_refused_with_its_error() {
        let invalid = Err(CudaError::INVALID_VALUE);
        for address in [8, 1 << 57] {
            assert_eq!(encode(&shape(), DevicePtr(address)), Err(CudaError::INVALID_VALUE));
        }
        assert_eq!(code(|shape| shape.strides[0] = 1 << 40), invalid);
        assert_eq!(code(|shape| shape.dimensions[1] = 0), invalid);
        assert_eq!(code(|shape| shape.dimensions[1] = (1 << 32) + 1), invalid);
        for size in [0, 257] {
            assert_eq!(code(|shape| boxed(shape, [8, size, 1])), invalid);
        }
        assert_eq!(code(|shape| boxed(shape, [256, 256, 1])), invalid, "more than shared memory");
        assert_eq!(code(|shape| boxed(shape, [3, 4, 2])), invalid, "rows of 12 bytes");
        for step in [0, 9] {
            assert_eq!(code(|shape| shape.element_strides[1] = step), invalid);
        }
        let narrow = |shape: &mut TensorShape| {
            shape.swizzle = 1;
            boxed(shape, [32, 4, 2]);
        };
        assert_eq!(code(narrow), invalid, "a swizzle of 32 with rows of 128");
        assert_eq!(code(|shape| shape.swizzle = 4), invalid);
        assert_eq!(code(|shape| shape.data_type = 13), invalid);
        assert_eq!(code(|shape| shape.data_type = 2), invalid, "NaN of integers");
        let planes = |shape: &mut TensorShape| (shape.rank, shape.interleave) = (2, 1);
        assert_eq!(code(planes), invalid, "an interleaved layout of two axes");
    }

    #[test]
    fn what_is_not_done_is_refused_by_name() {
        let refused = Err(CudaError::NOT_SUPPORTED);
        assert_eq!(code(|shape| shape.interleave = 1), refused);
        assert_eq!(code(|shape| shape.data_type = FLUSHED_F32), refused);
        let columns = TensorForm::Im2col { lower: [0; 3], upper: [0; 3], channels: 4, pixels: 4 };
        assert_eq!(code(|shape| shape.form = columns), refused);
        let wide = TensorForm::Im2colWide { lower: 0, upper: 0, channels: 4, pixels: 4, mode: 0 };
        assert_eq!(code(|shape| shape.form = wide), refused);
    }
}
