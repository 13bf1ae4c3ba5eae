//! placeholder until floe-image stands
/// A module image.
pub struct Image<'a>(std::marker::PhantomData<&'a [u8]>);
