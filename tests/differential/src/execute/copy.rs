//! Copies by the driver's functions, and arrays.
//! In: places and boxes. Out: calls. It never looks at bytes but those that the host reads.

use std::ptr::{null, null_mut};

use anyhow::Result;
use cudarc::driver::sys;

use super::held::Held;
use super::state::Executor;
use crate::device::{cu, pointer};
use crate::model::Model;
use crate::operation::{Call, End, Id, Kind, Place, Stream, Which};

impl Executor {
    /// Reads by a copy into memory of its own.
    pub(super) fn read(&mut self, at: Place, bytes: usize, vgpu: usize, model: &Model) -> Result<()> {
        self.enter(vgpu)?;
        let mut read = vec![0; bytes];
        if self.blocks[&at.block].is_host() {
            cu!(cuMemcpy(read.as_mut_ptr() as u64, self.host_address(at), bytes))?;
        } else {
            cu!(cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), self.address(at), bytes))?;
        }
        self.compare(at, &read, model)
    }

    /// As a copy names it: host memory by the host's address.
    fn copied(&self, at: Place) -> u64 {
        if self.blocks[&at.block].is_host() { self.host_address(at) } else { self.address(at) }
    }

    pub(super) fn copy(&mut self, stream: Stream, to: Place, from: Place, bytes: usize, how: Call) -> Result<()> {
        let handle = self.stream(stream)?;
        let (target, source) = (self.copied(to), self.copied(from));
        let [held_to, held_from] = [to, from].map(|place| &self.blocks[&place.block]);
        let [host_to, host_from] = [held_to, held_from].map(Held::is_host);
        let [context_to, context_from] = [held_to, held_from].map(|held| self.vgpus[held.vgpu].context);
        let is_peer = !host_to && !host_from && held_to.vgpu != held_from.vgpu;
        let sync = stream.which == Which::Default;
        if how == Call::Any || (host_to && host_from) {
            return if sync {
                cu!(cuMemcpy(target, source, bytes))
            } else {
                cu!(cuMemcpyAsync(target, source, bytes, handle))
            };
        }
        match (is_peer, host_to, host_from, sync) {
            (true, _, _, true) => cu!(cuMemcpyPeer(target, context_to, source, context_from, bytes)),
            (true, _, _, false) => cu!(cuMemcpyPeerAsync(target, context_to, source, context_from, bytes, handle)),
            (_, true, _, true) => cu!(cuMemcpyDtoH_v2(pointer(target), source, bytes)),
            (_, true, _, false) => cu!(cuMemcpyDtoHAsync_v2(pointer(target), source, bytes, handle)),
            (_, _, true, true) => cu!(cuMemcpyHtoD_v2(target, pointer(source), bytes)),
            (_, _, true, false) => cu!(cuMemcpyHtoDAsync_v2(target, pointer(source), bytes, handle)),
            (_, _, _, true) => cu!(cuMemcpyDtoD_v2(target, source, bytes)),
            (_, _, _, false) => cu!(cuMemcpyDtoDAsync_v2(target, source, bytes, handle)),
        }
    }

    /// An end as the driver's structures have it: x, y and z in an array, an address otherwise.
    fn position(&self, end: End) -> Position {
        let held = &self.blocks[&end.at.block];
        let mut position = Position {
            kind: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            at: [0; 3],
            address: 0,
            array: null_mut(),
            pitch: end.pitch,
            height: end.height,
        };
        match held.kind {
            Kind::Array { .. } => {
                let offset = end.at.offset;
                position.kind = sys::CUmemorytype::CU_MEMORYTYPE_ARRAY;
                position.array = held.array;
                let row = offset / held.width;
                position.at = [offset % held.width, row % held.height, row / held.height];
            }
            Kind::Pitched => {
                position.address = self.address(end.at);
                position.pitch = held.pitch;
            }
            _ => position.address = self.copied(end.at),
        }
        if held.is_host() {
            position.kind = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
        }
        position
    }

    /// The structure of a copy of a box.
    pub(super) fn box_of(&self, to: End, from: End, [width, rows, planes]: [usize; 3]) -> sys::CUDA_MEMCPY3D {
        let (to, from) = (self.position(to), self.position(from));
        let host = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
        let on_host = |end: &Position| if end.kind == host { pointer(end.address) } else { null_mut() };
        let on_device = |end: &Position| if end.kind == host { 0 } else { end.address };
        sys::CUDA_MEMCPY3D {
            srcXInBytes: from.at[0],
            srcY: from.at[1],
            srcZ: from.at[2],
            srcLOD: 0,
            srcMemoryType: from.kind,
            srcHost: on_host(&from),
            srcDevice: on_device(&from),
            srcArray: from.array,
            reserved0: null_mut(),
            srcPitch: from.pitch,
            srcHeight: from.height,
            dstXInBytes: to.at[0],
            dstY: to.at[1],
            dstZ: to.at[2],
            dstLOD: 0,
            dstMemoryType: to.kind,
            dstHost: on_host(&to),
            dstDevice: on_device(&to),
            dstArray: to.array,
            reserved1: null_mut(),
            dstPitch: to.pitch,
            dstHeight: to.height,
            WidthInBytes: width,
            Height: rows,
            Depth: planes,
        }
    }

    /// The context that says whose memory an end is; host memory and arrays need none.
    fn context_of(&self, end: End) -> sys::CUcontext {
        let held = &self.blocks[&end.at.block];
        let needs_none = held.is_host() || matches!(held.kind, Kind::Array { .. });
        if needs_none { null_mut() } else { self.vgpus[held.vgpu].context }
    }

    /// A box of one plane goes by the functions for two axes.
    pub(super) fn copy_box(&mut self, stream: Stream, to: End, from: End, extent: [usize; 3]) -> Result<()> {
        let handle = self.stream(stream)?;
        let copy = self.box_of(to, from, extent);
        let sync = stream.which == Which::Default;
        // Every other one; the rest goes by addresses that say whose they are. NVIDIA's driver captures no copy between contexts.
        if extent[1].is_multiple_of(2) && !self.captures {
            let contexts = [to, from].map(|end| self.context_of(end));
            let copy = between(&copy, contexts);
            return if sync {
                cu!(cuMemcpy3DPeer(&raw const copy))
            } else {
                cu!(cuMemcpy3DPeerAsync(&raw const copy, handle))
            };
        }
        if extent[2] > 1 || copy.srcZ + copy.dstZ > 0 {
            return if sync {
                cu!(cuMemcpy3D_v2(&raw const copy))
            } else {
                cu!(cuMemcpy3DAsync_v2(&raw const copy, handle))
            };
        }
        let flat = sys::CUDA_MEMCPY2D {
            srcXInBytes: copy.srcXInBytes,
            srcY: copy.srcY,
            srcMemoryType: copy.srcMemoryType,
            srcHost: copy.srcHost,
            srcDevice: copy.srcDevice,
            srcArray: copy.srcArray,
            srcPitch: copy.srcPitch,
            dstXInBytes: copy.dstXInBytes,
            dstY: copy.dstY,
            dstMemoryType: copy.dstMemoryType,
            dstHost: copy.dstHost,
            dstDevice: copy.dstDevice,
            dstArray: copy.dstArray,
            dstPitch: copy.dstPitch,
            WidthInBytes: extent[0],
            Height: extent[1],
        };
        if sync {
            cu!(cuMemcpy2DUnaligned_v2(&raw const flat))
        } else {
            cu!(cuMemcpy2DAsync_v2(&raw const flat, handle))
        }
    }

    pub(super) fn copy_batch(&mut self, stream: Stream, copies: &[(Place, Place, usize)]) -> Result<()> {
        let handle = self.stream(stream)?;
        let mut targets: Vec<u64> = copies.iter().map(|(to, ..)| self.copied(*to)).collect();
        let mut sources: Vec<u64> = copies.iter().map(|(_, from, _)| self.copied(*from)).collect();
        let mut sizes: Vec<usize> = copies.iter().map(|(.., bytes)| *bytes).collect();
        let nowhere = sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_INVALID, id: 0 };
        let mut attributes = sys::CUmemcpyAttributes {
            srcAccessOrder: sys::CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
            srcLocHint: nowhere,
            dstLocHint: nowhere,
            flags: 0,
        };
        let mut first = 0;
        cu!(cuMemcpyBatchAsync_v2(
            targets.as_mut_ptr(),
            sources.as_mut_ptr(),
            sizes.as_mut_ptr(),
            copies.len(),
            &raw mut attributes,
            &raw mut first,
            1,
            handle
        ))
    }

    pub(super) fn create_array(
        &self,
        held: &mut Held,
        unit: usize,
        channels: usize,
        [width, rows, depth]: [usize; 3],
    ) -> Result<()> {
        let format = match unit {
            1 => sys::CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8,
            2 => sys::CUarray_format::CU_AD_FORMAT_UNSIGNED_INT16,
            _ => sys::CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32,
        };
        let surfaces = unit * channels == 4;
        let descriptor = sys::CUDA_ARRAY3D_DESCRIPTOR {
            Width: width / (unit * channels),
            Height: rows / depth.max(1),
            Depth: depth,
            Format: format,
            NumChannels: u32::try_from(channels)?,
            Flags: if surfaces { 2 } else { 0 },
        };
        cu!(cuArray3DCreate_v2(&raw mut held.array, &raw const descriptor))
    }

    /// Fills a new array, by a copy that is waited for.
    pub(super) fn fill_array(&mut self, id: Id, bytes: &[u8]) -> Result<()> {
        let held = &self.blocks[&id];
        let stream = Stream { vgpu: held.vgpu, which: Which::Default };
        let (width, height) = (held.width, held.height);
        let end = End { at: Place { block: id, offset: 0 }, pitch: width, height };
        let mut copy = self.box_of(end, end, [width, height, bytes.len() / width / height]);
        copy.srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.srcHost = bytes.as_ptr().cast();
        copy.srcArray = null_mut();
        self.stream(stream)?;
        cu!(cuMemcpy3D_v2(&raw const copy))
    }

    fn resource(&self, array: Id) -> sys::CUDA_RESOURCE_DESC {
        let array = sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_1 { hArray: self.blocks[&array].array };
        let mut res = sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1 {
            reserved: sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_5 { reserved: [0; 32] },
        };
        res.array = array;
        sys::CUDA_RESOURCE_DESC { resType: sys::CUresourcetype::CU_RESOURCE_TYPE_ARRAY, res, flags: 0 }
    }

    /// The texture of an array, made when it is first asked for: integers at whole coordinates.
    pub(super) fn texture(&mut self, array: Id) -> Result<u64> {
        if self.blocks[&array].texture == 0 {
            let resource = self.resource(array);
            let clamp = sys::CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP;
            let point = sys::CUfilter_mode::CU_TR_FILTER_MODE_POINT;
            let texture = sys::CUDA_TEXTURE_DESC {
                addressMode: [clamp; 3],
                filterMode: point,
                flags: 1,
                maxAnisotropy: 0,
                mipmapFilterMode: point,
                mipmapLevelBias: 0.0,
                minMipmapLevelClamp: 0.0,
                maxMipmapLevelClamp: 0.0,
                borderColor: [0.0; 4],
                reserved: [0; 12],
            };
            let mut made = 0;
            cu!(cuTexObjectCreate(&raw mut made, &raw const resource, &raw const texture, null()))?;
            self.blocks.get_mut(&array).expect("it is held").texture = made;
        }
        Ok(self.blocks[&array].texture)
    }

    pub(super) fn surface(&mut self, array: Id) -> Result<u64> {
        if self.blocks[&array].surface == 0 {
            let resource = self.resource(array);
            let mut made = 0;
            cu!(cuSurfObjectCreate(&raw mut made, &raw const resource))?;
            self.blocks.get_mut(&array).expect("it is held").surface = made;
        }
        Ok(self.blocks[&array].surface)
    }

    pub(super) fn destroy_array(&self, held: &Held) -> Result<()> {
        if held.texture != 0 {
            cu!(cuTexObjectDestroy(held.texture))?;
        }
        if held.surface != 0 {
            cu!(cuSurfObjectDestroy(held.surface))?;
        }
        cu!(cuArrayDestroy(held.array))
    }
}

/// The copy of a box between two contexts.
fn between(copy: &sys::CUDA_MEMCPY3D, [to, from]: [sys::CUcontext; 2]) -> sys::CUDA_MEMCPY3D_PEER {
    sys::CUDA_MEMCPY3D_PEER {
        srcXInBytes: copy.srcXInBytes,
        srcY: copy.srcY,
        srcZ: copy.srcZ,
        srcLOD: 0,
        srcMemoryType: copy.srcMemoryType,
        srcHost: copy.srcHost,
        srcDevice: copy.srcDevice,
        srcArray: copy.srcArray,
        srcContext: from,
        srcPitch: copy.srcPitch,
        srcHeight: copy.srcHeight,
        dstXInBytes: copy.dstXInBytes,
        dstY: copy.dstY,
        dstZ: copy.dstZ,
        dstLOD: 0,
        dstMemoryType: copy.dstMemoryType,
        dstHost: copy.dstHost,
        dstDevice: copy.dstDevice,
        dstArray: copy.dstArray,
        dstContext: to,
        dstPitch: copy.dstPitch,
        dstHeight: copy.dstHeight,
        WidthInBytes: copy.WidthInBytes,
        Height: copy.Height,
        Depth: copy.Depth,
    }
}

/// An end of a box, for the driver.
struct Position {
    kind: sys::CUmemorytype,
    at: [usize; 3],
    address: u64,
    array: sys::CUarray,
    pitch: usize,
    height: usize,
}
