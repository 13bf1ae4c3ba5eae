//! The tables of the protocol page: read tables come in, Markdown goes out. It never writes a file.

use std::fmt::Write as _;

use super::recipes::recipe_words;
use super::table::{Field, Noun};

pub(super) fn page_tables(nouns: &[Noun]) -> String {
    let mut out = String::new();
    for noun in nouns {
        let _ = writeln!(out, "### {}\n\n{}\n", noun.name, noun.about);
        out.push_str("| kind | message | class | recipe | fields | reply |\n|---|---|---|---|---|---|\n");
        for message in &noun.messages {
            let reply = match &message.reply {
                None => "–".to_owned(),
                Some(reply) if reply.is_empty() => "status".to_owned(),
                Some(reply) => field_words(reply),
            };
            let _ = writeln!(
                out,
                "| `{:#06x}` | **{}**: {} | {} | {} | {} | {reply} |",
                message.id,
                message.name,
                message.doc,
                format!("{:?}", message.class).to_lowercase(),
                recipe_words(message),
                field_words(&message.fields)
            );
        }
        out.push('\n');
        for entry in &noun.structs {
            let _ = writeln!(out, "- `{}`: {} {}", entry.name, entry.doc, field_words(&entry.fields));
        }
        if !noun.structs.is_empty() {
            out.push('\n');
        }
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn field_words(fields: &[Field]) -> String {
    if fields.is_empty() {
        return "–".to_owned();
    }
    let words: Vec<String> = fields.iter().map(|field| format!("`{}: {}`", field.name, field.wire)).collect();
    words.join(" ")
}
