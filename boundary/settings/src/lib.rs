//! The settings of users and operators: one table per program, from which fields, flags, variables, keys and pages
//! come.
//! In: flags, environment, the text of a TOML file. Out: typed values, or the first wrong one, with its origin and the
//! reason.
//! It opens no connection, and it drops no key and no value in silence.
#![forbid(unsafe_code)]

mod device;
mod driver;
mod error;
mod file;
mod given;
pub mod kinds;
mod names;
mod nearest;
mod origin;
mod page;
mod places;
mod rows;
mod source;
mod table;
mod tables;
mod terms;

pub use device::GpuAddress;
pub use driver::{DRIVER_VARIABLES, DriverVariable, is_for_workers};
pub use error::SettingsError;
pub use given::Given;
pub use kinds::{Level, LogFormat, Nccl, Report, Shape};
pub use names::{Unknown, unknown_variables};
pub use origin::Origin;
pub use page::page;
pub use places::{configuration_folder, set_folder, token_file};
pub use source::{ProcessSource, Source};
pub use table::{Setting, Table};
pub use tables::{CLIENT, CPU_DEVICE, ClientSettings, CpuDeviceSettings, SERVER, ServerSettings};
pub use terms::Class;
