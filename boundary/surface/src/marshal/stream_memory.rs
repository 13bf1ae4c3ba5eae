//! Writes of single words and waits for them: each becomes a batch of one. C arguments come in; which words are there is
//! the implementation's to know.

use super::marshallers;
use crate::prelude::*;

fn post<D: crate::Driver>(
    driver: &D,
    stream: Stream,
    operation: u32,
    (address, value): (DevicePtr, u64),
    flags: u32,
) -> CudaResult<()> {
    driver.stream_batch_mem_op(stream, &[StreamMemoryOperation::on_word(operation, address, value, flags)], 0)
}

marshallers! {
    /// `cuStreamWriteValue32`.
    fn cuStreamWriteValue32_v2(
        driver, default_stream: Stream, stream: Stream, address: DevicePtr, value: u32, flags: u32,
    ) {
        let word = (address, u64::from(value));
        post(driver, stream.or(default_stream), stream_memory_operation::WRITE_VALUE_32, word, flags)
    }

    /// `cuStreamWriteValue64`.
    fn cuStreamWriteValue64_v2(
        driver, default_stream: Stream, stream: Stream, address: DevicePtr, value: u64, flags: u32,
    ) {
        let word = (address, value);
        post(driver, stream.or(default_stream), stream_memory_operation::WRITE_VALUE_64, word, flags)
    }

    /// `cuStreamWaitValue32`.
    fn cuStreamWaitValue32_v2(
        driver, default_stream: Stream, stream: Stream, address: DevicePtr, value: u32, flags: u32,
    ) {
        let word = (address, u64::from(value));
        post(driver, stream.or(default_stream), stream_memory_operation::WAIT_VALUE_32, word, flags)
    }

    /// `cuStreamWaitValue64`.
    fn cuStreamWaitValue64_v2(
        driver, default_stream: Stream, stream: Stream, address: DevicePtr, value: u64, flags: u32,
    ) {
        let word = (address, value);
        post(driver, stream.or(default_stream), stream_memory_operation::WAIT_VALUE_64, word, flags)
    }
}
