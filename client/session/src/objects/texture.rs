//! Textures and surfaces as the program said they are, with the server's ids. They are found by the server's numbers, since kernels
//! are given those by value. Nothing here is sent.

use floe_abi::{Context, ResourceDescriptor, ResourceViewDescriptor, TextureDescriptor};
use floe_wire::{SurfaceId, TextureId};

/// One texture, as the program said it is.
#[derive(Debug)]
pub(crate) struct TextureState {
    pub(crate) id: TextureId,
    pub(crate) context: Context,
    pub(crate) resource: ResourceDescriptor,
    pub(crate) description: TextureDescriptor,
    pub(crate) view: Option<ResourceViewDescriptor>,
}

/// One surface.
#[derive(Debug)]
pub(crate) struct SurfaceState {
    pub(crate) id: SurfaceId,
    pub(crate) context: Context,
    pub(crate) resource: ResourceDescriptor,
}
