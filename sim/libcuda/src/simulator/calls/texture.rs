//! Textures and surfaces: descriptors come in, are checked against the arrays and memory they name, and become what the
//! machine's instructions look up by number. The number is what kernels are given. Views of parts of an array are
//! refused by name.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Mutex;

use floe_abi::{
    Array, CudaError, CudaResult, MipmappedArray, Module, ResourceDescriptor, ResourceViewDescriptor, SurfaceObject,
    TextureDescriptor, TextureObject, TextureReference, address_mode, array_format, element_bytes, filter_mode,
    resource_type, resource_view_format, texture_flags,
};
use floe_machine::{Channel, Choice, Outside, Sampling, Surface, Texels, Texture};
use floe_surface::texture_references::{TextureReferenceState, TextureReferences};
use floe_surface::{TextureCalls, TextureReferenceCalls};

use crate::simulator::Simulator;
use crate::simulator::calls::array::ArrayState;
use crate::simulator::code::module::texture_reference;
use crate::simulator::device::limits;
use floe_lock::lock;

/// The program's description of a texture.
#[derive(Clone, Copy)]
struct TextureState {
    resource: ResourceDescriptor,
    description: TextureDescriptor,
    /// The context's handle.
    context: u64,
}

/// The program's description of a surface.
#[derive(Clone, Copy)]
struct SurfaceState {
    resource: ResourceDescriptor,
    context: u64,
}

/// All textures and surfaces of the process.
#[derive(Default)]
pub(crate) struct Textures {
    textures: Mutex<HashMap<u64, TextureState>>,
    surfaces: Mutex<HashMap<u64, SurfaceState>>,
}

fn channel(format: u32) -> CudaResult<Channel> {
    Ok(match format {
        array_format::UNSIGNED_INT8 => Channel::Unsigned8,
        array_format::UNSIGNED_INT16 => Channel::Unsigned16,
        array_format::UNSIGNED_INT32 => Channel::Unsigned32,
        array_format::SIGNED_INT8 => Channel::Signed8,
        array_format::SIGNED_INT16 => Channel::Signed16,
        array_format::SIGNED_INT32 => Channel::Signed32,
        array_format::HALF => Channel::Half,
        array_format::FLOAT => Channel::Float,
        _ => return Err(CudaError::NOT_SUPPORTED),
    })
}

fn outside(mode: u32) -> CudaResult<Outside> {
    Ok(match mode {
        address_mode::WRAP => Outside::Wrap,
        address_mode::CLAMP => Outside::Clamp,
        address_mode::MIRROR => Outside::Mirror,
        address_mode::BORDER => Outside::Border,
        _ => return Err(CudaError::INVALID_VALUE),
    })
}

/// Flags that change how a texture is read, and those of what there is none of: levels and cubes.
const KNOWN_FLAGS: u32 = texture_flags::READ_AS_INTEGER
    | texture_flags::NORMALIZED_COORDINATES
    | texture_flags::SRGB
    | texture_flags::DISABLE_TRILINEAR_OPTIMIZATION
    | texture_flags::SEAMLESS_CUBEMAP;

/// How what the description says is read. Of linear memory CUDA ignores how it is filtered and what lies outside.
fn sampling(description: &TextureDescriptor, channel: Channel, linear: bool) -> CudaResult<Sampling> {
    let flags = description.flags;
    let description = if linear { &TextureDescriptor { flags, ..TextureDescriptor::default() } } else { description };
    let [x, y, z] = description.address_modes;
    let filtered = match description.filter_mode {
        filter_mode::POINT => false,
        filter_mode::LINEAR => true,
        _ => return Err(CudaError::INVALID_VALUE),
    };
    let integers = flags & texture_flags::READ_AS_INTEGER != 0;
    let levels_known = matches!(description.level_filter_mode, filter_mode::POINT | filter_mode::LINEAR);
    if flags & !KNOWN_FLAGS != 0 || !levels_known || filtered && !channel.reads_float(integers) {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(Sampling {
        outside: [outside(x)?, outside(y)?, outside(z)?],
        filtered,
        normalized: flags & texture_flags::NORMALIZED_COORDINATES != 0,
        integers,
        srgb: flags & texture_flags::SRGB != 0 && channel == Channel::Unsigned8 && !integers,
        border: description.border,
    })
}

/// How a level is chosen. Of a mipmapped array coordinates go from 0 to 1.
fn choice(description: &TextureDescriptor, sampling: Sampling, channel: Channel) -> CudaResult<Choice> {
    let filtered = match description.level_filter_mode {
        filter_mode::POINT => false,
        filter_mode::LINEAR => true,
        _ => return Err(CudaError::INVALID_VALUE),
    };
    if !sampling.normalized || filtered && !channel.reads_float(sampling.integers) {
        return Err(CudaError::INVALID_VALUE);
    }
    let TextureDescriptor { level_bias: bias, least_level: least, most_level: most, .. } = *description;
    Ok(Choice { filtered, bias, least, most })
}

fn extent(elements: usize, most: u32) -> CudaResult<u32> {
    u32::try_from(elements).ok().filter(|elements| (1..=most).contains(elements)).ok_or(CudaError::INVALID_VALUE)
}

fn refuse(what: &str) -> CudaError {
    crate::simulator::log::warn_once(format_args!("{what} are not supported by the CPU device"));
    CudaError::NOT_SUPPORTED
}

impl Simulator {
    fn array_texels(array: &ArrayState) -> CudaResult<Texels> {
        let (shape, descriptor) = (array.shape, array.shape.descriptor());
        let narrow = |extent: usize| u32::try_from(extent).map_err(|_| CudaError::INVALID_VALUE);
        Ok(Texels {
            base: array.address,
            channel: channel(descriptor.format)?,
            channels: descriptor.channels,
            extent: [narrow(shape.width())?, narrow(shape.rows())?, narrow(shape.slices())?],
            pitch: array.pitch,
            slice: array.slice,
        })
    }

    /// How many elements there are of so many. Drivers take a texture that is said to go on behind its allocation, and what is
    /// read there is nobody's promise: here it is 0.
    fn elements_of(&self, base: u64, element: u64, said: u32) -> u32 {
        let are_there = |count: u32| self.check_device_range(base, u64::from(count) * element).is_ok();
        if are_there(said) {
            return said;
        }
        let (mut there, mut lacking) = (0, said);
        while lacking - there > 1 {
            let middle = there + (lacking - there) / 2;
            if are_there(middle) { there = middle } else { lacking = middle }
        }
        there
    }

    /// Memory in rows; `extent` as elements of a row and rows.
    fn memory_texels(&self, resource: &ResourceDescriptor, extent: [u32; 2], pitch: u64) -> CudaResult<Texels> {
        let ResourceDescriptor { place: base, format, channels, .. } = *resource;
        let element = element_bytes(format, channels).ok_or(CudaError::INVALID_VALUE)? as u64;
        let row = u64::from(extent[0]) * element;
        let bytes = pitch.checked_mul(u64::from(extent[1] - 1)).and_then(|rows| rows.checked_add(row));
        let aligned = base.is_multiple_of(u64::from(limits::TEXTURE_ALIGNMENT));
        if !aligned || pitch < row || !self.is_device_address(base) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.check_device_range(base, bytes.ok_or(CudaError::INVALID_VALUE)?)?;
        let extent = [extent[0], extent[1], 1];
        Ok(Texels { base, channel: channel(format)?, channels, extent, pitch, slice: 0 })
    }

    /// The elements that a texture reads, those of a mipmapped array by levels.
    fn levels_of(&self, resource: &ResourceDescriptor) -> CudaResult<Vec<Texels>> {
        if resource.kind != resource_type::MIPMAPPED_ARRAY {
            return Ok(vec![self.texels(resource)?]);
        }
        if resource.flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        self.levels(MipmappedArray(resource.place))?.iter().map(Self::array_texels).collect()
    }

    fn texels(&self, resource: &ResourceDescriptor) -> CudaResult<Texels> {
        if resource.flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        match resource.kind {
            resource_type::ARRAY => Self::array_texels(&self.array(Array(resource.place))?),
            resource_type::LINEAR => {
                let element = element_bytes(resource.format, resource.channels).ok_or(CudaError::INVALID_VALUE)?;
                let width = extent(resource.extent / element, limits::TEXTURE_1D_LINEAR)?;
                let width = self.elements_of(resource.place, element as u64, width);
                self.memory_texels(resource, [width.max(1), 1], resource.extent as u64)
            }
            resource_type::PITCH2D => {
                let [width, height, pitch] = limits::TEXTURE_2D_LINEAR;
                let sizes = [extent(resource.extent, width)?, extent(resource.height, height)?];
                let pitch = extent(resource.pitch, pitch)?;
                if !pitch.is_multiple_of(limits::TEXTURE_PITCH_ALIGNMENT) {
                    return Err(CudaError::INVALID_VALUE);
                }
                self.memory_texels(resource, sizes, pitch.into())
            }
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn texture_of(&self, resource: &ResourceDescriptor, description: &TextureDescriptor) -> CudaResult<Texture> {
        let levels = self.levels_of(resource)?;
        let channel = levels.first().ok_or(CudaError::INVALID_VALUE)?.channel;
        let linear = resource.kind == resource_type::LINEAR;
        let sampling = sampling(description, channel, linear)?;
        let choice = if resource.kind == resource_type::MIPMAPPED_ARRAY {
            choice(description, sampling, channel)?
        } else {
            Choice::default()
        };
        Ok(Texture { levels, sampling, choice, linear })
    }

    /// The context is gone.
    pub(crate) fn forget_textures(&self, context: u64) {
        lock(&self.textures.textures).retain(|number, state| {
            let stays = state.context != context;
            if !stays {
                self.views.give_up_texture(*number);
            }
            stays
        });
        lock(&self.textures.surfaces).retain(|number, state| {
            let stays = state.context != context;
            if !stays {
                self.views.give_up_surface(*number);
            }
            stays
        });
    }

    fn texture_state(&self, texture: TextureObject) -> CudaResult<TextureState> {
        self.current()?;
        lock(&self.textures.textures).get(&texture.0).copied().ok_or(CudaError::INVALID_VALUE)
    }
}

impl TextureReferenceCalls for Simulator {
    fn texture_references(&self) -> &TextureReferences {
        &self.texture_references
    }

    fn module_get_tex_ref(&self, module: Module, name: &CStr) -> CudaResult<TextureReference> {
        let instance = &self.modules.get(module)?.instance;
        self.texture_references.of_module(module, name, || texture_reference(instance, name).map(drop))
    }

    fn bind_texture_reference(&self, module: Module, name: &CStr, state: &TextureReferenceState) -> CudaResult<()> {
        let module = self.modules.get(module)?;
        let address = texture_reference(&module.instance, name)?;
        let context = self.contexts.by_serial(module.instance.context).ok_or(CudaError::INVALID_HANDLE)?;
        let read = state.resource.as_ref().map(|resource| self.texture_of(resource, &state.description)).transpose()?;
        context.kernels.bind_reference(address, read);
        Ok(())
    }
}

impl TextureCalls for Simulator {
    fn tex_object_create(
        &self,
        resource: &ResourceDescriptor,
        description: &TextureDescriptor,
        view: Option<&ResourceViewDescriptor>,
    ) -> CudaResult<TextureObject> {
        let context = self.working()?;
        if let Some(view) = view {
            let known = view.format <= resource_view_format::UNSIGNED_BC7;
            return Err(if known { refuse("resource views") } else { CudaError::INVALID_VALUE });
        }
        let number = self.views.add_texture(self.texture_of(resource, description)?);
        let state = TextureState { resource: *resource, description: *description, context: context.handle };
        lock(&self.textures.textures).insert(number, state);
        Ok(TextureObject(number))
    }

    fn tex_object_destroy(&self, texture: TextureObject) -> CudaResult<()> {
        self.current()?;
        lock(&self.textures.textures).remove(&texture.0).ok_or(CudaError::INVALID_VALUE)?;
        self.views.give_up_texture(texture.0);
        Ok(())
    }

    fn tex_object_get_resource_desc(&self, texture: TextureObject) -> CudaResult<ResourceDescriptor> {
        Ok(self.texture_state(texture)?.resource)
    }

    fn tex_object_get_texture_desc(&self, texture: TextureObject) -> CudaResult<TextureDescriptor> {
        Ok(self.texture_state(texture)?.description)
    }

    fn tex_object_get_resource_view_desc(&self, texture: TextureObject) -> CudaResult<ResourceViewDescriptor> {
        // None is ever made with one.
        self.texture_state(texture).and(Err(CudaError::INVALID_VALUE))
    }

    fn surf_object_create(&self, resource: &ResourceDescriptor) -> CudaResult<SurfaceObject> {
        let context = self.working()?;
        // Of arrays made without SURFACE_LDST, too, as NVIDIA's driver has it.
        if resource.kind != resource_type::ARRAY {
            return Err(CudaError::INVALID_VALUE);
        }
        let number = self.views.add_surface(Surface { texels: self.texels(resource)? });
        let state = SurfaceState { resource: *resource, context: context.handle };
        lock(&self.textures.surfaces).insert(number, state);
        Ok(SurfaceObject(number))
    }

    fn surf_object_destroy(&self, surface: SurfaceObject) -> CudaResult<()> {
        self.current()?;
        lock(&self.textures.surfaces).remove(&surface.0).ok_or(CudaError::INVALID_VALUE)?;
        self.views.give_up_surface(surface.0);
        Ok(())
    }

    fn surf_object_get_resource_desc(&self, surface: SurfaceObject) -> CudaResult<ResourceDescriptor> {
        self.current()?;
        let state = lock(&self.textures.surfaces).get(&surface.0).copied();
        Ok(state.ok_or(CudaError::INVALID_VALUE)?.resource)
    }
}
