//! How kernels fit a device, asked of its server. A question comes in, a message goes out; the number in the answer comes back.
//! Whether it may be remembered, others know.

use floe_abi::{CudaError, CudaResult};
use floe_wire::{Attribute, AvailableShared, Call, ClusterOccupancy, KernelId, MaxActiveBlocks, SetKernelAttribute};

use crate::vgpu::Vgpu;
use crate::vgpu::connection::{Answer, Connection, Ticket};
use crate::vgpu::occupancy::{Expected, Question, Settings};

/// How a question is sent.
trait Way {
    fn send<M: Call>(&self, message: &M) -> CudaResult<Ticket>;
}

/// To be waited for, together with what is sent before the wait.
struct Now<'a>(&'a Connection);

/// For later.
struct Early<'a>(&'a Connection);

impl Way for Now<'_> {
    fn send<M: Call>(&self, message: &M) -> CudaResult<Ticket> {
        self.0.begin(message)
    }
}

impl Way for Early<'_> {
    fn send<M: Call>(&self, message: &M) -> CudaResult<Ticket> {
        self.0.ask_early(message)
    }
}

/// Asks, and waits for the number.
pub(crate) fn ask(vgpu: &Vgpu, kernel: u64, question: &Question) -> CudaResult<u64> {
    let connection = &vgpu.connection;
    let ticket = send(&Now(connection), kernel, question)?;
    connection.flush()?;
    number(connection, question, &connection.wait(&ticket)?)
}

/// Asks for later.
pub(crate) fn ask_early(vgpu: &Vgpu, kernel: u64, question: &Question) -> CudaResult<Ticket> {
    send(&Early(&vgpu.connection), kernel, question)
}

/// The number that was asked for early; `None` where the kernel could not be set as it was to be, or the question was refused.
pub(crate) fn arrives(vgpu: &Vgpu, question: &Question, expected: &Expected) -> CudaResult<Option<u64>> {
    let connection = &vgpu.connection;
    let is_set = match &expected.setting {
        None => true,
        Some(setting) => setting.holds(|ticket, wanted| {
            let answer = connection.arrived(ticket)?;
            if answer.status != 0 {
                return Ok(false);
            }
            let reply = connection.read(SetKernelAttribute::decode_reply(&answer.body))?;
            Ok(is_set_so(&reply.attributes, wanted))
        })?,
    };
    let answer = connection.arrived(&expected.ticket)?;
    if is_set && answer.status == 0 { number(connection, question, &answer).map(Some) } else { Ok(None) }
}

fn send(way: &impl Way, kernel: u64, question: &Question) -> CudaResult<Ticket> {
    let kernel = KernelId(kernel);
    match question {
        &Question::Blocks { block, shared, flags } => way.send(&MaxActiveBlocks { kernel, block, shared, flags }),
        &Question::AvailableShared { blocks, block } => way.send(&AvailableShared { kernel, blocks, block }),
        Question::Clusters { what, grid, block, shared, attributes } => {
            let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (*grid, *block);
            let (what, shared, attributes) = (*what, *shared, attributes.on_wire());
            way.send(&ClusterOccupancy {
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

fn is_set_so(attributes: &[Attribute], wanted: Settings) -> bool {
    let has = |(number, value)| attributes.iter().any(|it| u32::try_from(it.number) == Ok(number) && it.value == value);
    wanted.each().all(has)
}
