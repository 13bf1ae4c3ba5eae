//! A block of memory: what it holds, and the accesses to it that may still be going on.
//! In: boxes of bytes. Out: the same. It never looks beyond its own end: callers have checked.

use crate::operation::{End, Kind};
use crate::order::Moment;

/// An access that the host does not know to be over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) moment: Moment,
    pub(crate) writes: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) kind: Kind,
    pub(crate) vgpu: usize,
    pub(crate) width: usize,
    pub(crate) rows: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) accesses: Vec<Access>,
    /// Pageable memory that is registered for the time being.
    pub(crate) is_registered: bool,
    /// Other vGPUs that have got access to it.
    pub(crate) opened: Vec<usize>,
    /// Its owner has freed it, and others have it still.
    pub(crate) is_left: bool,
    /// Another one whenever its address changes.
    pub(crate) version: u32,
}

impl Block {
    pub(crate) fn new(kind: Kind, vgpu: usize, width: usize, rows: usize, fill: u8) -> Self {
        let bytes = vec![fill; width * rows];
        Self {
            kind,
            vgpu,
            width,
            rows,
            bytes,
            accesses: Vec::new(),
            is_registered: false,
            opened: Vec::new(),
            is_left: false,
            version: 0,
        }
    }

    /// Whether it is a vGPU's, or that has got access to it.
    pub(crate) fn has(&self, vgpu: usize) -> bool {
        self.vgpu == vgpu && !self.is_left || self.opened.contains(&vgpu)
    }

    /// Nobody has it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_left && self.opened.is_empty()
    }

    /// A vGPU that has it.
    pub(crate) fn holder(&self) -> usize {
        if self.is_left { self.opened[0] } else { self.vgpu }
    }

    /// Everything of a vGPU ends.
    pub(crate) fn end_of(&mut self, vgpu: usize, processes: bool) {
        self.close(vgpu);
        if self.vgpu != vgpu {
            return;
        }
        if self.kind == Kind::Pageable {
            self.version += u32::from(self.is_registered);
            self.is_registered = false;
            return;
        }
        self.is_left = true;
        self.opened.retain(|_| processes);
    }

    /// This vGPU's access ends.
    pub(crate) fn close(&mut self, vgpu: usize) {
        let before = self.opened.len();
        self.opened.retain(|other| *other != vgpu);
        self.version += u32::from(self.opened.len() < before);
    }

    pub(crate) fn is_array(&self) -> bool {
        matches!(self.kind, Kind::Array { .. })
    }

    /// It has a shape of its own, not one of the call's.
    pub(crate) fn has_shape(&self) -> bool {
        self.is_array() || self.kind == Kind::Pitched
    }

    pub(crate) fn is_host(&self) -> bool {
        matches!(self.kind, Kind::Pageable | Kind::Pinned { .. })
    }

    /// Both are memory of devices, of one each.
    pub(crate) fn is_peer_of(&self, other: &Self) -> bool {
        !self.is_host() && !other.is_host() && self.vgpu != other.vgpu
    }

    pub(crate) fn is_pageable(&self) -> bool {
        self.kind == Kind::Pageable && !self.is_registered
    }

    /// Rows of a plane.
    pub(crate) fn height(&self) -> usize {
        match self.kind {
            Kind::Array { depth, .. } => self.rows / depth.max(1),
            _ => self.rows,
        }
    }

    /// Whether so many bytes from there lie in it, and in one row where it has any.
    pub(crate) fn holds(&self, offset: usize, bytes: usize) -> bool {
        let in_row = !self.has_shape() || offset % self.width + bytes <= self.width;
        bytes > 0 && in_row && offset + bytes <= self.bytes.len()
    }

    /// Whether a box lies in it.
    pub(crate) fn holds_box(&self, end: End, extent: [usize; 3]) -> bool {
        let [width, rows, _] = extent;
        let (offset, height) = (end.at.offset, self.height());
        if extent.contains(&0) || end.pitch < width || end.height < rows {
            return false;
        }
        if self.has_shape() {
            let (column, row) = (offset % self.width, offset / self.width % height);
            let own = end.pitch == self.width && end.height == height;
            if !own || column + width > self.width || row + rows > height {
                return false;
            }
        }
        last(end, extent) <= self.bytes.len()
    }

    /// The bytes of a box, row by row.
    pub(crate) fn gather(&self, end: End, extent: [usize; 3]) -> Vec<u8> {
        starts(end, extent).flat_map(|start| self.bytes[start..start + extent[0]].iter().copied()).collect()
    }

    pub(crate) fn scatter(&mut self, end: End, extent: [usize; 3], bytes: &[u8]) {
        for (start, row) in starts(end, extent).zip(bytes.chunks(extent[0])) {
            self.bytes[start..start + extent[0]].copy_from_slice(row);
        }
    }

    pub(crate) fn word(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes[offset..offset + 4].try_into().expect("four bytes"))
    }

    pub(crate) fn set_word(&mut self, offset: usize, word: u32) {
        self.bytes[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
    }

    /// Every word from there on is multiplied, and a number added.
    pub(crate) fn change(&mut self, offset: usize, words: usize, multiply: u32, add: u32) {
        for at in (offset..).step_by(4).take(words) {
            self.set_word(at, self.word(at).wrapping_mul(multiply).wrapping_add(add));
        }
    }
}

/// Where each row of a box begins.
fn starts(end: End, [_, rows, planes]: [usize; 3]) -> impl Iterator<Item = usize> {
    let plane = move |plane| end.at.offset + plane * end.pitch * end.height;
    (0..planes).flat_map(move |at| (0..rows).map(move |row| plane(at) + row * end.pitch))
}

/// One behind the last byte of a box.
pub(crate) fn last(end: End, [width, rows, planes]: [usize; 3]) -> usize {
    end.at.offset + (planes - 1) * end.pitch * end.height + (rows - 1) * end.pitch + width
}
