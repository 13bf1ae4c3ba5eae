//! Pointer attributes: typed answers are written through the program's pointers in each attribute's width. For the
//! plural form an address nobody knows has zeros for answers and is no error, as CUDA says.

use crate::arguments::pointer::{PointerAttribute, Width};
use crate::marshal::marshallers;
use crate::prelude::*;

marshallers! {
    /// `cuPointerGetAttribute`.
    fn cuPointerGetAttribute(driver, value: *mut c_void, attribute: u32, address: DevicePtr) {
        c::present(value)?;
        let answer = driver.pointer_get_attribute(attribute, address)?;
        // SAFETY: the program's variable, of the attribute's width.
        unsafe { write(value, answer) };
        Ok(())
    }

    /// `cuPointerGetAttributes`.
    fn cuPointerGetAttributes(
        driver, count: u32, attributes: *const u32, values: *mut *mut c_void, address: DevicePtr,
    ) {
        // SAFETY: the program's arrays, both of this length.
        let (attributes, values) =
            unsafe { (c::slice(attributes, count as usize)?, c::slice(values.cast_const(), count as usize)?) };
        for (attribute, value) in attributes.iter().zip(values) {
            c::present(*value)?;
            let unknown = PointerAttribute::unknown(*attribute, address).ok_or(CudaError::INVALID_VALUE)?;
            let answer = match driver.pointer_get_attribute(*attribute, address) {
                Err(error) if error == CudaError::INVALID_VALUE => unknown,
                other => Some(other?),
            };
            if let Some(answer) = answer {
                // SAFETY: the program's variable, of the attribute's width.
                unsafe { write(*value, answer) };
            }
        }
        Ok(())
    }

    /// `cuPointerSetAttribute`.
    fn cuPointerSetAttribute(driver, value: *const c_void, attribute: u32, address: DevicePtr) {
        if attribute != pointer_attribute::SYNC_MEMOPS {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the program's variable; this attribute is an unsigned int.
        let number = unsafe { *c::reference(value.cast::<u32>())? };
        driver.pointer_set_attribute(number, attribute, address)
    }
}

/// # Safety
/// `value` leads to a variable of the answer's width.
unsafe fn write(value: *mut c_void, answer: PointerAttribute) {
    // SAFETY: our caller vouches for it.
    unsafe {
        match answer.width() {
            Width::Int(number) => c::put(value.cast::<u32>(), number),
            Width::Word(word) => c::put(value.cast::<u64>(), word),
        }
    }
}
