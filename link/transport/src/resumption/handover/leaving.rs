//! Takes a link down: what another process needs to continue it.
//! In: a link whose readers rest and on which nobody sends. Out: its image, or why it cannot be taken down now. The link
//! stays as it is, so that this process may go on with it.

use std::os::fd::OwnedFd;

use thiserror::Error;

use super::image::{ChannelImage, ChannelsImage, EndsImage, LinkImage, MOST_AHEAD, RingsImage};
use crate::frames::receiver::Receiver;
use crate::frames::sender::Sender;
use crate::pipes::pipe::{Movable, RingParts};
use crate::resumption::channel::ChannelMemory;
use crate::resumption::channels::{Channels, MAIN_CHANNEL};
use crate::resumption::log::Unkept;
use crate::resumption::session::SessionImage;

/// The two directions of one channel, whose threads rest.
#[derive(Clone, Copy, Debug)]
pub struct ChannelEnds<'a> {
    /// Its number.
    pub channel: u32,
    /// Nobody sends here meanwhile.
    pub sender: &'a Sender,
    /// Nobody reads here meanwhile.
    pub receiver: &'a Receiver,
}

/// A link that was taken down.
#[derive(Debug)]
pub struct TakenLink {
    /// What it remembers.
    pub image: LinkImage,
    /// The descriptor that came with a frame which was not given out, to go along.
    pub descriptor: Option<OwnedFd>,
}

/// Why a link cannot be taken down now. Nothing has changed.
#[derive(Debug, Error)]
pub enum NotTaken {
    /// A thread is about to send, or frames wait to be sent.
    #[error("something is still being sent on channel {0}")]
    Sends(u32),
    /// A descriptor has been sent, and the peer has not said that it has it.
    #[error("a descriptor is on its way to the client on channel {0}")]
    Descriptor(u32),
    /// A channel's reader has not stopped.
    #[error("channel {0} is still read")]
    Reads(u32),
    /// More is kept for the peer, or was read ahead, than an image carries.
    #[error("channel {channel} has {bytes} bytes in flight, more than can be carried")]
    TooMuch {
        /// The channel.
        channel: u32,
        /// The bytes.
        bytes: u64,
    },
    /// Either side has left.
    #[error("the session is over")]
    Over,
    /// It is a plain socket, whose session ends with it.
    #[error("the connection has no grace period, so it cannot be left: start the server with --grace above 0")]
    NoGrace,
    /// The system refuses.
    #[error("duplicating a descriptor for another process: {0}")]
    System(#[from] std::io::Error),
}

/// The descriptors that the process which continues a link needs, at any time. `None`: none, the client comes to it.
///
/// # Errors
/// [`NotTaken::NoGrace`] where no process can continue the link; [`NotTaken::System`].
pub fn ring_parts(channels: Option<&Channels>, main: &Sender) -> Result<Option<RingParts>, NotTaken> {
    if channels.is_some() {
        return Ok(None);
    }
    let pipe = main.pipe();
    Ok(Some(pipe.movable().ok_or(NotTaken::NoGrace)?.parts()?))
}

/// Has a link stand still: connections that can be made again are left, rings are held. Writers wait from here on, and
/// readers that were asked to stop do. False: the session is over, or stands still already.
///
/// # Errors
/// [`NotTaken::NoGrace`] where no process can continue the link.
pub fn hold(channels: Option<&Channels>, main: &Sender) -> Result<bool, NotTaken> {
    if let Some(channels) = channels {
        return Ok(channels.park());
    }
    main.pipe().movable().ok_or(NotTaken::NoGrace)?.hold();
    Ok(true)
}

/// Has a link that stands still go on in this process. False: another process has used it.
#[must_use]
pub fn go_on(channels: Option<&Channels>, main: &Sender) -> bool {
    if let Some(channels) = channels {
        channels.unpark();
        return true;
    }
    main.pipe().movable().is_some_and(Movable::let_write)
}

/// What a link remembers that stands still, whose readers rest. `ends` are those of all its channels, the main one
/// first.
///
/// # Errors
/// [`NotTaken`]; the link still stands still.
pub fn take_down(channels: Option<&Channels>, ends: &[ChannelEnds<'_>]) -> Result<TakenLink, NotTaken> {
    let main = ends.first().ok_or(NotTaken::Reads(MAIN_CHANNEL))?;
    let descriptor = main.receiver.duplicate_descriptor()?;
    let Some(channels) = channels else {
        let indices = main.sender.pipe().movable().ok_or(NotTaken::NoGrace)?.indices();
        return Ok(TakenLink { image: LinkImage::Rings(RingsImage { indices, ends: main.image()? }), descriptor });
    };
    if channels.is_over() {
        return Err(NotTaken::Over);
    }
    let of = |channel| ends.iter().find(|ends| ends.channel == channel).ok_or(NotTaken::Reads(channel));
    let mut images = Vec::new();
    for channel in channels.all() {
        // The frames are counted first: what is sent behind them waits, and is not in the channel.
        let ends = of(channel)?.image()?;
        let memory = channels.memory(channel).map_err(|unkept| not_taken(channel, unkept))?;
        let ChannelMemory { inbound, acknowledged, kept } = memory;
        images.push(ChannelImage { index: channel, inbound, acknowledged, kept, ends });
    }
    let SessionImage { epoch, questions, trip } = channels.image();
    let image = LinkImage::Channels(ChannelsImage { epoch, questions, trip, channels: images });
    Ok(TakenLink { image, descriptor })
}

impl ChannelEnds<'_> {
    fn image(&self) -> Result<EndsImage, NotTaken> {
        let sent = self.sender.at_rest().ok_or(NotTaken::Sends(self.channel))?;
        let ahead = self.receiver.ahead();
        if ahead.len() > MOST_AHEAD {
            return Err(NotTaken::TooMuch { channel: self.channel, bytes: ahead.len() as u64 });
        }
        Ok(EndsImage { sent, received: self.receiver.received(), ahead: ahead.to_vec() })
    }
}

fn not_taken(channel: u32, unkept: Unkept) -> NotTaken {
    match unkept {
        Unkept::Hole => NotTaken::Sends(channel),
        Unkept::Descriptor => NotTaken::Descriptor(channel),
        Unkept::TooMuch(bytes) => NotTaken::TooMuch { channel, bytes },
    }
}
