//! Methods that an implementation has beyond the exported functions. The surface calls them for hidden tables, at the
//! process's end, and when a call begins and ends. No program can name them.

use floe_abi::{Context, CuResult, CudaError, CudaResult, Device};

/// Questions and news that have no exported function.
pub trait Beyond {
    /// The handle `cuDevicePrimaryCtxRetain` will give for this device. It neither takes a reference nor makes the
    /// context active: the runtime asks at start-up, when nothing may be active yet.
    ///
    /// # Errors
    /// INVALID_DEVICE for a device that does not exist.
    fn primary_context(&self, device: Device) -> CudaResult<Context>;

    /// The process is ending: send what waits to be sent and say goodbye, without waiting long. Called once, after
    /// which every call of the program is answered DEINITIALIZED without reaching the implementation.
    fn exiting(&self) {}

    /// A call of the program's, of the exported function of that name, begins on this thread. Calls may nest.
    fn call_begins(&self, _name: &'static str) {}

    /// The call of this thread that began last is over, with this answer, whatever became of it.
    fn call_ends(&self, _answer: CuResult) {}
}

/// One call of the program, from its beginning until this is dropped.
#[derive(Debug)]
pub struct Call<'a, D: Beyond + ?Sized> {
    driver: &'a D,
    answer: CuResult,
}

impl<'a, D: Beyond + ?Sized> Call<'a, D> {
    /// Begins a call of that function.
    #[inline]
    pub fn begin(driver: &'a D, name: &'static str) -> Self {
        driver.call_begins(name);
        Self { driver, answer: CudaError::UNKNOWN.into() }
    }

    /// The call is over, with this answer.
    #[inline]
    pub fn end(mut self, answer: CuResult) {
        self.answer = answer;
    }
}

impl<D: Beyond + ?Sized> Drop for Call<'_, D> {
    #[inline]
    fn drop(&mut self) {
        self.driver.call_ends(self.answer);
    }
}
