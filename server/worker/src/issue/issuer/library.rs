//! Libraries, their kernels and globals.
//! In: the contents of images, names. Out: loaded libraries; kernels bound to the client's ids, with what the client must know.
//! It looks into an image only as far as needed for the driver not to read past its end.

use std::sync::Arc;

use floe_abi::CudaError;
use floe_device::{Code, Content, Device, Image, ImageKind, KernelFacts, KernelSetting, Loading};
use floe_image::Demand;
use floe_wire::{
    Attribute, FindGlobal, FindGlobalReply, FindKernel, FindKernelReply, JitOption, LibraryId, LibraryPart,
    LibraryRequests, ListKernels, ListKernelsReply, LoadLibrary, LoadLibraryReply, Parameter, SetKernelAttribute,
    SetKernelAttributeReply, UnloadLibrary,
};

use super::{Answer, Issuer, body};
use crate::issue::cache::Hash;
use crate::issue::fault::{Fault, violation};
use crate::issue::objects::compiled::Text;
use crate::issue::objects::contents::{Gathered, LIMITS};
use crate::issue::objects::library::{Kernel, Loaded};
use crate::life::process::give_back_free_pages;
use crate::memory::budget::{Kept, cost};

/// The most bytes of a compiler's log.
pub(super) const LOG_BYTES: usize = 1 << 20;

/// Bytes of a content from which on a load leaves pages of the heap behind that are worth giving back.
const LEAVES_PAGES: u64 = 64 << 10;

/// The first bytes of a fat binary.
const CONTAINER: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();

/// `CUjit_option` numbers whose value is a plain number that the driver only reads; all others are addresses or outputs.
const PLAIN_OPTIONS: [i32; 23] =
    [0, 1, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 21, 22, 23, 24, 29, 30, 31, 32, 33, 34];

/// `CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES`.
const LOCAL_SIZE: i32 = 3;
/// Units in which modules' memory is charged: small modules share pages of the driver's, larger ones have pieces or
/// large pages.
const PIECES: [(u64, u64); 3] = [(64 << 10, 4 << 10), (1 << 20, 128 << 10), (u64::MAX, 2 << 20)];

impl<D: Device> LibraryRequests for Issuer<D> {
    fn library_part(&mut self, message: LibraryPart<'_>) -> Result<Answer, Fault> {
        self.contents.part(message)?;
        Ok(Answer::Nothing)
    }

    fn load_library(&mut self, message: &LoadLibrary<'_>) -> Result<Answer, Fault> {
        let id = message.library;
        // Its parts are used up, whatever becomes of it.
        let gathered = self.contents.gather(id, &message.contents)?;
        self.libraries.check_posted(id.0)?;
        let contents = match gathered {
            Gathered::All(contents) => contents,
            Gathered::Missing(missing) => {
                // Commands posted together with the load find that the library does not exist.
                self.libraries.bind(id.0, Err(CudaError::NOT_FOUND));
                return body(&LoadLibraryReply { missing, info: "" });
            }
        };
        let image = image_of(message.kind, contents).inspect_err(|fault| self.bind_failure(id, fault))?;
        let options = plain_options(&message.options)?;
        let log_bytes = usize::try_from(message.log_bytes).unwrap_or(LOG_BYTES).min(LOG_BYTES);
        let hashes = message.contents.iter().filter_map(|content| Hash::try_from(content.hash).ok());
        let contents = hashes.zip(image.contents.iter().cloned()).collect();
        let charged = self.charge_library(&image, message.at_once);
        let (charge, kept) = charged.inspect_err(|fault| self.bind_failure(id, fault))?;
        self.shared.printing.watch(&image.contents);
        let loading = Loading { at_once: message.at_once, options, log_bytes };
        let (loaded, charge) = match charge.and_then(|charge| self.load_machine_code(&image, &loading, charge)) {
            Some((code, charge, said)) => (Ok((code, said)), Some(charge)),
            None => (self.device().load(image, &loading), charge),
        };
        // 0.3 ms each on an H200 host. Behind every load of PyTorch's ResNet-18 it left the worker 60 MiB smaller (docs/measurements.md).
        if message.contents.iter().any(|content| content.bytes >= LEAVES_PAGES) {
            give_back_free_pages();
        }
        match (loaded, charge) {
            (Ok((code, _)), None) => {
                self.device().unload(code)?;
                Err(untold()).inspect_err(|fault| self.bind_failure(id, fault))
            }
            (Ok((code, info)), Some(charge)) => {
                self.libraries.bind(id.0, Ok(Loaded { code, contents, charge, has_found: false, kept }));
                body(&LoadLibraryReply { missing: Vec::new(), info: &info })
            }
            (Err(failure), charge) => {
                self.allowance.ledger.give(charge.unwrap_or(0));
                self.shared
                    .log
                    .line(format_args!("library {} does not load: {}: {}", id.0, failure.error, failure.log));
                self.libraries.bind(id.0, Err(failure.error));
                Err(Fault::Explained(failure.error, failure.log))
            }
        }
    }

    fn unload_library(&mut self, message: UnloadLibrary) -> Result<Answer, Fault> {
        let id = message.library;
        let library = self.libraries.remove(id.0)?;
        let is_used = library.as_ref().is_some_and(Loaded::may_have_run);
        self.kernels.invalidate(CudaError::INVALID_HANDLE, |kernel| kernel.library == id);
        if let Some(library) = library {
            self.allowance.ledger.give(library.charge);
            let code = library.code;
            if is_used {
                self.departed.take(id.0, library, &self.allowance.budget);
            }
            self.device().unload(code)?;
        }
        Ok(Answer::Nothing)
    }

    fn list_kernels(&mut self, message: ListKernels) -> Result<Answer, Fault> {
        let names = self.device().kernel_names(self.libraries.get(message.library.0)?.code)?;
        body(&ListKernelsReply { names: names.iter().map(String::as_str).collect() })
    }

    fn find_kernel(&mut self, message: FindKernel<'_>) -> Result<Answer, Fault> {
        let id = message.kernel;
        self.kernels.check_posted(id.0)?;
        let found = self.kernel_of(message.library, message.name);
        // Commands posted together with the look-up find that the kernel does not exist.
        let (kernel, facts) = found.inspect_err(|fault| {
            if let Fault::Program(error) | Fault::Explained(error, _) = fault {
                self.kernels.bind(id.0, Err(*error));
            }
        })?;
        self.kernels.bind(id.0, Ok(kernel));
        let parameters = facts.parameters.iter().flatten();
        body(&FindKernelReply {
            parameters: parameters.map(|&(offset, bytes)| Parameter { offset, bytes }).collect(),
            attributes: attributes(&facts),
        })
    }

    fn find_global(&mut self, message: FindGlobal<'_>) -> Result<Answer, Fault> {
        let library = self.libraries.get_mut(message.library.0)?;
        library.has_found = true;
        let code = library.code;
        let found = self.device().find_global(code, message.name)?;
        body(&FindGlobalReply { at: found.at, bytes: found.bytes, managed: found.is_managed })
    }

    fn set_kernel_attribute(&mut self, message: SetKernelAttribute) -> Result<Answer, Fault> {
        let kernel = self.kernels.get(message.kernel.0)?;
        let setting = match message.what {
            0 => KernelSetting::Attribute(message.number),
            1 => KernelSetting::CacheConfig,
            2 => KernelSetting::SharedMemoryConfig,
            what => return violation(format!("unknown setting of a kernel: {what}")),
        };
        self.device().set_kernel(kernel.function, setting, message.value)?;
        let facts = self.device().kernel_facts(kernel.function)?;
        self.kernels.get_mut(message.kernel.0)?.frame = frame(&facts);
        body(&SetKernelAttributeReply { attributes: attributes(&facts) })
    }
}

impl<D: Device> Issuer<D> {
    /// A library's kernel of this name, with what the device says of it.
    fn kernel_of(&mut self, library: LibraryId, name: &str) -> Result<(Kernel, KernelFacts), Fault> {
        let code = self.libraries.get(library.0)?.code;
        let function = self.device().find_kernel(code, name)?;
        let facts = self.device().kernel_facts(function)?;
        self.libraries.get_mut(library.0)?.has_found = true;
        let (parameter_bytes, frame) = (parameter_bytes(&facts), frame(&facts));
        Ok((Kernel { function, library, parameter_bytes, frame }, facts))
    }

    /// Loads the machine code of an image that the driver would have to compile: the code, what it is charged, no less than
    /// its text was, and what the compiler said. `None`: the driver is to load the image, and to say what is wrong with it.
    fn load_machine_code(&mut self, image: &Image, loading: &Loading, charge: u64) -> Option<(Code, u64, String)> {
        let (content, said) = self.machine_code(image, loading)?;
        demand_elf(&content).ok()?;
        let takes = if self.allowance.ledger.is_bounded() {
            let Demand::Bytes(takes) = floe_image::demand(&content, &LIMITS) else { return None };
            in_pieces(takes).max(charge)
        } else {
            charge
        };
        self.allowance.ledger.take(takes - charge).ok()?;
        let machine_code = Image { kind: ImageKind::Cubin, contents: vec![content] };
        match self.device().load(machine_code, loading) {
            Ok((code, info)) => Some((code, takes, if said.is_empty() { info } else { said })),
            Err(failure) => {
                // Another driver's, where daemons share a folder, or not what its note says.
                self.allowance.ledger.give(takes - charge);
                self.shared.log.line(format_args!("machine code that was kept does not load: {}", failure.error));
                None
            }
        }
    }

    /// The machine code of an image, kept from an earlier session of the user or compiled here, and what the compiler said.
    fn machine_code(&mut self, image: &Image, loading: &Loading) -> Option<(Content, String)> {
        let target = if self.contents.keeps() { self.device().compiles_for()? } else { return None };
        let text = Text::of(image, &loading.options, target)?;
        let device = Arc::clone(&self.shared.device);
        let (inputs, options) = text.link();
        let mut said = String::new();
        let compile = || {
            let (code, info) = device.link(&inputs, options, loading.log_bytes).ok()?;
            said = info;
            Some(code)
        };
        let content = self.contents.compiled(&text.name, compile)?;
        Some((content, said))
    }

    /// Charges what the image takes of device memory (in bytes) and of host memory. `None`: the demand is unknown, and
    /// the image may be loaded only to learn what is wrong with it.
    fn charge_library(&mut self, image: &Image, at_once: bool) -> Result<(Option<u64>, Kept), Fault> {
        let bytes = |contents: &mut dyn Iterator<Item = &Content>| contents.map(|it| it.len() as u64).sum::<u64>();
        let all = bytes(&mut image.contents.iter()).saturating_mul(cost::COPIES_OF_LIBRARY);
        // The driver reads a library where we keep it, and has a copy of a module: then ours is one more.
        let ours = if at_once { bytes(&mut image.contents.iter().filter(|it| it.is_in_memory())) } else { 0 };
        let kept = self.allowance.budget.keep(all.saturating_add(ours))?;
        if !self.allowance.ledger.is_bounded() {
            return Ok((Some(0), kept));
        }
        let charge = image.contents.iter().try_fold(0_u64, |sum, content| match floe_image::demand(content, &LIMITS) {
            Demand::Bytes(bytes) => Some(sum.saturating_add(in_pieces(bytes))),
            Demand::Unknown => None,
        });
        match charge {
            Some(bytes) => self.allowance.ledger.take(bytes)?,
            // A device whose memory is shared out has its store in this process: nobody else misses what it takes until it
            // is unloaded.
            None if self.allowance.ledger.is_shared_out() => {}
            // Of a session without a quota the daemon sees what it takes, on the GPU's own figures.
            None if !self.allowance.ledger.has_quota() => return Ok((Some(0), kept)),
            None => return Err(untold()),
        }
        Ok((charge, kept))
    }

    fn bind_failure(&mut self, id: LibraryId, fault: &Fault) {
        if let Fault::Program(error) | Fault::Explained(error, _) = fault {
            self.libraries.bind(id.0, Err(*error));
        }
    }
}

/// The image's demand is not known: it is charged like one that takes more than there is.
fn untold() -> Fault {
    let words = "the image's demand of device memory is unknown, and the session may use only a part of the device";
    Fault::Explained(CudaError::OUT_OF_MEMORY, words.into())
}

/// Bytes of local memory of each of its threads.
fn frame(facts: &KernelFacts) -> u64 {
    let size = facts.attributes.iter().find(|(number, _)| *number == LOCAL_SIZE).map_or(0, |(_, value)| *value);
    u64::try_from(size).unwrap_or(0)
}

/// The bytes that the driver takes for a module's variables and code.
fn in_pieces(bytes: u64) -> u64 {
    let piece = PIECES.iter().find(|(below, _)| bytes < *below).map_or(1, |(_, piece)| *piece);
    bytes.checked_next_multiple_of(piece).unwrap_or(u64::MAX)
}

fn attributes(facts: &KernelFacts) -> Vec<Attribute> {
    facts.attributes.iter().map(|&(number, value)| Attribute { number, value }).collect()
}

fn parameter_bytes(facts: &KernelFacts) -> Option<usize> {
    let parameters = facts.parameters.as_ref()?;
    let end = parameters.iter().map(|&(offset, bytes)| u64::from(offset) + u64::from(bytes)).max();
    usize::try_from(end.unwrap_or(0)).ok()
}

/// Compiler options by number.
pub(crate) fn plain_options(options: &[JitOption]) -> Result<Vec<(i32, u64)>, Fault> {
    match options.iter().find(|option| !PLAIN_OPTIONS.contains(&option.option)) {
        Some(other) => violation(format!("not an option with a plain value: {}", other.option)),
        None => Ok(options.iter().map(|option| (option.option, option.value)).collect()),
    }
}

/// The image the contents make. The driver finds the end of an image from the image itself: what it would read past our
/// bytes is refused here.
pub(crate) fn image_of(kind: u32, contents: Vec<Content>) -> Result<Image, Fault> {
    let kind = match kind {
        1 => ImageKind::FatBinary,
        2 => ImageKind::Cubin,
        3 => ImageKind::Ptx,
        other => return violation(format!("unknown kind of image: {other}")),
    };
    let Some(main) = contents.first() else { return violation("a library without contents") };
    // A client that loads what an earlier start of its program loaded knows no more of it than that.
    let demand_container = |content: &Content| {
        demand_fat_binary(content).map_err(|_| {
            Fault::Explained(CudaError::INVALID_IMAGE, format!("not a whole fat binary: {} bytes", content.len()))
        })
    };
    match kind {
        // A driver goes by the first bytes, whatever the client says.
        ImageKind::Ptx if main.starts_with(b"\x7fELF") => demand_elf(main)?,
        ImageKind::Ptx if main.starts_with(&CONTAINER) => demand_container(main)?,
        // The device puts the NUL behind it that the driver looks for.
        ImageKind::Ptx => {}
        ImageKind::Cubin => demand_elf(main)?,
        ImageKind::FatBinary => contents.iter().try_for_each(demand_container)?,
    }
    if kind != ImageKind::FatBinary && contents.len() > 1 {
        return violation(format!("one content is the image, there are: {}", contents.len()));
    }
    Ok(Image { kind, contents })
}

/// A fat binary's header: magic, version (2 bytes), its own size (2 bytes), the bytes that follow (8 bytes).
pub(super) fn demand_fat_binary(container: &[u8]) -> Result<(), Fault> {
    let whole = || -> Option<bool> {
        let (magic, rest) = container.split_first_chunk::<4>()?;
        let (_version, rest) = rest.split_first_chunk::<2>()?;
        let (header, rest) = rest.split_first_chunk::<2>()?;
        let (following, _) = rest.split_first_chunk::<8>()?;
        let end = u64::from(u16::from_le_bytes(*header)).checked_add(u64::from_le_bytes(*following))?;
        Some(*magic == CONTAINER && end <= container.len() as u64)
    };
    match whole() {
        Some(true) => Ok(()),
        _ => violation(format!("not a whole fat binary: {} bytes", container.len())),
    }
}

/// ELF's section table is its last part as compilers write it: it must lie within the bytes.
pub(super) fn demand_elf(image: &[u8]) -> Result<(), Fault> {
    let field = |at: usize, bytes: usize| -> Option<u64> {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(image.get(at..at + bytes)?);
        Some(u64::from_le_bytes(value))
    };
    let whole = || -> Option<bool> {
        let end = field(40, 8)?.checked_add(field(58, 2)? * field(60, 2)?)?;
        let segments = field(32, 8)?.checked_add(field(54, 2)? * field(56, 2)?)?;
        Some(image.starts_with(b"\x7fELF") && end.max(segments) <= image.len() as u64)
    };
    match whole() {
        Some(true) => Ok(()),
        _ => Err(Fault::Explained(CudaError::INVALID_IMAGE, format!("not a whole ELF image: {} bytes", image.len()))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn image_of(kind: u32, contents: Vec<Vec<u8>>) -> Result<Image, Fault> {
        super::image_of(kind, contents.iter().map(|bytes| Content::from(&bytes[..])).collect())
    }

    fn fat_binary(following: u64, bytes: usize) -> Vec<u8> {
        let mut container = 0xba55_ed50_u32.to_le_bytes().to_vec();
        container.extend([1, 0, 16, 0]);
        container.extend(following.to_le_bytes());
        container.resize(16 + bytes, 7);
        container
    }

    #[test]
    fn fat_binary_must_be_whole() {
        assert!(image_of(1, vec![fat_binary(8, 8)]).is_ok());
        assert!(image_of(1, vec![fat_binary(8, 8), fat_binary(0, 0)]).is_ok());
        for container in [fat_binary(9, 8), fat_binary(u64::MAX, 8), vec![0; 64], vec![], b"PFLE".to_vec()] {
            assert!(matches!(image_of(1, vec![container]), Err(Fault::Explained(CudaError::INVALID_IMAGE, _))));
        }
        assert!(matches!(image_of(1, vec![]), Err(Fault::ProtocolViolation(_))));
    }

    #[test]
    fn text_and_machine_code_are_one_content() {
        assert!(image_of(3, vec![b".version".to_vec()]).is_ok());
        assert!(image_of(3, vec![vec![], vec![]]).is_err());
        // What is no text is held to what it is.
        for other in [b"\x7fELF".to_vec(), fat_binary(9, 8), fat_binary(8, 8)[..12].to_vec()] {
            assert!(matches!(image_of(3, vec![other]), Err(Fault::Explained(CudaError::INVALID_IMAGE, _))));
        }
        assert!(image_of(3, vec![fat_binary(8, 8)]).is_ok());
        assert!(image_of(4, vec![vec![]]).is_err());
    }

    #[test]
    fn elf_with_tables_outside_is_refused() {
        let mut image = vec![0; 64];
        image[..4].copy_from_slice(b"\x7fELF");
        assert!(image_of(2, vec![image.clone()]).is_ok());
        image[40..48].copy_from_slice(&65_u64.to_le_bytes());
        assert!(image_of(2, vec![image]).is_err());
        assert!(image_of(2, vec![b"\x7fELF".to_vec()]).is_err());
    }

    #[test]
    fn parameter_block_ends_with_its_last_parameter() {
        let facts = |parameters| KernelFacts { parameters, attributes: vec![] };
        assert_eq!(parameter_bytes(&facts(None)), None);
        assert_eq!(parameter_bytes(&facts(Some(vec![]))), Some(0));
        assert_eq!(parameter_bytes(&facts(Some(vec![(0, 8), (8, 4), (16, 8)]))), Some(24));
    }
}
