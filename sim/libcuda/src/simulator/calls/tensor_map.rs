//! Tensor maps: none. The CPU device has no tensor memory accelerator, says so in its attributes, and refuses by name what
//! a program asks for all the same. It never hands out a map no kernel could use.

use floe_abi::{CudaError, CudaResult, DevicePtr, TensorMap, TensorShape};
use floe_surface::TensorMapCalls;

use crate::simulator::Simulator;

impl TensorMapCalls for Simulator {
    fn tensor_map_encode(&self, _shape: &TensorShape, _address: DevicePtr) -> CudaResult<TensorMap> {
        self.working()?;
        crate::simulator::log::warn_once(format_args!(
            "tensor maps (cuTensorMapEncode…) are not supported by the CPU device"
        ));
        Err(CudaError::NOT_SUPPORTED)
    }
}
