//! Bytes of which most are few: those lie where they are held, without an allocation.
//! In: a slice. Out: the same. It changes nothing of it.

use std::ops::Deref;

/// The most bytes that lie in place: those of most messages that make an object.
const IN_PLACE: usize = 38;

/// Bytes that were kept.
#[derive(Clone)]
pub(crate) enum Short {
    InPlace(u8, [u8; IN_PLACE]),
    Boxed(Box<[u8]>),
}

impl Short {
    /// Bytes of memory beside its own.
    pub(crate) fn beside(&self) -> u64 {
        match self {
            Self::InPlace(..) => 0,
            Self::Boxed(bytes) => bytes.len() as u64,
        }
    }

    /// Takes other bytes, in the same memory where they are as many.
    pub(crate) fn set(&mut self, bytes: &[u8]) {
        match self {
            Self::Boxed(present) if present.len() == bytes.len() => present.copy_from_slice(bytes),
            other => *other = bytes.into(),
        }
    }
}

impl From<&[u8]> for Short {
    fn from(bytes: &[u8]) -> Self {
        match (u8::try_from(bytes.len()), bytes.len() <= IN_PLACE) {
            (Ok(length), true) => {
                let mut place = [0; IN_PLACE];
                place[..bytes.len()].copy_from_slice(bytes);
                Self::InPlace(length, place)
            }
            _ => Self::Boxed(bytes.into()),
        }
    }
}

impl Deref for Short {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::InPlace(length, place) => &place[..usize::from(*length)],
            Self::Boxed(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_as_they_are_whatever_their_number() {
        let bytes: Vec<u8> = (0..100).collect();
        for length in [0, 1, 37, 38, 39, 100] {
            let mut short = Short::from(&bytes[..length]);
            assert_eq!((&*short, short.beside() > 0), (&bytes[..length], length > IN_PLACE));
            short.set(&bytes[100 - length..]);
            assert_eq!(&*short, &bytes[100 - length..]);
            short.set(&bytes[..5]);
            assert_eq!(&*short, &bytes[..5]);
        }
    }
}
