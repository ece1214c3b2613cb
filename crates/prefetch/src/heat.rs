//! How hot chunks are: the share of all reads that each has had, window by window, of which older ones count less.
//!
//! Shares, not reads: when other things are used, little is read at first, because most of it misses. By numbers of reads, what was hot when all was fast would
//! outweigh what is hot now for windows.

/// Reads of a window below which it does not count whole: a few of them say little.
const FEW: u64 = 100;

/// What is less than this is nothing.
const NOTHING: f32 = 1e-5;

/// The chunks of one volume.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    before: Vec<u32>,
    shares: Vec<f32>,
}

impl Heat {
    /// Reads of each chunk since the last call, by counters that grow, and begin again after the last number.
    pub fn since(&mut self, counters: &[u32]) -> Vec<u32> {
        self.before.resize(counters.len(), 0);
        let since = counters.iter().zip(&self.before).map(|(now, before)| now.wrapping_sub(*before)).collect();
        self.before.copy_from_slice(counters);
        since
    }

    /// Takes a window with these reads of each chunk, and so many of all volumes together. `left` is what counts of the windows before, 0 to 1.
    pub fn add(&mut self, reads: &[u32], all: u64, left: f32) {
        self.shares.resize(reads.len(), 0.0);
        let all = all.max(FEW) as f32;
        for (share, &reads) in self.shares.iter_mut().zip(reads) {
            let sum = *share * left + reads as f32 / all;
            *share = if sum < NOTHING { 0.0 } else { sum };
        }
    }

    /// How hot each chunk is.
    pub fn shares(&self) -> &[f32] {
        &self.shares
    }
}

/// Reads of a chunk, from which on its own count for as much as those of its unit.
const TELLING: f64 = 2.0;

/// The reads of a chunk that are to be expected, from its own and the mean of its unit's chunks. Of few reads, most are by chance: what lies beside them in the file
/// is going to be used as well. Of many, a chunk's own say what it is.
pub fn expected(own: f64, mean: f64) -> f64 {
    if mean > 0.0 { mean * (own + TELLING) / (mean + TELLING) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_as_its_unit_until_it_was_read_often_enough() {
        assert!(expected(0.0, 0.0).abs() < 1e-9);
        // One read of one of three chunks: the others are hardly less hot.
        assert!(expected(0.0, 1.0 / 3.0) > 0.8 * expected(1.0, 1.0 / 3.0) * 2.0 / 3.0);
        // Sixty reads of one of three: what had none is cold.
        assert!(expected(0.0, 20.0) < 2.0 && expected(60.0, 20.0) > 50.0);
        // The unit has as many as its chunks together.
        let sum = expected(3.0, 4.0) + expected(9.0, 4.0) + expected(0.0, 4.0);
        assert!((sum - 12.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_read_now_outweighs_what_was_read_faster() {
        let mut heat = Heat::default();
        for window in 1..=10 {
            let since = heat.since(&[1000 * window, 0]);
            assert_eq!(since, [1000, 0]);
            heat.add(&since, 1000, 0.9);
        }
        for window in 1..=10 {
            let since = heat.since(&[10_000, 120 * window]);
            heat.add(&since, 120, 0.9);
        }
        assert!(heat.shares()[1] > heat.shares()[0], "{heat:?}");
    }

    #[test]
    fn few_reads_say_little_and_counters_begin_again() {
        let mut heat = Heat::default();
        heat.since(&[u32::MAX]);
        let since = heat.since(&[1]);
        assert_eq!(since, [2]);
        heat.add(&since, 2, 0.9);
        assert!((heat.shares()[0] - 0.02).abs() < 1e-6);
        for _ in 0..200 {
            heat.add(&[0], 1000, 0.9);
        }
        assert_eq!(heat.shares(), [0.0]);
    }
}
