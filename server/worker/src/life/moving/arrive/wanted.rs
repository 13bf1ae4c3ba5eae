//! What a session that arrives asks the other worker for, by the ticket of the move.
//! In: the other worker's description of itself. Out: descriptors, through the daemon. It maps nothing.

use std::os::fd::OwnedFd;

use floe_device::Mapped;

use crate::daemon::peer_notices::Kind;
use crate::life::moving::words::Description;
use crate::peer::hub::{Hub, Wanted};
use crate::peer::proof::Key;

/// Why a session does not arrive here.
pub(in crate::life::moving) type Refused = String;

/// A descriptor of the other worker's.
pub(in crate::life::moving) fn file<M: Mapped>(
    hub: &Hub<M>,
    description: &Description,
    number: u64,
) -> Result<OwnedFd, Refused> {
    let imported = hub.ask(&wanted(description, Kind::File, number)?);
    imported.map(|imported| imported.file).map_err(|fault| format!("file {number} of the other worker: {fault}"))
}

/// An object of the other worker's.
pub(super) fn wanted(description: &Description, kind: Kind, object: u64) -> Result<Wanted, Refused> {
    let Description { session, ticket, key, .. } = description;
    let key = Key::of(key).ok_or("a key has another length")?;
    Ok(Wanted { session: *session, ticket: *ticket, key, kind, object })
}
