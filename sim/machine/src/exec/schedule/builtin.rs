//! Functions the host provides to kernels: `vprintf`, `__assertfail`, `malloc`, `free`, `cudaGraphSetConditional`.
//! Arguments come from words of the caller's frame, results go back there; strings are read through the same checks as the
//! kernel's own accesses. Lanes are served in lane order.

use super::format;
use crate::exec::address::{AddressSpace, Generic};
use crate::exec::context::Context;
use crate::exec::lanes::V32;
use crate::fault::FaultKind;
use crate::lower::image::{Builtin, CallSite, FrameWords};
use crate::services::Services;

/// Longest string that is read from device memory; a longer one is cut.
const STRING_LIMIT: u64 = 1 << 16;

/// Serves a call for the lanes of `mask`. An error names the lane that faults.
pub(crate) fn call(
    context: &mut Context,
    function: Builtin,
    call: &CallSite,
    registers: *mut u8,
    mask: u32,
) -> Result<(), (FaultKind, u32)> {
    // SAFETY: the services outlive the run.
    let services = unsafe { &*context.services };
    let mut failed = None;
    for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
        let argument = |index: usize| call.arguments.get(index).map_or(0, |words| word(registers, *words, lane));
        match function {
            Builtin::Printf => {
                let count = print(context, services, lane, argument(0), argument(1)).map_err(|kind| (kind, lane))?;
                answer(registers, call, lane, u64::from(count));
            }
            Builtin::Malloc => {
                let address = services.heap.as_ref().map_or(0, |heap| heap.allocate(argument(0)));
                answer(registers, call, lane, address);
            }
            Builtin::Free => {
                let address = argument(0);
                let known = services.heap.as_ref().is_some_and(|heap| heap.release(address));
                if !known && address != 0 {
                    return Err((FaultKind::IllegalAddress, lane));
                }
            }
            Builtin::SetConditional => {
                if !services.conditions.set(argument(0), argument(1) as u32) {
                    return Err((FaultKind::IllegalAddress, lane));
                }
            }
            Builtin::AssertFail => {
                report(context, services, lane, [argument(0), argument(1), argument(2), argument(3)]);
                failed = failed.or(Some(lane));
            }
        }
    }
    failed.map_or(Ok(()), |lane| Err((FaultKind::Assert, lane)))
}

fn word(registers: *mut u8, words: FrameWords, lane: u32) -> u64 {
    let part = |index: usize| {
        // SAFETY: lowering reserved the words in this frame.
        let word = unsafe { &*registers.add(words.offset as usize + 128 * index).cast::<V32>() };
        u64::from(word.0[lane as usize])
    };
    match words.count {
        0 => 0,
        1 => part(0),
        _ => part(0) | (part(1) << 32),
    }
}

fn answer(registers: *mut u8, call: &CallSite, lane: u32, value: u64) {
    let Some(words) = call.returns.first() else {
        return;
    };
    for index in 0..words.count.min(2) as usize {
        // SAFETY: lowering reserved the words in this frame.
        let word = unsafe { &mut *registers.add(words.offset as usize + 128 * index).cast::<V32>() };
        word.0[lane as usize] = (value >> (32 * index)) as u32;
    }
}

/// One `printf` of one lane; returns the number of arguments.
fn print(context: &Context, services: &Services, lane: u32, text: u64, arguments: u64) -> Result<u32, FaultKind> {
    let text = string(context, lane, text)?;
    let mut at = arguments;
    let mut next = |bytes: u64| {
        let start = at.checked_next_multiple_of(bytes).ok_or(FaultKind::IllegalAddress)?;
        let value = read(context, lane, start, bytes)?;
        at = start.wrapping_add(bytes);
        Ok(value)
    };
    let (output, count) = format::format(&text, &mut next, &mut |address| string(context, lane, address))?;
    (services.printf)(&output);
    Ok(count)
}

fn read(context: &Context, lane: u32, address: u64, bytes: u64) -> Result<u64, FaultKind> {
    let pointer = Generic::resolve(context, lane, address, bytes)?;
    // SAFETY: just resolved for that many bytes.
    unsafe {
        Ok(match bytes {
            1 => u64::from(pointer.read_volatile()),
            4 => u64::from(pointer.cast::<u32>().read_volatile()),
            _ => pointer.cast::<u64>().read_volatile(),
        })
    }
}

fn string(context: &Context, lane: u32, address: u64) -> Result<Vec<u8>, FaultKind> {
    let mut bytes = Vec::new();
    for offset in 0..STRING_LIMIT {
        match read(context, lane, address.wrapping_add(offset), 1)? {
            0 => break,
            byte => bytes.push(byte as u8),
        }
    }
    Ok(bytes)
}

/// The line a failed assertion prints, as CUDA words it.
fn report(context: &Context, services: &Services, lane: u32, [message, file, line, function]: [u64; 4]) {
    let text = |address| {
        let bytes = string(context, lane, address).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let [bx, by, bz] = context.block_index;
    // SAFETY: the warp outlives the run.
    let [x, y, z] = unsafe { (*context.warp).thread_index };
    let lane_index = lane as usize;
    let output = format!(
        "{}:{}: {}: block: [{bx},{by},{bz}], thread: [{},{},{}] Assertion `{}` failed.\n",
        text(file),
        line as u32,
        text(function),
        x[lane_index],
        y[lane_index],
        z[lane_index],
        text(message)
    );
    (services.assertion)(output.as_bytes());
}
