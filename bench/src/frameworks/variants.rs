//! The files of checks and the environments each asks for. A folder comes in, runs to make go out; it starts nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// One file with one setting of the environment.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    /// `torch_memory`, `torch_memory [PYTORCH_CUDA_ALLOC_CONF=…]`
    pub(crate) title: String,
    /// The file.
    pub(crate) source: PathBuf,
    /// Set for this run.
    pub(crate) environment: Vec<(String, String)>,
    /// It takes the whole device's memory, or measures it.
    pub(crate) alone: bool,
    /// It uses several GPUs: two, or natively one where there is no other.
    pub(crate) every_gpu: bool,
}

/// The files that were asked for, each as often as it names settings.
///
/// # Errors
/// When a name is no file's, or the folder cannot be read.
pub(crate) fn chosen(folder: &Path, only: &[String]) -> Result<Vec<Variant>> {
    let mut sources = sources_in(folder, "py")?;
    sources.retain(|source| !source.ends_with("checking.py"));
    sources.extend(sources_in(&folder.join("libraries"), "cu")?);
    let named = |source: &Path, name: &str| source.file_stem().is_some_and(|stem| stem == name);
    if let Some(unknown) = only.iter().find(|name| !sources.iter().any(|source| named(source, name))) {
        bail!("there is no such file of checks: {unknown}");
    }
    let mut variants = Vec::new();
    for source in sources.into_iter().filter(|source| only.is_empty() || only.iter().any(|name| named(source, name))) {
        let text = std::fs::read_to_string(&source).with_context(|| format!("cannot read: {}", source.display()))?;
        let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for environment in settings(&text) {
            let words: Vec<String> = environment.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            let title = format!("{stem}{}", words.concat());
            let (source, says) = (source.clone(), |line| says(&text, line));
            let (alone, every_gpu) = (says("# run alone"), says("# every gpu"));
            variants.push(Variant { title, source, environment, alone, every_gpu });
        }
    }
    Ok(variants)
}

fn sources_in(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read: {}", folder.display()))?;
    let mut sources: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sources.retain(|source| source.extension().is_some_and(|found| found == ending));
    sources.sort();
    Ok(sources)
}

/// The environments a file asks for by lines `# run with: NAME=VALUE …`; the plain one when it asks for none.
fn settings(text: &str) -> Vec<Vec<(String, String)>> {
    let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let lines = text.lines().filter_map(|line| line.strip_prefix("# run with:"));
    let found: Vec<_> = lines.map(|line| line.split_whitespace().filter_map(pair).collect()).collect();
    if found.is_empty() { vec![Vec::new()] } else { found }
}

/// Whether a file has this line.
fn says(text: &str, wanted: &str) -> bool {
    text.lines().any(|line| line == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_runs_once_per_setting_it_names() {
        let found = settings("\"\"\"Text.\"\"\"\n# run with:\n# run with: A=1 B=x:y=z\n");
        assert_eq!(found, [vec![], vec![("A".into(), "1".into()), ("B".into(), "x:y=z".into())]]);
        assert_eq!(settings("import x"), [vec![]]);
    }

    #[test]
    fn a_file_asks_by_a_line_of_its_own() {
        assert!(says("\"\"\"Text.\"\"\"\n# run alone\n", "# run alone"));
        assert!(!says("x = 1  # run alone", "# run alone"));
    }
}
