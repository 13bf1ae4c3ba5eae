//! Linking device code. Inputs and plain options come in. The image that the driver's linker made goes out as bytes of
//! our own, with the linker's log, also where the link failed. The driver keeps nothing of a link when the call
//! returns.

use super::module::{LoadLog, load_with, word};
use crate::{Content, Driver, LoadOption, driver::missing};
use floe_abi::{CudaError, CudaResult, LinkState, jit_input};
use std::ffi::{CString, c_void};

/// One input of a link.
#[derive(Debug)]
pub struct LinkInput {
    /// One of `jit_input`.
    pub kind: u32,
    /// What the linker's messages call it.
    pub name: CString,
    /// All of it, ended as its form says.
    pub content: Content,
    /// Options for it alone.
    pub options: Vec<LoadOption>,
}

impl Driver {
    /// Links inputs for the current context's device. `cuLinkCreate`, `cuLinkAddData`, `cuLinkComplete`, `cuLinkDestroy`.
    pub fn link(&self, inputs: &[LinkInput], options: &[LoadOption]) -> LoadLog<Vec<u8>> {
        let calls = &self.calls;
        let (Some(create), Some(destroy)) = (calls.cuLinkCreate_v2, calls.cuLinkDestroy) else {
            return LoadLog::failed(missing("cuLinkCreate_v2"));
        };
        load_with(options, |count, keys, values| {
            let mut state = LinkState::default();
            // SAFETY: arrays and log buffers live until `load_with` returns, and the state is destroyed before.
            unsafe { create(count, keys, values, &raw mut state) }.into_result()?;
            let image = inputs.iter().try_for_each(|input| self.add(state, input)).and_then(|()| self.complete(state));
            // SAFETY: the state was made above and is used no more; the image was copied out of it.
            let destroyed = unsafe { destroy(state) }.into_result();
            image.and_then(|image| destroyed.map(|()| image))
        })
    }

    fn add(&self, state: LinkState, input: &LinkInput) -> CudaResult<()> {
        let call = self.calls.cuLinkAddData_v2.ok_or_else(|| missing("cuLinkAddData_v2"))?;
        let keys: Vec<u32> = input.options.iter().map(|option| option.option).collect();
        let mut values: Vec<*mut c_void> = input.options.iter().map(|option| word(option.value)).collect();
        let count = u32::try_from(keys.len()).map_err(|_| CudaError::INVALID_VALUE)?;
        // A driver wants PTX's NUL counted and there.
        let text;
        let bytes: &[u8] = if input.kind == jit_input::PTX && !input.content.ends_with(&[0]) {
            text = [&*input.content, &[0]].concat();
            &text
        } else {
            &input.content
        };
        let data = bytes.as_ptr().cast_mut().cast::<c_void>();
        let (name, keys, values) = (input.name.as_ptr(), keys.as_ptr(), values.as_mut_ptr());
        // SAFETY: everything lives through the call; the driver writes into none of it and keeps none of it.
        unsafe { call(state, input.kind, data, bytes.len(), name, count, keys, values) }.into_result()
    }

    fn complete(&self, state: LinkState) -> CudaResult<Vec<u8>> {
        let call = self.calls.cuLinkComplete.ok_or_else(|| missing("cuLinkComplete"))?;
        let (mut image, mut bytes) = (std::ptr::null_mut::<c_void>(), 0_usize);
        // SAFETY: both are variables of ours.
        unsafe { call(state, &raw mut image, &raw mut bytes) }.into_result()?;
        if image.is_null() || bytes == 0 {
            return Err(CudaError::INVALID_IMAGE);
        }
        // SAFETY: the driver says that so many bytes lie there as long as the state lives, which our caller destroys later.
        Ok(unsafe { std::slice::from_raw_parts(image.cast::<u8>(), bytes) }.to_vec())
    }
}
