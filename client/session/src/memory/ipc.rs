//! Memory and events that go from one process to another: what the program passes on, what it has exported, what it has opened.
//! Allocations, addresses and the bytes of other programs come in; bytes, descriptors and addresses go out. Nothing that
//! another program passed is believed: the exporter's worker has the last word.

pub(crate) mod descriptor;
pub(crate) mod exporting;
pub(crate) mod exports;
pub(crate) mod opened;
pub(crate) mod opening;
pub(crate) mod passport;
