//! `CUDA_VISIBLE_DEVICES`: which of the wanted vGPUs the program may see, and in which order. The variable's text comes in,
//! a list of picks goes out, cut at the first that means nothing, as CUDA does. Nothing here knows which devices exist.

/// One entry of `CUDA_VISIBLE_DEVICES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VisibleDevice {
    /// By ordinal.
    Index(usize),
    /// By the beginning of the UUID as tools print it, lower case, with `gpu-` before it.
    Uuid(String),
}

/// Which devices the program may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visible {
    /// All: the variable is not set.
    All,
    /// These, in this order.
    Only(Vec<VisibleDevice>),
}

impl Visible {
    /// Reads the variable. CUDA ends the list at the first entry it does not understand, and a list with a repeated entry
    /// shows no device at all.
    pub(super) fn parse(text: Option<&str>) -> Self {
        let Some(text) = text else {
            return Self::All;
        };
        let mut picks = Vec::new();
        for entry in text.split(',').map(str::trim) {
            let pick = if let Ok(index) = entry.parse() {
                VisibleDevice::Index(index)
            } else if entry.len() > 4 && entry.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("gpu-")) {
                VisibleDevice::Uuid(entry.to_ascii_lowercase())
            } else {
                break;
            };
            if picks.contains(&pick) {
                return Self::Only(Vec::new());
            }
            picks.push(pick);
        }
        Self::Only(picks)
    }

    /// Picks from devices given by their UUIDs as tools print them: the ordinals in the program's order.
    pub fn select(&self, uuids: &[String]) -> Vec<usize> {
        let Self::Only(picks) = self else {
            return (0..uuids.len()).collect();
        };
        let mut chosen = Vec::new();
        for pick in picks {
            let found = match pick {
                VisibleDevice::Index(index) => (*index < uuids.len()).then_some(*index),
                VisibleDevice::Uuid(prefix) => {
                    let mut matching =
                        (0..uuids.len()).filter(|index| uuids[*index].to_ascii_lowercase().starts_with(prefix));
                    match (matching.next(), matching.next()) {
                        (Some(index), None) => Some(index),
                        _ => None,
                    }
                }
            };
            match found {
                Some(index) if !chosen.contains(&index) => chosen.push(index),
                _ => break,
            }
        }
        chosen
    }

    /// Whether no device can be visible, so that no server needs to be asked.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Only(picks) if picks.is_empty())
    }

    /// The ordinals, where the picks are all by ordinal, out of `count` devices; `None` where a UUID decides.
    pub fn by_index(&self, count: usize) -> Option<Vec<usize>> {
        match self {
            Self::All => Some((0..count).collect()),
            Self::Only(picks) => {
                let indices: Option<Vec<usize>> = picks
                    .iter()
                    .map(|pick| match pick {
                        VisibleDevice::Index(index) => Some(*index),
                        VisibleDevice::Uuid(_) => None,
                    })
                    .collect();
                indices.map(|list| list.into_iter().take_while(|index| *index < count).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuids() -> Vec<String> {
        ["GPU-aa11", "GPU-bb22", "GPU-bb33"].map(str::to_owned).into()
    }

    fn select(text: &str) -> Vec<usize> {
        Visible::parse(Some(text)).select(&uuids())
    }

    #[test]
    fn unset_shows_all_and_empty_shows_none() {
        assert_eq!(Visible::parse(None).select(&uuids()), [0, 1, 2]);
        assert_eq!(select(""), [0usize; 0]);
        assert!(Visible::parse(Some("-1")).is_none());
    }

    #[test]
    fn order_is_the_programs() {
        assert_eq!(select("2,0"), [2, 0]);
        assert_eq!(Visible::parse(Some("2,0")).by_index(3), Some(vec![2, 0]));
    }

    #[test]
    fn the_list_ends_at_the_first_bad_entry() {
        assert_eq!(select("1,x,0"), [1]);
        assert_eq!(select("1,größe,0"), [1]);
        assert_eq!(select("1,日本語,0"), [1]);
        assert_eq!(select("1,7,0"), [1]);
        assert_eq!(Visible::parse(Some("1,7,0")).by_index(3), Some(vec![1]));
    }

    #[test]
    fn a_repeated_entry_shows_none() {
        assert_eq!(select("1,1"), [0usize; 0]);
    }

    #[test]
    fn a_uuid_prefix_must_be_unique() {
        assert_eq!(select("GPU-AA"), [0]);
        assert_eq!(select("GPU-bb"), [0usize; 0]);
        assert_eq!(Visible::parse(Some("GPU-aa")).by_index(3), None);
    }
}
