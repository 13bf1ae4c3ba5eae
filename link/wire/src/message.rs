//! The properties of every message: a kind, a name, a class and an encoding.
//! In: a message or a payload. Out: the other, whole.
//! It never decodes part of a payload: bytes left over are an error.

use crate::error::{DecodeError, Problem};
use crate::reader::{Field, Reader};

/// Whether and how a message is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Not answered.
    Post,
    /// One `Reply`.
    Call,
    /// Any number of `Delivery`, then one `Reply`.
    Deliver,
    /// From the server, unasked.
    Push,
}

/// A message of the table.
pub trait Message {
    /// The frame's kind.
    const KIND: u16;
    /// Whether and how it is answered.
    const CLASS: Class;
    /// Its name in the table.
    const NAME: &'static str;
    /// Whether its last field is `bytes`: then [`Message::encode_head`] leaves these out and returns them, so that bulk
    /// data are sent from where they lie.
    const TAIL: bool;

    /// Appends the payload up to the trailing `bytes` (their length included) and returns these bytes. Without trailing
    /// `bytes`, appends the whole payload and returns nothing.
    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8];

    /// Appends the whole payload.
    fn encode(&self, out: &mut Vec<u8>) {
        let tail = self.encode_head(out);
        out.extend_from_slice(tail);
    }
}

/// A message that can be read from a payload.
pub trait Decode<'a>: Message + Field<'a> {
    /// Reads exactly one message.
    ///
    /// # Errors
    /// [`DecodeError`] when the payload is anything else.
    fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        decode_whole(Self::NAME, payload)
    }
}

impl<'a, M: Message + Field<'a>> Decode<'a> for M {}

/// A message that is answered by a `Reply`.
pub trait Call: Message {
    /// The reply's fields when its status is success; `()` when there are none.
    type Reply<'a>: Field<'a>;

    /// Reads the body of a `Reply` whose status is success.
    ///
    /// # Errors
    /// [`DecodeError`] when the body is not exactly this message's reply.
    fn decode_reply(body: &[u8]) -> Result<Self::Reply<'_>, DecodeError> {
        decode_whole(Self::NAME, body)
    }
}

/// Reads exactly one value; `name` is what errors call it.
pub(crate) fn decode_whole<'a, T: Field<'a>>(name: &'static str, payload: &'a [u8]) -> Result<T, DecodeError> {
    let mut reader = Reader::new(name, payload);
    let value = T::read(&mut reader)?;
    match reader.left() {
        0 => Ok(value),
        left => Err(reader.error(Problem::Long(left))),
    }
}
