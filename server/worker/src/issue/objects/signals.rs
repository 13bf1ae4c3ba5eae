//! A page of words that the session shares.
//! In: the page. Out: the same, by id. No logic.

use std::sync::Arc;

use crate::daemon::peer_notices::Returned;
use crate::peer::page::Page;

/// A page of the client's.
pub(crate) struct Signals<M> {
    pub(crate) page: Arc<Page<M>>,
    /// What to say to its owner when it is let go; `None`: it is the session's own.
    pub(crate) imported: Option<Returned>,
}
