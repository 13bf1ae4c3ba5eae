//! Reads of a handshake: so many bytes, and none behind them.
//! In: a pipe that one thread reads. Out: its next bytes, or why they have not come by the deadline.
//! It never reads ahead: what follows the handshake is for the records.

use std::time::Instant;

use crate::error::LinkError;
use crate::pipes::pipe::Pipe;

/// What is being done, for errors.
pub(super) const DOING: &str = "agreeing on a connection's keys";

/// Fills `target`, and reads nothing behind it.
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
