//! Tensor maps. A shape comes in with all its arrays at full length, the driver's map goes out. Whether the shape is
//! possible is the driver's to judge.

use crate::Driver;
use crate::driver::missing;
use floe_abi::{CudaError, CudaResult, DevicePtr, TENSOR_RANK, TensorForm, TensorMap, TensorShape};

impl Driver {
    /// The map of a tensor. `cuTensorMapEncodeTiled`, `…Im2col` or `…Im2colWide`.
    ///
    /// # Errors
    /// What the driver answers; INVALID_VALUE for a rank no map has; NOT_SUPPORTED where the library lacks the function.
    pub fn tensor_map_encode(&self, shape: &TensorShape, address: DevicePtr) -> CudaResult<TensorMap> {
        let rank = u32::try_from(shape.rank).map_err(|_| CudaError::INVALID_VALUE)?;
        if !(1..=TENSOR_RANK).contains(&shape.rank) {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut map = TensorMap::default();
        let (dimensions, strides) = (shape.dimensions.as_ptr(), shape.strides.as_ptr());
        let steps = shape.element_strides.as_ptr();
        let TensorShape { data_type, interleave, swizzle, promotion, fill, .. } = *shape;
        match shape.form {
            TensorForm::Tiled { box_dimensions } => {
                let call = self.calls.cuTensorMapEncodeTiled.ok_or_else(|| missing("cuTensorMapEncodeTiled"))?;
                let boxes = box_dimensions.as_ptr();
                // SAFETY: the arrays have room for every rank up to five, which was checked, and live through the call.
                unsafe {
                    call(
                        &raw mut map,
                        data_type,
                        rank,
                        address,
                        dimensions,
                        strides,
                        boxes,
                        steps,
                        interleave,
                        swizzle,
                        promotion,
                        fill,
                    )
                }
            }
            TensorForm::Im2col { lower, upper, channels, pixels } => {
                let call = self.calls.cuTensorMapEncodeIm2col.ok_or_else(|| missing("cuTensorMapEncodeIm2col"))?;
                let (lower, upper) = (lower.as_ptr(), upper.as_ptr());
                // SAFETY: as above; the corners have room for every rank's spatial dimensions.
                unsafe {
                    call(
                        &raw mut map,
                        data_type,
                        rank,
                        address,
                        dimensions,
                        strides,
                        lower,
                        upper,
                        channels,
                        pixels,
                        steps,
                        interleave,
                        swizzle,
                        promotion,
                        fill,
                    )
                }
            }
            TensorForm::Im2colWide { lower, upper, channels, pixels, mode } => {
                let call =
                    self.calls.cuTensorMapEncodeIm2colWide.ok_or_else(|| missing("cuTensorMapEncodeIm2colWide"))?;
                // SAFETY: as above.
                unsafe {
                    call(
                        &raw mut map,
                        data_type,
                        rank,
                        address,
                        dimensions,
                        strides,
                        lower,
                        upper,
                        channels,
                        pixels,
                        steps,
                        interleave,
                        mode,
                        swizzle,
                        promotion,
                        fill,
                    )
                }
            }
        }
        .into_result()?;
        Ok(map)
    }
}
