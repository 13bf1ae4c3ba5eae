//! A kernel launch as implementations see it: function, geometry, attributes, and parameters that are still where the
//! program put them. C's arrays of pointers come in, one contiguous parameter block goes out. Nothing here knows a
//! kernel's layout; the implementation tells it.

use floe_abi::{
    CudaError, CudaResult, Function, LAUNCH_PARAM_BUFFER_POINTER, LAUNCH_PARAM_BUFFER_SIZE, LAUNCH_PARAM_END,
    LaunchAttribute, Stream, launch_attribute,
};
use smallvec::SmallVec;
use std::ffi::c_void;

/// One launch.
#[derive(Debug)]
pub struct Launch<'a> {
    /// What runs; may be a kernel's handle.
    pub function: Function,
    /// Blocks per axis.
    pub grid: [u32; 3],
    /// Threads per axis.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes per block.
    pub shared_bytes: u32,
    /// Where it is queued.
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

/// A packed parameter block; one of up to 256 bytes lies where it is made.
pub type ParameterBlock = SmallVec<[u8; 256]>;

/// Where one parameter lies in a kernel's parameter block, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterLayout {
    /// From the block's start.
    pub offset: usize,
    /// How long.
    pub size: usize,
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

    /// What `cuLaunchKernel` was given: an array of pointers, or the `extra` list.
    ///
    /// # Errors
    /// INVALID_VALUE where both are given or `extra` is not a list the driver knows.
    ///
    /// # Safety
    /// The program's contract: `extra` is NULL or ends with `CU_LAUNCH_PARAM_END` and its entries are valid;
    /// `parameters` is NULL or has a valid pointer for each parameter of the function, all until the call returns.
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
    /// LAUNCH_OUT_OF_RESOURCES where a block has another size than the layout.
    pub fn pack(&self, layout: &[ParameterLayout]) -> CudaResult<Vec<u8>> {
        self.pack_in_place(layout).map(ParameterBlock::into_vec)
    }

    /// As `pack`, without an allocation where the block is as short as most are.
    ///
    /// # Errors
    /// As `pack`.
    pub fn pack_in_place(&self, layout: &[ParameterLayout]) -> CudaResult<ParameterBlock> {
        let length = block_length(layout)?;
        match self.form {
            Form::None if length == 0 => Ok(ParameterBlock::new()),
            Form::None => Err(CudaError::INVALID_VALUE),
            Form::Block(address, size) => copy_block(address, size, length),
            Form::Pointers(array) => copy_each(array, layout, length),
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

/// A block has exactly the layout's size: for any other an H200's driver answers LAUNCH_OUT_OF_RESOURCES.
fn copy_block(address: u64, size: usize, length: usize) -> CudaResult<ParameterBlock> {
    if size != length {
        return Err(CudaError::LAUNCH_OUT_OF_RESOURCES);
    }
    let mut bytes = ParameterBlock::from_elem(0, length);
    // SAFETY: `new`'s caller vouched for `size` bytes there until the call returns, and `length` is as many.
    unsafe { std::ptr::copy(address as *const u8, bytes.as_mut_ptr(), length) };
    Ok(bytes)
}

fn copy_each(array: u64, layout: &[ParameterLayout], length: usize) -> CudaResult<ParameterBlock> {
    let mut bytes = ParameterBlock::from_elem(0, length);
    for (index, parameter) in layout.iter().enumerate() {
        // SAFETY: `new`'s caller vouched for a pointer per parameter of the function.
        let source = unsafe { (array as *const *const u8).add(index).read() };
        if source.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        let target = &mut bytes[parameter.offset..parameter.offset + parameter.size];
        // SAFETY: the program's contract is that each pointer leads to a value of its parameter's size.
        unsafe { std::ptr::copy(source, target.as_mut_ptr(), parameter.size) };
    }
    Ok(bytes)
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
    fn extra_block_is_taken_as_it_is_and_another_size_refused() {
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
        assert!(!arguments.pack_in_place(&LAYOUT).expect("packs").spilled());
        for size in [15, 17] {
            let other = [ParameterLayout { offset: 0, size }];
            assert_eq!(arguments.pack(&other), Err(CudaError::LAUNCH_OUT_OF_RESOURCES));
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
