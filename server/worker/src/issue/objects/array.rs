//! An array of the session.
//! In: the driver's array, its shape and what it is charged. Out: the same, by id. It holds no logic.

use floe_abi::{Array, ArrayShape};

/// An array that exists.
#[derive(Debug)]
pub(crate) struct ArrayObject {
    pub(crate) array: Array,
    pub(crate) shape: ArrayShape,
    /// Bytes charged to the quota.
    pub(crate) charge: u64,
}
