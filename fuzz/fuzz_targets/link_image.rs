//! Images of links: in go any bytes, out come a link that is set up, or an error.
//! In: bytes of a worker that may lie. Out: nothing; a panic, or memory out of proportion, is the finding. An image that
//! decodes must encode to the same bytes.
#![no_main]

use std::time::Duration;

use floe_transport::{ArrivingLink, HistoryDigest, LinkImage, Now, Reach};
use floe_wire::{CopyToDevice, Message as _};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(image) = LinkImage::decode(bytes) else { return };
    assert_eq!(image.encode(), bytes);
    let Ok(set_up) = ArrivingLink::of_channels(Duration::from_secs(1), Reach::Machine).set_up(&image, None) else { return };
    set_up.begin();
    let (channels, mut receiver) = (set_up.channels.expect("it is of channels"), set_up.receiver);
    for channel in channels.all() {
        let mark = channels.freeze(channel);
        let _ = channels.check(channel, HistoryDigest { received: channels.in_flight(), ..mark });
    }
    while matches!(receiver.arrival_now(CopyToDevice::KIND), Ok(Now::Came(_))) {}
    channels.end();
});
