//! Images of links as bytes of a process that may lie: round trips, and whatever else comes.
//! In: images of links that were used, changed at random; any bytes. Out: nothing but the verdict.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::unix::net::UnixStream;
use std::time::Duration;

use floe_transport::{
    ArrivingLink, ChannelEnds, Channels, HistoryDigest, ImageError, Link, LinkImage, MAIN_CHANNEL, Reach, Receiver,
    RingsImage, Sender, hold, take_down,
};
use floe_wire::{CopyToDevice, DevicePtr, Message as _, StreamId};
use proptest::prelude::*;

/// The image of a session that has sent frames of these sizes, two of whose channels nobody reads.
fn image(sizes: &[usize]) -> LinkImage {
    let (_ours, theirs) = UnixStream::pair().unwrap();
    let (channels, link) = Channels::take_over(Link::new(theirs.into()), Duration::from_secs(60));
    let ends: Vec<(u32, (Sender, Receiver))> =
        vec![(MAIN_CHANNEL, link.halves()), (1, channels.link(1).halves()), (2, channels.link(2).halves())];
    for (size, (_, (sender, _))) in sizes.iter().zip(ends.iter().cycle()) {
        let bytes = vec![7; *size];
        sender.send(&CopyToDevice { stream: StreamId(1), to: DevicePtr(2), bytes: &bytes }, |_| ()).unwrap();
    }
    assert!(hold(Some(&channels), &ends[0].1.0).unwrap());
    let ends: Vec<_> =
        ends.iter().map(|(channel, (sender, receiver))| ChannelEnds { channel: *channel, sender, receiver }).collect();
    take_down(Some(&channels), &ends).unwrap().image
}

/// What a process does with an image: it is refused, or becomes a session that its client may join, lie to and leave.
fn use_it(bytes: &[u8]) {
    let Ok(image) = LinkImage::decode(bytes) else { return };
    assert_eq!(image.encode(), bytes);
    let Ok(set_up) = ArrivingLink::of_channels(Duration::from_secs(60), Reach::Machine).set_up(&image, None) else {
        return;
    };
    set_up.begin();
    let (channels, mut receiver) = (set_up.channels.unwrap(), set_up.receiver);
    let all: Vec<_> = set_up.bulk.iter().map(|(channel, ..)| *channel).chain([MAIN_CHANNEL]).collect();
    assert_eq!(channels.all().len(), all.len());
    for channel in all {
        let _ = channels.freeze(channel);
        let _ = channels.check(channel, HistoryDigest { received: channels.in_flight(), digest: 1 });
    }
    // What was read ahead is a frame, or no frame; then nothing comes any more.
    while matches!(receiver.arrival_now(CopyToDevice::KIND), Ok(floe_transport::Now::Came(_))) {}
    channels.end();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn images_come_out_as_they_went_in(sizes in prop::collection::vec(0_usize..10_000, 0..12)) {
        let image = image(&sizes);
        prop_assert_eq!(LinkImage::decode(&image.encode()).unwrap(), image.clone());
        use_it(&image.encode());
        let LinkImage::Channels(memory) = image else { panic!("it is of channels") };
        prop_assert_eq!(memory.channels.len(), 3);
        let sent: usize = memory.channels.iter().map(|channel| channel.kept.len()).sum();
        prop_assert!(sent >= sizes.iter().sum::<usize>());
    }

    #[test]
    fn changed_images_are_refused_or_harmless(
        sizes in prop::collection::vec(0_usize..600, 0..6),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = image(&sizes).encode();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        use_it(&bytes);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_harmless(bytes in prop::collection::vec(any::<u8>(), 0..600), kind in 0_u8..4) {
        use_it(&bytes);
        use_it(&[&[kind], bytes.as_slice()].concat());
    }
}

#[test]
fn what_no_session_has_is_refused_by_name() {
    let LinkImage::Channels(good) = image(&[100, 5_000]) else { panic!("it is of channels") };
    let refused = |change: fn(&mut floe_transport::ChannelsImage)| {
        let mut image = good.clone();
        change(&mut image);
        match LinkImage::decode(&LinkImage::Channels(image).encode()) {
            Err(ImageError::Impossible(what)) => what,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(|image| image.channels.truncate(0)), "a session without its main channel");
    assert_eq!(refused(|image| image.channels.swap(0, 1)), "a session without its main channel");
    assert_eq!(refused(|image| image.channels[1].index = 2), "a channel twice");
    assert_eq!(refused(|image| image.channels[1].index = u32::MAX), "bytes of the acknowledgements' channel");
    assert_eq!(refused(|image| image.channels[0].ends.ahead = vec![1]), "more bytes ahead than have come");
    assert_eq!(refused(|image| image.channels[0].ends.sent = u64::MAX), "so many frames");
    assert_eq!(refused(|image| image.epoch = 0), "an epoch before the first, or the last of all");
    assert_eq!(refused(|image| image.channels = vec![image.channels[0].clone(); 65]), "so many channels");
    let rings = LinkImage::Rings(RingsImage::default());
    let error = ArrivingLink::of_channels(Duration::from_secs(60), Reach::Machine).set_up(&rings, None).unwrap_err();
    assert_eq!(error, ImageError::Kind);
    let long = [rings.encode(), vec![0]].concat();
    assert!(matches!(LinkImage::decode(&long), Err(ImageError::Impossible("bytes behind its end"))));
}
