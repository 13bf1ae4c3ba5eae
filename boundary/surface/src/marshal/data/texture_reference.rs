//! Texture references: each function changes one word of a reference's state, or reads one. C's arguments come in; the whole
//! state goes to the implementation where a module reads it. What a number may be is as an H200's driver has it: it takes
//! modes of no meaning, which are refused where something is read by them.

use std::ffi::CStr;

use crate::marshal::marshallers;
use crate::prelude::*;
use crate::texture_references::{Changes, TextureReferenceState};

/// All flags of `cuTexRefSetFlags`, from CU_TRSF_READ_AS_INTEGER to CU_TRSF_SEAMLESS_CUBEMAP.
const FLAGS: u32 = 0x3f;

/// Changes how a reference is read.
fn change<D: crate::Driver>(
    driver: &D,
    reference: TextureReference,
    change: impl FnOnce(&mut TextureReferenceState) -> CudaResult<()>,
) -> CudaResult<()> {
    change_of(driver, reference, Changes::Word, change)
}

/// Changes what a reference reads.
fn bind<D: crate::Driver>(
    driver: &D,
    reference: TextureReference,
    change: impl FnOnce(&mut TextureReferenceState) -> CudaResult<()>,
) -> CudaResult<()> {
    change_of(driver, reference, Changes::Resource, change)
}

fn change_of<D: crate::Driver>(
    driver: &D,
    reference: TextureReference,
    changes: Changes,
    change: impl FnOnce(&mut TextureReferenceState) -> CudaResult<()>,
) -> CudaResult<()> {
    let bind = |module, name: &CStr, state: &TextureReferenceState| driver.bind_texture_reference(module, name, state);
    driver.texture_references().change(reference, changes, change, bind)
}

/// Kernels read this; `rows` are their number and the bytes between two, where it lies in rows.
fn read_from(state: &mut TextureReferenceState, kind: u32, place: u64, extent: usize, rows: (usize, usize)) {
    let (height, pitch) = rows;
    let resource = ResourceDescriptor { kind, place, extent, height, pitch, ..ResourceDescriptor::default() };
    state.resource = Some(resource);
}

/// # Errors
/// INVALID_VALUE for flags that CUDA does not name.
fn check_array_flags(flags: u32) -> CudaResult<()> {
    if flags & !texture_array_flags::OVERRIDE_FORMAT != 0 { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
}

/// # Errors
/// INVALID_VALUE for channels that no element has.
fn set_format(state: &mut TextureReferenceState, format: u32, channels: u32) -> CudaResult<()> {
    if ![1, 2, 4].contains(&channels) {
        return Err(CudaError::INVALID_VALUE);
    }
    (state.format, state.channels) = (format, channels);
    Ok(())
}

fn axis_of(axis: i32) -> CudaResult<usize> {
    usize::try_from(axis).ok().filter(|axis| *axis < 3).ok_or(CudaError::INVALID_VALUE)
}

/// One word of a reference's state for the program's variable.
///
/// # Safety
/// `place` is null or the program's variable.
unsafe fn get<D: crate::Driver, T>(
    driver: &D,
    reference: TextureReference,
    place: *mut T,
    word: impl FnOnce(&TextureReferenceState) -> CudaResult<T>,
) -> CudaResult<()> {
    c::present(place)?;
    let value = word(&driver.texture_references().state(reference)?)?;
    // SAFETY: the caller's word; it is there.
    unsafe { c::put(place, value) };
    Ok(())
}

marshallers! {
    /// `cuTexRefCreate`.
    fn cuTexRefCreate(driver, reference: *mut TextureReference) {
        c::present(reference)?;
        // SAFETY: the program's variable.
        unsafe { c::put(reference, driver.texture_references().make()) };
        Ok(())
    }

    /// `cuTexRefDestroy`.
    fn cuTexRefDestroy(driver, reference: TextureReference) {
        driver.texture_references().end(reference)
    }

    /// `cuTexRefSetArray`.
    fn cuTexRefSetArray(driver, reference: TextureReference, array: Array, flags: u32) {
        check_array_flags(flags)?;
        let shape = driver.array_get_descriptor(array)?;
        bind(driver, reference, |state| {
            read_from(state, resource_type::ARRAY, array.0, 0, (0, 0));
            set_format(state, shape.format, shape.channels)
        })
    }

    /// `cuTexRefSetMipmappedArray`.
    fn cuTexRefSetMipmappedArray(driver, reference: TextureReference, array: MipmappedArray, flags: u32) {
        check_array_flags(flags)?;
        bind(driver, reference, |state| {
            read_from(state, resource_type::MIPMAPPED_ARRAY, array.0, 0, (0, 0));
            Ok(())
        })
    }

    /// `cuTexRefSetAddress`; nothing is read where address and bytes are 0.
    fn cuTexRefSetAddress_v2(driver, offset: *mut usize, reference: TextureReference, address: DevicePtr, bytes: usize) {
        let device = driver.ctx_get_device()?;
        let alignment = driver.device_get_attribute(device_attribute::TEXTURE_ALIGNMENT, device)?;
        let beyond = address.0 % u64::from(alignment.unsigned_abs()).max(1);
        let beyond = usize::try_from(beyond).map_err(|_| CudaError::INVALID_VALUE)?;
        if offset.is_null() && beyond != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        bind(driver, reference, |state| {
            if address.is_null() {
                state.resource = None;
                return Ok(());
            }
            let extent = bytes.checked_add(beyond).ok_or(CudaError::INVALID_VALUE)?;
            read_from(state, resource_type::LINEAR, address.0 - beyond as u64, extent, (0, 0));
            Ok(())
        })?;
        // SAFETY: the program's variable, or null.
        unsafe { c::put(offset, beyond) };
        Ok(())
    }

    /// `cuTexRefSetAddress2D`.
    fn cuTexRefSetAddress2D_v3(
        driver, reference: TextureReference, descriptor: *const ArrayDescriptor, address: DevicePtr, pitch: usize,
    ) {
        // SAFETY: the program's struct.
        let shape = *unsafe { c::reference(descriptor) }?;
        bind(driver, reference, |state| {
            set_format(state, shape.format, shape.channels)?;
            read_from(state, resource_type::PITCH2D, address.0, shape.width, (shape.height, pitch));
            Ok(())
        })
    }

    /// `cuTexRefSetFormat`.
    fn cuTexRefSetFormat(driver, reference: TextureReference, format: u32, channels: i32) {
        let channels = u32::try_from(channels).map_err(|_| CudaError::INVALID_VALUE)?;
        change(driver, reference, |state| set_format(state, format, channels))
    }

    /// `cuTexRefSetAddressMode`.
    fn cuTexRefSetAddressMode(driver, reference: TextureReference, axis: i32, mode: u32) {
        let axis = axis_of(axis)?;
        change(driver, reference, |state| {
            state.description.address_modes[axis] = mode;
            Ok(())
        })
    }

    /// `cuTexRefSetFilterMode`.
    fn cuTexRefSetFilterMode(driver, reference: TextureReference, mode: u32) {
        change(driver, reference, |state| {
            state.description.filter_mode = mode;
            Ok(())
        })
    }

    /// `cuTexRefSetMipmapFilterMode`.
    fn cuTexRefSetMipmapFilterMode(driver, reference: TextureReference, mode: u32) {
        change(driver, reference, |state| {
            state.description.level_filter_mode = mode;
            Ok(())
        })
    }

    /// `cuTexRefSetMipmapLevelBias`.
    fn cuTexRefSetMipmapLevelBias(driver, reference: TextureReference, bias: f32) {
        change(driver, reference, |state| {
            state.description.level_bias = bias;
            Ok(())
        })
    }

    /// `cuTexRefSetMipmapLevelClamp`.
    fn cuTexRefSetMipmapLevelClamp(driver, reference: TextureReference, least: f32, most: f32) {
        change(driver, reference, |state| {
            (state.description.least_level, state.description.most_level) = (least, most);
            Ok(())
        })
    }

    /// `cuTexRefSetMaxAnisotropy`.
    fn cuTexRefSetMaxAnisotropy(driver, reference: TextureReference, most: u32) {
        change(driver, reference, |state| {
            state.description.max_anisotropy = most;
            Ok(())
        })
    }

    /// `cuTexRefSetBorderColor`.
    fn cuTexRefSetBorderColor(driver, reference: TextureReference, color: *const f32) {
        // SAFETY: the program's four numbers.
        let border = *unsafe { c::reference(color.cast::<[f32; 4]>()) }?;
        change(driver, reference, |state| {
            state.description.border = border;
            Ok(())
        })
    }

    /// `cuTexRefSetFlags`.
    fn cuTexRefSetFlags(driver, reference: TextureReference, flags: u32) {
        if flags & !FLAGS != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        change(driver, reference, |state| {
            state.description.flags = flags;
            Ok(())
        })
    }

    /// `cuTexRefGetAddress`.
    fn cuTexRefGetAddress_v2(driver, address: *mut DevicePtr, reference: TextureReference) {
        let kinds = [resource_type::LINEAR, resource_type::PITCH2D];
        // SAFETY: the program's variable.
        unsafe { get(driver, reference, address, |state| state.place(&kinds).map(DevicePtr)) }
    }

    /// `cuTexRefGetArray`.
    fn cuTexRefGetArray(driver, array: *mut Array, reference: TextureReference) {
        // SAFETY: the program's variable.
        unsafe { get(driver, reference, array, |state| state.place(&[resource_type::ARRAY]).map(Array)) }
    }

    /// `cuTexRefGetMipmappedArray`.
    fn cuTexRefGetMipmappedArray(driver, array: *mut MipmappedArray, reference: TextureReference) {
        let kinds = [resource_type::MIPMAPPED_ARRAY];
        // SAFETY: the program's variable.
        unsafe { get(driver, reference, array, |state| state.place(&kinds).map(MipmappedArray)) }
    }

    /// `cuTexRefGetAddressMode`.
    fn cuTexRefGetAddressMode(driver, mode: *mut u32, reference: TextureReference, axis: i32) {
        let axis = axis_of(axis)?;
        // SAFETY: the program's variable.
        unsafe { get(driver, reference, mode, |state| Ok(state.description.address_modes[axis])) }
    }

    /// `cuTexRefGetFilterMode`.
    fn cuTexRefGetFilterMode(driver, mode: *mut u32, reference: TextureReference) {
        // SAFETY: the program's variable.
        unsafe { get(driver, reference, mode, |state| Ok(state.description.filter_mode)) }
    }

    /// `cuTexRefGetFormat`: of both answers the program may want one.
    fn cuTexRefGetFormat(driver, format: *mut u32, channels: *mut i32, reference: TextureReference) {
        let state = driver.texture_references().state(reference)?;
        // SAFETY: the program's variables, or null.
        unsafe {
            c::put(format, state.format);
            c::put(channels, state.channels.cast_signed());
        }
        Ok(())
    }

    /// `cuTexRefGetMipmapFilterMode`.
    fn cuTexRefGetMipmapFilterMode(driver, mode: *mut u32, reference: TextureReference) {
        // SAFETY: the program's variable.
        unsafe { get(driver, reference, mode, |state| Ok(state.description.level_filter_mode)) }
    }

    /// `cuTexRefGetMipmapLevelBias`.
    fn cuTexRefGetMipmapLevelBias(driver, bias: *mut f32, reference: TextureReference) {
        // SAFETY: the program's variable.
        unsafe { get(driver, reference, bias, |state| Ok(state.description.level_bias)) }
    }

    /// `cuTexRefGetMipmapLevelClamp`.
    fn cuTexRefGetMipmapLevelClamp(driver, least: *mut f32, most: *mut f32, reference: TextureReference) {
        // SAFETY: the program's variables.
        unsafe {
            get(driver, reference, least, |state| Ok(state.description.least_level))?;
            get(driver, reference, most, |state| Ok(state.description.most_level))
        }
    }

    /// `cuTexRefGetMaxAnisotropy`.
    fn cuTexRefGetMaxAnisotropy(driver, most: *mut i32, reference: TextureReference) {
        // SAFETY: the program's variable.
        unsafe { get(driver, reference, most, |state| Ok(state.description.max_anisotropy.cast_signed())) }
    }

    /// `cuTexRefGetBorderColor`.
    fn cuTexRefGetBorderColor(driver, color: *mut f32, reference: TextureReference) {
        // SAFETY: the program's four numbers.
        unsafe { get(driver, reference, color.cast::<[f32; 4]>(), |state| Ok(state.description.border)) }
    }

    /// `cuTexRefGetFlags`.
    fn cuTexRefGetFlags(driver, flags: *mut u32, reference: TextureReference) {
        // SAFETY: the program's variable.
        unsafe { get(driver, reference, flags, |state| Ok(state.description.flags)) }
    }
}
