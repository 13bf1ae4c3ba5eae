//! Bytes between two processes of one machine, through memory that both map: one ring in each direction.
//! In: bytes, a descriptor of such memory, threads that wait. Out: the same bytes at the other side, in order.
//! It trusts the other side with nothing but the bytes: it copies them out before any thread parses them. It checks
//! every index that the other side writes. It knows no frames, and does not notice a process's end.

mod line;
mod memory;
mod ring;
mod seal;

pub use line::BadIndex;
pub use ring::{LEAST_BYTES, MOST_BYTES, Ring};
pub use seal::{NotMemory, demand_memory, demand_memory_file, is_character_device, most_memory, sealed_memory};

#[cfg(test)]
mod tests;
