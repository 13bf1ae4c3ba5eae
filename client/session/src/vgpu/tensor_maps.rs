//! Tensor maps one vGPU's driver has made. Shapes come in, maps go out whose addresses are to be replaced. It asks nobody.

use std::collections::HashMap;
use std::sync::Mutex;

use floe_abi::{TensorMap, TensorShape};

use floe_lock::lock;

/// Shapes remembered; a program with more of them starts over.
const SHAPES: usize = 1 << 16;

/// The maps one vGPU's driver has made, by their shapes.
#[derive(Debug, Default)]
pub(crate) struct TensorMaps {
    made: Mutex<HashMap<TensorShape, TensorMap>>,
}

impl TensorMaps {
    /// The map of a shape, with some address in it.
    pub(crate) fn find(&self, shape: &TensorShape) -> Option<TensorMap> {
        lock(&self.made).get(shape).copied()
    }

    /// Remembers the map of a shape.
    pub(crate) fn keep(&self, shape: &TensorShape, map: TensorMap) {
        let mut made = lock(&self.made);
        if made.len() >= SHAPES {
            made.clear();
        }
        made.insert(*shape, map);
    }
}
