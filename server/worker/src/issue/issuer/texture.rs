//! Textures, texture references and surfaces of the session.
//! In: descriptors by the client's ids. Out: the numbers that kernels are given, which are the device's own.
//! Arrays are looked up; addresses and everything else are the driver's to judge, as with copies.

use floe_abi::{CudaError, ResourceDescriptor, ResourceViewDescriptor, TextureDescriptor, resource_type};
use floe_device::{Device, TextureReferenceRequest, TextureRequest};
use floe_wire::{
    CreateSurface, CreateSurfaceReply, CreateTexture, CreateTextureReply, DestroySurface, DestroyTexture,
    SetTextureReference, TextureDescription, TextureRequests, TextureResource, TextureView,
};

use super::{Answer, Issuer, body};
use crate::issue::fault::{Fault, violation};

fn size(value: u64) -> Result<usize, Fault> {
    usize::try_from(value).map_err(|_| CudaError::INVALID_VALUE.into())
}

fn description(message: &TextureDescription) -> TextureDescriptor {
    let TextureDescription { mode_x, mode_y, mode_z, border_r, border_g, border_b, border_a, .. } = *message;
    TextureDescriptor {
        address_modes: [mode_x, mode_y, mode_z],
        filter_mode: message.filter,
        flags: message.flags,
        max_anisotropy: message.max_anisotropy,
        level_filter_mode: message.level_filter,
        level_bias: message.level_bias,
        least_level: message.least_level,
        most_level: message.most_level,
        border: [border_r, border_g, border_b, border_a],
        ..TextureDescriptor::default()
    }
}

fn view(message: &TextureView) -> Result<ResourceViewDescriptor, Fault> {
    Ok(ResourceViewDescriptor {
        format: message.format,
        width: size(message.width)?,
        height: size(message.height)?,
        depth: size(message.depth)?,
        first_level: message.first_level,
        last_level: message.last_level,
        first_layer: message.first_layer,
        last_layer: message.last_layer,
        ..ResourceViewDescriptor::default()
    })
}

impl<D: Device> TextureRequests for Issuer<D> {
    fn create_texture(&mut self, message: &CreateTexture) -> Result<Answer, Fault> {
        self.textures.check_new(message.texture.0)?;
        if message.view.len() > 1 {
            return violation(format!("a texture has one view at most, not: {}", message.view.len()));
        }
        let (resource, description) = (self.resource(&message.resource)?, description(&message.description));
        let view = message.view.first().map(view).transpose()?;
        let request = TextureRequest { resource: &resource, description: &description, view: view.as_ref() };
        let texture = self.device().create_texture(request)?;
        self.textures.bind(message.texture.0, Ok(texture));
        body(&CreateTextureReply { object: texture.0 })
    }

    fn destroy_texture(&mut self, message: DestroyTexture) -> Result<Answer, Fault> {
        if let Some(texture) = self.textures.remove(message.texture.0)? {
            self.device().tex_object_destroy(texture)?;
        }
        Ok(Answer::Nothing)
    }

    fn set_texture_reference(&mut self, message: &SetTextureReference<'_>) -> Result<Answer, Fault> {
        if message.resource.len() > 1 {
            return violation(format!("a texture reference is of one thing at most, not: {}", message.resource.len()));
        }
        let library = self.libraries.get_mut(message.library.0)?;
        library.has_found = true;
        let code = library.code;
        let resource = message.resource.first().map(|resource| self.resource(resource)).transpose()?;
        let request = TextureReferenceRequest {
            resource: resource.as_ref(),
            format: message.format,
            channels: message.channels,
            description: &description(&message.description),
        };
        self.device().set_texture_reference(code, message.name, &request)?;
        Ok(Answer::Body(Vec::new()))
    }

    fn create_surface(&mut self, message: CreateSurface) -> Result<Answer, Fault> {
        self.surfaces.check_new(message.surface.0)?;
        let surface = self.device().create_surface(self.array(message.array)?)?;
        self.surfaces.bind(message.surface.0, Ok(surface));
        body(&CreateSurfaceReply { object: surface.0 })
    }

    fn destroy_surface(&mut self, message: DestroySurface) -> Result<Answer, Fault> {
        if let Some(surface) = self.surfaces.remove(message.surface.0)? {
            self.device().surf_object_destroy(surface)?;
        }
        Ok(Answer::Nothing)
    }
}

impl<D: Device> Issuer<D> {
    fn resource(&self, message: &TextureResource) -> Result<ResourceDescriptor, Fault> {
        let kind = message.kind;
        let place = match kind {
            resource_type::ARRAY => self.array(message.array)?.0,
            resource_type::MIPMAPPED_ARRAY => self.mipmapped_array(message.array)?.0,
            resource_type::LINEAR | resource_type::PITCH2D => message.at.0,
            _ => return violation(format!("nothing of this kind is read by a texture: {kind}")),
        };
        Ok(ResourceDescriptor {
            kind,
            place,
            format: message.format,
            channels: message.channels,
            extent: size(message.extent)?,
            height: size(message.height)?,
            pitch: size(message.pitch)?,
            ..ResourceDescriptor::default()
        })
    }

    /// Destroys all; errors of a context beyond use do not matter, they go with it.
    pub(super) fn drop_textures(&mut self) {
        for texture in self.textures.drain() {
            let _ = self.shared.device.tex_object_destroy(texture);
        }
        for surface in self.surfaces.drain() {
            let _ = self.shared.device.surf_object_destroy(surface);
        }
    }
}
