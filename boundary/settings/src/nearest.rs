//! The known name that the user may have meant.

/// The known name most similar to this one, if any is similar.
pub(crate) fn nearest(name: &str, known: impl Iterator<Item = String>) -> Option<String> {
    const ALIKE: f64 = 0.7;
    let rated = known.map(|known| (strsim::normalized_damerau_levenshtein(name, &known), known));
    let best = rated.filter(|(likeness, _)| *likeness >= ALIKE).max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.map(|(_, known)| known)
}
