//! An allocator for one question: it gives out memory one piece after the other and never frees it, because the instance is dropped after the answer.
//!
//! It has a tenth of the code of a general allocator and needs a third of the fuel.

use core::{
    alloc::{GlobalAlloc, Layout},
    arch::wasm32,
    ptr,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

const PAGE: usize = 65_536;

/// The address of the next piece and the end of the memory. Both are 0 until the first piece. They are atomic only because a static has to be.
struct Bump {
    next: AtomicUsize,
    end: AtomicUsize,
}

#[global_allocator]
static BUMP: Bump = Bump { next: AtomicUsize::new(0), end: AtomicUsize::new(0) };

#[allow(unsafe_code, reason = "an allocator cannot be written without; every address comes from `reach`")]
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (start, stop) = self.piece(layout);
        // Before the first piece there is no memory to give out, so that most pieces need one comparison only.
        if stop != 0 && stop <= self.end.load(Relaxed) {
            self.next.store(stop, Relaxed);
            return start as *mut u8;
        }
        self.first_or_growing(layout)
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let last = old as usize + layout.size() == self.next.load(Relaxed);
        match (old as usize).checked_add(size) {
            // The last piece grows or shrinks in place.
            Some(stop) if last => {
                if self.reach(stop) {
                    old
                } else {
                    ptr::null_mut()
                }
            }
            _ if size <= layout.size() => old,
            // SAFETY: the new piece is fresh, so it does not overlap, and both are at least as long as the old one.
            _ => unsafe {
                let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                if !new.is_null() {
                    ptr::copy_nonoverlapping(old, new, layout.size());
                }
                new
            },
        }
    }
}

impl Bump {
    /// Where the next piece would begin and end. It ends at 0 if there is no such address.
    fn piece(&self, layout: Layout) -> (usize, usize) {
        // An alignment is a power of two.
        let mask = layout.align() - 1;
        let start = self.next.load(Relaxed).checked_add(mask).map(|start| start & !mask);
        start.and_then(|start| Some((start, start.checked_add(layout.size())?))).unwrap_or((0, 0))
    }

    #[cold]
    fn first_or_growing(&self, layout: Layout) -> *mut u8 {
        #[allow(unsafe_code, reason = "the linker's symbol; only its address is taken")]
        unsafe extern "C" {
            static __heap_base: u8;
        }
        if self.end.load(Relaxed) == 0 {
            self.next.store(&raw const __heap_base as usize, Relaxed);
            self.end.store(wasm32::memory_size(0) * PAGE, Relaxed);
        }
        match self.piece(layout) {
            (_, 0) => ptr::null_mut(),
            (start, stop) if self.reach(stop) => start as *mut u8,
            _ => ptr::null_mut(),
        }
    }

    /// Gives out everything before `stop`, and grows the memory if necessary.
    fn reach(&self, stop: usize) -> bool {
        let end = self.end.load(Relaxed);
        if stop > end {
            let least = (stop - end).div_ceil(PAGE);
            // The memory grows by half, so that a thousand members need few calls, or only by the necessary size if the host refuses that.
            let ample = least.max(end / PAGE / 2);
            let grown = [ample, least].into_iter().find(|pages| wasm32::memory_grow(0, *pages) != usize::MAX);
            match grown {
                Some(pages) => self.end.store(end + pages * PAGE, Relaxed),
                None => return false,
            }
        }
        self.next.store(stop, Relaxed);
        true
    }
}
