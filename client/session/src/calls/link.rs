//! Linking device code at the server. Inputs come in with options, are named by their hashes, and follow if the server
//! lacks them. The client reads back the image that the server's driver makes, and the program may load it anywhere.

use std::borrow::Cow;

use floe_abi::{CudaError, CudaResult};
use floe_surface::link::LinkInput;
use floe_surface::{Image, JitOptions, LinkCalls};
use floe_wire::{Call, JitOption, LibraryId, LinkLibrary, ReadLinked};

use crate::client::Client;
use crate::log::log;
use crate::objects::content::Contents;
use crate::objects::module::load::{MOST_ROUNDS, log_bytes, refused};
use crate::vgpu::Vgpu;

/// The largest image that is read back.
const MOST_BYTES: u64 = 1 << 30;

fn plain(options: impl Iterator<Item = (u32, u64)>) -> Vec<JitOption> {
    let plain = |(option, value)| Some(JitOption { option: i32::try_from(option).ok()?, value });
    options.filter_map(plain).collect()
}

impl Vgpu {
    /// Links at the server; the image's id and bytes.
    fn link(&self, inputs: &[LinkInput], options: &mut JitOptions) -> CudaResult<(u64, u64)> {
        // Every input as it is: what the link takes of it is its driver's to say.
        let whole = Image {
            kind: floe_image::ImageKind::Cubin,
            containers: inputs.iter().map(|input| Cow::Borrowed(input.bytes.as_slice())).collect(),
        };
        let contents = Contents::of(&whole, self);
        let mut missing = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let id = self.next_id();
            contents.send(self, id, &missing)?;
            let inputs = inputs.iter().map(|input| floe_wire::LinkInput {
                kind: input.kind,
                name: &input.name,
                options: plain(input.options.iter().copied()),
            });
            let message = LinkLibrary {
                library: LibraryId(id),
                inputs: inputs.collect(),
                contents: contents.names(),
                options: plain(options.plain()),
                log_bytes: log_bytes(options),
            };
            let answer = self.connection.ask(&message)?;
            if let Some(error) = CudaError::from_code(answer.status) {
                return Err(refused(error, &answer.detail, options));
            }
            let reply = self.connection.read(LinkLibrary::decode_reply(&answer.body))?;
            if reply.missing.is_empty() {
                self.statistics.knew_contents(contents.count() - missing.len());
                options.write_error("");
                options.write_info(reply.info);
                return Ok((id, reply.bytes));
            }
            contents.note_missing(&mut missing, &reply.missing);
        }
        log!(Error, "the server lacks what was sent to it for a link: {} bytes", whole.size());
        Err(CudaError::UNKNOWN)
    }

    fn read_linked(&self, id: u64, bytes: u64) -> CudaResult<Vec<u8>> {
        if bytes > MOST_BYTES {
            log!(Warn, "cuLinkComplete: the linked image is too large: {bytes} bytes");
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let mut image = Vec::new();
        while (image.len() as u64) < bytes {
            let answer = self.call(&ReadLinked { library: LibraryId(id) })?;
            let reply = self.connection.read(ReadLinked::decode_reply(&answer.body))?;
            if reply.bytes.is_empty() || image.len() as u64 + reply.bytes.len() as u64 > bytes {
                log!(Error, "the server sent another image than it had announced");
                return Err(CudaError::UNKNOWN);
            }
            image.extend_from_slice(reply.bytes);
        }
        Ok(image)
    }
}

impl LinkCalls for Client {
    fn link(&self, inputs: &[LinkInput], options: &mut JitOptions) -> CudaResult<Vec<u8>> {
        let vgpu = std::sync::Arc::clone(&self.working()?.vgpu);
        if let Some(option) = options.unsupported().next() {
            log!(Warn, "a link with an option that is not supported: CUjit_option {option}");
            return Err(CudaError::NOT_SUPPORTED);
        }
        vgpu.errors.report()?;
        let (id, bytes) = vgpu.link(inputs, options)?;
        vgpu.read_linked(id, bytes)
    }
}
