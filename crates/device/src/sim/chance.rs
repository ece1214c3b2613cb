//! The odds by which a power cut decides what is there afterwards.

use fastrand::Rng;

/// How likely each of several things is to survive.
///
/// Even odds alone would hardly ever leave all or nothing of many sectors, the two outcomes that real media show most; so
/// the odds themselves are drawn first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chance {
    Never,
    Sometimes(f64),
    Always,
}

impl Chance {
    /// Draws the odds.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        match rng.u8(..8) {
            0 => Self::Never,
            1 => Self::Always,
            2 => Self::Sometimes(0.1),
            3 => Self::Sometimes(0.9),
            _ => Self::Sometimes(0.5),
        }
    }

    /// Draws one outcome.
    pub(crate) fn hits(self, rng: &mut Rng) -> bool {
        match self {
            Self::Never => false,
            Self::Sometimes(share) => rng.f64() < share,
            Self::Always => true,
        }
    }
}
