//! Textures and surfaces: how kernels see arrays and memory as images. The driver API makes them and gets numbers for them;
//! instructions find them by these numbers. The bytes lie in device memory, and nothing here holds or frees any.

mod level;
mod sample;
mod texel;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, RwLock};

pub(crate) use level::Wanted;
pub use texel::Channel;

/// Elements of device memory in rows, slices and layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texels {
    /// Address of the first.
    pub base: u64,
    /// The type of a channel.
    pub channel: Channel,
    /// Channels of an element: 1, 2 or 4.
    pub channels: u32,
    /// Elements of a row, rows of a slice, slices or layers; at least one of each.
    pub extent: [u32; 3],
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Bytes from one slice or layer to the next.
    pub slice: u64,
}

impl Texels {
    /// Bytes of an element.
    pub fn element_bytes(&self) -> u64 {
        self.channel.bytes() * u64::from(self.channels)
    }

    fn address(&self, [x, y, z]: [u32; 3]) -> u64 {
        // The reader checks the sum; distances are the program's and may be any.
        let [x, y, z] = [(x, self.element_bytes()), (y, self.pitch), (z, self.slice)]
            .map(|(index, distance)| u64::from(index).wrapping_mul(distance));
        self.base.wrapping_add(x).wrapping_add(y).wrapping_add(z)
    }
}

/// The rule for coordinates outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The element at the same place of the next copy of the image.
    Wrap,
    /// The nearest element.
    Clamp,
    /// The element at the same place of the next mirror image.
    Mirror,
    /// The border.
    Border,
}

/// How a texture is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Of each axis.
    pub outside: [Outside; 3],
    /// Between elements a weighted mean of them is read, not the nearest.
    pub filtered: bool,
    /// Coordinates from 0 to 1 go over the whole image.
    pub normalized: bool,
    /// Small integers are read as integers, not as fractions of their largest.
    pub integers: bool,
    /// Colours are kept as sRGB has them and read as linear ones.
    pub srgb: bool,
    /// The value outside, with that mode.
    pub border: [f32; 4],
}

/// How the level of a mipmapped image is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Choice {
    /// Between levels a weighted mean of two is read, not the nearest.
    pub filtered: bool,
    /// Added to every level that an instruction asks for.
    pub bias: f32,
    /// The lowest level read.
    pub least: f32,
    /// The highest level read.
    pub most: f32,
}

/// A texture.
#[derive(Clone, Debug, PartialEq)]
pub struct Texture {
    /// The elements it reads: those of each level, the largest first.
    pub levels: Vec<Texels>,
    /// How.
    pub sampling: Sampling,
    /// Which level, where there are several.
    pub choice: Choice,
    /// Whether it is memory in one line: read by integers alone, with zeros outside.
    pub linear: bool,
}

/// A surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// The elements it reads and writes.
    pub texels: Texels,
}

/// All textures and surfaces of a process, by their numbers. Numbers count up from 1 and none is used twice.
#[derive(Debug, Default)]
pub struct Views {
    textures: RwLock<Kept<Texture>>,
    surfaces: RwLock<Kept<Surface>>,
}

/// Number of destroyed views that are still found: kernels queued before may read them, as on a GPU.
const LINGERING: usize = 4096;

#[derive(Debug)]
struct Kept<T> {
    last: u64,
    views: HashMap<u64, Arc<T>>,
    /// Destroyed views, the oldest first.
    leaving: VecDeque<u64>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { last: 0, views: HashMap::new(), leaving: VecDeque::new() }
    }
}

impl<T> Kept<T> {
    fn add(&mut self, view: T) -> u64 {
        self.last += 1;
        self.views.insert(self.last, Arc::new(view));
        self.last
    }

    fn give_up(&mut self, number: u64) {
        self.leaving.push_back(number);
        if self.leaving.len() > LINGERING
            && let Some(oldest) = self.leaving.pop_front()
        {
            self.views.remove(&oldest);
        }
    }
}

macro_rules! views {
    ($($what:literal, $kept:ident: $view:ty, $add:ident, $give_up:ident, $find:ident;)*) => {$(
        #[doc = concat!("Keeps a ", $what, "; its number.")]
        pub fn $add(&self, view: $view) -> u64 {
            floe_lock::write(&self.$kept).add(view)
        }

        #[doc = concat!("Gives a ", $what, " up, once.")]
        pub fn $give_up(&self, number: u64) {
            floe_lock::write(&self.$kept).give_up(number);
        }

        #[doc = concat!("The ", $what, " of a number.")]
        pub(crate) fn $find(&self, number: u64) -> Option<Arc<$view>> {
            floe_lock::read(&self.$kept).views.get(&number).cloned()
        }
    )*};
}

impl Views {
    views! {
        "texture", textures: Texture, add_texture, give_up_texture, texture;
        "surface", surfaces: Surface, add_surface, give_up_surface, surface;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destroyed_view_is_found_for_a_while_and_its_number_is_never_reused() {
        let views = Views::default();
        let texels = |base| Texels { base, channel: Channel::Float, channels: 1, extent: [1; 3], pitch: 4, slice: 4 };
        let first = views.add_surface(Surface { texels: texels(0x100) });
        views.give_up_surface(first);
        assert_eq!(views.surface(first).map(|found| found.texels.base), Some(0x100));
        for _ in 0..LINGERING {
            let number = views.add_surface(Surface { texels: texels(0x200) });
            assert_ne!(number, first);
            views.give_up_surface(number);
        }
        assert_eq!(views.surface(first), None);
    }
}
