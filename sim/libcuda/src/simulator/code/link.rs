//! Linking while the program runs: inputs come in, and one image with the PTX of all of them goes out. The inputs are
//! first checked to fit together. The machine links again whenever the image is loaded, since addresses differ from
//! load to load.
//! Machine code is no input here; it is refused by name.

use floe_abi::{CudaError, CudaResult, jit_input};
use floe_image::{Image, ImageKind, Limits, linked_image};
use floe_surface::link::LinkInput;
use floe_surface::{JitOptions, LinkCalls};

use super::instance;
use super::instance::{Code, refuse};
use crate::simulator::Simulator;

/// An input as an image.
fn image<'a>(input: &'a LinkInput, options: &mut JitOptions) -> CudaResult<Image<'a>> {
    match input.kind {
        jit_input::PTX => Ok(Image { kind: ImageKind::Ptx, containers: vec![input.bytes.as_slice().into()] }),
        jit_input::CUBIN | jit_input::FATBINARY => Image::from_bytes(&input.bytes, &Limits::default())
            .map_err(|error| refuse(options, error.code(), &format!("cannot link {}: {error}", input.name))),
        kind => {
            let what = match kind {
                jit_input::OBJECT => "host objects",
                jit_input::LIBRARY => "archives",
                _ => "NVVM code",
            };
            let message = format!("cannot link {}: the CPU device links PTX and not {what}", input.name);
            Err(refuse(options, CudaError::NOT_SUPPORTED, &message))
        }
    }
}

impl LinkCalls for Simulator {
    fn link(&self, inputs: &[LinkInput], options: &mut JitOptions) -> CudaResult<Vec<u8>> {
        let (context, device) = self.working_device()?;
        let unsupported = options.unsupported().next();
        if let Some(option) = unsupported {
            let message = format!("cannot link with CUjit_option {option}");
            return Err(refuse(options, CudaError::NOT_SUPPORTED, &message));
        }
        let mut codes = Vec::with_capacity(inputs.len());
        for input in inputs {
            let image = image(input, options)?;
            codes.push(instance::read(&image, device, options)?);
        }
        let code = Code::together(codes);
        // Loaded once, so that what is missing or there twice shows here.
        let instance = self.instantiate(&context, &code, options)?;
        self.discard(&instance);
        let texts: Vec<&[u8]> = code.texts().map(str::as_bytes).collect();
        Ok(linked_image(&texts))
    }
}

#[cfg(test)]
mod tests {
    use floe_surface::ModuleCalls;

    use super::*;
    use crate::simulator::tests::simulator;

    const DEFINES: &str = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .global .align 4 .u32 number = 7;\n";
    const USES: &str = ".version 8.0\n.target sm_75\n.address_size 64\n.extern .global .align 4 .u32 number;\n\
        .visible .entry k() { .reg .u32 %r<2>; ld.global.u32 %r1, [number]; ret; }\n";

    fn input(kind: u32, bytes: &[u8]) -> LinkInput {
        LinkInput { kind, name: "it".to_owned(), bytes: bytes.to_vec(), options: Vec::new() }
    }

    #[test]
    fn a_linked_image_is_loaded_and_is_an_input_itself() {
        let simulator = simulator();
        let none = &mut JitOptions::none();
        let part = simulator.link(&[input(jit_input::PTX, DEFINES.as_bytes())], none).expect("links");
        let inputs = [input(jit_input::CUBIN, &part), input(jit_input::PTX, USES.as_bytes())];
        let whole = simulator.link(&inputs, none).expect("links");
        let image = Image::from_bytes(&whole, &Limits::default()).expect("an image");
        let module = simulator.module_load_data(&image, none).expect("loads");
        assert!(simulator.module_get_function(module, c"k").is_ok());
        assert_eq!(simulator.module_get_global(module, c"number").map(|(_, bytes)| bytes), Ok(4));
    }

    #[test]
    fn inputs_that_do_not_fit_together_or_are_no_ptx_are_refused() {
        let simulator = simulator();
        let refused = |inputs: &[LinkInput]| simulator.link(inputs, &mut JitOptions::none()).err();
        let (uses, defines) = (input(jit_input::PTX, USES.as_bytes()), input(jit_input::PTX, DEFINES.as_bytes()));
        assert_eq!(refused(std::slice::from_ref(&uses)), Some(CudaError::SHARED_OBJECT_SYMBOL_NOT_FOUND));
        assert_eq!(refused(&[uses, defines.clone(), defines]), Some(CudaError::INVALID_PTX));
        assert_eq!(refused(&[input(jit_input::LIBRARY, b"!<arch>")]), Some(CudaError::NOT_SUPPORTED));
        assert_eq!(refused(&[input(jit_input::PTX, b"no PTX")]), Some(CudaError::INVALID_PTX));
        assert!(refused(&[input(jit_input::CUBIN, b"no cubin")]).is_some());
    }
}
