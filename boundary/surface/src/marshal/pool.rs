//! Pool attributes: an `int` or a 64-bit number behind one pointer, by the attribute's kind. C's pointer comes in, a
//! number goes to the implementation.

use super::marshallers;
use crate::prelude::*;

marshallers! {
    /// `cuMemPoolGetAttribute`.
    fn cuMemPoolGetAttribute(driver, pool: MemPool, attribute: u32, value: *mut c_void) {
        c::present(value)?;
        let int = is_int(attribute)?;
        let number = driver.mem_pool_get_attribute(pool, attribute)?;
        // SAFETY: the program's variable, of the attribute's width.
        unsafe {
            if int { c::put(value.cast::<i32>(), i32::from(number != 0)) } else { c::put(value.cast::<u64>(), number) }
        }
        Ok(())
    }

    /// `cuMemPoolSetAttribute`.
    fn cuMemPoolSetAttribute(driver, pool: MemPool, attribute: u32, value: *const c_void) {
        let int = is_int(attribute)?;
        // SAFETY: the program's variable, of the attribute's width.
        let number = unsafe {
            if int { u64::from(*c::reference(value.cast::<i32>())? != 0) } else { *c::reference(value.cast::<u64>())? }
        };
        driver.mem_pool_set_attribute(pool, attribute, number)
    }
}

fn is_int(attribute: u32) -> CudaResult<bool> {
    use pool_attribute as ask;
    match attribute {
        ask::REUSE_FOLLOW_EVENT_DEPENDENCIES
        | ask::REUSE_ALLOW_OPPORTUNISTIC
        | ask::REUSE_ALLOW_INTERNAL_DEPENDENCIES => Ok(true),
        ask::RELEASE_THRESHOLD
        | ask::RESERVED_MEM_CURRENT
        | ask::RESERVED_MEM_HIGH
        | ask::USED_MEM_CURRENT
        | ask::USED_MEM_HIGH => Ok(false),
        _ => Err(CudaError::INVALID_VALUE),
    }
}
