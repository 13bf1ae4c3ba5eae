//! The sources of settings and their precedence, on made-up environments and files.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::*;

#[derive(Debug, Default)]
struct Fake {
    variables: HashMap<String, String>,
    files: HashMap<String, String>,
}

impl Fake {
    fn with(pairs: &[(&str, &str)]) -> Self {
        let mut fake = Self::default();
        for (name, value) in pairs {
            fake.variables.insert((*name).into(), (*value).into());
        }
        fake
    }

    fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.into());
        self
    }
}

impl Source for Fake {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn file(&self, path: &Path) -> io::Result<String> {
        let text = path.to_str().and_then(|path| self.files.get(path)).cloned();
        text.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn servers(settings: &Settings) -> Vec<(String, u32)> {
    settings.devices.iter().map(|device| (device.place.server.clone(), device.place.gpu)).collect()
}

#[test]
fn nothing_set_gives_no_devices() {
    let settings = Settings::read(&Fake::default()).unwrap();
    assert!(settings.devices.is_empty());
    assert_eq!(settings.log, None);
    assert_eq!(settings.report, Report::None);
}

#[test]
fn floe_devices_wins_over_rcuda_and_file() {
    let fake = Fake::with(&[
        ("FLOE_DEVICES", "a:1, unix:///run/floe.sock:0"),
        ("RCUDA_DEVICE_COUNT", "1"),
        ("RCUDA_DEVICE_0", "b"),
        ("FLOE_CONFIG", "/c.toml"),
    ])
    .file("/c.toml", "devices = [\"c:0\"]");
    assert_eq!(
        servers(&Settings::read(&fake).unwrap()),
        [("a".to_owned(), 1), ("unix:///run/floe.sock".to_owned(), 0)]
    );
}

#[test]
fn rcuda_variables_name_host_port_and_gpu() {
    let fake =
        Fake::with(&[("RCUDA_DEVICE_COUNT", "2"), ("RCUDA_DEVICE_0", "node1"), ("RCUDA_DEVICE_1", "node2@8308:3")]);
    assert_eq!(servers(&Settings::read(&fake).unwrap()), [("node1".to_owned(), 0), ("node2:8308".to_owned(), 3)]);
}

#[test]
fn a_promised_rcuda_device_that_is_missing_is_named() {
    let fake = Fake::with(&[("RCUDA_DEVICE_COUNT", "2"), ("RCUDA_DEVICE_0", "a")]);
    assert_eq!(
        Settings::read(&fake).unwrap_err().to_string(),
        "RCUDA_DEVICE_COUNT is 2, but a variable is not set: RCUDA_DEVICE_1\n  set it to HOST[@PORT][:GPU]"
    );
}

#[test]
fn quotas_are_read_per_device_and_the_last_one_repeats() {
    let fake = Fake::with(&[("FLOE_DEVICES", "a:0,a:1,a:2"), ("FLOE_MEMORY", "8GiB,512 MiB")]);
    let quotas: Vec<u64> = Settings::read(&fake).unwrap().devices.iter().map(|device| device.memory).collect();
    assert_eq!(quotas, [8 << 30, 512 << 20, 512 << 20]);
}

#[test]
fn vgpus_of_one_gpu_have_slots_of_their_own() {
    let fake = Fake::with(&[("FLOE_DEVICES", "a:0,b:0,a:0,a:1,a:0")]);
    let devices = Settings::read(&fake).unwrap().devices;
    assert_eq!(devices.iter().map(|device| device.twin).collect::<Vec<_>>(), [0, 0, 1, 0, 2]);
    assert_eq!(devices.iter().map(|device| device.pci_slot(0x1b)).collect::<Vec<_>>(), [0x1b, 0x1b, 0x0b, 0x1b, 0x13]);
    let place = &devices[0].place;
    let slots: std::collections::BTreeSet<u32> =
        (0..32).map(|twin| WantedDevice { place: place.clone(), memory: 0, share: 0, twin }.pci_slot(0)).collect();
    assert_eq!((slots.len(), slots.last()), (32, Some(&31)));
}

#[test]
fn a_quota_that_overflows_is_refused() {
    let fake = Fake::with(&[("FLOE_MEMORY", "99999999999TiB")]);
    assert!(matches!(Settings::read(&fake), Err(SettingsError::Value { .. })));
}

#[test]
fn token_comes_from_variable_then_named_file_then_home() {
    let home = Fake::with(&[("HOME", "/h")]).file("/h/.config/floe/token", "from-home\n");
    assert_eq!(Settings::read(&home).unwrap().credentials.token.as_deref(), Some("from-home"));
    let named = Fake::with(&[("HOME", "/h"), ("FLOE_TOKEN_FILE", "/t")])
        .file("/t", " from-file\n")
        .file("/h/.config/floe/token", "from-home");
    assert_eq!(Settings::read(&named).unwrap().credentials.token.as_deref(), Some("from-file"));
    let variable = Fake::with(&[("FLOE_TOKEN", "direct"), ("FLOE_TOKEN_FILE", "/none")]);
    assert_eq!(Settings::read(&variable).unwrap().credentials.token.as_deref(), Some("direct"));
}

#[test]
fn the_token_lies_where_the_server_keeps_it_also_without_a_home() {
    for (variables, path) in [
        (&[("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")][..], "/x/floe/token"),
        (&[("XDG_CONFIG_HOME", "x"), ("HOME", "/h")], "/h/.config/floe/token"),
        (&[], "/etc/floe/token"),
    ] {
        let credentials = Settings::read(&Fake::with(variables).file(path, "t")).unwrap().credentials;
        assert_eq!((credentials.token.as_deref(), credentials.token_file.as_deref()), (Some("t"), Some(path.as_ref())));
    }
}

#[test]
fn a_named_token_file_wins_over_a_token_of_the_file_alone() {
    let named = "token = 'direct'\ntoken-file = '/t'";
    let token = |variables: &[(&str, &str)], text| {
        let fake = Fake::with(&[&[("FLOE_CONFIG", "/c.toml")], variables].concat());
        Settings::read(&fake.file("/c.toml", text).file("/t", "from-file")).unwrap().credentials.token
    };
    assert_eq!(token(&[], named).as_deref(), Some("from-file"));
    assert_eq!(token(&[("FLOE_TOKEN", "variable")], named).as_deref(), Some("variable"));
    assert_eq!(token(&[("FLOE_TOKEN_FILE", "/t")], "token = 'direct'").as_deref(), Some("from-file"));
}

#[test]
fn flags_win_and_are_named_where_they_are_wrong() {
    let fake = Fake::with(&[("FLOE_DEVICES", "a:0"), ("RCUDA_DEVICE_COUNT", "1")]);
    let with = |flags: &[Flag]| Settings::with_flags(flags, &fake);
    assert_eq!(servers(&with(&[("devices", "b:1".into())]).unwrap()), [("b".to_owned(), 1)]);
    let wrong = with(&[("devices", "b:999".into())]).unwrap_err().to_string();
    assert!(wrong.starts_with("--on: "), "{wrong}");
}

#[test]
fn there_is_no_token_where_none_is_wanted_or_it_is_empty() {
    let home = |pairs: &[(&str, &str)]| {
        let fake = Fake::with(&[&[("HOME", "/h")], pairs].concat()).file("/h/.config/floe/token", "from-home\n");
        Settings::read(&fake.file("/none.toml", "no-token = true").file("/empty", "")).unwrap().credentials.token
    };
    for pairs in
        [("FLOE_NO_TOKEN", "1"), ("FLOE_CONFIG", "/none.toml"), ("FLOE_TOKEN", ""), ("FLOE_TOKEN_FILE", "/empty")]
    {
        assert_eq!(home(&[pairs]), None, "{pairs:?}");
    }
    assert_eq!(home(&[("FLOE_CONFIG", "/none.toml"), ("FLOE_NO_TOKEN", "0")]).as_deref(), Some("from-home"));
}

#[test]
fn a_token_that_a_variable_names_is_shown_although_the_file_wants_none() {
    let token = |pairs: &[(&str, &str)]| {
        let fake = Fake::with(&[&[("FLOE_CONFIG", "/none.toml")], pairs].concat()).file("/t", "of-file\n");
        Settings::read(&fake.file("/none.toml", "no-token = true")).unwrap().credentials.token
    };
    assert_eq!(token(&[("FLOE_TOKEN", "own")]).as_deref(), Some("own"));
    assert_eq!(token(&[("FLOE_TOKEN_FILE", "/t")]).as_deref(), Some("of-file"));
    assert_eq!(token(&[("FLOE_TOKEN", "own"), ("FLOE_NO_TOKEN", "1")]), None);
}

#[test]
fn a_named_token_file_that_does_not_exist_is_an_error() {
    let fake = Fake::with(&[("FLOE_TOKEN_FILE", "/none")]);
    assert!(matches!(Settings::read(&fake), Err(SettingsError::Unreadable { name, .. }) if name == "FLOE_TOKEN_FILE"));
}

#[test]
fn an_unknown_key_of_the_file_is_named() {
    let fake = Fake::with(&[("FLOE_CONFIG", "/c.toml")]).file("/c.toml", "devises = []");
    let text = Settings::read(&fake).unwrap_err().to_string();
    assert!(text.contains("/c.toml") && text.contains("devises"), "{text}");
}

#[test]
fn driver_variables_are_carried_or_refused_and_others_are_left_alone() {
    let fake = Fake::with(&[("CUDA_LAUNCH_BLOCKING", "1"), ("CUDA_AUTO_BOOST", "0"), ("CUDA_HOME", "/usr")]);
    let settings = Settings::read(&fake).unwrap();
    assert_eq!(settings.driver, [("CUDA_LAUNCH_BLOCKING".to_owned(), "1".to_owned())]);
    assert_eq!(settings.refused, [("CUDA_AUTO_BOOST", "the GPU's clocks are its owner's")]);
}

#[test]
fn files_for_tls_come_from_variables_or_the_file_and_a_key_has_its_certificate() {
    let named = Fake::with(&[("FLOE_TLS_AUTHORITIES", "/a"), ("FLOE_TLS_CERTIFICATE", "/c"), ("FLOE_TLS_KEY", "/k")]);
    let credentials = Settings::read(&named).unwrap().credentials;
    assert_eq!(credentials.authorities.as_deref(), Some("/a".as_ref()));
    assert_eq!(credentials.identity.unwrap().key, std::path::PathBuf::from("/k"));
    let half = Fake::with(&[("FLOE_TLS_KEY", "/k")]);
    assert!(matches!(Settings::read(&half), Err(SettingsError::Value { .. })));
}
