//! Which chunks should be on the fast device: the hottest of all volumes that share it, as far as there is room for them.

use std::collections::BTreeMap;

/// By what a chunk that is there counts more than one that would have to come, and drive it out.
const STAYS: f32 = 1.5;

/// What a volume may have of the fast device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// By what its uses count more than those of others.
    pub weight: f64,
    /// Slots that it gets however cold it is, as far as it has uses at all.
    pub floor: usize,
    /// Slots that it gets at most.
    pub cap: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { weight: 1.0, floor: 0, cap: usize::MAX }
    }
}

/// A chunk of a volume, with what is known of its uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The volume's place in the list of claims.
    pub volume: u32,
    /// Its place among the chunks of all units of the volume, and its unit's.
    pub place: u32,
    /// The place of its unit.
    pub unit: u32,
    /// Its number in the volume.
    pub chunk: u32,
    /// How much it is going to be used, in any measure.
    pub heat: f32,
    /// Something of it is not on the fast device.
    pub is_missing: bool,
}

impl Candidate {
    fn rank(&self) -> f32 {
        if self.is_missing { self.heat } else { self.heat * STAYS }
    }

    fn name(&self) -> (u32, u32) {
        (self.volume, self.chunk)
    }
}

/// A volume, and its chunks that are going to be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    limits: Limits,
    chunks: Vec<Candidate>,
}

impl Claim {
    /// The hottest chunks of a volume: there are never more of them than could be chosen of so many slots, times two.
    pub fn new(limits: Limits, chunks: impl Iterator<Item = Candidate>, slots: usize) -> Self {
        let mut hottest: Vec<Candidate> = Vec::new();
        let colder = |one: &Candidate, other: &Candidate| {
            other.rank().total_cmp(&one.rank()).then_with(|| one.name().cmp(&other.name()))
        };
        for chunk in chunks.filter(|chunk| chunk.heat > 0.0) {
            hottest.push(chunk);
            if hottest.len() > 2 * slots.max(1) {
                hottest.select_nth_unstable_by(slots.max(1), colder);
                hottest.truncate(slots.max(1));
            }
        }
        Self { limits, chunks: hottest }
    }
}

/// The chunks that are to be on the fast device, hottest first: as many as there is room for in so many slots. One that is colder than those never comes, so that nothing
/// hotter leaves for it.
pub fn choose(claims: &[Claim], slots: usize) -> Vec<Candidate> {
    let mut all: Vec<_> = claims.iter().flat_map(|claim| claim.chunks.iter().copied()).collect();
    let limits = |chunk: &Candidate| claims[chunk.volume as usize].limits;
    let rank = |chunk: &Candidate| limits(chunk).weight * f64::from(chunk.rank());
    all.sort_by(|one, other| rank(other).total_cmp(&rank(one)).then_with(|| one.name().cmp(&other.name())));
    let mut left = slots;
    let mut taken = vec![0; claims.len()];
    let mut is_chosen = vec![false; all.len()];
    // What a volume has by its floor comes before what is hot, and both in the order of heat.
    for within_floor in [true, false] {
        for (chunk, is_chosen) in all.iter().zip(&mut is_chosen) {
            let (limits, taken) = (limits(chunk), &mut taken[chunk.volume as usize]);
            let bound = if within_floor { limits.floor.min(limits.cap) } else { limits.cap };
            if *is_chosen || *taken >= bound || left == 0 {
                continue;
            }
            *is_chosen = true;
            *taken += 1;
            left -= 1;
        }
    }
    all.into_iter().zip(is_chosen).filter(|(_, is_chosen)| *is_chosen).map(|(chunk, _)| chunk).collect()
}

/// Chunks that are to come, the hottest first, unit by unit: that of the hottest one first, and in a unit as they lie in their file, which takes a disk the least.
pub fn by_unit(mut coming: Vec<Candidate>) -> Vec<Candidate> {
    let unit = |chunk: &Candidate| (chunk.volume, chunk.unit);
    let mut firsts = BTreeMap::new();
    for (chunk, number) in coming.iter().zip(0_usize..) {
        firsts.entry(unit(chunk)).or_insert(number);
    }
    coming.sort_by_key(|chunk| (firsts.get(&unit(chunk)).copied(), chunk.place));
    coming
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(volume: u32, limits: Limits, heats: &[(f32, bool)]) -> Claim {
        let chunk = |(&(heat, is_missing), number): (&(f32, bool), u32)| Candidate {
            volume,
            place: number,
            unit: number / 2,
            chunk: number,
            heat,
            is_missing,
        };
        Claim::new(limits, heats.iter().zip(0..).map(chunk), 100)
    }

    fn names(chosen: &[Candidate]) -> Vec<(u32, u32)> {
        chosen.iter().filter(|chunk| chunk.is_missing).map(Candidate::name).collect()
    }

    #[test]
    fn the_hottest_come_as_far_as_there_is_room_and_what_is_there_takes_its_room() {
        let usual = Limits::default();
        let claims =
            [claim(0, usual, &[(5.0, true), (9.0, false), (1.0, true), (0.0, true)]), claim(1, usual, &[(7.0, true)])];
        assert_eq!(names(&choose(&claims, 50)), [(1, 0), (0, 0), (0, 2)]);
        // Three of them: 9, 7 and 5. The last one would drive out something hotter.
        assert_eq!(names(&choose(&claims, 3)), [(1, 0), (0, 0)]);
        let hottest = choose(&claims, 1);
        assert_eq!((hottest.len(), names(&hottest)), (1, Vec::new()), "it is there");
    }

    #[test]
    fn what_is_there_stays_for_one_that_is_a_little_hotter() {
        let usual = Limits::default();
        assert_eq!(names(&choose(&[claim(0, usual, &[(5.0, false), (6.0, true)])], 1)), []);
        assert_eq!(names(&choose(&[claim(0, usual, &[(5.0, false), (8.0, true)])], 1)), [(0, 1)]);
    }

    #[test]
    fn weights_floors_and_caps_are_kept() {
        let hot: Vec<_> = (0..10).map(|_| (10.0, true)).collect();
        let cold: Vec<_> = (0..10).map(|_| (1.0, true)).collect();
        let of = |limits: [Limits; 2]| {
            let chosen = choose(&[claim(0, limits[0], &hot), claim(1, limits[1], &cold)], 6);
            [0, 1].map(|volume| chosen.iter().filter(|chunk| chunk.volume == volume).count())
        };
        let usual = Limits::default();
        assert_eq!(of([usual, usual]), [6, 0]);
        assert_eq!(of([usual, Limits { floor: 2, ..usual }]), [4, 2]);
        assert_eq!(of([Limits { cap: 3, ..usual }, usual]), [3, 3]);
        assert_eq!(of([usual, Limits { weight: 20.0, ..usual }]), [0, 6]);
        assert_eq!(of([usual, Limits { floor: 4, cap: 2, ..usual }]), [4, 2], "a cap is above a floor");
    }

    #[test]
    fn of_a_large_volume_the_hottest_are_looked_at_alone() {
        let mut random = fastrand::Rng::with_seed(1);
        let chunks: Vec<_> = (0..1000)
            .map(|chunk| Candidate {
                volume: 0,
                place: chunk,
                unit: 0,
                chunk,
                heat: random.f32(),
                is_missing: random.bool(),
            })
            .collect();
        let usual = Limits::default();
        let all = Claim::new(usual, chunks.iter().copied(), 1000);
        let some = Claim::new(usual, chunks.iter().copied(), 20);
        assert!(some.chunks.len() <= 40);
        assert_eq!(choose(&[some], 20), choose(&[all], 20));
    }

    #[test]
    fn units_come_whole_and_that_of_the_hottest_chunk_first() {
        let claims = [
            claim(0, Limits::default(), &[(2.0, true), (6.0, true), (3.0, true)]),
            claim(1, Limits::default(), &[(5.0, true)]),
        ];
        assert_eq!(names(&by_unit(choose(&claims, 10))), [(0, 0), (0, 1), (1, 0), (0, 2)]);
    }
}
