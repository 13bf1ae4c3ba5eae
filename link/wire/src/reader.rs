//! A checked cursor over a payload, and how each field type is written and read.
//! In: a payload of an untrusted peer. Out: values that borrow from it.
//! It never reads past the end, and never reserves memory for elements that cannot fit.

use crate::error::{DecodeError, Problem};

/// Reads fields off a payload, in order.
#[derive(Debug)]
pub struct Reader<'a> {
    message: &'static str,
    field: &'static str,
    /// Bytes of the payload.
    bytes: usize,
    /// Its unread bytes.
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte; `message` is the name errors carry.
    #[must_use]
    #[inline]
    pub fn new(message: &'static str, payload: &'a [u8]) -> Self {
        Self { message, field: "", bytes: payload.len(), rest: payload }
    }

    /// Reads the next field; `name` is what errors call it.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes there are not such a value.
    #[inline]
    pub fn field<T: Field<'a>>(&mut self, name: &'static str) -> Result<T, DecodeError> {
        self.field = name;
        T::read(self)
    }

    /// Bytes not yet read.
    #[must_use]
    #[inline]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// An error at the current offset.
    #[must_use]
    #[cold]
    pub fn error(&self, problem: Problem) -> DecodeError {
        DecodeError { message: self.message, field: self.field, offset: self.bytes - self.rest.len(), problem }
    }

    #[inline]
    fn take(&mut self, needed: usize) -> Result<&'a [u8], DecodeError> {
        let Some((bytes, rest)) = self.rest.split_at_checked(needed) else { return Err(self.short(needed)) };
        self.rest = rest;
        Ok(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else { return Err(self.short(N)) };
        self.rest = rest;
        Ok(*bytes)
    }

    #[cold]
    fn short(&self, needed: usize) -> DecodeError {
        self.error(Problem::Short { needed, left: self.left() })
    }

    #[inline]
    fn length(&mut self) -> Result<usize, DecodeError> {
        let length = u32::from_le_bytes(self.array()?);
        Ok(usize::try_from(length).expect("addresses have at least 32 bits"))
    }
}

/// A value that can be a message's field.
pub trait Field<'a>: Sized {
    /// The fewest bytes such a value takes.
    const LEAST: usize;

    /// Appends its bytes.
    fn write(&self, out: &mut Vec<u8>);

    /// Reads one.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes there are not such a value.
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;
}

/// The length in front of a field. Payloads are far below 4 GiB, so a longer slice is this program's mistake.
#[inline]
pub(crate) fn length_bytes(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("a field is shorter than 4 GiB").to_le_bytes()
}

/// Appends zeros, to be replaced by values that follow one another.
#[inline]
pub(crate) fn room<const BYTES: usize>(out: &mut Vec<u8>) -> &mut [u8; BYTES] {
    out.extend_from_slice(&[0; BYTES]);
    out.last_chunk_mut().expect("just appended")
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl<'a> Field<'a> for $number {
            const LEAST: usize = size_of::<$number>();

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                reader.array().map(Self::from_le_bytes)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i32, f32);

impl<'a> Field<'a> for () {
    const LEAST: usize = 0;

    fn write(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

impl<'a> Field<'a> for bool {
    const LEAST: usize = 1;

    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let before = reader.rest;
        match reader.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => {
                reader.rest = before;
                Err(reader.error(Problem::Bool(other)))
            }
        }
    }
}

impl<'a> Field<'a> for &'a [u8] {
    const LEAST: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&length_bytes(self.len()));
        out.extend_from_slice(self);
    }

    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let length = reader.length()?;
        reader.take(length)
    }
}

impl<'a> Field<'a> for &'a str {
    const LEAST: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        self.as_bytes().write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let bytes = <&[u8]>::read(reader)?;
        std::str::from_utf8(bytes).map_err(|error| reader.error(Problem::Text(error.valid_up_to())))
    }
}

impl<'a, T: Field<'a>> Field<'a> for Vec<T> {
    const LEAST: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&length_bytes(self.len()));
        for element in self {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = reader.length()?;
        let left = reader.left();
        if count > left / T::LEAST.max(1) {
            return Err(reader.error(Problem::Count { count, left }));
        }
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(T::read(reader)?);
        }
        Ok(elements)
    }
}
