//! Levels of vector instructions: the processor's features come in, the levels it can run go out.
//! Lowering picks one level per program. This file never selects a handler.

/// Vector instructions handlers are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The instructions of every x86-64 (or another architecture's baseline).
    Baseline,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ, VL.
    Avx512,
}

impl Level {
    /// The best level this processor has.
    pub fn best() -> Self {
        Self::available().last().copied().unwrap_or(Self::Baseline)
    }

    /// The levels this processor has, lowest first.
    pub fn available() -> Vec<Self> {
        let mut levels = vec![Self::Baseline];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("f16c");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512cd");
            if avx2 {
                levels.push(Self::Avx2);
            }
            if avx2 && avx512 {
                levels.push(Self::Avx512);
            }
        }
        levels
    }
}
