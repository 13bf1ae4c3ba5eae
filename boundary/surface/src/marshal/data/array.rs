//! Arrays: the forms for two dimensions become those for three. C's structs come in, an implementation's methods are called.
//! Whether there can be such an array is the implementation's to say.

use crate::marshal::marshallers;
use crate::prelude::*;

marshallers! {
    /// `cuArrayCreate`.
    fn cuArrayCreate_v2(driver, array: *mut Array, descriptor: *const ArrayDescriptor) {
        c::present(array)?;
        // SAFETY: the program's struct; NULL is checked.
        let descriptor = unsafe { c::reference(descriptor) }?;
        let made = driver.array_create(&descriptor.into())?;
        // SAFETY: the program's variable, not NULL.
        unsafe { c::put(array, made) };
        Ok(())
    }

    /// `cuArrayGetDescriptor`.
    fn cuArrayGetDescriptor_v2(driver, descriptor: *mut ArrayDescriptor, array: Array) {
        c::present(descriptor)?;
        let known = driver.array_get_descriptor(array)?;
        // SAFETY: the program's variable, not NULL.
        unsafe { c::put(descriptor, (&known).into()) };
        Ok(())
    }
}
