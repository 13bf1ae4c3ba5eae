//! Which entry of a container a device takes.
//! In go entries and a compute capability, out comes the entry, chosen as CUDA chooses.
//! It never opens a payload, so it never notices that one is damaged.

use std::cmp::Reverse;

use crate::{ComputeCapability, Entry, EntryKind, Variant};

/// The chosen entry.
#[derive(Clone, Copy, Debug)]
pub struct Selected<'e, 'a> {
    /// The entry.
    pub entry: &'e Entry<'a>,
    /// Whether it was made for devices this one does not stand for: a higher target, or another architecture's own.
    pub above: bool,
}

/// The PTX a device takes: of those made for it or for devices before it the highest, otherwise the lowest there is, then
/// marked `above`. Of equal targets the generic one comes first, since it asks least of the device.
pub fn select_ptx<'e, 'a>(entries: &'e [Entry<'a>], device: ComputeCapability) -> Option<Selected<'e, 'a>> {
    let ptx = || entries.iter().filter(|entry| entry.kind == EntryKind::Ptx);
    let fitting = ptx().filter(|entry| entry.target.ptx_runs_on(device));
    // `min_by_key` keeps the first of equals, as a driver that walks the container would.
    let best = fitting.min_by_key(|entry| (Reverse(entry.target.number), entry.target.variant));
    if let Some(entry) = best {
        return Some(Selected { entry, above: false });
    }
    ptx().min_by_key(|entry| entry.target).map(|entry| Selected { entry, above: true })
}

/// The machine code a device runs: same major number, highest minor not above its own, the most specific of equals.
pub fn select_cubin<'e, 'a>(entries: &'e [Entry<'a>], device: ComputeCapability) -> Option<&'e Entry<'a>> {
    let specific_first = |variant| match variant {
        Variant::Architecture => 0,
        Variant::Family => 1,
        Variant::Generic => 2,
    };
    entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::Cubin && entry.target.cubin_runs_on(device))
        .min_by_key(|entry| (Reverse(entry.target.number), specific_first(entry.target.variant)))
}
