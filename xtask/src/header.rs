//! `cargo xtask check-header`: whether our exported functions take what NVIDIA's header says they take. The toolkit's
//! `cuda.h`, preprocessed with all versions of all functions, and the generated exports come in; every difference goes
//! out as a sentence. It compares only what the calling convention sees: the number of arguments, and whether each is
//! an int, a word, a float, or a pointer. `values` compares the values that the tests pass.

mod values;

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::toolchain::{self, repository};

/// One argument as the calling convention sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Four bytes or fewer: `int`, `unsigned int`, enumerations, devices, characters.
    Int,
    /// Eight bytes: sizes, addresses, handles.
    Word,
    Float,
    /// A struct by value, or one pointed to; `void` too.
    Struct,
    Pointer(Box<Kind>),
}

impl Kind {
    /// Whether a caller of one is served by the other.
    fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pointer(one), Self::Pointer(two)) => {
                **one == Self::Struct || **two == Self::Struct || one.agrees(two)
            }
            // Host addresses are numbers in some of our signatures.
            (Self::Pointer(_), Self::Word) | (Self::Word, Self::Pointer(_)) => true,
            (one, two) => one == two,
        }
    }
}

type Signatures = BTreeMap<String, Vec<Kind>>;

/// Compares and fails with everything that differs.
pub(crate) fn check() -> Result<()> {
    let header = toolchain::ensure()?.headers().join("cuda.h");
    let output = Command::new("cc")
        .args(["-E", "-P", "-D__CUDA_API_VERSION_INTERNAL"])
        .arg(&header)
        .output()
        .context("running the C preprocessor: cc")?;
    ensure!(output.status.success(), "the header cannot be preprocessed: {}", header.display());
    let theirs = declared(&String::from_utf8_lossy(&output.stdout));
    let path = repository().join("boundary/surface/src/generated/exports.rs");
    let ours = exported(&std::fs::read_to_string(&path).with_context(|| path.display().to_string())?);
    let (compared, differences) = compare(&ours, &theirs);
    ensure!(differences.is_empty(), "exported functions differ from cuda.h:\n{}", differences.join("\n"));
    ensure!(compared > 100, "cuda.h declares too few of our functions to be what it should be: {compared}");
    eprintln!("check-header: {compared} exported functions take what cuda.h says");
    let raw = std::fs::read_to_string(&header).with_context(|| header.display().to_string())?;
    let values = values::Header::read(&String::from_utf8_lossy(&output.stdout), &raw);
    let missing = values::missing(&values::table()?, &values, &ours.into_keys().collect());
    ensure!(missing.is_empty(), "api/values.toml and cuda.h differ:\n{}", missing.join("\n"));
    eprintln!("check-header: api/values.toml has each value that cuda.h names");
    Ok(())
}

fn compare(ours: &Signatures, theirs: &Signatures) -> (usize, Vec<String>) {
    let both: Vec<_> = ours.iter().filter_map(|(name, mine)| Some((name, mine, theirs.get(name)?))).collect();
    let differs = |mine: &[Kind], header: &[Kind]| {
        mine.len() != header.len() || mine.iter().zip(header).any(|(one, two)| !one.agrees(two))
    };
    let differences = both
        .iter()
        .filter(|(_, mine, header)| differs(mine, header))
        .map(|(name, mine, header)| format!("{name}: the table has {mine:?}, cuda.h has {header:?}"))
        .collect();
    (both.len(), differences)
}

/// The functions our macro exports.
fn exported(text: &str) -> Signatures {
    let functions = text.split("pub unsafe extern \"C\" fn ").skip(1);
    functions
        .filter_map(|function| {
            let (name, rest) = function.split_once('(')?;
            let (arguments, _) = rest.split_once(')')?;
            Some((name.to_owned(), list(arguments).map(rust_kind).collect()))
        })
        .collect()
}

fn list(arguments: &str) -> impl Iterator<Item = &str> {
    arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty() && *argument != "void")
}

fn rust_kind(argument: &str) -> Kind {
    let kind = argument.split_once(':').map_or(argument, |(_, kind)| kind).trim();
    if let Some(pointee) = kind.strip_prefix("*mut ").or_else(|| kind.strip_prefix("*const ")) {
        return Kind::Pointer(Box::new(rust_kind(pointee)));
    }
    match kind {
        "i32" | "u32" | "u8" | "u16" | "i8" | "c_char" | "Device" => Kind::Int,
        "f32" => Kind::Float,
        "u64" | "usize" | "i64" => Kind::Word,
        name if is_struct(name) => Kind::Struct,
        _ => Kind::Word,
    }
}

/// Our names of C structs; every other capital name is a handle or an address, which is a word.
fn is_struct(name: &str) -> bool {
    const WORDS: [&str; 26] = [
        "Array",
        "Context",
        "DevicePtr",
        "Event",
        "ExternalMemory",
        "ExternalSemaphore",
        "Function",
        "Graph",
        "GraphExec",
        "GraphNode",
        "GreenContext",
        "HostPointer",
        "Kernel",
        "Library",
        "LinkState",
        "MemHandle",
        "MemPool",
        "MipmappedArray",
        "Module",
        "Stream",
        "SurfaceObject",
        "TextureObject",
        "TextureReference",
        "UserObject",
        "ConditionalHandle",
        "DeviceResourceDescriptor",
    ];
    name == "c_void" || !WORDS.contains(&name)
}

/// The functions the header declares.
fn declared(text: &str) -> Signatures {
    let kinds = Typedefs::read(text);
    let mut found = Signatures::new();
    for statement in text.split(';') {
        let Some(at) = statement.rfind("CUresult ").filter(|_| !statement.contains("typedef")) else { continue };
        let Some((name, arguments)) = statement[at + "CUresult ".len()..].split_once('(') else { continue };
        let name = name.trim();
        let Some((arguments, _)) = arguments.rsplit_once(')').filter(|_| name.starts_with("cu")) else { continue };
        found.insert(name.to_owned(), list(arguments).map(|argument| kinds.kind(argument)).collect());
    }
    found
}

/// Meanings of the header's type names.
struct Typedefs(BTreeMap<String, Kind>);

impl Typedefs {
    fn read(text: &str) -> Self {
        let mut known = Self(BTreeMap::new());
        // Bodies of structs and enumerations hold semicolons, so they go first.
        for statement in without_bodies(text).split(';') {
            let Some(at) = statement.find("typedef ") else { continue };
            known.add(statement[at + "typedef ".len()..].trim());
        }
        known
    }

    fn add(&mut self, definition: &str) {
        let function = definition.split_once('(').and_then(|(_, rest)| rest.trim_start().strip_prefix('*'));
        if let Some(rest) = function {
            let name = rest.split(')').next().unwrap_or_default().trim();
            self.0.insert(name.to_owned(), Kind::Word);
            return;
        }
        let Some(start) = definition.rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == ']' || c == '[')) else {
            return;
        };
        let (stands_for, name) = definition.split_at(start + 1);
        let kind = match self.kind(stands_for) {
            // A pointer with a name of its own is a handle.
            Kind::Pointer(_) => Kind::Word,
            kind => kind,
        };
        self.0.insert(name.split('[').next().unwrap_or_default().to_owned(), kind);
    }

    /// The kind of an argument or a type, with or without a name behind it.
    fn kind(&self, text: &str) -> Kind {
        // An array argument is a pointer.
        let stars = text.matches('*').count() + text.matches('[').count();
        let words: Vec<&str> = text
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty() && !matches!(*word, "const" | "volatile"))
            .collect();
        (0..stars).fold(self.scalar(&words), |kind, _| Kind::Pointer(Box::new(kind)))
    }

    fn scalar(&self, words: &[&str]) -> Kind {
        match words {
            ["enum", ..] => Kind::Int,
            ["struct" | "union" | "void", ..] => Kind::Struct,
            ["float", ..] => Kind::Float,
            ["size_t" | "uint64_t" | "int64_t", ..] | ["long" | "double", ..] | ["unsigned" | "signed", "long", ..] => {
                Kind::Word
            }
            ["int" | "char" | "short" | "unsigned" | "signed" | "uint32_t" | "uint8_t", ..] => Kind::Int,
            [name, ..] => self.0.get(*name).cloned().unwrap_or(Kind::Struct),
            [] => Kind::Struct,
        }
    }
}

/// The text with everything between braces left out.
fn without_bodies(text: &str) -> String {
    let mut depth = 0_usize;
    text.chars()
        .filter(|c| match c {
            '{' => {
                depth += 1;
                false
            }
            '}' => {
                depth = depth.saturating_sub(1);
                false
            }
            _ => depth == 0,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "typedef unsigned int cuuint32_t; typedef unsigned long long CUdeviceptr_v2; \
        typedef CUdeviceptr_v2 CUdeviceptr; typedef struct CUstream_st *CUstream; \
        typedef enum E_enum { A = 1, B } E; typedef void ( *Fn)(void *data); typedef struct S_st { int a; int b; } S; \
        CUresult cuOne(CUdeviceptr *out, size_t bytes, CUstream stream, E choice); \
        CUresult cuTwo(const S *what, void **pointers, cuuint32_t n, S all); CUresult cuNone(void); CUresult cuCall(Fn function);";

    #[test]
    fn header_is_read_as_the_machine_sees_it() {
        let found = declared(HEADER);
        let pointer = |kind| Kind::Pointer(Box::new(kind));
        assert_eq!(found["cuOne"], [pointer(Kind::Word), Kind::Word, Kind::Word, Kind::Int]);
        assert_eq!(found["cuTwo"], [pointer(Kind::Struct), pointer(pointer(Kind::Struct)), Kind::Int, Kind::Struct]);
        assert_eq!((found["cuNone"].len(), &found["cuCall"]), (0, &vec![Kind::Word]));
    }

    #[test]
    fn swapped_arguments_are_found_and_host_addresses_may_be_numbers() {
        let ours = |arguments: &str| exported(&format!("pub unsafe extern \"C\" fn cuOne({arguments}) -> CuResult {{"));
        let right = ours("out: *mut DevicePtr, bytes: usize, stream: Stream, choice: u32");
        assert_eq!(compare(&right, &declared(HEADER)), (1, vec![]));
        let swapped = ours("out: *mut DevicePtr, bytes: usize, choice: u32, stream: Stream");
        assert_eq!(compare(&swapped, &declared(HEADER)).1.len(), 1);
        let fewer = ours("out: *mut DevicePtr, bytes: usize, stream: Stream");
        assert_eq!(compare(&fewer, &declared(HEADER)).1.len(), 1);
    }
}
