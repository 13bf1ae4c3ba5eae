//! The session's one context on the device.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Replies when all work issued before it has completed, after all deliveries and output of that work.
///
/// Kind 0x0701, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SynchronizeContext {}

impl<'a> Field<'a> for SynchronizeContext {
    const LEAST: usize = 0;

    fn write(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {})
    }
}

impl Message for SynchronizeContext {
    const KIND: u16 = 0x0701;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "SynchronizeContext";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for SynchronizeContext {
    type Reply<'a> = ();
}

/// A CUlimit by number; replies with the value in force.
///
/// Kind 0x0702, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SetLimit {
    pub limit: i32,
    pub value: u64,
}

impl<'a> Field<'a> for SetLimit {
    const LEAST: usize = <i32 as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..4].copy_from_slice(&self.limit.to_le_bytes());
        room[4..12].copy_from_slice(&self.value.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { limit: reader.field("limit")?, value: reader.field("value")? })
    }
}

impl Message for SetLimit {
    const KIND: u16 = 0x0702;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "SetLimit";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for SetLimit {
    type Reply<'a> = SetLimitReply;
}

/// What answers [`SetLimit`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SetLimitReply {
    pub value: u64,
}

impl<'a> Field<'a> for SetLimitReply {
    const LEAST: usize = <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.value.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { value: reader.field("value")? })
    }
}

/// Waits for the work, then releases every library, stream, event, block and host function of the session. Sticky errors are gone with the context, if the driver can do that; NVIDIA's answers the error again.
///
/// Kind 0x0703, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResetContext {}

impl<'a> Field<'a> for ResetContext {
    const LEAST: usize = 0;

    fn write(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {})
    }
}

impl Message for ResetContext {
    const KIND: u16 = 0x0703;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "ResetContext";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for ResetContext {
    type Reply<'a> = ();
}

/// `what` 0: cuCtxSetCacheConfig, 1: cuCtxSetSharedMemConfig, 2: cuCtxResetPersistingL2Cache (value unused).
///
/// Kind 0x0704, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SetCacheConfig {
    pub what: u32,
    pub value: u32,
}

impl<'a> Field<'a> for SetCacheConfig {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.what.to_le_bytes());
        room[4..8].copy_from_slice(&self.value.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { what: reader.field("what")?, value: reader.field("value")? })
    }
}

impl Message for SetCacheConfig {
    const KIND: u16 = 0x0704;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "SetCacheConfig";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Carries out the commands of this noun.
pub trait ContextRequests: Handler {
    /// Carries out [`SynchronizeContext`].
    ///
    /// # Errors
    /// The handler's.
    fn synchronize_context(&mut self, message: SynchronizeContext) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SetLimit`].
    ///
    /// # Errors
    /// The handler's.
    fn set_limit(&mut self, message: SetLimit) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`ResetContext`].
    ///
    /// # Errors
    /// The handler's.
    fn reset_context(&mut self, message: ResetContext) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SetCacheConfig`].
    ///
    /// # Errors
    /// The handler's.
    fn set_cache_config(&mut self, message: SetCacheConfig) -> Result<Self::Answer, Self::Fault>;
}
