//! Language items for a program without the standard library.

use core::panic::PanicInfo;

use crate::mm::heap::Heap;

#[global_allocator]
static HEAP: Heap = Heap;

// Linked next to the entries: tools/cli/src/bench/slowed.rs makes them branch here, and a RISC-V
// branch reaches 1 MiB.
#[panic_handler]
#[unsafe(link_section = ".text.panic")]
fn panic(info: &PanicInfo) -> ! {
    crate::panic::panic(info)
}
