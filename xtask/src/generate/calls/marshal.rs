//! Functions that turn C arguments into a trait's call and its result into C's outputs. Each entry of the table without
//! a hand-written function gets one. Table in, Rust text out. Every pointer is checked before it is followed.

use super::table::{Argument, Direction, Entry, Noun, Shape};
use std::fmt::Write;

/// The marshallers of one noun.
pub(super) fn noun(noun: &Noun) -> String {
    let mut text = String::new();
    for entry in noun.entries.iter().filter(|entry| !entry.raw.custom) {
        text.push_str(&marshaller(entry));
    }
    text
}

/// The parameters of a marshaller or an exported function, as C passes them.
pub(super) fn c_parameters(entry: &Entry) -> String {
    entry
        .arguments
        .iter()
        .map(|argument| format!("{}: {}", argument.name, argument.c_type()))
        .collect::<Vec<_>>()
        .join(", ")
}

fn marshaller(entry: &Entry) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "/// `{}`: checks what C passed and calls [`Driver::{}`](crate::Driver).",
        entry.symbol, entry.method
    );
    let _ = writeln!(
        text,
        "///\n/// # Errors\n/// INVALID_VALUE for a missing pointer, else what the implementation says.\n///\n\
         /// # Safety\n/// The program's contract of `{}`.",
        entry.symbol
    );
    let default_stream = if entry.takes_default_stream() { "default_stream: Stream, " } else { "" };
    let _ = writeln!(
        text,
        "#[allow(non_snake_case, clippy::too_many_arguments, reason = \"name and arguments are C's\")]\n\
         pub unsafe fn {}<D: crate::Driver>(driver: &'static D, {default_stream}{}) -> CudaResult<()> {{",
        entry.symbol,
        c_parameters(entry)
    );
    for argument in &entry.arguments {
        text.push_str(&check(entry, argument));
    }
    text.push_str(&call(entry));
    text.push_str("Ok(())\n}\n\n");
    text
}

/// Lines before the call: outputs must be there, inputs become references, slices and ranges.
fn check(entry: &Entry, argument: &Argument) -> String {
    let name = &argument.name;
    let out = matches!(argument.direction, Direction::Out { .. });
    let made = match (&argument.shape, argument.direction) {
        (Shape::Plain(_) | Shape::Flag | Shape::TextBuffer { .. }, Direction::Out { optional: false }) => {
            return format!("c::present({name})?;\n");
        }
        (Shape::Plain(_), Direction::In { optional: false }) => format!("c::reference({name})?"),
        (Shape::Plain(_), Direction::In { optional: true }) => format!("c::optional({name})"),
        (Shape::Array { count, .. }, _) if out => format!("c::slice_mut({name}, {})?", as_usize(entry, count)),
        (Shape::Array { count, .. }, _) => format!("c::slice({name}, {})?", as_usize(entry, count)),
        (Shape::Text, _) => format!("c::text({name})?"),
        (Shape::Host { bytes }, _) if out => format!("c::host({name}, {bytes})?"),
        (Shape::Host { bytes }, _) => format!("c::host({name}.cast_mut(), {bytes})?"),
        (Shape::Unified { bytes }, _) => format!("c::unified({name}, {bytes})?"),
        _ => return String::new(),
    };
    format!(
        "// SAFETY: the program's contract for this argument, passed on by our caller; NULL is checked.\n\
         let {name} = unsafe {{ {made} }};\n"
    )
}

/// A count as `usize`, without a cast where it is one.
fn as_usize(entry: &Entry, count: &str) -> String {
    let is_usize =
        |other: &Argument| other.name == count && matches!(&other.shape, Shape::Plain(kind) if kind == "usize");
    if entry.arguments.iter().any(is_usize) { count.to_owned() } else { format!("{count} as usize") }
}

fn call(entry: &Entry) -> String {
    let lengths = entry.lengths();
    let mut passed = Vec::new();
    if entry.raw.implicit_stream {
        passed.push("default_stream".to_owned());
    }
    for argument in entry.arguments.iter().filter(|argument| !argument.is_returned()) {
        if argument.is_stream() {
            passed.push(format!("{}.or(default_stream)", argument.name));
        } else if !lengths.contains(argument.name.as_str()) {
            passed.push(argument.name.clone());
        }
    }
    let returned: Vec<&Argument> = entry.arguments.iter().filter(|argument| argument.is_returned()).collect();
    let call = format!("driver.{}({})?", entry.method, passed.join(", "));
    let pattern = match returned.len() {
        0 => return format!("{call};\n"),
        1 => "value0".to_owned(),
        count => format!("({})", (0..count).map(|index| format!("value{index}")).collect::<Vec<_>>().join(", ")),
    };
    let mut text = format!(
        "let {pattern} = {call};\n// SAFETY: outputs are NULL where that is allowed, else the program's own variables.\nunsafe {{\n"
    );
    for (index, argument) in returned.iter().enumerate() {
        let name = &argument.name;
        let _ = match &argument.shape {
            Shape::TextBuffer { length } => writeln!(text, "c::put_text({name}, {length}, &value{index})?;"),
            Shape::Flag => writeln!(text, "c::put({name}, i32::from(value{index}));"),
            _ => writeln!(text, "c::put({name}, value{index});"),
        };
    }
    text.push_str("}\n");
    text
}
