//! The parts of divided GPUs (MIG), which CUDA shows a process one at most.
//! In: NVIDIA's management library, and the operator's `CUDA_VISIBLE_DEVICES`. Out: what each process is to be shown alone,
//! in order, or nothing where no GPU that is shown is divided. It divides no GPU.

use nvml_wrapper::{Device, Nvml};

use crate::nvml::open_nvml;

/// A GPU as the management library lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Whole {
    /// `GPU-…`
    uuid: String,
    /// `MIG-…` of each instance. `None`: the GPU is not divided.
    instances: Option<Vec<String>>,
}

/// The instances and whole GPUs that are offered one by one, each as `CUDA_VISIBLE_DEVICES` names it. Empty: there is no
/// instance among them, or nobody can say.
#[must_use]
pub fn shown_alone(visible: Option<&str>) -> Vec<String> {
    // A machine without the library has no instances that its driver could be asked for.
    let Ok(nvml) = open_nvml(None) else { return Vec::new() };
    chosen(&listed(&nvml), visible)
}

fn listed(nvml: &Nvml) -> Vec<Whole> {
    let count = nvml.device_count().unwrap_or(0);
    let whole = |index| {
        let device = nvml.device_by_index(index).ok()?;
        Some(Whole { uuid: device.uuid().ok()?, instances: is_divided(&device).then(|| instances(&device)) })
    };
    // The place of one that cannot be asked counts: indices are those of the library.
    (0..count).map(|index| whole(index).unwrap_or_default()).collect()
}

/// Whether its MIG mode is on. Where the mode is another after a reset, this one still counts.
fn is_divided(device: &Device<'_>) -> bool {
    device.mig_mode().is_ok_and(|mode| mode.current != 0)
}

fn instances(device: &Device<'_>) -> Vec<String> {
    let most = device.mig_device_count().unwrap_or(0);
    // Places without an instance are errors.
    (0..most).filter_map(|index| device.mig_device_by_index(index).ok()?.uuid().ok()).collect()
}

/// What the operator has chosen, as CUDA reads the variable: up to the first entry that names nothing. A divided GPU stands for
/// its instances.
fn chosen(wholes: &[Whole], visible: Option<&str>) -> Vec<String> {
    let of = |whole: &Whole| whole.instances.clone().unwrap_or_else(|| vec![whole.uuid.clone()]);
    let is_known = |whole: &&Whole| !whole.uuid.is_empty();
    let units: Vec<String> = match visible {
        None => wholes.iter().filter(is_known).flat_map(of).collect(),
        Some(visible) => {
            let named = |entry: &str| -> Option<Vec<String>> {
                let instances = || wholes.iter().flat_map(|whole| whole.instances.iter().flatten());
                if entry.starts_with("MIG-") {
                    return instances().find(|instance| *instance == entry).map(|instance| vec![instance.clone()]);
                }
                let whole = match entry.parse::<usize>() {
                    Ok(index) => wholes.get(index).filter(is_known),
                    // Of an id, as many characters as no other GPU's begins with.
                    Err(_) => only(wholes.iter().filter(|whole| entry.len() > 4 && whole.uuid.starts_with(entry))),
                };
                whole.map(of)
            };
            visible.split(',').map(str::trim).map_while(named).flatten().collect()
        }
    };
    let mut once: Vec<String> = Vec::new();
    for unit in units {
        if !once.contains(&unit) {
            once.push(unit);
        }
    }
    if once.iter().any(|unit| unit.starts_with("MIG-")) { once } else { Vec::new() }
}

fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(uuid: &str, instances: &[&str]) -> Whole {
        Whole { uuid: uuid.into(), instances: Some(instances.iter().map(|&instance| instance.into()).collect()) }
    }

    fn machine() -> [Whole; 3] {
        let whole = Whole { uuid: "GPU-b0".into(), instances: None };
        [divided("GPU-a0", &["MIG-1", "MIG-2"]), whole, divided("GPU-c0", &[])]
    }

    #[test]
    fn without_a_choice_all_instances_and_whole_gpus_are_offered_in_order() {
        assert_eq!(chosen(&machine(), None), ["MIG-1", "MIG-2", "GPU-b0"]);
    }

    #[test]
    fn a_choice_restricts_and_orders_and_ends_at_what_names_nothing() {
        let choose = |visible| chosen(&machine(), Some(visible)).join(" ");
        assert_eq!(choose("MIG-2"), "MIG-2");
        assert_eq!(choose("GPU-b0, MIG-2,MIG-1,MIG-2"), "GPU-b0 MIG-2 MIG-1");
        assert_eq!(choose("0"), "MIG-1 MIG-2");
        assert_eq!(choose("GPU-a"), "MIG-1 MIG-2");
        assert_eq!(choose("MIG-1,MIG-9,MIG-2"), "MIG-1");
        assert_eq!(choose("MIG-1,7,MIG-2"), "MIG-1");
    }

    #[test]
    fn a_beginning_that_two_gpus_have_names_neither() {
        let machine = [divided("GPU-a0", &["MIG-1"]), divided("GPU-a1", &["MIG-2"])];
        let choose = |visible| chosen(&machine, Some(visible)).join(" ");
        assert_eq!(["GPU-a", "MIG-2,GPU-a", "GPU-a1,GPU-a0"].map(choose), ["", "MIG-2", "MIG-2 MIG-1"]);
    }

    #[test]
    fn without_an_instance_among_them_nothing_is_shown_alone() {
        for visible in ["GPU-b0", "1", "2", "", "-1", "MIG-9", "GPU-", "MIG-GPU-a0/1/0"] {
            assert_eq!(chosen(&machine(), Some(visible)), Vec::<String>::new(), "{visible}");
        }
        assert_eq!(chosen(&machine()[1..], None), Vec::<String>::new());
        let unknown = [Whole::default(), divided("GPU-a0", &["MIG-1"])];
        assert_eq!(
            (chosen(&unknown, None), chosen(&unknown, Some("1,0"))),
            (vec!["MIG-1".into()], vec!["MIG-1".into()])
        );
    }
}
