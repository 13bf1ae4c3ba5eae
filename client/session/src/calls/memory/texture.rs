//! Textures, texture references and surfaces: descriptors come in and are kept, the server's numbers go out, since kernels are given them by value.
//! Two vGPUs may have the same number, as two GPUs may, so it counts on the current one. The client looks up the memory
//! that a texture reads; the server's driver decides how it may be read.

use std::ffi::CStr;
use std::sync::Arc;

use floe_abi::{
    Array, CudaError, CudaResult, DevicePtr, MipmappedArray, Module, ResourceDescriptor, ResourceViewDescriptor,
    SurfaceObject, TextureDescriptor, TextureObject, TextureReference, element_bytes, resource_type,
};
use floe_surface::texture_references::{TextureReferenceState, TextureReferences};
use floe_surface::{TextureCalls, TextureReferenceCalls};
use floe_wire::{
    Call, CreateSurface, CreateTexture, DestroySurface, DestroyTexture, SetTextureReference, SurfaceId,
    TextureDescription, TextureId, TextureResource, TextureView,
};

use crate::client::Client;
use crate::lookup::Lookup;
use crate::memory::managed::resident::Resident;
use crate::memory::mirroring::Reach;
use crate::objects::array::ArrayState;
use crate::objects::module::name_of;
use crate::objects::texture::{SurfaceState, TextureState};
use crate::vgpu::Vgpu;

/// Bytes of memory a texture reads, from the first to the last.
fn span(resource: &ResourceDescriptor) -> Option<usize> {
    if resource.kind == resource_type::LINEAR {
        return Some(resource.extent);
    }
    let row = element_bytes(resource.format, resource.channels)?.checked_mul(resource.extent)?;
    resource.height.checked_sub(1)?.checked_mul(resource.pitch)?.checked_add(row)
}

fn description(from: &TextureDescriptor) -> TextureDescription {
    let ([mode_x, mode_y, mode_z], [border_r, border_g, border_b, border_a]) = (from.address_modes, from.border);
    TextureDescription {
        mode_x,
        mode_y,
        mode_z,
        filter: from.filter_mode,
        flags: from.flags,
        max_anisotropy: from.max_anisotropy,
        level_filter: from.level_filter_mode,
        level_bias: from.level_bias,
        least_level: from.least_level,
        most_level: from.most_level,
        border_r,
        border_g,
        border_b,
        border_a,
    }
}

fn view(from: &ResourceViewDescriptor) -> TextureView {
    TextureView {
        format: from.format,
        width: from.width as u64,
        height: from.height as u64,
        depth: from.depth as u64,
        first_level: from.first_level,
        last_level: from.last_level,
        first_layer: from.first_layer,
        last_layer: from.last_layer,
    }
}

impl Client {
    /// The current vGPU's texture of this number.
    fn texture(&self, texture: TextureObject) -> CudaResult<Arc<TextureState>> {
        self.current_device()?.objects.textures.get(texture.0).ok_or(CudaError::INVALID_VALUE)
    }

    /// The array a resource names, which has to be the vGPU's own.
    fn array_of(&self, resource: &ResourceDescriptor, vgpu: &Arc<Vgpu>) -> CudaResult<Arc<ArrayState>> {
        let array = match resource.kind {
            resource_type::MIPMAPPED_ARRAY => self.mipmapped_array(MipmappedArray(resource.place)),
            _ => self.array(Array(resource.place)),
        }?;
        if Arc::ptr_eq(&array.vgpu, vgpu) { Ok(array) } else { Err(CudaError::INVALID_VALUE) }
    }

    /// The source of a texture, as it travels; it stays with the device while its guard lives.
    fn resource(
        &self,
        resource: &ResourceDescriptor,
        vgpu: &Arc<Vgpu>,
    ) -> CudaResult<(TextureResource, Option<Resident>)> {
        if resource.flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let kind = resource.kind;
        match kind {
            resource_type::ARRAY | resource_type::MIPMAPPED_ARRAY => {
                let array = self.array_of(resource, vgpu)?;
                let wanted = TextureResource { kind, array: array.name.id, ..TextureResource::default() };
                Ok((wanted, Some(Resident::array(&array))))
            }
            resource_type::LINEAR | resource_type::PITCH2D => {
                let bytes = span(resource).ok_or(CudaError::INVALID_VALUE)? as u64;
                let at = DevicePtr(resource.place);
                let found =
                    self.lookup_device(at, bytes, vgpu).or_else(|error| match self.lookup_device(at, 1, vgpu) {
                        // A driver takes a texture of memory that is said to go on behind its allocation.
                        Ok(Lookup::Device(memory)) if kind == resource_type::LINEAR => Ok(Lookup::Device(memory)),
                        _ => Err(error),
                    });
                let memory = match found? {
                    Lookup::Device(memory) if Arc::ptr_eq(memory.vgpu, vgpu) => Some(memory.resident()?),
                    Lookup::Host(host) if host.pinned().is_some_and(|it| vgpu.reach(it) == Some(Reach::Shared)) => None,
                    _ => return Err(CudaError::INVALID_VALUE),
                };
                let resource = TextureResource {
                    kind,
                    at,
                    format: resource.format,
                    channels: resource.channels,
                    extent: resource.extent as u64,
                    height: resource.height as u64,
                    pitch: resource.pitch as u64,
                    ..TextureResource::default()
                };
                Ok((resource, memory))
            }
            _ => Err(CudaError::INVALID_VALUE),
        }
    }
}

impl Client {
    /// What texture references read of this is about to go.
    pub(crate) fn let_texture_references_go(&self, goes: impl Fn(&ResourceDescriptor) -> bool) {
        let bind =
            |module, name: &CStr, state: &TextureReferenceState| self.bind_texture_reference(module, name, state);
        self.texture_references.let_go(goes, bind);
    }
}

impl TextureReferenceCalls for Client {
    fn texture_references(&self) -> &TextureReferences {
        &self.texture_references
    }

    fn module_get_tex_ref(&self, module: Module, name: &CStr) -> CudaResult<TextureReference> {
        // It is the server that knows whether there is one, and it is told what a reference is before a program says anything.
        let is_there = || self.bind_texture_reference(module, name, &TextureReferenceState::default());
        self.texture_references.of_module(module, name, is_there)
    }

    fn bind_texture_reference(&self, module: Module, name: &CStr, state: &TextureReferenceState) -> CudaResult<()> {
        let loaded = self.module(module)?;
        let vgpu = loaded.vgpu();
        let read = state.resource.as_ref().map(|resource| self.resource(resource, vgpu)).transpose()?;
        let (resource, _memory): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        vgpu.errors.check()?;
        let message = SetTextureReference {
            library: loaded.library(),
            name: name_of(name)?,
            resource,
            format: state.format,
            channels: state.channels,
            description: description(&state.description),
        };
        vgpu.call(&message).map(drop)
    }
}

impl TextureCalls for Client {
    fn tex_object_create(
        &self,
        resource: &ResourceDescriptor,
        how: &TextureDescriptor,
        part: Option<&ResourceViewDescriptor>,
    ) -> CudaResult<TextureObject> {
        let context = self.working()?;
        let vgpu = &context.vgpu;
        let id = TextureId(vgpu.next_id());
        let (wanted, _memory) = self.resource(resource, vgpu)?;
        let message = CreateTexture {
            texture: id,
            resource: wanted,
            description: description(how),
            view: part.map(view).into_iter().collect(),
        };
        let answer = vgpu.call(&message)?;
        let object = vgpu.connection.read(CreateTexture::decode_reply(&answer.body))?.object;
        let (resource, description, view) = (*resource, *how, part.copied());
        let state = TextureState { id, context: context.handle(), resource, description, view };
        self.objects(vgpu)?.textures.insert(object, Arc::new(state));
        Ok(TextureObject(object))
    }

    fn tex_object_destroy(&self, texture: TextureObject) -> CudaResult<()> {
        let device = self.current_device()?;
        let state = device.objects.textures.remove(texture.0).ok_or(CudaError::INVALID_VALUE)?;
        device.vgpu.settle_presumed()?;
        device.vgpu.connection.post(&DestroyTexture { texture: state.id }).map(|_| ())
    }

    fn tex_object_get_resource_desc(&self, texture: TextureObject) -> CudaResult<ResourceDescriptor> {
        Ok(self.texture(texture)?.resource)
    }

    fn tex_object_get_texture_desc(&self, texture: TextureObject) -> CudaResult<TextureDescriptor> {
        Ok(self.texture(texture)?.description)
    }

    fn tex_object_get_resource_view_desc(&self, texture: TextureObject) -> CudaResult<ResourceViewDescriptor> {
        self.texture(texture)?.view.ok_or(CudaError::INVALID_VALUE)
    }

    fn surf_object_create(&self, resource: &ResourceDescriptor) -> CudaResult<SurfaceObject> {
        let context = self.working()?;
        let vgpu = &context.vgpu;
        if resource.kind != resource_type::ARRAY || resource.flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        // Of arrays made without SURFACE_LDST, too: NVIDIA's driver makes these surfaces.
        let array = self.array_of(resource, vgpu)?;
        let id = SurfaceId(vgpu.next_id());
        let answer = vgpu.call(&CreateSurface { surface: id, array: array.name.id })?;
        let object = vgpu.connection.read(CreateSurface::decode_reply(&answer.body))?.object;
        let state = SurfaceState { id, context: context.handle(), resource: *resource };
        self.objects(vgpu)?.surfaces.insert(object, Arc::new(state));
        Ok(SurfaceObject(object))
    }

    fn surf_object_destroy(&self, surface: SurfaceObject) -> CudaResult<()> {
        let device = self.current_device()?;
        let state = device.objects.surfaces.remove(surface.0).ok_or(CudaError::INVALID_VALUE)?;
        device.vgpu.settle_presumed()?;
        device.vgpu.connection.post(&DestroySurface { surface: state.id }).map(|_| ())
    }

    fn surf_object_get_resource_desc(&self, surface: SurfaceObject) -> CudaResult<ResourceDescriptor> {
        let state = self.current_device()?.objects.surfaces.get(surface.0).ok_or(CudaError::INVALID_VALUE)?;
        Ok(state.resource)
    }
}
