//! A context that stays when it is reset, since its process cannot make another.
//! In: the context as it began. Out: the same limits again. Whoever resets has ended everything that was in it.

use floe_abi::{CudaResult, limit};

use crate::Driver;

/// What begins with a value of the driver's and can be set.
const LIMITS: [u32; 3] = [limit::STACK_SIZE, limit::PRINTF_FIFO_SIZE, limit::MALLOC_HEAP_SIZE];

/// The limits that it began with.
#[derive(Debug)]
pub(super) struct Kept(Vec<(u32, usize)>);

impl Kept {
    /// The current context's.
    pub(super) fn of(driver: &Driver) -> CudaResult<Self> {
        LIMITS
            .into_iter()
            .map(|number| Ok((number, driver.ctx_get_limit(number)?)))
            .collect::<CudaResult<_>>()
            .map(Self)
    }

    /// Gives the current context what it began with. One that has failed does not come back.
    pub(super) fn reset(&self, driver: &Driver) -> CudaResult<()> {
        driver.ctx_synchronize()?;
        for (number, value) in &self.0 {
            // The heap's size stays once a kernel has used the heap.
            let _ = driver.ctx_set_limit(*number, *value);
        }
        Ok(())
    }
}
