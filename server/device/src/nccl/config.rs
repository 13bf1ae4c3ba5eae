//! The configuration of a communicator: numbers by their place in a list come in, NCCL's structure goes out.
//! It never says more than the layout of NCCL 2.28 has, which later versions take as well.

use std::ffi::{CString, c_int};

use super::abi::{Text, text};

/// Numbers that a program can set, in the order of the wire.
const NUMBERS: usize = 11;
const UNDEFINED: c_int = c_int::MIN;
const MAGIC: u32 = 0xcafe_beef;
const VERSION: u32 = 22_800;

/// What a program sets of a communicator.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommConfig<'a> {
    /// cgaClusterSize, minCTAs, maxCTAs, splitShare, trafficClass, collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs,
    /// nChannelsPerNetPeer, nvlinkCentricSched; what is missing is NCCL's to choose.
    pub numbers: &'a [i32],
    /// Its name in NCCL's output.
    pub name: &'a str,
}

/// `ncclConfig_t` of 2.28.
#[repr(C)]
struct Layout {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: Text,
    split_share: c_int,
    traffic_class: c_int,
    comm_name: Text,
    collnet_enable: c_int,
    cta_policy: c_int,
    shrink_share: c_int,
    nvls_ctas: c_int,
    channels_per_net_peer: c_int,
    nvlink_centric: c_int,
}

/// The structure with the text that it points to.
pub(super) struct RawConfig {
    layout: Layout,
    _name: Option<CString>,
}

impl RawConfig {
    pub(super) fn new(config: &CommConfig<'_>) -> Self {
        let mut all = [UNDEFINED; NUMBERS];
        all.iter_mut().zip(config.numbers).for_each(|(to, from)| *to = *from);
        let [cga_cluster_size, min_ctas, max_ctas, split_share, traffic_class, rest @ ..] = all;
        let [collnet_enable, cta_policy, shrink_share, nvls_ctas, channels_per_net_peer, nvlink_centric] = rest;
        let name = text(config.name);
        let layout = Layout {
            size: size_of::<Layout>(),
            magic: MAGIC,
            version: VERSION,
            // The worker has threads of its own that wait.
            blocking: 1,
            cga_cluster_size,
            min_ctas,
            max_ctas,
            net_name: std::ptr::null(),
            split_share,
            traffic_class,
            comm_name: name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()),
            collnet_enable,
            cta_policy,
            shrink_share,
            nvls_ctas,
            channels_per_net_peer,
            nvlink_centric,
        };
        Self { layout, _name: name }
    }

    /// For a call, as long as this lives.
    pub(super) fn pointer(&mut self) -> *mut std::ffi::c_void {
        (&raw mut self.layout).cast()
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn the_layout_is_that_of_nccl_2_28() {
        assert_eq!(size_of::<Layout>(), 80);
        assert_eq!([offset_of!(Layout, net_name), offset_of!(Layout, comm_name)], [32, 48]);
        assert_eq!([offset_of!(Layout, cta_policy), offset_of!(Layout, nvlink_centric)], [60, 76]);
    }

    #[test]
    fn numbers_that_are_not_given_are_nccls_to_choose() {
        let raw = RawConfig::new(&CommConfig { numbers: &[1, 2, 3], name: "" });
        assert_eq!((raw.layout.cga_cluster_size, raw.layout.max_ctas, raw.layout.split_share), (1, 3, UNDEFINED));
        assert!(raw.layout.comm_name.is_null());
    }
}
