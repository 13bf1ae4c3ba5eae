//! Devices: start-up, and the questions the surface answers from a device's attributes so that no implementation has
//! to. C arguments come in, attribute questions go out. Nothing is remembered here.

use super::marshallers;
use crate::Driver;
use crate::prelude::*;
use crate::process;

marshallers! {
    /// `cuInit`: starts the implementation once; later calls succeed at once, as CUDA's do.
    fn cuInit(driver, flags: u32) {
        process::may_start()?;
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        driver.init(flags)?;
        process::started(move || driver.exiting());
        Ok(())
    }

    /// `cuDeviceGetPCIBusId`: `domain:bus:device.0` in hexadecimal.
    fn cuDeviceGetPCIBusId(driver, text: *mut c_char, length: i32, device: Device) {
        c::present(text)?;
        let address = pci_address(driver, device)?;
        // SAFETY: the program's buffer has `length` bytes.
        unsafe { c::put_text(text, length, &address) }?;
        // The text is cut to the buffer all the same, as NVIDIA's driver does.
        if usize::try_from(length).is_ok_and(|room| room > address.len()) { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
    }

    /// `cuDeviceGetByPCIBusId`: takes the address with or without domain and function.
    fn cuDeviceGetByPCIBusId(driver, device: *mut Device, text: *const c_char) {
        c::present(device)?;
        // SAFETY: the program's text.
        let text = unsafe { c::text(text) }?.to_str().map_err(|_| CudaError::INVALID_VALUE)?;
        let wanted = parse_pci_address(text).ok_or(CudaError::INVALID_VALUE)?;
        for ordinal in 0..driver.device_get_count()? {
            let candidate = driver.device_get(ordinal)?;
            if parse_pci_address(&pci_address(driver, candidate)?) == Some(wanted) {
                // SAFETY: the program's variable.
                unsafe { c::put(device, candidate) };
                return Ok(());
            }
        }
        Err(CudaError::INVALID_DEVICE)
    }

    /// `cuDeviceComputeCapability`.
    fn cuDeviceComputeCapability(driver, major: *mut i32, minor: *mut i32, device: Device) {
        c::present(major)?;
        c::present(minor)?;
        let values = (
            driver.device_get_attribute(device_attribute::COMPUTE_CAPABILITY_MAJOR, device)?,
            driver.device_get_attribute(device_attribute::COMPUTE_CAPABILITY_MINOR, device)?,
        );
        // SAFETY: the program's variables.
        unsafe {
            c::put(major, values.0);
            c::put(minor, values.1);
        }
        Ok(())
    }

    /// `cuDeviceGetProperties`.
    fn cuDeviceGetProperties(driver, properties: *mut DeviceProperties, device: Device) {
        c::present(properties)?;
        use device_attribute as ask;
        let value = |attribute| driver.device_get_attribute(attribute, device);
        let filled = DeviceProperties {
            max_threads_per_block: value(ask::MAX_THREADS_PER_BLOCK)?,
            max_threads_dim: [value(ask::MAX_BLOCK_DIM_X)?, value(ask::MAX_BLOCK_DIM_Y)?, value(ask::MAX_BLOCK_DIM_Z)?],
            max_grid_size: [value(ask::MAX_GRID_DIM_X)?, value(ask::MAX_GRID_DIM_Y)?, value(ask::MAX_GRID_DIM_Z)?],
            shared_memory_per_block: value(ask::MAX_SHARED_MEMORY_PER_BLOCK)?,
            total_constant_memory: value(ask::TOTAL_CONSTANT_MEMORY)?,
            simd_width: value(ask::WARP_SIZE)?,
            memory_pitch: value(ask::MAX_PITCH)?,
            registers_per_block: value(ask::MAX_REGISTERS_PER_BLOCK)?,
            clock_rate: value(ask::CLOCK_RATE)?,
            texture_align: value(ask::TEXTURE_ALIGNMENT)?,
        };
        // SAFETY: the program's variable.
        unsafe { c::put(properties, filled) };
        Ok(())
    }
}

fn pci_address(driver: &impl Driver, device: Device) -> CudaResult<String> {
    let domain = driver.device_get_attribute(device_attribute::PCI_DOMAIN_ID, device)?;
    let bus = driver.device_get_attribute(device_attribute::PCI_BUS_ID, device)?;
    let number = driver.device_get_attribute(device_attribute::PCI_DEVICE_ID, device)?;
    Ok(format!("{domain:04x}:{bus:02x}:{number:02x}.0"))
}

/// Domain, bus and device of `[domain:]bus:device[.function]`.
fn parse_pci_address(text: &str) -> Option<(u32, u32, u32)> {
    let (address, function) = text.split_once('.').unwrap_or((text, "0"));
    u32::from_str_radix(function, 16).ok()?;
    let parts: Vec<u32> =
        address.split(':').map(|part| u32::from_str_radix(part, 16)).collect::<Result<_, _>>().ok()?;
    match parts.as_slice() {
        [bus, device] => Some((0, *bus, *device)),
        [domain, bus, device] => Some((*domain, *bus, *device)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_read_with_and_without_domain_and_function() {
        assert_eq!(parse_pci_address("0000:1B:00.0"), Some((0, 0x1b, 0)));
        assert_eq!(parse_pci_address("1b:02"), Some((0, 0x1b, 2)));
        assert_eq!(parse_pci_address("0001:1b:02"), Some((1, 0x1b, 2)));
        assert_eq!(parse_pci_address("1b"), None);
        assert_eq!(parse_pci_address("x:y.z"), None);
    }
}
