//! The objects that programs make on vGPUs: contexts, streams, events, modules, arrays. Each object holds its vGPU and
//! posts what it is asked for; handles are turned into objects above, by the calls. No object knows a call or the
//! client.

pub(crate) mod array;
pub(crate) mod content;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod exec;
pub(crate) mod function;
pub(crate) mod kernel;
pub(crate) mod library;
pub(crate) mod module;
pub(crate) mod parts;
pub(crate) mod pool;
pub(crate) mod stream;
pub(crate) mod synchronous;
pub(crate) mod texture;
pub(crate) mod thread;

use crate::vgpu::table::Table;
use array::ArrayState;
use event::EventState;
use function::FunctionState;
use module::Loaded;
use stream::StreamState;
use texture::{SurfaceState, TextureState};

/// The objects that the program has made on one vGPU, by ids.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) streams: Table<StreamState>,
    pub(crate) events: Table<EventState>,
    pub(crate) modules: Table<Loaded>,
    pub(crate) functions: Table<FunctionState>,
    pub(crate) arrays: Table<ArrayState>,
    /// By the numbers kernels are given, as are surfaces.
    pub(crate) textures: Table<TextureState>,
    pub(crate) surfaces: Table<SurfaceState>,
}

impl Objects {
    /// All of it is gone.
    pub(crate) fn clear(&self) {
        self.streams.clear();
        self.events.clear();
        self.modules.clear();
        self.functions.clear();
        self.arrays.clear();
        self.textures.clear();
        self.surfaces.clear();
    }
}
