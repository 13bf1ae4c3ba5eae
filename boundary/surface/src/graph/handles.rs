//! Numbers that name graphs, nodes, instantiated graphs and user objects to a program. Kind and count come in, an opaque
//! value goes out, and back. They are no addresses, and none is used twice.

use floe_abi::{CudaError, CudaResult};

/// Kinds of handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Kind {
    Graph = 0x21,
    Node = 0x22,
    Exec = 0x23,
    UserObject = 0x24,
}

// As the other handles: above any address of user space, the low bits free for libraries that keep flags there.
const KIND_SHIFT: u32 = 48;
const ID_SHIFT: u32 = 4;

/// The value a program sees.
pub(super) fn value(kind: Kind, id: u64) -> u64 {
    (kind as u64) << KIND_SHIFT | id << ID_SHIFT
}

/// The id in a program's value.
///
/// # Errors
/// INVALID_VALUE where it names nothing of this kind.
pub(super) fn id(kind: Kind, value: u64) -> CudaResult<u64> {
    let id = (value & ((1 << KIND_SHIFT) - 1)) >> ID_SHIFT;
    if value == self::value(kind, id) && id != 0 { Ok(id) } else { Err(CudaError::INVALID_VALUE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_the_way_through_a_value_and_other_kinds_are_refused() {
        let node = value(Kind::Node, 77);
        assert_eq!(id(Kind::Node, node), Ok(77));
        assert_eq!(id(Kind::Graph, node), Err(CudaError::INVALID_VALUE));
        assert_eq!(id(Kind::Node, node + 1), Err(CudaError::INVALID_VALUE));
        assert_eq!(id(Kind::Graph, 0), Err(CudaError::INVALID_VALUE));
    }
}
