//! NVIDIA's MPS, as far as it concerns processes that floed starts.
//! In: the control daemon's executable; a session's GPU. Out: this process as the control daemon; a process whose end harms no
//! other client.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use floe_device::Device;
use rustix::process::{Signal, set_parent_process_death_signal};

/// Becomes the control daemon, in the foreground, which is killed when the thread ends that started this process.
#[must_use = "it returns only where it fails"]
pub fn become_control(program: &str) -> io::Error {
    match set_parent_process_death_signal(Some(Signal::KILL)) {
        Ok(()) => Command::new(program).arg("-f").exec(),
        Err(error) => error.into(),
    }
}

/// Waits for a session's last work: where a client of MPS ends with work in flight, others may end with it. Who does not wait as
/// long has MPS end the work, and kills this process.
pub fn drain(gpu: &impl Device) {
    // A context that has failed has no work.
    let _ = gpu.enter().and_then(|()| gpu.ctx_synchronize());
}
