//! Arbitrary bytes as frames of a client and of a server.
//! In: bytes. Out: nothing; a panic, a read past the end or memory out of proportion is the finding.
//! A message that decodes must encode to the same bytes.
#![no_main]

use floe_wire::{FrameHeader, HEADER_BYTES, PAYLOAD_LIMIT, Push, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Some((header, payload)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let Ok(header) = FrameHeader::decode(header, PAYLOAD_LIMIT) else { return };
        // The present part of the payload: half a frame is decoded too, as a shorter one.
        let length = usize::try_from(header.length).unwrap_or(usize::MAX).min(payload.len());
        let (payload, next) = payload.split_at(length);
        let mut again = Vec::new();
        if let Ok(request) = Request::decode(header.kind, payload) {
            request.encode(&mut again);
            assert_eq!(again, payload, "{}", request.name());
        }
        again.clear();
        if let Ok(push) = Push::decode(header.kind, payload) {
            push.encode(&mut again);
            assert_eq!(again, payload, "{}", push.name());
        }
        rest = next;
    }
});
