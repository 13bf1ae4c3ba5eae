//! The opcode table.
