//! Copies of boxes of tensors: a map's address and coordinates come in, the box moves row by row. What a program calls a
//! map may be any bytes: a map that is none ends the launch, and every row is checked as other accesses are.

use super::combination::Combination;
use super::plan::{BulkLane, BulkMove};
use super::{BulkFault, aligned, combine};
use crate::exec::address::{Global, Parameter, Shared, Span};
use crate::exec::context::Context;
use crate::fault::FaultKind;
use crate::lower::image::PARAMETER_WINDOW;
use crate::scalar::Rn;
use crate::scalar::convert::f32_to_tf32;
use crate::tensor::{MAP_BYTES, Row, TensorElement, TensorMap, UNIT};

/// Boxes lie at multiples of this in shared memory.
const BOX_ALIGNMENT: u64 = 128;
/// Maps lie at multiples of this.
const MAP_ALIGNMENT: u64 = 64;
/// Most bytes of a row: 256 elements of 8 bytes.
const ROW: usize = 2048;
/// What fills 16 bits in place of a number, of whatever type.
const FILL: [u8; 2] = 0x7ff7_u16.to_le_bytes();

/// Moves the box and says how many bytes it has, which a barrier hears of; `None` where it does not fit in shared memory.
pub(super) fn copy(context: &Context, moves: BulkMove, axes: usize, lane: &BulkLane) -> Result<Option<u32>, BulkFault> {
    let map = read_map(context, lane.far)?;
    let wrong = (FaultKind::IllegalInstruction, lane.far);
    let map = map.filter(|map| map.axes == axes && map.is_aligned(&lane.coordinates)).ok_or(wrong)?;
    aligned(lane.shared, BOX_ALIGNMENT)?;
    // A box of whole rows: less than 2^32, since a map's box fits in shared memory.
    let laid = map.row_count() * u64::from(map.pitch());
    let own = Span::of::<Shared>(context, lane.shared, laid);
    if let BulkMove::Load = moves {
        let Some(own) = own else { return Ok(None) };
        load(context, &map, lane, &own)?;
        return Ok(Some(map.box_bytes() as u32));
    }
    if let BulkMove::Prefetch = moves {
        return Ok(None);
    }
    let combination = match moves {
        BulkMove::Store => None,
        BulkMove::ReduceTensor(operator) => Some(Combination::of_element(operator, map.element).ok_or(wrong)?),
        _ => return Err(wrong),
    };
    if lane.coordinates[..axes].iter().any(|coordinate| *coordinate < 0) {
        return Err(wrong);
    }
    let own = own.ok_or((FaultKind::IllegalAddress, lane.shared))?;
    store(context, &map, lane, &own, combination)?;
    Ok(Some(map.box_bytes() as u32))
}

/// The map at a generic address; `None` where the bytes are no map.
fn read_map(context: &Context, address: u64) -> Result<Option<TensorMap>, BulkFault> {
    aligned(address, MAP_ALIGNMENT)?;
    let bytes = MAP_BYTES as u64;
    let span = if address & !0xffff_ffff == PARAMETER_WINDOW {
        Span::of::<Parameter>(context, address & 0xffff_ffff, bytes)
    } else {
        Span::of::<Global>(context, address, bytes)
    };
    let mut map = [0; MAP_BYTES];
    span.ok_or((FaultKind::IllegalAddress, address))?.read(0, &mut map);
    Ok(TensorMap::from_bytes(&map))
}

fn load(context: &Context, map: &TensorMap, lane: &BulkLane, own: &Span<'_>) -> Result<(), BulkFault> {
    let mut buffer = [0; ROW];
    let buffer = &mut buffer[..map.row_bytes() as usize];
    for row in map.rows(lane.coordinates) {
        if map.fills_nan {
            buffer.as_chunks_mut::<2>().0.fill(FILL);
        } else {
            buffer.fill(0);
        }
        if row.first < row.end {
            let inside = &mut buffer[row.first as usize..row.end as usize];
            bytes_of(context, &row, row.end - row.first)?.read(0, inside);
            if map.element == TensorElement::Tf32 {
                inside.as_chunks_mut::<4>().0.iter_mut().for_each(round);
            }
        }
        for (place, unit) in places(map, lane, &row).zip(buffer.as_chunks::<{ UNIT as usize }>().0) {
            own.write(place, unit);
        }
    }
    Ok(())
}

/// Stores whole units: the last of a row may reach beyond the tensor's end.
fn store(
    context: &Context,
    map: &TensorMap,
    lane: &BulkLane,
    own: &Span<'_>,
    combination: Option<Combination>,
) -> Result<(), BulkFault> {
    for row in map.rows(lane.coordinates).filter(|row| row.first < row.end) {
        let units = row.end.div_ceil(UNIT);
        let target = bytes_of(context, &row, units * UNIT)?;
        for (number, place) in places(map, lane, &row).take(units as usize).enumerate() {
            let mut unit = [0; UNIT as usize];
            own.read(place, &mut unit);
            match combination {
                Some(combination) => combine(combination, &target, number * unit.len(), &unit),
                None => target.write(number * unit.len(), &unit),
            }
        }
    }
    Ok(())
}

/// Bytes of global memory from the first of a row that the tensor has.
fn bytes_of<'c>(context: &'c Context, row: &Row, bytes: u32) -> Result<Span<'c>, BulkFault> {
    let span = row.address.and_then(|address| Span::of::<Global>(context, address, bytes.into()));
    span.ok_or((FaultKind::IllegalAddress, row.address.unwrap_or(u64::MAX)))
}

/// Where the units of a row lie in the box. Units change places within the bytes of a row only.
fn places(map: &TensorMap, lane: &BulkLane, row: &Row) -> impl Iterator<Item = usize> {
    let (map, base) = (*map, lane.shared as u32); // the box lies in shared memory
    let first = base + row.place;
    (0..map.row_bytes() / UNIT).map(move |unit| (map.swizzled(first + UNIT * unit) - base) as usize)
}

/// A TF32 number as loads give it: without its low 13 bits, and 0 where it is subnormal.
fn round(bytes: &mut [u8; 4]) {
    let bits = u32::from_le_bytes(*bytes);
    let subnormal = bits & 0x7f80_0000 == 0;
    let kept = if subnormal { bits & 1 << 31 } else { f32_to_tf32::<Rn, false>(f32::from_bits(bits)) };
    *bytes = kept.to_le_bytes();
}
