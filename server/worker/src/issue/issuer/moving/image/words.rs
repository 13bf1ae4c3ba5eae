//! What differs between two replies to one message, in words.
//! In: the message, the reply it got and the one it gets now. Out: a sentence that names the thing and both values.

use floe_wire::{
    Call, CreateSurface, CreateSurfaceReply, CreateTexture, CreateTextureReply, FindGlobal, FindGlobalReply,
    FindKernel, FindKernelReply, MapShared, MapSharedReply, Request, SetLimit, SetLimitReply, ShareFile,
};

/// The difference, where there is one.
pub(super) fn difference(request: &Request<'_>, wanted: &[u8], got: &[u8]) -> Option<String> {
    (wanted != got)
        .then(|| named(request, wanted, got).unwrap_or_else(|| format!("{} got another reply", request.name())))
}

fn named(request: &Request<'_>, wanted: &[u8], got: &[u8]) -> Option<String> {
    Some(match request {
        Request::FindGlobal(FindGlobal { library, name }) => {
            let [wanted, got]: [FindGlobalReply; 2] = both::<FindGlobal<'_>>(wanted, got)?;
            if wanted.at == got.at {
                let [wanted, got] = [wanted, got].map(|its| format!("{} bytes (managed: {})", its.bytes, its.managed));
                format!("variable {name} of library {} has {got}, not {wanted}", library.0)
            } else {
                format!("variable {name} of library {} lies at {:#x}, not at {:#x}", library.0, got.at.0, wanted.at.0)
            }
        }
        Request::FindKernel(FindKernel { library, name, .. }) => {
            let [wanted, got]: [FindKernelReply; 2] = both::<FindKernel<'_>>(wanted, got)?;
            let mut pairs = wanted.attributes.iter().zip(&got.attributes);
            match pairs.find(|(wanted, got)| wanted != got) {
                Some((wanted, got)) => format!(
                    "attribute {} of kernel {name} of library {} is {}, not {}",
                    wanted.number, library.0, got.value, wanted.value
                ),
                None => format!("kernel {name} of library {} has other parameters", library.0),
            }
        }
        Request::CreateTexture(CreateTexture { texture, .. }) => {
            let [wanted, got]: [CreateTextureReply; 2] = both::<CreateTexture>(wanted, got)?;
            format!("texture {} has the number {:#x}, not {:#x}", texture.0, got.object, wanted.object)
        }
        Request::CreateSurface(CreateSurface { surface, .. }) => {
            let [wanted, got]: [CreateSurfaceReply; 2] = both::<CreateSurface>(wanted, got)?;
            format!("surface {} has the number {:#x}, not {:#x}", surface.0, got.object, wanted.object)
        }
        Request::SetLimit(SetLimit { limit, .. }) => {
            let [wanted, got]: [SetLimitReply; 2] = both::<SetLimit>(wanted, got)?;
            format!("limit {limit} is {}, not {}", got.value, wanted.value)
        }
        Request::MapShared(MapShared { at, .. }) | Request::ShareFile(ShareFile { at, .. }) => {
            let [wanted, got]: [MapSharedReply; 2] = both::<MapShared>(wanted, got)?;
            format!("kernels reach the pages at {:#x}: {}, not {}", at.0, got.reached, wanted.reached)
        }
        _ => return None,
    })
}

fn both<'a, C: Call>(wanted: &'a [u8], got: &'a [u8]) -> Option<[C::Reply<'a>; 2]> {
    Some([C::decode_reply(wanted).ok()?, C::decode_reply(got).ok()?])
}
