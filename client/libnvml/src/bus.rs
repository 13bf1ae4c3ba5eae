//! PCI bus ids. Text of a program or a server comes in, text as NVIDIA's library writes it goes out. It never asks whether
//! there is such a device.

/// `domain:bus:device.function`
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BusId {
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) device: u32,
    pub(crate) function: u32,
}

/// What NVIDIA's library calls the other end of a link that a virtual machine does not see, as an NVSwitch of its host.
const UNSEEN: BusId = BusId { domain: u32::MAX, bus: 0xff, device: 0xff, function: 0 };

impl BusId {
    /// The same of the other end of a link.
    pub(crate) fn parse_remote(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("FFFFFFFF:FF:FF.0") { Some(UNSEEN) } else { Self::parse(text) }
    }

    /// Parses `0000:01:00.0`, with any number of digits, with or without domain and function. No bus has more devices.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| u32::from_str_radix(text, 16).ok();
        let (rest, slot) = text.trim().rsplit_once(':')?;
        let (domain, bus) = rest.split_once(':').unwrap_or(("0", rest));
        let (device, function) = slot.split_once('.').unwrap_or((slot, "0"));
        let (bus, device, function) = (number(bus)?, number(device)?, number(function)?);
        let possible = bus <= 0xff && device <= 0x1f && function <= 7;
        possible.then_some(Self { domain: number(domain)?, bus, device, function })
    }

    /// The older form, with a domain of four digits.
    pub(crate) fn short(self) -> [u8; 16] {
        if self == UNSEEN {
            // As NVIDIA's library cuts it off (driver 580).
            return padded("FFFFFFF:FF:FF.0");
        }
        padded(&format!("{:04X}:{:02X}:{:02X}.{:X}", self.domain & 0xffff, self.bus, self.device, self.function))
    }

    /// The newer form, with a domain of eight digits.
    pub(crate) fn long(self) -> [u8; 32] {
        padded(&format!("{:08X}:{:02X}:{:02X}.{:X}", self.domain, self.bus, self.device, self.function))
    }
}

/// Text followed by at least one NUL.
fn padded<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let length = text.len().min(BYTES - 1);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids_are_written_in_both_lengths() {
        let place = BusId { domain: 0, bus: 0x1a, device: 0, function: 0 };
        assert_eq!(place.short(), *b"0000:1A:00.0\0\0\0\0");
        assert!(place.long().starts_with(b"00000000:1A:00.0\0"));
    }

    #[test]
    fn an_end_that_nobody_sees_is_named_as_nvidias_library_names_it() {
        let unseen = BusId::parse_remote("FFFFFFFF:FF:FF.0").expect("as two H200 of a virtual machine say");
        assert_eq!((unseen.domain, unseen.bus, unseen.device), (0xffff_ffff, 0xff, 0xff));
        assert_eq!(unseen.short(), *b"FFFFFFF:FF:FF.0\0");
        assert!(unseen.long().starts_with(b"FFFFFFFF:FF:FF.0\0"));
        assert_eq!(BusId::parse("FFFFFFFF:FF:FF.0"), None, "no device is there");
    }

    #[test]
    fn bus_ids_are_read_in_every_length() {
        let full = BusId { domain: 1, bus: 0xb3, device: 2, function: 0 };
        assert_eq!(BusId::parse("00000001:B3:02.0"), Some(full));
        assert_eq!(BusId::parse("1:b3:02"), Some(full));
        assert_eq!(BusId::parse("b3:02.0"), Some(BusId { domain: 0, ..full }));
        assert_eq!(BusId::parse("b3"), None);
        assert_eq!(BusId::parse("x:y:z.0"), None);
        assert_eq!(["100:00.0", "00:20.0", "00:00.8", "100000000:00:00.0"].map(BusId::parse), [None; 4]);
    }
}
