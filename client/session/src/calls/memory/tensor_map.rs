//! Tensor maps: a shape and an address come in, the map goes out. The server's driver makes the map once per shape; after
//! that only the address in it changes, which happens here. An address that may not do for its shape goes to the server, so
//! that the error is the driver's own.

use floe_abi::{CudaError, CudaResult, DevicePtr, TENSOR_RANK, TensorForm, TensorMap, TensorShape};
use floe_surface::TensorMapCalls;
use floe_wire::{Call, EncodeTensorMap};

use crate::client::Client;
use crate::vgpu::Vgpu;

/// Bytes of a map.
const MAP_BYTES: usize = 128;
/// The strictest alignment any form, interleaving or packed data type asks of an address.
const SAFE_ALIGNMENT: u64 = 32;
/// Addresses a tensor map can hold are below this; device addresses are.
const ADDRESS_LIMIT: u64 = 1 << 56;

fn is_safe(address: DevicePtr) -> bool {
    !address.is_null() && address.0.is_multiple_of(SAFE_ALIGNMENT) && address.0 < ADDRESS_LIMIT
}

impl Vgpu {
    fn tensor_map(&self, shape: &TensorShape, address: DevicePtr) -> CudaResult<TensorMap> {
        if is_safe(address)
            && let Some(map) = self.tensor_maps.find(shape)
        {
            return Ok(map.at(address));
        }
        let answer = self.call(&message(shape, address))?;
        let reply = self.connection.read(EncodeTensorMap::decode_reply(&answer.body))?;
        let map = map_of(reply.map).ok_or(CudaError::UNKNOWN)?;
        // A driver that keeps the address elsewhere is asked every time.
        if map.address() == address && is_safe(address) {
            self.tensor_maps.keep(shape, map);
        }
        Ok(map)
    }
}

fn message(shape: &TensorShape, address: DevicePtr) -> EncodeTensorMap {
    let rank = shape.rank.clamp(1, TENSOR_RANK);
    let mut message = EncodeTensorMap {
        form: 0,
        data_type: shape.data_type,
        address,
        dimensions: shape.dimensions[..rank].to_vec(),
        strides: shape.strides[..rank - 1].to_vec(),
        element_strides: shape.element_strides[..rank].to_vec(),
        box_dimensions: Vec::new(),
        lower: Vec::new(),
        upper: Vec::new(),
        channels: 0,
        pixels: 0,
        interleave: shape.interleave,
        mode: 0,
        swizzle: shape.swizzle,
        promotion: shape.promotion,
        fill: shape.fill,
    };
    match shape.form {
        TensorForm::Tiled { box_dimensions } => message.box_dimensions = box_dimensions[..rank].to_vec(),
        TensorForm::Im2col { lower, upper, channels, pixels } => {
            let spatial = rank.saturating_sub(2);
            (message.form, message.channels, message.pixels) = (1, channels, pixels);
            (message.lower, message.upper) = (lower[..spatial].to_vec(), upper[..spatial].to_vec());
        }
        TensorForm::Im2colWide { lower, upper, channels, pixels, mode } => {
            (message.form, message.channels, message.pixels, message.mode) = (2, channels, pixels, mode);
            (message.lower, message.upper) = (vec![lower], vec![upper]);
        }
    }
    message
}

fn map_of(bytes: &[u8]) -> Option<TensorMap> {
    let bytes: &[u8; MAP_BYTES] = bytes.try_into().ok()?;
    let mut map = TensorMap::default();
    for (word, bytes) in map.words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Some(map)
}

impl TensorMapCalls for Client {
    fn tensor_map_encode(&self, shape: &TensorShape, address: DevicePtr) -> CudaResult<TensorMap> {
        self.current()?.vgpu.tensor_map(shape, address)
    }
}
