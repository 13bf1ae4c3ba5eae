//! Exact reads for a handshake: so many bytes, and none behind them.
//! In: a pipe that one thread reads. Out: its next bytes, or why they have not arrived by the deadline.
//! It never reads ahead: the bytes behind the handshake are records.

use std::time::Instant;

use crate::error::LinkError;
use crate::pipes::pipe::Pipe;

/// The action that errors name.
pub(super) const DOING: &str = "agreeing on a connection's keys";

/// Fills `target`, and reads no byte behind it.
pub(super) fn read_exactly(under: &dyn Pipe, mut target: &mut [u8], deadline: Instant) -> Result<(), LinkError> {
    let (began, needed) = (Instant::now(), target.len());
    while !target.is_empty() {
        match under.read_now(target, None).map_err(|failure| LinkError::during(DOING, failure))? {
            Some(0) => return Err(LinkError::CutOff { have: needed - target.len(), needed }),
            Some(count) => target = &mut target[count..],
            None => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let after = deadline.saturating_duration_since(began);
                    return Err(LinkError::TimedOut { what: DOING.into(), after });
                }
                under.wait(Some(left)).map_err(|failure| LinkError::during(DOING, failure))?;
            }
        }
    }
    Ok(())
}
