//! Textures and surfaces: one lane after the other, since every lane may name another. Numbers and coordinates come from
//! registers, elements from global memory with the checks of every access; a number that names nothing ends the launch.

use std::sync::Arc;

use super::texture_plan::{Beyond, Reading, SurfacePlan, TextureLevel, TexturePlan};
use crate::exec::address::AddressSpace as _;
use crate::exec::context::{Context, Inst, Operation, write};
use crate::exec::lanes::{Isa, Lane, Slot, V32, lanes_of};
use crate::fault::FaultKind;
use crate::texture::{Surface, Texture, Wanted};

/// Coordinates of all lanes.
struct Coordinates {
    layers: Option<V32>,
    axes: [V32; 3],
}

impl Coordinates {
    /// # Safety
    /// The slots were encoded as 32-bit ones.
    unsafe fn read(context: &Context, registers: *mut u8, layer: Option<u32>, slots: &[u32; 3], count: usize) -> Self {
        let mut axes = [V32::ZERO; 3];
        // SAFETY: by the caller.
        unsafe {
            for (axis, slot) in axes.iter_mut().zip(slots).take(count) {
                *axis = context.read::<u32>(registers, *slot);
            }
            Self { layers: layer.map(|slot| context.read::<u32>(registers, slot)), axes }
        }
    }

    fn layer(&self, lane: usize) -> Option<u32> {
        self.layers.as_ref().map(|layers| layers.0[lane])
    }

    fn of(&self, lane: usize) -> [u32; 3] {
        [0, 1, 2].map(|axis| self.axes[axis].0[lane])
    }
}

/// The levels that all lanes ask for.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack of one call")]
enum Levels {
    Base,
    Numbers(V32),
    Gradients([Coordinates; 2]),
}

impl Levels {
    /// # Safety
    /// The plan is one of this image's.
    unsafe fn read(context: &Context, registers: *mut u8, plan: &TexturePlan) -> Self {
        // SAFETY: by the caller: lowering encoded the slots as 32-bit ones.
        unsafe {
            match plan.level {
                TextureLevel::Base => Self::Base,
                TextureLevel::Number(slot) => Self::Numbers(context.read::<u32>(registers, slot)),
                TextureLevel::Gradient(slots) => {
                    Self::Gradients(slots.map(|slots| Coordinates::read(context, registers, None, &slots, plan.axes)))
                }
            }
        }
    }

    fn of(&self, lane: usize) -> Wanted {
        match self {
            Self::Base => Wanted::Base,
            Self::Numbers(numbers) => Wanted::Level(f32::from_bits(numbers.0[lane])),
            Self::Gradients([first, second]) => {
                Wanted::Gradient([first, second].map(|direction| direction.of(lane).map(f32::from_bits)))
            }
        }
    }
}

/// The view of the last lane: mostly the next lane names the same.
struct Last<T> {
    number: u64,
    view: Option<Arc<T>>,
}

impl<T> Last<T> {
    const NONE: Self = Self { number: 0, view: None };

    fn find(&mut self, number: u64, find: impl FnOnce(u64) -> Option<Arc<T>>) -> Result<&T, TextureFault> {
        if self.view.is_none() || self.number != number {
            *self = Self { number, view: find(number) };
        }
        self.view.as_deref().ok_or((FaultKind::IllegalAddress, number))
    }
}

/// A fault, and its address or number.
type TextureFault = (FaultKind, u64);

/// `bytes` bytes, at most 16, of global memory.
fn read_bytes(context: &Context, address: u64, bytes: usize) -> Option<[u8; 16]> {
    let source = crate::exec::Global::span(context, address, bytes as u64)?;
    let mut read = [0; 16];
    for (index, byte) in read.iter_mut().take(bytes).enumerate() {
        // SAFETY: the span was just found good for so many bytes; others may write them meanwhile.
        *byte = unsafe { source.add(index).read_volatile() };
    }
    Some(read)
}

/// `tex` and `tld4`; the plan is `aux` of the image's.
pub(crate) struct ReadTexture;

impl Operation for ReadTexture {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: lowering encoded the plan's number and its slots; the image outlives the run.
        unsafe {
            let plan = &(&(*context.image).textures)[inst.aux as usize];
            match read_textures(context, plan, mask, registers) {
                Ok(values) => {
                    for (target, value) in plan.targets.iter().zip(&values) {
                        write::<I, u32>(registers, *target, value, mask);
                    }
                    inst.next()
                }
                Err((lane, (kind, address))) => context.fail(inst, kind, lane as u32, address),
            }
        }
    }
}

/// # Safety
/// The plan is one of this image's.
#[inline(never)]
unsafe fn read_textures(
    context: &Context,
    plan: &TexturePlan,
    mask: u32,
    registers: *mut u8,
) -> Result<[V32; 4], (usize, TextureFault)> {
    // SAFETY: lowering encoded these slots; the services outlive the run.
    let (numbers, at, levels, services) = unsafe {
        let at = Coordinates::read(context, registers, plan.layer, &plan.coordinates, plan.axes);
        let levels = Levels::read(context, registers, plan);
        (context.read::<u64>(registers, plan.texture), at, levels, &*context.services)
    };
    let mut values = [V32::ZERO; 4];
    let mut last = Last::NONE;
    for lane in lanes_of(mask) {
        let number = numbers.0[lane];
        if plan.is_reference && !services.references.contains_key(&number) {
            continue;
        }
        let find = |number| match plan.is_reference {
            true => services.references.get(&number).cloned(),
            false => services.views.texture(number),
        };
        let texture = last.find(number, find).map_err(|problem| (lane, problem))?;
        let bits = read_texture(context, plan, texture, (at.layer(lane), at.of(lane), levels.of(lane)));
        let bits = bits.map_err(|address| (lane, (FaultKind::IllegalAddress, address)))?;
        values.iter_mut().zip(bits).for_each(|(value, bits)| value.0[lane] = bits);
    }
    Ok(values)
}

fn read_texture(
    context: &Context,
    plan: &TexturePlan,
    texture: &Texture,
    (layer, at, level): (Option<u32>, [u32; 3], Wanted),
) -> Result<[u32; 4], u64> {
    let read = |address, bytes| read_bytes(context, address, bytes);
    let floats = at.map(f32::from_bits);
    match plan.reading {
        Reading::Sample => texture.sample(layer, &floats[..plan.axes], level, &read),
        Reading::Gather(channel) => texture.gather(layer, &floats[..plan.axes], channel, &read),
        Reading::Fetch => texture.fetch(layer, &at.map(u32::cast_signed)[..plan.axes], &read),
    }
}

/// The memory that a surface instruction moves.
enum SurfaceTarget {
    At(u64),
    /// Beyond the ends, where nothing is moved.
    Nowhere,
}

/// The address of a lane's elements.
fn place(
    plan: &SurfacePlan,
    surface: &Surface,
    layer: Option<u32>,
    at: [u32; 3],
) -> Result<SurfaceTarget, TextureFault> {
    let texels = &surface.texels;
    let moved = (plan.bytes * plan.count) as u64;
    let row = u64::from(texels.extent[0]) * texels.element_bytes();
    // The last place of each axis; a row too short for what is moved has none.
    let last = [row.checked_sub(moved), Some(u64::from(texels.extent[1] - 1)), Some(u64::from(texels.extent[2] - 1))];
    let mut wanted = at;
    if let Some(layer) = layer {
        wanted[2] = layer;
    }
    let mut found = [0; 3];
    for (axis, found) in found.iter_mut().enumerate() {
        let index = i64::from(wanted[axis].cast_signed());
        *found = match (last[axis], u64::try_from(index), plan.beyond) {
            (Some(last), Ok(index), _) if index <= last => index,
            (Some(last), _, Beyond::Clamp) => {
                if index < 0 {
                    0
                } else {
                    last
                }
            }
            (_, _, Beyond::Zero | Beyond::Clamp) => return Ok(SurfaceTarget::Nowhere),
            (_, _, Beyond::Trap) => return Err((FaultKind::Trap, texels.base)),
        };
    }
    let [x, y, z] = found;
    let address = texels.base.wrapping_add(x);
    let address = address.wrapping_add(y.wrapping_mul(texels.pitch)).wrapping_add(z.wrapping_mul(texels.slice));
    if address.is_multiple_of(moved) { Ok(SurfaceTarget::At(address)) } else { Err((FaultKind::Misaligned, address)) }
}

/// The surface and place of every lane, in order.
///
/// # Safety
/// The plan is one of this image's.
unsafe fn each_place(
    context: &Context,
    plan: &SurfacePlan,
    mask: u32,
    registers: *mut u8,
    mut act: impl FnMut(usize, SurfaceTarget) -> Result<(), TextureFault>,
) -> Result<(), (usize, TextureFault)> {
    // SAFETY: lowering encoded these slots; the services outlive the run.
    let (numbers, at, views) = unsafe {
        let at = Coordinates::read(context, registers, plan.layer, &plan.coordinates, plan.axes);
        (context.read::<u64>(registers, plan.surface), at, &(*context.services).views)
    };
    let mut last = Last::NONE;
    for lane in lanes_of(mask) {
        let surface = last.find(numbers.0[lane], |number| views.surface(number));
        let found = surface.and_then(|surface| place(plan, surface, at.layer(lane), at.of(lane)));
        found.and_then(|place| act(lane, place)).map_err(|problem| (lane, problem))?;
    }
    Ok(())
}

/// The element at `index` of what was read.
fn element(bytes: &[u8; 16], index: usize, size: usize) -> u64 {
    let mut word = [0; 8];
    word[..size].copy_from_slice(&bytes[index * size..(index + 1) * size]);
    u64::from_le_bytes(word)
}

/// `suld.b` into registers of T; the plan is `aux` of the image's.
pub(crate) struct LoadSurface<T>(std::marker::PhantomData<T>);

impl<T: Lane> Operation for LoadSurface<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: lowering encoded the plan's number, its slots and their width; the image outlives the run.
        unsafe {
            let plan = &(&(*context.image).surfaces)[inst.aux as usize];
            match load_surface::<T>(context, plan, mask, registers) {
                Ok(values) => {
                    for (target, value) in plan.elements.iter().zip(&values).take(plan.count) {
                        write::<I, T>(registers, *target, value, mask);
                    }
                    inst.next()
                }
                Err((lane, (kind, address))) => context.fail(inst, kind, lane as u32, address),
            }
        }
    }
}

/// # Safety
/// The plan is one of this image's.
#[inline(never)]
unsafe fn load_surface<T: Lane>(
    context: &Context,
    plan: &SurfacePlan,
    mask: u32,
    registers: *mut u8,
) -> Result<[<T::Slot as Slot>::Vector; 4], (usize, TextureFault)> {
    let mut values = [<T::Slot as Slot>::ZERO; 4];
    let load = |lane: usize, place: SurfaceTarget| {
        let SurfaceTarget::At(address) = place else { return Ok(()) };
        let bytes = read_bytes(context, address, plan.bytes * plan.count);
        let bytes = bytes.ok_or((FaultKind::IllegalAddress, address))?;
        for (index, value) in values.iter_mut().take(plan.count).enumerate() {
            T::Slot::set(value, lane, T::Slot::from_u64(element(&bytes, index, plan.bytes)));
        }
        Ok(())
    };
    // SAFETY: handed through.
    unsafe { each_place(context, plan, mask, registers, load) }?;
    Ok(values)
}

/// `sust.b` from registers of T; the plan is `aux` of the image's.
pub(crate) struct StoreSurface<T>(std::marker::PhantomData<T>);

impl<T: Lane> Operation for StoreSurface<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        context.spins = 0;
        // SAFETY: lowering encoded the plan's number, its slots and their width; the image outlives the run.
        unsafe {
            let plan = &(&(*context.image).surfaces)[inst.aux as usize];
            match store_surface::<T>(context, plan, mask, registers) {
                Ok(()) => inst.next(),
                Err((lane, (kind, address))) => context.fail(inst, kind, lane as u32, address),
            }
        }
    }
}

/// # Safety
/// The plan is one of this image's.
#[inline(never)]
unsafe fn store_surface<T: Lane>(
    context: &Context,
    plan: &SurfacePlan,
    mask: u32,
    registers: *mut u8,
) -> Result<(), (usize, TextureFault)> {
    let store = |lane: usize, place: SurfaceTarget| {
        let SurfaceTarget::At(address) = place else { return Ok(()) };
        let moved = (plan.bytes * plan.count) as u64;
        let target = crate::exec::Global::span(context, address, moved).ok_or((FaultKind::IllegalAddress, address))?;
        for (index, slot) in plan.elements.iter().take(plan.count).enumerate() {
            // SAFETY: lowering encoded these slots.
            let value = unsafe { &*context.operand::<<T::Slot as Slot>::Vector>(registers, *slot) };
            let bytes = T::Slot::get(value, lane).to_u64().to_le_bytes();
            for (offset, byte) in bytes.iter().take(plan.bytes).enumerate() {
                // SAFETY: the span was just found good for all elements; others may read them meanwhile.
                unsafe { target.add(index * plan.bytes + offset).write_volatile(*byte) };
            }
        }
        Ok(())
    };
    // SAFETY: handed through.
    unsafe { each_place(context, plan, mask, registers, store) }
}
