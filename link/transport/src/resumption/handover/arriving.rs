//! Continues a link that another process took down.
//! In: what is known of the link ahead of its image, then the image. Out: the link's two directions, which go on where
//! the other process stopped. Nothing is read or written before that, and no grace period counts before [`SetUp::begin`].

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::encoding::ImageError;
use super::image::{ChannelImage, ChannelsImage, EndsImage, LinkImage, RingsImage};
use crate::error::LinkError;
use crate::frames::receiver::Receiver;
use crate::frames::sender::Sender;
use crate::link::Link;
use crate::pipes::pipe::{Pipe, Reach, RingParts};
use crate::pipes::rings::{RingPipe, Rings};
use crate::resumption::channel::ChannelMemory;
use crate::resumption::channels::{Channels, MAIN_CHANNEL};
use crate::resumption::session::SessionImage;

/// A link that arrives, and carries nothing yet.
#[derive(Debug)]
pub struct ArrivingLink {
    sender: Sender,
    receiver: Receiver,
    carrier: Carrier,
}

#[derive(Debug)]
enum Carrier {
    Channels(Channels),
    Rings(Arc<RingPipe>),
}

/// A link that continues. Readers may be started at [`SetUp::begin`].
#[derive(Debug)]
pub struct SetUp {
    /// Of the main channel: clones of [`ArrivingLink::sender`] send on it, too.
    pub sender: Sender,
    /// Of the main channel.
    pub receiver: Receiver,
    /// The connections of a resumable session: the client makes them.
    pub channels: Option<Channels>,
    /// The other channels.
    pub bulk: Vec<(u32, Sender, Receiver)>,
}

impl ArrivingLink {
    /// A resumable session's, whose client connects again from where it may be, and may be missing for `grace`.
    #[must_use]
    pub fn of_channels(grace: Duration, reach: Reach) -> Self {
        let (channels, link) = Channels::expecting(grace, reach);
        let (sender, receiver) = link.split();
        Self { sender, receiver, carrier: Carrier::Channels(channels) }
    }

    /// Over rings, which the other process may still be using.
    ///
    /// # Errors
    /// [`LinkError::System`] where the descriptors name no rings, or a thread does not start.
    pub fn of_rings(parts: RingParts) -> Result<Self, LinkError> {
        let pipe = Rings::expect(parts)?;
        let (sender, receiver) = Link::over(Arc::clone(&pipe) as Arc<dyn Pipe>).split();
        Ok(Self { sender, receiver, carrier: Carrier::Rings(pipe) })
    }

    /// The sender of the main channel. What is sent on it before [`ArrivingLink::set_up`] breaks the link.
    #[must_use]
    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Becomes the link that another process took down, with the descriptor that came along.
    ///
    /// # Errors
    /// [`ImageError`] where the image is of another kind of link, or cannot be one.
    pub fn set_up(self, image: &LinkImage, descriptor: Option<OwnedFd>) -> Result<SetUp, ImageError> {
        let Self { sender, mut receiver, carrier } = self;
        match (carrier, image) {
            (Carrier::Rings(pipe), LinkImage::Rings(RingsImage { indices, ends })) => {
                pipe.resume(*indices)
                    .map_err(|_| ImageError::Impossible("indices of rings that do not go together"))?;
                recall(&sender, &mut receiver, ends, descriptor);
                Ok(SetUp { sender, receiver, channels: None, bulk: Vec::new() })
            }
            (Carrier::Channels(channels), LinkImage::Channels(image)) => {
                let ChannelsImage { epoch, questions, trip, channels: images } = image;
                channels.recall(SessionImage { epoch: *epoch, questions: *questions, trip: *trip });
                let mut bulk = Vec::new();
                let (mut main, mut descriptor) = (Some((sender, receiver)), descriptor);
                let mut own = None;
                for image in images {
                    let is_main = image.index == MAIN_CHANNEL;
                    let (sender, mut receiver) = match main.take_if(|_| is_main) {
                        Some(ends) => ends,
                        None => channels.link(image.index).halves(),
                    };
                    recall_channel(&channels, image)?;
                    recall(&sender, &mut receiver, &image.ends, if is_main { descriptor.take() } else { None });
                    if is_main {
                        own = Some((sender, receiver));
                    } else {
                        bulk.push((image.index, sender, receiver));
                    }
                }
                let (sender, receiver) = own.ok_or(ImageError::Impossible("a session without its main channel"))?;
                Ok(SetUp { sender, receiver, channels: Some(channels), bulk })
            }
            _ => Err(ImageError::Kind),
        }
    }
}

impl SetUp {
    /// The session is this process's from here on: its client may come, and is waited for.
    pub fn begin(&self) {
        if let Some(channels) = &self.channels {
            channels.hear_goodbye();
            channels.unpark();
        }
    }
}

fn recall_channel(channels: &Channels, image: &ChannelImage) -> Result<(), ImageError> {
    let ChannelImage { index, inbound, acknowledged, kept, .. } = image;
    let memory = ChannelMemory { inbound: inbound.clone(), acknowledged: acknowledged.clone(), kept: kept.clone() };
    if channels.recall_channel(*index, &memory) { Ok(()) } else { Err(ImageError::Impossible("such a digest")) }
}

fn recall(sender: &Sender, receiver: &mut Receiver, ends: &EndsImage, descriptor: Option<OwnedFd>) {
    sender.recall(ends.sent);
    receiver.recall(ends.received, &ends.ahead, descriptor);
}
