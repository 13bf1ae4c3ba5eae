//! Compute capabilities of devices, and the targets that entries were compiled for.
//! Numbers are nvcc's: compute capability 9.0 is 90, target `sm_100a` is 100 with a variant.
//! Nothing here reads an image.

use std::fmt;

/// Compute capability of a device, 9.0 for example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// 9 of 9.0.
    pub major: u32,
    /// 0 of 9.0; below 10.
    pub minor: u32,
}

impl ComputeCapability {
    /// As nvcc writes it: 90 for 9.0, 121 for 12.1.
    pub fn number(self) -> u32 {
        self.major.saturating_mul(10).saturating_add(self.minor)
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

/// Which devices beside the named one may run a target's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// `sm_90`: later devices too.
    Generic,
    /// `sm_100f`: later devices of the same major number.
    Family,
    /// `sm_90a`: no other device.
    Architecture,
}

/// A target of compiled code: `sm_90`, `sm_100f`, `sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// 90 of `sm_90a`.
    pub number: u32,
    /// `a` of `sm_90a`.
    pub variant: Variant,
}

impl Target {
    /// Reads `sm_90a` or `compute_90a`; `None` for anything else.
    pub fn from_name(name: &str) -> Option<Self> {
        let digits = name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_"))?;
        let (digits, variant) = match digits.as_bytes().last()? {
            b'a' => (digits.strip_suffix('a')?, Variant::Architecture),
            b'f' => (digits.strip_suffix('f')?, Variant::Family),
            _ => (digits, Variant::Generic),
        };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Self { number: digits.parse().ok()?, variant })
    }

    fn major(self) -> u32 {
        self.number / 10
    }

    /// Whether PTX for this target may be compiled for a device: generic PTX for every later one.
    pub fn ptx_runs_on(self, device: ComputeCapability) -> bool {
        match self.variant {
            Variant::Generic => self.number <= device.number(),
            Variant::Family => self.major() == device.major && self.number <= device.number(),
            Variant::Architecture => self.number == device.number(),
        }
    }

    /// Whether machine code for this target runs on a device: only within a major number.
    pub fn cubin_runs_on(self, device: ComputeCapability) -> bool {
        self.ptx_runs_on(device) && self.major() == device.major
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self.variant {
            Variant::Generic => "",
            Variant::Family => "f",
            Variant::Architecture => "a",
        };
        write!(out, "sm_{}{variant}", self.number)
    }
}
