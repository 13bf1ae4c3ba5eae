//! Choosing the level of a mipmapped image: what an instruction asks for comes in, as a level or as the distance between
//! neighbouring samples; the value of one level or the mean of two goes out. How a level is read is not known here.
//!
//! The CUDA C++ programming guide says no more than that a level may be between two. The rules are those that graphics
//! interfaces give the same hardware (Vulkan 1.3, "Level-of-Detail Operation"): the bias is added, then the texture's bounds
//! hold, then the image's. Levels have 8 bits behind the point, as weights have.

use super::sample::{Image, ReadBytes};
use super::{Texels, Texture};

/// Steps between two levels.
const STEPS: f32 = 256.0;

/// The level that an instruction asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wanted {
    /// The first.
    Base,
    /// This one, which may be between two.
    Level(f32),
    /// The one whose elements are as far from each other as neighbouring samples are: how much each coordinate grows from
    /// one sample to the next in two directions.
    Gradient([[f32; 3]; 2]),
}

impl Wanted {
    #[allow(clippy::cast_precision_loss, reason = "extents are far below where floats have gaps")]
    fn level(self, base: &Texels) -> f32 {
        match self {
            Self::Base => 0.0,
            Self::Level(level) => level,
            Self::Gradient(directions) => {
                let elements = |direction: [f32; 3]| {
                    let squares =
                        direction.iter().zip(base.extent).map(|(step, extent)| (step * extent as f32).powi(2));
                    squares.sum::<f32>()
                };
                let [first, second] = directions.map(elements);
                0.5 * first.max(second).log2()
            }
        }
    }
}

impl Texture {
    /// A level as an image; the last one for numbers beyond.
    fn image(&self, level: usize) -> Option<Image<'_>> {
        let texels = self.levels.get(level).or(self.levels.last())?;
        Some(Image { texels, sampling: &self.sampling, linear: self.linear })
    }

    /// The sample at coordinates, one per axis, of a layer where there are layers.
    ///
    /// # Errors
    /// The address where nothing is mapped.
    pub(crate) fn sample(
        &self,
        layer: Option<u32>,
        coordinates: &[f32],
        wanted: Wanted,
        read: ReadBytes<'_>,
    ) -> Result<[u32; 4], u64> {
        let (first, weight) = self.choose(wanted);
        let sample = |level| self.image(level).map_or(Ok([0; 4]), |image| image.sample(layer, coordinates, read));
        let lower = sample(first)?;
        if weight == 0.0 {
            return Ok(lower);
        }
        let upper = sample(first + 1)?;
        let mean = |index: usize| {
            let [lower, upper] = [lower[index], upper[index]].map(f32::from_bits);
            ((1.0 - weight) * lower + weight * upper).to_bits()
        };
        Ok([0, 1, 2, 3].map(mean))
    }

    /// The level to read, and the weight of the next one.
    fn choose(&self, wanted: Wanted) -> (usize, f32) {
        let [base, _, ..] = self.levels.as_slice() else { return (0, 0.0) };
        let (choice, last) = (&self.choice, self.levels.len() - 1);
        // A number that is none is the lower bound; where the bounds contradict each other, the upper one holds.
        let level = (wanted.level(base) + choice.bias).max(choice.least).min(choice.most);
        let level = level.max(0.0).min(last as f32);
        if !choice.filtered {
            return ((level + 0.5) as usize, 0.0);
        }
        let level = (level * STEPS).round() / STEPS;
        ((level as usize).min(last), level.fract())
    }

    /// The element of the first level at whole coordinates. Linear memory is zero outside.
    ///
    /// # Errors
    /// As [`Texture::sample`].
    pub(crate) fn fetch(&self, layer: Option<u32>, coordinates: &[i32], read: ReadBytes<'_>) -> Result<[u32; 4], u64> {
        self.image(0).map_or(Ok([0; 4]), |image| image.fetch(layer, coordinates, read))
    }

    /// One channel of the four elements of the first level that coordinates lie between, as `tld4` orders them.
    ///
    /// # Errors
    /// As [`Texture::sample`].
    pub(crate) fn gather(
        &self,
        layer: Option<u32>,
        coordinates: &[f32],
        channel: usize,
        read: ReadBytes<'_>,
    ) -> Result<[u32; 4], u64> {
        self.image(0).map_or(Ok([0; 4]), |image| image.gather(layer, coordinates, channel, read))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::texture::{Channel, Choice, Outside, Sampling};

    /// Levels of which each has one value everywhere: its number, squared. So means of two tell which.
    fn texture(levels: u32, choice: Choice) -> Texture {
        let texels = |level: u32| Texels {
            base: u64::from(level),
            channel: Channel::Float,
            channels: 1,
            extent: [16_u32 >> level, 8 >> level, 1].map(|extent| extent.max(1)),
            pitch: 0,
            slice: 0,
        };
        // All elements of a level are at one address.
        let sampling = Sampling {
            outside: [Outside::Wrap; 3],
            filtered: false,
            normalized: true,
            integers: false,
            srgb: false,
            border: [0.0; 4],
        };
        Texture { levels: (0..levels).map(texels).collect(), sampling, choice, linear: false }
    }

    fn value(texture: &Texture, wanted: Wanted) -> f32 {
        let read = |address: u64, _| {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&((address % 4).pow(2) as f32).to_le_bytes());
            Some(bytes)
        };
        let bits = texture.sample(None, &[0.0, 0.0], wanted, &read).expect("all of it is there");
        f32::from_bits(bits[0])
    }

    const ALL: Choice = Choice { filtered: false, bias: 0.0, least: 0.0, most: 100.0 };
    const MEANS: Choice = Choice { filtered: true, ..ALL };

    #[test]
    fn a_level_is_the_nearest_or_the_mean_of_two() {
        for (choice, level, want) in [
            (ALL, 0.4, 0.0),
            (ALL, 0.5, 1.0),
            (ALL, 2.6, 9.0),
            (ALL, 99.0, 9.0),
            (ALL, -1.0, 0.0),
            (ALL, f32::NAN, 0.0),
            (MEANS, 0.5, 0.5),
            (MEANS, 1.25, 1.75),
            // Rounded to a step.
            (MEANS, 1.0 + 0.4 / 256.0, 1.0),
            (MEANS, 3.0 - 0.4 / 256.0, 9.0),
            (MEANS, f32::INFINITY, 9.0),
            (Choice { bias: 1.0, ..ALL }, 1.0, 4.0),
            (Choice { bias: -1.0, ..MEANS }, 1.5, 0.5),
            (Choice { least: 1.0, most: 2.0, ..ALL }, 0.0, 1.0),
            (Choice { least: 1.0, most: 2.0, ..ALL }, 3.0, 4.0),
            (Choice { least: 2.0, most: 1.0, ..ALL }, 0.0, 1.0),
        ] {
            assert_eq!(value(&texture(4, choice), Wanted::Level(level)), want, "{choice:?} {level}");
        }
        assert_eq!(value(&texture(4, Choice { bias: 2.0, ..ALL }), Wanted::Base), 4.0);
        // One level is read whatever is asked for.
        assert_eq!(value(&texture(1, Choice { bias: 2.0, ..MEANS }), Wanted::Level(3.0)), 0.0);
    }

    #[test]
    fn a_gradient_is_as_long_as_its_longer_direction_in_elements() {
        let level = |first, second| value(&texture(4, ALL), Wanted::Gradient([first, second]));
        assert_eq!(level([0.0; 3], [0.0; 3]), 0.0);
        // Two elements of 16, four of 8.
        assert_eq!(level([2.0 / 16.0, 0.0, 0.0], [0.0; 3]), 1.0);
        assert_eq!(level([2.0 / 16.0, 0.0, 0.0], [0.0, 4.0 / 8.0, 0.0]), 4.0);
        // Three and four are five: level 2.32.
        let means = value(&texture(4, MEANS), Wanted::Gradient([[3.0 / 16.0, 4.0 / 8.0, 0.0], [0.0; 3]]));
        let weight = (5.0_f32.log2() * 256.0).round() / 256.0 - 2.0;
        assert!((means - (4.0 + weight * 5.0)).abs() < 1e-5, "{means}");
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_some_level_is_read(
            levels in 1_u32..4,
            (bias, least, most) in any::<(f32, f32, f32)>(),
            filtered: bool,
            steps in any::<[[f32; 3]; 2]>(),
            level: f32,
        ) {
            let texture = texture(levels, Choice { filtered, bias, least, most });
            for wanted in [Wanted::Base, Wanted::Level(level), Wanted::Gradient(steps)] {
                let value = value(&texture, wanted);
                prop_assert!((0.0..=((levels - 1) * (levels - 1)) as f32).contains(&value), "{value}");
            }
        }
    }
}
