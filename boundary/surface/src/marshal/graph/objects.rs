//! User objects, and handles of conditional nodes. C's destructor and argument come in, the surface calls them when the
//! last reference goes. The number of a handle is the implementation's; whose it is the surface's graphs know.

use crate::graph::settle;
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

    /// `cuGraphConditionalHandleCreate`.
    fn cuGraphConditionalHandleCreate(
        driver, handle: *mut u64, graph: Graph, context: Context, default_value: u32, flags: u32,
    ) {
        c::present(handle)?;
        if flags & !graph_conditional_flags::ASSIGN_DEFAULT != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let root = driver.graphs().graph_for_condition(graph)?;
        let made = driver.graph_condition(root, context, default_value, flags)?;
        let kept = driver.graphs().keep_condition(root, made, context);
        if kept.is_err() {
            settle(driver);
        }
        kept?;
        // SAFETY: the program's variable.
        unsafe { c::put(handle, made) };
        Ok(())
    }
}
