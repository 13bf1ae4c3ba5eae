//! The origin of settings and the one that wins, on made-up environments and files.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::*;
use crate::tables::{CLIENT, ClientSettings, SERVER, ServerSettings};

#[derive(Debug, Default)]
struct Fake {
    variables: HashMap<&'static str, &'static str>,
    files: HashMap<&'static str, &'static str>,
}

impl Fake {
    fn new(variables: &[(&'static str, &'static str)], files: &[(&'static str, &'static str)]) -> Self {
        Self { variables: variables.iter().copied().collect(), files: files.iter().copied().collect() }
    }
}

impl Source for Fake {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|value| (*value).to_owned())
    }

    fn file(&self, path: &Path) -> io::Result<String> {
        match path.to_str().and_then(|path| self.files.get(path)) {
            Some(&"closed") => Err(io::ErrorKind::PermissionDenied.into()),
            Some(text) => Ok((*text).to_owned()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

fn server(flags: &[(&'static str, &str)], source: &Fake) -> Result<ServerSettings, String> {
    let flags: Vec<_> = flags.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    let given = Given::gather(&SERVER, &flags, source).map_err(|error| error.to_string())?;
    ServerSettings::read(&given).map_err(|error| error.to_string())
}

fn client(source: &Fake) -> Result<ClientSettings, String> {
    let given = Given::gather(&CLIENT, &[], source).map_err(|error| error.to_string())?;
    ClientSettings::read(&given).map_err(|error| error.to_string())
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let sessions = |flags: &[(&'static str, &str)], variables: &[_], file: &'static str| {
        let variables = [&[("HOME", "/h")], variables].concat();
        server(flags, &Fake::new(&variables, &[("/h/.config/floe/floe.toml", file)])).expect("numbers").max_sessions
    };
    let (flag, variable, file) = ([("max_sessions", "1")], [("FLOE_MAX_SESSIONS", "2")], "[server]\nmax-sessions = 3");
    assert_eq!(sessions(&flag, &variable, file), 1);
    assert_eq!(sessions(&[], &variable, file), 2);
    assert_eq!(sessions(&[], &[("FLOE_MAX_SESSIONS", " ")], file), 3);
    assert_eq!(sessions(&[], &[], ""), 64);
}

#[test]
fn what_the_file_turns_on_a_flag_or_a_variable_turns_off() {
    let file = [("/etc/floe/floe.toml", "[server]\nno-token = true")];
    let no_token = |flags: &[(&'static str, &str)], variables: &[_]| {
        server(flags, &Fake::new(variables, &file)).expect("switches").no_token
    };
    assert!(no_token(&[], &[]));
    assert!(!no_token(&[("no_token", "no")], &[]));
    assert!(!no_token(&[], &[("FLOE_SERVER_NO_TOKEN", "0")]));
    assert!(no_token(&[], &[("FLOE_NO_TOKEN", "0")]), "that one is a client's");
}

#[test]
fn errors_name_the_flag_the_variable_or_the_line() {
    let size = "not a size: much\n  write it as 8G, 512M or a number of bytes";
    let nothing = Fake::default();
    assert_eq!(server(&[("host_memory", "much")], &nothing), Err(format!("--host-memory: {size}")));
    let variable = Fake::new(&[("FLOE_HOST_MEMORY", "much")], &[]);
    assert_eq!(server(&[], &variable), Err(format!("FLOE_HOST_MEMORY: {size}")));
    let file = Fake::new(&[("FLOE_CONFIG", "/f")], &[("/f", "[server]\nhost-memory = 'much'")]);
    assert_eq!(server(&[], &file), Err(format!("/f:2: server.host-memory: {size}")));
    assert!(server(&[("socket", " ")], &nothing).expect_err("no path").starts_with("--socket: has no value"));
}

#[test]
fn both_programs_find_one_file_and_check_all_of_it() {
    let places = [
        (&[("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")][..], "/x/floe/floe.toml"),
        (&[("XDG_CONFIG_HOME", "x"), ("HOME", "/h")], "/h/.config/floe/floe.toml"),
        (&[], "/etc/floe/floe.toml"),
    ];
    for (variables, path) in places {
        let wrong = Fake::new(variables, &[(path, "[server]\nlissten = 'a'")]);
        assert!(client(&wrong).expect_err("unknown").contains("server.lissten"), "{path}");
        let wrong = Fake::new(variables, &[(path, "devises = []")]);
        assert!(server(&[], &wrong).expect_err("unknown").contains("devises"), "{path}");
    }
}

#[test]
fn a_file_that_is_named_or_there_must_be_readable() {
    let named = Fake::new(&[("FLOE_CONFIG", "/none")], &[]);
    assert!(client(&named).expect_err("there is none").starts_with("FLOE_CONFIG: cannot read the file: /none: "));
    let closed = Fake::new(&[("HOME", "/h")], &[("/h/.config/floe/floe.toml", "closed")]);
    assert!(client(&closed).expect_err("it is closed").contains("permission denied"));
    let machines = Fake::new(&[], &[("/etc/floe/floe.toml", "closed")]);
    assert!(client(&machines).is_ok(), "it may be a server's alone");
    assert!(server(&[], &machines).expect_err("it is its own").contains("permission denied"));
}

#[test]
fn only_devices_and_token_may_be_empty_variables() {
    let file = [("/etc/floe/floe.toml", "devices = ['a:0']\ntoken = 't'\nmemory = '1G'")];
    let empty = [("FLOE_DEVICES", ""), ("FLOE_TOKEN", ""), ("FLOE_MEMORY", "")];
    let read = client(&Fake::new(&empty, &file)).expect("understood");
    assert_eq!((read.devices, read.token.as_deref(), read.memory), (Some(vec![]), Some(""), Some(vec![1 << 30])));
}
