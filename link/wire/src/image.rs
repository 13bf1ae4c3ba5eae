//! The image of a session's objects: the messages that made and changed them, with the replies they got.
//! In and out: the image, or its bytes, which another worker sends and nobody believes.
//! It holds no bytes of memory and no code: contents are named by their hashes. It carries nothing out.

use crate::error::{DecodeError, Problem};
use crate::reader::{Field, Reader};
use crate::recipe::{Object, ObjectKind, Recipe};
use crate::{Request, message};

/// A message of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// When it was carried out, on a clock that counts the messages of recipes.
    pub when: u64,
    /// It is of an object that is over: only a repeated history has it.
    pub past: bool,
    /// Events and pinned buffers of the worker's own that there were before it.
    pub own: Own,
    /// The frame's kind.
    pub kind: u16,
    /// The frame's payload.
    pub payload: Vec<u8>,
    /// The reply's fields as far as they bind the session; else empty.
    pub reply: Vec<u8>,
}

/// What a worker has taken from its driver for itself: other things lie behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Events.
    pub events: u32,
    /// The pinned buffers it has begun, as bits: uploads, downloads, deferred reads.
    pub buffers: u8,
}

/// An id that is bound to the reason why there is no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// The object that there is not.
    pub object: Object,
    /// The CUDA error of each use.
    pub error: u32,
}

/// The objects of a session, or what has changed of them since an earlier image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The clock after the last message that it has.
    pub clock: u64,
    /// The clock from which on it has all; 0: from the beginning.
    pub since: u64,
    /// Whether the entries have all of the history that matters for addresses.
    pub whole: bool,
    /// Bytes of the largest frame of a kernel that was launched.
    pub frame: u64,
    /// All objects that live, changed or not, in order.
    pub live: Vec<Object>,
    /// All ids without an object, in order.
    pub failures: Vec<Failure>,
    /// Graphs that can no longer be instantiated or launched, and why.
    pub broken: Vec<Failure>,
    /// The messages, in an order in which they can be carried out.
    pub entries: Vec<Entry>,
}

impl Image {
    /// The bytes of an image.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    /// The image that these bytes are, each message of which belongs to a recipe.
    ///
    /// # Errors
    /// [`DecodeError`] for any other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        message::decode_whole("an image", bytes)
    }

    /// The hashes of the contents of its libraries, with their sizes.
    ///
    /// # Errors
    /// [`DecodeError`] where an entry is no message.
    pub fn contents(&self) -> Result<Vec<([u8; 32], u64)>, DecodeError> {
        let mut named = Vec::new();
        for entry in &self.entries {
            if let Request::LoadLibrary(load) = Request::decode(entry.kind, &entry.payload)? {
                let hashes = load.contents.iter();
                named.extend(
                    hashes.filter_map(|content| Some((<[u8; 32]>::try_from(content.hash).ok()?, content.bytes))),
                );
            }
        }
        named.sort_unstable();
        named.dedup();
        Ok(named)
    }
}

impl<'a> Field<'a> for Image {
    const LEAST: usize = 8 + 8 + 1 + 8 + 4 * 4;

    fn write(&self, out: &mut Vec<u8>) {
        self.clock.write(out);
        self.since.write(out);
        self.whole.write(out);
        self.frame.write(out);
        self.live.write(out);
        self.failures.write(out);
        self.broken.write(out);
        self.entries.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            clock: reader.field("clock")?,
            since: reader.field("since")?,
            whole: reader.field("whole")?,
            frame: reader.field("frame")?,
            live: reader.field("live")?,
            failures: reader.field("failures")?,
            broken: reader.field("broken")?,
            entries: reader.field("entries")?,
        })
    }
}

impl<'a> Field<'a> for Entry {
    const LEAST: usize = 8 + 1 + 5 + 2 + 4 + 4;

    fn write(&self, out: &mut Vec<u8>) {
        self.when.write(out);
        self.past.write(out);
        self.own.write(out);
        self.kind.write(out);
        self.payload.as_slice().write(out);
        self.reply.as_slice().write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (when, past, own) = (reader.field("when")?, reader.field("past")?, reader.field("own")?);
        let (kind, payload): (u16, &[u8]) = (reader.field("kind")?, reader.field("payload")?);
        if Request::decode(kind, payload)?.recipe() == Recipe::None {
            return Err(reader.error(Problem::Kind(kind)));
        }
        let reply: &[u8] = reader.field("reply")?;
        Ok(Self { when, past, own, kind, payload: payload.to_vec(), reply: reply.to_vec() })
    }
}

impl<'a> Field<'a> for Own {
    const LEAST: usize = 5;

    fn write(&self, out: &mut Vec<u8>) {
        self.events.write(out);
        self.buffers.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { events: reader.field("events")?, buffers: reader.field("buffers")? })
    }
}

impl<'a> Field<'a> for Object {
    const LEAST: usize = 9;

    fn write(&self, out: &mut Vec<u8>) {
        self.kind.number().write(out);
        self.id.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let number: u8 = reader.field("kind")?;
        let kind = ObjectKind::of(number).ok_or_else(|| reader.error(Problem::Kind(number.into())))?;
        Ok(Self { kind, id: reader.field("id")? })
    }
}

impl<'a> Field<'a> for Failure {
    const LEAST: usize = 13;

    fn write(&self, out: &mut Vec<u8>) {
        self.object.write(out);
        self.error.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { object: reader.field("object")?, error: reader.field("error")? })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use proptest::prelude::*;

    use super::*;
    use crate::{Content, CreateStream, Launch, LibraryId, LoadLibrary, Message, StreamId};

    fn entry<M: Message>(message: &M) -> Entry {
        let mut payload = Vec::new();
        message.encode(&mut payload);
        Entry { when: 7, kind: M::KIND, payload, reply: vec![1], ..Entry::default() }
    }

    fn image() -> Image {
        let object = Object { kind: ObjectKind::Graph, id: 9 };
        let contents = vec![Content { hash: &[3; 32], bytes: 5 }, Content { hash: &[3; 32], bytes: 5 }];
        let load = LoadLibrary { library: LibraryId(1), contents, ..LoadLibrary::default() };
        Image {
            clock: 8,
            frame: 16,
            live: vec![object],
            failures: vec![Failure { object, error: 2 }],
            entries: vec![entry(&CreateStream { stream: StreamId(3), flags: 1, priority: -1 }), entry(&load)],
            ..Image::default()
        }
    }

    #[test]
    fn an_image_is_its_bytes_and_names_its_contents_once() {
        let image = image();
        assert_eq!(Image::decode(&image.encode()).unwrap(), image);
        assert_eq!(image.contents().unwrap(), [([3; 32], 5)]);
    }

    #[test]
    fn an_image_has_no_message_that_belongs_to_no_recipe() {
        let mut image = image();
        image.entries.push(entry(&Launch::default()));
        assert!(matches!(Image::decode(&image.encode()).unwrap_err().problem, Problem::Kind(Launch::KIND)));
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_an_error_or_an_image_with_these_bytes(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = image().encode();
            for (at, value) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            bytes.truncate(cut.index(bytes.len() * 2));
            if let Ok(image) = Image::decode(&bytes) {
                prop_assert_eq!(image.encode(), bytes);
            }
        }

        #[test]
        fn noise_is_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = Image::decode(&bytes);
        }
    }
}
