//! A kernel on one vGPU, by the name programs give it: a function. Layout and attributes came with the look-up and are answered
//! here. Setting an attribute asks the server, unless it has the value already. Where the look-up was posted, the layout is the
//! image's, and attributes are waited for when they are needed.

pub(crate) mod expected;
pub(crate) mod fitting;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use floe_abi::{
    CudaError, CudaResult, Function, Kernel, Module, cluster_scheduling, device_attribute, function_attribute,
};
use floe_surface::{KernelLayout, ParameterLayout};
use floe_wire::{Attribute, Call, FindKernelReply, KernelId, SetKernelAttribute};

use crate::objects::function::expected::{Bounds, Expected};
use crate::start::Origin;
use crate::vgpu::Vgpu;
use crate::vgpu::handles::{Handle, Kind};
use crate::vgpu::limits::KernelLimits;
use crate::vgpu::occupancy::{Change, Question, Settings};
use floe_lock::lock;

/// Threads of a block where a kernel's own limit is not known.
const MOST_THREADS: u32 = 1024;
/// In `FunctionState::cluster`: the launch must say which clusters it has.
const MUST_SAY: u64 = 1 << 63;
/// In `FunctionState::cluster`: one axis.
const AXIS: u64 = (1 << 20) - 1;
/// Dynamic shared memory in bytes a kernel may use that asked for no more.
const DEFAULT_SHARED: u32 = 48 << 10;

/// The layout of a kernel's parameters by their offsets and sizes.
fn layout(places: impl Iterator<Item = (u32, u32)>) -> KernelLayout {
    let layout = |(offset, size): (u32, u32)| ParameterLayout { offset: offset as usize, size: size as usize };
    KernelLayout::new(places.map(layout).collect())
}

/// Whether every device takes this value of an attribute, so that nobody need wait for its word: libraries set some attributes before
/// each launch. `fixed` is the kernel's static shared memory in bytes.
pub(crate) fn is_certain(vgpu: &Vgpu, fixed: i32, number: u32, value: i32) -> bool {
    use function_attribute as a;
    match number {
        a::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
            let most = vgpu.snapshot.attribute(device_attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
            value >= 0 && most.is_some_and(|most| value <= most.saturating_sub(fixed))
        }
        a::PREFERRED_SHARED_MEMORY_CARVEOUT => (-1..=100).contains(&value),
        a::NON_PORTABLE_CLUSTER_SIZE_ALLOWED => matches!(value, 0 | 1),
        _ => false,
    }
}

/// Whether CUDA lets a program set this attribute, to a value of those it names. The others say what the kernel is, also where
/// it is just that.
fn is_settable(number: u32, value: i32) -> bool {
    use function_attribute as a;
    match number {
        a::MAX_DYNAMIC_SHARED_SIZE_BYTES
        | a::PREFERRED_SHARED_MEMORY_CARVEOUT
        | a::REQUIRED_CLUSTER_WIDTH
        | a::REQUIRED_CLUSTER_HEIGHT
        | a::REQUIRED_CLUSTER_DEPTH
        | a::NON_PORTABLE_CLUSTER_SIZE_ALLOWED => true,
        a::CLUSTER_SCHEDULING_POLICY_PREFERENCE => {
            u32::try_from(value).is_ok_and(|policy| policy <= cluster_scheduling::LOAD_BALANCING)
        }
        _ => false,
    }
}

/// A kernel on one vGPU.
#[derive(Debug)]
pub(crate) struct FunctionState {
    pub(crate) vgpu: Arc<Vgpu>,
    id: u64,
    pub(crate) name: String,
    pub(crate) module: Module,
    /// The kernel of a library it is; 0 where it is none.
    kernel: AtomicU64,
    epoch: u64,
    layout: KernelLayout,
    attributes: RwLock<HashMap<u32, i32>>,
    /// Cache and shared memory configuration last sent, by `SetKernelAttribute.what`.
    configured: Mutex<HashMap<u32, i32>>,
    // The launch checks these; an attribute set by the program changes them.
    threads: AtomicU32,
    static_shared: AtomicU32,
    dynamic_shared: AtomicU32,
    /// Clusters it was compiled for: blocks per axis, 20 bits each; the top bit where a launch must say.
    cluster: AtomicU64,
    /// What the server says of it, where nobody has waited for that.
    expected: Expected,
    /// What notes the questions about it.
    origin: Option<Origin>,
    /// The program has set more of it than what is set without waiting.
    is_special: AtomicBool,
}

impl FunctionState {
    /// The function of a module that a look-up found.
    pub(crate) fn new(
        vgpu: &Arc<Vgpu>,
        module: Module,
        id: u64,
        name: &str,
        found: &FindKernelReply,
        origin: Option<Origin>,
    ) -> Self {
        let places = found.parameters.iter().map(|parameter| (parameter.offset, parameter.bytes));
        let function = Self::of(vgpu, module, id, name, layout(places), origin);
        function.learn(&found.attributes);
        function
    }

    /// The function of a module whose look-up was posted, as its image describes it.
    pub(crate) fn posted(
        vgpu: &Arc<Vgpu>,
        module: Module,
        id: u64,
        name: &str,
        bounds: &Bounds,
        expected: Expected,
        origin: Option<Origin>,
    ) -> Self {
        let function = Self::of(vgpu, module, id, name, layout(bounds.parameters()), origin);
        function.threads.store(bounds.threads, Ordering::Relaxed);
        function.static_shared.store(bounds.shared, Ordering::Relaxed);
        function.dynamic_shared.store(DEFAULT_SHARED.saturating_sub(bounds.shared), Ordering::Relaxed);
        Self { expected, ..function }
    }

    fn of(vgpu: &Arc<Vgpu>, module: Module, id: u64, name: &str, layout: KernelLayout, origin: Option<Origin>) -> Self {
        Self {
            vgpu: Arc::clone(vgpu),
            id,
            name: name.to_owned(),
            module,
            kernel: AtomicU64::new(0),
            epoch: vgpu.epoch(),
            layout,
            attributes: RwLock::default(),
            configured: Mutex::default(),
            threads: AtomicU32::new(MOST_THREADS),
            static_shared: AtomicU32::new(0),
            dynamic_shared: AtomicU32::new(DEFAULT_SHARED),
            cluster: AtomicU64::new(0),
            expected: Expected::default(),
            origin,
            is_special: AtomicBool::new(false),
        }
    }

    /// Its id on the wire.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The kernel of a library that it is, as the program calls it; NULL for a module's.
    pub(crate) fn kernel(&self) -> Kernel {
        match self.kernel.load(Ordering::Acquire) {
            0 => Kernel::NULL,
            id => Kernel(Handle::new(Kind::Kernel, 0, id).value()),
        }
    }

    /// It is a library's kernel.
    pub(crate) fn belongs_to(&self, kernel: u64) {
        self.kernel.store(kernel, Ordering::Release);
    }

    /// The program's handle of it.
    pub(crate) fn handle(&self) -> Function {
        Function(Handle::new(Kind::Function, self.vgpu.ordinal, self.id).value())
    }

    /// Whether the server still has it.
    pub(crate) fn is_valid(&self) -> bool {
        self.epoch == self.vgpu.epoch()
    }

    /// Whether the server still has it, and has not said that it never had.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_valid() && !self.expected.has_failed()
    }

    /// Whether it is this vGPU's, and usable.
    pub(crate) fn serves(&self, vgpu: &Arc<Vgpu>) -> bool {
        Arc::ptr_eq(&self.vgpu, vgpu) && self.is_usable()
    }

    /// The layout of its parameters.
    pub(crate) fn layout(&self) -> &KernelLayout {
        &self.layout
    }

    /// The limits of its launches, as far as they are known.
    fn limits(&self) -> KernelLimits {
        KernelLimits {
            threads: self.threads.load(Ordering::Relaxed),
            static_shared: self.static_shared.load(Ordering::Relaxed),
            dynamic_shared: self.dynamic_shared.load(Ordering::Relaxed),
        }
    }

    /// Blocks per axis of the clusters its launches have where they do not say; zeros where they must.
    pub(crate) fn cluster(&self) -> Option<[u32; 3]> {
        let packed = self.cluster.load(Ordering::Relaxed);
        // A launch without clusters passes here too: it costs one load.
        match packed {
            0 => None,
            MUST_SAY => Some([0; 3]),
            packed => Some([0, 20, 40].map(|shift| u32::try_from(packed >> shift & AXIS).unwrap_or(0).max(1))),
        }
    }

    /// The cluster size in the attributes.
    fn compiled_cluster(known: &HashMap<u32, i32>) -> u64 {
        use function_attribute as a;
        let size = |number: u32| known.get(&number).and_then(|size| u64::try_from(*size).ok()).unwrap_or(0) & AXIS;
        let (width, height, depth) =
            (size(a::REQUIRED_CLUSTER_WIDTH), size(a::REQUIRED_CLUSTER_HEIGHT), size(a::REQUIRED_CLUSTER_DEPTH));
        match (width, size(a::CLUSTER_SIZE_MUST_BE_SET)) {
            (0, 0) => 0,
            (0, _) => MUST_SAY,
            _ => width | height << 20 | depth << 40,
        }
    }

    /// The value of one of its attributes, by `CUfunction_attribute`.
    pub(crate) fn attribute(&self, number: u32) -> CudaResult<i32> {
        self.settle()?;
        floe_lock::read(&self.attributes).get(&number).copied().ok_or(CudaError::INVALID_VALUE)
    }

    fn learn(&self, attributes: &[Attribute]) {
        self.learn_in(&mut floe_lock::write(&self.attributes), attributes);
    }

    fn learn_in(&self, known: &mut HashMap<u32, i32>, attributes: &[Attribute]) {
        use function_attribute as a;
        for attribute in attributes {
            let Ok(number) = u32::try_from(attribute.number) else {
                continue;
            };
            known.insert(number, attribute.value);
            let limit = match number {
                a::MAX_THREADS_PER_BLOCK => &self.threads,
                a::SHARED_SIZE_BYTES => &self.static_shared,
                a::MAX_DYNAMIC_SHARED_SIZE_BYTES => &self.dynamic_shared,
                _ => continue,
            };
            if let Ok(value) = u32::try_from(attribute.value) {
                limit.store(value, Ordering::Relaxed);
            }
        }
        self.cluster.store(Self::compiled_cluster(known), Ordering::Relaxed);
    }

    fn set(&self, what: u32, number: u32, value: i32) -> CudaResult<()> {
        let message = SetKernelAttribute {
            kernel: KernelId(self.id),
            what,
            number: i32::try_from(number).map_err(|_| CudaError::INVALID_VALUE)?,
            value,
        };
        self.is_special.store(true, Ordering::Relaxed);
        let _change = Change::of(&self.vgpu.occupancy);
        let answer = self.vgpu.call(&message)?;
        let reply = self.vgpu.connection.read(SetKernelAttribute::decode_reply(&answer.body))?;
        // What it was found as is here, too, and older.
        self.settle()?;
        self.learn(&reply.attributes);
        // Occupancy may depend on it.
        lock(&self.vgpu.occupancy).clear();
        Ok(())
    }

    /// The program's settings that occupancy depends on, as far as they are known.
    pub(crate) fn settings(&self) -> Settings {
        let known = floe_lock::read(&self.attributes);
        Settings::by(|number| known.get(&number).copied().unwrap_or_default())
    }

    /// Whether what the program asks about it is noted, which is so where a wait is a long one (`--far`).
    pub(crate) fn is_noted(&self) -> bool {
        self.origin.is_some()
    }

    /// A question about it has been answered. Where the program has set it by more than these settings, the answer is no other
    /// start's.
    pub(crate) fn note(&self, settings: Settings, question: Question) {
        if let Some(origin) = self.origin.as_ref().filter(|_| !self.is_special.load(Ordering::Relaxed)) {
            origin.asked(&self.name, settings, question);
        }
    }

    /// Sets an attribute, without waiting where every device takes the value.
    pub(crate) fn set_attribute(&self, number: u32, value: i32) -> CudaResult<()> {
        self.vgpu.errors.report()?;
        if !is_settable(number, value) {
            return Err(CudaError::INVALID_VALUE);
        }
        let known = floe_lock::read(&self.attributes).get(&number).copied();
        if known == Some(value) {
            return Ok(());
        }
        let fixed = i32::try_from(self.static_shared.load(Ordering::Relaxed)).unwrap_or(i32::MAX);
        let Some(attribute) = i32::try_from(number).ok().filter(|_| is_certain(&self.vgpu, fixed, number, value))
        else {
            return self.set(0, number, value);
        };
        let message = SetKernelAttribute { kernel: KernelId(self.id), what: 0, number: attribute, value };
        let _change = Change::of(&self.vgpu.occupancy);
        self.vgpu.connection.post_call(&message)?;
        self.learn(&[Attribute { number: attribute, value }]);
        Ok(())
    }

    /// Sends a cache or shared memory configuration, unless it was the last.
    pub(crate) fn configure(&self, what: u32, config: u32) -> CudaResult<()> {
        self.vgpu.errors.report()?;
        let value = i32::try_from(config).map_err(|_| CudaError::INVALID_VALUE)?;
        if lock(&self.configured).get(&what) == Some(&value) {
            return Ok(());
        }
        self.set(what, 0, value)?;
        lock(&self.configured).insert(what, value);
        Ok(())
    }

    /// Offset and size of a parameter.
    pub(crate) fn parameter(&self, index: usize) -> CudaResult<(usize, usize)> {
        let parameter = self.layout.parameters().get(index).ok_or(CudaError::INVALID_VALUE)?;
        Ok((parameter.offset, parameter.size))
    }
}
