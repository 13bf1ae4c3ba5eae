//! PTX text to module: lexer, generic syntax tree, parser.
