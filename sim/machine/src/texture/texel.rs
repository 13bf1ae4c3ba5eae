//! Elements of images: bytes come in, the four values that an instruction reads go out, as bits. Integers stay what they are
//! or become fractions of their largest; channels an element lacks are 0.

/// The type of one channel of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Channel {
    Unsigned8,
    Unsigned16,
    Unsigned32,
    Signed8,
    Signed16,
    Signed32,
    Half,
    Float,
}

/// An element's bytes, at most 16.
pub(crate) type Bytes = [u8; 16];

impl Channel {
    /// Bytes of it.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Unsigned8 | Self::Signed8 => 1,
            Self::Unsigned16 | Self::Signed16 | Self::Half => 2,
            Self::Unsigned32 | Self::Signed32 | Self::Float => 4,
        }
    }

    /// Whether what is read is a float: of integers, small ones that are not read as integers.
    pub fn reads_float(self, integers: bool) -> bool {
        match self {
            Self::Half | Self::Float => true,
            Self::Unsigned32 | Self::Signed32 => false,
            Self::Unsigned8 | Self::Unsigned16 | Self::Signed8 | Self::Signed16 => !integers,
        }
    }

    /// The bits an instruction reads of the channel that begins at `at`.
    fn read(self, bytes: &Bytes, at: usize, integers: bool) -> u32 {
        let narrow = u16::from_le_bytes([bytes[at], bytes[(at + 1) % 16]]);
        match self {
            Self::Unsigned8 => whole_or(u32::from(bytes[at]), integers, f32::from(bytes[at]) / 255.0),
            Self::Unsigned16 => whole_or(u32::from(narrow), integers, f32::from(narrow) / 65535.0),
            Self::Signed8 => {
                let value = bytes[at].cast_signed();
                whole_or(i32::from(value).cast_unsigned(), integers, (f32::from(value) / 127.0).max(-1.0))
            }
            Self::Signed16 => {
                let value = narrow.cast_signed();
                whole_or(i32::from(value).cast_unsigned(), integers, (f32::from(value) / 32767.0).max(-1.0))
            }
            Self::Half => half::f16::from_bits(narrow).to_f32().to_bits(),
            Self::Unsigned32 | Self::Signed32 | Self::Float => {
                u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
            }
        }
    }

    /// The bits an instruction reads of an element.
    pub(super) fn read_all(self, bytes: &Bytes, channels: u32, integers: bool) -> [u32; 4] {
        let mut read = [0; 4];
        for (index, value) in read.iter_mut().take(channels as usize).enumerate() {
            *value = self.read(bytes, index * self.bytes() as usize, integers);
        }
        read
    }
}

fn whole_or(whole: u32, integers: bool, fraction: f32) -> u32 {
    if integers { whole } else { fraction.to_bits() }
}

/// A colour of sRGB as a linear one.
pub(super) fn linear(colour: f32) -> f32 {
    if colour <= 0.040_45 { colour / 12.92 } else { ((colour + 0.055) / 1.055).powf(2.4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(first: &[u8]) -> Bytes {
        let mut bytes = [0; 16];
        bytes[..first.len()].copy_from_slice(first);
        bytes
    }

    #[test]
    fn integers_stay_or_become_fractions_of_their_largest() {
        let given = bytes(&[255, 0x80, 1, 0x7f]);
        let floats = |channel: Channel| channel.read_all(&given, 4, false).map(f32::from_bits);
        assert_eq!(Channel::Unsigned8.read_all(&given, 4, true), [255, 128, 1, 127]);
        assert_eq!(floats(Channel::Unsigned8), [1.0, 128.0 / 255.0, 1.0 / 255.0, 127.0 / 255.0]);
        assert_eq!(Channel::Signed8.read_all(&given, 2, true), [u32::MAX, u32::MAX - 127, 0, 0]);
        // Both of the lowest numbers are -1.
        assert_eq!(floats(Channel::Signed8), [-1.0 / 127.0, -1.0, 1.0 / 127.0, 1.0]);
    }

    #[test]
    fn floats_and_large_integers_are_never_changed() {
        let given = bytes(&[0x00, 0x3c, 0x00, 0xc0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(Channel::Half.read_all(&given, 2, true).map(f32::from_bits), [1.0, -2.0, 0.0, 0.0]);
        assert_eq!(Channel::Signed32.read_all(&given, 2, false)[1], u32::MAX);
        assert!(!Channel::Signed32.reads_float(false) && Channel::Half.reads_float(true));
    }
}
