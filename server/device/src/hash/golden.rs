/// Units by their seed, and their hashes with the key of the tests. A second program has computed them, with whole numbers.
const GOLDEN: [(u64, [u64; 2]); 4] = [
    (0, [0x1251_a31f_8e53_721d, 0x00a4_e994_5978_07b9]),
    (1, [0x14aa_3313_20de_2e01, 0x118c_dd2b_d66d_079d]),
    (0x0000_0000_ffff_ffff, [0x126a_06ed_5d96_a651, 0x0922_dc32_a0f1_a7d6]),
    (0x0000_dead_beef_cafe, [0x0fcf_cbdd_40de_da2b, 0x0761_df31_bccd_a91a]),
];

/// A unit of words that follow from a seed.
fn unit(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32).to_le_bytes()
    };
    (0..16_384).flat_map(|_| next().into_iter().take(4)).collect()
}
