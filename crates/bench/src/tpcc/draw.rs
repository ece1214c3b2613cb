//! What TPC-C draws: skewed numbers, last names, texts (clauses 2.1.6, 4.3.2).

use fastrand::Rng;

use super::Scale;

/// The syllables of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// What a last name has at most: three syllables of five letters.
pub(super) type LastName = [u8; 16];

/// Last names that there are.
pub(super) const LAST_NAMES: u32 = 1000;

const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The constants C of `NURand`, one for each of its ranges: they say which names, customers and items are drawn often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constants {
    pub(super) last_name: u32,
    pub(super) customer: u32,
    pub(super) item: u32,
}

impl Constants {
    /// Those that a database is filled with.
    pub(super) fn load(random: &mut Rng) -> Self {
        Self { last_name: random.u32(0..=255), customer: random.u32(0..=1023), item: random.u32(0..=8191) }
    }

    /// Those that transactions are drawn with. The names' differs from the load's as clause 2.1.6.1 asks: by 65 to 119,
    /// and neither 96 nor 112.
    pub(super) fn run(self, random: &mut Rng) -> Self {
        loop {
            let run = Self::load(random);
            let delta = run.last_name.abs_diff(self.last_name);
            if (65..=119).contains(&delta) && delta != 96 && delta != 112 {
                return run;
            }
        }
    }

    /// The number of a last name: NURand(255, 0, 999). Where there are fewer customers, only of those that one of them has.
    pub(super) fn draw_last_name(self, scale: Scale, random: &mut Rng) -> u32 {
        nurand(random, 255, self.last_name, 0, scale.customers.min(LAST_NAMES) - 1)
    }

    /// A customer: NURand(1023, 1, 3000).
    pub(super) fn draw_customer(self, scale: Scale, random: &mut Rng) -> u32 {
        nurand(random, 1023, self.customer, 1, scale.customers)
    }

    /// An item: NURand(8191, 1, 100000).
    pub(super) fn draw_item(self, scale: Scale, random: &mut Rng) -> u32 {
        nurand(random, 8191, self.item, 1, scale.items)
    }
}

/// A number from `x` to `y`, some far more often than others (clause 2.1.6).
pub(crate) fn nurand(random: &mut Rng, a: u32, c: u32, x: u32, y: u32) -> u32 {
    ((random.u32(0..=a) | random.u32(x..=y)) + c) % (y - x + 1) + x
}

/// The last name of that number, from 0 to 999.
pub(super) fn last_name(number: u32) -> LastName {
    let digits = [number / 100 % 10, number / 10 % 10, number % 10];
    let name: String = digits.iter().map(|&digit| SYLLABLES[digit as usize]).collect();
    padded(name.as_bytes())
}

/// A text with zeros behind it; what is too long is cut off.
pub(super) fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    let length = text.len().min(N);
    padded[..length].copy_from_slice(&text[..length]);
    padded
}

/// Letters and digits, at least so many and at most as many as fit.
pub(super) fn letters<const N: usize>(random: &mut Rng, least: usize) -> [u8; N] {
    let mut text = [0; N];
    let length = random.usize(least..=N);
    text[..length].fill_with(|| LETTERS[random.usize(0..LETTERS.len())]);
    text
}

/// As many digits as fit.
pub(super) fn digits<const N: usize>(random: &mut Rng) -> [u8; N] {
    std::array::from_fn(|_| random.u8(b'0'..=b'9'))
}

/// Letters of which one text in ten has `ORIGINAL` somewhere (clause 4.3.3.1).
pub(super) fn original(random: &mut Rng) -> [u8; 50] {
    let mut text: [u8; 50] = letters(random, 26);
    if random.u8(0..10) == 0 {
        let length = text.iter().position(|&letter| letter == 0).unwrap_or(text.len());
        let at = random.usize(0..=length - ORIGINAL.len());
        text[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    text
}

const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// Whether a text has it.
pub(super) fn is_original(text: &[u8]) -> bool {
    text.windows(ORIGINAL.len()).any(|part| part == ORIGINAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;

    #[test]
    fn last_names_are_three_syllables() {
        let name = |number| String::from_utf8(last_name(number).to_vec()).unwrap().trim_end_matches('\0').to_owned();
        assert_eq!(name(0), "BARBARBAR");
        assert_eq!(name(371), "PRICALLYOUGHT");
        assert_eq!(name(999), "EINGEINGEING");
        let all: std::collections::BTreeSet<String> = (0..LAST_NAMES).map(name).collect();
        assert_eq!(all.len(), 1000);
    }

    #[test]
    fn skewed_numbers_stay_in_their_range_and_reach_its_ends() {
        let mut random = Seed(1).generator();
        let constants = Constants::load(&mut random);
        let scale = Scale { items: 200, customers: 30, ..Scale::SPECIFICATION };
        for (scale, names, customers, items) in [(Scale::SPECIFICATION, 999, 3000, 100_000), (scale, 29, 30, 200)] {
            let all: Vec<[u32; 3]> = (0..400_000)
                .map(|_| {
                    let name = constants.draw_last_name(scale, &mut random);
                    [name, constants.draw_customer(scale, &mut random), constants.draw_item(scale, &mut random)]
                })
                .collect();
            let ends = |place: usize| {
                let of_place = all.iter().map(|drawn| drawn[place]);
                (of_place.clone().min().unwrap(), of_place.max().unwrap())
            };
            assert_eq!((ends(0), ends(1)), ((0, names), (1, customers)));
            // Of a hundred thousand some are drawn so seldom that none of these may be.
            let (least, most) = ends(2);
            assert!((1..100).contains(&least) && most <= items && most > items - 100, "items {least} to {most}");
        }
    }

    #[test]
    fn some_numbers_are_drawn_far_more_often_than_others() {
        let mut random = Seed(2).generator();
        let constants = Constants::load(&mut random);
        let mut counts = vec![0_u32; 3001];
        let draws = 300_000;
        (0..draws).for_each(|_| counts[constants.draw_customer(Scale::SPECIFICATION, &mut random) as usize] += 1);
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let first: u32 = counts.iter().take(300).sum();
        assert!(first > draws / 3, "the most drawn tenth has {first} of {draws}");
    }

    #[test]
    fn the_runs_constant_keeps_its_distance_from_the_loads() {
        for run in 0..2000 {
            let mut random = Seed(run).generator();
            let load = Constants::load(&mut random);
            let delta = load.run(&mut random).last_name.abs_diff(load.last_name);
            assert!((65..=119).contains(&delta) && ![96, 112].contains(&delta), "{delta}");
        }
    }

    #[test]
    fn texts_have_their_lengths_and_one_in_ten_is_original() {
        let mut random = Seed(3).generator();
        let mut originals = 0;
        for _ in 0..10_000 {
            let text: [u8; 20] = letters(&mut random, 10);
            let length = text.iter().position(|&letter| letter == 0).unwrap_or(20);
            assert!(length >= 10 && text[..length].iter().all(u8::is_ascii_alphanumeric));
            assert!(text[length..].iter().all(|&letter| letter == 0));
            originals += u32::from(is_original(&original(&mut random)));
        }
        assert!((850..1150).contains(&originals), "{originals} of 10000");
        assert!(digits::<16>(&mut random).iter().all(u8::is_ascii_digit));
        assert_eq!(padded::<4>(b"abcdef"), *b"abcd");
    }
}
