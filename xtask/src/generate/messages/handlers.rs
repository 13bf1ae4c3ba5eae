//! Who carries a client's commands out: read tables come in, a trait per noun and one `match` over all of them go out.
//! A command without a method is refused by the compiler. It makes neither messages nor their encoding.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use heck::{ToSnakeCase as _, ToUpperCamelCase as _};

use super::table::{Message, Noun, Recipient, Side, is_copied, lifetime, messages_from};

/// The noun's trait, where it has commands: one method for each.
pub(super) fn handler_source(out: &mut String, noun: &Noun, borrowing: &BTreeSet<String>) {
    let commands: Vec<&Message> = commands_of(noun).collect();
    if commands.is_empty() {
        return;
    }
    let _ = writeln!(out, "/// Carries out the commands of this noun.\npub trait {}: Handler {{", trait_name(noun));
    for message in commands {
        let borrow = if is_copied(&message.fields) { "" } else { "&" };
        let life = if lifetime(&message.fields, borrowing).is_empty() { "" } else { "<'_>" };
        let (name, method) = (&message.name, message.name.to_snake_case());
        let _ = writeln!(
            out,
            "/// Carries out [`{name}`].\n///\n/// # Errors\n/// The handler's.\nfn {method}(&mut self, message: {borrow}{name}{life}) -> Result<Self::Answer, Self::Fault>;\n"
        );
    }
    out.push_str("}\n\n");
}

/// The method that gives each command to its handler's method.
pub(super) fn dispatch_of_commands(out: &mut String, nouns: &[Noun]) {
    let handlers: Vec<String> =
        nouns.iter().filter(|noun| commands_of(noun).next().is_some()).map(trait_name).collect();
    let _ = writeln!(
        out,
        "impl Request<'_> {{\n/// Has a handler carry the command out.\n///\n/// # Errors\n/// The handler's; [`Handler::misplaced`] where the message is no command.\npub fn dispatch<H>(self, handler: &mut H) -> Result<H::Answer, H::Fault>\nwhere\nH: {},\n{{\nmatch self {{",
        handlers.join(" + ")
    );
    for message in messages_from(nouns, Side::Client) {
        let (name, method) = (&message.name, message.name.to_snake_case());
        let _ = match message.recipient {
            Recipient::Issuer if is_copied(&message.fields) => {
                writeln!(out, "Self::{name}(message) => handler.{method}(message),")
            }
            Recipient::Issuer => writeln!(out, "Self::{name}(message) => handler.{method}(&message),"),
            other => writeln!(out, "Self::{name}(_) => Err(H::misplaced(Recipient::{other:?})),"),
        };
    }
    out.push_str("}\n}\n}\n\n");
}

fn commands_of(noun: &Noun) -> impl Iterator<Item = &Message> {
    noun.messages.iter().filter(|message| message.from == Side::Client && message.recipient == Recipient::Issuer)
}

fn trait_name(noun: &Noun) -> String {
    format!("{}Requests", noun.name.to_upper_camel_case())
}
