//! Module images as programs carry them: fat binaries, cubins, PTX text.
