//! How hot the chunks of a volume are. Two things are known at different speeds:
//!
//! - how much the *volume* is read, which may change from one window to the next: load goes from one machine to another. So many reads speak of it that the last windows
//!   tell;
//! - which part of that goes to each *chunk*, of which few reads speak, and which stays while load comes and goes: what was hot in a volume is so again when it is read
//!   again. It is remembered over as many reads, not over as much time. When what is read is not what was hot, it is forgotten at once.

/// Reads of a window below which it does not count whole: a few of them say little.
const FEW: f32 = 100.0;

/// Windows with enough reads, after which what was read counts half: a chunk that is hot may be read in some of them only.
const REMEMBERED: f32 = 6.0;

/// What counts of the past when other things are read.
const FORGOTTEN: f32 = 0.125;

/// What is less than this is nothing.
const NOTHING: f32 = 1e-5;

/// Windows for which it tells what is to be expected.
const AHEAD: f32 = 6.0;

/// The chunks of one volume.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    before: Vec<u32>,
    /// Of each chunk, the sum over windows of its part of the volume's reads; older ones count less.
    shares: Vec<f32>,
    /// Reads behind that.
    evidence: f32,
    /// Reads of the volume, of which each window's count half of those after it.
    lately: f32,
}

impl Heat {
    /// Takes a window, by counters of each chunk's reads, which grow, and begin again after the last number.
    pub fn observe(&mut self, counters: impl ExactSizeIterator<Item = u32>) {
        self.before.resize(counters.len(), 0);
        let since = |(now, before): (u32, &mut u32)| now.wrapping_sub(std::mem::replace(before, now));
        let since: Vec<_> = counters.zip(&mut self.before).map(since).collect();
        self.add(&since);
    }

    fn add(&mut self, reads: &[u32]) {
        self.shares.resize(reads.len(), 0.0);
        let all = reads.iter().map(|&reads| reads as f32).sum::<f32>();
        self.lately = self.lately / 2.0 + all;
        let counts = (all / FEW).min(1.0);
        let mut left = (-counts / REMEMBERED).exp2();
        if self.is_other(reads, all) {
            left *= FORGOTTEN;
        }
        self.evidence = self.evidence * left + all;
        for (share, &reads) in self.shares.iter_mut().zip(reads) {
            let sum = *share * left + reads as f32 / all.max(FEW);
            *share = if sum < NOTHING { 0.0 } else { sum };
        }
    }

    /// Whether what was hot is not what is read now.
    fn is_other(&self, reads: &[u32], all: f32) -> bool {
        if all < FEW / 2.0 || self.evidence < FEW {
            return false;
        }
        let there = self.shares.iter().filter(|share| **share > 0.0);
        let (count, sum) = there.fold((0_u32, 0.0), |(count, sum), share| (count + 1, sum + share));
        if count == 0 {
            return false;
        }
        let mean = sum / count as f32;
        let hot = |share: f32| share > mean;
        let expected = self.shares.iter().filter(|share| hot(**share)).sum::<f32>() / sum;
        let found = self.shares.iter().zip(reads).filter(|(share, _)| hot(**share)).map(|(_, &reads)| reads as f32);
        // Where nothing is hotter than the rest, nothing can be said.
        expected > 0.5 && found.sum::<f32>() / all < expected / 2.0
    }

    /// The reads, or whatever it was given as such, that speak for each chunk.
    pub fn uses(&self) -> impl Iterator<Item = f32> {
        let sum = self.shares.iter().sum::<f32>().max(NOTHING);
        self.shares.iter().map(move |share| share / sum * self.evidence)
    }

    /// With what these are to be multiplied for the reads that are to be expected in the next windows.
    pub fn pace(&self) -> f32 {
        if self.evidence > 0.0 { self.lately / 2.0 * AHEAD / self.evidence } else { 0.0 }
    }
}

/// Reads of a chunk, from which on its own count for as much as those of its unit.
const TELLING: f32 = 2.0;

/// The reads of a chunk that are to be expected, from its own and the mean of its unit's chunks. Of few reads, most are by chance: what lies beside them in the file
/// is going to be used as well. Of many, a chunk's own say what it is.
pub fn expected(own: f32, mean: f32) -> f32 {
    if mean > 0.0 { mean * (own + TELLING) / (mean + TELLING) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is to be expected of each chunk.
    fn heat(of: &Heat) -> Vec<f32> {
        of.uses().map(|reads| reads * of.pace()).collect()
    }

    #[test]
    fn a_chunk_is_as_its_unit_until_it_was_read_often_enough() {
        assert!(expected(0.0, 0.0).abs() < 1e-6);
        // One read of one of three chunks: the others are hardly less hot.
        assert!(expected(0.0, 1.0 / 3.0) > 0.8 * expected(1.0, 1.0 / 3.0) * 2.0 / 3.0);
        // Sixty reads of one of three: what had none is cold.
        assert!(expected(0.0, 20.0) < 2.0 && expected(60.0, 20.0) > 50.0);
        // The unit has as many as its chunks together.
        let sum = expected(3.0, 4.0) + expected(9.0, 4.0) + expected(0.0, 4.0);
        assert!((sum - 12.0).abs() < 1e-3);
    }

    #[test]
    fn what_is_hot_stays_so_while_its_volume_rests_and_counts_at_once_when_it_is_read_again() {
        let mut volume = Heat::default();
        for _ in 0..20 {
            volume.add(&[300, 0, 60]);
        }
        let before = heat(&volume);
        assert!((before[0] - 300.0 * AHEAD).abs() < 30.0 && (before[2] - 60.0 * AHEAD).abs() < 6.0, "{before:?}");
        for _ in 0..20 {
            volume.add(&[0, 0, 0]);
        }
        assert!(heat(&volume)[0] < 0.1, "it is not read: {volume:?}");
        // As it happens, not so much of what was the hottest.
        volume.add(&[36, 0, 24]);
        let again = heat(&volume);
        assert!(again[0] > 100.0 && again[0] > 3.0 * again[2], "{again:?}");
    }

    #[test]
    fn what_is_read_now_outweighs_what_was_read_faster() {
        let mut volume = Heat::default();
        (0..20).for_each(|_| volume.add(&[5000, 100]));
        (0..9).for_each(|_| volume.add(&[100, 150]));
        let heat = heat(&volume);
        assert!(heat[1] > heat[0], "{heat:?}");
    }

    #[test]
    fn when_other_things_are_read_the_past_is_forgotten() {
        let mut volume = Heat::default();
        (0..20).for_each(|_| volume.add(&[150, 150, 10, 10]));
        volume.add(&[10, 10, 150, 150]);
        let now = heat(&volume);
        assert!(now[2] > 0.7 * now[0], "{now:?}");
        volume.add(&[10, 10, 150, 150]);
        let now = heat(&volume);
        assert!(now[2] > 2.0 * now[0], "{now:?}");
        // A few reads, or ones that may be by chance, change nothing.
        let mut volume = Heat::default();
        (0..20).for_each(|_| volume.add(&[150, 150, 10, 10]));
        let before = heat(&volume);
        volume.add(&[0, 0, 20, 20]);
        volume.add(&[100, 100, 60, 60]);
        let now = heat(&volume);
        assert!(now[0] > 0.4 * before[0] && now[0] > 2.0 * now[2], "{now:?}");
    }

    #[test]
    fn few_reads_say_little_and_counters_begin_again() {
        let mut volume = Heat::default();
        volume.observe([u32::MAX].into_iter());
        volume.observe([1].into_iter());
        assert_eq!(volume.before, [1]);
        let mut volume = Heat::default();
        volume.observe([4].into_iter());
        assert!(
            (heat(&volume)[0] - 4.0 * AHEAD / 2.0).abs() < 1e-3,
            "half of what the past is to be is not known: {volume:?}"
        );
        for _ in 0..200 {
            volume.observe([4, 0].into_iter());
        }
        assert!(heat(&volume).iter().all(|heat| *heat < 1e-6));
    }
}
