//! Kernels, host functions and occupancy.
//! In: launches with packed parameters and attributes by value. Out: launches in stream order.
//! An event in an attribute is looked up by the client's id; one that carries anything else of the client's is refused,
//! never passed on.

use floe_abi::{CudaError, LaunchAttribute, LaunchAttributeValue, Stream};
use floe_device::{ClusterQuestion, Device, LaunchRequest};
use floe_wire::{
    AvailableShared, AvailableSharedReply, ClusterOccupancy, ClusterOccupancyReply, EventId, FunctionId, HostFunction,
    Launch, LaunchRequests, MaxActiveBlocks, MaxActiveBlocksReply, RunHostFunction, StreamId,
};

use super::{Answer, Issuer, body};
use crate::complete::completer::{Action, Lane, Task};
use crate::issue::fault::{Fault, violation};
use crate::issue::host_functions::Fill;

/// `CUlaunchAttributeID`s whose value is plain: access policy window (a device address), cooperative, synchronization
/// policy, cluster dimension, cluster policy, programmatic stream serialization, priority, memory synchronization
/// domain map and domain, preferred cluster dimension, preferred shared memory carve-out, NVLink utilization scheduling.
const PLAIN_ATTRIBUTES: [u32; 12] = [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 14, 16];
/// Those whose value begins with an event: programmatic event, launch completion event.
const EVENT_ATTRIBUTES: [u32; 2] = [7, 12];
/// The most attributes of one launch.
const ATTRIBUTES: usize = 64;

impl<D: Device> LaunchRequests for Issuer<D> {
    fn launch(&mut self, message: &Launch<'_>) -> Result<Answer, Fault> {
        self.launch_now(message).inspect_err(|fault| self.note_failed_launch(message, fault))?;
        Ok(Answer::Nothing)
    }

    fn cluster_occupancy(&mut self, message: &ClusterOccupancy<'_>) -> Result<Answer, Fault> {
        let function = self.kernels.get(message.kernel.0)?.function;
        let what = match message.what {
            0 => ClusterQuestion::MostActive,
            1 => ClusterQuestion::LargestSize,
            what => return violation(format!("unknown question about clusters: {what}")),
        };
        let mut attributes = Vec::new();
        plain_attributes(&message.attributes, &mut attributes)?;
        // Events do not change how many fit.
        attributes.retain(|it| !EVENT_ATTRIBUTES.contains(&it.id));
        let count = self.device().cluster_occupancy(
            what,
            &LaunchRequest {
                function,
                grid: [message.grid_x, message.grid_y, message.grid_z],
                block: [message.block_x, message.block_y, message.block_z],
                shared_bytes: message.shared,
                stream: Stream::LEGACY,
                attributes: &attributes,
                parameters: &[],
            },
        )?;
        body(&ClusterOccupancyReply { count })
    }

    fn host_function(&mut self, message: HostFunction) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let stream = self.stream_for_function(message.stream, message.function)?;
        self.stand_behind(sequence, stream, message.function, None)?;
        Ok(Answer::Nothing)
    }

    fn max_active_blocks(&mut self, message: MaxActiveBlocks) -> Result<Answer, Fault> {
        let function = self.kernels.get(message.kernel.0)?.function;
        let shared = usize::try_from(message.shared).map_err(|_| CudaError::INVALID_VALUE)?;
        let blocks = self.device().occupancy_max_active_blocks_per_multiprocessor(
            function,
            message.block,
            shared,
            message.flags,
        )?;
        body(&MaxActiveBlocksReply { blocks })
    }

    fn available_shared(&mut self, message: AvailableShared) -> Result<Answer, Fault> {
        let function = self.kernels.get(message.kernel.0)?.function;
        let bytes =
            self.device().occupancy_available_dynamic_s_mem_per_block(function, message.blocks, message.block)?;
        body(&AvailableSharedReply { bytes: bytes as u64 })
    }
}

impl<D: Device> Issuer<D> {
    fn launch_now(&mut self, message: &Launch<'_>) -> Result<(), Fault> {
        let stream = self.use_stream(message.stream)?;
        let kernel = self.kernels.get(message.kernel.0)?;
        if let Some(bytes) = kernel.parameter_bytes.filter(|bytes| *bytes != message.parameters.len()) {
            return violation(format!(
                "a parameter block of {bytes} bytes was sent with: {}",
                message.parameters.len()
            ));
        }
        let (function, frame) = (kernel.function, kernel.frame);
        self.takes_frame(frame)?;
        // Taken out and put back, so that the next launch finds room in it.
        let mut attributes = std::mem::take(&mut self.attributes);
        plain_attributes(&message.attributes, &mut attributes)?;
        self.name_events(&mut attributes)?;
        let launched = self.device().launch(&LaunchRequest {
            function,
            grid: [message.grid_x, message.grid_y, message.grid_z],
            block: [message.block_x, message.block_y, message.block_z],
            shared_bytes: message.shared,
            stream,
            attributes: &attributes,
            parameters: message.parameters,
        });
        self.attributes = attributes;
        Ok(launched?)
    }

    /// What the launch was to record is not recorded.
    fn note_failed_launch(&mut self, message: &Launch<'_>, fault: &Fault) {
        let mut attributes = Vec::new();
        if plain_attributes(&message.attributes, &mut attributes).is_ok() {
            for event in attributes.iter().filter(|it| EVENT_ATTRIBUTES.contains(&it.id)) {
                self.note_failed_record(EventId(event.value.words[0]), fault);
            }
        }
    }

    /// Puts the driver's events in place of the client's.
    fn name_events(&mut self, attributes: &mut [LaunchAttribute]) -> Result<(), Fault> {
        for attribute in attributes.iter_mut().filter(|it| EVENT_ATTRIBUTES.contains(&it.id)) {
            let handle = &mut attribute.value.words[0];
            *handle = self.recordable_event(EventId(*handle))?.0;
        }
        Ok(())
    }

    /// The stream a host function is for. One that cannot be used refuses the function.
    pub(super) fn stream_for_function(&mut self, id: StreamId, function: FunctionId) -> Result<Stream, Fault> {
        let stream = self.use_stream(id);
        if let Err(Fault::Program(error) | Fault::Explained(error, _)) = &stream {
            if !self.functions.refuse(function) {
                return violation(format!("host function id is taken: {}", function.0));
            }
            self.tell_refusal(function, *error);
        }
        stream
    }

    /// Tells the client that a host function never runs: nobody else would say that it is over.
    fn tell_refusal(&self, function: FunctionId, error: CudaError) {
        // A link that is gone is noticed where it is read.
        let _ = self.shared.sender.post(&RunHostFunction { function, status: error.code() });
    }

    /// Has the stream wait until the client has done what `function` names, and brought the data `fill` takes.
    pub(super) fn stand_behind(
        &mut self,
        sequence: u64,
        stream: floe_abi::Stream,
        function: FunctionId,
        fill: Option<Fill>,
    ) -> Result<(), Fault> {
        let Some(gate) = self.functions.expect(function, fill).filter(|_| function.0 != 0) else {
            return violation(format!("host function id is taken: {}", function.0));
        };
        self.shared.queue.host_function_begins();
        let tasks = self.tasks.clone();
        let reached = move || {
            let action = Action::RunHostFunction(function);
            tasks.add(Task { sequence, lane: Lane::Alone(sequence), completions: Vec::new(), action });
            gate.pass();
        };
        if let Err(error) = self.device().launch_host_function(stream, Box::new(reached)) {
            self.functions.cancel(function);
            self.shared.queue.host_functions_end(1);
            self.tell_refusal(function, error);
            return Err(error.into());
        }
        Ok(())
    }
}

/// Writes the attributes as the device takes them, events still as the client names them, in place of what `passed` has.
pub(super) fn plain_attributes(
    attributes: &[floe_wire::LaunchAttribute<'_>],
    passed: &mut Vec<LaunchAttribute>,
) -> Result<(), Fault> {
    passed.clear();
    if attributes.len() > ATTRIBUTES {
        return violation(format!("more than {ATTRIBUTES} launch attributes: {}", attributes.len()));
    }
    for &floe_wire::LaunchAttribute { id, value } in attributes.iter().filter(|attribute| attribute.id != 0) {
        if !PLAIN_ATTRIBUTES.contains(&id) && !EVENT_ATTRIBUTES.contains(&id) {
            return Err(Fault::Explained(CudaError::NOT_SUPPORTED, format!("launch attribute: {id}")));
        }
        passed.push(LaunchAttribute { id, value: attribute_value(value)?, ..LaunchAttribute::default() });
    }
    Ok(())
}

fn attribute_value(bytes: &[u8]) -> Result<LaunchAttributeValue, Fault> {
    let mut value = [0; 64];
    match value.get_mut(..bytes.len()) {
        Some(begin) => begin.copy_from_slice(bytes),
        None => return violation(format!("a launch attribute of more than 64 bytes: {}", bytes.len())),
    }
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(value.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(LaunchAttributeValue { words })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn plain_attributes_are_passed_on_and_others_refused() {
        let mut passed = vec![LaunchAttribute::default(); 3];
        let mut pass = |id, value| plain_attributes(&[floe_wire::LaunchAttribute { id, value }], &mut passed);
        assert!(matches!(pass(13, &[0; 16]), Err(Fault::Explained(CudaError::NOT_SUPPORTED, _))));
        assert!(matches!(pass(2, &[0; 65]), Err(Fault::ProtocolViolation(_))));
        pass(2, &[1, 0, 0, 0]).unwrap();
        assert_eq!((passed.len(), passed[0].id, passed[0].value.words), (1, 2, [1, 0, 0, 0, 0, 0, 0, 0]));
        plain_attributes(&[floe_wire::LaunchAttribute { id: 0, value: &[] }], &mut passed).unwrap();
        assert_eq!(passed, []);
    }

    #[test]
    fn attribute_value_keeps_its_bytes() {
        let mut bytes = [0; 10];
        (bytes[0], bytes[9]) = (1, 2);
        assert_eq!(attribute_value(&bytes).unwrap().words, [1, 0x200, 0, 0, 0, 0, 0, 0]);
    }
}
