//! Owns how the guest's memory is given out: small blocks from free lists by size, the rest by the standard
//! allocator. It must not shrink what it took: an instance is dropped as a whole.
//!
//! Names, events and list nodes are small, short-lived and come in a few sizes: a list pop and a push for
//! them instead of a search in bins. docs/adr/0009-speed.md says what else was done.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// Blocks come in multiples of this, and are aligned to it.
const GRAIN: usize = 16;
/// The largest block that comes from a list.
const LARGEST: usize = 512;
const CLASSES: usize = LARGEST / GRAIN;
/// What is taken from the standard allocator at a time, to be cut into blocks.
const CHUNK: Layout = match Layout::from_size_align(64 * 1024, GRAIN) {
    Ok(layout) => layout,
    Err(_) => panic!("a chunk is a layout"),
};

/// The guest's allocator.
pub struct Blocks {
    /// For each class its free blocks, each holding the address of the next.
    free: [Cell<Option<NonNull<u8>>>; CLASSES],
    /// The part of the last chunk that was never given out.
    rest: Cell<*mut u8>,
    rest_bytes: Cell<usize>,
}

// SAFETY: the module is built without threads, so there is no second one to share this with.
unsafe impl Sync for Blocks {}

impl Blocks {
    /// With nothing taken yet.
    #[must_use]
    pub const fn new() -> Blocks {
        Blocks {
            free: [const { Cell::new(None) }; CLASSES],
            rest: Cell::new(ptr::null_mut()),
            rest_bytes: Cell::new(0),
        }
    }

    /// The class of a block, none when the standard allocator serves it.
    fn class(layout: &Layout) -> Option<usize> {
        let small = layout.size() <= LARGEST && layout.align() <= GRAIN && layout.size() > 0;
        small.then(|| (layout.size() - 1) / GRAIN)
    }

    /// A block that was never used; null when there is no memory.
    #[cold]
    fn cut(&self, class: usize) -> *mut u8 {
        let size = (class + 1) * GRAIN;
        if self.rest_bytes.get() < size {
            // What is left of the old chunk is less than one block of this size: it is given up.
            // SAFETY: the layout has a size.
            let chunk = unsafe { System.alloc(CHUNK) };
            if chunk.is_null() {
                return chunk;
            }
            self.rest.set(chunk);
            self.rest_bytes.set(CHUNK.size());
        }
        let block = self.rest.get();
        self.rest_bytes.set(self.rest_bytes.get() - size);
        // SAFETY: the rest has at least `size` bytes.
        self.rest.set(unsafe { block.add(size) });
        block
    }
}

// SAFETY: a block of a class has the size of its class, lies on a grain, and is in use or in one list, never
// both; everything else is the standard allocator's. The class follows from the layout alone, which is the
// same when a block is given back.
unsafe impl GlobalAlloc for Blocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = Blocks::class(&layout) else {
            // SAFETY: passed on as it came.
            return unsafe { System.alloc(layout) };
        };
        match self.free[class].get() {
            Some(block) => {
                // SAFETY: a free block holds the address of the next one, and its grain is enough for it.
                self.free[class].set(unsafe { block.cast::<Option<NonNull<u8>>>().read() });
                block.as_ptr()
            }
            None => self.cut(class),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match (Blocks::class(&layout), NonNull::new(block)) {
            (Some(class), Some(block)) => {
                // SAFETY: the block is no longer in use and large enough for an address.
                unsafe { block.cast::<Option<NonNull<u8>>>().write(self.free[class].get()) };
                self.free[class].set(Some(block));
            }
            // SAFETY: passed on as it came.
            _ => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size fits the old alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (Blocks::class(&layout), Blocks::class(&wanted)) {
            (None, None) => {
                // SAFETY: passed on as it came.
                unsafe { System.realloc(block, layout, size) }
            }
            (old, new) if old == new => block,
            _ => {
                // SAFETY: both blocks hold the smaller of the two sizes and do not overlap.
                unsafe {
                    let moved = self.alloc(wanted);
                    if !moved.is_null() {
                        ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                    moved
                }
            }
        }
    }
}
