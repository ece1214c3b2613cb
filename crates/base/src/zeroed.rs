//! Rows of things that begin as zeros: memory is touched only where it is used, and large rows lie in huge pages.
//!
//! What comes from the allocator as zeros is no work for anybody until it is written to, so a row may be made far longer
//! than what will be used of it soon. That is so only for ordinary alignments: here things are aligned by hand. Rows of two
//! megabytes and more ask for huge pages: who looks at a thing and misses the cache then does not miss the TLB as well.

#![cfg_attr(not(loom), allow(unsafe_code, reason = "rows are made of zeros"))]

#[cfg(not(loom))]
pub use zeros::Zeroed;

/// A thing for which zeros are a value, the one that it begins with, and which has nothing to drop. Derive
/// `zerocopy::FromZeros`, unless for the model checker, whose atomics are no zeros.
#[cfg(not(loom))]
pub trait Blank: zerocopy::FromZeros {}
#[cfg(not(loom))]
impl<T: zerocopy::FromZeros> Blank for T {}

/// A thing that begins with its default.
#[cfg(loom)]
pub trait Blank: Default {}
#[cfg(loom)]
impl<T: Default> Blank for T {}

#[cfg(not(loom))]
mod zeros {
    use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
    use std::fmt;
    use std::ops::{Deref, Range};
    use std::ptr::NonNull;
    use std::sync::OnceLock;

    use super::Blank;

    /// A huge page.
    const HUGE: usize = 2 << 20;

    /// Bytes of a page of this system's memory: 4 KiB on most, 16 or 64 KiB on some. `None` if the system does not say.
    fn page() -> Option<usize> {
        static PAGE: OnceLock<Option<usize>> = OnceLock::new();
        *PAGE.get_or_init(|| page_of(&std::fs::read("/proc/self/auxv").ok()?))
    }

    /// The same by what the kernel tells a new process: pairs of words, a key and its value. Key 6 is the page's size.
    fn page_of(told: &[u8]) -> Option<usize> {
        let (words, _) = told.as_chunks::<{ size_of::<usize>() }>();
        let (pairs, _) = words.as_chunks::<2>();
        let [_, page] = pairs.iter().map(|pair| pair.map(usize::from_ne_bytes)).find(|[key, _]| *key == 6)?;
        page.is_power_of_two().then_some(page)
    }

    /// What every allocator aligns to.
    const ALIGNMENT: usize = 16;

    /// A row of things that begin as zeros. Shows them by shared reference only, so they are atomics, or cells of another
    /// kind, or stay as they are.
    pub struct Zeroed<T> {
        first: NonNull<T>,
        count: usize,
        /// Bytes of the allocation before the first thing.
        before: usize,
    }

    // SAFETY: a row owns its things.
    unsafe impl<T: Send> Send for Zeroed<T> {}
    // SAFETY: it shows them by shared reference only.
    unsafe impl<T: Sync> Sync for Zeroed<T> {}

    impl<T: Blank> Zeroed<T> {
        /// So many things.
        ///
        /// # Panics
        /// If there are none, or more than an address space has room for.
        pub fn new(count: usize) -> Self {
            const { assert!(size_of::<T>() > 0 && !std::mem::needs_drop::<T>(), "a thing has bytes and nothing to drop") };
            let (layout, alignment) = layout::<T>(count);
            // SAFETY: the size is not zero.
            let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
            let before = memory.addr().get().next_multiple_of(alignment) - memory.addr().get();
            // SAFETY: less than the alignment lies before, and the allocation is that much larger than the things.
            let first = unsafe { memory.add(before) };
            advise_huge(first, count * size_of::<T>());
            Self { first: first.cast(), count, before }
        }

        /// Makes zeros of things again and gives their memory back to the system, until they are used again. False, and
        /// nothing is changed, if they do not fill whole pages, or the system does not do it.
        ///
        /// Who looks at one of them meanwhile sees it as it was, or zeros, or something of both.
        #[cfg(target_os = "linux")]
        pub fn blank(&self, things: Range<usize>) -> bool {
            let Some(row) = page().and_then(|page| self.whole_pages(things, page)) else { return false };
            let bytes = size_of_val(row);
            // SAFETY: the pages lie within the allocation, which is private memory of this process, and hold nothing but
            // these things. Zeros are a value of theirs, and they are shown by shared reference only: so to become zeros is
            // what any holder of such a reference could have done to each word of them.
            let advised = unsafe {
                rustix::mm::madvise(row.as_ptr().cast_mut().cast(), bytes, rustix::mm::Advice::LinuxDontNeed)
            };
            advised.is_ok()
        }

        /// The things, if they fill pages of that size: the system rounds up, and would make zeros of others, too.
        #[cfg(target_os = "linux")]
        fn whole_pages(&self, things: Range<usize>, page: usize) -> Option<&[T]> {
            let row = self.get(things).filter(|row| !row.is_empty())?;
            (row.as_ptr().addr().is_multiple_of(page) && size_of_val(row).is_multiple_of(page)).then_some(row)
        }

        /// The same where the system can not do it.
        #[cfg(not(target_os = "linux"))]
        pub fn blank(&self, _: Range<usize>) -> bool {
            false
        }
    }

    /// Of an allocation for so many things, and how they are aligned in it.
    fn layout<T>(count: usize) -> (Layout, usize) {
        let bytes = count.checked_mul(size_of::<T>()).filter(|bytes| *bytes > 0);
        let bytes = bytes.expect("a row has things, and fits in an address space");
        let alignment = alignment::<T>(bytes);
        let layout = Layout::from_size_align(bytes.saturating_add(alignment), ALIGNMENT);
        (layout.expect("a row fits in an address space"), alignment)
    }

    /// How a row of so many bytes is aligned.
    fn alignment<T>(bytes: usize) -> usize {
        // Rows of many pages are aligned to them, so that parts can be given back.
        let of_row = match page() {
            _ if bytes >= HUGE => HUGE,
            Some(page) if bytes >= 16 * page => page,
            _ => 1,
        };
        of_row.max(align_of::<T>())
    }

    impl<T> Deref for Zeroed<T> {
        type Target = [T];

        #[inline]
        fn deref(&self) -> &[T] {
            // SAFETY: the things are aligned, lie within the allocation, and live as long as the row. They were zeros,
            // which are a value of `T`, and nobody has had one of them for himself.
            unsafe { NonNull::slice_from_raw_parts(self.first, self.count).as_ref() }
        }
    }

    impl<T> Drop for Zeroed<T> {
        fn drop(&mut self) {
            let (layout, _) = layout::<T>(self.count);
            // SAFETY: the allocation began so many bytes before; it came from the same allocator with this layout. Nothing
            // in it has anything to drop.
            unsafe { dealloc(self.first.cast::<u8>().sub(self.before).as_ptr(), layout) };
        }
    }

    impl<T> fmt::Debug for Zeroed<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Zeroed").field("count", &self.count).finish_non_exhaustive()
        }
    }

    /// Asks for huge pages, where that means something. A kernel without them refuses: slower, and no less right.
    fn advise_huge(first: NonNull<u8>, bytes: usize) {
        #[cfg(target_os = "linux")]
        if bytes >= HUGE {
            // SAFETY: the pages lie within one allocation. The advice changes only how they are backed, not what they hold.
            let _ = unsafe {
                rustix::mm::madvise(first.cast().as_ptr(), bytes / HUGE * HUGE, rustix::mm::Advice::LinuxHugepage)
            };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (first, bytes);
    }

    #[cfg(test)]
    mod tests {
        use std::sync::atomic::{AtomicU64, Ordering};

        use super::*;

        #[derive(zerocopy::FromZeros)]
        #[repr(C, align(64))]
        struct Line([AtomicU64; 8]);

        #[test]
        fn things_begin_as_zeros_and_are_aligned() {
            for count in [1, 3, 1000, 100_000] {
                let row = Zeroed::<Line>::new(count);
                assert_eq!(row.len(), count);
                assert!(row.as_ptr().addr().is_multiple_of(alignment::<Line>(count * size_of::<Line>())));
                for (at, Line(words)) in row.iter().enumerate() {
                    assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
                    for word in words {
                        word.store(at as u64, Ordering::Relaxed);
                    }
                }
                assert!(row.iter().enumerate().all(|(at, Line(words))| words[7].load(Ordering::Relaxed) == at as u64));
            }
        }

        #[test]
        #[cfg(target_os = "linux")]
        fn things_become_zeros_again_if_they_fill_pages() {
            let of_page = page().expect("Linux says it") / 64;
            let row = Zeroed::<Line>::new(32 * of_page);
            row.iter().for_each(|Line(words)| words[3].store(7, Ordering::Relaxed));
            assert!(!row.blank(0..of_page - 1) && !row.blank(1..of_page + 1) && !row.blank(of_page..of_page));
            assert!(!row.blank(31 * of_page..32 * of_page + 1));
            assert!(row.iter().all(|Line(words)| words[3].load(Ordering::Relaxed) == 7));
            let blank = of_page..3 * of_page;
            assert!(row.blank(blank.clone()));
            for (at, Line(words)) in row.iter().enumerate() {
                let expected = if blank.contains(&at) { 0 } else { 7 };
                assert_eq!(words[3].load(Ordering::Relaxed), expected);
            }
        }

        #[test]
        #[cfg(target_os = "linux")]
        fn where_pages_are_larger_fewer_things_fill_them() {
            // Aligned for every size of a page.
            let row = Zeroed::<Line>::new(HUGE / 64);
            for page in [4096, 16 << 10, 64 << 10] {
                let of_page = page / 64;
                assert!(row.whole_pages(of_page..2 * of_page, page).is_some());
                assert!(row.whole_pages(of_page..2 * of_page - 1, page).is_none());
                assert!(row.whole_pages(of_page / 2..of_page + of_page / 2, page).is_none());
            }
            assert!(row.whole_pages(64..128, 4096).is_some() && row.whole_pages(64..128, 64 << 10).is_none());
        }

        #[test]
        fn the_size_of_a_page_is_what_the_kernel_tells() {
            let told = |words: &[usize]| page_of(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>());
            assert_eq!(told(&[3, 17, 6, 65536, 0, 0]), Some(65536));
            assert_eq!((told(&[3, 6, 0, 0]), told(&[6]), told(&[6, 5]), told(&[])), (None, None, None, None));
        }

        #[test]
        #[should_panic(expected = "fits in an address space")]
        fn a_row_that_no_address_space_has_room_for_is_refused() {
            drop(Zeroed::<Line>::new(usize::MAX / 4));
        }
    }
}

/// A row of things.
#[cfg(loom)]
#[derive(Debug)]
pub struct Zeroed<T>(Box<[T]>);

#[cfg(loom)]
impl<T: Blank> Zeroed<T> {
    /// So many things.
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| T::default()).collect())
    }

    /// The model has no memory to give back.
    pub fn blank(&self, _: std::ops::Range<usize>) -> bool {
        false
    }
}

#[cfg(loom)]
impl<T> std::ops::Deref for Zeroed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}
