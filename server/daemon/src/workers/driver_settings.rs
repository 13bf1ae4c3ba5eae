//! The program's variables for its worker's driver.
//! In: variables from a client. Out: the worker's variables, or the first that is not a valid one.
//! They change how the driver works, not what it may touch. All others are dropped.

use floe_settings::is_for_workers;
use floe_wire::{Setting, printable};

/// No process can start with such a variable.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a variable has a zero byte, or an equals sign in its name: {0}")]
pub(crate) struct NoVariable(String);

/// The settings that a worker gets, each a name and a value.
pub(crate) fn of(settings: &[Setting<'_>]) -> Result<Vec<(String, String)>, NoVariable> {
    let is_none = |setting: &&Setting<'_>| setting.name.contains(['=', '\0']) || setting.value.contains('\0');
    if let Some(setting) = settings.iter().find(is_none) {
        return Err(NoVariable(printable(setting.name)));
    }
    let its = settings.iter().filter(|setting| is_for_workers(setting.name));
    Ok(its.map(|setting| (setting.name.to_owned(), setting.value.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_gets_the_drivers_variables_and_no_others() {
        let settings = [("CUDA_MODULE_LOADING", "EAGER"), ("CUDA_CACHE_DISABLE", "0"), ("LD_PRELOAD", "x")];
        let settings = settings.map(|(name, value)| Setting { name, value });
        assert_eq!(of(&settings), Ok(vec![("CUDA_MODULE_LOADING".into(), "EAGER".into())]));
    }

    #[test]
    fn what_no_process_can_be_started_with_is_refused_by_name() {
        for (name, value) in [("CUDA_MODULE_LOADING", "a\0b"), ("CUDA\0", "1"), ("A=B", "1")] {
            let refused = of(&[Setting { name, value }]).expect_err("no variable").to_string();
            assert!(refused.ends_with(&printable(name)), "{refused}");
        }
    }
}
