//! Handles as the driver API passes them: pointers and numbers that mean something only to the implementation that made them. They come
//! in from C and go to the implementation behind the surface. No handle here can be dereferenced.

pub use floe_address::DevicePtr;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// The handle C calls NULL.
            pub const NULL: Self = Self(0);

            /// Whether this is C's NULL.
            pub const fn is_null(self) -> bool {
                self.0 == 0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl From<u64> for $name {
            fn from(value: u64) -> Self {
                Self(value)
            }
        }

        // The driver API passes these as pointers or 64-bit numbers; both are one register.
        const _: () = assert!(size_of::<$name>() == 8 && align_of::<$name>() == 8);
    )*};
}

handles! {
    /// `CUcontext`.
    Context;
    /// `CUmodule`.
    Module;
    /// `CUlibrary`.
    Library;
    /// `CUkernel`: a kernel of a library, the same in every context.
    Kernel;
    /// `CUfunction`. A program may pass a [`Kernel`] wherever a function is expected (the runtime always does), so
    /// implementations take both from one set of numbers.
    Function;
    /// `CUstream`. The surface never lets 0 through where a stream is used: it becomes [`Stream::LEGACY`] or
    /// [`Stream::PER_THREAD`].
    Stream;
    /// `CUevent`.
    Event;
    /// `CUmemoryPool`.
    MemPool;
    /// `CUmemGenericAllocationHandle`: physical memory not yet mapped anywhere.
    MemHandle;
    /// An address in the calling process, of memory that the driver made or that was registered with it. It is a number
    /// here: reading or writing through it needs a range that the surface vouches for.
    HostPointer;
    /// `CUgraph`.
    Graph;
    /// `CUgraphNode`: a node of one graph.
    GraphNode;
    /// `CUgraphExec`: a graph made ready to be launched.
    GraphExec;
    /// `CUuserObject`: an object of the program that graphs keep alive.
    UserObject;
    /// `CUgreenCtx`.
    GreenContext;
    /// `CUarray`: elements in an order only the device knows.
    Array;
    /// `CUmipmappedArray`: arrays of one image in ever smaller sizes, its levels.
    MipmappedArray;
    /// `CUtexObject`: how kernels read an array or memory. The number is the device's: kernels get it by value.
    TextureObject;
    /// `CUsurfObject`: how kernels write an array. The number is the device's.
    SurfaceObject;
    /// `CUtexref`: a texture reference of a module, which is told what kernels read by it.
    TextureReference;
    /// `CUlinkState`: a link of device code that was begun.
    LinkState;
}

/// `CUdevice`: a device's ordinal as the process sees it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub struct Device(pub i32);

impl Stream {
    /// `CU_STREAM_LEGACY`: the default stream that waits for the others of its context.
    pub const LEGACY: Self = Self(1);
    /// `CU_STREAM_PER_THREAD`: the calling thread's own default stream.
    pub const PER_THREAD: Self = Self(2);

    /// This stream, or `default` where the program passed NULL.
    pub const fn or(self, default: Self) -> Self {
        if self.is_null() { default } else { self }
    }

    /// Whether this is one of the two default streams, which nobody creates or destroys.
    pub const fn is_default(self) -> bool {
        self.0 <= 2
    }
}

impl Function {
    /// The same handle read as a kernel.
    pub const fn as_kernel(self) -> Kernel {
        Kernel(self.0)
    }
}

impl Kernel {
    /// The same handle where a function is expected.
    pub const fn as_function(self) -> Function {
        Function(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_stream_becomes_the_default_of_its_symbol_and_a_handle_stays() {
        assert_eq!(Stream::NULL.or(Stream::LEGACY), Stream::LEGACY);
        assert_eq!(Stream::NULL.or(Stream::PER_THREAD), Stream::PER_THREAD);
        assert_eq!(Stream(0x77).or(Stream::LEGACY), Stream(0x77));
    }
}
