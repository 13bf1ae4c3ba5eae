//! Sampling against a model without pairs and corners. The model is an endless image, made by the address mode's
//! definition, and the guide's formula over it in double precision. Extents are powers of two and coordinates multiples
//! of small ones, so both are exact but for the last sums.

use proptest::prelude::*;

use super::*;
use crate::texture::Channel;

/// The image without end: the element at any index of an axis of `n`.
fn endless(outside: Outside, index: i64, n: i64) -> Option<i64> {
    match outside {
        Outside::Border if !(0..n).contains(&index) => None,
        Outside::Border => Some(index),
        Outside::Clamp => Some(index.max(0).min(n - 1)),
        Outside::Wrap => Some(((index % n) + n) % n),
        Outside::Mirror => {
            let place = ((index % (2 * n)) + 2 * n) % (2 * n);
            Some(if place < n { place } else { 2 * n - 1 - place })
        }
    }
}

/// A texture in `memory`, whose first byte has the address 0.
struct Rig {
    texels: Texels,
    sampling: Sampling,
    memory: Vec<u8>,
}

impl Rig {
    fn new(extent: [u32; 3], channel: Channel, channels: u32, sampling: Sampling) -> Self {
        let element = channel.bytes() * u64::from(channels);
        // Rows and slices with gaps.
        let pitch = u64::from(extent[0]) * element + 12;
        let slice = pitch * u64::from(extent[1]) + 20;
        let texels = Texels { base: 0, channel, channels, extent, pitch, slice };
        let bytes = slice * u64::from(extent[2]);
        // Some numbers, and no float among them that is none.
        let memory = (0..bytes).map(|index| (index * 37 % 113) as u8).collect();
        Self { texels, sampling, memory }
    }

    fn image(&self) -> Image<'_> {
        Image { texels: &self.texels, sampling: &self.sampling, linear: false }
    }

    fn read(&self, address: u64, bytes: usize) -> Option<Bytes> {
        let from = usize::try_from(address).ok()?;
        let mut read = [0; 16];
        read[..bytes].copy_from_slice(self.memory.get(from..from + bytes)?);
        Some(read)
    }

    fn sample(&self, layer: Option<u32>, coordinates: &[f32]) -> [f32; 4] {
        let bits = self.image().sample(layer, coordinates, &|address, bytes| self.read(address, bytes));
        bits.expect("all of it is there").map(f32::from_bits)
    }

    /// The first channel of an element, as a number.
    fn value(&self, [x, y, z]: [i64; 3]) -> f64 {
        let texels = &self.texels;
        let at = z as u64 * texels.slice + y as u64 * texels.pitch + x as u64 * texels.element_bytes();
        let bytes = &self.memory[at as usize..];
        let two = [bytes[0], bytes[1]];
        match texels.channel {
            Channel::Unsigned8 => f64::from(bytes[0]) / 255.0,
            Channel::Signed8 => (f64::from(bytes[0] as i8) / 127.0).max(-1.0),
            Channel::Unsigned16 => f64::from(u16::from_le_bytes(two)) / 65535.0,
            Channel::Signed16 => (f64::from(i16::from_le_bytes(two)) / 32767.0).max(-1.0),
            Channel::Half => half::f16::from_le_bytes(two).to_f64(),
            _ => f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        }
    }

    /// By the definition.
    fn model(&self, coordinates: &[f64]) -> f64 {
        let sampling = &self.sampling;
        let mut sum = 0.0;
        for corner in 0..1 << coordinates.len() {
            let mut place = [Some(0_i64); 3];
            let mut weight = 1.0;
            for (axis, coordinate) in coordinates.iter().enumerate() {
                let n = i64::from(self.texels.extent[axis]);
                let mut outside = sampling.outside[axis];
                let mut x = *coordinate;
                if sampling.normalized {
                    x *= n as f64;
                } else if matches!(outside, Outside::Wrap | Outside::Mirror) {
                    outside = Outside::Clamp;
                }
                let second = i64::from(corner >> axis & 1);
                if sampling.filtered {
                    let part = ((x - 0.5) - (x - 0.5).floor()) * 256.0;
                    let part = (part + 0.5).floor() / 256.0;
                    weight *= if second == 1 { part } else { 1.0 - part };
                    place[axis] = endless(outside, (x - 0.5).floor() as i64 + second, n);
                } else {
                    weight *= if second == 1 { 0.0 } else { 1.0 };
                    place[axis] = endless(outside, x.floor() as i64, n);
                }
            }
            let value = match place {
                [Some(x), Some(y), Some(z)] => self.value([x, y, z]),
                _ => f64::from(sampling.border[0]),
            };
            sum += weight * value;
        }
        sum
    }
}

fn outside() -> impl Strategy<Value = Outside> {
    prop_oneof![Just(Outside::Wrap), Just(Outside::Clamp), Just(Outside::Mirror), Just(Outside::Border)]
}

fn channel() -> impl Strategy<Value = Channel> {
    prop_oneof![
        Just(Channel::Unsigned8),
        Just(Channel::Signed8),
        Just(Channel::Unsigned16),
        Just(Channel::Signed16),
        Just(Channel::Half),
        Just(Channel::Float),
    ]
}

proptest! {
    #[test]
    fn samples_are_what_the_definition_says(
        shifts in [0..5_u32, 0..5_u32, 0..4_u32],
        axes in 1..=3_usize,
        (channel, channels) in (channel(), prop_oneof![Just(1), Just(2), Just(4)]),
        modes in [outside(), outside(), outside()],
        (filtered, normalized) in (any::<bool>(), any::<bool>()),
        steps in prop::collection::vec([-3000..3000_i32, -3000..3000_i32, -3000..3000_i32], 20),
    ) {
        let mut extent = shifts.map(|shift| 1 << shift);
        extent[axes..].fill(1);
        let border = [0.75, 1.0, 2.0, 3.0];
        let sampling = Sampling { outside: modes, filtered, normalized, integers: false, srgb: false, border };
        let rig = Rig::new(extent, channel, channels, sampling);
        for step in steps {
            // Two to three images in every direction. Never on the border of two elements, nor half-way between two
            // steps of a weight. The mirror image of such a coordinate falls to the other side.
            let scale = if normalized { 1.0 / 1024.0 } else { 1.0 / 128.0 };
            let offset = scale * 3.0 / 64.0;
            let coordinates: Vec<f32> = step[..axes].iter().map(|step| *step as f32 * scale + offset).collect();
            let exact: Vec<f64> = coordinates.iter().map(|coordinate| f64::from(*coordinate)).collect();
            let (got, wanted) = (f64::from(rig.sample(None, &coordinates)[0]), rig.model(&exact));
            prop_assert!((got - wanted).abs() <= 1e-5 * wanted.abs().max(1.0), "{coordinates:?}: {got}, not {wanted}");
        }
    }
}

const PLAIN: Sampling = Sampling {
    outside: [Outside::Clamp; 3],
    filtered: false,
    normalized: false,
    integers: true,
    srgb: false,
    border: [0.0; 4],
};

#[test]
fn layers_are_never_mixed_and_end_at_the_last() {
    let rig = Rig::new([4, 1, 3], Channel::Float, 1, Sampling { filtered: true, ..PLAIN });
    let value = |x, z| rig.value([x, 0, z]) as f32;
    assert_eq!(rig.sample(Some(1), &[2.5])[0], value(2, 1));
    assert_eq!(rig.sample(Some(77), &[2.5])[0], value(2, 2));
    assert_eq!(rig.sample(Some(1), &[3.0])[0], 0.5 * value(2, 1) + 0.5 * value(3, 1));
}

#[test]
fn linear_memory_is_read_by_whole_numbers_and_zero_outside() {
    let rig = Rig::new([5, 1, 1], Channel::Unsigned8, 1, PLAIN);
    let line = Image { linear: true, ..rig.image() };
    let fetch = |x: i32| line.fetch(None, &[x], &|address, bytes| rig.read(address, bytes)).expect("there")[0];
    assert_eq!([-1, 0, 4, 5, i32::MIN].map(fetch), [0, 0, 4 * 37 % 113, 0, 0]);
}

#[test]
fn a_gather_has_one_channel_of_four_elements_counter_clockwise() {
    let rig = Rig::new([4, 4, 1], Channel::Unsigned8, 2, PLAIN);
    let read = |address, bytes| rig.read(address, bytes);
    let got = rig.image().gather(None, &[2.0, 3.0], 1, &read).expect("there");
    let second = |x: u32, y: u32| (u64::from(y) * (8 + 12) + 2 * u64::from(x) + 1) * 37 % 113;
    assert_eq!(got.map(u64::from), [second(1, 3), second(2, 3), second(2, 2), second(1, 2)]);
}

#[test]
fn coordinates_that_are_no_numbers_read_something_inside() {
    for mode in [Outside::Wrap, Outside::Clamp, Outside::Mirror, Outside::Border] {
        for (filtered, normalized) in [(false, false), (true, false), (false, true), (true, true)] {
            let sampling = Sampling { outside: [mode; 3], filtered, normalized, integers: false, ..PLAIN };
            let rig = Rig::new([4, 4, 4], Channel::Unsigned8, 1, sampling);
            for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30] {
                let value = rig.sample(None, &[odd, 0.25, odd])[0];
                assert!((0.0..=1.0).contains(&value), "{mode:?} {odd}: {value}");
            }
        }
    }
}

#[test]
fn an_unmapped_element_is_reported_by_its_address() {
    let mut rig = Rig::new([4, 4, 1], Channel::Float, 1, PLAIN);
    rig.memory.truncate(30);
    let read = |address, bytes| rig.read(address, bytes);
    assert_eq!(rig.image().sample(None, &[0.0, 1.0], &read), Err(28));
}

#[test]
fn colours_of_srgb_become_linear_but_not_their_opacity() {
    let mut rig = Rig::new([1, 1, 1], Channel::Unsigned8, 4, Sampling { integers: false, srgb: true, ..PLAIN });
    rig.memory = vec![0, 255, 128, 128];
    let [black, white, grey, opacity] = rig.sample(None, &[0.0]);
    assert_eq!((black, white, opacity), (0.0, 1.0, 128.0 / 255.0));
    assert!((grey - 0.2158).abs() < 1e-3);
}
