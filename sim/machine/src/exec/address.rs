//! From an address of one lane to bytes: the state spaces and their windows.
//! In go an address and the bytes accessed, out comes a host pointer that is good for exactly these bytes, or the kind of
//! fault. Every access of a kernel passes here or through the vector checks in `memory` that decide the same.

use std::marker::PhantomData;

use super::context::Context;
use crate::fault::FaultKind;
use crate::lower::image::{GRID_WINDOW, GRID_WORKSPACE, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW};
use crate::memory::View;

/// A state space.
pub(crate) trait AddressSpace {
    /// The address that a register and an offset name together.
    #[inline(always)]
    fn sum(register: u64, offset: i64) -> u64 {
        register.wrapping_add(offset as u64)
    }
    /// Host pointer of `bytes` bytes at `address`, where they are the same for every lane and all of them may be accessed.
    fn span(context: &Context, address: u64, bytes: u64) -> Option<*mut u8>;
    /// Host pointer of `bytes` bytes at `address` of the lane, aligned to `bytes`.
    fn resolve(context: &Context, lane: u32, address: u64, bytes: u64) -> Result<*mut u8, FaultKind>;
    /// As `resolve`, for what is written: kernel parameters never are.
    #[inline(always)]
    fn resolve_target(context: &Context, lane: u32, address: u64, bytes: u64) -> Result<*mut u8, FaultKind> {
        Self::resolve(context, lane, address, bytes)
    }
}

/// `.global` and `.const`.
pub(crate) struct Global;
/// `.shared`.
pub(crate) struct Shared;
/// `.local`.
pub(crate) struct Local;
/// Kernel parameters by address.
pub(crate) struct Parameter;
/// Generic addresses: windows for shared, local and parameters, the rest global.
pub(crate) struct Generic;

#[inline(always)]
fn aligned(address: u64, bytes: u64) -> Result<(), FaultKind> {
    if address & (bytes - 1) == 0 { Ok(()) } else { Err(FaultKind::Misaligned) }
}

/// Host pointer of a range of global memory of at most a granule, which may lie across two.
#[inline(always)]
pub(crate) fn global(view: &View, address: u64, bytes: u64) -> Option<*mut u8> {
    let offset = address.wrapping_sub(view.base);
    if offset >= view.size || view.size - offset < bytes {
        return lent(view, address, bytes);
    }
    let first = (offset >> crate::memory::GRANULE_SHIFT) as usize;
    let last = ((offset + bytes - 1) >> crate::memory::GRANULE_SHIFT) as usize;
    // SAFETY: both granules lie in the range, so in the map of validity; it is only ever written by atomic byte stores.
    let valid = unsafe { view.valid.add(first).read_volatile() & view.valid.add(last).read_volatile() };
    (valid != 0).then(|| view.host.wrapping_add(offset as usize))
}

/// Host pointer of a range outside the reservation, which the host may have lent.
#[cold]
#[inline(never)]
fn lent(view: &View, address: u64, bytes: u64) -> Option<*mut u8> {
    // SAFETY: whoever runs a kernel keeps the `Memory`, which owns it.
    let lent = unsafe { &*view.lent };
    lent.covers(address, bytes).then(|| view.host.wrapping_add(address.wrapping_sub(view.base) as usize))
}

impl AddressSpace for Global {
    #[inline(always)]
    fn span(context: &Context, address: u64, bytes: u64) -> Option<*mut u8> {
        global(&context.view, address, bytes)
    }
    #[inline(always)]
    fn resolve(context: &Context, _: u32, address: u64, bytes: u64) -> Result<*mut u8, FaultKind> {
        aligned(address, bytes)?;
        global(&context.view, address, bytes).ok_or(FaultKind::IllegalAddress)
    }
}

impl AddressSpace for Shared {
    /// Addresses of this space have 32 bits, so a sum wraps there. A register with higher bits holds another space's
    /// address (or a negative one); its sum is not cut, so that it faults unless it comes to lie inside.
    #[inline(always)]
    fn sum(register: u64, offset: i64) -> u64 {
        let sum = register.wrapping_add(offset as u64);
        if register <= u64::from(u32::MAX) { sum & u64::from(u32::MAX) } else { sum }
    }
    #[inline(always)]
    fn span(context: &Context, address: u64, bytes: u64) -> Option<*mut u8> {
        let inside = address.saturating_add(bytes) <= u64::from(context.shared_bytes);
        inside.then(|| context.shared.wrapping_add(address as usize))
    }
    #[inline(always)]
    fn resolve(context: &Context, _: u32, address: u64, bytes: u64) -> Result<*mut u8, FaultKind> {
        aligned(address, bytes)?;
        if address.saturating_add(bytes) > u64::from(context.shared_bytes) {
            return Err(FaultKind::IllegalAddress);
        }
        Ok(context.shared.wrapping_add(address as usize))
    }
}

impl AddressSpace for Local {
    #[inline(always)]
    fn span(_: &Context, _: u64, _: u64) -> Option<*mut u8> {
        None // every lane has its own
    }
    #[inline(always)]
    fn resolve(context: &Context, lane: u32, address: u64, bytes: u64) -> Result<*mut u8, FaultKind> {
        aligned(address, bytes)?;
        if address.saturating_add(bytes) > u64::from(context.local_stride) {
            return Err(FaultKind::IllegalAddress);
        }
        let offset = lane as usize * context.local_stride as usize + address as usize;
        Ok(context.local.wrapping_add(offset))
    }
}

impl AddressSpace for Parameter {
    #[inline(always)]
    fn span(context: &Context, address: u64, bytes: u64) -> Option<*mut u8> {
        let inside = address.saturating_add(bytes) <= u64::from(context.parameter_bytes);
        inside.then(|| context.parameters.wrapping_add(address as usize).cast_mut())
    }
    #[inline(always)]
    fn resolve(context: &Context, _: u32, address: u64, bytes: u64) -> Result<*mut u8, FaultKind> {
        // Parameter structs may hold members less aligned than the access a compiler chooses never does: no check beyond
        // the natural one.
        aligned(address, bytes)?;
        if address.saturating_add(bytes) > u64::from(context.parameter_bytes) {
            return Err(FaultKind::IllegalAddress);
        }
        Ok(context.parameters.wrapping_add(address as usize).cast_mut())
    }
    #[inline(always)]
    fn resolve_target(_: &Context, _: u32, _: u64, _: u64) -> Result<*mut u8, FaultKind> {
        Err(FaultKind::IllegalAddress)
    }
}

impl AddressSpace for Generic {
    #[inline(always)]
    fn resolve_target(context: &Context, lane: u32, address: u64, bytes: u64) -> Result<*mut u8, FaultKind> {
        if address & !0xffff_ffff == PARAMETER_WINDOW {
            return Err(FaultKind::IllegalAddress);
        }
        Self::resolve(context, lane, address, bytes)
    }
    #[inline(always)]
    fn span(context: &Context, address: u64, bytes: u64) -> Option<*mut u8> {
        if address & !0xffff_ffff == SHARED_WINDOW {
            return Shared::span(context, address & 0xffff_ffff, bytes);
        }
        global(&context.view, address, bytes)
    }
    #[inline(always)]
    fn resolve(context: &Context, lane: u32, address: u64, bytes: u64) -> Result<*mut u8, FaultKind> {
        let offset = address & 0xffff_ffff;
        match address & !0xffff_ffff {
            SHARED_WINDOW => Shared::resolve(context, lane, offset, bytes),
            LOCAL_WINDOW => Local::resolve(context, lane, offset, bytes),
            PARAMETER_WINDOW => Parameter::resolve(context, lane, offset, bytes),
            GRID_WINDOW => {
                aligned(address, bytes)?;
                let inside = !context.workspace.is_null() && offset + bytes <= GRID_WORKSPACE;
                inside.then(|| context.workspace.wrapping_add(offset as usize)).ok_or(FaultKind::IllegalAddress)
            }
            _ => Global::resolve(context, lane, address, bytes),
        }
    }
}

/// Host pointer of `bytes` bytes, aligned to them, in shared memory: at a register's address of that space plus an offset,
/// or at a generic address that must lie there.
pub(crate) fn shared_place(
    context: &Context,
    lane: u32,
    generic: bool,
    register: u64,
    offset: i64,
    bytes: u64,
) -> Result<*mut u8, (FaultKind, u64)> {
    let at = if generic { Generic::sum(register, offset) } else { Shared::sum(register, offset) };
    if generic && at & !0xffff_ffff != SHARED_WINDOW {
        return Err((FaultKind::InvalidAddressSpace, at));
    }
    let within = if generic { at & 0xffff_ffff } else { at };
    Shared::resolve(context, lane, within, bytes).map_err(|kind| (kind, at))
}

/// Bytes that may be accessed while the block runs. Others may write them meanwhile, so each access is a volatile one.
pub(crate) struct Span<'c> {
    start: *mut u8,
    bytes: usize,
    context: PhantomData<&'c Context>,
}

impl<'c> Span<'c> {
    /// At most a granule of bytes of a space, if all of them may be accessed.
    pub(crate) fn of<S: AddressSpace>(context: &'c Context, address: u64, bytes: u64) -> Option<Self> {
        let start = if bytes == 0 { std::ptr::dangling_mut() } else { S::span(context, address, bytes)? };
        Some(Self { start, bytes: usize::try_from(bytes).ok()?, context: PhantomData })
    }

    /// Host pointer of `bytes` bytes at a place, aligned to them, if all of them are of this span.
    pub(crate) fn place(&self, at: usize, bytes: usize) -> Option<*mut u8> {
        let inside = at.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        let place = self.start.wrapping_add(at);
        (inside && place.addr().is_multiple_of(bytes)).then_some(place)
    }

    /// Reads from a place on; what is not of this span is not read.
    pub(crate) fn read(&self, at: usize, to: &mut [u8]) {
        let (words, rest) = to.as_chunks_mut::<8>();
        let behind = at + 8 * words.len();
        for (index, word) in words.iter_mut().enumerate() {
            if let Some(place) = self.place(at + 8 * index, 8) {
                // SAFETY: the place is of this span and aligned, and whoever made the span found its bytes good.
                *word = unsafe { place.cast::<u64>().read_volatile() }.to_ne_bytes();
            } else {
                self.read_bytes(at + 8 * index, word);
            }
        }
        self.read_bytes(behind, rest);
    }

    fn read_bytes(&self, at: usize, to: &mut [u8]) {
        for (index, byte) in to.iter_mut().enumerate() {
            if let Some(place) = self.place(at + index, 1) {
                // SAFETY: as in `read`.
                *byte = unsafe { place.read_volatile() };
            }
        }
    }

    /// Writes from a place on; what is not of this span is not written.
    pub(crate) fn write(&self, at: usize, from: &[u8]) {
        let (words, rest) = from.as_chunks::<8>();
        let behind = at + 8 * words.len();
        for (index, word) in words.iter().enumerate() {
            if let Some(place) = self.place(at + 8 * index, 8) {
                // SAFETY: as in `read`; no span is made of what must not be written and then written to.
                unsafe { place.cast::<u64>().write_volatile(u64::from_ne_bytes(*word)) };
            } else {
                self.write_bytes(at + 8 * index, word);
            }
        }
        self.write_bytes(behind, rest);
    }

    fn write_bytes(&self, at: usize, from: &[u8]) {
        for (index, byte) in from.iter().enumerate() {
            if let Some(place) = self.place(at + index, 1) {
                // SAFETY: as in `write`.
                unsafe { place.write_volatile(*byte) };
            }
        }
    }
}

/// The spaces by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpaceKind {
    Global,
    Shared,
    Local,
    Parameter,
    Generic,
}
