//! What a driver says of a kernel. In: a function. Out: its attributes and parameters, as far as the driver can say.

use floe_abi::{CudaError, CudaResult, Function};

use crate::Driver;
use crate::requests::KernelFacts;

/// `CUfunction_attribute` numbers.
const FUNCTION_ATTRIBUTES: std::ops::Range<i32> = 0..16;
/// More parameters than any kernel has: they have at most 32,764 bytes together.
const PARAMETERS: usize = 32_764;

/// # Errors
/// The driver's own.
pub(super) fn of(driver: &Driver, function: Function) -> CudaResult<KernelFacts> {
    let attribute = |number: i32| Some((number, driver.func_get_attribute(number.unsigned_abs(), function).ok()?));
    let attributes = FUNCTION_ATTRIBUTES.filter_map(attribute).collect();
    let mut parameters = Vec::new();
    for index in 0..PARAMETERS {
        match driver.func_get_param_info(function, index) {
            Ok((offset, bytes)) => {
                let narrow = |value: usize| u32::try_from(value).map_err(|_| CudaError::INVALID_VALUE);
                parameters.push((narrow(offset)?, narrow(bytes)?));
            }
            Err(CudaError::INVALID_VALUE) => break,
            // A driver before 12.4 cannot say.
            Err(CudaError::NOT_SUPPORTED) => return Ok(KernelFacts { parameters: None, attributes }),
            Err(error) => return Err(error),
        }
    }
    Ok(KernelFacts { parameters: Some(parameters), attributes })
}
