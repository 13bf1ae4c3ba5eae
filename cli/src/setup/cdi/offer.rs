//! Offers: so many vGPUs, each with so much memory, as one device of containers.
//! In: `2x8G`, and the GPUs that containers may get. Out: the device's name, and the place of each vGPU. It asks nobody.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};

use crate::servers::size;

/// The least memory of a vGPU: `2x8` is meant as `2x8G`.
const LEAST_MEMORY: u64 = 1 << 20;
/// The most vGPUs on one GPU: each has a slot of its own on the PCI bus, by which programs tell devices apart.
const MOST_ON_A_GPU: u64 = 32;
/// The form of an offer, for errors.
const FORM: &str = "write 2x8G for two vGPUs with 8 GiB each";

/// A GPU that containers may get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gpu {
    /// `HOST:GPU`.
    pub(super) place: String,
    /// Its memory in bytes, where its server was asked.
    pub(super) memory: Option<u64>,
}

/// vGPUs that a container gets together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    /// The device's name: the offer as it was written.
    pub(super) name: String,
    /// The memory of each vGPU as it was written, which is how settings have it, too.
    pub(super) memory: String,
    count: u64,
    /// The same in bytes.
    bytes: u64,
}

impl Offer {
    /// Reads offers. No two mean the same.
    pub(super) fn read_all(texts: &[String]) -> Result<Vec<Self>> {
        let mut offers: Vec<Self> = Vec::new();
        for text in texts {
            let offer = Self::read(text)?;
            if let Some(same) = offers.iter().find(|other| (other.count, other.bytes) == (offer.count, offer.bytes)) {
                bail!("--offer: the same twice: {}, {text}\n  leave one of them out", same.name);
            }
            offers.push(offer);
        }
        Ok(offers)
    }

    fn read(text: &str) -> Result<Self> {
        // A name of the specification is made of letters and digits, of which an offer needs no others.
        let is_name = text.bytes().all(|one| one.is_ascii_alphanumeric());
        let Some((count, memory)) = text.split_once('x').filter(|_| is_name) else {
            bail!("--offer: not a number of vGPUs and their memory: {text}\n  {FORM}");
        };
        let Some(count) = count.parse().ok().filter(|count| *count > 0) else {
            bail!("--offer: not a number of vGPUs from 1 on: {text}\n  {FORM}");
        };
        let Some(bytes) = floe_size::bytes(memory) else {
            bail!("--offer: not a size: {text}\n  {FORM}");
        };
        ensure!(bytes >= LEAST_MEMORY, "--offer: less memory than 1 MiB: {text}\n  {FORM}");
        Ok(Self { name: text.to_owned(), memory: memory.to_owned(), count, bytes })
    }

    /// The GPU of each vGPU: the first has the first GPU of the list, the next one the next. After the last GPU comes the first
    /// again, so no GPU has two more than another.
    pub(super) fn places<'a>(&self, gpus: &'a [Gpu]) -> Result<Vec<&'a str>> {
        ensure!(!gpus.is_empty(), "--offer: no GPU for it: {}\n  name GPUs with --on", self.name);
        // Before a list of them is made.
        let most = MOST_ON_A_GPU.saturating_mul(gpus.len() as u64);
        ensure!(
            self.count <= most,
            "--offer: more vGPUs than {} GPUs can be: {}\n  offer at most {most}",
            gpus.len(),
            self.name
        );
        let chosen = gpus.iter().cycle().zip(0..self.count).map(|(gpu, _)| gpu);
        let mut counts: BTreeMap<&str, (u64, Option<u64>)> = BTreeMap::new();
        for gpu in chosen.clone() {
            counts.entry(&gpu.place).or_insert((0, gpu.memory)).0 += 1;
        }
        for (place, (count, memory)) in counts {
            self.fits(place, count, memory)?;
        }
        Ok(chosen.map(|gpu| &*gpu.place).collect())
    }

    /// Whether a GPU can be so many of the offer's vGPUs.
    fn fits(&self, place: &str, count: u64, memory: Option<u64>) -> Result<()> {
        let name = &self.name;
        ensure!(
            count <= MOST_ON_A_GPU,
            "--offer: {count} vGPUs on one GPU, {place}: {name}\n  offer at most {MOST_ON_A_GPU} for each GPU"
        );
        if let Some(memory) = memory.filter(|memory| self.bytes.saturating_mul(count) > *memory) {
            let (whole, each) = (size(memory), size(self.bytes));
            bail!(
                "--offer: more memory than {place} has, which is {whole}: {count} of {name} on it, {each} each\n  \
                 offer less, or name more GPUs with --on"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Vec<Offer>, String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Offer::read_all(&texts).map_err(|error| error.to_string())
    }

    fn gpus(all: &[(&str, Option<u64>)]) -> Vec<Gpu> {
        all.iter().map(|(place, memory)| Gpu { place: (*place).to_owned(), memory: *memory }).collect()
    }

    fn places(offer: &str, gpus: &[Gpu]) -> Result<String, String> {
        let offers = read(&[offer])?;
        offers[0].places(gpus).map(|places| places.join(" ")).map_err(|error| error.to_string())
    }

    #[test]
    fn an_offer_is_a_count_and_a_size() {
        let offers = read(&["2x8G", "1x512M", "16x1GiB"]).expect("read");
        let of = |offer: &Offer| (offer.name.clone(), offer.count, offer.bytes, offer.memory.clone());
        assert_eq!(of(&offers[0]), ("2x8G".to_owned(), 2, 8 << 30, "8G".to_owned()));
        assert_eq!(of(&offers[1]), ("1x512M".to_owned(), 1, 512 << 20, "512M".to_owned()));
        assert_eq!(of(&offers[2]), ("16x1GiB".to_owned(), 16, 1 << 30, "1GiB".to_owned()));
    }

    #[test]
    fn what_is_no_offer_is_refused_by_its_part() {
        for (text, reason) in [
            ("2", "not a number of vGPUs and their memory"),
            ("", "not a number of vGPUs and their memory"),
            ("2X8G", "not a number of vGPUs and their memory"),
            ("+2x8G", "not a number of vGPUs and their memory"),
            ("2x8 G", "not a number of vGPUs and their memory"),
            ("2x-8G", "not a number of vGPUs and their memory"),
            ("0x8G", "not a number of vGPUs from 1 on"),
            ("x8G", "not a number of vGPUs from 1 on"),
            ("99999999999999999999x8G", "not a number of vGPUs from 1 on"),
            ("2x", "not a size"),
            ("2x8Q", "not a size"),
            ("2x2x8G", "not a size"),
            ("2x99999999999T", "not a size"),
            ("2x8", "less memory than 1 MiB"),
            ("2x0G", "less memory than 1 MiB"),
        ] {
            let words = read(&[text]).expect_err(text);
            assert_eq!(words, format!("--offer: {reason}: {text}\n  {FORM}"));
        }
        assert_eq!(
            read(&["2x8G", "1x8G", "2x8192M"]).expect_err("it means the same"),
            "--offer: the same twice: 2x8G, 2x8192M\n  leave one of them out"
        );
    }

    #[test]
    fn vgpus_go_to_one_gpu_after_the_other_and_begin_again_behind_the_last() {
        let three = gpus(&[("a:0", None), ("a:1", None), ("b:0", None)]);
        assert_eq!(places("2x8G", &three).as_deref(), Ok("a:0 a:1"));
        assert_eq!(places("5x8G", &three).as_deref(), Ok("a:0 a:1 b:0 a:0 a:1"));
        assert_eq!(places("2x8G", &gpus(&[("a:0", None)])).as_deref(), Ok("a:0 a:0"));
    }

    #[test]
    fn what_does_not_fit_on_a_gpu_is_refused() {
        let two = gpus(&[("s:0", Some(24 << 30)), ("s:1", Some(16 << 30))]);
        assert_eq!(places("3x8G", &two).as_deref(), Ok("s:0 s:1 s:0"));
        assert_eq!(places("4x8G", &two).as_deref(), Ok("s:0 s:1 s:0 s:1"));
        assert_eq!(
            places("6x8G", &two).expect_err("the second is too small"),
            "--offer: more memory than s:1 has, which is 16.0 GiB: 3 of 6x8G on it, 8.0 GiB each\n  \
             offer less, or name more GPUs with --on"
        );
        assert!(places("1x99999999T", &two).is_err());
        let one = gpus(&[("s:0", None)]);
        assert!(places("32x1G", &one).is_ok());
        assert_eq!(
            places("33x1G", &one).expect_err("there is no slot for it"),
            "--offer: more vGPUs than 1 GPUs can be: 33x1G\n  offer at most 32"
        );
        let twice = gpus(&[("s:0", None), ("s:0", None)]);
        assert!(places("33x1G", &twice).expect_err("it is one GPU").contains("33 vGPUs on one GPU, s:0: 33x1G"));
        assert!(places("1x1G", &[]).expect_err("none").starts_with("--offer: no GPU for it: 1x1G"));
    }
}
