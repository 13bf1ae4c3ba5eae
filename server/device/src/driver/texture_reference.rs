//! Texture references: all that is said of one goes to the driver, word by word. What is read comes last, since the driver
//! judges it by the rest; what was read before has nothing to do with the new words.

use floe_abi::{
    Array, ArrayDescriptor, CudaError, CudaResult, DevicePtr, MipmappedArray, ResourceDescriptor, TextureReference,
    resource_type,
};

use crate::Driver;
use crate::driver::missing;
use crate::requests::TextureReferenceRequest;

/// Elements are of the format that was said, not of one of an old array's.
const OVERRIDE_FORMAT: u32 = 1;

impl Driver {
    /// Says all that there is to say of a reference. Where that fails, nothing is read.
    ///
    /// # Errors
    /// The driver's error; NOT_SUPPORTED where the library lacks a function.
    pub fn tex_ref_set(&self, reference: TextureReference, request: &TextureReferenceRequest<'_>) -> CudaResult<()> {
        let how = request.description;
        let channels = i32::try_from(request.channels).map_err(|_| CudaError::INVALID_VALUE)?;
        self.tex_ref_set_address(reference, DevicePtr::NULL, 0)?;
        self.tex_ref_set_format(reference, request.format, channels)?;
        for (axis, mode) in (0..).zip(how.address_modes) {
            self.tex_ref_set_address_mode(reference, axis, mode)?;
        }
        self.tex_ref_set_filter_mode(reference, how.filter_mode)?;
        self.tex_ref_set_flags(reference, how.flags)?;
        self.tex_ref_set_max_anisotropy(reference, how.max_anisotropy)?;
        self.tex_ref_set_mipmap_filter_mode(reference, how.level_filter_mode)?;
        self.tex_ref_set_mipmap_level_bias(reference, how.level_bias)?;
        self.tex_ref_set_mipmap_level_clamp(reference, how.least_level, how.most_level)?;
        self.tex_ref_set_border_color(reference, how.border)?;
        let Some(resource) = request.resource else {
            return Ok(());
        };
        match resource.kind {
            resource_type::ARRAY => self.tex_ref_set_array(reference, Array(resource.place), OVERRIDE_FORMAT),
            resource_type::MIPMAPPED_ARRAY => {
                self.tex_ref_set_mipmapped_array(reference, MipmappedArray(resource.place), OVERRIDE_FORMAT)
            }
            resource_type::LINEAR => self.tex_ref_set_address(reference, DevicePtr(resource.place), resource.extent),
            resource_type::PITCH2D => self.tex_ref_set_rows(reference, resource),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn tex_ref_set_border_color(&self, reference: TextureReference, color: [f32; 4]) -> CudaResult<()> {
        let call = self.calls.cuTexRefSetBorderColor.ok_or_else(|| missing("cuTexRefSetBorderColor"))?;
        // SAFETY: the reference is a module's that lives; the driver reads four numbers.
        unsafe { call(reference, color.as_ptr()) }.into_result()
    }

    /// Where the address is one that a texture may begin at, which the client made it, the offset is 0.
    fn tex_ref_set_address(&self, reference: TextureReference, address: DevicePtr, bytes: usize) -> CudaResult<()> {
        let call = self.calls.cuTexRefSetAddress_v2.ok_or_else(|| missing("cuTexRefSetAddress"))?;
        let mut offset = 0;
        // SAFETY: the reference is a module's that lives; the memory was found to be the session's.
        unsafe { call(&raw mut offset, reference, address, bytes) }.into_result()?;
        if offset == 0 { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
    }

    fn tex_ref_set_rows(&self, reference: TextureReference, resource: &ResourceDescriptor) -> CudaResult<()> {
        let call = self.calls.cuTexRefSetAddress2D_v3.ok_or_else(|| missing("cuTexRefSetAddress2D"))?;
        let ResourceDescriptor { extent: width, height, format, channels, .. } = *resource;
        let shape = ArrayDescriptor { width, height, format, channels };
        // SAFETY: as above; the driver reads the shape during the call.
        unsafe { call(reference, &raw const shape, DevicePtr(resource.place), resource.pitch) }.into_result()
    }
}
