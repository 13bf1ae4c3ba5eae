//! Copies to the device that the bulk connections carry: a command for every transfer, its bytes beside it, from where they
//! lie.

use floe_abi::CudaResult;
use floe_surface::HostRange;
use floe_transport::{Help, Load, STRIPED_FROM, transfers};
use floe_wire::CopyBulkToDevice;

use super::Passage;
use crate::order::Course;
use crate::session::Session;

/// Whether a copy of so many bytes goes this way.
pub(super) fn carries(session: &Session, bytes: usize) -> bool {
    bytes >= STRIPED_FROM && session.connection.has_stripes()
}

/// Posts host bytes. They have been read when this returns, or are read later where `passage` says so.
pub(super) fn send(
    session: &Session,
    course: &Course,
    to: u64,
    source: &HostRange,
    passage: Passage,
) -> CudaResult<()> {
    let connection = &session.connection;
    let help = if passage.is_lent { Help::None } else { Help::Follows };
    let load = Load::new(Box::new(session.lent.lend(*source, passage.giving)));
    let posted = transfers(source.len()).try_for_each(|place| {
        let message = CopyBulkToDevice {
            stream: floe_wire::StreamId(course.stream()),
            to: floe_wire::DevicePtr(to + place.start as u64),
            bytes: place.len() as u64,
        };
        course.issue(connection.post_striped(&message, &load, place, help)?);
        Ok(())
    });
    if help == Help::Follows {
        // Also where the link is over: others may still be reading.
        connection.see_off(&load);
    }
    posted
}
