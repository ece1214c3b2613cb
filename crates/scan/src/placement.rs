//! Where the work of a scan is done, and what the user wishes about it.

use std::fmt;
use std::str::FromStr;

/// Where the work of a scan is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// The pages are on this machine, and so is the work.
    Local,
    /// Pages travel here and are worked on here.
    Fetch,
    /// The work travels to the pages, and its results come back.
    Push,
}

/// What the user wishes: one placement, or the one that is estimated to be the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wish {
    /// The cost model decides, when the query is planned.
    Auto,
    /// This one, as far as it can be: what is on this machine is always local, and what is not never is.
    Fixed(Placement),
}

impl Default for Wish {
    /// To fetch, which asks nothing of a node but pages.
    fn default() -> Self {
        Self::Fixed(Placement::Fetch)
    }
}

impl Wish {
    /// The placement to use, if the wish leaves nothing to choose. `on_this_machine` says where the pages are.
    pub fn settled(self, on_this_machine: bool) -> Option<Placement> {
        match self {
            _ if on_this_machine => Some(Placement::Local),
            // To have the pages at hand is what fetching does.
            Self::Fixed(Placement::Local) => Some(Placement::Fetch),
            Self::Fixed(placement) => Some(placement),
            Self::Auto => None,
        }
    }
}

/// A word that names no placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is no placement; choose auto, local, fetch or push")]
pub struct UnknownPlacement {
    /// The word.
    pub word: String,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Fetch => "fetch",
            Self::Push => "push",
        })
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(placement) => placement.fmt(f),
        }
    }
}

impl FromStr for Wish {
    type Err = UnknownPlacement;

    fn from_str(word: &str) -> Result<Self, UnknownPlacement> {
        match word.trim().to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "local" => Ok(Self::Fixed(Placement::Local)),
            "fetch" => Ok(Self::Fixed(Placement::Fetch)),
            "push" => Ok(Self::Fixed(Placement::Push)),
            _ => Err(UnknownPlacement { word: word.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wish_reads_back_and_other_words_are_refused_with_the_choice() {
        let placements = [Placement::Local, Placement::Fetch, Placement::Push];
        for wish in placements.map(Wish::Fixed).into_iter().chain([Wish::Auto]) {
            assert_eq!(wish.to_string().to_uppercase().parse(), Ok(wish));
        }
        let error = "remote".parse::<Wish>().expect_err("no placement").to_string();
        assert!(error.contains("`remote`") && error.contains("auto, local, fetch or push"), "{error}");
    }

    #[test]
    fn what_is_here_is_local_and_what_is_not_never_is() {
        for wish in [Wish::Auto, Wish::Fixed(Placement::Push)] {
            assert_eq!(wish.settled(true), Some(Placement::Local));
        }
        assert_eq!(Wish::Fixed(Placement::Local).settled(false), Some(Placement::Fetch));
        assert_eq!(Wish::Fixed(Placement::Push).settled(false), Some(Placement::Push));
        assert_eq!(Wish::Auto.settled(false), None);
    }
}
