//! Which handler executes an access: by space, type, width of the registers and number of elements.
//! In go what the modifiers of a load or store say, out comes one handler. Forms without a handler are refused.
//! Nothing here looks at operands.

use floe_ptx::ScalarType;

use crate::exec::{
    self, Byte, ByteSigned16, ByteSigned32, ByteSignedWide, ByteWide, Double, Half, HalfSigned32, HalfSignedWide,
    HalfWide, Handlers, Load, LoadParameter, LoadSharedWord, LoadWords, Narrow, SpaceKind, Store, StoreSharedWord,
    StoreWords, Wide, Word, WordSignedWide, WordWide, handlers,
};

use super::function::Lowering;

/// How a type moves into registers of that width: calls `$with!` with the transfer's name.
macro_rules! transfer {
    ($scalar:expr, $wide:expr, $bits:expr, $with:ident) => {{
        let signed = matches!($scalar, ScalarType::S8 | ScalarType::S16 | ScalarType::S32);
        match ($scalar.size(), $wide, signed) {
            (1, false, false) => $with!(Byte),
            (1, false, true) if $bits == 16 => $with!(ByteSigned16),
            (1, false, true) => $with!(ByteSigned32),
            (1, true, false) => $with!(ByteWide),
            (1, true, true) => $with!(ByteSignedWide),
            (2, false, true) if $bits == 32 => $with!(HalfSigned32),
            (2, false, _) => $with!(Half),
            (2, true, false) => $with!(HalfWide),
            (2, true, true) => $with!(HalfSignedWide),
            (4, false, _) => $with!(Word),
            (4, true, false) => $with!(WordWide),
            (4, true, true) => $with!(WordSignedWide),
            (8, true, _) => $with!(Double),
            _ => return Err(format!("type not supported: .{}", $scalar.name())),
        }
    }};
}

macro_rules! by_space_and_lanes {
    ($operation:ident, $space:expr, $lanes:expr, $transfer:ident) => {
        match ($space, $lanes) {
            (SpaceKind::Global, 1) => handlers::<$operation<exec::Global, $transfer, Wide, 1>>(),
            (SpaceKind::Global, 2) => handlers::<$operation<exec::Global, $transfer, Wide, 2>>(),
            (SpaceKind::Global, _) => handlers::<$operation<exec::Global, $transfer, Wide, 4>>(),
            (SpaceKind::Shared, 1) => handlers::<$operation<exec::Shared, $transfer, Narrow, 1>>(),
            (SpaceKind::Shared, 2) => handlers::<$operation<exec::Shared, $transfer, Narrow, 2>>(),
            (SpaceKind::Shared, _) => handlers::<$operation<exec::Shared, $transfer, Narrow, 4>>(),
            (SpaceKind::Local, 1) => handlers::<$operation<exec::Local, $transfer, Wide, 1>>(),
            (SpaceKind::Local, 2) => handlers::<$operation<exec::Local, $transfer, Wide, 2>>(),
            (SpaceKind::Local, _) => handlers::<$operation<exec::Local, $transfer, Wide, 4>>(),
            (SpaceKind::Parameter, 1) => handlers::<$operation<exec::Parameter, $transfer, Wide, 1>>(),
            (SpaceKind::Parameter, 2) => handlers::<$operation<exec::Parameter, $transfer, Wide, 2>>(),
            (SpaceKind::Parameter, _) => handlers::<$operation<exec::Parameter, $transfer, Wide, 4>>(),
            (SpaceKind::Generic, 1) => handlers::<$operation<exec::Generic, $transfer, Wide, 1>>(),
            (SpaceKind::Generic, 2) => handlers::<$operation<exec::Generic, $transfer, Wide, 2>>(),
            (SpaceKind::Generic, _) => handlers::<$operation<exec::Generic, $transfer, Wide, 4>>(),
        }
    };
}

/// Whether the access is one of a 32-bit word in shared memory, which has handlers of its own.
pub(super) fn is_shared_word(space: SpaceKind, scalar: ScalarType, wide: bool, lanes: usize) -> bool {
    space == SpaceKind::Shared && lanes == 1 && scalar.size() == 4 && !wide
}

pub(super) fn load_handlers(
    space: SpaceKind,
    scalar: ScalarType,
    wide: bool,
    bits: u32,
    lanes: usize,
) -> Lowering<Handlers> {
    if lanes * scalar.size() as usize > 16 {
        return Err("vector wider than 16 bytes".to_owned());
    }
    if is_shared_word(space, scalar, wide, lanes) {
        return Ok(handlers::<LoadSharedWord>());
    }
    macro_rules! with {
        ($transfer:ident) => {
            by_space_and_lanes!(Load, space, lanes, $transfer)
        };
    }
    Ok(transfer!(scalar, wide, bits, with))
}

pub(super) fn store_handlers(space: SpaceKind, scalar: ScalarType, wide: bool, lanes: usize) -> Lowering<Handlers> {
    if lanes * scalar.size() as usize > 16 {
        return Err("vector wider than 16 bytes".to_owned());
    }
    if is_shared_word(space, scalar, wide, lanes) {
        return Ok(handlers::<StoreSharedWord>());
    }
    Ok(match (scalar.size(), wide) {
        (1, false) => by_space_and_lanes!(Store, space, lanes, Byte),
        (2, false) => by_space_and_lanes!(Store, space, lanes, Half),
        (4, false) => by_space_and_lanes!(Store, space, lanes, Word),
        (8, true) => by_space_and_lanes!(Store, space, lanes, Double),
        _ => return Err(format!("type not supported: .{}", scalar.name())),
    })
}

pub(super) fn parameter_handlers(scalar: ScalarType, wide: bool, bits: u32) -> Lowering<Handlers> {
    macro_rules! with {
        ($transfer:ident) => {
            handlers::<LoadParameter<$transfer>>()
        };
    }
    Ok(transfer!(scalar, wide, bits, with))
}

pub(super) fn word_load_handlers(scalar: ScalarType, wide: bool, bits: u32) -> Lowering<Handlers> {
    macro_rules! with {
        ($transfer:ident) => {
            handlers::<LoadWords<$transfer>>()
        };
    }
    Ok(transfer!(scalar, wide, bits, with))
}

pub(super) fn word_store_handlers(scalar: ScalarType, wide: bool) -> Lowering<Handlers> {
    Ok(match (scalar.size(), wide) {
        (1, false) => handlers::<StoreWords<Byte>>(),
        (2, false) => handlers::<StoreWords<Half>>(),
        (4, false) => handlers::<StoreWords<Word>>(),
        (8, true) => handlers::<StoreWords<Double>>(),
        _ => return Err(format!("type not supported: .{}", scalar.name())),
    })
}
