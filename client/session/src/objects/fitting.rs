//! How kernels fit a device, asked of its server. A question comes in, a message goes out; the number in the answer comes back.
//! Whether it may be remembered, others know.

use floe_abi::{CudaError, CudaResult};
use floe_wire::{AvailableShared, Call, ClusterOccupancy, KernelId, MaxActiveBlocks};

use crate::vgpu::Vgpu;
use crate::vgpu::connection::{Answer, Connection, Ticket};
use crate::vgpu::occupancy::Question;

/// Asks, and waits for the number.
pub(crate) fn ask(vgpu: &Vgpu, kernel: u64, question: &Question) -> CudaResult<u64> {
    let connection = &vgpu.connection;
    let ticket = send(connection, kernel, question)?;
    connection.flush()?;
    number(connection, question, &connection.wait(&ticket)?)
}

fn send(connection: &Connection, kernel: u64, question: &Question) -> CudaResult<Ticket> {
    let kernel = KernelId(kernel);
    match question {
        &Question::Blocks { block, shared, flags } => {
            connection.begin(&MaxActiveBlocks { kernel, block, shared, flags })
        }
        &Question::AvailableShared { blocks, block } => connection.begin(&AvailableShared { kernel, blocks, block }),
        Question::Clusters { what, grid, block, shared, attributes } => {
            let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (*grid, *block);
            let (what, shared, attributes) = (*what, *shared, attributes.on_wire());
            connection.begin(&ClusterOccupancy {
                what,
                kernel,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                shared,
                attributes,
            })
        }
    }
}

fn number(connection: &Connection, question: &Question, answer: &Answer) -> CudaResult<u64> {
    // No device has a negative number of them.
    let count = |count: i32| u64::try_from(count).map_err(|_| CudaError::INVALID_VALUE);
    match question {
        Question::Blocks { .. } => count(connection.read(MaxActiveBlocks::decode_reply(&answer.body))?.blocks),
        Question::AvailableShared { .. } => Ok(connection.read(AvailableShared::decode_reply(&answer.body))?.bytes),
        Question::Clusters { .. } => count(connection.read(ClusterOccupancy::decode_reply(&answer.body))?.count),
    }
}
