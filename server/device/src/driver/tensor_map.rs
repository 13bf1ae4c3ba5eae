//! Tensor maps. A shape comes in with all its arrays at full length, the driver's map goes out. Whether the shape is
//! possible is the driver's to judge.

use crate::Driver;
use crate::driver::missing;
use floe_abi::{CudaError, CudaResult, DevicePtr, TENSOR_RANK, TensorForm, TensorMap, TensorShape};

impl Driver {
    /// The map of a tensor. `cuTensorMapEncodeTiled`, `…Im2col` or `…Im2colWide`.
    ///
    /// # Errors
    /// The driver's error; INVALID_VALUE for a rank no map has; NOT_SUPPORTED where the library lacks the function.
    pub fn tensor_map_encode(&self, shape: &TensorShape, address: DevicePtr) -> CudaResult<TensorMap> {
        let rank = u32::try_from(shape.rank).map_err(|_| CudaError::INVALID_VALUE)?;
        if !(1..=TENSOR_RANK).contains(&shape.rank) {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut map = TensorMap::default();
        match shape.form {
            TensorForm::Tiled { .. } => self.encode_tiled(&mut map, shape, rank, address),
            TensorForm::Im2col { .. } => self.encode_im2col(&mut map, shape, rank, address),
            TensorForm::Im2colWide { .. } => self.encode_im2col_wide(&mut map, shape, rank, address),
        }?;
        Ok(map)
    }

    /// `rank` is one that the arrays of a shape have room for.
    fn encode_tiled(&self, map: &mut TensorMap, shape: &TensorShape, rank: u32, address: DevicePtr) -> CudaResult<()> {
        let TensorForm::Tiled { box_dimensions } = shape.form else { return Err(CudaError::INVALID_VALUE) };
        let call = self.calls.cuTensorMapEncodeTiled.ok_or_else(|| missing("cuTensorMapEncodeTiled"))?;
        let TensorShape {
            data_type, interleave, swizzle, promotion, fill, dimensions, strides, element_strides, ..
        } = shape;
        // SAFETY: the arrays have room for every rank up to five, which the caller checked, and live through the call.
        unsafe {
            call(
                map,
                *data_type,
                rank,
                address,
                dimensions.as_ptr(),
                strides.as_ptr(),
                box_dimensions.as_ptr(),
                element_strides.as_ptr(),
                *interleave,
                *swizzle,
                *promotion,
                *fill,
            )
        }
        .into_result()
    }

    /// `rank` is one that the arrays of a shape have room for.
    fn encode_im2col(&self, map: &mut TensorMap, shape: &TensorShape, rank: u32, address: DevicePtr) -> CudaResult<()> {
        let TensorForm::Im2col { lower, upper, channels, pixels } = shape.form else {
            return Err(CudaError::INVALID_VALUE);
        };
        let call = self.calls.cuTensorMapEncodeIm2col.ok_or_else(|| missing("cuTensorMapEncodeIm2col"))?;
        let TensorShape {
            data_type, interleave, swizzle, promotion, fill, dimensions, strides, element_strides, ..
        } = shape;
        // SAFETY: as in `encode_tiled`; the corners have room for every rank's spatial dimensions.
        unsafe {
            call(
                map,
                *data_type,
                rank,
                address,
                dimensions.as_ptr(),
                strides.as_ptr(),
                lower.as_ptr(),
                upper.as_ptr(),
                channels,
                pixels,
                element_strides.as_ptr(),
                *interleave,
                *swizzle,
                *promotion,
                *fill,
            )
        }
        .into_result()
    }

    /// `rank` is one that the arrays of a shape have room for.
    fn encode_im2col_wide(
        &self,
        map: &mut TensorMap,
        shape: &TensorShape,
        rank: u32,
        address: DevicePtr,
    ) -> CudaResult<()> {
        let TensorForm::Im2colWide { lower, upper, channels, pixels, mode } = shape.form else {
            return Err(CudaError::INVALID_VALUE);
        };
        let call = self.calls.cuTensorMapEncodeIm2colWide.ok_or_else(|| missing("cuTensorMapEncodeIm2colWide"))?;
        let TensorShape {
            data_type, interleave, swizzle, promotion, fill, dimensions, strides, element_strides, ..
        } = shape;
        // SAFETY: as in `encode_tiled`: the arrays have room for every rank up to five, which the caller checked, and live through the call.
        unsafe {
            call(
                map,
                *data_type,
                rank,
                address,
                dimensions.as_ptr(),
                strides.as_ptr(),
                lower,
                upper,
                channels,
                pixels,
                element_strides.as_ptr(),
                *interleave,
                mode,
                *swizzle,
                *promotion,
                *fill,
            )
        }
        .into_result()
    }
}
