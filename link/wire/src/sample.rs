//! For tests: values of every field type, drawn from arbitrary bytes.
//! In: a byte string, as a property test makes it. Out: values that borrow from it.
//! When the bytes run out it gives zeros and empty strings.

use floe_address::DevicePtr;

use crate::ids::{
    ArrayId, BlockId, CommId, EventId, FunctionId, GraphId, KernelId, LibraryId, PeerLinkId, SignalsId, StreamId,
    SurfaceId, TextureId, TicketId,
};

/// Arbitrary bytes to draw from.
pub(crate) struct Source<'a>(pub(crate) &'a [u8]);

impl<'a> Source<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        let taken = self.take(8);
        bytes[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(bytes)
    }

    fn small(&mut self) -> usize {
        self.take(1).first().map_or(0, |byte| usize::from(byte % 7))
    }
}

/// A value drawn from a [`Source`].
pub(crate) trait Sample<'a> {
    fn sample(source: &mut Source<'a>) -> Self;
}

macro_rules! samples {
    ($($kind:ty: |$source:ident| $value:expr;)*) => {$(
        impl<'a> Sample<'a> for $kind {
            #[allow(clippy::cast_possible_truncation, reason = "any bits will do")]
            fn sample($source: &mut Source<'a>) -> Self {
                $value
            }
        }
    )*};
}

samples! {
    u8: |source| source.number() as u8;
    u16: |source| source.number() as u16;
    u32: |source| source.number() as u32;
    u64: |source| source.number();
    i32: |source| (source.number() as u32).cast_signed();
    f32: |source| f32::from(source.number() as u16);
    bool: |source| source.small() % 2 == 1;
    &'a [u8]: |source| {
        let count = source.small() * 5;
        source.take(count)
    };
    &'a str: |source| {
        let count = source.small();
        std::str::from_utf8(source.take(count)).unwrap_or("not text")
    };
    StreamId: |source| Self(source.number());
    ArrayId: |source| Self(source.number());
    TextureId: |source| Self(source.number());
    SurfaceId: |source| Self(source.number());
    TicketId: |source| Self(source.number());
    PeerLinkId: |source| Self(source.number());
    CommId: |source| Self(source.number());
    SignalsId: |source| Self(source.number());
    EventId: |source| Self(source.number());
    GraphId: |source| Self(source.number());
    LibraryId: |source| Self(source.number());
    KernelId: |source| Self(source.number());
    BlockId: |source| Self(source.number());
    FunctionId: |source| Self(source.number());
    DevicePtr: |source| Self(source.number());
}

impl<'a, T: Sample<'a>> Sample<'a> for Vec<T> {
    fn sample(source: &mut Source<'a>) -> Self {
        (0..source.small()).map(|_| T::sample(source)).collect()
    }
}
