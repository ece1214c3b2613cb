//! Which units should come to the fast device next: the hottest of all volumes that share it, as far as there is room for them.

/// By what a unit that is there counts more than one that would have to come, and drive it out.
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

/// A unit of a volume, with what is known of its uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The volume's place in the list of claims.
    pub volume: usize,
    /// The unit's place in the volume.
    pub unit: usize,
    /// Its chunks.
    pub chunks: usize,
    /// How much it is read of late, in any measure.
    pub heat: f64,
    /// Something of it is not on the fast device.
    pub is_missing: bool,
}

/// A volume, and its units that were used of late.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What it may have.
    pub limits: Limits,
    /// Its units, with their uses.
    pub units: Vec<Candidate>,
}

/// The units that are to come, hottest first: those that belong to the hottest for which there is room in so many slots, and are not wholly there. A unit that is colder than
/// those never comes, so that nothing hotter leaves for it.
pub fn choose(claims: &[Claim], slots: usize) -> Vec<Candidate> {
    let mut all: Vec<_> =
        claims.iter().flat_map(|claim| claim.units.iter().copied()).filter(|unit| unit.heat > 0.0).collect();
    // A chunk for a chunk: a large unit is not hotter because there is more of it.
    let rank = |unit: &Candidate| {
        let stays = if unit.is_missing { 1.0 } else { STAYS };
        claims[unit.volume].limits.weight * unit.heat * stays / unit.chunks.max(1) as f64
    };
    all.sort_by(|one, other| {
        rank(other).total_cmp(&rank(one)).then_with(|| (one.volume, one.unit).cmp(&(other.volume, other.unit)))
    });
    let mut left = slots;
    let mut taken = vec![0; claims.len()];
    let mut is_chosen = vec![false; all.len()];
    // What a volume has by its floor comes before what is hot, and both in the order of heat.
    for within_floor in [true, false] {
        for (unit, is_chosen) in all.iter().zip(&mut is_chosen) {
            let limits = claims[unit.volume].limits;
            let after = taken[unit.volume] + unit.chunks;
            let bound = if within_floor { limits.floor.min(limits.cap) } else { limits.cap };
            if *is_chosen || after > bound || unit.chunks > left {
                continue;
            }
            *is_chosen = true;
            taken[unit.volume] = after;
            left -= unit.chunks;
        }
    }
    all.into_iter().zip(is_chosen).filter(|(_, is_chosen)| *is_chosen).map(|(unit, _)| unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(volume: usize, limits: Limits, heats: &[(f64, bool)]) -> Claim {
        let unit = |(unit, &(heat, is_missing)): (usize, &(f64, bool))| Candidate {
            volume,
            unit,
            chunks: 2,
            heat,
            is_missing,
        };
        Claim { limits, units: heats.iter().enumerate().map(unit).collect() }
    }

    fn names(chosen: &[Candidate]) -> Vec<(usize, usize)> {
        chosen.iter().filter(|unit| unit.is_missing).map(|unit| (unit.volume, unit.unit)).collect()
    }

    #[test]
    fn the_hottest_come_as_far_as_there_is_room_and_what_is_there_takes_its_room() {
        let usual = Limits::default();
        let claims =
            [claim(0, usual, &[(5.0, true), (9.0, false), (1.0, true), (0.0, true)]), claim(1, usual, &[(7.0, true)])];
        assert_eq!(names(&choose(&claims, 100)), [(1, 0), (0, 0), (0, 2)]);
        // Three units: 9, 7 and 5. The last one would drive out something hotter.
        assert_eq!(names(&choose(&claims, 6)), [(1, 0), (0, 0)]);
        let hottest = choose(&claims, 2);
        assert_eq!((hottest.len(), names(&hottest)), (1, Vec::new()), "it is there");
    }

    #[test]
    fn a_large_unit_is_not_hotter_because_there_is_more_of_it() {
        let unit = |unit, chunks, heat| Candidate { volume: 0, unit, chunks, heat, is_missing: true };
        let claims = [Claim { limits: Limits::default(), units: vec![unit(0, 4, 8.0), unit(1, 1, 3.0)] }];
        assert_eq!(names(&choose(&claims, 5)), [(0, 1), (0, 0)]);
    }

    #[test]
    fn weights_floors_and_caps_are_kept() {
        let hot: Vec<_> = (0..10).map(|_| (10.0, true)).collect();
        let cold: Vec<_> = (0..10).map(|_| (1.0, true)).collect();
        let of = |limits: [Limits; 2]| {
            let chosen = choose(&[claim(0, limits[0], &hot), claim(1, limits[1], &cold)], 12);
            [0, 1].map(|volume| chosen.iter().filter(|unit| unit.volume == volume).count())
        };
        let usual = Limits::default();
        assert_eq!(of([usual, usual]), [6, 0]);
        assert_eq!(of([usual, Limits { floor: 4, ..usual }]), [4, 2]);
        assert_eq!(of([Limits { cap: 6, ..usual }, usual]), [3, 3]);
        assert_eq!(of([usual, Limits { weight: 20.0, ..usual }]), [0, 6]);
        assert_eq!(of([usual, Limits { floor: 8, cap: 4, ..usual }]), [4, 2], "a cap is above a floor");
    }
}
