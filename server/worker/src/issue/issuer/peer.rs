//! What other sessions import from this one, and what this one imports from others.

use floe_abi::CudaError;
use floe_device::Device;
use floe_wire::{
    AskPeer, AwaitSignal, CreateSignals, DropSignals, Export, ImportBlock, ImportSignals, PeerRequests, RaiseSignal,
    ReadSignals, RecordSignal, Withdraw,
};

use super::{Answer, Issuer};
use crate::issue::fault::Fault;

impl<D: Device> PeerRequests for Issuer<D> {
    fn export(&mut self, _message: Export<'_>) -> Result<Answer, Fault> {
        Err(CudaError::NOT_SUPPORTED.into())
    }

    fn withdraw(&mut self, _message: Withdraw) -> Result<Answer, Fault> {
        Err(CudaError::NOT_SUPPORTED.into())
    }

    fn import_block(&mut self, _message: ImportBlock<'_>) -> Result<Answer, Fault> {
        Err(CudaError::NOT_SUPPORTED.into())
    }

    fn create_signals(&mut self, _message: CreateSignals) -> Result<Answer, Fault> {
        Err(CudaError::NOT_SUPPORTED.into())
    }

    fn import_signals(&mut self, _message: ImportSignals<'_>) -> Result<Answer, Fault> {
        Err(CudaError::NOT_SUPPORTED.into())
    }

    fn drop_signals(&mut self, _message: DropSignals) -> Result<Answer, Fault> {
        Err(CudaError::NOT_SUPPORTED.into())
    }

    fn raise_signal(&mut self, _message: RaiseSignal) -> Result<Answer, Fault> {
        Err(CudaError::NOT_SUPPORTED.into())
    }

    fn await_signal(&mut self, _message: AwaitSignal) -> Result<Answer, Fault> {
        Err(CudaError::NOT_SUPPORTED.into())
    }

    fn record_signal(&mut self, _message: RecordSignal) -> Result<Answer, Fault> {
        Err(CudaError::NOT_SUPPORTED.into())
    }

    fn read_signals(&mut self, _message: ReadSignals) -> Result<Answer, Fault> {
        Err(CudaError::NOT_SUPPORTED.into())
    }

    fn ask_peer(&mut self, _message: AskPeer) -> Result<Answer, Fault> {
        Err(CudaError::NOT_SUPPORTED.into())
    }
}
