//! An image as bytes and back.
//! In: an image, or bytes of a process that may lie. Out: bytes, or an image that no session of ours could not have had.
//! It never panics on foreign bytes, and never allocates more than a small multiple of them.

use std::time::Duration;

use floe_wire::{DecodeError, Field, Reader};
use thiserror::Error;

use super::image::{
    ChannelImage, ChannelsImage, EndsImage, LinkImage, MOST_AHEAD, MOST_CHANNELS, MOST_IMAGE_BYTES, RingsImage,
};

/// Which kind of image follows.
const CHANNELS: u8 = 1;
const RINGS: u8 = 2;

/// No link has carried so many bytes or frames, and counting on from there never runs over.
const MOST_COUNTED: u64 = 1 << 62;

/// Bytes that are no image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImageError {
    /// They end too soon, go on too long, or hold a value that is none.
    #[error(transparent)]
    Bytes(#[from] DecodeError),
    /// They say what no link remembers.
    #[error("no link remembers this: {0}")]
    Impossible(&'static str),
    /// It is of another kind of link than the one that was expected.
    #[error("the link is of another kind than the one that was announced")]
    Kind,
}

impl LinkImage {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Channels(image) => {
                CHANNELS.write(&mut out);
                image.write(&mut out);
            }
            Self::Rings(RingsImage { indices, ends }) => {
                RINGS.write(&mut out);
                indices.iter().for_each(|index| index.write(&mut out));
                ends.write(&mut out);
            }
        }
        out
    }

    /// The image of these bytes.
    ///
    /// # Errors
    /// [`ImageError`] where they are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, ImageError> {
        if bytes.len() > MOST_IMAGE_BYTES {
            return Err(ImageError::Impossible("so many bytes in flight"));
        }
        let mut reader = Reader::new("LinkImage", bytes);
        let image = match reader.field::<u8>("kind")? {
            CHANNELS => Self::Channels(reader.field("channels")?),
            RINGS => {
                let indices = [reader.field("written")?, reader.field("taken")?];
                Self::Rings(RingsImage { indices, ends: reader.field("ends")? })
            }
            _ => return Err(ImageError::Impossible("a link of this kind")),
        };
        if reader.left() > 0 {
            return Err(ImageError::Impossible("bytes behind its end"));
        }
        image.check().map(|()| image)
    }

    fn check(&self) -> Result<(), ImageError> {
        match self {
            Self::Channels(image) => image.check(),
            Self::Rings(image) => image.ends.check(),
        }
    }
}

impl ChannelsImage {
    fn check(&self) -> Result<(), ImageError> {
        let impossible = |what| Err(ImageError::Impossible(what));
        if self.channels.len() > MOST_CHANNELS {
            return impossible("so many channels");
        }
        if self.channels.first().is_none_or(|main| main.index != crate::resumption::channels::MAIN_CHANNEL) {
            return impossible("a session without its main channel");
        }
        for (at, channel) in self.channels.iter().enumerate() {
            if self.channels[..at].iter().any(|other| other.index == channel.index) {
                return impossible("a channel twice");
            }
            channel.check()?;
        }
        if self.epoch == 0 || self.epoch == u64::MAX {
            return impossible("an epoch before the first, or the last of all");
        }
        Ok(())
    }
}

impl ChannelImage {
    fn check(&self) -> Result<(), ImageError> {
        if self.index == crate::resumption::channels::ACKNOWLEDGEMENT_CHANNEL {
            return Err(ImageError::Impossible("bytes of the acknowledgements' channel"));
        }
        if !self.inbound.is_possible() || !self.acknowledged.is_possible() {
            return Err(ImageError::Impossible("such a digest"));
        }
        if [self.inbound.at(), self.acknowledged.at()].into_iter().any(|bytes| bytes > MOST_COUNTED) {
            return Err(ImageError::Impossible("so many bytes"));
        }
        if self.ends.ahead.len() as u64 > self.inbound.at() {
            return Err(ImageError::Impossible("more bytes ahead than have come"));
        }
        self.ends.check()
    }
}

impl EndsImage {
    fn check(&self) -> Result<(), ImageError> {
        if self.ahead.len() > MOST_AHEAD {
            return Err(ImageError::Impossible("so many bytes read ahead"));
        }
        if self.sent > MOST_COUNTED || self.received > MOST_COUNTED {
            return Err(ImageError::Impossible("so many frames"));
        }
        Ok(())
    }
}

impl<'a> Field<'a> for ChannelsImage {
    const LEAST: usize = 8 + 16 + 8 + 4;

    fn write(&self, out: &mut Vec<u8>) {
        self.epoch.write(out);
        self.questions.iter().for_each(|question| question.write(out));
        nanoseconds(self.trip).write(out);
        self.channels.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let epoch = u64::read(reader)?;
        let questions = [u64::read(reader)?, u64::read(reader)?];
        let trip = Duration::from_nanos(u64::read(reader)?);
        Ok(Self { epoch, questions, trip, channels: Vec::read(reader)? })
    }
}

impl<'a> Field<'a> for ChannelImage {
    const LEAST: usize = 4 + 2 * crate::resumption::history::DigestImage::LEAST + 4 + EndsImage::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.index.write(out);
        self.inbound.write(out);
        self.acknowledged.write(out);
        self.kept.as_slice().write(out);
        self.ends.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let index = u32::read(reader)?;
        let (inbound, acknowledged) = (Field::read(reader)?, Field::read(reader)?);
        let kept = <&[u8]>::read(reader)?.to_vec();
        Ok(Self { index, inbound, acknowledged, kept, ends: EndsImage::read(reader)? })
    }
}

impl<'a> Field<'a> for EndsImage {
    const LEAST: usize = 8 + 8 + 4;

    fn write(&self, out: &mut Vec<u8>) {
        self.sent.write(out);
        self.received.write(out);
        self.ahead.as_slice().write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (sent, received) = (u64::read(reader)?, u64::read(reader)?);
        Ok(Self { sent, received, ahead: <&[u8]>::read(reader)?.to_vec() })
    }
}

/// A time as the wire has it; one that is longer than centuries is that long.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
