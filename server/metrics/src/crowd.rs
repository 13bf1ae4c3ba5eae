//! How many connections the port has, of one peer and of all.
//! In: connections that come and go. Out: the one that must close for a new one. Of a peer that has its share it is that
//! peer's oldest, else the oldest of all. So a new connection always gets in, and who is silent leaves first.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// What counts as one peer: an address, of IPv6 its first 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin(u128);

impl Origin {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u128::from(address.to_bits())),
            IpAddr::V6(address) => Self(address.to_bits() >> 64 << 64),
        }
    }
}

/// The connections, by number: the larger, the younger.
#[derive(Debug)]
pub(crate) struct Crowd {
    all: usize,
    each: usize,
    there: BTreeMap<u64, Origin>,
    last: u64,
}

impl Crowd {
    /// A crowd of so many, of which one peer may be so many.
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self { all, each, there: BTreeMap::new(), last: 0 }
    }

    /// A connection arrives. Returns its number, and the one that closes for it.
    pub(crate) fn arrive(&mut self, address: IpAddr) -> (u64, Option<u64>) {
        let origin = Origin::of(address);
        let mut its = self.there.iter().filter(|(_, other)| **other == origin).map(|(number, _)| *number);
        let (oldest, count) = (its.next(), its.count());
        let leaving = match oldest {
            Some(oldest) if count + 1 >= self.each => Some(oldest),
            _ if self.there.len() >= self.all => self.there.first_key_value().map(|(number, _)| *number),
            _ => None,
        };
        leaving.inspect(|leaving| self.leave(*leaving));
        self.last += 1;
        self.there.insert(self.last, origin);
        (self.last, leaving)
    }

    /// A connection has ended.
    pub(crate) fn leave(&mut self, number: u64) {
        self.there.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_peer_meets_its_own_share_first_and_loses_its_own_oldest() {
        let mut crowd = Crowd::new(4, 2);
        let arrive = |crowd: &mut Crowd, text| crowd.arrive(address(text));
        assert_eq!(arrive(&mut crowd, "192.0.2.1"), (1, None));
        assert_eq!(arrive(&mut crowd, "2001:db8::1"), (2, None));
        assert_eq!(arrive(&mut crowd, "::ffff:192.0.2.1"), (3, None));
        assert_eq!(arrive(&mut crowd, "192.0.2.1"), (4, Some(1)));
        assert_eq!(arrive(&mut crowd, "2001:db8::2"), (5, None));
        assert_eq!(arrive(&mut crowd, "2001:db8:0:0:ffff::3"), (6, Some(2)));
        assert_eq!(arrive(&mut crowd, "192.0.2.9"), (7, Some(3)), "the oldest of all");
        crowd.leave(4);
        crowd.leave(4);
        assert_eq!(arrive(&mut crowd, "192.0.2.8"), (8, None));
    }
}
