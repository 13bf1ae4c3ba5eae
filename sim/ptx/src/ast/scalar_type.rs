//! Fundamental types: names of declarations and modifiers come in, sizes and kinds go out.
//! Nothing here knows vectors or arrays.

/// Fundamental types that a declaration or a modifier may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarType {
    /// `.pred`: one bit; has no size in memory.
    Predicate,
    /// `.b8`
    B8,
    /// `.b16`
    B16,
    /// `.b32`
    B32,
    /// `.b64`
    B64,
    /// `.b128`
    B128,
    /// `.u8`
    U8,
    /// `.u16`
    U16,
    /// `.u32`
    U32,
    /// `.u64`
    U64,
    /// `.s8`
    S8,
    /// `.s16`
    S16,
    /// `.s32`
    S32,
    /// `.s64`
    S64,
    /// `.f16`
    F16,
    /// `.f16x2`
    F16x2,
    /// `.bf16`
    Bf16,
    /// `.bf16x2`
    Bf16x2,
    /// `.tf32`
    Tf32,
    /// `.f32`
    F32,
    /// `.f64`
    F64,
    /// `.u16x2`
    U16x2,
    /// `.s16x2`
    S16x2,
    /// `.f32x2`
    F32x2,
    /// `.texref`: opaque handle, 8 bytes.
    TextureReference,
    /// `.samplerref`: opaque handle, 8 bytes.
    SamplerReference,
    /// `.surfref`: opaque handle, 8 bytes.
    SurfaceReference,
}

impl ScalarType {
    /// The type a modifier names, without its dot (`f32`, `b64`); `None` when the word is not a type listed here.
    pub fn from_modifier(word: &str) -> Option<Self> {
        Some(match word {
            "pred" => Self::Predicate,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "b128" => Self::B128,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "u16x2" => Self::U16x2,
            "s16x2" => Self::S16x2,
            "f32x2" => Self::F32x2,
            "texref" => Self::TextureReference,
            "samplerref" => Self::SamplerReference,
            "surfref" => Self::SurfaceReference,
            _ => return None,
        })
    }

    /// The word for the type, without a dot.
    pub fn name(self) -> &'static str {
        match self {
            Self::Predicate => "pred",
            Self::B8 => "b8",
            Self::B16 => "b16",
            Self::B32 => "b32",
            Self::B64 => "b64",
            Self::B128 => "b128",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::S8 => "s8",
            Self::S16 => "s16",
            Self::S32 => "s32",
            Self::S64 => "s64",
            Self::F16 => "f16",
            Self::F16x2 => "f16x2",
            Self::Bf16 => "bf16",
            Self::Bf16x2 => "bf16x2",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::U16x2 => "u16x2",
            Self::S16x2 => "s16x2",
            Self::F32x2 => "f32x2",
            Self::TextureReference => "texref",
            Self::SamplerReference => "samplerref",
            Self::SurfaceReference => "surfref",
        }
    }

    /// Size in memory, in bytes; 0 for a predicate, which has none.
    pub fn size(self) -> u32 {
        match self {
            Self::Predicate => 0,
            Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::Tf32 => 4,
            Self::F16x2 | Self::Bf16x2 | Self::U16x2 | Self::S16x2 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 | Self::F32x2 => 8,
            Self::TextureReference | Self::SamplerReference | Self::SurfaceReference => 8,
            Self::B128 => 16,
        }
    }
}
