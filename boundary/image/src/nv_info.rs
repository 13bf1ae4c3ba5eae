//! Kernel parameter layouts from a cubin's `.nv.info.<kernel>` sections.
//! In goes a cubin, out comes per kernel the offset and size of every parameter, which is what a launch has to copy.
//! It never guesses: a kernel whose items contradict each other is an error, not a layout.

use std::collections::{HashMap, HashSet};

use crate::elf;
use crate::error::ImageError;

/// Item formats; in a sized item the half-word counts the bytes that follow, in the others it is the value.
pub(crate) const FORMAT_SIZED: u8 = 4;
/// `EIATTR_KPARAM_INFO`: index (4), ordinal (2), offset (2), then 32 bits with the size in the upper 14.
const PARAMETER: u8 = 0x17;
/// The same for kernels with more than 4 KiB of parameters: there the last 32 bits are the size, below 8 bits of flags.
/// Seen with nvcc 13.0 for sm_75, sm_90 and sm_100.
const LARGE_PARAMETER: u8 = 0x45;
/// `EIATTR_CBANK_PARAM_SIZE`: bytes of all parameters.
const PARAMETERS_SIZE: u8 = 0x19;

pub(crate) const INFO_PREFIX: &[u8] = b".nv.info.";
/// Every kernel has this section, device functions have none.
pub(crate) const CONSTANT_PREFIX: &[u8] = b".nv.constant0.";

/// The place of one parameter in a kernel's parameter buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// First byte.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
}

/// A kernel and its parameters in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelParameters {
    /// The kernel's (mangled) name.
    pub name: String,
    /// Its parameters; none for a kernel without any.
    pub parameters: Vec<Parameter>,
    /// Bytes of the parameter buffer: the end of the last parameter.
    pub size: u32,
}

/// The kernels of a cubin with their parameters, in the order of their `.nv.info` sections.
///
/// # Errors
/// A file that is no cubin, or a kernel whose items are cut off or contradict each other.
pub fn kernel_parameters(cubin: &[u8]) -> Result<Vec<KernelParameters>, ImageError> {
    let sections = elf::sections(cubin)?;
    let kernels: HashSet<_> =
        sections.iter().filter_map(|section| section.name.strip_prefix(CONSTANT_PREFIX)).collect();
    let mut layouts = Vec::new();
    for section in &sections {
        let Some(name) = section.name.strip_prefix(INFO_PREFIX).filter(|name| kernels.contains(name)) else {
            continue;
        };
        let name = String::from_utf8_lossy(name).into_owned();
        let layout = layout(section.bytes).map_err(|(offset, problem)| ImageError::KernelInfo {
            kernel: name.clone(),
            offset,
            problem,
        })?;
        layouts.push(KernelParameters { name, parameters: layout.0, size: layout.1 });
    }
    Ok(layouts)
}

pub(crate) type Problem = (usize, &'static str);

/// One item of a section.
pub(crate) struct Item<'a> {
    offset: usize,
    pub(crate) format: u8,
    pub(crate) attribute: u8,
    /// What an item without bytes of its own says.
    value: u16,
    /// The bytes of a sized one.
    pub(crate) body: &'a [u8],
}

/// The items of a section, up to the first that is cut off.
pub(crate) fn items(section: &[u8]) -> impl Iterator<Item = Result<Item<'_>, Problem>> {
    let mut offset = 0;
    let mut is_whole = true;
    std::iter::from_fn(move || {
        if offset >= section.len() || !is_whole {
            return None;
        }
        let read = item(section, offset);
        match &read {
            Ok(item) => offset += 4 + item.body.len(),
            Err(_) => is_whole = false,
        }
        Some(read)
    })
}

fn item(section: &[u8], offset: usize) -> Result<Item<'_>, Problem> {
    let Some(&[format, attribute, low, high]) = section.get(offset..offset + 4) else {
        return Err((offset, "an item is cut off"));
    };
    let value = u16::from_le_bytes([low, high]);
    let length = if format == FORMAT_SIZED { usize::from(value) } else { 0 };
    let body = section.get(offset + 4..offset + 4 + length).ok_or((offset, "an item leaves the section"))?;
    Ok(Item { offset, format, attribute, value, body })
}

/// Reads the items of one section: parameters in order, and the size of them all.
pub(crate) fn layout(section: &[u8]) -> Result<(Vec<Parameter>, u32), Problem> {
    let mut found = HashMap::new();
    let mut written_size = None;
    for item in items(section) {
        let Item { offset, format, attribute, value, body } = item?;
        match (format, attribute) {
            (FORMAT_SIZED, PARAMETER | LARGE_PARAMETER) => {
                let (ordinal, parameter) = parameter(attribute, body).ok_or((offset, "a parameter is not 12 bytes"))?;
                if found.insert(ordinal, parameter).is_some_and(|earlier| earlier != parameter) {
                    return Err((offset, "a parameter stands twice with different places"));
                }
            }
            (_, PARAMETERS_SIZE) if format != FORMAT_SIZED => written_size = Some(u32::from(value)),
            _ => {}
        }
    }
    in_order(&found, written_size).map_err(|problem| (section.len(), problem))
}

/// Ordinal, and place.
fn parameter(attribute: u8, body: &[u8]) -> Option<(u16, Parameter)> {
    let &[_, _, _, _, o0, o1, p0, p1, s0, s1, s2, s3] = body else { return None };
    let packed = u32::from_le_bytes([s0, s1, s2, s3]);
    let size = if attribute == PARAMETER { packed >> 18 } else { packed & 0x00ff_ffff };
    let offset = u16::from_le_bytes([p0, p1]).into();
    Some((u16::from_le_bytes([o0, o1]), Parameter { offset, size }))
}

fn in_order(found: &HashMap<u16, Parameter>, written_size: Option<u32>) -> Result<(Vec<Parameter>, u32), &'static str> {
    let mut parameters = Vec::with_capacity(found.len());
    for ordinal in 0..=u16::MAX {
        match found.get(&ordinal) {
            Some(parameter) => parameters.push(*parameter),
            None => break,
        }
    }
    if parameters.len() != found.len() {
        return Err("a parameter is missing between others");
    }
    let size = parameters.iter().map(|parameter| parameter.offset + parameter.size).max().unwrap_or(0);
    match written_size {
        Some(written) if written != size => Err("the parameters do not fill the size written for them"),
        None if size != 0 => Err("there are parameters but no size for them"),
        _ => Ok((parameters, size)),
    }
}
