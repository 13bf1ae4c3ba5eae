//! Tensor maps: three forms become one method. The arrays of C's call are as long as the tensor has dimensions, and are
//! copied here. A rank that no map has is refused before any of them is read. Replacing an address needs no
//! implementation.

use crate::marshal::marshallers;
use crate::prelude::*;

/// A map's address has at least this alignment.
const ADDRESS_ALIGNMENT: u64 = 16;

marshallers! {
    /// `cuTensorMapEncodeTiled`.
    fn cuTensorMapEncodeTiled(
        driver, map: *mut TensorMap, data_type: u32, rank: u32, address: DevicePtr, dimensions: *const u64,
        strides: *const u64, box_dimensions: *const u32, element_strides: *const u32, interleave: u32, swizzle: u32,
        promotion: u32, fill: u32,
    ) {
        let rank = present(map, rank)?;
        // SAFETY: the program's arrays, as long as the rank says.
        let (tensor, box_dimensions) =
            unsafe { (Tensor::read(rank, dimensions, strides, element_strides)?, filled(box_dimensions, rank)?) };
        let access = Access { data_type, interleave, swizzle, promotion, fill };
        let shape = tensor.shape(&access, TensorForm::Tiled { box_dimensions });
        // SAFETY: checked above.
        unsafe { encode(driver, map, &shape, address) }
    }

    /// `cuTensorMapEncodeIm2col`.
    fn cuTensorMapEncodeIm2col(
        driver, map: *mut TensorMap, data_type: u32, rank: u32, address: DevicePtr, dimensions: *const u64,
        strides: *const u64, lower: *const i32, upper: *const i32, channels: u32, pixels: u32,
        element_strides: *const u32, interleave: u32, swizzle: u32, promotion: u32, fill: u32,
    ) {
        let rank = present(map, rank)?;
        // Images have two dimensions beside the spatial ones, of which there is at least one.
        let spatial = rank.checked_sub(2).filter(|spatial| *spatial > 0).ok_or(CudaError::INVALID_VALUE)?;
        // SAFETY: the program's arrays, as long as the rank says.
        let (tensor, lower, upper) = unsafe {
            (Tensor::read(rank, dimensions, strides, element_strides)?, filled(lower, spatial)?, filled(upper, spatial)?)
        };
        let access = Access { data_type, interleave, swizzle, promotion, fill };
        let shape = tensor.shape(&access, TensorForm::Im2col { lower, upper, channels, pixels });
        // SAFETY: checked above.
        unsafe { encode(driver, map, &shape, address) }
    }

    /// `cuTensorMapEncodeIm2colWide`.
    fn cuTensorMapEncodeIm2colWide(
        driver, map: *mut TensorMap, data_type: u32, rank: u32, address: DevicePtr, dimensions: *const u64,
        strides: *const u64, lower: i32, upper: i32, channels: u32, pixels: u32, element_strides: *const u32,
        interleave: u32, mode: u32, swizzle: u32, promotion: u32, fill: u32,
    ) {
        let rank = present(map, rank)?;
        // SAFETY: the program's arrays, as long as the rank says.
        let tensor = unsafe { Tensor::read(rank, dimensions, strides, element_strides)? };
        let access = Access { data_type, interleave, swizzle, promotion, fill };
        let shape = tensor.shape(&access, TensorForm::Im2colWide { lower, upper, channels, pixels, mode });
        // SAFETY: checked above.
        unsafe { encode(driver, map, &shape, address) }
    }

    /// `cuTensorMapReplaceAddress`.
    fn cuTensorMapReplaceAddress(driver, map: *mut TensorMap, address: DevicePtr) {
        if map.is_null() || !map.is_aligned() || address.is_null() || !address.0.is_multiple_of(ADDRESS_ALIGNMENT) {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the program's map, aligned as checked.
        unsafe { *map = (*map).at(address) };
        Ok(())
    }
}

/// The rank, where the output can be written and a map can have so many dimensions.
fn present(map: *mut TensorMap, rank: u32) -> CudaResult<usize> {
    let rank = usize::try_from(rank).map_err(|_| CudaError::INVALID_VALUE)?;
    let possible = !map.is_null() && map.is_aligned() && (1..=TENSOR_RANK).contains(&rank);
    if possible { Ok(rank) } else { Err(CudaError::INVALID_VALUE) }
}

/// # Errors
/// INVALID_VALUE for numbers that CUDA does not name: beyond `…_DATA_TYPE_16U6_ALIGN16B`, `…_INTERLEAVE_32B`,
/// `…_SWIZZLE_128B_ATOM_64B`, `…_L2_PROMOTION_L2_256B`, `…_NAN_REQUEST_ZERO_FMA` and `…_WIDE_MODE_W128`.
fn check_named(shape: &TensorShape) -> CudaResult<()> {
    let mode = if let TensorForm::Im2colWide { mode, .. } = shape.form { mode } else { 0 };
    let words = [shape.data_type, shape.interleave, shape.swizzle, shape.promotion, shape.fill, mode];
    let last = [15, 2, 6, 3, 1, 1];
    if words.iter().zip(last).all(|(word, last)| *word <= last) { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

/// # Safety
/// `map` is the program's, not NULL and aligned.
unsafe fn encode<D: crate::Driver>(
    driver: &D,
    map: *mut TensorMap,
    shape: &TensorShape,
    address: DevicePtr,
) -> CudaResult<()> {
    check_named(shape)?;
    let encoded = driver.tensor_map_encode(shape, address)?;
    // SAFETY: our caller vouches for it.
    unsafe { map.write(encoded) };
    Ok(())
}

/// The first `count` places of an array, zeros behind them.
///
/// # Safety
/// `source` is NULL or has `count` elements.
unsafe fn filled<T: Copy + Default, const N: usize>(source: *const T, count: usize) -> CudaResult<[T; N]> {
    // SAFETY: our caller vouches for it.
    let source = unsafe { c::slice(source, count) }?;
    let mut places = [T::default(); N];
    places.get_mut(..count).ok_or(CudaError::INVALID_VALUE)?.copy_from_slice(source);
    Ok(places)
}

/// How a tensor is read, whatever the form.
struct Access {
    data_type: u32,
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
}

/// The layout of a tensor's elements.
struct Tensor {
    rank: usize,
    dimensions: [u64; TENSOR_RANK],
    strides: [u64; TENSOR_RANK - 1],
    element_strides: [u32; TENSOR_RANK],
}

impl Tensor {
    /// # Safety
    /// Each pointer is NULL or has `rank` elements, `strides` one less.
    unsafe fn read(
        rank: usize,
        dimensions: *const u64,
        strides: *const u64,
        element_strides: *const u32,
    ) -> CudaResult<Self> {
        // SAFETY: our caller vouches for it.
        unsafe {
            Ok(Self {
                rank,
                dimensions: filled(dimensions, rank)?,
                strides: filled(strides, rank - 1)?,
                element_strides: filled(element_strides, rank)?,
            })
        }
    }

    fn shape(self, access: &Access, form: TensorForm) -> TensorShape {
        let Self { rank, dimensions, strides, element_strides } = self;
        let Access { data_type, interleave, swizzle, promotion, fill } = *access;
        TensorShape {
            data_type,
            rank,
            dimensions,
            strides,
            element_strides,
            form,
            interleave,
            swizzle,
            promotion,
            fill,
        }
    }
}
