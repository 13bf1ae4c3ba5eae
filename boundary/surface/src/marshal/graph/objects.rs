//! User objects: C's destructor and argument come in, the surface calls them when the last reference goes.

use crate::marshal::marshallers;
use crate::prelude::*;

marshallers! {
    /// `cuUserObjectCreate`: the one flag must be given.
    fn cuUserObjectCreate(
        driver, object: *mut UserObject, user: *mut c_void, destroy: *const c_void, references: u32, flags: u32,
    ) {
        c::present(object)?;
        if destroy.is_null() || flags != user_object_flags::NO_DESTRUCTOR_SYNC {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the program passed a function of this type where C declares one, to be called with `user`.
        let destructor = unsafe { HostFunction::new(std::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void)>(destroy), user) };
        let made = driver.graphs().create_object(destructor, references)?;
        // SAFETY: the program's variable.
        unsafe { c::put(object, made) };
        Ok(())
    }

    /// `cuUserObjectRetain`.
    fn cuUserObjectRetain(driver, object: UserObject, count: u32) {
        driver.graphs().retain_object(object, count)
    }

    /// `cuUserObjectRelease`.
    fn cuUserObjectRelease(driver, object: UserObject, count: u32) {
        driver.graphs().release_object(object, count)
    }

    /// `cuGraphRetainUserObject`.
    fn cuGraphRetainUserObject(driver, graph: Graph, object: UserObject, count: u32, flags: u32) {
        if flags & !user_object_flags::MOVE != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        driver.graphs().hold_object(graph, object, count, flags == user_object_flags::MOVE)
    }

    /// `cuGraphReleaseUserObject`.
    fn cuGraphReleaseUserObject(driver, graph: Graph, object: UserObject, count: u32) {
        driver.graphs().let_object_go(graph, object, count)
    }
}
