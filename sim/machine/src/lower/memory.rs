//! Loads, stores and atomics: space, width and address of each access.
//! In goes the instruction with its many modifiers, out comes one handler for its space, type and vector width.
//! Parameters of functions become words of the frame. Cache hints are read and ignored; anything else unknown is
//! refused.

use floe_ptx::{Instruction, Operand, ScalarType};

use crate::exec::{self, SpaceKind, handlers};
use crate::isa::Value;

use super::frame::NARROW_BYTES;
use super::function::{Body, Lowering};
use super::handlers::{
    is_shared_word, load_handlers, parameter_handlers, store_handlers, word_load_handlers, word_store_handlers,
};
use super::image::FrameWords;
use super::moves::value_of;
use super::names::Name;
use super::operand::SymbolPlace;

/// The modifiers of an access.
struct Access {
    space: Option<SpaceKind>,
    /// `.param` in a function or call sequence.
    parameter: bool,
    scalar: ScalarType,
    lanes: usize,
    /// Volatile or ordered: a loop around it may be waiting for somebody.
    polls: bool,
    hinted: bool,
}

impl Access {
    fn parse(instruction: &Instruction<'static>) -> Lowering<Self> {
        let mut access = Self {
            space: None,
            parameter: false,
            scalar: ScalarType::Predicate,
            lanes: 1,
            polls: false,
            hinted: false,
        };
        for word in instruction.opcode.modifiers() {
            match word {
                "global" | "const" => access.space = Some(SpaceKind::Global),
                "shared" | "shared::cta" => access.space = Some(SpaceKind::Shared),
                "local" => access.space = Some(SpaceKind::Local),
                "param" | "param::entry" | "param::func" => access.parameter = true,
                "volatile" | "relaxed" | "acquire" | "release" | "mmio" => access.polls = true,
                "weak" | "cta" | "gpu" | "sys" | "cluster" | "nc" | "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt"
                | "unified" => {}
                "L2::cache_hint" => access.hinted = true,
                "v2" => access.lanes = 2,
                "v4" => access.lanes = 4,
                _ if word.starts_with("L1::") || word.starts_with("L2::") => {}
                _ => match ScalarType::from_modifier(word) {
                    Some(scalar)
                        if access.scalar == ScalarType::Predicate && scalar.size() <= 8 && scalar.size() > 0 =>
                    {
                        access.scalar = scalar;
                    }
                    _ => return Err(format!("modifier not supported: .{word}")),
                },
            }
        }
        if access.scalar == ScalarType::Predicate {
            return Err("unknown instruction".to_owned());
        }
        Ok(access)
    }
}

/// Slots of the elements: d, b, c, aux.
type Elements = [u32; 4];

impl Body<'_, '_> {
    pub(crate) fn load(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let access = Access::parse(instruction)?;
        let [destination, address, rest @ ..] = instruction.operands.as_slice() else {
            return Err("operands: ld wants d, [a]".to_owned());
        };
        check_hint(&access, rest)?;
        if access.parameter {
            return self.load_parameter(&access, destination, address);
        }
        let (elements, wide, bits) = self.load_elements(&access, destination)?;
        let space = access.space.unwrap_or(SpaceKind::Generic);
        let (a, imm) = self.access_address(address, space)?;
        let handlers = load_handlers(space, access.scalar, wide, bits, access.lanes)?;
        let polls = u32::from(access.polls);
        let fuses = is_shared_word(space, access.scalar, wide, access.lanes) && !access.polls;
        self.emit(handlers, |inst| {
            [inst.d, inst.b, inst.c, inst.aux] = elements;
            (inst.a, inst.imm, inst.extra) = (a, imm, polls);
            inst.fuse = if fuses { exec::fuse::SHARED_LOAD } else { exec::fuse::NONE };
        });
        Ok(())
    }

    /// Destinations of a load, whether their registers are 64 bits wide, and their bits.
    fn load_elements(&mut self, access: &Access, destination: &Operand<'static>) -> Lowering<(Elements, bool, u32)> {
        let parts = match destination {
            Operand::Vector(parts) => parts.as_slice(),
            one => std::slice::from_ref(one),
        };
        if parts.len() != access.lanes {
            return Err(format!("elements: {}, wanted: {}", parts.len(), access.lanes));
        }
        let mut bits = 0;
        for part in parts {
            if let Operand::Name(name) = part {
                let register = self.register(name).ok_or_else(|| format!("not a register: {name}"))?;
                bits = 8 * register.scalar.size();
            }
        }
        if bits == 0 {
            bits = 8 * access.scalar.size();
        }
        if bits < 8 * access.scalar.size() || bits > 64 {
            return Err(format!("register of {bits} bits for type .{}", access.scalar.name()));
        }
        let wide = bits == 64;
        let mut elements = [u32::MAX; 4];
        for (slot, part) in elements.iter_mut().zip(parts) {
            *slot = match part {
                Operand::Sink if wide => self.scratch_wide()?,
                Operand::Sink => self.scratch_narrow()?,
                Operand::Name(name) => {
                    let register = self.register(name).ok_or_else(|| format!("not a register: {name}"))?;
                    if 8 * register.scalar.size() != bits {
                        return Err(format!("registers of different widths: {name}"));
                    }
                    self.slot(register)?
                }
                other => return Err(format!("not a destination: {other:?}")),
            };
        }
        Ok((elements, wide, bits))
    }

    pub(crate) fn store(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let access = Access::parse(instruction)?;
        let [address, source, rest @ ..] = instruction.operands.as_slice() else {
            return Err("operands: st wants [a], b".to_owned());
        };
        check_hint(&access, rest)?;
        if access.parameter {
            return self.store_parameter(&access, address, source);
        }
        let (elements, wide) = self.store_elements(&access, source)?;
        let space = access.space.unwrap_or(SpaceKind::Generic);
        let (a, imm) = self.access_address(address, space)?;
        let handlers = store_handlers(space, access.scalar, wide, access.lanes)?;
        let polls = u32::from(access.polls);
        self.emit(handlers, |inst| {
            [inst.d, inst.b, inst.c, inst.aux] = elements;
            (inst.a, inst.imm, inst.extra) = (a, imm, polls);
        });
        Ok(())
    }

    /// Sources of a store and whether they are 64-bit slots.
    fn store_elements(&mut self, access: &Access, source: &Operand<'static>) -> Lowering<(Elements, bool)> {
        let parts = match source {
            Operand::Vector(parts) => parts.as_slice(),
            one => std::slice::from_ref(one),
        };
        if parts.len() != access.lanes {
            return Err(format!("elements: {}, wanted: {}", parts.len(), access.lanes));
        }
        let value = value_of(access.scalar)?;
        let mut elements = [u32::MAX; 4];
        for (slot, part) in elements.iter_mut().zip(parts) {
            *slot = self.source(part, value)?;
        }
        Ok((elements, value.is_wide()))
    }

    /// The address operand of an access: a slot of the width the space's handlers want, and an offset.
    pub(super) fn access_address(&mut self, operand: &Operand<'static>, space: SpaceKind) -> Lowering<(u32, i64)> {
        let wide = space != SpaceKind::Shared;
        let (base, offset) = match operand {
            Operand::Address { base, offset } => (*base, *offset),
            Operand::Element { array, index: None, offset } => {
                let scale = self.element_size(array)?;
                (Some(*array), offset.checked_mul(scale).ok_or_else(|| format!("offset too large: {offset}"))?)
            }
            other => return Err(format!("not an address: {other:?}")),
        };
        let Some(base) = base else {
            let value = if wide { Value::Bits64 } else { Value::Bits32 };
            return Ok((self.integer(offset.cast_unsigned(), value), 0));
        };
        let Some(register) = self.register(base) else {
            let place = self.place(base)?;
            let slot = if space == SpaceKind::Generic {
                self.generic_address(place, offset)?
            } else {
                self.space_address(place, offset, space, wide)?
            };
            return Ok((slot, 0));
        };
        let slot = self.slot(register)?;
        check_offset(offset)?;
        match (register.scalar.size(), wide) {
            (8, true) | (4, false) => Ok((slot, offset)),
            (4, true) => {
                let d = self.scratch_wide()?;
                self.emit(handlers::<exec::Widen>(), |inst| (inst.d, inst.a) = (d, slot));
                Ok((d, offset))
            }
            (8, false) => {
                let d = self.scratch_narrow()?;
                self.emit(handlers::<exec::NarrowAddress>(), |inst| (inst.d, inst.a, inst.imm) = (d, slot, offset));
                Ok((d, 0))
            }
            _ => Err(format!("address in a register of that width: {base}")),
        }
    }

    /// Bytes of an element of a module-scope array.
    fn element_size(&mut self, array: &str) -> Lowering<i64> {
        self.program.element_size(self.unit, array).ok_or_else(|| format!("not an array: {array}"))
    }

    /// Address of a variable named in an access of a space: it must lie in that space.
    fn space_address(&mut self, place: SymbolPlace, offset: i64, space: SpaceKind, wide: bool) -> Lowering<u32> {
        let fits = match place {
            SymbolPlace::Address(_) => space == SpaceKind::Global,
            SymbolPlace::Shared(_) | SymbolPlace::DynamicShared => space == SpaceKind::Shared,
            SymbolPlace::Local(_) => space == SpaceKind::Local,
            SymbolPlace::Parameter(_) => false,
        };
        if !fits {
            return Err("variable of another space".to_owned());
        }
        self.address(place, offset, wide)
    }

    /// Generic address of a variable.
    fn generic_address(&mut self, place: SymbolPlace, offset: i64) -> Lowering<u32> {
        use super::image::{LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW};
        let window = match place {
            SymbolPlace::Address(_) => 0,
            SymbolPlace::Shared(_) | SymbolPlace::DynamicShared => SHARED_WINDOW,
            SymbolPlace::Local(_) => LOCAL_WINDOW,
            SymbolPlace::Parameter(_) => PARAMETER_WINDOW,
        };
        if window == LOCAL_WINDOW && !self.is_kernel() {
            let local = self.address(place, offset, true)?;
            let d = self.scratch_wide()?;
            self.emit(handlers::<exec::LeaveWindow>(), |inst| {
                (inst.d, inst.a, inst.imm) = (d, local, -window.cast_signed());
            });
            return Ok(d);
        }
        self.address(place, offset.wrapping_add(window.cast_signed()), true)
    }

    /// `ld.param`: of the kernel's parameters (at a fixed place or by address), or of words of the frame.
    fn load_parameter(
        &mut self,
        access: &Access,
        destination: &Operand<'static>,
        address: &Operand<'static>,
    ) -> Lowering<()> {
        let (elements, wide, bits) = self.load_elements(access, destination)?;
        let Operand::Address { base: Some(base), offset } = address else {
            return Err(format!("not an address: {address:?}"));
        };
        let step = i64::from(access.scalar.size());
        match self.names.find(self.scope, base) {
            Some(Name::Parameter(start, size)) => {
                let bytes = step * access.lanes as i64;
                if !lies_inside(*offset, bytes, size) {
                    return Err(format!("outside parameter {base}: {offset}"));
                }
                let chosen = parameter_handlers(access.scalar, wide, bits)?;
                for (index, slot) in elements.iter().take(access.lanes).enumerate() {
                    // No overflow: all of it lies inside the parameter.
                    let imm = i64::from(start) + offset + step * index as i64;
                    self.emit(chosen, |inst| (inst.d, inst.imm) = (*slot, imm));
                }
                Ok(())
            }
            Some(Name::Words(words, size)) => {
                let chosen = word_load_handlers(access.scalar, wide, bits)?;
                for (index, slot) in elements.iter().take(access.lanes).enumerate() {
                    let (word, shift) = word_at(words, size, *offset, index, step)?;
                    self.emit(chosen, |inst| (inst.d, inst.a, inst.imm) = (*slot, word, shift));
                }
                Ok(())
            }
            Some(Name::Register(register)) if self.is_kernel() && register.scalar.size() == 8 => {
                let a = self.slot(register)?;
                check_offset(*offset)?;
                let chosen = load_handlers(SpaceKind::Parameter, access.scalar, wide, bits, access.lanes)?;
                self.emit(chosen, |inst| {
                    [inst.d, inst.b, inst.c, inst.aux] = elements;
                    (inst.a, inst.imm) = (a, *offset);
                });
                Ok(())
            }
            _ => Err(format!("not a parameter: {base}")),
        }
    }

    /// `st.param`: to words of the frame.
    fn store_parameter(
        &mut self,
        access: &Access,
        address: &Operand<'static>,
        source: &Operand<'static>,
    ) -> Lowering<()> {
        let Operand::Address { base: Some(base), offset } = address else {
            return Err(format!("not an address: {address:?}"));
        };
        let Some(Name::Words(words, size)) = self.names.find(self.scope, base) else {
            return Err(format!("not a parameter that can be written: {base}"));
        };
        let (elements, wide) = self.store_elements(access, source)?;
        let step = i64::from(access.scalar.size());
        let chosen = word_store_handlers(access.scalar, wide)?;
        for (index, slot) in elements.iter().take(access.lanes).enumerate() {
            let (word, shift) = word_at(words, size, *offset, index, step)?;
            self.emit(chosen, |inst| (inst.d, inst.a, inst.imm) = (word, *slot, shift));
        }
        Ok(())
    }

    pub(crate) fn atomic(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let returns = instruction.opcode.mnemonic() == "atom";
        let atomic = AtomicOpcode::parse(instruction)?;
        let flush =
            if atomic.name == "add.f32" && atomic.space != SpaceKind::Shared { "add.ftz.f32" } else { &atomic.name };
        let row = exec::atomic::find(flush).ok_or("unknown instruction")?;
        let chosen = row.handlers(atomic.space).ok_or("no atomics in this space")?;
        let operands = instruction.operands.as_slice();
        let (destination, operands) = match operands {
            [destination, rest @ ..] if returns => (Some(destination), rest),
            rest => (None, rest),
        };
        let [address, operands @ ..] = operands else {
            return Err("too few operands".to_owned());
        };
        let operands = match operands {
            [rest @ .., _] if atomic.hinted => rest,
            rest => rest,
        };
        let value = value_of(atomic.scalar)?;
        let (b, c) = match operands {
            [b] if !atomic.name.starts_with("cas") => (self.source(b, value)?, None),
            [b, c] if atomic.name.starts_with("cas") => (self.source(b, value)?, Some(self.source(c, value)?)),
            _ => return Err(format!("operands: {}", operands.len())),
        };
        let (a, imm) = self.atomic_address(address, atomic.space)?;
        let d = match destination {
            None | Some(Operand::Sink) => u32::MAX,
            Some(destination) => self.destination(destination, value)?,
        };
        self.emit(chosen, |inst| {
            (inst.d, inst.a, inst.b, inst.c, inst.imm) = (d, a, b, c.unwrap_or(b), imm);
            inst.extra = u32::from(d == u32::MAX);
        });
        Ok(())
    }

    /// Atomics take 64-bit addresses in every space.
    pub(super) fn atomic_address(&mut self, operand: &Operand<'static>, space: SpaceKind) -> Lowering<(u32, i64)> {
        if space != SpaceKind::Shared {
            return self.access_address(operand, space);
        }
        if let Operand::Address { base: Some(base), offset } = operand
            && let Some(register) = self.register(base)
            && register.scalar.size() == 8
        {
            check_offset(*offset)?;
            return Ok((self.slot(register)?, *offset));
        }
        let (narrow, imm) = self.access_address(operand, space)?;
        let d = self.scratch_wide()?;
        self.emit(handlers::<exec::Widen>(), |inst| (inst.d, inst.a) = (d, narrow));
        Ok((d, imm))
    }
}

/// The modifiers of an atomic.
struct AtomicOpcode {
    space: SpaceKind,
    /// As the rows are named: `add.u32`, `add.noftz.f16x2`.
    name: String,
    scalar: ScalarType,
    hinted: bool,
}

impl AtomicOpcode {
    fn parse(instruction: &Instruction<'static>) -> Lowering<Self> {
        let mut space = SpaceKind::Generic;
        let mut name = String::new();
        let mut scalar = None;
        let mut hinted = false;
        for word in instruction.opcode.modifiers() {
            match word {
                "relaxed" | "acquire" | "release" | "acq_rel" | "cta" | "cluster" | "gpu" | "sys" => {}
                "global" => space = SpaceKind::Global,
                "shared" | "shared::cta" => space = SpaceKind::Shared,
                "and" | "or" | "xor" | "exch" | "cas" | "add" | "inc" | "dec" | "min" | "max" if name.is_empty() => {
                    name.push_str(word);
                }
                "noftz" => name.push_str(".noftz"),
                "L2::cache_hint" => hinted = true,
                _ => match ScalarType::from_modifier(word) {
                    Some(found) if scalar.is_none() => scalar = Some(found),
                    _ => return Err(format!("modifier not supported: .{word}")),
                },
            }
        }
        let scalar = scalar.ok_or("unknown instruction")?;
        name = format!("{name}.{}", scalar.name());
        Ok(Self { space, name, scalar, hinted })
    }
}

fn check_hint(access: &Access, rest: &[Operand<'static>]) -> Lowering<()> {
    match rest {
        [] => Ok(()),
        [_] if access.hinted => Ok(()),
        _ => Err("too many operands".to_owned()),
    }
}

/// The offset to a register is a signed 32-bit number, as the ISA says.
fn check_offset(offset: i64) -> Lowering<()> {
    match i32::try_from(offset) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("offset beyond 32 bits: {offset}")),
    }
}

/// Whether `bytes` bytes at `offset` lie inside something of `size` bytes.
fn lies_inside(offset: i64, bytes: i64, size: u32) -> bool {
    offset >= 0 && offset.checked_add(bytes).is_some_and(|end| end <= i64::from(size))
}

/// The word of the frame, and the bit in it, of element `index` of `bytes` bytes. The first element is at `offset` of
/// the words' `size` bytes.
fn word_at(words: FrameWords, size: u32, offset: i64, index: usize, bytes: i64) -> Lowering<(u32, i64)> {
    let at = offset.checked_add(bytes * index as i64).filter(|at| lies_inside(*at, bytes, size));
    let at = at.ok_or_else(|| format!("outside the parameter: {offset}"))?;
    if at % bytes.min(4) != 0 {
        return Err(format!("misaligned in the parameter: {at}"));
    }
    let word = u32::try_from(at / 4).map_err(|_| format!("outside the parameter: {at}"))?;
    debug_assert!(word < words.count && (bytes < 8 || word + 1 < words.count), "a word of the parameter");
    Ok((words.offset + NARROW_BYTES * word, 8 * (at % 4)))
}
