//! How many rows each group has, and sums over them.
//!
//! The sums of a page are taken in 64 bits where its values are so small that all of them fit, and then added to those of all
//! pages, which have 128. Where there are more slots than a page has rows, they are added at once. Of each slot the count and
//! all sums lie beside each other: one row touches one or two lines of the cache.

use super::keys::moved;

/// Counts and sums of all slots.
#[derive(Debug)]
pub(super) struct Sums {
    /// How many numbers a slot has: how many rows, and each sum.
    width: usize,
    slots: usize,
    /// One slot more than there are, for rows that belong to none.
    all: Vec<i128>,
    of_page: Vec<i64>,
}

/// Does something for a constant number of numbers a slot.
macro_rules! for_width {
    ($width:expr, $W:ident => $then:expr) => {
        for_width!(@ $width, $W => $then, 1 2 3 4 5 6 7 8 9 10 11 12)
    };
    (@ $width:expr, $W:ident => $then:expr, $($literal:literal)*) => {
        match $width {
            $($literal => { const $W: usize = $literal; $then })*
            _ => {}
        }
    };
}

/// How many sums there are at most.
pub(super) const SUMS: usize = 11;

impl Sums {
    pub(super) fn new(sums: usize, slots: usize) -> Self {
        let width = sums + 1;
        Self { width, slots, all: vec![0; (slots + 1) * width], of_page: Vec::new() }
    }

    /// How many bytes it takes.
    pub(super) fn bytes(sums: usize, slots: usize) -> usize {
        (slots + 1) * (sums + 1) * (size_of::<i128>() + size_of::<i64>())
    }

    /// The slot of rows that belong to no group.
    pub(super) fn nobody(&self) -> u32 {
        self.slots as u32
    }

    /// Takes in rows: the slot of each, and what is to be added there to each sum, none of which is further from zero than
    /// `magnitude`.
    pub(super) fn add(&mut self, slots: &[u32], values: &[&[i64]], magnitude: u64) {
        let fits = (slots.len() as u64).checked_mul(magnitude).is_some_and(|most| i64::try_from(most).is_ok());
        if !fits || self.slots > slots.len() {
            for_width!(self.width, W => add_rows::<i128, W>(slots, values, &mut self.all));
            return;
        }
        self.of_page.clear();
        self.of_page.resize(self.all.len(), 0);
        for_width!(self.width, W => add_rows::<i64, W>(slots, values, &mut self.of_page));
        self.all.iter_mut().zip(&self.of_page).for_each(|(all, of_page)| *all = all.wrapping_add((*of_page).into()));
    }

    /// Gives slots their new numbers.
    pub(super) fn renumber(&mut self, before: &[usize], now: &[usize]) {
        let slots = now.iter().product();
        let mut all = vec![0; (slots + 1) * self.width];
        for slot in self.used() {
            let to = moved(slot, before, now) * self.width;
            all[to..to + self.width].copy_from_slice(&self.all[slot * self.width..(slot + 1) * self.width]);
        }
        (self.all, self.slots) = (all, slots);
    }

    /// The slots that have rows, ascending.
    pub(super) fn used(&self) -> Vec<usize> {
        (0..self.slots).filter(|slot| self.all[slot * self.width] != 0).collect()
    }

    /// How many rows a slot has.
    pub(super) fn count(&self, slot: usize) -> i128 {
        self.all[slot * self.width]
    }

    pub(super) fn sum(&self, slot: usize, sum: usize) -> i128 {
        self.all[slot * self.width + 1 + sum]
    }
}

/// A slot has `W` numbers: how many rows, and sums of all but the first of these values.
fn add_rows<T: Copy + From<i64> + std::ops::AddAssign, const W: usize>(slots: &[u32], values: &[&[i64]], to: &mut [T]) {
    let mut columns: [&[i64]; W] = [&[]; W];
    for (column, values) in columns.iter_mut().skip(1).zip(values) {
        // All of one length, which is looked at once.
        *column = &values[..slots.len()];
    }
    let (numbers, _) = to.as_chunks_mut::<W>();
    for (row, &slot) in slots.iter().enumerate() {
        let Some(numbers) = numbers.get_mut(slot as usize) else { continue };
        numbers[0] += T::from(1);
        for at in 1..W {
            numbers[at] += T::from(columns[at][row]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same, row by row.
    fn expected(slots: &[u32], values: &[Vec<i64>], slot: u32) -> (i128, Vec<i128>) {
        let of_slot = |row: &usize| slots[*row] == slot;
        let count = (0..slots.len()).filter(of_slot).count() as i128;
        let sum = |values: &Vec<i64>| (0..slots.len()).filter(of_slot).map(|row| i128::from(values[row])).sum();
        (count, values.iter().map(sum).collect())
    }

    #[test]
    fn sums_are_exact_whether_or_not_a_page_of_them_fits_into_64_bits() {
        let mut random = fastrand_of(7);
        for (sums, slot_count, most) in
            [(0, 1, 1), (1, 3, 1000), (5, 6, 1 << 40), (5, 6, 1 << 61), (3, 5000, 1 << 50), (11, 2, 9)]
        {
            let mut all = Sums::new(sums, slot_count);
            let (mut slots, mut values) = (Vec::new(), vec![Vec::new(); sums]);
            for _ in 0..5 {
                let of_page: Vec<u32> = (0..1000).map(|_| random(slot_count as u64 + 1) as u32).collect();
                let of_sums: Vec<Vec<i64>> =
                    (0..sums).map(|_| (0..1000).map(|_| random(2 * most) as i64 - most as i64).collect()).collect();
                all.add(&of_page, &of_sums.iter().map(Vec::as_slice).collect::<Vec<_>>(), most);
                slots.extend(of_page);
                values.iter_mut().zip(of_sums).for_each(|(values, of_page)| values.extend(of_page));
            }
            for slot in 0..slot_count {
                let (count, of_slot) = expected(&slots, &values, slot as u32);
                assert_eq!(all.count(slot), count, "{sums} sums, slot {slot}");
                assert!((0..sums).all(|sum| all.sum(slot, sum) == of_slot[sum]), "{sums} sums, slot {slot}");
            }
        }
    }

    #[test]
    fn slots_keep_what_they_have_when_their_numbers_change() {
        let (before, now) = ([2, 3], [4, 12]);
        let mut sums = Sums::new(1, 6);
        let slots: Vec<u32> = (0..6).collect();
        sums.add(&slots, &[&[10, 11, 12, 13, 14, 15]], 15);
        sums.renumber(&before, &now);
        assert_eq!(sums.used(), [0, 1, 2, 12, 13, 14]);
        assert_eq!(sums.sum(13, 0), 14);
    }

    fn fastrand_of(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut random = ishigaki_base::random::Seed(seed).generator();
        move |below| random.u64(..below)
    }
}
