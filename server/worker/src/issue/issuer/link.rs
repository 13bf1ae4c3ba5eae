//! Links of device code.
//! In: inputs, which come as a library's contents do. Out: the image the driver made, in pieces.
//! An input is looked into only as far as needed for the driver not to read past its end; images that nobody reads are
//! bounded.

use std::ffi::CString;

use floe_abi::jit_input;
use floe_device::{Content, Device, LinkInput, LoadOption};
use floe_wire::{JitOption, LinkLibrary, LinkLibraryReply, LinkRequests, ReadLinked, ReadLinkedReply};

use super::library::{LOG_BYTES, demand_elf, demand_fat_binary, plain_options};
use super::{Answer, Issuer, body};
use crate::issue::fault::{Fault, violation};
use crate::issue::objects::contents::Gathered;

impl<D: Device> LinkRequests for Issuer<D> {
    fn link_library(&mut self, message: &LinkLibrary<'_>) -> Result<Answer, Fault> {
        let id = message.library;
        self.linked.check_new(id)?;
        self.libraries.check_new(id.0)?;
        if message.inputs.len() != message.contents.len() {
            let (inputs, contents) = (message.inputs.len(), message.contents.len());
            return violation(format!("{inputs} inputs of a link with contents: {contents}"));
        }
        let contents = match self.contents.gather(id, &message.contents)? {
            Gathered::All(contents) => contents,
            Gathered::Missing(missing) => return body(&LinkLibraryReply { missing, bytes: 0, info: "" }),
        };
        let inputs = message.inputs.iter().zip(contents).map(|(input, content)| input_of(input, content));
        let inputs = inputs.collect::<Result<Vec<_>, Fault>>()?;
        let options = load_options(&message.options)?;
        let log_bytes = usize::try_from(message.log_bytes).unwrap_or(LOG_BYTES).min(LOG_BYTES);
        let (image, info) = self.device().link(&inputs, &options, log_bytes).map_err(|failure| {
            self.shared.log.line(format_args!("a link of {} inputs failed: {}", inputs.len(), failure.error));
            Fault::Explained(failure.error, failure.log)
        })?;
        let bytes = image.len() as u64;
        self.linked.add(id, image)?;
        body(&LinkLibraryReply { missing: Vec::new(), bytes, info: &info })
    }

    fn read_linked(&mut self, message: ReadLinked) -> Result<Answer, Fault> {
        let bytes = self.linked.read(message.library)?;
        body(&ReadLinkedReply { bytes: &bytes })
    }
}

fn load_options(options: &[JitOption]) -> Result<Vec<LoadOption>, Fault> {
    let options = plain_options(options)?;
    Ok(options.iter().map(|&(option, value)| LoadOption { option: option.unsigned_abs(), value }).collect())
}

/// An input as the driver takes it.
fn input_of(input: &floe_wire::LinkInput<'_>, content: Content) -> Result<LinkInput, Fault> {
    match input.kind {
        jit_input::CUBIN => demand_elf(&content)?,
        jit_input::FATBINARY if content.starts_with(b"\x7fELF") => demand_elf(&content)?,
        jit_input::FATBINARY => demand_fat_binary(&content)?,
        // Text ends with the NUL that the device puts behind it; of the others the driver gets the length.
        jit_input::PTX | jit_input::OBJECT | jit_input::LIBRARY | jit_input::NVVM => {}
        kind => return violation(format!("unknown kind of input for a link: {kind}")),
    }
    let Ok(name) = CString::new(input.name) else { return violation("the name of an input has a NUL in it") };
    Ok(LinkInput { kind: input.kind, name, content, options: load_options(&input.options)? })
}
