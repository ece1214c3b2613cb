//! Which chunks should be on the fast device: the hottest of all volumes that share it, as far as there is room for them.

use std::collections::BTreeMap;

/// By what a chunk that is there counts more than one that would have to come, and drive it out.
const STAYS: f64 = 1.5;

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
    pub volume: usize,
    /// Its unit's place in the volume, and its own there.
    pub unit: (usize, usize),
    /// Its number in the volume.
    pub chunk: u32,
    /// How much it is going to be read, in any measure.
    pub heat: f64,
    /// Something of it is not on the fast device.
    pub is_missing: bool,
}

/// A volume, and its chunks that are going to be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What it may have.
    pub limits: Limits,
    /// Its chunks, with their uses.
    pub chunks: Vec<Candidate>,
}

/// The chunks that are to be on the fast device, hottest first: as many as there is room for in so many slots. One that is colder than those never comes, so that nothing
/// hotter leaves for it.
pub fn choose(claims: &[Claim], slots: usize) -> Vec<Candidate> {
    let mut all: Vec<_> =
        claims.iter().flat_map(|claim| claim.chunks.iter().copied()).filter(|chunk| chunk.heat > 0.0).collect();
    let rank = |chunk: &Candidate| {
        let stays = if chunk.is_missing { 1.0 } else { STAYS };
        claims[chunk.volume].limits.weight * chunk.heat * stays
    };
    all.sort_by(|one, other| {
        rank(other).total_cmp(&rank(one)).then_with(|| (one.volume, one.chunk).cmp(&(other.volume, other.chunk)))
    });
    let mut left = slots;
    let mut taken = vec![0; claims.len()];
    let mut is_chosen = vec![false; all.len()];
    // What a volume has by its floor comes before what is hot, and both in the order of heat.
    for within_floor in [true, false] {
        for (chunk, is_chosen) in all.iter().zip(&mut is_chosen) {
            let limits = claims[chunk.volume].limits;
            let bound = if within_floor { limits.floor.min(limits.cap) } else { limits.cap };
            if *is_chosen || taken[chunk.volume] >= bound || left == 0 {
                continue;
            }
            *is_chosen = true;
            taken[chunk.volume] += 1;
            left -= 1;
        }
    }
    all.into_iter().zip(is_chosen).filter(|(_, is_chosen)| *is_chosen).map(|(chunk, _)| chunk).collect()
}

/// Those of chosen chunks that are to come, unit by unit: that of the hottest chunk first, and in a unit as they lie in their file, which takes a disk the least.
pub fn by_unit(coming: &[Candidate]) -> Vec<Vec<Candidate>> {
    let mut places: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut units: Vec<Vec<Candidate>> = Vec::new();
    for &chunk in coming {
        let place = *places.entry((chunk.volume, chunk.unit.0)).or_insert(units.len());
        if place == units.len() {
            units.push(Vec::new());
        }
        units[place].push(chunk);
    }
    for unit in &mut units {
        unit.sort_by_key(|chunk| chunk.unit.1);
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(volume: usize, limits: Limits, heats: &[(f64, bool)]) -> Claim {
        let chunk = |(number, &(heat, is_missing)): (usize, &(f64, bool))| Candidate {
            volume,
            unit: (number / 2, number % 2),
            chunk: number as u32,
            heat,
            is_missing,
        };
        Claim { limits, chunks: heats.iter().enumerate().map(chunk).collect() }
    }

    fn names(chosen: &[Candidate]) -> Vec<(usize, u32)> {
        chosen.iter().filter(|chunk| chunk.is_missing).map(|chunk| (chunk.volume, chunk.chunk)).collect()
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
    fn units_come_whole_and_that_of_the_hottest_chunk_first() {
        let claims = [
            claim(0, Limits::default(), &[(2.0, true), (6.0, true), (3.0, true)]),
            claim(1, Limits::default(), &[(5.0, true)]),
        ];
        let units = by_unit(&choose(&claims, 10));
        let numbers: Vec<_> = units.iter().map(|unit| names(unit)).collect();
        assert_eq!(numbers, [vec![(0, 0), (0, 1)], vec![(1, 0)], vec![(0, 2)]]);
    }
}
