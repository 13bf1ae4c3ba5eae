//! The search tree of `tree.cu`: nodes of 32 words, the last key first, each beside its child or value.

/// Keys of a node.
const KEYS: usize = 16;
/// Says that a key's neighbour is a value.
const LEAF: u32 = 1 << 31;
/// In place of keys that a node lacks: above every key.
const NONE: u32 = LEAF - 1;

/// The tree of the pairs of key and value, in order of keys, which are below 2^31 - 1: its words, and the root's number.
pub(crate) fn tree(pairs: &[(u32, u32)]) -> (Vec<u32>, u32) {
    let mut nodes = Vec::new();
    let mut level: Vec<(u32, u32)> = pairs.to_vec();
    let mut flag = LEAF;
    loop {
        let mut above = Vec::new();
        for entries in level.chunks(KEYS) {
            above.push((entries[0].0, u32::try_from(nodes.len() / 32).expect("a small tree")));
            nodes.extend(words(entries, flag));
        }
        if let [(_, root)] = above[..] {
            return (nodes, root);
        }
        (level, flag) = (above, 0);
    }
}

/// A node's words: lane 0 of a warp, which reads the last, has the largest key.
fn words(entries: &[(u32, u32)], flag: u32) -> [u32; 32] {
    let mut words = [0; 32];
    for place in 0..KEYS {
        let missing = KEYS - entries.len();
        let entry = place.checked_sub(missing).map(|behind| entries[entries.len() - 1 - behind]);
        words[31 - 2 * place] = entry.map_or(NONE, |(key, _)| key | flag);
        words[30 - 2 * place] = entry.map_or(0, |(_, below)| below);
    }
    words
}
