//! A loopback port of a test's own.
//! In: nothing. Out: its address. It is bound, so the system gives it to nobody else, and nobody listens there until a
//! process that is told its number does.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A port that stays reserved until this is dropped.
#[derive(Debug)]
pub struct Port {
    _bound: Socket,
    address: SocketAddr,
}

impl Port {
    /// Reserves one.
    ///
    /// # Panics
    /// When none is free.
    #[must_use]
    pub fn reserve() -> Self {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        // Then another process may listen there, which sets this, too.
        bound.set_reuse_address(true).expect("set");
        bound.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
        let address = bound.local_addr().ok().and_then(|address| address.as_socket()).expect("it has one");
        Self { _bound: bound, address }
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn nobody_else_is_given_it_and_who_knows_it_may_listen() {
        let port = Port::reserve();
        let refused = TcpStream::connect(port.address()).expect_err("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let listener = TcpListener::bind(port.address()).expect("it may");
        let _stream = TcpStream::connect(port.address()).expect("it listens");
        assert_eq!(listener.accept().expect("somebody connects").0.local_addr().expect("an address"), port.address());
    }
}
