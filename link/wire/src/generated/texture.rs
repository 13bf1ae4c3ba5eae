//! Textures, texture references and surfaces, by which kernels read and write arrays and memory. Ids are the client's; the numbers that kernels are given are the device's.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Makes a texture of an array or of memory; `view` has one entry at most.
///
/// Kind 0x0d03, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateTexture {
    pub texture: TextureId,
    pub resource: TextureResource,
    pub description: TextureDescription,
    pub view: Vec<TextureView>,
}

impl<'a> Field<'a> for CreateTexture {
    const LEAST: usize = <TextureId as Field<'a>>::LEAST
        + <TextureResource as Field<'a>>::LEAST
        + <TextureDescription as Field<'a>>::LEAST
        + <Vec<TextureView> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<8>(out);
        room[0..8].copy_from_slice(&self.texture.0.to_le_bytes());
        self.resource.write(out);
        self.description.write(out);
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.view.len()));
        for element in &self.view {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            texture: reader.field("texture")?,
            resource: reader.field("resource")?,
            description: reader.field("description")?,
            view: reader.field("view")?,
        })
    }
}

impl Message for CreateTexture {
    const KIND: u16 = 0x0d03;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "CreateTexture";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for CreateTexture {
    type Reply<'a> = CreateTextureReply;
}

/// What answers [`CreateTexture`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateTextureReply {
    pub object: u64,
}

impl<'a> Field<'a> for CreateTextureReply {
    const LEAST: usize = <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.object.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { object: reader.field("object")? })
    }
}

/// Destroys the texture.
///
/// Kind 0x0d04, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DestroyTexture {
    pub texture: TextureId,
}

impl<'a> Field<'a> for DestroyTexture {
    const LEAST: usize = <TextureId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.texture.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { texture: reader.field("texture")? })
    }
}

impl Message for DestroyTexture {
    const KIND: u16 = 0x0d04;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "DestroyTexture";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Makes a surface of an array, by which kernels read and write it. The driver decides whether the array's flags allow one.
///
/// Kind 0x0d05, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateSurface {
    pub surface: SurfaceId,
    pub array: ArrayId,
}

impl<'a> Field<'a> for CreateSurface {
    const LEAST: usize = <SurfaceId as Field<'a>>::LEAST + <ArrayId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.surface.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.array.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { surface: reader.field("surface")?, array: reader.field("array")? })
    }
}

impl Message for CreateSurface {
    const KIND: u16 = 0x0d05;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "CreateSurface";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for CreateSurface {
    type Reply<'a> = CreateSurfaceReply;
}

/// What answers [`CreateSurface`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateSurfaceReply {
    pub object: u64,
}

impl<'a> Field<'a> for CreateSurfaceReply {
    const LEAST: usize = <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.object.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { object: reader.field("object")? })
    }
}

/// Destroys the surface.
///
/// Kind 0x0d06, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DestroySurface {
    pub surface: SurfaceId,
}

impl<'a> Field<'a> for DestroySurface {
    const LEAST: usize = <SurfaceId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.surface.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { surface: reader.field("surface")? })
    }
}

impl Message for DestroySurface {
    const KIND: u16 = 0x0d06;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "DestroySurface";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The library's texture reference of this name is of `resource`, which has one entry at most, for kernels launched from now on; without one reads are 0. `format` and `channels` are those of memory's elements. NOT_FOUND where the library has no such reference.
///
/// Kind 0x0d08, called: one reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetTextureReference<'a> {
    pub library: LibraryId,
    pub name: &'a str,
    pub resource: Vec<TextureResource>,
    pub format: u32,
    pub channels: u32,
    pub description: TextureDescription,
}

impl<'a> Field<'a> for SetTextureReference<'a> {
    const LEAST: usize = <LibraryId as Field<'a>>::LEAST
        + <&'a str as Field<'a>>::LEAST
        + <Vec<TextureResource> as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <TextureDescription as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.library.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.name.len()));
        out.extend_from_slice(self.name.as_bytes());
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.resource.len()));
        for element in &self.resource {
            element.write(out);
        }
        let room = crate::reader::room::<8>(out);
        room[0..4].copy_from_slice(&self.format.to_le_bytes());
        room[4..8].copy_from_slice(&self.channels.to_le_bytes());
        self.description.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            library: reader.field("library")?,
            name: reader.field("name")?,
            resource: reader.field("resource")?,
            format: reader.field("format")?,
            channels: reader.field("channels")?,
            description: reader.field("description")?,
        })
    }
}

impl Message for SetTextureReference<'_> {
    const KIND: u16 = 0x0d08;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "SetTextureReference";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for SetTextureReference<'_> {
    type Reply<'a> = ();
}

/// CUDA_TEXTURE_DESC, in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TextureDescription {
    pub mode_x: u32,
    pub mode_y: u32,
    pub mode_z: u32,
    pub filter: u32,
    pub flags: u32,
    pub max_anisotropy: u32,
    pub level_filter: u32,
    pub level_bias: f32,
    pub least_level: f32,
    pub most_level: f32,
    pub border_r: f32,
    pub border_g: f32,
    pub border_b: f32,
    pub border_a: f32,
}

impl<'a> Field<'a> for TextureDescription {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <f32 as Field<'a>>::LEAST
        + <f32 as Field<'a>>::LEAST
        + <f32 as Field<'a>>::LEAST
        + <f32 as Field<'a>>::LEAST
        + <f32 as Field<'a>>::LEAST
        + <f32 as Field<'a>>::LEAST
        + <f32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<56>(out);
        room[0..4].copy_from_slice(&self.mode_x.to_le_bytes());
        room[4..8].copy_from_slice(&self.mode_y.to_le_bytes());
        room[8..12].copy_from_slice(&self.mode_z.to_le_bytes());
        room[12..16].copy_from_slice(&self.filter.to_le_bytes());
        room[16..20].copy_from_slice(&self.flags.to_le_bytes());
        room[20..24].copy_from_slice(&self.max_anisotropy.to_le_bytes());
        room[24..28].copy_from_slice(&self.level_filter.to_le_bytes());
        room[28..32].copy_from_slice(&self.level_bias.to_le_bytes());
        room[32..36].copy_from_slice(&self.least_level.to_le_bytes());
        room[36..40].copy_from_slice(&self.most_level.to_le_bytes());
        room[40..44].copy_from_slice(&self.border_r.to_le_bytes());
        room[44..48].copy_from_slice(&self.border_g.to_le_bytes());
        room[48..52].copy_from_slice(&self.border_b.to_le_bytes());
        room[52..56].copy_from_slice(&self.border_a.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            mode_x: reader.field("mode_x")?,
            mode_y: reader.field("mode_y")?,
            mode_z: reader.field("mode_z")?,
            filter: reader.field("filter")?,
            flags: reader.field("flags")?,
            max_anisotropy: reader.field("max_anisotropy")?,
            level_filter: reader.field("level_filter")?,
            level_bias: reader.field("level_bias")?,
            least_level: reader.field("least_level")?,
            most_level: reader.field("most_level")?,
            border_r: reader.field("border_r")?,
            border_g: reader.field("border_g")?,
            border_b: reader.field("border_b")?,
            border_a: reader.field("border_a")?,
        })
    }
}

/// The memory that a texture reads. `kind` 0: `array`. 1: `array`, which is mipmapped. 2: `extent` bytes from `at` on. 3: from `at` on, `height` rows of `extent` elements, `pitch` bytes apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TextureResource {
    pub kind: u32,
    pub array: ArrayId,
    pub at: DevicePtr,
    pub format: u32,
    pub channels: u32,
    pub extent: u64,
    pub height: u64,
    pub pitch: u64,
}

impl<'a> Field<'a> for TextureResource {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <ArrayId as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<52>(out);
        room[0..4].copy_from_slice(&self.kind.to_le_bytes());
        room[4..12].copy_from_slice(&self.array.0.to_le_bytes());
        room[12..20].copy_from_slice(&self.at.0.to_le_bytes());
        room[20..24].copy_from_slice(&self.format.to_le_bytes());
        room[24..28].copy_from_slice(&self.channels.to_le_bytes());
        room[28..36].copy_from_slice(&self.extent.to_le_bytes());
        room[36..44].copy_from_slice(&self.height.to_le_bytes());
        room[44..52].copy_from_slice(&self.pitch.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            kind: reader.field("kind")?,
            array: reader.field("array")?,
            at: reader.field("at")?,
            format: reader.field("format")?,
            channels: reader.field("channels")?,
            extent: reader.field("extent")?,
            height: reader.field("height")?,
            pitch: reader.field("pitch")?,
        })
    }
}

/// CUDA_RESOURCE_VIEW_DESC, in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TextureView {
    pub format: u32,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    pub first_level: u32,
    pub last_level: u32,
    pub first_layer: u32,
    pub last_layer: u32,
}

impl<'a> Field<'a> for TextureView {
    const LEAST: usize = <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<44>(out);
        room[0..4].copy_from_slice(&self.format.to_le_bytes());
        room[4..12].copy_from_slice(&self.width.to_le_bytes());
        room[12..20].copy_from_slice(&self.height.to_le_bytes());
        room[20..28].copy_from_slice(&self.depth.to_le_bytes());
        room[28..32].copy_from_slice(&self.first_level.to_le_bytes());
        room[32..36].copy_from_slice(&self.last_level.to_le_bytes());
        room[36..40].copy_from_slice(&self.first_layer.to_le_bytes());
        room[40..44].copy_from_slice(&self.last_layer.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            format: reader.field("format")?,
            width: reader.field("width")?,
            height: reader.field("height")?,
            depth: reader.field("depth")?,
            first_level: reader.field("first_level")?,
            last_level: reader.field("last_level")?,
            first_layer: reader.field("first_layer")?,
            last_layer: reader.field("last_layer")?,
        })
    }
}

/// Carries out the commands of this noun.
pub trait TextureRequests: Handler {
    /// Carries out [`CreateTexture`].
    ///
    /// # Errors
    /// The handler's.
    fn create_texture(&mut self, message: &CreateTexture) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`DestroyTexture`].
    ///
    /// # Errors
    /// The handler's.
    fn destroy_texture(&mut self, message: DestroyTexture) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CreateSurface`].
    ///
    /// # Errors
    /// The handler's.
    fn create_surface(&mut self, message: CreateSurface) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`DestroySurface`].
    ///
    /// # Errors
    /// The handler's.
    fn destroy_surface(&mut self, message: DestroySurface) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SetTextureReference`].
    ///
    /// # Errors
    /// The handler's.
    fn set_texture_reference(&mut self, message: &SetTextureReference<'_>) -> Result<Self::Answer, Self::Fault>;
}
