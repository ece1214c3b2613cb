//! Numbers of few bits, packed densely.
//!
//! Value `i` of a run of width `W` takes the bits from `i * W` on, lowest first, in a row of little-endian words of 64
//! bits. So 64 values take exactly `W` words, a *block*, and any value can be read by itself. The last block of a run
//! has only the words it needs.
//!
//! A block is packed and unpacked by code that was compiled for its width: all shifts and masks are constants.
//! Libraries for this, `fastlanes` above all, work in blocks of 128 or 1024 values; a page of 4 KiB has fewer than a
//! hundred rows.

/// How many values a block has.
pub(crate) const BLOCK: usize = 64;

/// Up to how many values are faster read one by one than as a block.
const FEW: usize = 8;

/// What values are unpacked to; for each there is code for each width up to its own.
pub(crate) trait Word: Copy + Default {
    /// Its bits.
    const BITS: u8;
    /// The lowest of these bits.
    fn of(bits: u64) -> Self;
    /// True from `low` on, up to what is `span` above it.
    fn is_within(self, low: Self, span: Self) -> bool;
}

macro_rules! words {
    ($($word:ty)*) => { $(
        impl Word for $word {
            const BITS: u8 = <$word>::BITS as u8;

            #[inline]
            fn of(bits: u64) -> Self {
                bits as Self
            }

            #[inline]
            fn is_within(self, low: Self, span: Self) -> bool {
                self.wrapping_sub(low) <= span
            }
        }
    )* };
}

words!(u8 u16 u32 u64);

/// The width that holds every number up to `largest`, in bits; 0 if there is nothing to tell.
pub(crate) fn width_of(largest: u64) -> u8 {
    (u64::BITS - largest.leading_zeros()) as u8
}

/// How many bytes a run takes: whole words.
pub(crate) fn packed_len(count: usize, width: u8) -> usize {
    (count * usize::from(width)).div_ceil(64) * 8
}

/// A run of packed numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    words: &'a [u8],
    width: u8,
    count: usize,
}

impl<'a> Packed<'a> {
    /// The run at the beginning of `bytes`, and what follows it. None if it is not all there or its width is beyond 64.
    pub(crate) fn split(bytes: &'a [u8], count: usize, width: u8) -> Option<(Self, &'a [u8])> {
        if width > 64 {
            return None;
        }
        let (words, rest) = bytes.split_at_checked(packed_len(count, width))?;
        Some((Self { words, width, count }, rest))
    }

    /// Hands all values to `take`, in turns of at most a block. Of wider ones it gives the lowest bits.
    #[inline]
    pub(crate) fn unpack<U: Word>(self, mut take: impl FnMut(&[U])) {
        let mut block = [U::default(); BLOCK];
        if self.width == 0 {
            for start in (0..self.count).step_by(BLOCK) {
                take(&block[..BLOCK.min(self.count - start)]);
            }
            return;
        }
        let unpack = unpacker::<U>(self.width);
        let stride = usize::from(self.width) * 8;
        let (whole, last) = self.words.split_at(self.count / BLOCK * stride);
        for words in whole.chunks_exact(stride) {
            unpack(words, &mut block);
            take(&block);
        }
        let left = self.count % BLOCK;
        if left > 0 && left <= FEW {
            for (value, index) in block.iter_mut().zip(self.count - left..self.count) {
                *value = U::of(self.get(index));
            }
            take(&block[..left]);
        } else if left > 0 {
            let mut words = [0; BLOCK * 8];
            words[..last.len()].copy_from_slice(last);
            unpack(&words[..stride], &mut block);
            take(&block[..left]);
        }
    }

    /// The value at `index`, which must be below the run's length.
    #[inline]
    pub(crate) fn get(self, index: usize) -> u64 {
        if self.width == 0 {
            return 0;
        }
        let (bit, width) = (index * usize::from(self.width), u32::from(self.width));
        let word = |at: usize| {
            self.words.get(at * 8..).and_then(|rest| rest.first_chunk()).map_or(0, |w| u64::from_le_bytes(*w))
        };
        let shift = (bit % 64) as u32;
        let mut value = word(bit / 64) >> shift;
        if shift + width > 64 {
            value |= word(bit / 64 + 1) << (64 - shift);
        }
        value & (u64::MAX >> (64 - width))
    }
}

/// Appends numbers below `2^width`, `next` giving them in their order, to `out`.
pub(crate) fn pack(count: usize, width: u8, mut next: impl FnMut(usize) -> u64, out: &mut Vec<u8>) {
    let end = out.len() + packed_len(count, width);
    if width == 0 {
        return;
    }
    let pack = packer(width);
    let mut words = [0; BLOCK];
    for start in (0..count).step_by(BLOCK) {
        let mut values = [0; BLOCK];
        for (value, index) in values.iter_mut().zip(start..count) {
            *value = next(index);
        }
        pack(&values, &mut words);
        let needed = usize::from(width).min((end - out.len()) / 8);
        out.extend(words[..needed].iter().flat_map(|word| word.to_le_bytes()));
    }
}

/// Does `$step` for each number from 0 to 63, each as a constant.
macro_rules! each_of_a_block {
    ($step:ident) => {
        each_of_a_block!(@ $step 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63)
    };
    (@ $step:ident $($index:literal)*) => { $($step!($index);)* };
}

/// Chooses among functions of a constant width.
macro_rules! by_width {
    ($width:expr, $W:ident => $function:expr) => {
        by_width!(@ $width, $W => $function,
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
            33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63)
    };
    (@ $width:expr, $W:ident => $function:expr, $($literal:literal)*) => {
        match $width {
            $($literal => { const $W: usize = $literal; $function })*
            _ => { const $W: usize = 64; $function }
        }
    };
}

/// The bits of a value of this width.
const fn mask(width: usize) -> u64 {
    u64::MAX >> (64 - width)
}

type Unpacker<U> = fn(&[u8], &mut [U; BLOCK]);

fn unpacker<U: Word>(width: u8) -> Unpacker<U> {
    by_width!(width, W => {
        // No code for widths that the type has not.
        if const { W > U::BITS as usize } { |_, _| {} } else { unpack_block::<U, W> }
    })
}

/// Takes exactly `W` words apart.
fn unpack_block<U: Word, const W: usize>(bytes: &[u8], out: &mut [U; BLOCK]) {
    let Ok(words) = <&[[u8; 8]; W]>::try_from(bytes.as_chunks().0) else { return };
    macro_rules! step {
        ($index:literal) => {{
            const INDEX: usize = $index;
            let (word, shift) = (INDEX * W / 64, INDEX * W % 64);
            let mut value = u64::from_le_bytes(words[word]) >> shift;
            if shift + W > 64 {
                value |= u64::from_le_bytes(words[word + 1]) << (64 - shift);
            }
            out[INDEX] = U::of(value & mask(W));
        }};
    }
    each_of_a_block!(step);
}

type Packer = fn(&[u64; BLOCK], &mut [u64; BLOCK]);

fn packer(width: u8) -> Packer {
    by_width!(width, W => pack_block::<W>)
}

/// Puts 64 values together in the first `W` words.
fn pack_block<const W: usize>(values: &[u64; BLOCK], words: &mut [u64; BLOCK]) {
    words[..W].fill(0);
    macro_rules! step {
        ($index:literal) => {{
            const INDEX: usize = $index;
            let (word, shift) = (INDEX * W / 64, INDEX * W % 64);
            let value = values[INDEX] & mask(W);
            words[word] |= value << shift;
            if shift + W > 64 {
                words[word + 1] |= value >> (64 - shift);
            }
        }};
    }
    each_of_a_block!(step);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(width: u8, count: usize) -> Vec<u64> {
        let mut random = fastrand::Rng::with_seed(u64::from(width));
        (0..count).map(|_| if width == 0 { 0 } else { random.u64(..) & mask(width.into()) }).collect()
    }

    #[test]
    fn every_width_and_length_reads_back_as_a_whole_and_one_by_one() {
        for width in 0..=64 {
            for count in [0, 1, 63, 64, 65, 200] {
                let numbers = numbers(width, count);
                let mut bytes = Vec::new();
                pack(count, width, |index| numbers[index], &mut bytes);
                assert_eq!(bytes.len(), packed_len(count, width), "width {width}, {count} numbers");
                assert!(width == 0 || count == 0 || Packed::split(&bytes[1..], count, width).is_none());
                let (packed, rest) = Packed::split(&bytes, count, width).expect("all there");
                assert!(rest.is_empty());
                let mut back = Vec::new();
                packed.unpack::<u64>(|block| back.extend_from_slice(block));
                assert_eq!(back, numbers, "width {width}, {count} numbers");
                assert!((0..count).all(|index| packed.get(index) == numbers[index]), "width {width}, {count} numbers");
            }
        }
    }

    #[test]
    fn each_word_has_all_of_its_widths() {
        fn check<U: Word + Into<u64>>() {
            for width in 1..=U::BITS {
                let (numbers, mut bytes, mut back) = (numbers(width, 64), Vec::new(), Vec::new());
                pack(64, width, |index| numbers[index], &mut bytes);
                let (packed, _) = Packed::split(&bytes, 64, width).expect("all there");
                packed.unpack::<U>(|block| back.extend(block.iter().map(|&word| word.into())));
                assert_eq!(back, numbers, "width {width}");
            }
        }
        check::<u8>();
        check::<u16>();
        check::<u32>();
        check::<u64>();
    }

    #[test]
    fn a_value_takes_the_bits_from_its_index_times_the_width_on() {
        let mut bytes = Vec::new();
        pack(5, 12, |index| [0x123, 0x456, 0x789, 0xabc, 0xdef][index], &mut bytes);
        assert_eq!(bytes, [0x23, 0x61, 0x45, 0x89, 0xc7, 0xab, 0xef, 0x0d]);
    }

    #[test]
    fn a_width_beyond_64_is_refused() {
        assert!(Packed::split(&[0; 1000], 1, 65).is_none());
        assert_eq!([0, 1, 2, 255, 256, u64::MAX].map(width_of), [0, 1, 2, 8, 9, 64]);
    }
}
