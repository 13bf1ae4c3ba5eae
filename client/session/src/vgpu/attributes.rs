//! A launch's attributes as they travel. C's attributes come in, each goes out with as many bytes as mean something: the rest
//! of C's union is whatever the program's memory held. Attributes that name an object of this process are translated or
//! refused by name.

use floe_abi::{CudaError, CudaResult, Event, LaunchAttribute, launch_attribute};
use floe_surface::Launch;

use crate::log::log;

/// The longest value that means something.
const LONGEST: usize = 32;

/// An attribute's number and the bytes of its value; those behind `length` are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Value {
    id: u32,
    length: usize,
    bytes: [u8; LONGEST],
}

/// The attributes of one launch that say something.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attributes {
    values: Vec<Value>,
}

/// Bytes of an attribute's value; `None` for attributes that mean nothing at the server.
fn length(id: u32) -> Option<usize> {
    use launch_attribute as a;
    Some(match id {
        a::ACCESS_POLICY_WINDOW => 32,
        a::CLUSTER_DIMENSION | a::PREFERRED_CLUSTER_DIMENSION | a::LAUNCH_COMPLETION_EVENT => 12,
        a::PROGRAMMATIC_EVENT => 16,
        a::MEM_SYNC_DOMAIN_MAP => 2,
        a::COOPERATIVE
        | a::SYNCHRONIZATION_POLICY
        | a::CLUSTER_SCHEDULING_POLICY_PREFERENCE
        | a::PROGRAMMATIC_STREAM_SERIALIZATION
        | a::PRIORITY
        | a::MEM_SYNC_DOMAIN
        | a::PREFERRED_SHARED_MEMORY_CARVEOUT
        | a::NVLINK_UTIL_CENTRIC_SCHEDULING => 4,
        _ => return None,
    })
}

fn is_event(id: u32) -> bool {
    matches!(id, launch_attribute::PROGRAMMATIC_EVENT | launch_attribute::LAUNCH_COMPLETION_EVENT)
}

/// The events a launch's attributes name.
pub(crate) fn events(attributes: &[LaunchAttribute]) -> impl Iterator<Item = Event> {
    attributes.iter().filter(|attribute| is_event(attribute.id)).map(|attribute| Event(attribute.value.words[0]))
}

fn value(attribute: &LaunchAttribute, length: usize) -> Value {
    let mut bytes = [0; LONGEST];
    for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(attribute.value.words) {
        *bytes = word.to_le_bytes();
    }
    bytes[length..].fill(0);
    Value { id: attribute.id, length, bytes }
}

impl Attributes {
    /// The attributes of a launch, events still as the program names them. A launch without attributes allocates nothing.
    ///
    /// # Errors
    /// NOT_SUPPORTED for an attribute that would mean something else at the server.
    pub(crate) fn of_launch(launch: &Launch<'_>) -> CudaResult<Self> {
        let mut attributes = Self::of_node(launch.attributes)?;
        let values = &mut attributes.values;
        if launch.cooperative && !values.iter().any(|value| value.id == launch_attribute::COOPERATIVE) {
            let mut bytes = [0; LONGEST];
            bytes[0] = 1;
            values.push(Value { id: launch_attribute::COOPERATIVE, length: 4, bytes });
        }
        Ok(attributes)
    }

    /// The attributes of a kernel in a graph.
    ///
    /// # Errors
    /// As [`Attributes::of_launch`].
    pub(crate) fn of_node(attributes: &[LaunchAttribute]) -> CudaResult<Self> {
        let mut values = Vec::new();
        for attribute in attributes.iter().filter(|attribute| attribute.id != launch_attribute::IGNORE) {
            let Some(length) = length(attribute.id) else {
                let id = attribute.id;
                log!(Warn, "cuLaunchKernelEx: a launch attribute is not supported: CUlaunchAttributeID {id}");
                return Err(CudaError::NOT_SUPPORTED);
            };
            values.push(value(attribute, length));
        }
        Ok(Self { values })
    }

    /// Without those that record events.
    pub(crate) fn without_events(mut self) -> Self {
        self.values.retain(|value| !is_event(value.id));
        self
    }

    /// Blocks per axis of the clusters that are asked for.
    pub(crate) fn cluster(&self) -> Option<[u32; 3]> {
        let value = self.values.iter().find(|value| value.id == launch_attribute::CLUSTER_DIMENSION)?;
        let mut sizes = [0; 3];
        for (size, bytes) in sizes.iter_mut().zip(value.bytes.as_chunks::<4>().0) {
            *size = u32::from_le_bytes(*bytes);
        }
        Some(sizes)
    }

    /// The same with clusters of other sizes.
    pub(crate) fn with_cluster(&self, sizes: [u32; 3]) -> Self {
        let mut changed = self.clone();
        for value in changed.values.iter_mut().filter(|value| value.id == launch_attribute::CLUSTER_DIMENSION) {
            for (bytes, size) in value.bytes.as_chunks_mut::<4>().0.iter_mut().zip(sizes) {
                *bytes = size.to_le_bytes();
            }
        }
        changed
    }

    /// Names the events in it as the server knows them.
    pub(crate) fn name_events(&mut self, name: impl Fn(Event) -> CudaResult<u64>) -> CudaResult<()> {
        for value in self.values.iter_mut().filter(|value| is_event(value.id)) {
            if let Some(handle) = value.bytes.first_chunk_mut::<8>() {
                *handle = name(Event(u64::from_le_bytes(*handle)))?.to_le_bytes();
            }
        }
        Ok(())
    }

    /// As a word of text.
    pub(crate) fn to_text(&self) -> String {
        let hex =
            |value: &Value| value.bytes[..value.length].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let values: Vec<_> = self.values.iter().map(|value| format!("{}={}", value.id, hex(value))).collect();
        if values.is_empty() { "-".to_owned() } else { values.join(",") }
    }

    /// The attributes of such a word: none of them names an event, and each has the bytes that mean something.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        if text == "-" {
            return Some(Self::default());
        }
        let value = |text: &str| {
            let (id, hex) = text.split_once('=')?;
            let id = id.parse().ok().filter(|id| !is_event(*id))?;
            let length = length(id).filter(|length| hex.len() == 2 * length && hex.is_ascii())?;
            let mut bytes = [0; LONGEST];
            for (at, byte) in bytes[..length].iter_mut().enumerate() {
                *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
            }
            Some(Value { id, length, bytes })
        };
        Some(Self { values: text.split(',').map(value).collect::<Option<_>>()? })
    }

    /// As a message has them.
    #[inline]
    pub(crate) fn on_wire(&self) -> Vec<floe_wire::LaunchAttribute<'_>> {
        // Most launches have none.
        if self.values.is_empty() {
            return Vec::new();
        }
        let values = self.values.iter();
        values.map(|it| floe_wire::LaunchAttribute { id: it.id, value: &it.bytes[..it.length] }).collect()
    }
}

#[cfg(test)]
mod tests {
    use floe_abi::LaunchAttributeValue;

    use super::*;

    fn attribute(id: u32, words: [u64; 8]) -> LaunchAttribute {
        LaunchAttribute { id, value: LaunchAttributeValue { words }, ..LaunchAttribute::default() }
    }

    #[test]
    fn only_bytes_that_mean_something_are_taken() {
        let garbage = u64::MAX;
        let cluster =
            attribute(launch_attribute::CLUSTER_DIMENSION, [2 | 1 << 32, 1 | garbage << 32, garbage, 0, 0, 0, 0, 0]);
        let value = value(&cluster, length(cluster.id).unwrap());
        assert_eq!(value.bytes[..value.length], [2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(value.bytes[value.length..], [0; 20]);
    }

    #[test]
    fn attributes_are_what_their_text_says_and_nothing_else_is_one() {
        let attributes = [
            attribute(launch_attribute::CLUSTER_DIMENSION, [2 | 1 << 32, 1, 0, 0, 0, 0, 0, 0]),
            attribute(launch_attribute::COOPERATIVE, [1, 0, 0, 0, 0, 0, 0, 0]),
        ];
        for attributes in [&attributes[..], &attributes[..1], &[]] {
            let attributes = Attributes::of_node(attributes).unwrap();
            assert_eq!(Attributes::of_text(&attributes.to_text()), Some(attributes));
        }
        let event = format!("{}={}", launch_attribute::PROGRAMMATIC_EVENT, "00".repeat(16));
        for text in ["", "2=0", "2=", "2=+1", "999=00", "x", &event, "2=01000000,"] {
            assert_eq!(Attributes::of_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_graph_node_of_the_device_is_not_for_the_wire() {
        assert_eq!(length(launch_attribute::DEVICE_UPDATABLE_KERNEL_NODE), None);
        assert_eq!(length(999), None);
    }
}
