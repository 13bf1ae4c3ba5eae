//! Moves frames between client and server over TCP, TLS, Unix sockets and rings in shared memory.
//! In: an address or an open socket, and messages. Out: messages in order, or the reason for the link's end.
//! It knows frames, sequences and buffers, and never interprets a message.
#![forbid(unsafe_code)]

mod address;
mod bulk;
mod connect;
mod error;
mod frames;
mod link;
mod listener;
mod peer;
mod pipes;
mod presence;
mod resumption;
mod secret;
mod spin;
mod transport;

pub use address::{Address, AddressError, DEFAULT_PORT, TransportWish};
pub use bulk::{Help, Load, MOST_CONNECTIONS, STRIPED_FROM, Stripes};
pub use bulk::{Taken, Target, Transfers, pull, suitable_connections, suitable_copiers, transfer_bytes, transfers};
pub use connect::{Trust, connect};
pub use error::{Failure, LinkError, Lost, Unsealed, plain};
pub use frames::bulk_frame::Bulk;
pub use frames::halt::Halt;
pub use frames::receiver::{Arrival, Frame, Now, Readiness, Receiver};
pub use frames::sender::Sender;
pub use frames::traffic::Traffic;
pub use frames::writing::Leave;
pub use link::{Answering, Link, Parts, Sealer};
pub use listener::Listener;
pub use peer::Peer;
pub use pipes::borrowed::{BorrowedBuffer, SendMode};
pub use pipes::opening::{Opening, Speech, begins_with, first_bytes_needed, is_stranger, look};
pub use pipes::pipe::{Movable, Pipe, Reach, RingParts, Slot, Upgrade};
pub use pipes::rings::{RING_BYTES, Rings};
pub use pipes::sealed::SealedKeys;
pub use pipes::socket::{receive_with, send_with, try_send_with, write_without_descriptors};
pub use pipes::tls::{ClientTls, Clients, Identity, ServerTls, TlsError, Tunnel};
pub use resumption::{
    ACKNOWLEDGEMENT_CHANNEL, Admission, ArrivingLink, ChannelEnds, ChannelImage, Channels, ChannelsImage, DigestImage,
    Doubt, EndsImage, Heard, HistoryDigest, ImageError, LinkImage, LinkState, MAIN_CHANNEL, MOST_IMAGE_BYTES, NotTaken,
    RingsImage, SetUp, TakenLink, Wait, go_on, hold, ring_parts, take_down,
};
pub use secret::{
    Challenge, HostKey, NewToken, NotAKey, NotANumber, Protection, Secret, Secrets, ServerKey, Side, TokenNumber,
    UserKey,
};
pub use spin::{Expected, SPIN_VARIABLE, Spin, processors, sleep_precisely};
pub use transport::Transport;
