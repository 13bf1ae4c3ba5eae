//! Names of kernels and functions: an implementation gives text, C gets a pointer that stays valid. Each distinct name
//! is kept once for the rest of the process, as NVIDIA's library keeps its names with the module.

use crate::marshal::marshallers;
use crate::prelude::*;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::Mutex;

marshallers! {
    /// `cuKernelGetName`.
    fn cuKernelGetName(driver, name: *mut *const c_char, kernel: Kernel) {
        c::present(name)?;
        let kept = keep(driver.kernel_get_name(kernel)?)?;
        // SAFETY: the program's variable.
        unsafe { c::put(name, kept.as_ptr()) };
        Ok(())
    }

    /// `cuFuncGetName`.
    fn cuFuncGetName(driver, name: *mut *const c_char, function: Function) {
        c::present(name)?;
        let kept = keep(driver.func_get_name(function)?)?;
        // SAFETY: the program's variable.
        unsafe { c::put(name, kept.as_ptr()) };
        Ok(())
    }
}

/// The one kept copy of a name. A name with a NUL within cannot be passed to C and is NOT_FOUND.
fn keep(name: String) -> CudaResult<&'static CStr> {
    static NAMES: Mutex<BTreeSet<&'static CStr>> = Mutex::new(BTreeSet::new());
    let name = CString::new(name).map_err(|_| CudaError::NOT_FOUND)?;
    let mut names = floe_lock::lock(&NAMES);
    if let Some(kept) = names.get(name.as_c_str()) {
        return Ok(kept);
    }
    let kept: &'static CStr = Box::leak(name.into_boxed_c_str());
    names.insert(kept);
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_share_one_copy() {
        let (first, second) = (keep("scale".into()).expect("a name"), keep("scale".into()).expect("a name"));
        assert_eq!(first.as_ptr(), second.as_ptr());
        assert_eq!(keep("a\0b".into()), Err(CudaError::NOT_FOUND));
    }
}
