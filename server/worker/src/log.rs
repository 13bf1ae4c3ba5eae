//! The worker's own words: lines on the standard error it was started with.
//! In: sentences. Out: lines that begin with the session's number.
//! It never writes to fd 1 or 2, which belong to the kernels' output.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;

/// Where the worker's own lines go; threads share it by cloning.
#[derive(Clone, Debug)]
pub struct Log {
    file: Option<Arc<File>>,
    session: u64,
}

impl Log {
    /// The standard error of this moment.
    ///
    /// # Errors
    /// When it cannot be duplicated.
    pub fn to_standard_error(session: u64) -> io::Result<Self> {
        let file = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Ok(Self { file: Some(Arc::new(file)), session })
    }

    /// Nowhere: for tests.
    #[must_use]
    pub fn nowhere() -> Self {
        Self { file: None, session: 0 }
    }

    /// Writes one line.
    pub fn line(&self, words: fmt::Arguments<'_>) {
        if let Some(file) = &self.file {
            let line = format!("floe-worker: session {}: {words}\n", self.session);
            // There is nowhere left to complain to.
            let _ = (&**file).write_all(line.as_bytes());
        }
    }
}
