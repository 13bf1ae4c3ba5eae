//! Matrix instructions of a warp: `mma`, `wmma`, `ldmatrix`, `stmatrix`, `movmatrix`.
//! In go shapes, types and fragments of registers, out comes one handler and a plan of its many operands. A combination
//! of shape and types that is not listed here is refused; so are sparse, scaled and sub-byte matrices.

use floe_ptx::{Instruction, Operand};

use crate::exec::{
    Element, FragmentPlan, LoadFragment, LoadRows, MatrixFragment, MatrixMemory, Multiply, MultiplyPlan, Role,
    RowsPlan, SpaceKind, StoreFragment, StoreRows, Transpose, baseline_handlers,
};
use crate::isa::Value;

use super::function::{Body, Lowering};

/// m, n and k of a product.
type Shape = [usize; 3];

/// Types of d, a, b, c.
type Types = [Element; 4];

fn shape_of(word: &str) -> Option<Shape> {
    Some(match word {
        "m8n8k4" => [8, 8, 4],
        "m8n8k16" => [8, 8, 16],
        "m16n8k4" => [16, 8, 4],
        "m16n8k8" => [16, 8, 8],
        "m16n8k16" => [16, 8, 16],
        "m16n8k32" => [16, 8, 32],
        "m16n16k8" => [16, 16, 8],
        "m16n16k16" => [16, 16, 16],
        "m32n8k16" => [32, 8, 16],
        "m8n32k16" => [8, 32, 16],
        _ => return None,
    })
}

/// Whether `mma` multiplies these types in this shape.
fn mma_has(shape: Shape, types: Types) -> bool {
    use Element::{Bf16, F16, F32, F64, S8, S32, Tf32, U8};
    match types {
        [F16, F16, F16, F16] | [F32, F16, F16, F32] | [F32, Bf16, Bf16, F32] => {
            matches!(shape, [16, 8, 8 | 16])
        }
        [F32, Tf32, Tf32, F32] => matches!(shape, [16, 8, 4 | 8]),
        [F64, F64, F64, F64] => matches!(shape, [8, 8, 4] | [16, 8, 4 | 8 | 16]),
        [S32, S8 | U8, S8 | U8, S32] => matches!(shape, [8, 8, 16] | [16, 8, 16 | 32]),
        _ => false,
    }
}

/// Whether `wmma` multiplies these types in this shape.
fn wmma_has(shape: Shape, types: Types) -> bool {
    use Element::{Bf16, F16, F32, F64, S8, S32, Tf32, U8};
    match types {
        [F16 | F32, F16, F16, F16 | F32] | [F32, Bf16, Bf16, F32] | [S32, S8, S8, S32] | [S32, U8, U8, S32] => {
            matches!(shape, [16, 16, 16] | [32, 8, 16] | [8, 32, 16])
        }
        [F32, Tf32, Tf32, F32] => shape == [16, 16, 8],
        [F64, F64, F64, F64] => shape == [8, 8, 4],
        _ => false,
    }
}

/// Whether `wmma` has a fragment of the role with that element in the shape.
fn wmma_holds(role: Role, shape: Shape, element: Element) -> bool {
    use Element::{Bf16, F16, F32, F64, S8, S32, Tf32, U8};
    let products = [
        [F16, F16, F16, F16],
        [F32, F16, F16, F32],
        [F32, Bf16, Bf16, F32],
        [F32, Tf32, Tf32, F32],
        [F64, F64, F64, F64],
        [S32, S8, S8, S32],
        [S32, U8, U8, S32],
    ];
    products.into_iter().any(|types| {
        let held = if role == Role::Sum { types[0] } else { types[1] };
        held == element && wmma_has(shape, types)
    })
}

/// Types by their words; `wmma` with two names the accumulators of f16 factors.
fn types_of(words: &[&str]) -> Option<Types> {
    let element = |word: &str| Element::parse(word);
    match words {
        [d, a, b, c] => Some([element(d)?, element(a)?, element(b)?, element(c)?]),
        [d, c] => Some([element(d)?, Element::F16, Element::F16, element(c)?]),
        _ => None,
    }
}

impl Body<'_, '_> {
    /// `mma`.
    pub(crate) fn multiply(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let words: Vec<&str> = instruction.opcode.modifiers().collect();
        let ["sync", "aligned", shape, "row", "col", rest @ ..] = words.as_slice() else {
            return Err("unknown instruction".to_owned());
        };
        let (saturates, rest) = match rest {
            ["satfinite", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let types = types_of(rest).filter(|_| rest.len() == 4);
        let (Some(shape), Some(types)) = (shape_of(shape), types) else {
            return Err("unknown instruction".to_owned());
        };
        if !mma_has(shape, types) || (saturates && types[0] != Element::S32) {
            return Err("matrices of these types and shape are not supported".to_owned());
        }
        self.product(shape, types, saturates, true, &instruction.operands)
    }

    /// `wmma.load`, `wmma.store`, `wmma.mma`.
    pub(crate) fn matrix(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let words: Vec<&str> = instruction.opcode.modifiers().collect();
        match words.as_slice() {
            ["mma", "sync", "aligned", "row" | "col", "row" | "col", shape, rest @ ..] => {
                let (rest, saturates) = match rest {
                    [rest @ .., "satfinite"] => (rest, true),
                    [rest @ .., "rn"] if rest.first() == Some(&"f64") => (rest, false),
                    rest => (rest, false),
                };
                let (Some(shape), Some(types)) = (shape_of(shape), types_of(rest)) else {
                    return Err("unknown instruction".to_owned());
                };
                if !wmma_has(shape, types) || (saturates && types[0] != Element::S32) {
                    return Err("matrices of these types and shape are not supported".to_owned());
                }
                self.product(shape, types, saturates, false, &instruction.operands)
            }
            ["load", role, "sync", "aligned", rest @ ..] => {
                let role = match *role {
                    "a" => Role::A,
                    "b" => Role::B,
                    "c" => Role::Sum,
                    _ => return Err("unknown instruction".to_owned()),
                };
                self.move_fragment(role, true, rest, &instruction.operands)
            }
            ["store", "d", "sync", "aligned", rest @ ..] => {
                self.move_fragment(Role::Sum, false, rest, &instruction.operands)
            }
            _ => Err("unknown instruction".to_owned()),
        }
    }

    fn product(
        &mut self,
        [m, n, k]: Shape,
        types: Types,
        saturates: bool,
        documented: bool,
        operands: &[Operand<'static>],
    ) -> Lowering<()> {
        let [d, a, b, c] = operands else {
            return Err("operands: a product wants d, a, b, c".to_owned());
        };
        let a = self.fragment(a, MatrixFragment::new(Role::A, [m, k], types[1], documented), false)?;
        let b = self.fragment(b, MatrixFragment::new(Role::B, [k, n], types[2], documented), false)?;
        let c = self.fragment(c, MatrixFragment::new(Role::Sum, [m, n], types[3], documented), false)?;
        let d = self.fragment(d, MatrixFragment::new(Role::Sum, [m, n], types[0], documented), true)?;
        let number = self.builder.matrices.multiplies.len() as u32;
        self.builder.matrices.multiplies.push(MultiplyPlan { a, b, c, d, saturates });
        self.emit(baseline_handlers::<Multiply>(), |inst| inst.aux = number);
        Ok(())
    }

    /// Encodes the registers of a fragment.
    fn fragment(
        &mut self,
        operand: &Operand<'static>,
        made: MatrixFragment,
        written: bool,
    ) -> Lowering<MatrixFragment> {
        let mut fragment = made;
        let value = if fragment.element == Element::F64 { Value::Float64 } else { Value::Bits32 };
        self.registers(operand, &mut fragment.slots[..made.count], value, written)?;
        Ok(fragment)
    }

    /// Encodes a vector of exactly as many registers as there are slots.
    fn registers(
        &mut self,
        operand: &Operand<'static>,
        slots: &mut [u32],
        value: Value,
        written: bool,
    ) -> Lowering<()> {
        let parts = match operand {
            Operand::Vector(parts) => parts.as_slice(),
            one => std::slice::from_ref(one),
        };
        if parts.len() != slots.len() {
            return Err(format!("elements: {}, wanted: {}", parts.len(), slots.len()));
        }
        for (slot, part) in slots.iter_mut().zip(parts) {
            *slot = if written { self.destination(part, value)? } else { self.source(part, value)? };
        }
        Ok(())
    }

    /// `wmma.load` and `wmma.store`, from their layout on.
    fn move_fragment(
        &mut self,
        role: Role,
        loads: bool,
        words: &[&str],
        operands: &[Operand<'static>],
    ) -> Lowering<()> {
        let (layout, shape, memory, element) = match words {
            [layout, shape, element] => (layout, shape, MatrixMemory::Generic, element),
            [layout, shape, "global", element] => (layout, shape, MatrixMemory::Global, element),
            [layout, shape, "shared" | "shared::cta", element] => (layout, shape, MatrixMemory::Shared, element),
            _ => return Err("unknown instruction".to_owned()),
        };
        let (true, Some(shape), Some(element)) =
            (matches!(*layout, "row" | "col"), shape_of(shape), Element::parse(element))
        else {
            return Err("unknown instruction".to_owned());
        };
        if !wmma_holds(role, shape, element) {
            return Err("matrices of this type and shape are not supported".to_owned());
        }
        let [m, n, k] = shape;
        let extent = match role {
            Role::A => [m, k],
            Role::B => [k, n],
            Role::Sum => [m, n],
        };
        let [first, second, rest @ ..] = operands else {
            return Err("operands: wmma.load wants d, [a], wmma.store [a], d".to_owned());
        };
        let (moved, address) = if loads { (first, second) } else { (second, first) };
        let fragment = self.fragment(moved, MatrixFragment::new(role, extent, element, false), loads)?;
        let stride = match rest {
            [] => None,
            [stride] => Some(self.source(stride, Value::Bits32)?),
            _ => return Err("too many operands".to_owned()),
        };
        let space = match memory {
            MatrixMemory::Global => SpaceKind::Global,
            MatrixMemory::Shared => SpaceKind::Shared,
            MatrixMemory::Generic => SpaceKind::Generic,
        };
        let (address, offset) = self.atomic_address(address, space)?;
        let by_columns = *layout == "col";
        let number = self.builder.matrices.fragments.len() as u32;
        self.builder.matrices.fragments.push(FragmentPlan { fragment, memory, address, offset, stride, by_columns });
        let chosen = match (loads, element == Element::F64) {
            (true, true) => baseline_handlers::<LoadFragment<u64>>(),
            (true, false) => baseline_handlers::<LoadFragment<u32>>(),
            (false, _) => baseline_handlers::<StoreFragment>(),
        };
        self.emit(chosen, |inst| inst.aux = number);
        Ok(())
    }

    /// `ldmatrix` and `stmatrix`.
    pub(crate) fn matrix_rows(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let loads = instruction.opcode.mnemonic() == "ldmatrix";
        let words: Vec<&str> = instruction.opcode.modifiers().collect();
        let ["sync", "aligned", "m8n8", count, rest @ .., "b16"] = words.as_slice() else {
            return Err("unknown instruction".to_owned());
        };
        let (transposed, rest) = match rest {
            ["trans", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let (count, space) = match (*count, rest) {
            ("x1", []) => (1, SpaceKind::Generic),
            ("x2", []) => (2, SpaceKind::Generic),
            ("x4", []) => (4, SpaceKind::Generic),
            ("x1", ["shared" | "shared::cta"]) => (1, SpaceKind::Shared),
            ("x2", ["shared" | "shared::cta"]) => (2, SpaceKind::Shared),
            ("x4", ["shared" | "shared::cta"]) => (4, SpaceKind::Shared),
            _ => return Err("unknown instruction".to_owned()),
        };
        let [first, second] = instruction.operands.as_slice() else {
            return Err("operands: ldmatrix wants d, [a], stmatrix [a], d".to_owned());
        };
        let (moved, address) = if loads { (first, second) } else { (second, first) };
        let mut slots = [0; 4];
        self.registers(moved, &mut slots[..count], Value::Bits32, loads)?;
        let (address, offset) = self.atomic_address(address, space)?;
        let generic = space == SpaceKind::Generic;
        let number = self.builder.matrices.rows.len() as u32;
        self.builder.matrices.rows.push(RowsPlan { slots, count, transposed, generic, address, offset });
        let chosen = if loads { baseline_handlers::<LoadRows>() } else { baseline_handlers::<StoreRows>() };
        self.emit(chosen, |inst| inst.aux = number);
        Ok(())
    }

    /// `movmatrix`.
    pub(crate) fn transpose(&mut self, instruction: &Instruction<'static>) -> Lowering<()> {
        let words: Vec<&str> = instruction.opcode.modifiers().collect();
        let (["sync", "aligned", "m8n8", "trans", "b16"], [d, a]) = (words.as_slice(), instruction.operands.as_slice())
        else {
            return Err("unknown instruction".to_owned());
        };
        let a = self.source(a, Value::Bits32)?;
        let d = self.destination(d, Value::Bits32)?;
        self.emit(baseline_handlers::<Transpose>(), |inst| (inst.d, inst.a) = (d, a));
        Ok(())
    }
}
