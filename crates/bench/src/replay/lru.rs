//! The hit ratio that a cache would have that always drops what was used longest ago.

use std::collections::{BTreeMap, HashMap};

use super::trace::Trace;

/// Over a trace, with room for so many pages of that size: hits among all pages that are read.
pub fn hit_ratio(trace: &Trace, room: usize, page: u64) -> f64 {
    let (mut last, mut by_age) = (HashMap::new(), BTreeMap::new());
    let (mut hits, mut all) = (0_u64, 0_u64);
    for key in trace.accesses.iter().flat_map(|access| access.pages(page)) {
        if let Some(before) = last.insert(key, all) {
            hits += 1;
            by_age.remove(&before);
        }
        by_age.insert(all, key);
        all += 1;
        if last.len() > room
            && let Some((_, oldest)) = by_age.pop_first()
        {
            last.remove(&oldest);
        }
    }
    if all == 0 { 0.0 } else { hits as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::trace::Access;
    use super::*;

    fn ratio(pages: &[u64], room: usize) -> f64 {
        let access = |&page: &u64| Access { file: 0, offset: page * 4096, length: 4096 };
        hit_ratio(&Trace { files: vec!["a".to_owned()], accesses: pages.iter().map(access).collect() }, room, 4096)
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let close = |own: f64, expected: f64| assert!((own - expected).abs() < 1e-9, "{own}, not {expected}");
        // 1 is used again before 3 comes, so 2 goes and 1 is found once more.
        close(ratio(&[1, 2, 1, 3, 1, 2], 2), 2.0 / 6.0);
        close(ratio(&[1, 2, 3, 1, 2, 3], 2), 0.0);
        close(ratio(&[1, 2, 3, 1, 2, 3], 3), 0.5);
        close(ratio(&[], 3), 0.0);
    }
}
