//! The configuration of a communicator: numbers by their place in a list come in, NCCL's structure goes out.
//! It never says more than the layout of the version that first had what the program sets: later versions take that as well, and
//! an older library is not asked for what it has not.

use std::ffi::{CString, c_int};

use super::abi::{Text, text};
use super::error::{NcclError, result, words_of};

/// Numbers that a program can set, in the order of the wire.
const NUMBERS: usize = 20;
const UNDEFINED: c_int = c_int::MIN;
const MAGIC: u32 = 0xcafe_beef;

/// Versions whose structure has more numbers than the one before, with how many it has. The first is the oldest that floe drives.
const LAYOUTS: [(u32, usize); 6] = [(22_800, 11), (22_902, 13), (23_003, 14), (23_007, 15), (23_102, 19), (23_203, 20)];
/// The numbers that came after NCCL 2.28.
const NEWER: [&str; 9] = [
    "graphUsageMode",
    "numRmaCtx",
    "maxP2pPeers",
    "graphStreamOrdering",
    "launchOrderImplicit",
    "numRmaSig",
    "rmaEagerInit",
    "hostCftMode",
    "nvlsHostMode",
];

/// What a program sets of a communicator.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommConfig<'a> {
    /// cgaClusterSize, minCTAs, maxCTAs, splitShare, trafficClass, collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs,
    /// nChannelsPerNetPeer, nvlinkCentricSched, and those that came later, in the order of `ncclConfig_t`; what is missing is
    /// NCCL's to choose.
    pub numbers: &'a [i32],
    /// Its name in NCCL's output.
    pub name: &'a str,
}

/// `ncclConfig_t` of 2.32.
#[repr(C)]
struct Layout {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    /// cgaClusterSize, minCTAs, maxCTAs.
    first: [c_int; 3],
    net_name: Text,
    /// splitShare, trafficClass.
    second: [c_int; 2],
    comm_name: Text,
    /// collnetEnable and all that follow it.
    rest: [c_int; NUMBERS - 5],
}

/// Bytes of a structure with so many numbers.
fn bytes_with(numbers: usize) -> usize {
    (std::mem::offset_of!(Layout, rest) + (numbers - 5) * size_of::<c_int>()).next_multiple_of(align_of::<Layout>())
}

/// The structure with the text that it points to.
pub(super) struct RawConfig {
    layout: Layout,
    is_given: bool,
    _name: Option<CString>,
}

impl RawConfig {
    /// For a library of that version.
    ///
    /// # Errors
    /// The library has no such number.
    pub(super) fn new(config: &CommConfig<'_>, library: u32) -> Result<Self, NcclError> {
        let mut all = [UNDEFINED; NUMBERS];
        all.iter_mut().zip(config.numbers).for_each(|(to, from)| *to = *from);
        let used = all.iter().rposition(|number| *number != UNDEFINED).map_or(0, |last| last + 1);
        let (version, numbers) = LAYOUTS.into_iter().find(|(_, has)| *has >= used).unwrap_or((u32::MAX, NUMBERS));
        if version > library {
            let member = used.checked_sub(LAYOUTS[0].1 + 1).and_then(|at| NEWER.get(at)).unwrap_or(&"such a member");
            let words = format!("the server's NCCL {} has no {member} in ncclConfig_t", words_of(library));
            return Err(NcclError { code: result::INVALID_USAGE, words });
        }
        let [first @ .., split_share, traffic_class] = [all[0], all[1], all[2], all[3], all[4]];
        let mut rest = [UNDEFINED; NUMBERS - 5];
        rest.copy_from_slice(&all[5..]);
        let name = text(config.name);
        let layout = Layout {
            size: bytes_with(numbers),
            magic: MAGIC,
            version,
            // The worker has threads of its own that wait.
            blocking: 1,
            first,
            net_name: std::ptr::null(),
            second: [split_share, traffic_class],
            comm_name: name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()),
            rest,
        };
        let is_given = !config.numbers.is_empty() || name.is_some();
        Ok(Self { layout, is_given, _name: name })
    }

    /// For a call, as long as this lives.
    pub(super) fn pointer(&mut self) -> *mut std::ffi::c_void {
        (&raw mut self.layout).cast()
    }

    /// The same, or NULL where the program gives none: NCCL takes the parent's then.
    pub(super) fn pointer_or_parents(&mut self) -> *mut std::ffi::c_void {
        if self.is_given { self.pointer() } else { std::ptr::null_mut() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::mem::offset_of;

    use super::*;

    fn numbers(set: &[(usize, c_int)]) -> [c_int; NUMBERS] {
        let mut all = [UNDEFINED; NUMBERS];
        set.iter().for_each(|(at, value)| all[*at] = *value);
        all
    }

    #[test]
    fn the_layout_is_that_of_nccl() {
        assert_eq!([offset_of!(Layout, net_name), offset_of!(Layout, comm_name)], [32, 48]);
        assert_eq!(offset_of!(Layout, rest), 56, "collnetEnable");
        assert_eq!(LAYOUTS.map(|(_, numbers)| bytes_with(numbers)), [80, 88, 96, 96, 112, 120]);
        assert_eq!(size_of::<Layout>(), 120);
        assert_eq!(LAYOUTS[0].1 + NEWER.len(), NUMBERS);
    }

    #[test]
    fn numbers_that_are_not_given_are_nccls_to_choose() {
        let mut raw = RawConfig::new(&CommConfig { numbers: &[1, 2, 3], name: "" }, 23_203).unwrap();
        assert_eq!((raw.layout.first, raw.layout.second), ([1, 2, 3], [UNDEFINED; 2]));
        assert_eq!((raw.layout.version, raw.layout.size), (22_800, 80), "nothing newer is set");
        assert!(raw.layout.comm_name.is_null() && !raw.pointer_or_parents().is_null());
        let mut none = RawConfig::new(&CommConfig::default(), 22_809).unwrap();
        assert!(none.pointer_or_parents().is_null() && !none.pointer().is_null());
    }

    #[test]
    fn a_newer_number_has_the_layout_of_its_version_and_is_refused_by_older_libraries() {
        let all = numbers(&[(5, 1), (12, 4)]);
        let config = CommConfig { numbers: &all, name: "" };
        let raw = RawConfig::new(&config, 22_902).unwrap();
        assert_eq!((raw.layout.version, raw.layout.size), (22_902, 88));
        assert_eq!((raw.layout.rest[0], raw.layout.rest[7]), (1, 4));
        let refused = RawConfig::new(&config, 22_809).map(drop).map_err(|error| error.words);
        assert_eq!(refused, Err("the server's NCCL 2.28.9 has no numRmaCtx in ncclConfig_t".to_owned()));
        let last = numbers(&[(19, 0)]);
        let refused = RawConfig::new(&CommConfig { numbers: &last, name: "" }, 23_102);
        let refused = refused.map(drop).map_err(|error| error.words);
        assert_eq!(refused, Err("the server's NCCL 2.31.2 has no nvlsHostMode in ncclConfig_t".to_owned()));
    }
}
