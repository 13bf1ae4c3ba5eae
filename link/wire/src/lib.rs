//! Messages to bytes and back; no sockets, no clock.
