//! Circles among files: arrows come in, groups of files that all lead to each other go out, largest first.
//! A circle of a group is a shortest way from a file back to itself. It never looks at what an arrow stands for.

use std::collections::{BTreeSet, HashMap, VecDeque};

/// An arrow from one file to another.
type Arrow = (usize, usize);

/// The groups of two files and more in which each leads to each other, largest first.
pub(crate) fn groups(arrows: &[Arrow]) -> Vec<Vec<usize>> {
    let files: BTreeSet<usize> = arrows.iter().flat_map(|(from, to)| [*from, *to]).collect();
    let next = targets(arrows);
    let reached: HashMap<usize, BTreeSet<usize>> =
        files.iter().map(|file| (*file, ways(*file, &next).into_keys().collect())).collect();
    let mut left = files;
    let mut groups = Vec::new();
    while let Some(file) = left.pop_first() {
        let mut group: Vec<usize> = left
            .iter()
            .copied()
            .filter(|other| reached[&file].contains(other) && reached[other].contains(&file))
            .collect();
        group.insert(0, file);
        left.retain(|other| !group.contains(other));
        if group.len() > 1 {
            groups.push(group);
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}

/// A shortest way in a group from a file through others and back; it ends where it begins.
pub(crate) fn shortest(group: &[usize], arrows: &[Arrow]) -> Vec<usize> {
    let inside: Vec<Arrow> = within(group, arrows).collect();
    let next = targets(&inside);
    let around = |file: &usize| {
        let before = ways(*file, &next);
        let last = *before.get(file)?;
        let mut way = vec![*file, last];
        while way[way.len() - 1] != *file {
            way.push(before[&way[way.len() - 1]]);
        }
        way.reverse();
        Some(way)
    };
    group.iter().filter_map(around).min_by_key(Vec::len).unwrap_or_default()
}

/// The arrows between files of a group.
pub(crate) fn within<'a>(group: &'a [usize], arrows: &'a [Arrow]) -> impl Iterator<Item = Arrow> + 'a {
    arrows.iter().copied().filter(|(from, to)| group.contains(from) && group.contains(to))
}

fn targets(arrows: &[Arrow]) -> HashMap<usize, Vec<usize>> {
    let mut next: HashMap<usize, Vec<usize>> = HashMap::new();
    for (from, to) in arrows {
        next.entry(*from).or_default().push(*to);
    }
    next
}

/// All files that a file leads to, each with the one before it on a shortest way; itself only where a circle leads back.
fn ways(start: usize, next: &HashMap<usize, Vec<usize>>) -> HashMap<usize, usize> {
    let (mut before, mut queue) = (HashMap::new(), VecDeque::from([start]));
    while let Some(file) = queue.pop_front() {
        for to in next.get(&file).into_iter().flatten() {
            if !before.contains_key(to) {
                before.insert(*to, file);
                queue.push_back(*to);
            }
        }
    }
    before
}
