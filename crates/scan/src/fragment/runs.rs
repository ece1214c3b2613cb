//! The pages of a fragment: runs that ascend and never overlap, whatever order their pages were found in.
//!
//! A node refuses a fragment that names a page twice, because its rows would come twice. A [`Runs`] can not be made
//! otherwise: the client's constructor sorts pages and drops repeated ones, and the node's checks what arrived.

use std::ops::Range;

use super::Refused;

/// Pages of one file that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) pages: Range<u64>,
    /// The identity of the segment that the first page is in, and of the last one's.
    pub(crate) segments: (u64, u64),
}

/// Runs of pages, ascending; no page is in two of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs(Vec<Run>);

impl Runs {
    /// Of pages in any order, each with the identity of the segment that it is in.
    pub(crate) fn of_pages(mut pages: Vec<(u64, u64)>) -> Self {
        pages.sort_unstable();
        pages.dedup_by_key(|(page, _)| *page);
        let mut runs: Vec<Run> = Vec::new();
        for (page, segment) in pages {
            match runs.last_mut() {
                Some(run) if run.pages.end == page => {
                    run.pages.end += 1;
                    run.segments.1 = segment;
                }
                _ => runs.push(Run { pages: page..page + 1, segments: (segment, segment) }),
            }
        }
        Self(runs)
    }

    /// As they arrived from a client.
    pub(super) fn checked(runs: Vec<Run>) -> Result<Self, Refused> {
        let mut behind = 0;
        for run in &runs {
            if run.pages.start < behind {
                return Err(Refused::because("its pages are out of order"));
            }
            behind = run.pages.end.max(run.pages.start);
        }
        Ok(Self(runs))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Run> {
        self.0.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many pages they have together.
    pub(crate) fn pages(&self) -> u64 {
        self.0.iter().map(|run| run.pages.end.saturating_sub(run.pages.start)).sum()
    }
}

#[cfg(test)]
mod tests {
    use ishigaki_testkit::seeded_runs;

    use super::*;

    #[test]
    fn pages_found_in_any_order_become_runs_that_ascend_and_have_each_page_once() {
        seeded_runs("pages_found_in_any_order_become_runs_that_ascend_and_have_each_page_once", 500, |seed| {
            let mut random = seed.generator();
            let mut pages: Vec<(u64, u64)> =
                (0..random.usize(0..60)).map(|_| random.u64(0..40)).map(|page| (page, page / 8)).collect();
            let runs = Runs::of_pages(pages.clone());
            pages.sort_unstable();
            pages.dedup();
            let found: Vec<u64> = runs.iter().flat_map(|run| run.pages.clone()).collect();
            assert_eq!(found, pages.iter().map(|(page, _)| *page).collect::<Vec<_>>());
            assert_eq!(runs.pages(), pages.len() as u64);
            for run in runs.iter() {
                assert_eq!(run.segments, (run.pages.start / 8, (run.pages.end - 1) / 8));
            }
            assert_eq!(Runs::checked(runs.0.clone()), Ok(runs), "the node takes them");
        });
    }

    #[test]
    fn runs_that_do_not_ascend_or_overlap_are_refused() {
        let run = |pages| Run { pages, segments: (1, 1) };
        for odd in [vec![run(4..8), run(0..4)], vec![run(0..4), run(3..5)], vec![run(2..3), run(2..3)]] {
            assert!(Runs::checked(odd.clone()).is_err_and(|refused| refused.0.contains("out of order")), "{odd:?}");
        }
    }
}
