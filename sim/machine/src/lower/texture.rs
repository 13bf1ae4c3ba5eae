//! Textures and surfaces: `tex`, `tld4`, `suld`, `sust` of the geometries nvcc writes for arrays and memory.
//! In goes the instruction, out comes one handler and a plan of its many operands. Cubes, multisampled images, samplers of
//! their own and references by name are refused.

use floe_ptx::{Instruction, Operand};

use crate::exec::{
    Beyond, LoadSurface, ReadTexture, Reading, StoreSurface, SurfacePlan, TextureLevel, TexturePlan, handlers,
};
use crate::isa::Value;

use super::function::{Body, Lowering};

/// An image's axes, and whether it has layers.
#[derive(Clone, Copy)]
struct Geometry {
    axes: usize,
    layered: bool,
}

impl Geometry {
    fn parse(word: &str) -> Lowering<Self> {
        let (axes, layered) = match word {
            "1d" => (1, false),
            "2d" => (2, false),
            "3d" => (3, false),
            "a1d" => (1, true),
            "a2d" => (2, true),
            _ => return Err(format!("geometry not supported: .{word}")),
        };
        Ok(Self { axes, layered })
    }
}

/// The operands in brackets: what is read, the layer where there are layers, a coordinate per axis.
struct Bracket {
    view: u32,
    /// It is named by its variable, not by a number.
    is_reference: bool,
    layer: Option<u32>,
    coordinates: [u32; 3],
}

impl Body<'_, '_> {
    fn bracket(&mut self, operand: &Operand<'static>, geometry: Geometry) -> Lowering<Bracket> {
        let Operand::Tuple(parts) = operand else {
            return Err(format!("not a texture with coordinates: {operand:?}"));
        };
        let [view, coordinates] = parts.as_slice() else {
            return Err("samplers of their own are not supported".to_owned());
        };
        let single = std::slice::from_ref(coordinates);
        let mut parts = if let Operand::Vector(parts) = coordinates { parts.as_slice() } else { single }.iter();
        let mut next = |body: &mut Self| {
            let part = parts.next().ok_or("too few coordinates")?;
            body.source(part, Value::Bits32)
        };
        let layer = if geometry.layered { Some(next(self)?) } else { None };
        let mut slots = [0; 3];
        for slot in slots.iter_mut().take(geometry.axes) {
            *slot = next(self)?;
        }
        let is_reference = matches!(view, Operand::Name(name) if self.register(name).is_none());
        Ok(Bracket { view: self.source(view, Value::Bits64)?, is_reference, layer, coordinates: slots })
    }

    /// The level that the operands behind the brackets say.
    fn level(&mut self, word: Option<&str>, operands: &[Operand<'static>], axes: usize) -> Lowering<TextureLevel> {
        match (word, operands) {
            (None | Some("base"), []) => Ok(TextureLevel::Base),
            (Some("level"), [number]) => Ok(TextureLevel::Number(self.source(number, Value::Bits32)?)),
            (Some("grad"), [first, second]) => {
                Ok(TextureLevel::Gradient([self.direction(first, axes)?, self.direction(second, axes)?]))
            }
            _ => Err("offsets and depths to compare with are not supported".to_owned()),
        }
    }

    /// A vector with a part per axis; one of three axes has a fourth part, which means nothing.
    fn direction(&mut self, operand: &Operand<'static>, axes: usize) -> Lowering<[u32; 3]> {
        let single = std::slice::from_ref(operand);
        let parts = if let Operand::Vector(parts) = operand { parts.as_slice() } else { single };
        if parts.len() < axes {
            return Err("too few parts of a gradient".to_owned());
        }
        let mut slots = [0; 3];
        for (slot, part) in slots.iter_mut().zip(parts).take(axes) {
            *slot = self.source(part, Value::Bits32)?;
        }
        Ok(slots)
    }

    /// `tex` and `tld4`.
    pub(crate) fn texture(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let words: Vec<&str> = instruction.opcode.modifiers().collect();
        let (level, geometry, reading) = match (instruction.opcode.mnemonic(), words.as_slice()) {
            ("tex", [level @ ("base" | "level" | "grad"), geometry, "v4", "f32" | "s32" | "u32", "f32"]) => {
                (Some(*level), geometry, Reading::Sample)
            }
            ("tex", [geometry, "v4", "f32" | "s32" | "u32", "f32"]) => (None, geometry, Reading::Sample),
            ("tex", [geometry, "v4", "f32" | "s32" | "u32", "s32"]) => (None, geometry, Reading::Fetch),
            ("tld4", [channel, geometry @ ("2d" | "a2d"), "v4", "f32" | "s32" | "u32", "f32"]) => {
                let channel = ["r", "g", "b", "a"].iter().position(|name| name == channel);
                (None, geometry, Reading::Gather(channel.ok_or("unknown instruction")?))
            }
            _ => return Err("unknown instruction".to_owned()),
        };
        let geometry = Geometry::parse(geometry)?;
        let [destination, bracket, rest @ ..] = instruction.operands.as_slice() else {
            return Err("operands: tex wants d, [a, c]".to_owned());
        };
        let level = self.level(level, rest, geometry.axes)?;
        let Bracket { view: texture, is_reference, layer, coordinates } = self.bracket(bracket, geometry)?;
        let Operand::Vector(parts) = destination else {
            return Err(format!("not a destination: {destination:?}"));
        };
        let [a, b, c, d] = parts.as_slice() else {
            return Err(format!("elements: {}, wanted: 4", parts.len()));
        };
        let mut targets = [0; 4];
        for (target, part) in targets.iter_mut().zip([a, b, c, d]) {
            *target = self.destination(part, Value::Bits32)?;
        }
        let plan =
            TexturePlan { texture, is_reference, layer, coordinates, axes: geometry.axes, reading, level, targets };
        let number = self.builder.textures.len() as u32;
        self.builder.textures.push(plan);
        self.emit(handlers::<ReadTexture>(), |inst| inst.aux = number);
        Ok(())
    }

    /// `suld.b` and `sust.b`.
    pub(crate) fn surface(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let loads = instruction.opcode.mnemonic() == "suld";
        let words: Vec<&str> = instruction.opcode.modifiers().filter(|word| !is_hint(word)).collect();
        let (geometry, count, value, beyond) = match words.as_slice() {
            ["b", geometry, "v2", value, beyond] => (geometry, 2, value, beyond),
            ["b", geometry, "v4", value, beyond] => (geometry, 4, value, beyond),
            ["b", geometry, value, beyond] => (geometry, 1, value, beyond),
            _ => return Err("unknown instruction".to_owned()),
        };
        let geometry = Geometry::parse(geometry)?;
        let (bytes, value) = match *value {
            "b8" => (1, Value::Bits8),
            "b16" => (2, Value::Bits16),
            "b32" => (4, Value::Bits32),
            "b64" => (8, Value::Bits64),
            _ => return Err("unknown instruction".to_owned()),
        };
        if bytes * count > 16 {
            return Err(format!("more than 16 bytes: {}", bytes * count));
        }
        let beyond = match *beyond {
            "trap" => Beyond::Trap,
            "clamp" => Beyond::Clamp,
            "zero" => Beyond::Zero,
            _ => return Err("unknown instruction".to_owned()),
        };
        let [first, second] = instruction.operands.as_slice() else {
            return Err("operands: suld wants d, [a, c], sust [a, c], d".to_owned());
        };
        let (moved, bracket) = if loads { (first, second) } else { (second, first) };
        let Bracket { view: surface, is_reference, layer, coordinates } = self.bracket(bracket, geometry)?;
        if is_reference {
            return Err("surface references are not supported".to_owned());
        }
        let single = std::slice::from_ref(moved);
        let parts = if let Operand::Vector(parts) = moved { parts.as_slice() } else { single };
        if parts.len() != count {
            return Err(format!("elements: {}, wanted: {count}", parts.len()));
        }
        let mut elements = [0; 4];
        for (slot, part) in elements.iter_mut().zip(parts) {
            *slot = if loads { self.destination(part, value)? } else { self.source(part, value)? };
        }
        let axes = geometry.axes;
        let plan = SurfacePlan { surface, layer, coordinates, axes, elements, count, bytes, beyond };
        let number = self.builder.surfaces.len() as u32;
        self.builder.surfaces.push(plan);
        let chosen = match (loads, value.is_wide()) {
            (true, true) => handlers::<LoadSurface<u64>>(),
            (true, false) => handlers::<LoadSurface<u32>>(),
            (false, true) => handlers::<StoreSurface<u64>>(),
            (false, false) => handlers::<StoreSurface<u32>>(),
        };
        self.emit(chosen, |inst| inst.aux = number);
        Ok(())
    }
}

/// Whether a modifier only says what caches should do.
fn is_hint(word: &str) -> bool {
    matches!(word, "ca" | "cg" | "cs" | "cv" | "wb" | "wt")
}
