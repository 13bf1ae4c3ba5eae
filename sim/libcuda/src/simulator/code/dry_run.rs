//! Dry runs: programs whose kernels are machine code run on the CPU device without computing anything. A cubin comes in,
//! PTX goes out that has its kernels, with their parameters and no body, and its variables. It shows a program's driver
//! calls, waits and transfers without a GPU. Results mean nothing, and the device's name says so.

use std::collections::HashSet;
use std::fmt::Write as _;

use floe_image::{ComputeCapability, Image, ImageError, Limits, Variable, kernel_parameters, variables};

/// Parameters and variables are blocks of bytes with the strictest alignment PTX programs use.
const ALIGNMENT: u32 = 16;

/// The name of a device that computes nothing.
pub(crate) const NAME: &str = "floe CPU device (dry run: kernels do nothing)";

/// The PTX that stands for an image's machine code; none where the image has none.
///
/// # Errors
/// Damaged images.
pub(crate) fn stand_in(image: &Image, device: ComputeCapability) -> Result<Option<String>, ImageError> {
    let cubins = image.cubins(device, &Limits::default())?;
    if cubins.is_empty() {
        return Ok(None);
    }
    let mut text = format!(".version 8.0\n.target sm_{}\n.address_size 64\n", device.number());
    let mut known = HashSet::new();
    for cubin in &cubins {
        let fitting = |variable: &Variable| is_name(&variable.name) && known.insert(variable.name.clone());
        for variable in variables(cubin)?.into_iter().filter(fitting) {
            // For copies, a constant is memory like any other.
            let _ = writeln!(text, ".visible .global .align {ALIGNMENT} .b8 {}[{}];", variable.name, variable.size);
        }
        for kernel in kernel_parameters(cubin)?.iter().filter(|kernel| is_name(&kernel.name)) {
            let parameters = kernel.parameters.iter().enumerate();
            let list: Vec<String> = parameters
                .map(|(index, parameter)| {
                    format!(".param .align {} .b8 p{index}[{}]", alignment(parameter.offset), parameter.size)
                })
                .collect();
            let _ = writeln!(text, ".visible .entry {}({})\n{{\n\tret;\n}}", kernel.name, list.join(", "));
        }
    }
    Ok(Some(text))
}

/// The largest alignment that leaves a parameter where it is.
fn alignment(offset: u32) -> u32 {
    if offset == 0 { ALIGNMENT } else { (offset & offset.wrapping_neg()).min(ALIGNMENT) }
}

/// Whether PTX can call something this.
fn is_name(name: &str) -> bool {
    let starts = name.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || "_$".contains(first));
    starts && name.len() > 1 && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_$".contains(letter))
}

/// Says once what a dry run is.
pub(crate) fn announce() {
    crate::simulator::log::warn_once(format_args!(
        "FLOE_CPU_DRY_RUN is set: kernels that come as machine code do nothing, results mean nothing"
    ));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn alignment_keeps_a_parameter_at_its_offset() {
        assert_eq!([0, 4, 8, 12, 16, 24, 48].map(alignment), [16, 4, 8, 4, 16, 8, 16]);
    }

    #[test]
    fn names_of_other_languages_are_left_out() {
        assert!(is_name("_Z6vectorPf") && is_name("$x1"));
        assert!(!is_name("a.b") && !is_name("1st") && !is_name("_"));
    }

    #[test]
    fn image_without_machine_code_has_no_stand_in() {
        let image = Image::from_bytes(b".version 8.0\n.target sm_90\n", &Limits::default()).unwrap();
        assert!(stand_in(&image, ComputeCapability { major: 9, minor: 0 }).unwrap().is_none());
    }
}
