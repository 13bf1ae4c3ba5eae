//! A kernel launch as implementations see it: function, geometry, attributes, and parameters that are still where the
//! program put them. C's arrays of pointers come in, one contiguous parameter block goes out. Nothing here knows a
//! kernel's layout; the implementation gives it.

use floe_abi::{
    CudaError, CudaResult, Function, LAUNCH_PARAM_BUFFER_POINTER, LAUNCH_PARAM_BUFFER_SIZE, LAUNCH_PARAM_END,
    LaunchAttribute, Stream, launch_attribute,
};
use std::ffi::c_void;

/// One launch.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The function; may be a kernel's handle.
    pub function: Function,
    /// Blocks per axis.
    pub grid: [u32; 3],
    /// Threads per axis.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes per block.
    pub shared_bytes: u32,
    /// The stream that it is queued in.
    pub stream: Stream,
    /// Blocks of the grid may wait for one another.
    pub cooperative: bool,
    /// All attributes the program gave, the cooperative one included.
    pub attributes: &'a [LaunchAttribute],
    /// The parameters.
    pub arguments: KernelArguments,
}

impl<'a> Launch<'a> {
    /// The same launch with the attributes' say on `cooperative`.
    #[must_use]
    pub fn with_attributes(mut self, attributes: &'a [LaunchAttribute]) -> Self {
        self.attributes = attributes;
        self.cooperative |= attributes
            .iter()
            .any(|attribute| attribute.id == launch_attribute::COOPERATIVE && attribute.value.as_u32() != 0);
        self
    }
}

/// Parameter blocks up to this many bytes, as most are, need no allocation.
const NEAR_BYTES: usize = 256;

/// Room for one packed parameter block.
#[derive(Debug)]
pub struct ParameterRoom {
    near: [u8; NEAR_BYTES],
    far: Vec<u8>,
}

impl ParameterRoom {
    /// Fresh room, for one launch.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self { near: [0; NEAR_BYTES], far: Vec::new() }
    }

    /// So many bytes, all zero.
    #[inline]
    fn zeros(&mut self, length: usize) -> &mut [u8] {
        if length > NEAR_BYTES {
            self.far = vec![0; length];
            return &mut self.far;
        }
        &mut self.near[..length]
    }
}

impl Default for ParameterRoom {
    fn default() -> Self {
        Self::new()
    }
}

/// The place of one parameter in a kernel's parameter block, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterLayout {
    /// From the block's start.
    pub offset: usize,
    /// Its length.
    pub size: usize,
}

/// The places of all parameters of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLayout {
    parameters: Vec<ParameterLayout>,
    /// Bytes of the block, asked for at every launch; the error every launch gets where there can be no such block.
    length: CudaResult<usize>,
}

impl KernelLayout {
    /// The layout with these parameters, in their order.
    #[must_use]
    pub fn new(parameters: Vec<ParameterLayout>) -> Self {
        let length = block_length(&parameters);
        Self { parameters, length }
    }

    /// Each parameter.
    #[must_use]
    pub fn parameters(&self) -> &[ParameterLayout] {
        &self.parameters
    }
}

/// A launch's parameters, still in the program's memory. Valid during the call it came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelArguments {
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    None,
    /// An array with the address of each parameter.
    Pointers(u64),
    /// All parameters at an address, with their size.
    Block(u64, usize),
}

/// No kernel's parameters are longer (32,764 bytes since CUDA 12.1); what claims to be is not read.
const LONGEST_BLOCK: usize = 32_764;
/// Words of `extra` before its end must have come: two pairs and the end.
const LONGEST_EXTRA: usize = 5;

impl KernelArguments {
    /// No parameters.
    pub const NONE: Self = Self { form: Form::None };

    /// The parameters of `cuLaunchKernel`: an array of pointers, or the `extra` list.
    ///
    /// # Errors
    /// INVALID_VALUE where both are given or `extra` is not a list the driver knows.
    ///
    /// # Safety
    /// The program's contract, until the call returns: `extra` is NULL, or its entries are valid and it ends with
    /// `CU_LAUNCH_PARAM_END`. `parameters` is NULL, or has a valid pointer for each parameter of the function.
    pub unsafe fn new(parameters: *mut *mut c_void, extra: *mut *mut c_void) -> CudaResult<Self> {
        if extra.is_null() {
            let form = if parameters.is_null() { Form::None } else { Form::Pointers(parameters as u64) };
            return Ok(Self { form });
        }
        if !parameters.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: our caller vouches for `extra`.
        unsafe { Self::from_extra(extra) }
    }

    /// # Safety
    /// As [`KernelArguments::new`].
    unsafe fn from_extra(extra: *mut *mut c_void) -> CudaResult<Self> {
        let (mut block, mut size, mut at) = (0, 0, 0);
        while at < LONGEST_EXTRA {
            // SAFETY: the list has not ended yet, so this word is part of it.
            let key = unsafe { *extra.add(at) } as u64;
            if key == LAUNCH_PARAM_END {
                let form = if size == 0 { Form::None } else { Form::Block(block, size) };
                return if size != 0 && block == 0 { Err(CudaError::INVALID_VALUE) } else { Ok(Self { form }) };
            }
            // SAFETY: a key that is not the end is followed by its value.
            let value = unsafe { *extra.add(at + 1) };
            match key {
                LAUNCH_PARAM_BUFFER_POINTER => block = value as u64,
                // SAFETY: the value of this key is the address of a size.
                LAUNCH_PARAM_BUFFER_SIZE if !value.is_null() => size = unsafe { value.cast::<usize>().read() },
                _ => return Err(CudaError::INVALID_VALUE),
            }
            at += 2;
        }
        Err(CudaError::INVALID_VALUE)
    }

    /// The parameter block: every parameter at its offset, zeros between.
    ///
    /// # Errors
    /// INVALID_VALUE where parameters are missing or the layout is longer than any kernel's,
    /// LAUNCH_OUT_OF_RESOURCES where a block is longer than the layout, INVALID_VALUE where it is empty and that is not.
    pub fn pack(&self, layout: &[ParameterLayout]) -> CudaResult<Vec<u8>> {
        let mut bytes = vec![0; block_length(layout)?];
        self.copy_to(&mut bytes, layout)?;
        Ok(bytes)
    }

    /// As `pack`, into fresh room, without an allocation where the block is as short as most are.
    ///
    /// # Errors
    /// As `pack`.
    pub fn pack_in_place<'r>(&self, layout: &KernelLayout, room: &'r mut ParameterRoom) -> CudaResult<&'r [u8]> {
        let bytes = room.zeros(layout.length?);
        self.copy_to(bytes, &layout.parameters)?;
        Ok(bytes)
    }

    /// Copies the parameters into a block of the layout's length.
    fn copy_to(&self, bytes: &mut [u8], layout: &[ParameterLayout]) -> CudaResult<()> {
        match self.form {
            Form::None if bytes.is_empty() => Ok(()),
            Form::None => Err(CudaError::INVALID_VALUE),
            Form::Block(address, size) => copy_block(address, size, bytes),
            Form::Pointers(array) => copy_each(array, layout, bytes),
        }
    }
}

fn block_length(layout: &[ParameterLayout]) -> CudaResult<usize> {
    let mut length = 0;
    for parameter in layout {
        let end = parameter.offset.checked_add(parameter.size).ok_or(CudaError::INVALID_VALUE)?;
        length = length.max(end);
    }
    if length > LONGEST_BLOCK { Err(CudaError::INVALID_VALUE) } else { Ok(length) }
}

/// A block may be shorter than the layout, as NCCL's are: what it does not say is 0 here, and anything on a GPU. The codes are
/// what the driver of an H100 (580.159) answers.
fn copy_block(address: u64, size: usize, bytes: &mut [u8]) -> CudaResult<()> {
    if size > bytes.len() {
        return Err(CudaError::LAUNCH_OUT_OF_RESOURCES);
    }
    if size == 0 && !bytes.is_empty() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: `new`'s caller vouched for `size` bytes there until the call returns, and `bytes` are as many or more.
    unsafe { std::ptr::copy(address as *const u8, bytes.as_mut_ptr(), size) };
    Ok(())
}

fn copy_each(array: u64, layout: &[ParameterLayout], bytes: &mut [u8]) -> CudaResult<()> {
    for (index, parameter) in layout.iter().enumerate() {
        // SAFETY: `new`'s caller vouched for a pointer per parameter of the function.
        let source = unsafe { (array as *const *const u8).add(index).read() };
        let target = bytes.get_mut(parameter.offset..).and_then(|rest| rest.get_mut(..parameter.size));
        let Some(target) = target.filter(|_| !source.is_null()) else { return Err(CudaError::INVALID_VALUE) };
        // SAFETY: the program's contract is that each pointer leads to a value of its parameter's size.
        unsafe { copy_value(source, target) };
    }
    Ok(())
}

/// Fills `target` from `source`. Almost every parameter is a pointer or a number, which is one load and one store.
///
/// # Safety
/// `source` has as many bytes.
#[inline]
unsafe fn copy_value(source: *const u8, target: &mut [u8]) {
    let to = target.as_mut_ptr();
    match target.len() {
        // SAFETY: our caller vouches for so many bytes at `source`, and the slice has as many.
        8 => unsafe { std::ptr::copy(source, to, 8) },
        // SAFETY: as above.
        4 => unsafe { std::ptr::copy(source, to, 4) },
        // SAFETY: as above.
        length => unsafe { std::ptr::copy(source, to, length) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: [ParameterLayout; 2] =
        [ParameterLayout { offset: 0, size: 4 }, ParameterLayout { offset: 8, size: 8 }];

    #[test]
    fn pointers_are_packed_at_their_offsets() {
        let (mut first, mut second) = (7_u32, 9_u64);
        let mut array = [std::ptr::from_mut(&mut first).cast::<c_void>(), std::ptr::from_mut(&mut second).cast()];
        // SAFETY: both pointers are valid for their parameters.
        let arguments = unsafe { KernelArguments::new(array.as_mut_ptr(), std::ptr::null_mut()) }.expect("valid");
        assert_eq!(arguments.pack(&LAYOUT).expect("packs"), [7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_block_may_be_short_but_neither_long_nor_empty() {
        let (mut block, mut size) = ([1_u8; 16], 16_usize);
        let mut extra = [
            LAUNCH_PARAM_BUFFER_POINTER as *mut c_void,
            block.as_mut_ptr().cast(),
            LAUNCH_PARAM_BUFFER_SIZE as *mut c_void,
            std::ptr::from_mut(&mut size).cast(),
            std::ptr::null_mut(),
        ];
        // SAFETY: the list is well formed.
        let arguments = unsafe { KernelArguments::new(std::ptr::null_mut(), extra.as_mut_ptr()) }.expect("valid");
        assert_eq!(arguments.pack(&LAYOUT).expect("packs"), [1; 16]);
        let of = |size| [ParameterLayout { offset: 0, size }];
        assert_eq!(arguments.pack(&of(15)), Err(CudaError::LAUNCH_OUT_OF_RESOURCES));
        let short = arguments.pack(&of(20)).expect("packs");
        assert_eq!((&short[..16], &short[16..]), (&[1; 16][..], &[0; 4][..]));
        let mut none = 0_usize;
        extra[3] = std::ptr::from_mut(&mut none).cast();
        // SAFETY: the list is well formed.
        let empty = unsafe { KernelArguments::new(std::ptr::null_mut(), extra.as_mut_ptr()) }.expect("valid");
        assert_eq!(empty.pack(&of(4)), Err(CudaError::INVALID_VALUE));
        assert_eq!(empty.pack(&[]).expect("packs"), []);
    }

    #[test]
    fn block_of_any_length_is_packed_in_place_as_it_is_elsewhere() {
        for length in [0, 1, NEAR_BYTES, NEAR_BYTES + 1, LONGEST_BLOCK] {
            let values: Vec<u8> = (0..length).map(|at| at.to_le_bytes()[0]).collect();
            let layout: Vec<_> = [(0, length / 2), (length / 2, length - length / 2)]
                .map(|(offset, size)| ParameterLayout { offset, size })
                .to_vec();
            let mut array = layout.iter().map(|it| values[it.offset..].as_ptr() as *mut c_void).collect::<Vec<_>>();
            // SAFETY: both pointers are valid for their parameters.
            let arguments = unsafe { KernelArguments::new(array.as_mut_ptr(), std::ptr::null_mut()) }.expect("valid");
            assert_eq!(arguments.pack(&layout).as_ref(), Ok(&values));
            let mut room = ParameterRoom::new();
            let packed = arguments.pack_in_place(&KernelLayout::new(layout), &mut room).expect("packs");
            assert_eq!(packed, values);
            assert_eq!(room.far.len(), if length > NEAR_BYTES { length } else { 0 });
        }
    }

    #[test]
    fn layout_no_kernel_can_have_is_refused_at_the_launch() {
        for (offset, size) in [(LONGEST_BLOCK, 1), (usize::MAX, 8)] {
            let layout = KernelLayout::new(vec![ParameterLayout { offset, size }]);
            let mut room = ParameterRoom::new();
            assert_eq!(KernelArguments::NONE.pack_in_place(&layout, &mut room), Err(CudaError::INVALID_VALUE));
        }
    }

    #[test]
    fn unknown_extra_key_both_forms_and_missing_parameters_are_refused() {
        let mut extra = [9 as *mut c_void, std::ptr::null_mut(), std::ptr::null_mut()];
        // SAFETY: the list is well formed but for the key.
        let unknown = unsafe { KernelArguments::new(std::ptr::null_mut(), extra.as_mut_ptr()) };
        assert_eq!(unknown, Err(CudaError::INVALID_VALUE));
        let mut array = [std::ptr::null_mut::<c_void>(); 2];
        // SAFETY: as above.
        let both = unsafe { KernelArguments::new(array.as_mut_ptr(), extra.as_mut_ptr()) };
        assert_eq!(both, Err(CudaError::INVALID_VALUE));
        // SAFETY: NULL entries are checked before they are read.
        let nulls = unsafe { KernelArguments::new(array.as_mut_ptr(), std::ptr::null_mut()) }.expect("an array");
        assert_eq!(nulls.pack(&LAYOUT), Err(CudaError::INVALID_VALUE));
        assert_eq!(KernelArguments::NONE.pack(&LAYOUT), Err(CudaError::INVALID_VALUE));
        assert_eq!(KernelArguments::NONE.pack(&[]), Ok(Vec::new()));
    }
}
