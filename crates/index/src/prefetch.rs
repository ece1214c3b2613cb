//! Asking for memory before it is needed.

#![allow(unsafe_code, reason = "the instruction takes an address")]

/// Cache lines of one thing that are asked for at most: behind them the processor goes on by itself.
const MOST: usize = 8;

/// Asks for the memory of something that will be looked at soon.
#[inline]
pub fn prefetch_soon<T: ?Sized>(thing: &T) {
    prefetch(std::ptr::from_ref(thing).addr() as u64, size_of_val(thing).div_ceil(64).min(MOST));
}

/// Asks for `lines` cache lines from `address` on. Any address will do: nothing is read.
#[inline]
pub(crate) fn prefetch(address: u64, lines: usize) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    for line in 0..lines {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at = std::ptr::without_provenance::<i8>(address as usize).wrapping_add(64 * line);
        // SAFETY: the instruction reads nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = (address, lines);
}
