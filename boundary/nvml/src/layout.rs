//! The structs programs pass, laid out as NVIDIA's header has them. Nothing here holds a pointer; sizes are checked when
//! this is compiled. It never says what a value means to floe.

/// A device as a program holds it: opaque, never followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Device(pub usize);

/// A struct whose first field says its layout's size and version.
pub trait Versioned: Copy {
    /// The version this build knows: the layout's size, the number in the highest byte.
    const VERSION: u32;
}

/// A value that a program's variable is set to.
pub trait Output: Copy {
    /// How many of its bytes are written. NVIDIA's library ends a struct's last text with a NUL and leaves the rest of
    /// its room alone, and NCCL's variable for a `PciInfo` has 52 bytes only.
    fn written(&self) -> usize {
        size_of::<Self>()
    }
}

impl Output for u32 {}
impl Output for i32 {}
impl Output for u64 {}
impl Output for Device {}

/// The bytes of a text with its NUL.
fn with_end(text: &[u8]) -> usize {
    text.iter().position(|byte| *byte == 0).map_or(text.len(), |end| end + 1)
}

macro_rules! layouts {
    ($($(#[doc = $doc:literal])* $name:ident, $bytes:literal $(, up to the end of $text:ident)? { $($(#[doc = $field_doc:literal])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(C)]
        pub struct $name {
            $($(#[doc = $field_doc])* pub $field: $kind,)*
        }

        const _: () = assert!(size_of::<$name>() == $bytes);

        impl Output for $name {
            $(fn written(&self) -> usize {
                std::mem::offset_of!($name, $text) + with_end(&self.$text)
            })?
        }
    )*};
}

layouts! {
    /// Bytes of a device.
    Memory, 24 {
        /// All.
        total: u64,
        /// Nobody's.
        free: u64,
        /// Somebody's.
        used: u64,
    }
    /// Bytes of a device, with the driver's own apart.
    MemoryV2, 40 {
        /// Size and number of this layout.
        version: u32,
        /// All.
        total: u64,
        /// The driver's.
        reserved: u64,
        /// Nobody's.
        free: u64,
        /// Somebody's.
        used: u64,
    }
    /// The window through which a host reaches device memory, in bytes.
    Bar1Memory, 24 {
        /// All.
        total: u64,
        /// Free.
        free: u64,
        /// Used.
        used: u64,
    }
    /// How busy, in percent.
    Utilization, 8 {
        /// Multiprocessors.
        gpu: u32,
        /// Memory.
        memory: u32,
    }
    /// A device's place on its bus.
    PciInfo, 68, up to the end of bus_id {
        /// `0000:00:00.0`
        short_bus_id: [u8; 16],
        /// Domain.
        domain: u32,
        /// Bus.
        bus: u32,
        /// Device.
        device: u32,
        /// Device and vendor.
        device_id: u32,
        /// Subsystem.
        subsystem_id: u32,
        /// `00000000:00:00.0`
        bus_id: [u8; 32],
    }
    /// The fields of [`PciInfo`] that every version of the struct has.
    FirstPciInfo, 32 {
        /// `0000:00:00.0`
        short_bus_id: [u8; 16],
        /// Domain.
        domain: u32,
        /// Bus.
        bus: u32,
        /// Device.
        device: u32,
        /// Device and vendor.
        device_id: u32,
    }
    /// [`PciInfo`] as its second version has it.
    ShortPciInfo, 36 {
        /// `0000:00:00.0`
        short_bus_id: [u8; 16],
        /// Domain.
        domain: u32,
        /// Bus.
        bus: u32,
        /// Device.
        device: u32,
        /// Device and vendor.
        device_id: u32,
        /// Subsystem.
        subsystem_id: u32,
    }
    /// A device's place on its bus, and its PCI class.
    PciInfoExt, 64, up to the end of bus_id {
        /// Size and number of this layout.
        version: u32,
        /// Domain.
        domain: u32,
        /// Bus.
        bus: u32,
        /// Device.
        device: u32,
        /// Device and vendor.
        device_id: u32,
        /// Subsystem.
        subsystem_id: u32,
        /// PCI base class.
        base_class: u32,
        /// PCI sub class.
        sub_class: u32,
        /// `00000000:00:00.0`
        bus_id: [u8; 32],
    }
    /// A process on a device, first layout.
    ProcessInfoV1, 16 {
        /// Its id.
        pid: u32,
        /// Bytes it has there.
        used: u64,
    }
    /// A process on a device.
    ProcessInfo, 24 {
        /// Its id.
        pid: u32,
        /// Bytes it has there.
        used: u64,
        /// `0xffffffff` without MIG.
        gpu_instance: u32,
        /// `0xffffffff` without MIG.
        compute_instance: u32,
    }
    /// A process's use of a device.
    ProcessSample, 32 {
        /// Its id.
        pid: u32,
        /// Microseconds since 1970.
        time: u64,
        /// Percent of the multiprocessors.
        sm: u32,
        /// Percent of the memory.
        memory: u32,
        /// Percent of the encoders.
        encoder: u32,
        /// Percent of the decoders.
        decoder: u32,
    }
    /// One value asked for by number.
    FieldValue, 40 {
        /// Which.
        field: u32,
        /// Of what.
        scope: u32,
        /// Microseconds since 1970.
        time: i64,
        /// Microseconds it took.
        latency: i64,
        /// Which member of C's union holds the value.
        kind: u32,
        /// This value's own result.
        result: u32,
        /// C's union.
        value: u64,
    }
    /// A temperature by sensor.
    Temperature, 12 {
        /// Size and number of this layout.
        version: u32,
        /// 0: the GPU.
        sensor: u32,
        /// Degrees Celsius.
        temperature: i32,
    }
    /// Whether the system computes confidentially.
    ConfidentialState, 12 {
        /// Where the system runs: not at all, in trial, in production.
        environment: u32,
        /// 1: yes.
        enabled: u32,
        /// 1: developers' tools are allowed.
        tools: u32,
    }
    /// Whether the system computes confidentially, and its GPUs among themselves.
    ConfidentialSettings, 20 {
        /// Size and number of this layout.
        version: u32,
        /// As in [`ConfidentialState`].
        environment: u32,
        /// 1: yes.
        enabled: u32,
        /// 1: developers' tools are allowed.
        tools: u32,
        /// 0: not; 1: over protected PCIe; 2: over NVLink.
        several: u32,
    }
    /// A UUID as text or bytes.
    UuidValue, 52 {
        /// Size and number of this layout.
        version: u32,
        /// 1: text; 2: bytes.
        kind: u32,
        /// Text up to a NUL, or 16 bytes.
        value: [u8; 41],
    }
}

/// A layout's version as NVIDIA's macro makes it.
const fn version<T>(number: u32) -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "layouts are small")]
    let bytes = size_of::<T>() as u32;
    bytes | number << 24
}

impl Versioned for MemoryV2 {
    const VERSION: u32 = version::<Self>(2);
}

impl Versioned for PciInfoExt {
    const VERSION: u32 = version::<Self>(1);
}

impl Versioned for ConfidentialSettings {
    const VERSION: u32 = version::<Self>(1);
}

impl Versioned for Temperature {
    const VERSION: u32 = version::<Self>(1);
}

impl Versioned for UuidValue {
    const VERSION: u32 = version::<Self>(1);
}
