//! Places in a program: function, statement and part of it, instead of an index into this process's image.
//! A pc comes in, a place goes out, and back. A statement may have been lowered to several instructions; its parts are
//! counted, which is stable as long as lowering is.

use super::bytes::{Reader, Writer};
use super::error::SnapshotError;
use crate::lower::image::Image;

const NOWHERE: SnapshotError = SnapshotError::Malformed { what: "place in the program" };

pub(crate) fn write(writer: &mut Writer, image: &Image, pc: u32) {
    let function = &image.functions[image.function_of(pc) as usize];
    let statement = image.origins[pc as usize].statement;
    let first = (function.start..=pc).find(|at| image.origins[*at as usize].statement == statement).unwrap_or(pc);
    writer.u32(function.number);
    writer.u32(statement);
    writer.u32(pc - first);
}

pub(crate) fn read(reader: &mut Reader<'_>, image: &Image) -> Result<u32, SnapshotError> {
    let (number, statement, part) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let function = image.functions.iter().find(|function| function.number == number).ok_or(NOWHERE)?;
    let of_statement = |at: &u32| image.origins[*at as usize].statement == statement;
    let first = (function.start..function.end).find(of_statement).ok_or(NOWHERE)?;
    let pc = first.checked_add(part).filter(|pc| *pc < function.end).ok_or(NOWHERE)?;
    if of_statement(&pc) { Ok(pc) } else { Err(NOWHERE) }
}
