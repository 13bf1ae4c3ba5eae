//! Tensor maps.
//! In: a tensor's shape as lists. Out: the map the driver makes.
//! Lists that do not fit each other are a protocol violation; whether a shape is possible is the driver's to say.

use floe_abi::{TENSOR_RANK, TensorForm, TensorShape};
use floe_device::Device;
use floe_wire::{EncodeTensorMap, EncodeTensorMapReply, TensorMapRequests};

use super::{Answer, Issuer, body};
use crate::issue::fault::{Fault, violation};

impl<D: Device> TensorMapRequests for Issuer<D> {
    fn encode_tensor_map(&mut self, message: &EncodeTensorMap) -> Result<Answer, Fault> {
        let shape = shape(message)?;
        let map = self.device().tensor_map(&shape, message.address)?;
        let bytes: Vec<u8> = map.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        body(&EncodeTensorMapReply { map: &bytes })
    }
}

/// A list in an array's first places; it has to have `length` elements.
fn filled<T: Copy + Default, const N: usize>(what: &str, list: &[T], length: usize) -> Result<[T; N], Fault> {
    let mut places = [T::default(); N];
    match places.get_mut(..length).filter(|_| list.len() == length) {
        Some(first) => first.copy_from_slice(list),
        None => return violation(format!("{what} of a tensor map are {length}, not: {}", list.len())),
    }
    Ok(places)
}

fn shape(message: &EncodeTensorMap) -> Result<TensorShape, Fault> {
    let rank = message.dimensions.len();
    if !(1..=TENSOR_RANK).contains(&rank) {
        return violation(format!("a tensor map's rank is 1 to {TENSOR_RANK}, not: {rank}"));
    }
    Ok(TensorShape {
        data_type: message.data_type,
        rank,
        dimensions: filled("dimensions", &message.dimensions, rank)?,
        strides: filled("strides", &message.strides, rank - 1)?,
        element_strides: filled("element strides", &message.element_strides, rank)?,
        form: form(message, rank)?,
        interleave: message.interleave,
        swizzle: message.swizzle,
        promotion: message.promotion,
        fill: message.fill,
    })
}

fn form(message: &EncodeTensorMap, rank: usize) -> Result<TensorForm, Fault> {
    let EncodeTensorMap { channels, pixels, mode, .. } = *message;
    match message.form {
        0 => Ok(TensorForm::Tiled { box_dimensions: filled("box dimensions", &message.box_dimensions, rank)? }),
        1 if rank > 2 => Ok(TensorForm::Im2col {
            lower: filled("lower corners", &message.lower, rank - 2)?,
            upper: filled("upper corners", &message.upper, rank - 2)?,
            channels,
            pixels,
        }),
        2 => {
            let [lower] = filled("lower corners", &message.lower, 1)?;
            let [upper] = filled("upper corners", &message.upper, 1)?;
            Ok(TensorForm::Im2colWide { lower, upper, channels, pixels, mode })
        }
        form => violation(format!("a tensor map of rank {rank} has no form: {form}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn message(form: u32, rank: usize) -> EncodeTensorMap {
        EncodeTensorMap {
            form,
            data_type: 7,
            address: floe_wire::DevicePtr(0x2000),
            dimensions: vec![64; rank],
            strides: vec![256; rank.saturating_sub(1)],
            element_strides: vec![1; rank],
            box_dimensions: vec![8; rank],
            lower: Vec::new(),
            upper: Vec::new(),
            channels: 1,
            pixels: 2,
            interleave: 0,
            mode: 1,
            swizzle: 0,
            promotion: 0,
            fill: 0,
        }
    }

    #[test]
    fn lists_fill_the_first_places_and_zeros_the_rest() {
        let shape = shape(&message(0, 2)).unwrap();
        assert_eq!((shape.rank, shape.dimensions, shape.strides), (2, [64, 64, 0, 0, 0], [256, 0, 0, 0]));
        assert_eq!(shape.form, TensorForm::Tiled { box_dimensions: [8, 8, 0, 0, 0] });
    }

    #[test]
    fn lists_that_do_not_fit_the_rank_violate_the_protocol() {
        for rank in [0, 6] {
            assert!(matches!(shape(&message(0, rank)), Err(Fault::ProtocolViolation(_))));
        }
        let mut short = message(0, 3);
        short.strides.pop();
        assert!(matches!(shape(&short), Err(Fault::ProtocolViolation(_))));
        assert!(matches!(shape(&message(1, 2)), Err(Fault::ProtocolViolation(_))), "no spatial dimension");
        assert!(matches!(shape(&message(1, 4)), Err(Fault::ProtocolViolation(_))), "no corners");
        assert!(matches!(shape(&message(3, 2)), Err(Fault::ProtocolViolation(_))), "no such form");
    }
}
