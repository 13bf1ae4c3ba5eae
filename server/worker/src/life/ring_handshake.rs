//! The handshake for rings in shared memory, ahead of all other messages.
//! In: the session's connection, whose first frame offers the memory. Out: the same connection, over the rings or not.
//! It starts no device, so that the client waits for nothing but this process.

use std::time::{Duration, Instant};

use floe_abi::CudaError;
use floe_transport::{Link, LinkError, Rings};
use floe_wire::{Decode as _, Ended, Message as _, Reply, UseRings};

use super::ending::{Ending, link_ending};
use super::log::Log;

/// The client's longest time for its offer: it has the memory ready.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes the client's rings, or tells the client that the socket stays in use.
///
/// # Errors
/// The reason why the session is over; the client knows it already.
pub fn use_rings(link: &mut Link, log: &Log) -> Result<(), Ending> {
    link.take_descriptors(true);
    let (request, bytes) = offer(link).inspect_err(|ending| say_ended(link, ending))?;
    let file = link.descriptor();
    link.take_descriptors(false);
    let rings = match file {
        Some(file) => Rings::take(file, bytes).map_err(|error| error.to_string()),
        None => Err("no descriptor came with the message".to_owned()),
    };
    let (status, detail) = match &rings {
        Ok(_) => (0, ""),
        Err(words) => (CudaError::NOT_SUPPORTED.code(), words.as_str()),
    };
    let body = &[];
    link.send(&Reply { request, status, earlier: 0, detail, body }).map_err(|error| link_ending(&error))?;
    match rings {
        // The client goes over when it has read the reply.
        Ok(rings) => link.go_over(rings).map_err(|error| Ending::Bug(error.to_string())),
        Err(words) => {
            log.line(format_args!("the session stays on its socket: {words}"));
            Ok(())
        }
    }
}

/// The first frame: its sequence, and the bytes of each ring.
fn offer(link: &mut Link) -> Result<(u64, u32), Ending> {
    let violation = |words: String| Ending::ProtocolViolation(words);
    let frame = match link.receive(Some(Instant::now() + PATIENCE)) {
        Ok(frame) => frame.ok_or(Ending::ClientLeft)?,
        Err(error @ LinkError::TimedOut { .. }) => return Err(violation(error.to_string())),
        Err(error) if error.is_broken_contract() => return Err(violation(error.to_string())),
        Err(error) => return Err(link_ending(&error)),
    };
    if frame.kind != UseRings::KIND {
        return Err(violation(format!("rings were agreed on, the first frame is of kind: {:#06x}", frame.kind)));
    }
    let message = UseRings::decode(frame.payload).map_err(|error| violation(error.to_string()))?;
    Ok((frame.sequence, message.bytes))
}

fn say_ended(link: &mut Link, ending: &Ending) {
    let Some(error) = ending.told() else { return };
    // The client may be gone; the daemon hears it in any case.
    let _ = link.limit_writes(Some(Duration::from_secs(1)));
    let _ = link.send(&Ended { status: error.code(), detail: &ending.to_string() });
}
