//! The incoming half of the session's connection.
//! In: frames. Out: commands in the queue; the ends of host functions straight to who waits for them.
//! It decodes nothing else, and it stops reading while the queue is full.

use std::sync::Arc;

use floe_transport::{LinkError, Receiver};
use floe_wire::{Decode as _, HostFunctionDone, Message as _};

use crate::device::Device;
use crate::host_functions::{Done, HostFunctions};
use crate::queue::Command;
use crate::shared::Shared;

/// Why nothing more comes in.
#[derive(Debug)]
pub(crate) enum InputEnd {
    /// The client closed the connection.
    Closed,
    /// The client broke the contract.
    Contract(String),
    /// The connection broke.
    Link(LinkError),
}

/// Reads until the connection ends.
pub(crate) fn read<D: Device>(mut receiver: Receiver, shared: &Arc<Shared<D>>, functions: &HostFunctions) -> InputEnd {
    loop {
        let frame = match receiver.next() {
            Ok(Some(frame)) => frame,
            Ok(None) => return InputEnd::Closed,
            Err(error) if error.is_broken_contract() => return InputEnd::Contract(error.to_string()),
            Err(error) => return InputEnd::Link(error),
        };
        if frame.kind == HostFunctionDone::KIND {
            let function = match HostFunctionDone::decode(frame.payload) {
                Ok(message) => message.function,
                Err(error) => return InputEnd::Contract(error.to_string()),
            };
            match functions.done(function) {
                Done::GoesOn => shared.queue.host_functions_end(1),
                Done::GivenUp => {}
                Done::Unknown => {
                    return InputEnd::Contract(format!("no host function runs with the id: {}", function.0));
                }
            }
            continue;
        }
        let command = Command { sequence: frame.sequence, kind: frame.kind, payload: frame.payload.to_vec() };
        if shared.queue.push(command).is_err() {
            return InputEnd::Contract("4 GiB of commands wait behind a host function that does not return".into());
        }
    }
}
