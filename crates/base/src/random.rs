//! Randomness as a component: what is drawn comes from a [`Seed`], so that a failing run can be run again.

use std::fmt;
use std::str::FromStr;

/// The seed of a random run. Printed when a run fails, read back from `ISHIGAKI_SEED` by the test harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// One that nobody can foretell.
    pub fn from_entropy() -> Self {
        Self(fastrand::u64(..))
    }

    /// A generator that always yields the same numbers for the same seed.
    pub fn generator(self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.0)
    }

    /// A seed for the `index`-th part of a run, unlike its neighbours'.
    #[must_use]
    pub fn derive(self, index: u64) -> Self {
        // One step of SplitMix64: neighbouring indices land far apart.
        let mut z = self.0 ^ index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self(z ^ (z >> 31))
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl FromStr for Seed {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).map(Self),
            None => text.parse().map(Self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_seed_reads_back() {
        let seed = Seed(0xfeed_beef);
        assert_eq!(seed.to_string().parse(), Ok(seed));
        assert_eq!("17".parse(), Ok(Seed(17)));
    }

    #[test]
    fn derived_seeds_differ_from_their_neighbours() {
        let seed = Seed(1);
        assert_ne!(seed.derive(0), seed.derive(1));
        assert_ne!(seed.derive(0), Seed(2).derive(0));
    }
}
