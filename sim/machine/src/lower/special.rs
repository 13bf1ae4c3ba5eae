//! Special registers: `%tid`, `%ctaid`, `%laneid`, `%clock64` and their kind.
//! In goes a name, out comes a constant (what depends on the lane alone) or a scratch slot read from the context.
//! Names that are not known here are no special registers; the caller says so.

use crate::exec::{LANES, ReadSpecial, Special, handlers};

use super::builder::SharedKey;
use super::function::{Body, Lowering};

impl Body<'_, '_> {
    /// A special register as a source; `None` when the name is none.
    pub(crate) fn special(&mut self, name: &str, wide: bool) -> Lowering<Option<u32>> {
        if !name.starts_with('%') {
            return Ok(None);
        }
        if let Some(vector) = lane_constant(name) {
            if wide {
                return Err(format!("64-bit use of {name}"));
            }
            return Ok(Some(self.builder.constants.vector(vector)));
        }
        if let Some(value) = constant(name) {
            return Ok(Some(if wide {
                self.builder.constants.wide(u64::from(value))
            } else {
                self.builder.constants.narrow(value)
            }));
        }
        if let Some(into) = reserved(name) {
            let offset = self.builder.shared_offset(SharedKey::Reserved, RESERVED, 16)? + into;
            return Ok(Some(if wide {
                self.builder.constants.wide(u64::from(offset))
            } else {
                self.builder.constants.narrow(offset)
            }));
        }
        let Some(special) = special(name) else {
            return Ok(None);
        };
        let slot = if wide { self.scratch_wide()? } else { self.scratch_narrow()? };
        self.emit_special(special, slot, wide);
        Ok(Some(slot))
    }

    /// Reads a special register into a slot.
    pub(crate) fn emit_special(&mut self, special: Special, slot: u32, wide: bool) {
        let handlers = if wide { handlers::<ReadSpecial<u64>>() } else { handlers::<ReadSpecial<u32>>() };
        self.emit(handlers, |inst| {
            inst.d = slot;
            inst.imm = special as i64;
        });
    }
}

/// Registers that depend on the lane alone.
fn lane_constant(name: &str) -> Option<[u32; LANES]> {
    let of: fn(u32) -> u32 = match name {
        "%laneid" => |lane| lane,
        "%lanemask_eq" => |lane| 1 << lane,
        "%lanemask_lt" => |lane| (1 << lane) - 1,
        "%lanemask_le" => |lane| u32::MAX >> (31 - lane),
        "%lanemask_ge" => |lane| u32::MAX << lane,
        "%lanemask_gt" => |lane| (u32::MAX << lane) << 1,
        _ => return None,
    };
    Some(std::array::from_fn(|lane| of(lane as u32)))
}

/// Bytes of shared memory that every block of sm_80 and later has besides its own.
const RESERVED: u64 = 1024;

/// Places in the reserved shared memory: its begin, end and size, and the two parts device libraries know.
fn reserved(name: &str) -> Option<u32> {
    match name {
        "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" => Some(0),
        // Cooperative groups use 288 bytes from here.
        "%reserved_smem_offset_1" => Some(256),
        "%reserved_smem_offset_end" | "%reserved_smem_offset_cap" => Some(RESERVED as u32),
        _ => None,
    }
}

/// Registers that never change: no clusters, no debugger, no environment beyond the grid's workspace.
fn constant(name: &str) -> Option<u32> {
    Some(match name {
        "%cluster_ctaid.x" | "%cluster_ctaid.y" | "%cluster_ctaid.z" | "%cluster_ctarank" => 0,
        "%cluster_nctaid.x" | "%cluster_nctaid.y" | "%cluster_nctaid.z" | "%cluster_nctarank" => 1,
        "%tid.w" | "%ctaid.w" => 0,
        "%ntid.w" | "%nctaid.w" => 1,
        "%aggr_smem_size" => 0,
        _ if name.starts_with("%envreg") && !matches!(name, "%envreg1" | "%envreg2") => 0,
        _ => return None,
    })
}

/// Registers read from the context.
pub(crate) fn special(name: &str) -> Option<Special> {
    Some(match name {
        "%tid.x" => Special::ThreadX,
        "%tid.y" => Special::ThreadY,
        "%tid.z" => Special::ThreadZ,
        "%ctaid.x" | "%clusterid.x" => Special::BlockX,
        "%ctaid.y" | "%clusterid.y" => Special::BlockY,
        "%ctaid.z" | "%clusterid.z" => Special::BlockZ,
        "%ntid.x" => Special::BlockSizeX,
        "%ntid.y" => Special::BlockSizeY,
        "%ntid.z" => Special::BlockSizeZ,
        "%nctaid.x" | "%nclusterid.x" => Special::GridSizeX,
        "%nctaid.y" | "%nclusterid.y" => Special::GridSizeY,
        "%nctaid.z" | "%nclusterid.z" => Special::GridSizeZ,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::WarpCount,
        "%smid" => Special::Multiprocessor,
        "%nsmid" => Special::Multiprocessors,
        "%gridid" => Special::GridId,
        "%clock" => Special::Clock,
        "%clock_hi" => Special::ClockHigh,
        "%clock64" => Special::Clock64,
        "%globaltimer" => Special::GlobalTimer,
        "%globaltimer_lo" => Special::GlobalTimerLow,
        "%globaltimer_hi" => Special::GlobalTimerHigh,
        "%dynamic_smem_size" => Special::DynamicShared,
        "%total_smem_size" => Special::TotalShared,
        "%envreg1" => Special::WorkspaceHigh,
        "%envreg2" => Special::WorkspaceLow,
        _ => return None,
    })
}
