//! Offsets of a kernel's parameters in the buffer of a launch.
//! In goes a kernel's declaration, out come places one behind the other, as CUDA has them.
//! It never places more bytes than a launch can carry.

use floe_ptx::Function;

use super::function::Lowering;

/// Most bytes of a kernel's parameters, as CUDA has it.
const PARAMETER_LIMIT: u32 = 32_764;

/// Offset, bytes and alignment of each parameter of a kernel.
pub(crate) fn kernel_parameters(function: &Function<'_>) -> Lowering<Vec<(u32, u32, u32)>> {
    let mut end = 0_u32;
    let mut places = Vec::with_capacity(function.parameters.len());
    for parameter in &function.parameters {
        let size = parameter.size().and_then(|size| u32::try_from(size).ok()).filter(|size| *size <= PARAMETER_LIMIT);
        let size = size.ok_or_else(|| format!("parameter without a usable size: {}", parameter.name))?;
        let align = u32::try_from(parameter.alignment_bytes()).unwrap_or(u32::MAX);
        if !align.is_power_of_two() || align > 4096 {
            return Err(format!("alignment of parameter {}: {align}", parameter.name));
        }
        // No overflow: both are below the limit, and the alignment is small.
        let offset = end.next_multiple_of(align);
        end = offset + size;
        if end > PARAMETER_LIMIT {
            return Err(format!(
                "parameters have more bytes than a kernel: {PARAMETER_LIMIT}, with {}",
                parameter.name
            ));
        }
        places.push((offset, size, align));
    }
    Ok(places)
}
