//! Values of launch attributes, which launches, nodes of graphs and streams have alike. A number and a value come in; what
//! CUDA does not name is refused here, before it goes anywhere.

use floe_abi::{
    CudaError, CudaResult, LaunchAttribute, LaunchAttributeValue, cluster_scheduling, launch_attribute as a,
};

use crate::process::refusals::refused_once;

/// Greatest `CUsynchronizationPolicy`, CU_SYNC_POLICY_BLOCKING_SYNC; the least, CU_SYNC_POLICY_AUTO, is 1.
const LAST_POLICY: u32 = 4;
/// Greatest `CUlaunchMemSyncDomain`, CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE.
const LAST_DOMAIN: u32 = 1;
/// Greatest `CUaccessProperty`, CU_ACCESS_PROPERTY_PERSISTING, which misses cannot have.
const PERSISTING: u32 = 2;

/// Whether an attribute can have this value. Sizes and events are the implementation's to judge.
///
/// # Errors
/// INVALID_VALUE for numbers and values that CUDA does not name, NOT_SUPPORTED for nodes that kernels change.
pub fn check_attribute(id: u32, value: &LaunchAttributeValue) -> CudaResult<()> {
    let number = value.as_u32();
    let known = match id {
        a::IGNORE
        | a::COOPERATIVE
        | a::CLUSTER_DIMENSION
        | a::PREFERRED_CLUSTER_DIMENSION
        | a::PROGRAMMATIC_STREAM_SERIALIZATION
        | a::PRIORITY
        | a::MEM_SYNC_DOMAIN_MAP => true,
        a::ACCESS_POLICY_WINDOW => {
            let [hit, miss] = properties(value);
            hit <= PERSISTING && miss < PERSISTING
        }
        a::SYNCHRONIZATION_POLICY => (1..=LAST_POLICY).contains(&number),
        a::CLUSTER_SCHEDULING_POLICY_PREFERENCE => number <= cluster_scheduling::LOAD_BALANCING,
        a::MEM_SYNC_DOMAIN => number <= LAST_DOMAIN,
        // Flags of an event's record, of which CU_EVENT_RECORD_EXTERNAL is not for launches.
        a::PROGRAMMATIC_EVENT | a::LAUNCH_COMPLETION_EVENT => value.as_event_flags() == 0,
        // Percent. Only a function has -1, its default.
        a::PREFERRED_SHARED_MEMORY_CARVEOUT => number <= 100,
        a::NVLINK_UTIL_CENTRIC_SCHEDULING => number <= 1,
        a::DEVICE_UPDATABLE_KERNEL_NODE => {
            refused_once(format_args!("graph nodes that kernels change are not supported: CUlaunchAttributeID {id}"));
            return Err(CudaError::NOT_SUPPORTED);
        }
        _ => {
            refused_once(format_args!("a launch attribute is none of CUDA 13.0: CUlaunchAttributeID {id}"));
            false
        }
    };
    if known { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

/// The same of all attributes of a launch.
///
/// # Errors
/// As [`check_attribute`]; INVALID_VALUE for what only streams have, INVALID_HANDLE for the event NULL.
pub(crate) fn check_attributes(attributes: &[LaunchAttribute]) -> CudaResult<()> {
    attributes.iter().try_for_each(|attribute| {
        check_attribute(attribute.id, &attribute.value)?;
        match attribute.id {
            a::SYNCHRONIZATION_POLICY => Err(CudaError::INVALID_VALUE),
            a::PROGRAMMATIC_EVENT | a::LAUNCH_COMPLETION_EVENT if attribute.value.words[0] == 0 => {
                Err(CudaError::INVALID_HANDLE)
            }
            _ => Ok(()),
        }
    })
}

/// Whether the clusters that a launch prefers are made of whole clusters of the size it is sure to have, which is its own or the
/// function's.
///
/// # Errors
/// INVALID_CLUSTER_SIZE where not.
pub fn check_preferred_cluster(attributes: &[LaunchAttribute], function: Option<[u32; 3]>) -> CudaResult<()> {
    let asked = |id| {
        let sizes = attributes.iter().find(|attribute| attribute.id == id).map(|it| it.value.as_dimensions());
        sizes.filter(|sizes| *sizes != [0; 3])
    };
    let Some(preferred) = asked(a::PREFERRED_CLUSTER_DIMENSION) else { return Ok(()) };
    let sure = asked(a::CLUSTER_DIMENSION).or(function).ok_or(CudaError::INVALID_CLUSTER_SIZE)?;
    let is_whole =
        preferred.iter().zip(sure).all(|(preferred, sure)| *preferred != 0 && preferred.checked_rem(sure) == Some(0));
    if is_whole { Ok(()) } else { Err(CudaError::INVALID_CLUSTER_SIZE) }
}

/// Whether a stream has an attribute.
///
/// # Errors
/// INVALID_VALUE where not.
pub fn check_stream_attribute(id: u32) -> CudaResult<()> {
    match id {
        a::ACCESS_POLICY_WINDOW
        | a::SYNCHRONIZATION_POLICY
        | a::PRIORITY
        | a::MEM_SYNC_DOMAIN_MAP
        | a::MEM_SYNC_DOMAIN => Ok(()),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// The value of a stream's attribute that nobody has set, which can be set again.
pub fn unset_stream_attribute(id: u32) -> LaunchAttributeValue {
    match id {
        // CU_SYNC_POLICY_AUTO.
        a::SYNCHRONIZATION_POLICY => LaunchAttributeValue::from_u32(1),
        // A byte for each of the two domains: the default one is 0, the remote one 1.
        a::MEM_SYNC_DOMAIN_MAP => LaunchAttributeValue::from_u32(1 << 8),
        _ => LaunchAttributeValue::default(),
    }
}

/// `hitProp` and `missProp` of a window: behind its address, its size and the share of hits.
#[allow(clippy::cast_possible_truncation, reason = "the halves are what is meant")]
fn properties(window: &LaunchAttributeValue) -> [u32; 2] {
    [(window.words[2] >> 32) as u32, window.words[3] as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVALID: CudaResult<()> = Err(CudaError::INVALID_VALUE);

    #[test]
    fn an_attribute_has_the_values_that_cuda_names() {
        let values = [
            (a::SYNCHRONIZATION_POLICY, &[1, 4][..], &[0, 5, u32::MAX][..]),
            (a::CLUSTER_SCHEDULING_POLICY_PREFERENCE, &[0, 2], &[3, u32::MAX]),
            (a::MEM_SYNC_DOMAIN, &[0, 1], &[2]),
            (a::PREFERRED_SHARED_MEMORY_CARVEOUT, &[0, 100], &[101, u32::MAX]),
            (a::NVLINK_UTIL_CENTRIC_SCHEDULING, &[0, 1], &[2]),
            (a::COOPERATIVE, &[0, 1, 7], &[]),
        ];
        for (id, known, unknown) in values {
            let answer = |number: u32| check_attribute(id, &LaunchAttributeValue::from_u32(number));
            assert!(known.iter().all(|number| answer(*number) == Ok(())), "{id}");
            assert!(unknown.iter().all(|number| answer(*number) == INVALID), "{id}");
        }
    }

    #[test]
    fn an_attribute_of_a_stream_that_nobody_set_can_be_set_to_what_it_is() {
        for id in (0..20).filter(|id| check_stream_attribute(*id).is_ok()) {
            assert_eq!(check_attribute(id, &unset_stream_attribute(id)), Ok(()), "{id}");
        }
    }

    /// The codes are an H200's.
    #[test]
    fn a_launch_has_attributes_that_a_stream_has_not_and_the_other_way_round() {
        let with =
            |id, words| LaunchAttribute { id, value: LaunchAttributeValue { words }, ..LaunchAttribute::default() };
        let of = |id, first| check_attributes(&[with(id, [first, 0, 0, 0, 0, 0, 0, 0])]);
        assert_eq!(check_attribute(a::SYNCHRONIZATION_POLICY, &LaunchAttributeValue::from_u32(1)), Ok(()));
        assert_eq!(of(a::SYNCHRONIZATION_POLICY, 1), INVALID);
        assert_eq!([7, 12].map(|event| of(event, 0)), [Err(CudaError::INVALID_HANDLE); 2]);
        assert_eq!(of(a::LAUNCH_COMPLETION_EVENT, 8), Ok(()));
    }

    /// The codes are an H200's.
    #[test]
    fn preferred_clusters_are_made_of_sure_ones() {
        let sizes = |id, x: u64| LaunchAttribute {
            id,
            value: LaunchAttributeValue { words: [x | 1 << 32, 1, 0, 0, 0, 0, 0, 0] },
            ..LaunchAttribute::default()
        };
        let preferred = |x| sizes(a::PREFERRED_CLUSTER_DIMENSION, x);
        let of_two = |x| check_preferred_cluster(&[preferred(x), sizes(a::CLUSTER_DIMENSION, 2)], None);
        let refused = Err(CudaError::INVALID_CLUSTER_SIZE);
        assert_eq!([1, 2, 3, 4].map(of_two), [refused, Ok(()), refused, Ok(())]);
        assert_eq!([1, 2].map(|x| check_preferred_cluster(&[preferred(x)], None)), [refused; 2]);
        assert_eq!(check_preferred_cluster(&[preferred(4)], Some([2, 1, 1])), Ok(()));
        let none = LaunchAttribute { id: a::PREFERRED_CLUSTER_DIMENSION, ..LaunchAttribute::default() };
        assert_eq!(check_preferred_cluster(&[none], None), Ok(()));
    }

    #[test]
    fn a_window_keeps_no_misses() {
        let window = |hit: u64, miss| LaunchAttributeValue { words: [8, 64, hit << 32, miss, 0, 0, 0, 0] };
        let answer = |hit, miss| check_attribute(a::ACCESS_POLICY_WINDOW, &window(hit, miss));
        assert_eq!([answer(0, 0), answer(2, 1)], [Ok(()); 2]);
        assert_eq!([answer(3, 0), answer(2, 2), answer(0, 3)], [INVALID; 3]);
    }

    #[test]
    fn an_event_is_recorded_without_flags() {
        for id in [a::PROGRAMMATIC_EVENT, a::LAUNCH_COMPLETION_EVENT] {
            let answer = |words| check_attribute(id, &LaunchAttributeValue { words });
            // What triggers a programmatic event stands behind the flags.
            assert_eq!(answer([8, 1 << 32, 0, 0, 0, 0, 0, 0]), Ok(()));
            assert_eq!([1, 2].map(|flags| answer([8, flags, 0, 0, 0, 0, 0, 0])), [INVALID; 2]);
        }
    }

    #[test]
    fn nodes_that_kernels_change_and_later_attributes_are_refused() {
        let answer = |id| check_attribute(id, &LaunchAttributeValue::default());
        assert_eq!(answer(a::DEVICE_UPDATABLE_KERNEL_NODE), Err(CudaError::NOT_SUPPORTED));
        assert_eq!([15, 17, 999].map(answer), [INVALID; 3]);
    }
}
