//! Numbers of a fixed size, as what orders them.
//!
//! Every type of this kind has an integer that is ordered as its values are: an integer itself, a floating-point
//! number its bits turned so that they follow IEEE 754's total order. Bounds and packed differences are taken there,
//! so that there is one way for all of them.

use arrow_buffer::ArrowNativeType;

use crate::bits::Word;

/// A number that a column may be made of.
pub(crate) trait Number: ArrowNativeType {
    /// The integer that stands for it and is ordered as it is.
    type Ordered: Copy + Ord + Default + Send + std::fmt::Debug;
    /// What packed differences are unpacked to.
    type Difference: Word;
    /// Its size in bytes.
    const SIZE: usize;

    /// As what orders it.
    fn ordered(self) -> Self::Ordered;
    /// Back from what orders it.
    fn from_ordered(ordered: Self::Ordered) -> Self;
    /// How far `ordered` is above `reference`, which is not above it; none if 64 bits do not hold it.
    fn difference(ordered: Self::Ordered, reference: Self::Ordered) -> Option<u64>;
    /// The lowest bits of how far `ordered` is above `reference`.
    fn distance(ordered: Self::Ordered, reference: Self::Ordered) -> u64;
    /// What is `difference` above `reference`.
    fn above(reference: Self::Ordered, difference: Self::Difference) -> Self;
    /// True if what is any difference of that width above `reference` has zeros in its upper half, and that is of use.
    fn stays_small(_reference: Self::Ordered, _width: u8) -> bool {
        false
    }
    /// As [`above`](Self::above), if that [stays small](Self::stays_small).
    #[inline]
    fn above_small(reference: Self::Ordered, difference: Self::Difference) -> Self {
        Self::above(reference, difference)
    }
    /// What orders it, widened.
    fn widened(ordered: Self::Ordered) -> i128;
    /// Back from what was widened; none if it does not fit.
    fn narrowed(wide: i128) -> Option<Self::Ordered>;
    /// The lowest bits of what was widened.
    fn truncated(wide: u128) -> Self::Ordered;
    /// Appends its bytes.
    fn put(self, out: &mut Vec<u8>);
    /// Appends all numbers whose bytes these are, one after the other.
    fn get_all(bytes: &[u8], out: &mut Vec<Self>);
}

/// What integers and floating-point numbers share: their bytes.
macro_rules! bytes_of_a_number {
    ($native:ty) => {
        const SIZE: usize = size_of::<$native>();

        #[inline]
        fn put(self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.to_le_bytes());
        }

        fn get_all(bytes: &[u8], out: &mut Vec<Self>) {
            let (numbers, _) = bytes.as_chunks::<{ size_of::<$native>() }>();
            out.extend(numbers.iter().map(|bytes| <$native>::from_le_bytes(*bytes)));
        }
    };
}

/// What is said of the integer that orders a number.
macro_rules! order_of_a_number {
    ($ordered:ty, $difference:ty) => {
        type Ordered = $ordered;
        type Difference = $difference;

        #[inline]
        fn difference(ordered: $ordered, reference: $ordered) -> Option<u64> {
            u64::try_from(i128::from(ordered).wrapping_sub(i128::from(reference))).ok()
        }

        #[inline]
        fn distance(ordered: $ordered, reference: $ordered) -> u64 {
            u64::from(ordered.wrapping_sub(reference) as $difference)
        }

        #[inline]
        fn widened(ordered: $ordered) -> i128 {
            i128::from(ordered)
        }

        #[inline]
        fn narrowed(wide: i128) -> Option<$ordered> {
            wide.try_into().ok()
        }

        #[inline]
        fn truncated(wide: u128) -> $ordered {
            wide as $ordered
        }
    };
}

/// What integers have: they order themselves.
macro_rules! number_of_an_integer {
    ($native:ty, $difference:ty) => {
        bytes_of_a_number!($native);
        order_of_a_number!($native, $difference);

        #[inline]
        fn ordered(self) -> $native {
            self
        }

        #[inline]
        fn from_ordered(ordered: $native) -> Self {
            ordered
        }

        #[inline]
        fn above(reference: $native, difference: $difference) -> Self {
            reference.wrapping_add(difference as $native)
        }
    };
}

macro_rules! integers {
    ($($native:ty, $difference:ty;)*) => { $(
        impl Number for $native {
            number_of_an_integer!($native, $difference);
        }
    )* };
}

impl Number for i128 {
    number_of_an_integer!(i128, u64);

    /// Prices, quantities and the like: added as numbers of half the size, two at a time.
    fn stays_small(reference: i128, width: u8) -> bool {
        let largest = (1_i128 << width.min(64)) - 1;
        reference >= 0 && reference.checked_add(largest).is_some_and(|sum| u64::try_from(sum).is_ok())
    }

    #[inline]
    fn above_small(reference: i128, difference: u64) -> Self {
        i128::from((reference as u64).wrapping_add(difference))
    }
}

integers! {
    i8, u8;
    i16, u16;
    i32, u32;
    i64, u64;
    u8, u8;
    u16, u16;
    u32, u32;
    u64, u64;
}

macro_rules! floats {
    ($($native:ty, $ordered:ty, $difference:ty;)*) => { $(
        impl Number for $native {
            bytes_of_a_number!($native);
            order_of_a_number!($ordered, $difference);

            /// Turns all bits but the sign of a negative number, so that a larger magnitude is smaller.
            #[inline]
            fn ordered(self) -> $ordered {
                let bits = self.to_bits() as $ordered;
                bits ^ ((bits >> (<$ordered>::BITS - 1)) & <$ordered>::MAX)
            }

            #[inline]
            fn from_ordered(ordered: $ordered) -> Self {
                <$native>::from_bits((ordered ^ ((ordered >> (<$ordered>::BITS - 1)) & <$ordered>::MAX)) as _)
            }

            #[inline]
            fn above(reference: $ordered, difference: $difference) -> Self {
                Self::from_ordered(reference.wrapping_add(difference as $ordered))
            }
        }
    )* };
}

floats! {
    f32, i32, u32;
    f64, i64, u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floating_point_numbers_are_ordered_in_ieee_754s_total_order_and_come_back() {
        let rising =
            [-f64::NAN, f64::NEG_INFINITY, -1.5, -f64::MIN_POSITIVE, -0.0, 0.0, 1e-300, 1.5, f64::INFINITY, f64::NAN];
        for pair in rising.windows(2) {
            assert!(pair[0].ordered() < pair[1].ordered(), "{pair:?}");
        }
        for number in rising {
            assert_eq!(f64::from_ordered(number.ordered()).to_bits(), number.to_bits());
            assert_eq!(f32::from_ordered((number as f32).ordered()).to_bits(), (number as f32).to_bits());
        }
    }

    #[test]
    fn differences_reach_over_the_whole_type_and_no_further_than_64_bits() {
        assert_eq!(i64::difference(i64::MAX, i64::MIN), Some(u64::MAX));
        assert_eq!(i64::above(i64::MIN, u64::MAX), i64::MAX);
        assert_eq!(i8::above(-128, 255), 127);
        assert_eq!(i128::difference(1 << 64, 0), None);
        assert_eq!(i128::above(-5, u64::MAX), i128::from(u64::MAX) - 5);
    }

    #[test]
    fn numbers_of_half_the_size_are_added_as_such_only_if_all_of_them_are() {
        let most = i128::from(u64::MAX);
        assert!(i128::stays_small(0, 64) && i128::stays_small(most, 0) && i128::stays_small(most - 255, 8));
        assert!(!i128::stays_small(1, 64) && !i128::stays_small(-1, 8) && !i128::stays_small(most - 254, 8));
        assert!(!i128::stays_small(i128::MAX, 64) && !i64::stays_small(0, 1));
        assert_eq!(i128::above_small(most - 255, 255), i128::above(most - 255, 255));
    }
}
