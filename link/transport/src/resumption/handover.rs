//! What a link remembers, taken out of one process and put into another.
//! In: a link whose readers have stopped and on which nobody sends. Out: a value with its own bytes, and the link that
//! continues from it elsewhere. The peer notices nothing but a pause, or a connection that broke.
//!
//! The session's old process keeps everything it had, so taking down can be undone until the new process begins.

mod arriving;
mod encoding;
mod image;
mod leaving;

pub use arriving::{ArrivingLink, SetUp};
pub use encoding::ImageError;
pub use image::{ChannelImage, ChannelsImage, EndsImage, LinkImage, MOST_IMAGE_BYTES, RingsImage};
pub use leaving::{ChannelEnds, NotTaken, TakenLink, go_on, hold, ring_parts, take_down};
