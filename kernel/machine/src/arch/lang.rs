//! What the language asks of a program without the host's library.

use core::panic::PanicInfo;

use crate::mm::heap::Heap;

#[global_allocator]
static HEAP: Heap = Heap;

// Linked beside the entries: tools/cli/src/bench/slowed.rs lets them branch here, and a branch of
// RISC-V reaches 1 MiB.
#[panic_handler]
#[unsafe(link_section = ".text.panic")]
fn panic(info: &PanicInfo) -> ! {
    crate::panic::panic(info)
}
