//! Bytes between two processes of one machine, through memory both have mapped: one ring in each direction.
//! In: bytes, a descriptor of such memory, threads that wait. Out: the same bytes at the other side, in order.
//! It trusts the other side with nothing but the bytes themselves: it copies them out before anybody looks at them, and
//! checks what the other side says of how far it has come each time. It knows no frames and notices nobody's death.

mod line;
mod memory;
mod ring;
mod seal;

pub use line::BadIndex;
pub use ring::{LEAST_BYTES, MOST_BYTES, Ring};
pub use seal::{NotMemory, demand_memory, most_memory, sealed_memory};

#[cfg(test)]
mod tests;
