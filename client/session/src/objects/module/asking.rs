//! Questions about a kernel that the program does not have yet. What starts asked about it comes in, with the kernel's attributes as
//! it was found; the answers are expected from then on. The kernel is set as it was then for the questions, and set back.

use std::sync::Arc;

use floe_abi::{CudaResult, function_attribute};
use floe_wire::{Attribute, KernelId, SetKernelAttribute};

use crate::objects::function::fitting;
use crate::objects::function::is_certain;
use crate::objects::module::record::Questions;
use crate::vgpu::Vgpu;
use crate::vgpu::occupancy::{Asked, Expected, Setting, Settings};
use floe_lock::lock;

/// Asks it all.
pub(super) fn ask(vgpu: &Vgpu, kernel: u64, found: &[Attribute], questions: Questions) -> CudaResult<()> {
    let now = lock(&vgpu.occupancy).now();
    let value = |number: u32| {
        let attribute = found.iter().find(|attribute| u32::try_from(attribute.number) == Ok(number));
        attribute.map_or(0, |attribute| attribute.value)
    };
    let own = Settings::by(value);
    let fixed = value(function_attribute::SHARED_SIZE_BYTES);
    let may_be_set = |settings: Settings| settings.each().all(|(number, it)| is_certain(vgpu, fixed, number, it));
    let (mut present, mut setting) = (own, None);
    for (settings, question) in questions {
        if settings != present {
            // What the server may refuse is asked when the program asks it.
            if !(may_be_set(settings) && may_be_set(own)) {
                continue;
            }
            setting = set(vgpu, kernel, present, settings)?;
            present = settings;
        }
        let ticket = fitting::ask_early(vgpu, kernel, &question)?;
        let expected = Expected { ticket, setting: setting.clone() };
        lock(&vgpu.occupancy).expect(Asked { kernel, settings, question }, expected, now);
    }
    for message in changes(kernel, present, own) {
        // A server that does not do this again has failed, which a later call reports.
        vgpu.connection.post_call(&message)?;
    }
    Ok(())
}

/// Sets a kernel otherwise; what becomes of that, the last answer says.
fn set(vgpu: &Vgpu, kernel: u64, from: Settings, to: Settings) -> CudaResult<Option<Arc<Setting>>> {
    let mut last = None;
    for message in changes(kernel, from, to) {
        last = Some(vgpu.connection.ask_early(&message)?);
    }
    Ok(last.map(|ticket| Arc::new(Setting::new(ticket, to))))
}

fn changes(kernel: u64, from: Settings, to: Settings) -> impl Iterator<Item = SetKernelAttribute> {
    let changed = to.each().zip(from.each()).filter(|(to, from)| to != from);
    changed.filter_map(move |((number, value), _)| {
        Some(SetKernelAttribute { kernel: KernelId(kernel), what: 0, number: i32::try_from(number).ok()?, value })
    })
}
