//! Names of things that cross the wire: ids the client chose, and device addresses.
//! In and out: plain numbers.
//! None of them can be dereferenced, and none is known to exist until the receiver has looked it up.

use floe_address::DevicePtr;

use crate::error::DecodeError;
use crate::reader::{Field, Reader};

/// Eight bytes on the wire.
macro_rules! eight_bytes {
    ($($name:ident)*) => {$(
        impl<'a> Field<'a> for $name {
            const LEAST: usize = 8;

            fn write(&self, out: &mut Vec<u8>) {
                self.0.write(out);
            }

            #[inline]
            fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                u64::read(reader).map(Self)
            }
        }
    )*};
}

macro_rules! number_of {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        eight_bytes!($name);
    )*};
}

number_of! {
    /// A stream; 0 is the legacy default stream.
    StreamId;
    /// An event.
    EventId;
    /// A module or library.
    LibraryId;
    /// A kernel of a library.
    KernelId;
    /// A piece of physical device memory.
    BlockId;
    /// A host function that waits in a stream.
    FunctionId;
    /// A graph.
    GraphId;
    /// An array.
    ArrayId;
    /// A texture.
    TextureId;
    /// A surface.
    SurfaceId;
    /// A ticket that lets another session import.
    TicketId;
    /// A page of words that sessions share.
    SignalsId;
    /// A link to a session of another server.
    PeerLinkId;
    /// A communicator of NCCL.
    CommId;
}

// Not an id but an address, which the C boundary has as well.
eight_bytes!(DevicePtr);
